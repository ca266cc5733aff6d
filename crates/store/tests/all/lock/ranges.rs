//! Intervals against inserts: no phantom.

use crate::lock::support::{Random, World, key, patient};
use corun_store::lock::{LockError, LockOptions};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn intervals_are_inclusive_and_compared_word_by_word() {
    let world = World::new(patient());
    let (mut a, mut b) = (world.here(), world.here());
    b.holder.set_timeout(Duration::ZERO);
    let ranges = &world.ranges[3];
    a.holder
        .range(ranges, &[1, 5, 0, 0, 0, 0, 0, 0], &[2, 3, 0, 0, 0, 0, 0, 9])
        .unwrap();
    for (key, inside) in [
        ([1, 4, u64::MAX, 0, 0, 0, 0, 0], false),
        ([1, 5, 0, 0, 0, 0, 0, 0], true),
        ([1, 9, 9, 9, 9, 9, 9, 9], true),
        ([2, 0, 0, 0, 0, 0, 0, 0], true),
        ([2, 3, 0, 0, 0, 0, 0, 9], true),
        ([2, 3, 0, 0, 0, 0, 1, 0], false),
        ([2, 4, 0, 0, 0, 0, 0, 0], false),
    ] {
        assert_eq!(b.holder.pass(ranges, &key).is_err(), inside, "{key:?}");
        assert_eq!(a.holder.pass(ranges, &key), Ok(()), "one's own");
        assert_eq!(b.holder.pass(&world.ranges[4], &key), Ok(()), "another index");
    }
    a.end();
    // The other way round is empty.
    a.range(3, 9, 8);
    assert_eq!((a.holder.held(), ranges.holders()), (0, 0));
    world.assert_free();
}

#[test]
fn an_inserter_waits_for_all_readers_it_met() {
    let world = World::new(patient());
    let (mut a, mut b, mut c) = (world.here(), world.here(), world.here());
    a.range(0, 0, 10);
    b.range(0, 5, 15);
    c.range(0, 8, 9);
    let inserter = crate::lock::support::Remote::new(&world);
    let passed = inserter.start(|inserter| inserter.pass(0, 7));
    world.until_waiting(1);
    a.end();
    c.end();
    assert_eq!(world.locks.counts().waiting, 1);
    b.end();
    assert_eq!(passed.get(), Ok(()));
    world.assert_free();
}

/// An index as small as can be: which keys are in. Its own orderings are as weak as they may be.
struct Index(Vec<AtomicBool>);

impl Index {
    fn has(&self, at: u64) -> bool {
        self.0[at as usize].load(Ordering::Acquire)
    }

    fn put(&self, at: u64, is: bool) {
        self.0[at as usize].store(is, Ordering::Release);
    }
}

/// The two sides of the protocol, step by step against each other: never do both miss the other.
#[test]
fn a_reader_and_an_inserter_never_miss_each_other() {
    let world = World::new(LockOptions {
        timeout: Duration::ZERO,
        ..LockOptions::default()
    });
    const ROUNDS: u64 = 30_000;
    let index = Index((0..64).map(|_| AtomicBool::new(false)).collect());
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| (AtomicU64::new(0), AtomicU64::new(0)))
        .collect();
    let go = (AtomicU64::new(0), AtomicU64::new(0));
    let meet = |mine: &AtomicU64, other: &AtomicU64, round: u64| {
        mine.store(round, Ordering::Release);
        let mut spins = 0;
        while other.load(Ordering::Acquire) < round {
            spins += 1;
            if spins % 1000 == 0 {
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = world.here();
            for round in 0..ROUNDS {
                meet(&go.0, &go.1, round * 2 + 1);
                reader.range(0, 3, 5);
                rounds[round as usize]
                    .0
                    .store(1 + u64::from(index.has(4)), Ordering::Relaxed);
                meet(&go.0, &go.1, round * 2 + 2);
                reader.end();
            }
        });
        scope.spawn(|| {
            let mut inserter = world.here();
            for round in 0..ROUNDS {
                meet(&go.1, &go.0, round * 2 + 1);
                index.put(4, true);
                let passed = inserter.pass(0, 4).is_ok();
                rounds[round as usize]
                    .1
                    .store(1 + u64::from(passed), Ordering::Relaxed);
                meet(&go.1, &go.0, round * 2 + 2);
                index.put(4, false);
            }
        });
    });
    let mut seen = [0; 2];
    for (at, (read, passed)) in rounds.iter().enumerate() {
        let (read, passed) = (read.load(Ordering::Relaxed), passed.load(Ordering::Relaxed));
        assert!(
            read == 2 || passed == 1,
            "round {at}: the reader missed the entry and the inserter the interval"
        );
        seen[usize::from(read == 2)] += 1;
    }
    assert_eq!(seen[0] + seen[1], ROUNDS);
    world.assert_free();
}

/// Readers read their interval twice in a transaction while others insert, some of whom give up.
#[test]
fn no_phantom_among_threads() {
    const KEYS: u64 = 512;
    let world = World::new(patient());
    let index = Index((0..KEYS).map(|_| AtomicBool::new(false)).collect());
    let (inserted, scanned, aborted) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (world, index, start, inserted, aborted) = (&world, &index, &start, &inserted, &aborted);
            scope.spawn(move || {
                let mut client = world.here();
                let mut random = Random::seeded(thread + 1);
                start.wait();
                // Each inserts keys of its own, in random order; an insert that gives up is tried again.
                let mut keys: Vec<_> = (0..KEYS).filter(|key| key % 3 == thread).collect();
                while !keys.is_empty() {
                    let at = keys[random.below(keys.len() as u64) as usize];
                    client.x(at as u32).unwrap();
                    index.put(at, true);
                    let mut passed = client.pass(0, at);
                    if random.below(8) == 0 {
                        // The transaction aborts for a reason of its own.
                        passed = Err(LockError::TooManyLocks { limit: 0 });
                    }
                    match passed {
                        Ok(()) => {
                            keys.retain(|key| *key != at);
                            inserted.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LockError::Timeout { .. }) => panic!("nobody waits for ever"),
                        Err(_) => {
                            index.put(at, false);
                            aborted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    client.end();
                }
            });
        }
        for thread in 0..3_u64 {
            let (world, index, start, inserted, scanned) = (&world, &index, &start, &inserted, &scanned);
            scope.spawn(move || {
                let mut client = world.here();
                let mut random = Random::seeded(thread + 9);
                start.wait();
                while inserted.load(Ordering::Relaxed) < KEYS {
                    let lo = random.below(KEYS);
                    let hi = (lo + random.below(40)).min(KEYS - 1);
                    client.range(0, lo, hi);
                    let mut scan = || -> Result<Vec<u64>, LockError> {
                        let mut found = Vec::new();
                        for at in (lo..=hi).filter(|at| index.has(*at)) {
                            client.s(at as u32)?;
                            // Its inserter may have given up.
                            found.extend(index.has(at).then_some(at));
                        }
                        Ok(found)
                    };
                    let twice = scan().and_then(|first| {
                        std::thread::yield_now();
                        Ok((first, scan()?))
                    });
                    match twice {
                        Ok((first, second)) => {
                            assert_eq!(
                                first, second,
                                "the interval {lo} to {hi} changed under its reader"
                            );
                            scanned.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LockError::Deadlock { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    client.end();
                }
            });
        }
    });
    assert!((0..KEYS).all(|at| index.has(at)));
    assert!(scanned.load(Ordering::Relaxed) > 0);
    assert_eq!(world.locks.counts().timeouts, 0);
    world.assert_free();
}

#[test]
fn a_transaction_with_very_many_intervals_still_locks_each() {
    let world = World::new(patient());
    let (mut a, mut b) = (world.here(), world.here());
    b.holder.set_timeout(Duration::ZERO);
    for _ in 0..2 {
        for at in 0..2000_u64 {
            let at = at * 7919 % 2000;
            a.range(5, at * 10, at * 10 + 2);
        }
        assert!(a.holder.held() <= 2000);
        assert!((0..2000).all(|at| b.pass(5, at * 10 + 1).is_err()));
        assert_eq!(b.pass(5, 20_003), Ok(()));
        assert_eq!(b.holder.pass(&world.ranges[5], &key(1 << 40)), Ok(()));
        a.end();
        assert_eq!(b.pass(5, 1), Ok(()));
    }
}
