//! The client that `corun-lab autosteps` is tested on, and what its runs print.

#![allow(
    dead_code,
    reason = "not every test binary that shares this module needs all of it"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use corun_model::teams::CtxProfile;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Run, corun_in};

/// The cache of these tests, whatever the machine's is. A stage of the client is 12 KiB.
pub const L1I: [&str; 2] = ["--l1i", "32k/8/64"];

/// A folder with the client in it, compiled with these flags.
pub fn client(flags: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/client.c");
    let done = Command::new("cc")
        .args(["-g", "-O1"])
        .args(flags)
        .arg("-o")
        .arg(folder.path().join("client"))
        .arg(source)
        .arg("-lpthread")
        .status()
        .expect("cc runs");
    assert!(done.success(), "{flags:?}");
    folder
}

/// Runs `corun-lab autosteps`; what the client prints goes to stderr and is left out.
pub fn autosteps(folder: &TempDir, arguments: &[&str]) -> Run {
    let mut run = corun_in(folder.path(), &[&["autosteps"], &L1I[..], arguments].concat(), "");
    let lines = run
        .err
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("sum "));
    run.err = lines.collect();
    run
}

pub fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{run:?}");
    let rows = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}

pub fn of_kind<'a>(rows: &'a [Value], kind: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["kind"] == kind).collect()
}

pub fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

pub fn profile(folder: &TempDir, name: &str) -> CtxProfile {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("a profile");
    text.parse().expect("a profile that can be read")
}

/// A client that runs until it is dropped.
pub struct Server(pub Child);

impl Server {
    /// Starts it in its folder.
    pub fn start(folder: &TempDir) -> Server {
        let child = Command::new(folder.path().join("client"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the client runs");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
