//! The cases of the suite `memory-latency`: where each stands in the paper, and its name.

use crate::memory_latency::keys::Stand;

const fn stand(
    figure: &'static str,
    case: &'static str,
    operator: &'static str,
    layout: &'static str,
    stream: &'static str,
) -> Stand {
    Stand {
        figure,
        case,
        operator,
        layout,
        stream,
    }
}

const TREE: &str = "csb_tree";
const ROWS: &str = "paper_rows";
const COLUMNS: &str = "columns";

pub const FIG4A: Stand = stand("4a", "fig4a_index", "index", TREE, "clustered");
pub const FIG4B: Stand = stand("4b", "fig4b_index", "index", TREE, "clustered");
pub const FIG4C: Stand = stand("4c", "fig4c_index", "index", TREE, "clustered");
pub const FIG5_CLUSTERED: Stand = stand("5", "fig5_index_clustered", "index", TREE, "clustered");
pub const FIG5_UNCLUSTERED: Stand = stand("5", "fig5_index_unclustered", "index", TREE, "unclustered");
pub const FIG6A: Stand = stand("6a", "fig6a_index", "index", TREE, "unclustered");
pub const FIG6B: Stand = stand("6b", "fig6b_hash_join", "hash_join", ROWS, "unclustered");
pub const FIG7A: Stand = stand("7a", "fig7a_index", "index", TREE, "unclustered");
pub const FIG7B: Stand = stand("7b", "fig7b_hash_join", "hash_join", ROWS, "unclustered");
pub const FIG8: Stand = stand(
    "8",
    "fig8_mixed",
    "index_and_hash_join",
    "paper_rows",
    "unclustered",
);
pub const FIG9: Stand = stand("9", "fig9_column_join", "column_join", COLUMNS, "clustered");
pub const FIG10: Stand = stand("10", "fig10_join_index", "join_index", ROWS, "clustered");
pub const FIG11A: Stand = stand("11a", "fig11a_join_index", "join_index", ROWS, "clustered");
pub const FIG11B: Stand = stand("11b", "fig11b_join_index", "join_index", ROWS, "clustered");
pub const FIG12: Stand = stand("12", "fig12_join_index", "join_index", ROWS, "clustered");
pub const FIG13: Stand = stand(
    "13",
    "fig13_join_index_outer",
    "join_index_outer",
    ROWS,
    "clustered",
);
pub const FIG14A: Stand = stand("14a", "fig14a_hash_join", "hash_join", ROWS, "unclustered");
pub const FIG14B: Stand = stand("14b", "fig14b_hash_join", "hash_join", ROWS, "unclustered");
pub const FIG15: Stand = stand("15", "fig15_hash_join", "hash_join", ROWS, "unclustered");
pub const TABLE2: Stand = stand("table2", "table2", "all", "all", "all");
/// The appendix's helper that reads the join index itself.
pub const DIRECT: Stand = stand("direct", "direct_join_index", "join_index", ROWS, "clustered");
/// The appendix's helper that looks for lines it has just loaded.
pub const SKIPS: Stand = stand(
    "skips_duplicates",
    "skips_duplicates_join_index",
    "join_index",
    ROWS,
    "clustered",
);
/// The paper's hash table beside corun's, which the paper has no figure for.
pub const TABLES: Stand = stand("tables", "tables_hash_join", "hash_join", ROWS, "unclustered");
/// The CSB+-tree beside the standard library's B-tree.
pub const TREES: Stand = stand("trees", "trees_index", "index", TREE, "clustered");

/// All of them, in the order of the paper.
pub const ALL: [Stand; 24] = [
    FIG4A,
    FIG4B,
    FIG4C,
    FIG5_CLUSTERED,
    FIG5_UNCLUSTERED,
    FIG6A,
    FIG6B,
    FIG7A,
    FIG7B,
    FIG8,
    FIG9,
    FIG10,
    FIG11A,
    FIG11B,
    FIG12,
    FIG13,
    FIG14A,
    FIG14B,
    FIG15,
    TABLE2,
    DIRECT,
    SKIPS,
    TABLES,
    TREES,
];
