//! `corun-lab autosteps`: points, misses and profiles. Traced are C programs made of `autosteps/client.c` here and now.

use crate::client::{autosteps, client, number, of_kind, rows};
use crate::program::{Run, check_error, corun_in};
use crate::words;
use serde_json::Value;

#[test]
fn points_are_source_lines_and_a_team_misses_less() {
    let folder = client(&[]);
    let fetch = ["--function", "index_fetch", "--skip", "2"];
    let rows = rows(&autosteps(
        &folder,
        &[&fetch[..], &["--json", "--", "./client"]].concat(),
    ));
    let operation = of_kind(&rows, "operation")[0];
    assert_eq!(operation["operation"], "index_fetch");
    // Four stages of 12 KiB in a cache of 32 KiB: nothing is left of one when it comes round again.
    let footprint = number(operation, "footprint_bytes");
    assert!((48.0..52.0).contains(&(footprint / 1024.0)), "{operation}");
    assert_eq!(
        number(operation, "cold_misses"),
        number(operation, "footprint_lines")
    );
    assert!(
        number(operation, "warm_misses") >= 0.9 * number(operation, "cold_misses"),
        "{operation}"
    );
    assert!(number(operation, "reduction_percent") >= 90.0, "{operation}");
    assert!((1.0..=3.0).contains(&number(operation, "points")), "{operation}");
    assert_eq!(operation["calls"], operation["points"]);
    let team = of_kind(&rows, "team")[0];
    assert_eq!(team["members"], 10);
    assert!(number(team, "reduction_percent") >= 75.0, "{team}");
    let points = of_kind(&rows, "point");
    assert_eq!(points.len() as f64, number(operation, "points"));
    for point in points {
        assert!(
            point["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("client.c")),
            "{point}"
        );
        let stages = ["find_leaf", "take_lock", "read_row", "answer"];
        assert!(
            stages.contains(&point["function"].as_str().expect("a function")),
            "{point}"
        );
        assert!(point["line"].as_u64().is_some_and(|line| line > 50), "{point}");
        assert_eq!(point["calls"]["index_fetch"], 1);
    }
}

#[test]
fn tables_name_the_cache_the_points_and_the_course() {
    let folder = client(&[]);
    let arguments = words("--function index_fetch --sweep --knee 100,2 -- ./client");
    let run = autosteps(&folder, &arguments);
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        "L1-I: 32 KiB, 8 ways, lines of 64 B (as given); knee: 100 instructions wide, 2 evictions high",
        "misses are simulated",
        "CTX point before",
        "client.c:",
        "each further member",
        "index_fetch, misses as they add up:",
        "index_fetch, other knees (original: ",
        "* 100,2",
        "400,8",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    // This machine's cache is named where none is given.
    let run = corun_in(
        folder.path(),
        &["autosteps", "--function", "index_fetch", "--", "./client"],
        "",
    );
    if run.code == 0 {
        assert!(run.says("this machine's; --l1i sets another"), "{run:?}");
    } else {
        check_error(&run, 2, "does not say what its L1 instruction cache is", "--l1i");
    }
}

/// Points belong to the program, not to one operation: whatever is said of a knee holds with the points of all operations on.
#[test]
fn the_sweep_says_of_the_knee_what_the_headline_says() {
    let folder = client(&[]);
    let small = ["autosteps", "--l1i", "16k/4/32", "--function", "index_fetch"];
    let traced = ["--function", "index_scan", "--sweep", "--json"];
    for more in [&["--knee", "200,4"][..], &["--calls-max", "8"]] {
        let arguments = [&small[..], &traced, more, &["--", "./client"]].concat();
        let rows = rows(&corun_in(folder.path(), &arguments, ""));
        let knee = &of_kind(&rows, "cache")[0]["knee"];
        let (operations, teams) = (of_kind(&rows, "operation"), of_kind(&rows, "team"));
        for (operation, team) in operations.iter().zip(teams) {
            let is_chosen =
                |row: &&&Value| row["knee"] == *knee && row["operation"] == operation["operation"];
            let knees = of_kind(&rows, "knee");
            let chosen = knees.iter().find(is_chosen).expect("the knee is in the sweep");
            for key in ["points", "calls", "non_leading_misses", "reduction_percent"] {
                assert_eq!(chosen[key], operation[key], "{key}: {rows:?}");
            }
            let key = "misses_per_additional_member";
            assert_eq!(chosen[key], team[key], "{rows:?}");
            if more[0] == "--calls-max" {
                assert!(number(operation, "calls") <= 8.0, "{operation}");
            }
        }
    }
}

#[test]
fn calls_can_be_limited_instead_of_a_knee_given() {
    let folder = client(&[]);
    let limited = |calls: &str| {
        let arguments = [
            "--function",
            "index_fetch",
            "--calls-max",
            calls,
            "--json",
            "--",
            "./client",
        ];
        autosteps(&folder, &arguments)
    };
    let rows = rows(&limited("3"));
    assert!(
        (1.0..=3.0).contains(&number(of_kind(&rows, "operation")[0], "calls")),
        "{rows:?}"
    );
    assert!(
        number(of_kind(&rows, "team")[0], "reduction_percent") >= 80.0,
        "{rows:?}"
    );
    // A cache as small as this wants many.
    let tiny = words("autosteps --l1i 1k/2/64 --function index_fetch --calls-max 1 -- ./client");
    check_error(
        &corun_in(folder.path(), &tiny, ""),
        1,
        "no knee makes do with 1 calls",
        "allow at least",
    );
}

#[test]
fn a_cache_that_holds_the_code_needs_no_point() {
    let folder = client(&[]);
    let arguments = words("autosteps --l1i 64k/16/64 --function index_fetch -- ./client");
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(run.says("no CTX point is needed"), "{run:?}");
}

#[test]
fn marked_operations_are_those_between_the_markers() {
    let folder = client(&["-DMARKED"]);
    let traced = |arguments: &[&str]| {
        let rows = rows(&autosteps(
            &folder,
            &[arguments, &["--skip", "1", "--json", "--", "./client"]].concat(),
        ));
        number(of_kind(&rows, "operation")[0], "instructions")
    };
    let (function, marked) = (traced(&["--function", "index_fetch"]), traced(&["--marked"]));
    // Markers are outside the call.
    assert!(
        marked > function && marked < function + 20.0,
        "{function} {marked}"
    );
}

#[test]
fn a_kept_trace_says_the_same_without_the_program() {
    let folder = client(&[]);
    let live = autosteps(
        &folder,
        &words("--function index_fetch --trace-out kept.trace --json -- ./client"),
    );
    let kept = autosteps(&folder, &["--trace", "kept.trace", "--json"]);
    let numbers = |run: &Run| {
        let rows = rows(run);
        let operation = of_kind(&rows, "operation")[0].clone();
        let keys = words("instructions cold_misses warm_misses non_leading_misses calls");
        let numbers = keys.into_iter().map(|key| number(&operation, key));
        numbers.collect::<Vec<f64>>()
    };
    assert_eq!(numbers(&live), numbers(&kept));
    let lines = |run: &Run| {
        let rows = rows(run);
        let points: Vec<Value> = of_kind(&rows, "point")
            .iter()
            .map(|point| point["line"].clone())
            .collect();
        points
    };
    assert_eq!(lines(&live), lines(&kept));
    let smaller = corun_in(
        folder.path(),
        &words("autosteps --trace kept.trace --l1i 16k/4/32 --json"),
        "",
    );
    assert!(numbers(&smaller)[1] > numbers(&live)[1]);
    std::fs::write(folder.path().join("broken"), b"no trace").expect("written");
    check_error(
        &autosteps(&folder, &["--trace", "broken"]),
        1,
        "recorded trace",
        "record",
    );
    check_error(&autosteps(&folder, &["--trace", "missing"]), 1, "missing", "");
}

#[test]
fn the_report_is_a_page_of_its_own() {
    let folder = client(&[]);
    let run = autosteps(
        &folder,
        &words("--function index_fetch --report steps.html -- ./client"),
    );
    assert_eq!(run.code, 0, "{run:?}");
    let html = std::fs::read_to_string(folder.path().join("steps.html")).expect("a report");
    assert_eq!(html.matches("<svg").count(), 4);
    for words in [
        "misses as they add up",
        "calls against misses, by knee",
        "client.c:",
        "simulated",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    let nowhere = autosteps(
        &folder,
        &words("--function index_fetch --report no/such/folder.html -- ./client"),
    );
    check_error(&nowhere, 1, "cannot write the report", "");
}
