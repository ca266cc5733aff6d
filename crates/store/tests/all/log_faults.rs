//! A log that runs into trouble: full, failing and read-only disks, its own limit, panics, the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::log_support::{options, read, start};
use corun_store::Ts;
use corun_store::log::{Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use corun_store::park::ThreadPark;
use corun_store::storage::Twin;

#[test]
fn a_full_disk_ends_the_log_and_what_was_durable_stays() {
    let disk = Twin::new(1);
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
