//! `corun-lab simulate llc`: tables for people, rows for scripts, and what wrong arguments say.

use crate::program::{check_error, corun};

/// Half a megabyte: seconds even where tests are many.
const SMALL: [&str; 6] = ["simulate", "llc", "--llc", "512KiB", "--private-l2", "4KiB"];

fn small(more: &[&str]) -> Vec<String> {
    SMALL.iter().chain(more).map(|text| (*text).to_owned()).collect()
}

fn run(more: &[&str]) -> crate::program::Run {
    let arguments = small(more);
    corun(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn rows(run: &crate::program::Run) -> Vec<serde_json::Value> {
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let rows = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}

#[test]
fn a_table_says_what_was_simulated_and_what_is_best() {
    let run = run(&["--ways-weak", "2,4"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(
        run.out.starts_with("simulated: 512 KiB in 16 ways"),
        "{}",
        run.out
    );
    for words in [
        "slow-down",
        "plq5:hash",
        "plq25:index",
        "moderate",
        "weak",
        "█",
        "Best for all (simulated): ",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    // Headings, a rule, and two queries in three divisions.
    let table = run.out.split("\n\n").nth(1).expect("a table");
    assert_eq!(table.lines().count(), 2 + 3 * 2, "{}", run.out);
}

#[test]
fn rows_have_stable_keys_and_are_the_same_every_time() {
    let arguments = ["--mix", "plq5:hash,scan", "--ways-weak", "1..3", "--json"];
    let first = run(&arguments);
    let all = rows(&first);
    assert_eq!(all.len(), 4 * 2 * 3);
    for row in &all {
        assert_eq!(
            (row["suite"].as_str(), row["case"].as_str()),
            (Some("simulate"), Some("llc"))
        );
        assert_eq!(row["label"], "simulated");
        assert_eq!(row["mix"], "plq5:hash,scan");
        assert!(
            row["median"].is_number() && row["table_bytes"].is_u64() && row["class"].is_string(),
            "{row}"
        );
    }
    let slow_down = |partition: &str, ways: Option<u64>| {
        let found = all.iter().find(|row| {
            row["metric"] == "slowdown"
                && row["query"] == "plq5:hash"
                && row["partition"] == partition
                && row["ways"].as_u64() == ways
        });
        found.and_then(|row| row["median"].as_f64()).expect("a row")
    };
    assert!(slow_down("none", None) > 1.2);
    assert!(slow_down("ways", Some(2)) < 1.1);
    assert_eq!(first.out, run(&arguments).out);
    let other_seed = run(&[&arguments[..], &["--seed", "2"]].concat());
    assert_ne!(first.out, other_seed.out);
}

#[test]
fn every_option_is_heard() {
    let base = ["--mix", "plq5:hash,scan", "--ways-weak", "4", "--json"];
    let plain = run(&base).out;
    for more in [
        ["--preset", "modern"],
        ["--ways", "8"],
        ["--replacement", "plru"],
        ["--private-l2", "none"],
        ["--llc-ns", "9"],
        ["--memory-ns", "60"],
        ["--parallelism", "2"],
        ["--work-ns", "2"],
        ["--llc", "1MiB"],
    ] {
        // A later option of the same name would be an error.
        let first: Vec<&str> = SMALL
            .chunks(2)
            .filter(|pair| pair[0] == "simulate" || pair[0] != more[0])
            .flatten()
            .copied()
            .collect();
        let changed = corun(&[&first[..], &base, &more].concat());
        assert_eq!(changed.code, 0, "{more:?}: {changed:?}");
        assert_ne!(changed.out, plain, "{more:?}");
    }
}

#[test]
fn colours_and_no_partition() {
    let both = ["colours", "apart"].map(|how| {
        let run = run(&["--partition", how, "--colours-weak", "1", "--json"]);
        let rows = rows(&run);
        assert!(
            rows.iter()
                .any(|row| row["partition"] == how && row["colours"] == 1)
        );
        run.out
    });
    assert_ne!(both[0], both[1]);
    let none = rows(&run(&["--partition", "none", "--json"]));
    assert!(none.iter().all(|row| row["partition"] == "none"));
}

#[test]
fn wrong_arguments_say_what_where_and_what_to_do() {
    for (more, primary, hint) in [
        (
            &["--mix", "plq26:hash"][..],
            "query 1 of the mix, \"plq26:hash\"",
            "plq5:chained",
        ),
        (
            &["--mix", "scan,plq5"],
            "query 2 of the mix, \"plq5\"",
            "scan and agg:SIZE",
        ),
        (
            &["--mix", "scan,scan,scan,scan,scan,scan,scan,scan,scan"],
            "1 to 8 queries, not 9",
            "",
        ),
        (&["--mix", "agg:1GiB"], "16 times the shared cache", ""),
        (&["--ways-weak", "17"], "cannot have 17 ways", ""),
        (
            &["--ways-weak", "0"],
            "invalid value '0' for '--ways-weak <LIST>'",
            "",
        ),
        (&["--ways-weak", "4..2"], "ends before it begins", ""),
        (
            &["--ways-weak", "2", "--partition", "none"],
            "--ways-weak is for --partition ways",
            "--colours-weak",
        ),
        (
            &["--colours-weak", "2"],
            "--colours-weak is for --partition colours",
            "--ways-weak",
        ),
        (
            &["--colours-weak", "9", "--partition", "colours"],
            "cannot have 9 colours",
            "",
        ),
        (
            &["--colours-weak", "8", "--partition", "apart"],
            "they may have 1 to 7",
            "",
        ),
        (&["--partition", "sets"], "invalid value 'sets'", "apart"),
        (&["--preset", "vax"], "invalid value 'vax'", "paper"),
        (&["--ways", "0"], "must be 1 or more", ""),
        (&["--ways", "7"], "the shared cache: ", "multiple of ways"),
        (&["--memory-ns", "0"], "must be above 0", ""),
        (
            &["--memory-ns", "1e9"],
            "the latency of memory must be between",
            "",
        ),
        (
            &["--parallelism", "0.5"],
            "the parallelism must be between 1 and",
            "",
        ),
    ] {
        check_error(&run(more), 2, primary, hint);
    }
    check_error(
        &corun(&["simulate", "llc", "--llc", "1GiB"]),
        2,
        "between 65536 and 33554432 bytes",
        "",
    );
    check_error(
        &corun(&["simulate", "llc", "--llc", "much"]),
        2,
        "invalid value 'much'",
        "",
    );
    check_error(
        &corun(&["simulate", "llc", "--private-l2", "100"]),
        2,
        "the private cache: ",
        "8 ways",
    );
    check_error(&corun(&["simulate", "l1"]), 2, "unrecognized subcommand 'l1'", "");
}
