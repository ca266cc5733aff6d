//! What was broken on the medium: told from the torn end of a crash, refused or cut, and never back again.

use std::sync::Arc;
use std::time::Duration;

use corun_store::Ts;
use corun_store::log::{Damage, Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use corun_store::park::ThreadPark;
use corun_store::storage::{Storage, Twin};

const STORE: u64 = 7;
const HEAD: u64 = 32;
/// Bytes of one frame in here.
const FRAME: u64 = 24 + 200;

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 4096,
        flush_every: Duration::from_secs(5),
        ..LogOptions::default()
    }
}

fn payload(ts: u64) -> Vec<u8> {
    (0..200).map(|at| (at * ts) as u8).collect()
}

fn name(first: u64) -> String {
    format!("log-{first:020}.corun")
}

fn append(log: &Log, commits: u64, durable: bool) {
    let park = ThreadPark::current();
    for _ in 0..commits {
        let ts = log.append(&payload(log.last().0 + 1), &park, |_| {}).unwrap();
        if durable {
            log.wait_durable(ts, &park).unwrap();
        }
    }
}

/// Appends to what a disk has, and powers off without closing; commits one by one durable or never synced.
fn extend(disk: &Twin, commits: u64, durable: bool) -> Twin {
    let (_, end, _) = read(disk, 0, OnDamage::Cut).unwrap();
    let log = Log::start(Arc::new(disk.clone()), STORE, end, options()).unwrap();
    append(&log, commits, durable);
    disk.kill()
}

/// A log of `commits` durable commits, 19 to a segment.
fn durable(commits: u64) -> Twin {
    extend(&Twin::new(0), commits, true)
}

/// Newest commit read, where the log goes on, and what was broken.
fn read(disk: &Twin, after: u64, on_damage: OnDamage) -> Result<(u64, LogEnd, Option<Damage>), LogError> {
    let mut reader = LogReader::open(Arc::new(disk.clone()), STORE, Ts(after), on_damage)?;
    let mut last = after;
    while let Some(segment) = reader.next_segment()? {
        for (ts, range) in segment.blocks {
            assert_eq!(ts.0, last + 1);
            assert_eq!(segment.bytes[range], payload(ts.0));
            last = ts.0;
        }
    }
    let end = reader.end()?;
    assert_eq!(end.last().0, last);
    assert!(reader.bytes_read() <= reader.bytes_total());
    Ok((last, end, reader.damage().cloned()))
}

/// The damage is refused; cut, commits up to `last` are left; and then the log goes on from there, with nothing coming back.
#[track_caller]
fn check_damage(disk: &Twin, after: u64, last: u64, file: &str, offset: u64) {
    let Err(LogError::Damaged(refused)) = read(disk, after, OnDamage::Refuse) else {
        panic!("not refused")
    };
    let (kept, end, damage) = read(disk, after, OnDamage::Cut).unwrap();
    let damage = damage.unwrap();
    assert_eq!(damage, refused);
    assert_eq!(
        (kept, damage.first_lost.0, damage.torn_tail),
        (last, last + 1, false),
        "{damage}"
    );
    assert_eq!(
        (damage.file, damage.offset),
        (format!("twin-0/{file}"), offset),
        "{}",
        damage.what
    );

    let log = Log::start(Arc::new(disk.clone()), STORE, end, options()).unwrap();
    append(&log, 30, true);
    log.close().unwrap();
    let (kept, _, damage) = read(&disk.crash(1), after, OnDamage::Refuse).unwrap();
    assert_eq!((kept, damage), (last + 30, None));
}

#[test]
fn a_whole_log_reads_back_from_anywhere() {
    let disk = durable(100);
    for after in 0..=100 {
        let (last, _, damage) = read(&disk, after, OnDamage::Refuse).unwrap();
        assert_eq!((last, damage), (100, None));
    }
    assert_eq!(
        read(&disk, 150, OnDamage::Refuse).unwrap().0,
        150,
        "the checkpoint is newer than the log"
    );
    let mut names = disk.names().unwrap();
    names.retain(|name| name != "log.tip");
    assert_eq!(names, [1, 20, 39, 58, 77, 96].map(name));
}

#[test]
fn any_flipped_bit_before_the_last_commit_is_damage() {
    for commit in [1, 2, 10, 18, 19] {
        for byte in (0..FRAME).step_by(7) {
            let disk = durable(40);
            let offset = HEAD + (commit - 1) * FRAME;
            disk.flip(&name(1), offset + byte, byte as u8).unwrap();
            check_damage(&disk, 0, commit - 1, &name(1), offset);
        }
    }
}

#[test]
fn a_flip_in_the_newest_commit_looks_like_a_torn_end_until_the_log_was_closed_or_idle() {
    let disk = durable(5);
    let flip = HEAD + 4 * FRAME + 60;
    disk.flip(&name(1), flip, 0).unwrap();
    let (last, _, damage) = read(&disk, 0, OnDamage::Refuse).unwrap();
    assert!(last == 4 && damage.unwrap().torn_tail);

    let disk = Twin::new(0);
    let log = Log::start(Arc::new(disk.clone()), STORE, LogEnd::default(), options()).unwrap();
    append(&log, 5, false);
    log.close().unwrap();
    disk.flip(&name(1), flip, 0).unwrap();
    check_damage(&disk, 0, 4, &name(1), HEAD + 4 * FRAME);

    let disk = Twin::new(0);
    let idle = LogOptions {
        flush_every: Duration::from_millis(1),
        ..options()
    };
    let log = Log::start(Arc::new(disk.clone()), STORE, LogEnd::default(), idle).unwrap();
    append(&log, 5, true);
    let behind = (HEAD + 5 * FRAME) as usize;
    while disk.bytes(&name(1)).unwrap()[behind..]
        .iter()
        .all(|byte| *byte == 0)
    {
        std::thread::yield_now();
    }
    let disk = disk.kill();
    drop(log);
    disk.flip(&name(1), flip, 0).unwrap();
    let Err(LogError::Damaged(damage)) = read(&disk, 0, OnDamage::Refuse) else {
        panic!("not refused")
    };
    assert_eq!((damage.first_lost, damage.last_known), (Ts(5), Ts(5)));
}

#[test]
fn damage_that_the_checkpoint_covers_does_not_matter() {
    for after in 12..40 {
        let disk = durable(60);
        for (file, offset) in [(1, 3 * FRAME), (1, 11 * FRAME), (1, 4)] {
            disk.flip(&name(file), HEAD + offset + 30, 3).unwrap();
        }
        let (last, _, damage) = read(&disk, after, OnDamage::Refuse).unwrap();
        assert_eq!((last, damage), (60, None), "after {after}");
    }
    // And one that it does not cover.
    let disk = durable(60);
    disk.flip(&name(1), HEAD + 3 * FRAME + 30, 3).unwrap();
    disk.flip(&name(1), HEAD + 14 * FRAME + 30, 3).unwrap();
    check_damage(&disk, 8, 14, &name(1), HEAD + 14 * FRAME);
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = durable(60);
    disk.remove(&name(20)).unwrap();
    check_damage(&disk, 0, 19, &name(1), HEAD + 19 * FRAME);
    let disk = durable(60);
    disk.remove(&name(1)).unwrap();
    check_damage(&disk, 0, 0, &name(20), 0);
    let disk = durable(60);
    disk.remove(&name(1)).unwrap();
    disk.remove(&name(20)).unwrap();
    assert_eq!(
        read(&disk, 38, OnDamage::Refuse).unwrap().0,
        60,
        "the checkpoint covers it"
    );
    check_damage(&disk, 37, 37, &name(39), 0);
}

#[test]
fn a_cut_or_misplaced_segment_is_damage() {
    for length in [0, 10, 31, 32, 100, 5 * FRAME, 19 * FRAME] {
        let disk = durable(60);
        let bytes = disk.bytes(&name(20)).unwrap();
        disk.put(&name(20), &bytes[..length as usize]);
        let kept = length.saturating_sub(HEAD) / FRAME;
        let offset = if length < HEAD { 0 } else { HEAD + kept * FRAME };
        let file = name(20);
        check_damage(&disk, 0, 19 + kept, &file, offset);
    }
    let disk = durable(60);
    disk.put(&name(20), &disk.bytes(&name(39)).unwrap());
    check_damage(&disk, 0, 19, &name(20), 0);
    let disk = durable(60);
    disk.put(&name(39), &vec![0; 4096]);
    check_damage(&disk, 0, 38, &name(39), 0);
    // One too many, in the middle.
    let disk = durable(60);
    let other = extend(&durable(24), 3, true);
    disk.put(&name(25), &other.bytes(&name(25)).unwrap());
    check_damage(&disk, 0, 38, &name(25), 0);
}

#[test]
fn an_unsynced_end_with_a_hole_is_a_torn_tail() {
    let disk = extend(&durable(5), 10, false);
    // Nothing of the ten was written yet.
    assert_eq!(read(&disk, 0, OnDamage::Refuse).unwrap().0, 5);

    // Written in one go and never synced; a hole in it, and later frames whole.
    let disk = durable(5);
    let (_, end, _) = read(&disk, 0, OnDamage::Refuse).unwrap();
    disk.lose_syncs(true);
    let log = Log::start(Arc::new(disk.clone()), STORE, end, options()).unwrap();
    let tip = disk.bytes("log.tip").unwrap();
    append(&log, 10, false);
    log.flush().unwrap();
    let disk = disk.kill();
    // The log took them for synced, and said so.
    disk.put("log.tip", &tip);
    for byte in 0..FRAME / 2 {
        disk.flip(&name(6), HEAD + 3 * FRAME + byte, 1).unwrap();
    }
    for on_damage in [OnDamage::Refuse, OnDamage::Cut] {
        let (last, end, damage) = read(&disk, 0, on_damage).unwrap();
        let damage = damage.unwrap();
        assert_eq!(
            (last, damage.first_lost, damage.last_known, damage.torn_tail),
            (8, Ts(9), Ts(15), true)
        );
        assert!(damage.to_string().contains("not durable yet"), "{damage}");
        let disk = disk.kill();
        let log = Log::start(Arc::new(disk.clone()), STORE, end, options()).unwrap();
        append(&log, 3, true);
        let disk = disk.kill();
        drop(log);
        assert_eq!(
            disk.bytes(&name(6)).unwrap().len() as u64,
            HEAD + 3 * FRAME,
            "the rest was cut"
        );
        let (last, _, damage) = read(&disk, 0, OnDamage::Refuse).unwrap();
        assert_eq!((last, damage), (11, None));
    }
}

#[test]
fn every_length_of_the_last_segment_is_a_torn_tail_once_its_first_commit_is_there() {
    let whole = durable(23);
    let bytes = whole.bytes(&name(20)).unwrap();
    // And some of the zeros behind them.
    for length in 0..(HEAD + 4 * FRAME + 50) as usize {
        let disk = whole.kill();
        // Only the first of them was known to be durable when the next was made.
        disk.put(&name(20), &bytes[..length]);
        let kept = ((length as u64).saturating_sub(HEAD) / FRAME).min(4);
        let found = read(&disk, 0, OnDamage::Refuse);
        if kept == 0 {
            assert!(
                matches!(found, Err(LogError::Damaged(_))),
                "length {length}: {found:?}"
            );
            continue;
        }
        let (last, _, damage) = found.unwrap();
        assert_eq!(last, 19 + kept);
        let rest = &bytes[(HEAD + kept * FRAME) as usize..length];
        let is_whole = rest.iter().all(|byte| *byte == 0);
        assert_eq!(damage.is_none(), is_whole, "length {length}: {damage:?}");
        assert!(damage.is_none_or(|damage| damage.torn_tail));
    }
}

#[test]
fn foreign_files_newer_versions_and_other_stores_are_said() {
    let refuse = |change: &dyn Fn(&mut Vec<u8>)| {
        let disk = durable(30);
        let mut bytes = disk.bytes(&name(20)).unwrap();
        change(&mut bytes);
        disk.put(&name(20), &bytes);
        read(&disk, 0, OnDamage::Refuse).unwrap_err().to_string()
    };
    let said = refuse(&|bytes| bytes[..8].copy_from_slice(b"hello wo"));
    assert!(
        said.contains("not a log segment") && said.contains(&name(20)),
        "{said}"
    );
    let said = refuse(&|bytes| {
        bytes[8] = 9;
        let sum = crc32fast::hash(&[&bytes[..12], &bytes[16..32]].concat());
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    });
    assert!(
        said.contains("format version 9") && said.contains("2 at most"),
        "{said}"
    );
    let said = refuse(&|bytes| bytes[8] = 9);
    assert!(
        said.contains("checksum of its head is wrong") && said.contains("damage cut"),
        "{said}"
    );

    let disk = durable(30);
    let storage = Arc::new(disk);
    for on_damage in [OnDamage::Refuse, OnDamage::Cut] {
        let reader = LogReader::open(storage.clone(), 8, Ts(0), on_damage);
        let error = reader.and_then(|mut reader| reader.next_segment()).unwrap_err();
        assert!(
            matches!(
                error,
                LogError::OtherStore {
                    found: 7,
                    wanted: 8,
                    ..
                }
            ),
            "{error}"
        );
    }
    let error = read(&durable(30), 0, OnDamage::Refuse).err();
    assert!(error.is_none());
}

#[test]
fn random_garbage_never_panics_and_never_makes_commits() {
    for seed in 1..300_u64 {
        let disk = durable(30);
        let mut bytes = disk.bytes(&name(1)).unwrap();
        let mut random = seed;
        for _ in 0..seed % 40 + 1 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % bytes.len();
            match seed % 3 {
                0 => bytes[at] ^= (random >> 20) as u8 | 1,
                1 => bytes.truncate(at.max(40)),
                _ => bytes.insert(at, random as u8),
            }
        }
        disk.put(&name(1), &bytes);
        // `read` checks every block against what was written.
        if let Ok((last, _, _)) = read(&disk, 0, OnDamage::Cut) {
            assert!(last < 30, "seed {seed}");
        }
        let refused = read(&disk, 0, OnDamage::Refuse);
        assert!(
            matches!(refused, Err(LogError::Damaged(_) | LogError::NotALog { .. })),
            "seed {seed}"
        );
    }
}
