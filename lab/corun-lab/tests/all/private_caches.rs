//! `corun-lab simulate private-caches`: tables for people, rows for scripts, and what wrong arguments say.

use crate::program::{check_error, corun};
use crate::words;

/// Four cores and few queries: seconds even where tests are many.
const SMALL: [&str; 8] = [
    "simulate",
    "caric",
    "--platform",
    "intel",
    "--cores",
    "4",
    "--queries",
    "4",
];

fn run(more: &[&str]) -> crate::program::Run {
    corun(&[&SMALL[..], more].concat())
}

fn rows(more: &[&str]) -> Vec<serde_json::Value> {
    rows_of(run(&[more, &["--json"]].concat()))
}

fn rows_of(run: crate::program::Run) -> Vec<serde_json::Value> {
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let rows = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}

#[test]
fn a_table_compares_the_sides_and_says_what_the_papers_gain_would_need() {
    let run = run(&["--workload", "point"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(
        run.out.starts_with("simulated: intel (4 cores x 2 threads"),
        "{}",
        run.out
    );
    for words in [
        "os free",
        "os sticky",
        "random",
        "range",
        "private",
        "keyed",
        "A gain of 12 % (paper 004) would need",
        "keys ",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
}

#[test]
fn rows_have_stable_keys_and_are_the_same_every_time() {
    let arguments = ["--workload", "tpcw", "--dispatch", "os,range"];
    let first = rows(&arguments);
    for row in &first {
        assert_eq!(row["suite"], "caric");
        assert_eq!(row["figure"], "simulated");
        assert_eq!(row["label"], "simulated");
        assert_eq!(
            (row["cores"].as_u64(), row["threads"].as_u64()),
            (Some(4), Some(8))
        );
        assert!(matches!(row["dispatch"].as_str(), Some("os" | "range")), "{row}");
        assert!(row["median"].is_number(), "{row}");
    }
    let has = |metric: &str, dispatch: &str| {
        first
            .iter()
            .any(|row| row["metric"] == metric && row["dispatch"] == dispatch)
    };
    for metric in words(
        "l2_misses_per_query l2_miss_percent l1_misses_per_query invalidated_per_query \
        gain_percent",
    ) {
        assert!(has(metric, "os") && has(metric, "range"), "{metric}");
    }
    assert!(has("l2_misses_to_save_per_query", "os"));
    assert_eq!(first, rows(&arguments));
    assert_ne!(first, rows(&[&arguments[..], &["--seed", "2"]].concat()));
}

#[test]
fn every_option_is_heard() {
    let base = ["--workload", "point", "--dispatch", "os,range"];
    let plain = rows(&base);
    for more in [
        ["--items", "5000"],
        ["--skew", "0.99"],
        ["--l2", "512KiB"],
        ["--clients", "9"],
        ["--dispatch", "random"],
    ] {
        let kept: Vec<&str> = base
            .chunks(2)
            .filter(|pair| pair[0] != more[0])
            .flatten()
            .copied()
            .collect();
        assert_ne!(rows(&[&kept[..], &more].concat()), plain, "{more:?}");
    }
    // Of four queries none would be a Best Seller on the core that is kept for them.
    let enough = [&SMALL[..6], &["--queries", "12"]].concat();
    let more = words("--best-seller-steps 10 --dispatch range --customers 100000 --json");
    let split = rows_of(corun(&[&enough[..], &more].concat()));
    for name in ["none", "whole", "caric_1", "caric_2"] {
        let found = split
            .iter()
            .any(|row| row["split"] == name && row["query"] == "best_seller_step");
        assert!(found, "{name}");
    }
    assert!(
        rows(&["--workload", "tpcc", "--warehouses", "4"])
            .iter()
            .all(|row| row["workload"] == "tpcc")
    );
}

#[test]
fn a_sweep_goes_from_ranges_that_fit_to_ranges_that_do_not() {
    let run = run(&["--workload", "point", "--sweep", "--l2", "64KiB"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(
        run.says("range of a core") && run.says("range on random"),
        "{}",
        run.out
    );
}

#[test]
fn wrong_arguments_say_what_where_and_what_to_do() {
    for (more, primary, hint) in [
        (
            &["--workload", "tpch"][..],
            "invalid value 'tpch'",
            "point_simple",
        ),
        (&["--skew", "3"], "--skew must be between 0 and 2", ""),
        (&["--items", "0"], "must be 1 or more", ""),
        (&["--items", "999999999999"], "--items must be at most", ""),
        (&["--l2", "1000"], "the second level: ", "64 bytes"),
        (&["--l2", "1GiB"], "--l2 must be at most", ""),
        (&["--dispatch", "luck"], "invalid value 'luck'", "range"),
        (
            &["--workload", "point", "--best-seller-steps", "5"],
            "no Best Seller in point",
            "--workload tpcw",
        ),
        (&["--save", "file"], "--trace", ""),
    ] {
        check_error(&run(more), 2, primary, hint);
    }
    check_error(
        &corun(&["simulate", "caric", "--cores", "41"]),
        2,
        "no machine of 41 cores",
        "--platform",
    );
    check_error(
        &run(&["--recording", "no-such-file"]),
        1,
        "could not read no-such-file",
        "",
    );
}
