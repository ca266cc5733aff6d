//! How fast a store is opened again: writes a log of small changes, opens it with one and more threads, then a checkpoint.
//!
//! ```text
//! cargo run --release -p corun-store --example recovery [-- MILLIONS [THREADS]]
//! ```
//!
//! Prints a line of JSON for each opening. What it is not: a benchmark of the disk; the files are in the page cache.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::{Duration, Instant};

use corun_store::{Durability, Options, Store, StoreError, TableDef, Type};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let most: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let records = (millions * 1e6) as u64;
    let folder = std::env::temp_dir().join(format!("corun-recovery-{}", std::process::id()));
    let outcome = run(&folder, records, most);
    std::fs::remove_dir_all(&folder)?;
    Ok(outcome?)
}

fn options(threads: usize) -> Options {
    Options {
        durability: Durability::Asynchronous,
        checkpoint_log_bytes: 0,
        log_bytes_max: 0,
        recovery_threads: threads,
        ..Options::default()
    }
}

fn run(folder: &std::path::Path, records: u64, most: usize) -> Result<(), StoreError> {
    let log_bytes = write(folder, records)?;
    for threads in 1..=most {
        let store = open(folder, threads, log_bytes)?;
        store.close()?;
    }
    let store = Store::open(folder, options(most))?;
    let done = store
        .checkpoint()?
        .expect("a store in a folder writes checkpoints");
    store.close()?;
    for threads in 1..=most {
        open(folder, threads, done.bytes)?.close()?;
    }
    Ok(())
}

/// A quarter inserts, the rest updates of one number; 10 records a commit, rows of about 100 bytes.
fn write(folder: &std::path::Path, records: u64) -> Result<u64, StoreError> {
    let store = Store::open(folder, options(1))?;
    let table = store.create_table(
        TableDef::new("account")
            .column("id", Type::I64)
            .column("balance", Type::I64)
            .column("owner", Type::Text { max: 80 })
            .column("city", Type::Text { max: 80 })
            .primary_key(&["id"]),
    )?;
    let key = table.primary();
    let mut session = store.session_here()?;
    let (mut rows, mut done, mut random) = (0_i64, 0, 1_u64);
    let mut row = table.new_row();
    while done < records {
        let transaction = session.begin()?;
        for _ in 0..10 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if rows < 100 || done % 4 == 0 {
                row.set(0, rows)?;
                row.set(1, 1000_i64)?;
                row.set(2, format!("the owner of account number {rows}").as_str())?;
                row.set(3, "a city with a name of some length")?;
                transaction.insert(&table, &row)?;
                rows += 1;
            } else {
                let id = (random >> 33) as i64 % rows;
                if let Some(found) = transaction.fetch_for_update(&key, &[id.into()])? {
                    let balance = found.row.int(1) + (random >> 50) as i64;
                    transaction.update(&table, found.rid, |row| row.set(1, balance))?;
                }
            }
            done += 1;
        }
        transaction.commit()?;
    }
    let bytes = store.stats().log_bytes;
    drop(session);
    store.close()?;
    Ok(bytes)
}

fn open(folder: &std::path::Path, threads: usize, bytes: u64) -> Result<Store, StoreError> {
    let started = Instant::now();
    let store = Store::open(folder, options(threads))?;
    let all = started.elapsed();
    let recovered = store.recovered();
    let from_log = recovered.commits > 0;
    let (what, count, time) = if from_log {
        ("log", recovered.records, recovered.log_time)
    } else {
        ("checkpoint", recovered.checkpoint_rows, recovered.checkpoint_time)
    };
    println!(
        "{{\"from\":\"{what}\",\"threads\":{threads},\"records\":{count},\"commits\":{},\"bytes\":{bytes},\
         \"records_per_second\":{:.0},\"commits_per_second\":{:.0},\"megabytes_per_second\":{:.0},\
         \"seconds\":{:.3},\"index_seconds\":{:.3},\"open_seconds\":{:.3}}}",
        recovered.commits,
        per_second(count, time),
        per_second(recovered.commits, time),
        per_second(bytes, time) / 1e6,
        time.as_secs_f64(),
        recovered.index_time.as_secs_f64(),
        all.as_secs_f64(),
    );
    Ok(store)
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
