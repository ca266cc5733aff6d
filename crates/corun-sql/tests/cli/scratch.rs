//! Temporary files: gone when a process ends, and where it is killed when the next one starts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process whose temporary files are below `folder`.
fn start(folder: &Path, arguments: &[&str]) -> Child {
    let started = Command::new(crate::PROGRAM)
        .arg("sql")
        .args(arguments)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.expect("the program starts")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether a query has written something.
fn has_rows(folder: &Path) -> bool {
    entries(folder).iter().any(|path| match path.metadata() {
        Ok(found) if found.is_dir() => has_rows(path),
        Ok(found) => found.len() > 0,
        Err(_) => false,
    })
}

fn ends_well(folder: &Path) {
    let mut short = start(folder, &["-c", "select 1"]);
    assert!(short.wait().expect("the program ends").success());
}

#[test]
fn files_of_a_killed_process_are_removed_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    ends_well(folder.path());
    assert!(
        entries(folder.path()).is_empty(),
        "a process that ends leaves nothing"
    );

    let others = folder.path().join("corun-sql-of-somebody");
    std::fs::create_dir(&others).expect("a folder");
    let side = "generate_series(1, 20000000)";
    let query = format!("select count(*) from {side} a join {side} b on a.value = b.value");
    let mut spilling = start(folder.path(), &["--memory-limit", "16MiB", "-c", &query]);
    let begin = Instant::now();
    while !has_rows(folder.path()) {
        assert!(begin.elapsed() < Duration::from_secs(120), "no file is written");
        assert!(spilling.try_wait().expect("a child").is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(2));
    }
    ends_well(folder.path());
    assert!(has_rows(folder.path()), "they are in use");
    spilling.kill().expect("it runs");
    spilling.wait().expect("it ends");
    assert!(has_rows(folder.path()), "nobody has removed them yet");
    ends_well(folder.path());
    assert_eq!(entries(folder.path()), [others], "what has no lock is not ours");
}
