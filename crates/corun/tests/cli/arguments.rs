//! Help texts, and what wrong arguments look like: exit code 2 and the program's error format.

use std::process::Command;

use crate::program::{check_error, corun};

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
fn an_unknown_command_is_wrong_usage() {
    check_error(
        &corun(&["topologi"]),
        2,
        "unrecognized subcommand 'topologi'",
        "usage: corun",
    );
}

#[test]
fn a_command_of_a_package_that_is_not_installed_names_the_package() {
    // Where no sibling lies beside it, and with nothing on PATH.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("corun");
    // Another process writes the copy: a file that this process had open for writing may still be open in a child which another test is
    // just starting, and such a file cannot be run.
    let copied = Command::new("cp").arg(crate::PROGRAM).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let output = Command::new(program)
        .args(["demo", "--quick"])
        .env("PATH", folder.path())
        .output()
        .expect("it runs");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        text.starts_with("error: `demo` is a command of corun-lab, which is not installed\n"),
        "{text}"
    );
    assert!(text.contains("hint: install the package corun-lab"), "{text}");
}
