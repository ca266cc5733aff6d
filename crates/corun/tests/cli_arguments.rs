//! Help texts, and what wrong arguments look like: exit code 2 and the program's error format.

mod program;

use program::{check_error, corun};

#[test]
fn help_lists_every_command_and_has_examples() {
    let help = corun(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for command in [
        "demo",
        "sql",
        "topology",
        "partition",
        "simulate",
        "bench",
        "proxy",
        "top",
        "config",
    ] {
        assert!(
            help.out.contains(&format!("\n  {command} ")),
            "{command}: {}",
            help.out
        );
        let own = corun(&[command, "--help"]);
        assert_eq!(own.code, 0);
        assert!(
            own.out.contains("Examples:") && own.out.contains(&format!("corun {command}")),
            "{}",
            own.out
        );
    }
}

#[test]
fn no_command_shows_the_help_and_is_wrong_usage() {
    let run = corun(&[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("Usage: corun"), "{run:?}");
}

#[test]
fn the_version_is_one_line() {
    let run = corun(&["--version"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, concat!("corun ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}

#[test]
fn wrong_arguments() {
    check_error(
        &corun(&["simulat"]),
        2,
        "unrecognized subcommand 'simulat'",
        "usage: corun",
    );
    check_error(
        &corun(&["sql", "--paritions", "2"]),
        2,
        "unexpected argument '--paritions'",
        "'--partitions'",
    );
    check_error(
        &corun(&["bench", "jion"]),
        2,
        "invalid value 'jion'",
        "floor, join, ssb, tpch, smt, llc",
    );
    check_error(
        &corun(&["sql", "--format", "xml"]),
        2,
        "invalid value 'xml'",
        "table, csv, json",
    );
    check_error(
        &corun(&["sql", "--set", "key"]),
        2,
        "not of the form KEY=VALUE",
        "--help",
    );
    check_error(
        &corun(&["sql", "--table", "t"]),
        2,
        "not of the form NAME=PATH",
        "--help",
    );
}

#[test]
fn impossible_numbers() {
    for (arguments, primary) in [
        (
            &["sql", "--partitions", "0"][..],
            "invalid value '0' for '--partitions <N>': must be 1 or more",
        ),
        (
            &["sql", "--partitions", "-3"],
            "invalid value '-3' for '--partitions <N>': must be 1 or more",
        ),
        (
            &["sql", "--batch-size", "0"],
            "invalid value '0' for '--batch-size <ROWS>': must be 1 or more",
        ),
        (
            &["sql", "--memory-limit", "-1"],
            "invalid value '-1' for '--memory-limit <SIZE>': must be above 0",
        ),
        (&["sql", "--memory-limit", "much"], "invalid value 'much'"),
        (
            &["sql", "--ssb", "-1"],
            "invalid value '-1' for '--ssb <SCALE>': must be above 0",
        ),
        (
            &["demo", "--seconds", "0"],
            "invalid value '0' for '--seconds <SECONDS>': must be above 0",
        ),
        (
            &["demo", "--rounds", "0"],
            "invalid value '0' for '--rounds <N>': must be 1 or more",
        ),
        (
            &["demo", "--clients", "none"],
            "invalid value 'none' for '--clients <N>': is not a whole number",
        ),
        (
            &["bench", "join", "--threads", "1,0"],
            "invalid value '0' for '--threads <N,...>': must be 1 or more",
        ),
    ] {
        check_error(&corun(arguments), 2, primary, "");
    }
}

#[test]
fn scale_factors_out_of_range_name_the_range() {
    check_error(
        &corun(&["sql", "--ssb", "1e9", "-c", "select 1"]),
        2,
        "scale factor 1000000000",
        "SSB accepts",
    );
    check_error(
        &corun(&["demo", "--scale", "1e9"]),
        2,
        "scale factor 1000000000",
        "SSB accepts",
    );
}

#[test]
fn unknown_settings_suggest_the_nearest() {
    let run = corun(&[
        "sql",
        "--set",
        "datafusion.execution.batch_siz=3",
        "-c",
        "select 1",
    ]);
    check_error(
        &run,
        2,
        "unknown setting \"datafusion.execution.batch_siz\"",
        "datafusion.execution.batch_size",
    );
}

#[test]
fn a_bench_case_that_does_not_exist_names_some_that_do() {
    check_error(
        &corun(&["bench", "join", "--quick", "--case", "nothing_like_it"]),
        2,
        "nothing_like_it",
        "cases: ",
    );
}
