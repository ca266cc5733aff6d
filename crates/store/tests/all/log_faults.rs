//! A log that runs into trouble: full, failing and read-only disks, its own limit, panics, the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::log_support::{options, read, start};
use corun_store::Ts;
use corun_store::log::{Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use corun_store::park::ThreadPark;
use corun_store::storage::Twin;

/// Where the file system reserves nothing, a full disk is found while what others have read is written.
#[test]
fn a_full_disk_that_reserves_nothing_ends_the_log_and_what_was_durable_stays() {
    let disk = Twin::new(1);
    disk.reserve_nothing(true);
    let log = start(disk.clone(), options());
    let park = ThreadPark::current();
    disk.full_at(Some(10_000));
    let mut acknowledged = 0;
    let error = loop {
        let ts = match log.append(&[7; 300], &park, |_| {}) {
            Ok(ts) => ts,
            Err(error) => break error,
        };
        match log.wait_durable(ts, &park) {
            Ok(()) => acknowledged = ts.0,
            Err(error) => break error,
        }
    };
    let said = error.to_string();
    assert!(
        matches!(&error, LogError::Failed(failure) if failure.kind == std::io::ErrorKind::StorageFull),
        "{said}"
    );
    for part in [
        "twin-1/log-00000000000000000001.corun",
        "disk is full",
        "opened again",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Room does not mend it.
    disk.full_at(None);
    assert!(matches!(
        log.append(b"x", &park, |_| panic!("nothing happened")),
        Err(LogError::Failed(_))
    ));
    assert!(matches!(log.flush(), Err(LogError::Failed(_))));
    assert!(matches!(log.close(), Err(LogError::Failed(_))));
    log.wait_durable(Ts(acknowledged), &park).unwrap();
    assert!(acknowledged > 20);
    for seed in 0..20 {
        assert!(read(Arc::new(disk.crash(seed))).len() as u64 >= acknowledged);
    }
}

/// Appends until the disk is full; how many commits there are then, all of them durable.
fn append_until_full(log: &Log, payload: &dyn Fn(u64) -> Vec<u8>) -> (u64, LogError) {
    let park = ThreadPark::current();
    loop {
        let next = log.last().0 + 1;
        match log.append(&payload(next), &park, |_| {}) {
            Ok(ts) if ts.0.is_multiple_of(3) => log.wait_durable(ts, &park).unwrap(),
            Ok(_) => {}
            Err(error) => return (log.flush().unwrap().0, error),
        }
    }
}

#[test]
fn a_full_disk_refuses_commits_until_there_is_room() {
    let disk = Twin::new(1);
    let log = start(
        disk.clone(),
        LogOptions {
            segment_bytes: 4096,
            ..options()
        },
    );
    let park = ThreadPark::current();
    let payload = |ts: u64| vec![ts as u8; 300];
    let mut commits = 0;
    for room in [10_000, 20_000, 21_000, 40_000] {
        disk.full_at(Some(room));
        let (last, error) = append_until_full(&log, &payload);
        assert!(last > commits, "{room}: {last}");
        commits = last;
        let said = error.to_string();
        assert!(
            matches!(&error, LogError::DiskFull(failure) if failure.kind == std::io::ErrorKind::StorageFull),
            "{said}"
        );
        for part in [
            "refused",
            "twin-1/log-",
            "disk is full: make room",
            "as soon as there is room",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(disk.used() <= room);
        for _ in 0..3 {
            let again = log.append(&[1; 300], &park, |_| panic!("nothing happened"));
            assert!(matches!(again, Err(LogError::DiskFull(_))));
        }
        // What is smaller than the room that is left may pass; what was refused leaves nothing.
        assert_eq!(log.last().0, commits);
        for seed in 0..20 {
            let blocks = read(Arc::new(disk.crash(seed)));
            assert_eq!(blocks.len() as u64, commits, "room {room}, seed {seed}");
            assert!((1..).zip(&blocks).all(|(ts, block)| *block == payload(ts)));
        }
    }
    // A checkpoint makes room, too.
    log.remove_before(Ts(commits)).unwrap();
    assert!(disk.used() < 1000, "{}", disk.used());
    let (last, _) = append_until_full(&log, &payload);
    assert!(last > commits + 90, "{commits}, {last}");
    log.close().unwrap();
    assert!(disk.used() <= 40_000);
}

#[test]
fn commits_of_many_threads_meet_a_disk_that_is_full_now_and_then() {
    for seed in 1..6 {
        let disk = Twin::new(seed);
        let log = start(
            disk.clone(),
            LogOptions {
                segment_bytes: 4096,
                buffer_bytes: 4096,
                ..options()
            },
        );
        disk.full_at(Some(3000));
        let (refused, done) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let (log, refused, done) = (&log, &refused, &done);
                scope.spawn(move || {
                    let park = ThreadPark::current();
                    for at in 0..400_u64 {
                        // Of all lengths, also more than the buffer takes.
                        let bytes = if at % 37 == 0 {
                            6000
                        } else {
                            (at * (number + 3)) % 200
                        } as usize;
                        match log.append(&vec![number as u8; bytes], &park, |_| {}) {
                            Ok(ts) if at % 5 == 0 => log.wait_durable(ts, &park).unwrap(),
                            Ok(_) => {}
                            Err(LogError::DiskFull(_)) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut round = 0;
            while done.load(Ordering::SeqCst) < 4 {
                disk.full_at(Some(disk.used() + round % 3 * 4000));
                thread::sleep(Duration::from_micros(500));
                if round % 4 == 3 {
                    log.remove_before(log.durable()).unwrap();
                }
                round += 1;
            }
        });
        assert!(refused.load(Ordering::Relaxed) > 0);
        let last = log.flush().unwrap();
        assert_eq!(last.0 + refused.load(Ordering::Relaxed), 4 * 400);
        disk.full_at(None);
        log.append(b"the last", &ThreadPark::current(), |_| {}).unwrap();
        log.close().unwrap();
        let mut reader = LogReader::open(Arc::new(disk.crash(seed)), 7, last, OnDamage::Refuse).unwrap();
        assert_eq!(reader.end().unwrap().last(), last.next());
    }
}

/// The power fails at every effect of a log that meets a full disk and goes on.
#[test]
fn a_crash_at_any_point_around_a_full_disk_loses_nothing_durable() {
    for effects in 0..150 {
        let disk = Twin::new(effects);
        let log = start(
            disk.clone(),
            LogOptions {
                segment_bytes: 4096,
                ..options()
            },
        );
        disk.stop_after(effects);
        let park = ThreadPark::current();
        let payload = |ts: u64| vec![ts as u8; 200 + ts as usize % 400];
        let (mut acknowledged, mut failed) = (0, false);
        for room in [9_000, 18_000, 60_000] {
            disk.full_at(Some(room));
            for _ in 0..60 {
                let appended = log.append(&payload(log.last().0 + 1), &park, |_| {});
                match appended.and_then(|ts| log.wait_durable(ts, &park).map(|()| ts)) {
                    Ok(ts) => acknowledged = ts.0,
                    Err(LogError::DiskFull(_)) => break,
                    Err(_) => failed = true,
                }
            }
        }
        assert!(failed || effects > 50);
        for seed in 0..6 {
            let blocks = read(Arc::new(disk.crash(seed)));
            let last = blocks.len() as u64;
            assert!(
                (acknowledged..=log.last().0).contains(&last),
                "effects {effects}, seed {seed}"
            );
            assert!((1..).zip(&blocks).all(|(ts, block)| *block == payload(ts)));
        }
    }
}

#[test]
fn large_commits_pass_among_small_ones_and_are_whole_or_not_there() {
    let disk = Twin::new(1);
    disk.slow_sync(Duration::from_millis(1));
    let log = start(disk.clone(), options());
    let payload = |ts: u64| {
        let bytes = if ts.is_multiple_of(7) {
            300_000 * (ts as usize / 7)
        } else {
            100
        };
        vec![ts as u8; bytes]
    };
    let park = ThreadPark::current();
    for ts in 1..=30 {
        assert_eq!(log.append_owned(payload(ts), &park, |_| {}).unwrap(), Ts(ts));
        if ts % 10 == 0 {
            for seed in 0..4 {
                let durable = log.durable().0;
                let blocks = read(Arc::new(disk.crash(seed)));
                assert!((durable..=ts).contains(&(blocks.len() as u64)), "seed {seed}");
                assert!((1..).zip(&blocks).all(|(ts, block)| *block == payload(ts)));
            }
        }
    }
    log.close().unwrap();
    assert_eq!(read(Arc::new(disk)).len(), 30);
}

/// Numbers in rows look like the heads of frames, of any length: a search through a large commit that is torn must not check each
/// against all that follows.
#[test]
fn the_torn_end_of_a_large_commit_is_found_in_no_time() {
    let disk = Twin::new(1);
    let log = start(disk.clone(), options());
    let park = ThreadPark::current();
    log.append(b"small", &park, |_| {}).unwrap();
    let mut rows = Vec::new();
    for at in 0..1_000_000_u64 {
        // A length, a checksum, a timestamp, what was durable.
        rows.extend_from_slice(&(8_000_000 + at as u32).to_le_bytes());
        rows.extend_from_slice(&[7; 4]);
        rows.extend_from_slice(&(2 + at % 100).to_le_bytes());
        rows.extend_from_slice(&1_u64.to_le_bytes());
    }
    log.append_owned(rows, &park, |_| {}).unwrap();
    log.close().unwrap();
    let name = "log-00000000000000000001.corun";
    let mut bytes = disk.bytes(name).unwrap();
    bytes.truncate(bytes.len() - 100);
    disk.put(name, &bytes);
    let begun = Instant::now();
    let mut reader = LogReader::open(Arc::new(disk), 7, Ts(0), OnDamage::Cut).unwrap();
    assert_eq!(reader.end().unwrap().last(), Ts(1));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    for threads in [1, 8] {
        let disk = Twin::new(1);
        disk.fail_sync_after(5);
        disk.slow_sync(Duration::from_micros(200));
        let log = start(disk.clone(), options());
        let acknowledged = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let park = ThreadPark::current();
                    loop {
                        let waited = log.append(&[1; 50], &park, |_| {}).and_then(|ts| {
                            log.wait_durable(ts, &park)?;
                            Ok(ts)
                        });
                        match waited {
                            Ok(ts) => acknowledged.fetch_max(ts.0, Ordering::SeqCst),
                            Err(LogError::Failed(failure)) => {
                                assert!(failure.what.contains("syncing twin-1/log-"), "{failure}");
                                break;
                            }
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
        });
        assert_eq!(log.durable().0, acknowledged.load(Ordering::SeqCst));
        for seed in 0..20 {
            let left = read(Arc::new(disk.crash(seed))).len() as u64;
            assert!(left >= acknowledged.load(Ordering::SeqCst));
        }
    }
}

#[test]
fn the_limit_of_the_log_refuses_until_a_checkpoint_makes_room() {
    let log = start(
        Twin::new(1),
        LogOptions {
            segment_bytes: 4096,
            bytes_max: 20_000,
            ..options()
        },
    );
    let park = ThreadPark::current();
    let mut newest = Ts(0);
    for _ in 0..5 {
        let error = loop {
            match log.append(&[1; 100], &park, |_| {}) {
                Ok(ts) => newest = ts,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LogError::Full { limit: 20_000, .. }), "{error}");
        assert!(error.to_string().contains("checkpoint"), "{error}");
        assert_eq!(log.flush().unwrap(), newest, "the log itself works on");
        assert!(
            log.bytes() <= 20_000 + 1000 && log.bytes() > 18_000,
            "{}",
            log.bytes()
        );
        log.remove_before(newest).unwrap();
        assert_eq!(log.bytes(), 0);
    }
    assert!(newest > Ts(600));
}

#[test]
fn a_panic_while_stamping_takes_back_the_block_and_ends_the_log_orderly() {
    let disk = Twin::new(1);
    for log in [start(disk.clone(), options()), Log::memory(Ts(0))] {
        let park = ThreadPark::current();
        log.append(b"good", &park, |_| {}).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            log.append(b"bad", &park, |_| panic!("stamp"))
        }));
        assert!(panicked.is_err());
        assert_eq!(log.last(), Ts(1));
        let error = log.append(b"x", &park, |_| {}).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
        assert_eq!(log.flush().unwrap(), Ts(1));
        log.close().unwrap();
    }
    assert_eq!(read(Arc::new(disk)), [b"good"]);
}

#[test]
fn a_log_in_memory_hands_out_timestamps() {
    let log = Log::memory(Ts(41));
    let park = ThreadPark::current();
    let mut seen = Ts(0);
    assert_eq!(log.append(b"block", &park, |ts| seen = ts).unwrap(), Ts(42));
    assert_eq!(
        (seen, log.last(), log.durable(), log.bytes()),
        (Ts(42), Ts(42), Ts(42), 0)
    );
    log.wait_durable(Ts(42), &park).unwrap();
    assert_eq!(log.flush().unwrap(), Ts(42));
    assert!(matches!(
        log.wait_durable(Ts(43), &park),
        Err(LogError::NoSuchCommit { .. })
    ));
    log.remove_before(Ts(42)).unwrap();
    log.close().unwrap();
}

#[test]
fn closed_logs_and_senseless_requests_are_refused() {
    let disk = Twin::new(1);
    let log = start(disk.clone(), options());
    let park = ThreadPark::current();
    assert!(matches!(
        log.wait_durable(Ts(1), &park),
        Err(LogError::NoSuchCommit { .. })
    ));
    log.append(b"", &park, |_| {}).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    assert!(matches!(log.append(b"x", &park, |_| {}), Err(LogError::Closed)));
    log.wait_durable(Ts(1), &park).unwrap();
    assert_eq!(read(Arc::new(disk)), [b""]);
    for wrong in [
        LogOptions {
            buffer_bytes: 1,
            ..options()
        },
        LogOptions {
            segment_bytes: 1,
            ..options()
        },
        LogOptions {
            flush_every: Duration::ZERO,
            ..options()
        },
    ] {
        let started = Log::start(Arc::new(Twin::new(1)), 7, LogEnd::default(), wrong);
        assert!(matches!(started, Err(LogError::Options { .. })));
    }
}

#[test]
fn a_read_only_disk_is_said_at_the_start_and_can_be_read() {
    let disk = Twin::new(1);
    let log = start(disk.clone(), options());
    log.append(b"x", &ThreadPark::current(), |_| {}).unwrap();
    log.close().unwrap();
    disk.read_only(true);
    assert_eq!(read(Arc::new(disk.clone())).len(), 1);
    let mut reader = LogReader::open(Arc::new(disk.clone()), 7, Ts(0), OnDamage::Refuse).unwrap();
    let error = Log::start(Arc::new(disk), 7, reader.end().unwrap(), options())
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("needs a folder it can write to"),
        "{error}"
    );
}

#[test]
fn a_segment_that_cannot_be_removed_is_tried_again() {
    let disk = Twin::new(1);
    let log = start(
        disk.clone(),
        LogOptions {
            segment_bytes: 4096,
            ..options()
        },
    );
    let park = ThreadPark::current();
    for _ in 0..10 {
        log.append(&[1; 3000], &park, |_| {}).unwrap();
        log.flush().unwrap();
    }
    let bytes = log.bytes();
    disk.read_only(true);
    assert!(log.remove_before(Ts(10)).is_err());
    assert_eq!(log.bytes(), bytes);
    disk.read_only(false);
    log.remove_before(Ts(10)).unwrap();
    assert_eq!(log.bytes(), 0);
    log.append(b"works on", &park, |_| {}).unwrap();
    log.flush().unwrap();
}

/// After a failed sync the system still shows the bytes, and a later sync of the same file says that all is well.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_anew_after_a_kill() {
    let disk = Twin::new(1);
    let log = start(disk.clone(), options());
    let park = ThreadPark::current();
    for number in 0..10_u8 {
        log.append(&[number; 100], &park, |_| {}).unwrap();
    }
    log.flush().unwrap();
    disk.fail_sync_after(0);
    log.append(&[10; 100], &park, |_| {}).unwrap();
    assert!(log.flush().is_err());
    let disk = disk.kill();
    assert!(
        (0..20).all(|seed| read(Arc::new(disk.crash(seed))).len() == 10),
        "it is in the cache only"
    );

    let mut reader = LogReader::open(Arc::new(disk.clone()), 7, Ts(0), OnDamage::Refuse).unwrap();
    let end = reader.end().unwrap();
    assert_eq!(end.last(), Ts(11));
    let _log = Log::start(Arc::new(disk.clone()), 7, end, options()).unwrap();
    for seed in 0..20 {
        let blocks = read(Arc::new(disk.crash(seed)));
        assert!(blocks.len() == 11 && blocks[10] == [10; 100], "seed {seed}");
    }
}

#[test]
fn a_store_that_ended_on_a_full_disk_starts_once_there_is_room() {
    let disk = Twin::new(1);
    disk.reserve_nothing(true);
    let log = start(disk.clone(), options());
    let park = ThreadPark::current();
    disk.full_at(Some(5000));
    let failed = (0..100).find_map(|_| {
        let ts = log.append(&[1; 100], &park, |_| {}).ok()?;
        log.wait_durable(ts, &park).err()
    });
    assert!(failed.is_some());
    drop(log);
    let disk = disk.kill();
    let end = || {
        LogReader::open(Arc::new(disk.clone()), 7, Ts(0), OnDamage::Refuse)
            .unwrap()
            .end()
            .unwrap()
    };
    let last = end().last();
    disk.full_at(Some(5000));
    let error = Log::start(Arc::new(disk.clone()), 7, end(), options())
        .err()
        .unwrap();
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(end().last(), last, "nothing is lost");
    disk.full_at(None);
    let log = Log::start(Arc::new(disk.clone()), 7, end(), options()).unwrap();
    assert_eq!(log.append(b"goes on", &park, |_| {}).unwrap(), last.next());
    log.close().unwrap();
    assert_eq!(read(Arc::new(disk)).len() as u64, last.0 + 1);
}
