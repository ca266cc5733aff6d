//! The cases of the suite `memory-latency`: where each stands in the paper, and its name.

use crate::memory_latency::keys::Stand;

/// Makes a constant of each line, and [`ALL`] of all of them: figure, case, operator, layout, stream.
macro_rules! stands {
    ($($(#[$doc:meta])* $name:ident: $figure:literal, $case:literal, $operator:literal, $layout:expr, $stream:literal;)*) => {
        $($(#[$doc])* pub const $name: Stand = Stand {
            figure: $figure,
            case: $case,
            operator: $operator,
            layout: $layout,
            stream: $stream,
        };)*

        /// All of them, in the order of the paper.
        pub const ALL: &[Stand] = &[$($name),*];
    };
}

const TREE: &str = "csb_tree";
const ROWS: &str = "paper_rows";

stands! {
    FIG4A: "4a", "fig4a_index", "index", TREE, "clustered";
    FIG4B: "4b", "fig4b_index", "index", TREE, "clustered";
    FIG4C: "4c", "fig4c_index", "index", TREE, "clustered";
    FIG5_CLUSTERED: "5", "fig5_index_clustered", "index", TREE, "clustered";
    FIG5_UNCLUSTERED: "5", "fig5_index_unclustered", "index", TREE, "unclustered";
    FIG6A: "6a", "fig6a_index", "index", TREE, "unclustered";
    FIG6B: "6b", "fig6b_hash_join", "hash_join", ROWS, "unclustered";
    FIG7A: "7a", "fig7a_index", "index", TREE, "unclustered";
    FIG7B: "7b", "fig7b_hash_join", "hash_join", ROWS, "unclustered";
    FIG8: "8", "fig8_mixed", "index_and_hash_join", ROWS, "unclustered";
    FIG9: "9", "fig9_column_join", "column_join", "columns", "clustered";
    FIG10: "10", "fig10_join_index", "join_index", ROWS, "clustered";
    FIG11A: "11a", "fig11a_join_index", "join_index", ROWS, "clustered";
    FIG11B: "11b", "fig11b_join_index", "join_index", ROWS, "clustered";
    FIG12: "12", "fig12_join_index", "join_index", ROWS, "clustered";
    FIG13: "13", "fig13_join_index_outer", "join_index_outer", ROWS, "clustered";
    FIG14A: "14a", "fig14a_hash_join", "hash_join", ROWS, "unclustered";
    FIG14B: "14b", "fig14b_hash_join", "hash_join", ROWS, "unclustered";
    FIG15: "15", "fig15_hash_join", "hash_join", ROWS, "unclustered";
    TABLE2: "table2", "table2", "all", "all", "all";
    /// The appendix's helper that reads the join index itself.
    DIRECT: "direct", "direct_join_index", "join_index", ROWS, "clustered";
    /// The appendix's helper that looks for lines it has just loaded.
    SKIPS: "skips_duplicates", "skips_duplicates_join_index", "join_index", ROWS, "clustered";
    /// The paper's hash table beside corun's, which the paper has no figure for.
    TABLES: "tables", "tables_hash_join", "hash_join", ROWS, "unclustered";
    /// The CSB+-tree beside the standard library's B-tree.
    TREES: "trees", "trees_index", "index", TREE, "clustered";
}
