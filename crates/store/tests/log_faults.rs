//! A log that runs: full and failing disks, limits, waiting clients, many threads; on the twin and in a real folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use store::log::{Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use store::park::{Park, ThreadPark};
use store::storage::{Folder, Storage, Twin};
use store::ts::Ts;

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        flush_every: Duration::from_millis(1),
        ..LogOptions::default()
    }
}

fn start(storage: impl Storage + 'static, options: LogOptions) -> Log {
    Log::start(Arc::new(storage), 7, LogEnd::default(), options).unwrap()
}

/// All payloads of a log.
fn read(storage: Arc<dyn Storage>) -> Vec<Vec<u8>> {
    let mut reader = LogReader::open(storage, 7, Ts(0), OnDamage::Refuse).unwrap();
    let mut blocks = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        blocks.extend(
            segment
                .blocks
                .iter()
                .map(|(_, range)| segment.bytes[range.clone()].to_vec()),
        );
    }
    blocks
}

/// Many threads commit, some wait, and each sees the order it should; what is read back is what `in_order` saw.
fn hammer(storage: Arc<dyn Storage>, options: LogOptions, threads: u64, commits: u64) {
    let log = Log::start(Arc::clone(&storage), 7, LogEnd::default(), options).unwrap();
    let order = parking_lot::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for thread in 0..threads {
            let (log, order) = (&log, &order);
            scope.spawn(move || {
                let park = ThreadPark::current();
                for number in 0..commits {
                    let bytes =
                        format!("{thread}/{number}{}", "x".repeat((number % 97) as usize * 10)).into_bytes();
                    let ts = log
                        .append(&bytes, &park, |ts| order.lock().push((ts, bytes.clone())))
                        .unwrap();
                    assert!(log.last() >= ts);
                    if (number + thread) % 5 == 0 {
                        log.wait_durable(ts, &park).unwrap();
                        assert!(log.durable() >= ts);
                    }
                }
            });
        }
    });
    assert_eq!(log.last(), Ts(threads * commits));
    assert_eq!(log.flush().unwrap(), log.last());
    assert_eq!(log.durable(), log.last());
    log.close().unwrap();
    let order = order.into_inner();
    assert!(order.iter().zip(1..).all(|((ts, _), expected)| ts.0 == expected));
    let expected: Vec<_> = order.into_iter().map(|(_, bytes)| bytes).collect();
    assert!(read(storage) == expected);
}

#[test]
fn many_threads_on_the_twin_with_small_buffers() {
    for buffer_bytes in [4096, 20_000, 1 << 20] {
        hammer(
            Arc::new(Twin::new(1)),
            LogOptions {
                buffer_bytes,
                ..options()
            },
            16,
            400,
        );
    }
}

#[test]
fn many_threads_in_a_real_folder() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(Folder::open(folder.path().join("store")).unwrap());
    let _owner = storage.lock().unwrap();
    hammer(storage.clone(), options(), 16, 200);
    assert!(storage.names().unwrap().len() > 3, "segments were changed");

    // And on from there.
    let mut reader = LogReader::open(storage.clone(), 7, Ts(0), OnDamage::Refuse).unwrap();
    let log = Log::start(storage.clone(), 7, reader.end().unwrap(), options()).unwrap();
    let ts = log.append(b"more", &ThreadPark::current(), |_| {}).unwrap();
    assert_eq!(ts, Ts(3201));
    log.flush().unwrap();
    let bytes: u64 = storage
        .names()
        .unwrap()
        .iter()
        .map(|name| storage.open(name).unwrap().length().unwrap())
        .sum();
    assert_eq!(log.bytes(), bytes);
    log.remove_before(Ts(3200)).unwrap();
    assert_eq!(storage.names().unwrap(), ["log-00000000000000003201.corun"]);
    log.remove_before(Ts(3201)).unwrap();
    assert_eq!((storage.names().unwrap().len(), log.bytes()), (0, 0));
    log.append(b"and more", &ThreadPark::current(), |_| {}).unwrap();
    log.close().unwrap();
    assert_eq!(storage.names().unwrap(), ["log-00000000000000003202.corun"]);
    let mut reader = LogReader::open(storage, 7, Ts(3201), OnDamage::Refuse).unwrap();
    assert_eq!(reader.end().unwrap().last(), Ts(3202));
}

#[test]
fn commits_nobody_waits_for_become_durable() {
    let log = start(Twin::new(1), options());
    let park = ThreadPark::current();
    for _ in 0..20 {
        let ts = log.append(b"block", &park, |_| {}).unwrap();
        while log.durable() < ts {
            thread::yield_now();
        }
    }
}

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
fn commits_during_a_slow_sync_form_one_group() {
    let disk = Twin::new(1);
    disk.slow_sync(Duration::from_millis(20));
    let log = start(disk.clone(), options());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let park = ThreadPark::current();
                for _ in 0..5 {
                    let ts = log.append(b"group", &park, |_| {}).unwrap();
                    log.wait_durable(ts, &park).unwrap();
                }
            });
        }
    });
    assert_eq!(log.durable(), Ts(40));
    assert!(disk.syncs() < 25, "{}", disk.syncs());
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
fn a_full_buffer_makes_committers_wait_in_turn_and_large_commits_pass() {
    let disk = Twin::new(1);
    let options = LogOptions {
        buffer_bytes: 4096,
        ..options()
    };
    let log = start(disk.clone(), options);
    thread::scope(|scope| {
        for thread in 0..6_u8 {
            let log = &log;
            scope.spawn(move || {
                let park = ThreadPark::current();
                for number in 0..200 {
                    let length = if number % 10 == 0 { 10_000 } else { 1500 };
                    log.append(&vec![thread; length], &park, |_| {}).unwrap();
                }
            });
        }
    });
    log.close().unwrap();
    assert_eq!(read(Arc::new(disk)).len(), 1200);
}

#[test]
fn those_that_wait_for_room_are_told_of_a_failure_or_the_end() {
    for fail in [true, false] {
        let disk = Twin::new(1);
        disk.slow_sync(Duration::from_millis(30));
        if fail {
            disk.fail_sync_after(1);
        }
        let log = start(
            disk,
            LogOptions {
                buffer_bytes: 4096,
                ..options()
            },
        );
        thread::scope(|scope| {
            let committers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let park = ThreadPark::current();
                        loop {
                            if let Err(error) = log.append(&[1; 3000], &park, |_| {}) {
                                return error;
                            }
                        }
                    })
                })
                .collect();
            if !fail {
                log.flush().unwrap();
                log.close().unwrap();
            }
            for committer in committers {
                let error = committer.join().unwrap();
                assert_eq!(matches!(error, LogError::Failed(_)), fail, "{error}");
                assert_eq!(matches!(error, LogError::Closed), !fail, "{error}");
            }
        });
    }
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

/// Returns at once nine times of ten, and counts.
struct Restless {
    inner: Arc<dyn Park>,
    parks: AtomicU64,
    busy: AtomicBool,
}

impl Park for Restless {
    fn park(&self, deadline: Option<Instant>) {
        assert!(
            !self.busy.swap(true, Ordering::SeqCst),
            "only its client parks it"
        );
        if self.parks.fetch_add(1, Ordering::SeqCst) % 10 == 9 {
            self.inner.park(deadline);
        }
        self.busy.store(false, Ordering::SeqCst);
    }

    fn unpark(&self) {
        self.inner.unpark();
    }
}

#[test]
fn returns_without_reason_do_no_harm() {
    let disk = Twin::new(1);
    disk.slow_sync(Duration::from_micros(300));
    let log = start(
        disk.clone(),
        LogOptions {
            buffer_bytes: 4096,
            ..options()
        },
    );
    thread::scope(|scope| {
        for thread in 0..6_usize {
            let log = &log;
            scope.spawn(move || {
                let inner = ThreadPark::current();
                let park: Arc<dyn Park> = Arc::new(Restless {
                    inner,
                    parks: AtomicU64::new(0),
                    busy: AtomicBool::new(false),
                });
                for number in 0..150 {
                    let ts = log.append(&vec![0; 200 * (thread + 1)], &park, |_| {}).unwrap();
                    if number % 3 == 0 {
                        log.wait_durable(ts, &park).unwrap();
                        assert!(log.durable() >= ts);
                    }
                }
            });
        }
    });
    log.close().unwrap();
    assert_eq!(read(Arc::new(disk)).len(), 900);
}
