//! What the report of paper 003's suite says of rows that are made up.

use super::super::page;
use crate::row::Row;
use crate::stats::Spread;

/// A row of paper 003's suite with what its filters look at.
fn simulated(case: &str, metric: &str, mode: &str, value: f64) -> Row {
    let points = if mode == "serial" { "none" } else { "trial" };
    let row = Row::simulated("steps", case, metric, "misses", Spread::one(value), true);
    row.with("operation", "index_fetch")
        .with("mode", mode)
        .with("points", points)
}

#[test]
fn misses_are_judged_at_the_smallest_cache() {
    let row = |metric: &str, mode: &str, size: usize, l1i: &str, value| {
        let row = simulated("fig5_index_fetch", metric, mode, value);
        row.with("team_size", size).with("l1i", l1i).with("cache", "warm")
    };
    let rows = [
        row("footprint_bytes", "serial", 1, "3k/6/64", 6_912.0),
        row("l1i_misses_per_op", "held_team", 10, "32k/8/64", 0.5),
        row("l1i_misses_per_op", "held_team", 10, "3k/6/64", 11.0),
        row("reduction_percent", "held_team", 10, "32k/8/64", 1.0),
        row("reduction_percent", "held_team", 10, "3k/6/64", 89.5),
        row("member_reduction_percent", "held_team", 10, "3k/6/64", 30.0),
    ];
    let html = |rows: &[Row], quick| {
        let page = page("instruction-cache", rows, &[], quick).expect("a page");
        page.render()
    };
    let run = html(&rows, false);
    for words in [
        "Figure 5: instruction-cache misses",
        "6912 bytes of code",
        "members 10: 110 misses of all members",
        "saves 90 %. This agrees",
        "saves 30 %. The direction is the paper",
        "1 of 2",
    ] {
        assert!(run.contains(words), "{words}: {run}");
    }
    assert!(!run.contains("NaN") && !run.contains("Figure 6"));
    for rows in [&rows[..], &[]] {
        let quick = html(rows, true);
        assert!(
            quick.contains("THIS RUN WAS QUICK") && !quick.contains("agrees") && !quick.contains("<b>90")
        );
    }
}

#[test]
fn a_team_is_held_against_serial_execution_of_the_same_processor() {
    let row = |mode: &str, processor: &str, value| {
        let row = simulated("fig9_index_fetch", "branch_mispredicts_per_op", mode, value);
        row.with("l1i", "8k/2/64")
            .with("processor", processor)
            .with("divisor", 8_usize)
    };
    let rows = [
        row("serial", "today", 5.0),
        row("serial", "athlon_xp", 20.0),
        row("held_team", "athlon_xp", 8.0),
    ];
    let html = page("instruction-cache", &rows, &[], false)
        .expect("a page")
        .render();
    for words in [
        "saves 60 %. This agrees",
        "athlon xp, caches 8 times smaller (L1-I 8k/2/64)",
        "mispredictions: 40 %",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
}
