//! Clients of a running log: many threads, groups, full buffers, parks that return without reason; on the twin and in a real folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::log_support::{options, read, start};
use corun_store::Ts;
use corun_store::log::{Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use corun_store::park::{Park, ThreadPark};
use corun_store::storage::{Folder, Storage, Twin};

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
    let segments = || -> Vec<String> {
        let names = storage.names().unwrap();
        names
            .into_iter()
            .filter(|name| name.starts_with("log-"))
            .collect()
    };
    let bytes: u64 = segments()
        .iter()
        .map(|name| storage.open(name).unwrap().length().unwrap())
        .sum();
    // Without the zeros ahead.
    assert!((log.bytes()..=log.bytes() + (256 << 10)).contains(&bytes));
    log.remove_before(Ts(3200)).unwrap();
    assert_eq!(segments(), ["log-00000000000000003201.corun"]);
    log.remove_before(Ts(3201)).unwrap();
    assert_eq!((segments().len(), log.bytes()), (0, 0));
    log.append(b"and more", &ThreadPark::current(), |_| {}).unwrap();
    log.close().unwrap();
    assert_eq!(segments(), ["log-00000000000000003202.corun"]);
    let mut reader = LogReader::open(storage.clone(), 7, Ts(3201), OnDamage::Refuse).unwrap();
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

/// Commits when dropped.
struct CommitsWhenDropped<'a>(&'a Log);

impl Drop for CommitsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0
            .append(&[2; 3000], &corun_store::park::current(), |_| {})
            .expect("room comes");
    }
}

#[test]
fn a_member_that_unwinds_does_not_wait_behind_those_it_keeps_from_running() {
    if !cfg!(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )) {
        return;
    }
    let (send, done) = std::sync::mpsc::channel();
    let runs = thread::spawn(move || {
        let disk = Twin::new(1);
        disk.slow_sync(Duration::from_millis(5));
        let options = LogOptions {
            buffer_bytes: 4096,
            ..options()
        };
        let log = start(disk, options);
        let mut scheduler =
            corun_exec::teams::Scheduler::new(corun_exec::teams::TeamOptions::default()).unwrap();
        for _ in 0..10 {
            let ended = scheduler.scope(|scope| {
                let log = &log;
                for _ in 0..2 {
                    scope.spawn("waits", move || {
                        let park = corun_store::park::current();
                        for _ in 0..4 {
                            let ts = log.append(&[1; 3000], &park, |_| {}).unwrap();
                            log.wait_durable(Ts(ts.0 / 2), &park).unwrap();
                        }
                    });
                }
                scope.spawn("panics", move || {
                    corun_exec::teams::yield_now();
                    let _commits = CommitsWhenDropped(log);
                    std::panic::resume_unwind(Box::new("boom"));
                });
            });
            assert!(ended[0].is_ok() && ended[1].is_ok() && ended[2].is_err());
        }
        let last = log.last();
        log.close().unwrap();
        send.send(last).unwrap();
    });
    let last = done.recv_timeout(Duration::from_secs(30));
    assert_eq!(last.expect("somebody waits for ever"), Ts(10 * 9));
    runs.join().unwrap();
}
