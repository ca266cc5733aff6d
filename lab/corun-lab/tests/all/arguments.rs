//! Help texts, and what wrong arguments look like, of all three programs: exit code 2 and the error format. Commands of `corun-sql` go
//! through `corun-lab`, which runs its sibling.

use std::path::Path;
use std::process::Command;

use crate::documents::programs;
use crate::program::{check_error, corun};

/// What a program prints for `arguments`, which must be right.
fn printed(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn help_lists_every_command_and_has_examples() {
    for program in corun_cli::siblings::PROGRAMS {
        let path = programs().join(program.name);
        let help = printed(&path, &["--help"]);
        for command in program.commands {
            assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
            let own = printed(&path, &[command, "--help"]);
            let example = format!("{} {command}", program.name);
            assert!(own.contains("Examples:") && own.contains(&example), "{own}");
        }
    }
}

#[test]
fn each_program_runs_the_commands_of_its_siblings() {
    for program in corun_cli::siblings::PROGRAMS {
        for sibling in corun_cli::siblings::PROGRAMS {
            let command = sibling.commands[0];
            let help = printed(&programs().join(program.name), &[command, "--help"]);
            assert!(help.contains(&format!("{} {command}", sibling.name)), "{help}");
        }
    }
}

#[test]
fn wrong_arguments() {
    check_error(
        &corun(&["sql", "--paritions", "2"]),
        2,
        "unexpected argument '--paritions'",
        "'--partitions'",
    );
    check_error(
        &corun(&["bench", "jion"]),
        2,
        "there is no benchmark suite \"jion\"",
        "floor, join, aggregate, ssb, tpch, tpcds, h2o, memory-latency, llc",
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
