//! The scripts that decide whether a run is green: `scripts/test-summary` on made-up logs, and the syntax of all of them.

use std::path::Path;
use std::process::Command;

use crate::common::{files, read, root};

/// Writes one step's log and exit code the way `scripts/test` does.
fn step(folder: &Path, name: &str, status: i32, log: &str) {
    std::fs::write(folder.join(format!("{name}.log")), log).expect("log written");
    std::fs::write(folder.join(format!("{name}.status")), format!("{status}\n")).expect("status written");
}

/// Exit code and last line of the summary over these steps.
fn summary(steps: &[(&str, i32, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for (name, status, log) in steps {
        step(folder.path(), name, *status, log);
    }
    let output = Command::new(root().join("scripts/test-summary"))
        .arg(folder.path())
        .output()
        .expect("the script runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (
        output.status.code(),
        text.lines().last().unwrap_or_default().to_owned(),
    )
}

const OK: &str = "running 12 tests\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                  running 3 tests\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
const BAD: &str =
    "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

#[test]
fn the_summary_adds_up_and_its_exit_code_tells() {
    assert_eq!(
        summary(&[("a", 0, OK)]),
        (Some(0), "15 passed, 0 failed, 0 skipped".into())
    );
    assert_eq!(
        summary(&[("a", 0, OK), ("b", 101, BAD)]),
        (Some(1), "19 passed, 2 failed, 0 skipped".into())
    );
    // A step that is not `cargo test` counts as one test.
    assert_eq!(
        summary(&[("a", 0, OK), ("demo", 0, "fine\n")]),
        (Some(0), "16 passed, 0 failed, 0 skipped".into())
    );
    assert_eq!(
        summary(&[("a", 0, OK), ("demo", 1, "error: wrong\n")]),
        (Some(1), "15 passed, 1 failed, 0 skipped".into())
    );
    // It did not compile, or a test program was killed after others had passed.
    assert_eq!(
        summary(&[("a", 101, "error: could not compile\n")]),
        (Some(1), "0 passed, 1 failed, 0 skipped".into())
    );
    assert_eq!(
        summary(&[("a", 101, OK)]),
        (Some(1), "15 passed, 1 failed, 0 skipped".into())
    );
    // A step whose script says so was skipped.
    assert_eq!(
        summary(&[("a", 0, OK), ("b", 0, "skipped: aarch64 tests (no compiler)\n")]),
        (Some(0), "15 passed, 0 failed, 1 skipped".into())
    );
    // Nothing ran: not a success.
    assert_eq!(summary(&[]), (Some(1), "0 passed, 0 failed, 0 skipped".into()));
}

#[test]
fn a_test_that_lacked_a_program_counts_as_skipped_and_not_as_passed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    step(folder.path(), "a", 0, OK);
    // Two tests of one binary may lack the same program, and each says so once.
    let skipped = "fuse: /dev/fuse is missing\nvalgrind: not installed\nvalgrind: not installed\n";
    std::fs::write(folder.path().join("skipped"), skipped).expect("written");
    let output = Command::new(root().join("scripts/test-summary"))
        .arg(folder.path())
        .output()
        .expect("the script runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text,
        "skipped: fuse: /dev/fuse is missing\nskipped: valgrind: not installed\n13 passed, 0 failed, 2 skipped\n"
    );
}

#[test]
fn the_summary_wants_a_folder() {
    let output = Command::new(root().join("scripts/test-summary"))
        .output()
        .expect("the script runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: a folder of logs is needed\nhint: "));
}

#[test]
fn scripts_parse_and_may_be_run() {
    use std::os::unix::fs::PermissionsExt;
    let scripts: Vec<String> = files()
        .into_iter()
        .filter(|file| file.starts_with("scripts/") || file == ".ci/run")
        .collect();
    assert!(
        scripts.iter().any(|script| script == ".ci/run") && scripts.len() > 3,
        "{scripts:?}"
    );
    for script in scripts {
        let path = root().join(&script);
        if !read(&script).starts_with("#!/usr/bin/env bash") {
            continue;
        }
        let mode = std::fs::metadata(&path).expect("exists").permissions().mode();
        assert!(mode & 0o111 == 0o111, "{script} is not executable");
        let parsed = Command::new("bash")
            .arg("-n")
            .arg(&path)
            .output()
            .expect("bash runs");
        assert!(
            parsed.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&parsed.stderr)
        );
    }
}

#[test]
fn bootstrap_finds_this_machine_ready_and_refuses_unknown_arguments() {
    // The tests run here, so compiler, make and toolchain are here: nothing may be installed and nothing said.
    let output = Command::new(root().join("scripts/bootstrap"))
        .output()
        .expect("the script runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let output = Command::new(root().join("scripts/bootstrap"))
        .arg("--nonsense")
        .output()
        .expect("the script runs");
    assert_eq!(output.status.code(), Some(2));
}
