//! How fast the log of TPC-C is read back: loads, runs, and opens the store again with one and more threads.
//!
//! ```text
//! cargo run --release -p corun-workloads --no-default-features --example tpcc_recovery [-- WAREHOUSES TRANSACTIONS THREADS]
//! ```
//!
//! Prints a line of JSON for each opening: first of the log of load and run, then of the log of the run behind a checkpoint of
//! the load. What it is not: a benchmark of the disk; the files are in the page cache.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::Path;

use corun_store::{Durability, Options, Store};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{Measure, RunOptions, TpccWorkload, run_tpcc};
use corun_workloads::tpcc::{self, Mix, Scale};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut numbers = [2, 100_000, 2];
    for (number, text) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = text.parse()?;
    }
    let [warehouses, transactions, threads] = numbers;
    let warehouses = i16::try_from(warehouses)?;
    let folder = std::env::temp_dir().join(format!("corun-tpcc-recovery-{}", std::process::id()));
    for checkpoint in [false, true] {
        let outcome = run(&folder, warehouses, transactions, threads as usize, checkpoint);
        std::fs::remove_dir_all(&folder)?;
        outcome?;
    }
    Ok(())
}

fn options(threads: usize) -> Options {
    Options {
        workers: 2,
        durability: Durability::Asynchronous,
        checkpoint_log_bytes: 0,
        log_bytes_max: 0,
        recovery_threads: threads,
        ..Options::default()
    }
}

fn run(folder: &Path, warehouses: i16, transactions: u64, most: usize, checkpoint: bool) -> Outcome<()> {
    let engine = CorunTpcc::new(Store::open(folder, options(1))?)?;
    let scale = Scale::standard(warehouses);
    tpcc::load(&engine, scale, 1, 2, &|_| ())?;
    if checkpoint {
        engine.store().checkpoint()?;
    }
    let workload = TpccWorkload {
        scale,
        load_seed: 1,
        mix: Mix::STANDARD,
    };
    let run = RunOptions {
        clients: 4,
        workers: 2,
        measure: Measure::Transactions(transactions),
        ..RunOptions::default()
    };
    run_tpcc(&engine, &workload, &run)?;
    let bytes = engine.store().stats().log_bytes;
    drop(engine);
    for threads in 1..=most {
        let store = Store::open(folder, options(threads))?;
        let recovered = store.recovered();
        let (log, rows) = (
            recovered.log_time.as_secs_f64(),
            recovered.checkpoint_time.as_secs_f64(),
        );
        println!(
            "{{\"warehouses\":{warehouses},\"threads\":{threads},\"log_records\":{},\"log_commits\":{},\"log_bytes\":{bytes},\
             \"log_seconds\":{log:.3},\"records_per_second\":{:.0},\"commits_per_second\":{:.0},\
             \"megabytes_per_second\":{:.0},\"checkpoint_rows\":{},\"checkpoint_seconds\":{rows:.3},\"index_seconds\":{:.3}}}",
            recovered.records,
            recovered.commits,
            recovered.records as f64 / log,
            recovered.commits as f64 / log,
            bytes as f64 / log / 1e6,
            recovered.checkpoint_rows,
            recovered.index_time.as_secs_f64(),
        );
        store.close()?;
    }
    Ok(())
}
