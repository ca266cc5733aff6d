//! What the characterization's report says that paper 001 states, and which rows it keeps.

use super::super::select::Rows;
use super::super::spec::{self, ReportSpec};
use crate::row::Row;
use crate::stats::Spread;

fn report() -> ReportSpec {
    spec::of("characterize").expect("a report")
}

#[test]
fn each_statement_has_its_section() {
    let spec = report();
    let stated = spec.derive["stated"].words.iter();
    let stated: Vec<_> = stated.filter(|(key, _)| *key != "*").collect();
    assert_eq!(stated.len(), 63);
    for (key, text) in stated {
        let (_, section) = text.rsplit_once(" (").expect("a section");
        assert!(section.starts_with(['4', '5']), "{key}: {text}");
        assert!(
            ["utpcc", "uss", "unj"].iter().any(|name| key.contains(name)),
            "{key}"
        );
    }
}

#[test]
fn the_tables_add_up_as_the_text_says() {
    let spec = report();
    for (workload, memory) in [("utpcc", 57.0), ("uss", 65.0), ("unj", 60.0)] {
        let share = |kind: &str| {
            let row = Row::measured("characterize", "mix", "percent", "%", Spread::one(1.0), true);
            let rows = [row.with("workload", workload).with("kind", kind)];
            let rows = Rows::new(&spec.derive, &rows);
            rows.number(rows.rows[0], "paper").expect("a share")
        };
        let kinds = ["load", "store", "branch", "other"];
        assert_eq!(kinds.map(share).iter().sum::<f64>(), 100.0, "{workload}");
        assert_eq!(share("load") + share("store"), memory, "{workload}");
    }
}

#[test]
fn functions_are_seven_nine_and_nine_and_found_under_names_of_today() {
    let spec = report();
    let listed = |workload: &str| {
        let words = spec.derive["listed"].words.iter();
        let own = words.filter(|(key, text)| key.starts_with(workload) && text.starts_with("listed"));
        own.count()
    };
    assert_eq!(["utpcc ", "uss ", "unj "].map(listed), [7, 9, 9]);
    let found = |workload: &str, function: &str| {
        let row = Row::measured(
            "characterize",
            "functions",
            "time_percent",
            "%",
            Spread::one(1.0),
            true,
        );
        let rows = [row.with("workload", workload).with("function", function)];
        let rows = Rows::new(&spec.derive, &rows);
        rows.word(rows.rows[0], "listed", "")
    };
    assert_eq!(
        found("unj", "FunctionCall2Coll").as_deref(),
        Some("as FunctionCall2")
    );
    let compare = found("unj", "_bt_compare.part.0").expect("listed");
    assert!(compare.starts_with("listed: 32 % of L2 misses"), "{compare}");
    assert_eq!(
        (found("unj", "memcpy"), found("sql", "LWLockAcquire")),
        (None, None)
    );
}

#[test]
fn the_fewest_and_the_most_clients_are_kept_and_components_stand_by_size() {
    let row = |component: &str, clients: usize, value| {
        let row = Row::measured(
            "characterize",
            "stalls",
            "stall_cpi",
            "count",
            Spread::one(value),
            true,
        );
        row.with("workload", "uss")
            .with("component", component)
            .with("concurrency", clients)
    };
    let rows = [
        row("l1d", 1, 0.1),
        row("l2", 1, 0.2),
        row("l1d", 4, 0.3),
        row("l1d", 10, 0.2),
        row("l2", 10, 0.4),
    ];
    let page = super::super::page("characterize", &rows, &[], false).expect("a page");
    let stalls = &page.sections[0];
    assert_eq!(
        stalls.text.last().map(String::as_str),
        Some(
            "uSS, largest first: L2 misses; L1-D misses. The paper: L2, then L1-D and almost as much DTLB; ITLB almost nothing."
        )
    );
    let table = stalls.table.as_ref().expect("a table");
    let clients: Vec<&str> = table.rows.iter().map(|cells| cells[1].as_str()).collect();
    assert_eq!(clients, ["1", "1", "10", "10"]);
    assert_eq!(table.rows[0][4], "second (5.6, Fig. 16)");
}
