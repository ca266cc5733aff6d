//! The `floor` suite: what the machine gives at random access, on small blocks.

use corun_model::progress::Silent;
use lab_core::row::Row;
use lab_core::suite::{Common, Threads, run};

use lab_cpu::suites::floor::FloorArgs;

#[test]
fn the_floor_suite_gives_a_row_for_every_size_and_thread_count() {
    let args = FloorArgs {
        common: Common::quick(None),
        threads: Threads { threads: vec![1, 2] },
        ..FloorArgs::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = run(&args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert!(outcome.is_ok());
    assert!(rows.len() >= 2 * 4);
    for row in &rows {
        assert_eq!((row.metric.as_str(), row.answer_ok), ("ns_per_line", Some(true)));
        assert!(row.parameter("bytes").is_some() && row.parameter("threads").is_some());
    }
}
