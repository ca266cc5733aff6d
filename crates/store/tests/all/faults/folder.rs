//! Faults of real folders: another owner, another process, missing rights.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use corun_store::{Store, StoreError};

use crate::skipped::skipped;

use super::{fill, has, ids, make_table, options};

const FOLDER: &str = "CORUN_FAULTS_FOLDER";

#[test]
fn one_folder_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    make_table(&store);
    fill(&store, 0..3);
    let error = Store::open(folder.path(), options()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }));
    let place = folder.path().display().to_string();
    has(
        &error.to_string(),
        &[
            &place,
            "is open in another process or store",
            "close it there first",
        ],
    );
    fill(&store, 3..6);
    drop(store);
    assert_eq!(ids(&Store::open(folder.path(), options()).unwrap()).len(), 6);
}

#[test]
#[ignore = "the process that another test starts: it holds a folder until its input ends"]
fn holder() {
    let store = Store::open(std::env::var(FOLDER).unwrap(), options()).unwrap();
    make_table(&store);
    fill(&store, 0..5);
    std::io::stdout().write_all(b"\nheld\n").unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn one_folder_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "faults::folder::holder",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = std::io::BufReader::new(process.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(out);
    assert!(
        lines.any(|line| line.unwrap() == "held"),
        "the other process ended"
    );
    let error = Store::open(folder.path(), options()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    // The lock goes with the process, however it ends.
    process.kill().unwrap();
    process.wait().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    assert!(ids(&store).into_iter().eq(0..5));
}

#[test]
fn folders_that_cannot_be_used() {
    let parent = tempfile::tempdir().unwrap();
    let said = |path: &std::path::Path| Store::open(path, options()).unwrap_err().to_string();
    has(
        &said(&parent.path().join("no/such")),
        &["no/such", "parent directory is missing", "make that first"],
    );
    let plain = parent.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    has(&said(&plain), &["plain is not a directory", "name a directory"]);
}

#[test]
fn a_folder_of_somebody_else_s_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let error = Store::open(folder.path(), options()).unwrap_err().to_string();
    has(&error, &["notes.txt"]);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["notes.txt"]);
}

#[test]
fn a_folder_without_rights() {
    let parent = tempfile::tempdir().unwrap();
    let closed = parent.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    let permit = |mode| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    permit(0o500);
    if std::fs::write(closed.join("probe"), "x").is_ok() {
        skipped("this user, root for one, has all rights there are");
        return;
    }
    let error = Store::open(&closed, options()).unwrap_err().to_string();
    has(&error, &["closed", "check its permissions"]);
    permit(0o700);
    let store = Store::open(&closed, options()).unwrap();
    make_table(&store);
}
