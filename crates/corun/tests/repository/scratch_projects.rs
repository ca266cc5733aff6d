//! A project outside the workspace that names a crate of corun by its path builds and runs: the code of the crate's README, and what it
//! prints there. `scripts/scratch-datafusion` does the same for the crate that compiles DataFusion.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::common::{read, root};

/// The first block of a document in this language.
fn block(document: &str, language: &str) -> String {
    let opening = format!("```{language}\n");
    let (_, rest) = document.split_once(&opening).expect("a block of this language");
    let (block, _) = rest.split_once("```").expect("the block ends");
    block.to_owned()
}

/// Builds and runs the README's program in a project of its own, and compares what it prints with what the README says.
fn runs_as_its_readme_says(name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let readme = read(&format!("crates/{name}/README.md"));
    let path = root().join("crates").join(name);
    let manifest = format!(
        "[package]\nname = \"scratch-{name}\"\nedition = \"2024\"\n\n[dependencies]\ncorun-{name} = {{ path = {path:?} }}\n\n[workspace]\n"
    );
    fs::create_dir(folder.path().join("src")).expect("made");
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("written");
    fs::write(folder.path().join("src/main.rs"), block(&readme, "rust")).expect("written");
    // The versions that this machine has; cargo takes out what the project does not need.
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("copied");

    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--offline", "--quiet"])
        .current_dir(folder.path())
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("scratch"),
        )
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        block(&readme, "text"),
        "{name}"
    );
}

#[test]
fn exec_alone() {
    runs_as_its_readme_says("exec");
}

#[test]
fn store_alone() {
    runs_as_its_readme_says("store");
}
