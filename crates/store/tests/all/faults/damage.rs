//! Files that are not as they were written. Nothing is changed by a refusal; [`OnDamage::Cut`] keeps what is before.

use corun_store::storage::{Storage, Twin};
use corun_store::{OnDamage, Options};
use crc32fast::Hasher;

use super::{fill, has, ids, make_table, open, options, refused};

const MANIFEST: &str = "corun.manifest";

/// Three segments, each of one life of a store, with ten rows each; the first also has the table.
fn three_lives() -> (Twin, Vec<String>) {
    let disk = Twin::new(1);
    for life in 0..3 {
        let store = open(&disk);
        if life == 0 {
            make_table(&store);
        }
        fill(&store, life * 10..life * 10 + 10);
        store.close().unwrap();
    }
    let logs = names(&disk, "log-");
    assert_eq!(logs.len(), 3);
    (disk, logs)
}

fn names(disk: &Twin, prefix: &str) -> Vec<String> {
    let names = disk.names().unwrap();
    names
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .collect()
}

fn all_bytes(disk: &Twin) -> Vec<(String, Vec<u8>)> {
    let names = disk.names().unwrap();
    names
        .into_iter()
        .map(|name| (name.clone(), disk.bytes(&name).unwrap()))
        .collect()
}

fn cut() -> Options {
    Options {
        on_damage: OnDamage::Cut,
        ..options()
    }
}

/// Refused with these words and nothing changed; opened with damage cut, the first `rows` rows are there and it goes on.
fn is_damaged(disk: &Twin, words: &[&str], rows: i64) {
    let before = all_bytes(disk);
    let said = refused(disk, options());
    has(&said, words);
    has(&said, &["restore the folder from a copy", "damage cut"]);
    assert!(before == all_bytes(disk), "a refusal changes nothing");

    let store = corun_store::Store::open_on(std::sync::Arc::new(disk.clone()), cut()).unwrap();
    let damage = store.damage().expect("it is said").clone();
    assert!(!damage.torn_tail, "{damage}");
    has(&damage.to_string(), &["is damaged at byte", "is lost"]);
    assert!(ids(&store).into_iter().eq(0..rows));
    assert_eq!(damage.first_lost.0, store.stats().last.0 + 1);
    fill(&store, 100..105);
    store.close().unwrap();
    let store = open(&disk.crash(1));
    assert_eq!(store.damage(), None, "it was cut for good");
    assert_eq!(ids(&store).len() as i64, rows + 5);
}

#[test]
fn a_flipped_bit_in_the_middle_of_the_log() {
    let (disk, logs) = three_lives();
    // Somewhere in the block of the second row of the second life.
    disk.flip(&logs[1], 32 + 400, 3).unwrap();
    is_damaged(
        &disk,
        &["twin-1/log-", "is damaged at byte", "committed data from commit"],
        11,
    );
}

#[test]
fn a_flipped_bit_in_the_newest_commit_of_a_store_that_was_closed() {
    let (disk, logs) = three_lives();
    let length = disk.bytes(&logs[2]).unwrap().len() as u64;
    disk.flip(&logs[2], length - 24 - 10, 0).unwrap();
    is_damaged(&disk, &["twin-1/log-", "is damaged at byte"], 29);
}

#[test]
fn a_missing_segment() {
    let (disk, logs) = three_lives();
    disk.remove(&logs[1]).unwrap();
    disk.sync_names().unwrap();
    is_damaged(&disk, &["commits 12 to 21 are missing"], 10);
}

#[test]
fn the_newest_segment_is_missing_or_was_cut() {
    let (disk, logs) = three_lives();
    disk.remove(&logs[2]).unwrap();
    disk.sync_names().unwrap();
    is_damaged(&disk, &[&logs[2], "it is missing", "commit 22 on is lost"], 20);

    // Cut within its last commit: its mark is gone, too.
    let (disk, logs) = three_lives();
    let length = disk.bytes(&logs[2]).unwrap().len() as u64;
    disk.open(&logs[2]).unwrap().truncate(length - 24 - 10).unwrap();
    is_damaged(&disk, &[&logs[2], "is damaged at byte"], 29);

    // All of them are: without a checkpoint nothing would be left, not even the table.
    let (disk, logs) = three_lives();
    for log in &logs {
        disk.remove(log).unwrap();
    }
    disk.sync_names().unwrap();
    has(
        &refused(&disk, options()),
        &[&logs[0], "it is missing", "commits up to 31"],
    );

    // Behind a checkpoint, which made all before it needless.
    let (disk, _) = three_lives();
    let store = open(&disk);
    store.checkpoint().unwrap();
    assert!(names(&disk, "log-").is_empty());
    store.close().unwrap();
    let store = open(&disk);
    fill(&store, 30..35);
    store.close().unwrap();
    let logs = names(&disk, "log-");
    disk.remove(&logs[0]).unwrap();
    disk.sync_names().unwrap();
    is_damaged(&disk, &[&logs[0], "it is missing"], 30);
}

#[test]
fn what_is_known_of_the_log_s_end_is_checked_itself() {
    let (disk, _) = three_lives();
    disk.flip("log.tip", 26, 1).unwrap();
    is_damaged(&disk, &["log.tip is damaged at byte 0"], 30);
    // A folder of before has no such file; from now on it does.
    let (disk, _) = three_lives();
    disk.remove("log.tip").unwrap();
    disk.sync_names().unwrap();
    let store = open(&disk);
    assert!(store.damage().is_none() && ids(&store).len() == 30);
    store.close().unwrap();
    assert_eq!(names(&disk, "log.tip"), ["log.tip"]);
}

#[test]
fn a_checkpoint_or_manifest_that_is_damaged_is_refused_in_any_case() {
    let (disk, _) = three_lives();
    let store = open(&disk);
    store.checkpoint().unwrap();
    store.close().unwrap();
    let checkpoints = names(&disk, "checkpoint-");
    for file in [checkpoints[0].as_str(), MANIFEST] {
        let length = disk.bytes(file).unwrap().len() as u64;
        for offset in (0..length).step_by(7) {
            let disk = disk.crash(0);
            disk.flip(file, offset, 5).unwrap();
            for options in [options(), cut()] {
                let said = refused(&disk, options);
                has(
                    &said,
                    &[file, "is damaged at byte", "restore the folder from a copy"],
                );
            }
            disk.flip(file, offset, 5).unwrap();
            assert_eq!(ids(&open(&disk)).len(), 30);
        }
    }
    let disk = disk.crash(0);
    disk.remove(&checkpoints[0]).unwrap();
    has(&refused(&disk, cut()), &["cannot read", &checkpoints[0]]);
}

/// Gives a file another format version, with a checksum over `sum_of` bytes that fits.
fn make_newer(disk: &Twin, file: &str, sum_of: usize) {
    let mut bytes = disk.bytes(file).unwrap();
    bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..sum_of]);
    let sum = hasher.finalize();
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    disk.put(file, &bytes);
}

#[test]
fn files_of_a_newer_format() {
    let (disk, logs) = three_lives();
    let store = open(&disk);
    store.checkpoint().unwrap();
    fill(&store, 30..31);
    store.close().unwrap();
    assert!(
        !names(&disk, "log-").contains(&logs[0]),
        "the checkpoint let go of it"
    );
    let (log, checkpoint) = (
        names(&disk, "log-").remove(0),
        names(&disk, "checkpoint-").remove(0),
    );
    let manifest_bytes = disk.bytes(MANIFEST).unwrap().len();
    for (file, sum_of, known) in [
        (log.as_str(), 32, "knows 2 at most"),
        (checkpoint.as_str(), 32, "knows 4 at most"),
        (MANIFEST, manifest_bytes, "knows 4 at most"),
    ] {
        let disk = disk.crash(0);
        make_newer(&disk, file, sum_of);
        for options in [options(), cut()] {
            let said = refused(&disk, options);
            has(
                &said,
                &[file, "format version 7", known, "open it with a newer one"],
            );
        }
    }
}

#[test]
fn files_that_are_none_of_ours() {
    let disk = Twin::new(2);
    disk.put("letter.txt", b"Dear Sir");
    has(
        &refused(&disk, options()),
        &[
            "twin-2 is no folder of a store",
            "letter.txt",
            "name an empty folder",
        ],
    );
    assert_eq!(disk.names().unwrap(), ["letter.txt"]);

    let (disk, logs) = three_lives();
    disk.remove(MANIFEST).unwrap();
    has(
        &refused(&disk, options()),
        &[&logs[0], "no corun.manifest", "restore the manifest from a copy"],
    );

    let (disk, logs) = three_lives();
    disk.put(
        &logs[1],
        b"a text that is no log, and as long as a head has to be",
    );
    has(
        &refused(&disk, options()),
        &[&logs[1], "is not a log segment of corun", "take it out"],
    );

    // A segment of another store in place of ours.
    let (disk, logs) = three_lives();
    let (other, other_logs) = three_lives();
    disk.put(&logs[1], &other.bytes(&other_logs[1]).unwrap());
    for options in [options(), cut()] {
        has(
            &refused(&disk, options),
            &[&logs[1], "belongs to another store", "take it out"],
        );
    }
}
