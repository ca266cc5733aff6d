//! Compiles SQLite's own source, unchanged, with patchable function entries.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let source = sources().join("sqlite3.c");
    cc::Build::new()
        .file(&source)
        // The same code in every profile: it is what is measured.
        .opt_level(2)
        .debug(false)
        .force_frame_pointer(false)
        .flag("-g1")
        .flag("-fpatchable-function-entry=5")
        // Callers must not count on registers a function happens to leave alone: once patched, it no longer does.
        .flag("-fno-ipa-ra")
        .define("SQLITE_THREADSAFE", "1")
        .define("SQLITE_OMIT_LOAD_EXTENSION", None)
        .warnings(false)
        .compile("sqlite3");
}

/// Where cargo keeps the sources of the crate that ships SQLite's.
fn sources() -> PathBuf {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"));
    let output = Command::new(variable("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
        ])
        .arg(variable("TARGET"))
        .arg("--manifest-path")
        .arg(Path::new(&variable("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo metadata runs");
    let text = String::from_utf8_lossy(&output.stdout);
    // `{"name":"libsqlite3-sys",…,"manifest_path":"…/Cargo.toml",…}`: the first path behind the name is that package's.
    text.split_once("{\"name\":\"libsqlite3-sys\"")
        .and_then(|(_, rest)| rest.split_once("\"manifest_path\":\""))
        .and_then(|(_, rest)| rest.split_once("/Cargo.toml\""))
        .map(|(folder, _)| Path::new(folder).join("sqlite3"))
        .unwrap_or_else(|| {
            panic!(
                "cargo metadata does not name libsqlite3-sys: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
}
