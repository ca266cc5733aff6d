//! What reads of rows cost that are not in the caches: one at a time, many at a time, in scans.
//!
//! ```text
//! cargo run --release -p corun-workloads --no-default-features --example store_reads [-- ROWS ROUNDS]
//! ```
//!
//! Rows are as YCSB's, ten columns of 100 bytes, in an order that is not that of their keys. All ways take turns in each round; a line of
//! JSON for each tells the median of the rounds in nanoseconds a row, all of which is read. What it is not: a benchmark with a verdict.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::ops::Bound::{Included, Unbounded};
use std::time::Instant;

use corun_store::{
    Direction, Found, Index, KeyRange, Lock, Options, RowRef, Session, Store, StoreError, TableDef, Type,
    Value,
};
use corun_workloads::random::Random;

/// The allocator the program ships with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Columns beside the key, and their bytes.
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Rows that each way reads in each round.
const READS: usize = 40_000;
/// Keys of one transaction or snapshot.
const TOGETHER: usize = 64;
/// Rows of a scan.
const SCANNED: usize = 50;

/// The key of a row by its number: every number has another, and neighbours lie far apart.
fn key(number: u64) -> i64 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64
}

/// Reads all of a row.
fn sum(row: RowRef<'_>) -> u64 {
    let words = row.encoded().chunks_exact(8);
    words.fold(0, |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("8 bytes")))
    })
}

struct Data {
    store: Store,
    index: Index,
    rows: u64,
}

fn load(rows: u64) -> Result<Data, StoreError> {
    let store = Store::in_memory(Options::default())?;
    let bytes = FIELD_BYTES as u32;
    let definition = (0..FIELDS).fold(TableDef::new("t").column("key", Type::I64), |table, number| {
        table.column(&format!("field{number}"), Type::FixedBytes { bytes })
    });
    let table = store.create_table(definition.primary_key(&["key"]))?;
    let (mut session, mut row) = (store.session_here()?, table.new_row());
    for first in (0..rows).step_by(1000) {
        let transaction = session.begin()?;
        for number in first..rows.min(first + 1000) {
            row.set(0, key(number))?;
            for field in 1..=FIELDS {
                row.set(field, &[number as u8; FIELD_BYTES][..])?;
            }
            transaction.insert(&table, &row)?;
        }
        transaction.commit()?;
    }
    let index = table.primary();
    Ok(Data { store, index, rows })
}

impl Data {
    fn from(&self, key: i64) -> Result<KeyRange, StoreError> {
        Ok(self.index.between(&[], Included(Value::Int(key)), Unbounded)?)
    }
}

/// One way to read rows of these keys: rows read, and a sum over them.
type Way = fn(&Data, &mut Session, &[Value<'static>]) -> Result<(usize, u64), StoreError>;

fn add(sums: (usize, u64), found: Option<Found<'_>>) -> (usize, u64) {
    found.map_or(sums, |found| (sums.0 + 1, sums.1.wrapping_add(sum(found.row))))
}

fn single(data: &Data, session: &mut Session, keys: &[Value<'static>]) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for keys in keys.chunks(TOGETHER) {
        let transaction = session.begin()?;
        for key in keys {
            sums = add(sums, transaction.fetch(&data.index, std::slice::from_ref(key))?);
        }
        transaction.commit()?;
    }
    Ok(sums)
}

fn many<const N: usize>(
    data: &Data,
    session: &mut Session,
    keys: &[Value<'static>],
) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for keys in keys.chunks(TOGETHER) {
        let transaction = session.begin()?;
        for keys in keys.chunks(N) {
            let keys = keys.iter().map(std::slice::from_ref);
            let found = transaction.fetch_many(&data.index, keys, Lock::Shared)?;
            sums = found.into_iter().fold(sums, add);
        }
        transaction.commit()?;
    }
    Ok(sums)
}

fn snapshot_single(
    data: &Data,
    _: &mut Session,
    keys: &[Value<'static>],
) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for keys in keys.chunks(TOGETHER) {
        let snapshot = data.store.snapshot()?;
        for key in keys {
            sums = add(sums, snapshot.fetch(&data.index, std::slice::from_ref(key))?);
        }
    }
    Ok(sums)
}

fn snapshot_many<const N: usize>(
    data: &Data,
    _: &mut Session,
    keys: &[Value<'static>],
) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for keys in keys.chunks(TOGETHER) {
        let snapshot = data.store.snapshot()?;
        for keys in keys.chunks(N) {
            let found = snapshot.fetch_many(&data.index, keys.iter().map(std::slice::from_ref))?;
            sums = found.into_iter().fold(sums, add);
        }
    }
    Ok(sums)
}

fn snapshot_rows(data: &Data, _: &mut Session, keys: &[Value<'static>]) -> Result<(usize, u64), StoreError> {
    let snapshot = data.store.snapshot()?;
    let rows = snapshot.rows(data.index.table(), 0..keys.len() as u32)?;
    Ok(rows.map(Some).fold((0, 0), add))
}

fn snapshot_scan(data: &Data, _: &mut Session, keys: &[Value<'static>]) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for key in keys.iter().step_by(SCANNED) {
        let Value::Int(key) = key else { continue };
        let snapshot = data.store.snapshot()?;
        let rows = snapshot.scan(&data.index, &data.from(*key)?, Direction::Ascending)?;
        sums = rows.take(SCANNED).map(Some).fold(sums, add);
    }
    Ok(sums)
}

fn snapshot_long_scan(
    data: &Data,
    _: &mut Session,
    keys: &[Value<'static>],
) -> Result<(usize, u64), StoreError> {
    let snapshot = data.store.snapshot()?;
    let rows = snapshot.scan(&data.index, &data.index.all(), Direction::Ascending)?;
    Ok(rows.take(keys.len()).map(Some).fold((0, 0), add))
}

fn scan(data: &Data, session: &mut Session, keys: &[Value<'static>]) -> Result<(usize, u64), StoreError> {
    let mut sums = (0, 0);
    for key in keys.iter().step_by(SCANNED) {
        let Value::Int(key) = key else { continue };
        let transaction = session.begin()?;
        let range = data.index.between(
            &[],
            Included(Value::Int(*key)),
            Included(Value::Int(
                key.saturating_add(i64::MAX / data.rows as i64 * SCANNED as i64),
            )),
        )?;
        let mut rows = transaction.scan(&data.index, &range, Direction::Ascending, Lock::Shared)?;
        for _ in 0..SCANNED {
            sums = add(sums, rows.next()?);
        }
        transaction.commit()?;
    }
    Ok(sums)
}

const WAYS: [(&str, Way); 12] = [
    ("transaction, fetch", single),
    ("transaction, fetch_many of 8", many::<8>),
    ("transaction, fetch_many of 16", many::<16>),
    ("transaction, fetch_many of 64", many::<64>),
    ("snapshot, fetch", snapshot_single),
    ("snapshot, fetch_many of 8", snapshot_many::<8>),
    ("snapshot, fetch_many of 16", snapshot_many::<16>),
    ("snapshot, fetch_many of 64", snapshot_many::<64>),
    ("snapshot, by number", snapshot_rows),
    ("snapshot, scan of 50", snapshot_scan),
    ("snapshot, one scan", snapshot_long_scan),
    ("transaction, scan of 50", scan),
];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;
    let data = load(rows)?;
    let mut session = data.store.session_here()?;
    let mut random = Random::new(7, 0);
    let mut times = vec![Vec::new(); WAYS.len()];
    for _ in 0..rounds {
        for (way, times) in WAYS.iter().zip(&mut times) {
            let keys: Vec<Value<'static>> = (0..READS)
                .map(|_| Value::Int(key(random.pick(0, rows as i64 - 1))))
                .collect();
            let started = Instant::now();
            let (read, sum) = way.1(&data, &mut session, &keys)?;
            times.push(started.elapsed().as_nanos() as f64 / read as f64);
            std::hint::black_box(sum);
        }
    }
    for ((name, _), times) in WAYS.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (median, least) = (times[times.len() / 2], times[0]);
        println!(
            "{{\"reads\": \"{name}\", \"rows\": {rows}, \"ns_a_row\": {median:.0}, \"least\": {least:.0}}}"
        );
    }
    Ok(())
}
