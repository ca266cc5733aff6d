//! Every example program runs on little data: each checks its own answers and fails when one is wrong.
//!
//! A program of its own, so that the others also run where no examples were built.
//! Cargo builds the examples beside the tests, but only when it builds everything (`cargo test -p corun-exec`). Not here: the
//! sanitizers' runs, which build libraries and tests alone and leave this test out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The examples, and arguments that make them quick.
const EXAMPLES: [(&str, &[&str]); 7] = [
    ("index_a_column", &["20000"]),
    ("join_two_slices", &["5000", "20000"]),
    ("neighbour", &["1", "2", "1"]),
    ("probe_floor", &["10000", "2"]),
    ("teams_switch", &["4"]),
    ("which_technique", &["4"]),
    ("work_ahead_operator", &["20000", "20000"]),
];

/// Where Cargo puts examples: beside the folder of this test.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("deps/TEST in a folder");
    profile.join("examples")
}

#[test]
fn example_programs_run() {
    for (name, arguments) in EXAMPLES {
        let program = folder()
            .join(name)
            .with_extension(std::env::consts::EXE_EXTENSION);
        let output = Command::new(&program)
            .args(arguments)
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; `cargo test -p corun-exec` builds the examples",
                    program.display()
                )
            });
        assert!(
            output.status.success(),
            "{name}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!output.stdout.is_empty(), "{name} says nothing");
    }
}

#[test]
fn example_programs_are_all_run() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let there: BTreeSet<String> = std::fs::read_dir(sources)
        .expect("the examples' folder")
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let run: BTreeSet<String> = EXAMPLES.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(there, run);
}
