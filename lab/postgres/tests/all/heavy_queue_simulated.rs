//! The simulated cases of the suite `heavy-queue`, quickly: TPC-H in two caches under cachegrind, answers checked, and rows that say what is left out.

use corun_model::progress::Silent;
use lab_core::figures;
use lab_core::row::{Label, Row};
use lab_core::suite::{Common, Suite, run};
use lab_postgres::heavy_queue::sim::{CASES, TPCH};

use lab_postgres::suites::heavy_queue::HeavyQueueArgs;

use crate::skipped::skipped;

#[test]
fn a_quick_run_counts_one_query_and_says_that_traces_take_minutes() {
    let args = HeavyQueueArgs {
        common: Common::quick(Some("sim_")),
        ..HeavyQueueArgs::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = run(&args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    for case in CASES {
        assert!(rows.iter().any(|row| row.case == case), "{case}");
    }
    let unavailable = |row: &&Row| row.label == Label::Unavailable;
    for row in rows.iter().filter(unavailable) {
        assert!(!row.text("reason").is_empty(), "{row:?}");
    }
    let page = figures::page(Suite::HeavyQueue.name(), &rows, &[], true);
    let html = page.expect("the suite has figures").render();
    assert!(html.contains("Unavailable here: "));
    let counted: Vec<&Row> = rows
        .iter()
        .filter(|row| row.case == TPCH && !unavailable(row))
        .collect();
    if counted.is_empty() {
        assert!(rows.iter().all(|row| unavailable(&row)));
        assert!(
            rows.iter().any(|row| row.text("reason").contains("valgrind")),
            "PostgreSQL is here"
        );
        return skipped("valgrind is not here");
    }
    assert!(
        counted
            .iter()
            .all(|row| row.label == Label::Simulated && row.answer_ok == Some(true))
    );
    let misses = |bytes: f64| {
        let found = counted
            .iter()
            .find(|row| row.metric == "miss_rate" && row.number("cache_bytes") == Some(bytes));
        found.and_then(|row| row.median()).expect("a miss rate")
    };
    let (large, small) = (misses(f64::from(1 << 20)), misses(f64::from(512 << 10)));
    assert!(0.0 < large && large <= small && small < 100.0, "{large} {small}");
    assert!(html.contains("Figure 2, simulated"));
}
