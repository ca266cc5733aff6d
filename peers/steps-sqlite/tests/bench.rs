//! The program itself: the bench with the profile kept here, and what it says of profiles that do not fit.

use std::process::{Command, Output};

fn bench(profile: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steps-sqlite"))
        .args([
            "bench",
            "--quick",
            "--rounds",
            "1",
            "--json",
            "--profile",
            profile,
        ])
        .output()
        .unwrap()
}

/// The profile was chosen for another build of the same sources, so less is asked than the README has.
#[test]
fn members_behind_the_leading_one_find_the_code_in_the_cache() {
    let output = bench(concat!(env!("CARGO_MANIFEST_DIR"), "/sqlite.ctx"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (operation, fewer) in [("update", 50.0), ("join", 80.0), ("prepare-and-run", 85.0)] {
        let row = rows
            .iter()
            .find(|row| row["figure"] == "sqlite-misses" && row["operation"] == operation)
            .unwrap_or_else(|| panic!("no row of {operation}"));
        let calls = row["ctx_calls_per_op"].as_f64().unwrap();
        assert!((1.0..=8.0).contains(&calls), "{row}");
        assert!(
            row["additional_reduction_percent"].as_f64().unwrap() >= fewer,
            "{row}"
        );
    }
    assert_eq!(
        rows.iter().filter(|row| row["figure"] == "sqlite-time").count(),
        15,
        "three kinds, five ways"
    );
}

#[test]
fn a_profile_that_does_not_fit_is_an_error_with_a_hint() {
    let missing = bench("/nonexistent.ctx");
    assert!(!missing.status.success());
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        text.contains("/nonexistent.ctx") && text.contains("steps-sqlite choose"),
        "{text}"
    );

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unknown.ctx");
    std::fs::write(
        &path,
        "corun-ctx-profile 1\nl1i 32k/8/64\nknee 200,4\nentry sqlite3VdbeExek\n",
    )
    .unwrap();
    let unknown = bench(path.to_str().unwrap());
    assert!(!unknown.status.success());
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        text.contains("sqlite3VdbeExek") && text.contains("sqlite3VdbeExec"),
        "{text}"
    );
}
