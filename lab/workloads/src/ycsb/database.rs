//! [`Database`]: which records there are, across the runs on one engine, and [`load`], which puts the first ones in.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::record;
use super::requests::Input;
use super::zipf::Zipf;
use crate::engine::{TxError, YcsbEngine};

/// The records of one engine, as its clients know them.
#[derive(Debug)]
pub struct Database {
    /// Records loaded.
    loaded: u64,
    /// Over the loaded records; computed once because it takes time.
    zipf: Zipf,
    /// Whether all records are equally likely.
    even: bool,
    // Relaxed everywhere: these are counters; that a record whose number is below `limit` can be found by others is the
    // engine's promise about commits, and an engine synchronises its clients itself.
    /// The next number to insert.
    next: AtomicU64,
    /// All records with smaller numbers are there.
    limit: AtomicU64,
    /// Those at or above `limit` that are there.
    ahead: Mutex<BTreeSet<u64>>,
    /// Fields replaced whatever they held.
    updates: AtomicU64,
    /// Fields whose version was increased by one.
    modifications: AtomicU64,
}

impl Database {
    /// A database of `records` records (at least one) that are going to be loaded.
    pub fn new(records: u64) -> Self {
        let records = records.max(1);
        Self {
            loaded: records,
            zipf: Zipf::new(records),
            even: false,
            next: AtomicU64::new(records),
            limit: AtomicU64::new(records),
            ahead: Mutex::new(BTreeSet::new()),
            updates: AtomicU64::new(0),
            modifications: AtomicU64::new(0),
        }
    }

    /// As [`Database::new`], with all records equally likely, except in workload D, which is about new ones. No part of the standard
    /// workloads, but what YCSB calls a uniform request distribution: caches are of no use then.
    pub fn evenly(records: u64) -> Self {
        Self {
            even: true,
            ..Self::new(records)
        }
    }

    /// Records loaded.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Records there are: each with a smaller number has been inserted.
    pub fn records(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Fields replaced whatever they held, so far.
    pub fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// Read-modify-writes so far, each of which increased one version by one.
    pub fn modifications(&self) -> u64 {
        self.modifications.load(Ordering::Relaxed)
    }

    pub(super) fn zipf(&self) -> &Zipf {
        &self.zipf
    }

    pub(super) fn is_even(&self) -> bool {
        self.even
    }

    /// A number nobody else inserts.
    pub(super) fn take_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of a transaction that has committed.
    pub fn done(&self, input: Input) {
        match input {
            Input::Insert { number, .. } => {
                let mut ahead = self.ahead.lock();
                ahead.insert(number);
                let mut limit = self.limit.load(Ordering::Relaxed);
                while ahead.remove(&limit) {
                    limit += 1;
                }
                self.limit.store(limit, Ordering::Relaxed);
            }
            Input::Update { .. } => {
                self.updates.fetch_add(1, Ordering::Relaxed);
            }
            Input::ReadModifyWrite { .. } => {
                self.modifications.fetch_add(1, Ordering::Relaxed);
            }
            Input::Read { .. } | Input::Scan { .. } => {}
        }
    }
}

/// Records of one part of a load.
const PART: u64 = 10_000;

/// Puts the database's first records into an empty engine, with `threads` threads. Calls `progress` with the number of
/// records handed over so far, now and then.
///
/// # Errors
/// The first error of the engine.
pub fn load(
    engine: &dyn YcsbEngine,
    database: &Database,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), TxError> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, 64) {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(PART, Ordering::Relaxed);
                    if first >= database.loaded || failed.lock().is_some() {
                        return;
                    }
                    let end = (first + PART).min(database.loaded);
                    let mut records = (first..end)
                        .map(record::key)
                        .map(|key| (key, record::record(key)));
                    if let Err(error) = engine.load(&mut records) {
                        failed.lock().get_or_insert(error);
                    }
                    progress(end);
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}
