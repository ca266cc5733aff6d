//! What checkpoints write and cost: a store of rows of 200 bytes, of which 1 % change between two checkpoints, side by side or everywhere.
//!
//! ```text
//! cargo run --release -p corun-workloads --no-default-features --example store_checkpoints [-- FOLDER GIGABYTES CHECKPOINTS]
//! ```
//!
//! Prints a line of JSON for each checkpoint, with the latency of another client's durable commits meanwhile and before, and one for opening
//! the store again beside reading its files. Rows are compared with what was written. What it is not: a benchmark of the disk.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corun_store::{Durability, Options, Rid, Store, Table, TableDef, Type};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a row's text.
const TEXT_BYTES: usize = 180;
/// Rows a transaction of load and change writes.
const TOGETHER: u64 = 5000;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let gigabytes: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let checkpoints: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let folder = folder.join(format!("corun-store-checkpoints-{}", std::process::id()));
    let outcome = run(&folder, (gigabytes * 1e9 / 200.0) as u64, checkpoints);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn options() -> Options {
    Options {
        workers: 2,
        checkpoint_log_bytes: 0,
        log_bytes_max: 0,
        ..Options::default()
    }
}

fn text(id: u64, round: u8) -> String {
    format!("{round} {id} {:0width$}", 0, width = TEXT_BYTES - 32)
}

fn run(folder: &Path, rows: u64, checkpoints: u64) -> Outcome<()> {
    let rounds = change(folder, rows, checkpoints)?;
    let started = Instant::now();
    let mut read = 0;
    for entry in std::fs::read_dir(folder)? {
        read += std::io::copy(&mut std::fs::File::open(entry?.path())?, &mut std::io::sink())?;
    }
    let reading = started.elapsed();
    let started = Instant::now();
    let store = Store::open(folder, options())?;
    let opening = started.elapsed();
    let table = store.table("t")?;
    println!(
        "{{\"case\":\"open\",\"bytes_on_disk\":{read},\"read_s\":{:.2},\"open_s\":{:.2},\"rows\":{}}}",
        reading.as_secs_f64(),
        opening.as_secs_f64(),
        table.rows()
    );
    let snapshot = store.snapshot()?;
    let mut count = 0;
    for found in snapshot.rows(&table, 0..table.rid_end())? {
        let id = found.row.int(0) as u64;
        // The client's row is the last.
        let right = id >= rows || found.row.text(1) == text(id, rounds[id as usize]);
        if !right {
            return Err(format!("row {id} is wrong").into());
        }
        count += u64::from(id < rows);
    }
    if count != rows {
        return Err(format!("{count} rows, not {rows}").into());
    }
    Ok(())
}

/// Loads rows, changes some and makes checkpoints; returns for each row the round that changed it last.
fn change(folder: &Path, rows: u64, checkpoints: u64) -> Outcome<Vec<u8>> {
    let store = Store::open(folder, options())?;
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("text", Type::Text { max: 200 })
        .primary_key(&["id"]);
    let table = store.create_table(definition)?;
    let mut session = store.session_here()?;
    session.set_durability(Durability::Asynchronous);
    for first in (0..rows).step_by(TOGETHER as usize) {
        let transaction = session.begin()?;
        let mut row = table.new_row();
        for id in first..(first + TOGETHER).min(rows) {
            row.set(0, id as i64)?;
            row.set(1, text(id, 0).as_str())?;
            transaction.insert(&table, &row)?;
        }
        transaction.commit()?;
    }
    drop(session);
    let all = checkpoint(&store, &table, "all", rows)?;
    let mut rounds = vec![0_u8; rows as usize];
    for round in 1..=checkpoints + 3 {
        let hundredth = rows / 100;
        let hot = round > checkpoints;
        let changed: Vec<u64> = match hot {
            true => (hundredth * round..hundredth * (round + 1)).collect(),
            false => (0..hundredth).map(|at| at * 100 + round * 37 % 100).collect(),
        };
        let mut session = store.session_here()?;
        session.set_durability(Durability::Asynchronous);
        let by_id = table.primary();
        for ids in changed.chunks(TOGETHER as usize) {
            let transaction = session.begin()?;
            for &id in ids {
                let found = transaction.fetch_for_update(&by_id, &[(id as i64).into()])?;
                let rid = found.ok_or("a row is missing")?.rid;
                transaction.update(&table, rid, |row| row.set(1, text(id, round as u8).as_str()))?;
                rounds[id as usize] = round as u8;
            }
            transaction.commit()?;
        }
        drop(session);
        let case = if hot { "hot" } else { "spread" };
        let bytes = checkpoint(&store, &table, case, hundredth)?;
        println!(
            "{{\"case\":\"{case}\",\"round\":{round},\"share_of_all\":{:.4}}}",
            bytes as f64 / all as f64
        );
    }
    store.close()?;
    Ok(rounds)
}

/// Makes a checkpoint while a client commits; returns the bytes it wrote.
fn checkpoint(store: &Store, table: &Table, case: &str, changed: u64) -> Outcome<u64> {
    let mut before = commits(store, table, &AtomicBool::new(false), Duration::from_secs(2))?;
    let done = AtomicBool::new(false);
    let (mut during, made, took) = std::thread::scope(|scope| -> Outcome<_> {
        let client =
            scope.spawn(|| commits(store, table, &done, Duration::MAX).map_err(|error| error.to_string()));
        let started = Instant::now();
        let made = store.checkpoint()?.ok_or("a store in memory")?;
        let took = started.elapsed();
        done.store(true, Ordering::Relaxed);
        Ok((client.join().map_err(|_| "the client panicked")??, made, took))
    })?;
    println!(
        "{{\"case\":\"{case}\",\"rows_changed\":{changed},\"rows_written\":{},\"bytes\":{},\"seconds\":{:.3},\
         \"commits\":{},\"commit_p99_us_before\":{},\"commit_p99_us\":{},\"commit_max_us\":{}}}",
        made.rows,
        made.bytes,
        took.as_secs_f64(),
        during.len(),
        p99(&mut before),
        p99(&mut during),
        during.last().copied().unwrap_or(0),
    );
    Ok(made.bytes)
}

/// Latencies in microseconds of durable commits of a row of the client's own.
fn commits(store: &Store, table: &Table, done: &AtomicBool, most: Duration) -> Outcome<Vec<u64>> {
    let mut session = store.session(1, corun_store::park::current())?;
    let by_id = table.primary();
    let mut rid: Option<Rid> = None;
    let (mut latencies, began) = (Vec::new(), Instant::now());
    while !done.load(Ordering::Relaxed) && began.elapsed() < most {
        let started = Instant::now();
        let transaction = session.begin()?;
        if rid.is_none() {
            rid = transaction
                .fetch_for_update(&by_id, &[i64::MAX.into()])?
                .map(|found| found.rid);
        }
        match rid {
            Some(rid) => transaction.update(table, rid, |row| row.set(1, "again"))?,
            None => {
                let mut row = table.new_row();
                row.set(0, i64::MAX)?;
                row.set(1, "first")?;
                rid = Some(transaction.insert(table, &row)?);
            }
        }
        transaction.commit_with(Durability::Durable)?;
        latencies.push(started.elapsed().as_micros() as u64);
    }
    Ok(latencies)
}

fn p99(latencies: &mut [u64]) -> u64 {
    latencies.sort_unstable();
    latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(0)
}
