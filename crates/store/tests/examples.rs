//! The example bank runs: in memory, and twice on one folder, where it finds its accounts again. It checks its own sums.
//!
//! A program of its own, so that the others also run where no examples were built.
//! Cargo builds examples beside the tests, but only when it builds everything (`cargo test -p corun-store`). Not here: the
//! sanitizers' runs, which leave this test out by its name.

use std::path::Path;
use std::process::Command;

#[test]
fn example_programs_run() {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("deps/TEST in a folder");
    let bank = profile
        .join("examples/bank")
        .with_extension(std::env::consts::EXE_EXTENSION);
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("bank");
    for arguments in [&[][..], &[&kept], &[&kept]] {
        let output = Command::new(&bank)
            .args(arguments)
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; `cargo test -p corun-store` builds the examples",
                    bank.display()
                )
            });
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{failed}", output.status);
        assert!(said.contains("all accounts together: 100000.00"), "{said}");
    }
}
