//! How fast a store is read back: TPC-C is loaded and run with a log and no checkpoint, and the folder opened again, by one thread and
//! by all.
//!
//! Each opening reads a copy of the folder, because opening one changes it. The files are in the kernel's page cache: what is
//! measured is the work of reading a log, not the disk. The answer is the state: a sum over all rows of all tables before and after.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::time::Instant;

use corun_model::units::CpuId;
use corun_store::{Durability, Options, Store};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{Measure, RunOptions, TpccWorkload, run_tpcc};
use corun_workloads::engine::TpccEngine;
use corun_workloads::tpcc::{self, Mix, Scale, TableName};

use super::case::{SEED, scale_value};
use super::contest::on_cpus;
use super::{CORUN, SUITE};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::scratch::{Scratch, remove};
use lab_core::stats::Spread;

/// The case's name.
pub const CASE: &str = "recovery";
/// Its metric: changes of rows a second, from the call of `open` until transactions can begin.
pub const RECORDS_PER_S: &str = "log_records_per_s";

/// Changes of rows are in the log only as long as no checkpoint is made.
const NO_CHECKPOINT: u64 = u64::MAX;

/// What is written and read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// The database.
    pub scale: Scale,
    /// Transactions run on it.
    pub transactions: u64,
}

impl Written {
    /// So much for a scale: enough to double what the load wrote, or little.
    pub fn of(scale: Scale, quick: bool) -> Written {
        let transactions = if quick {
            1_000
        } else {
            100_000 * u64::from(scale.warehouses.unsigned_abs())
        };
        Written { scale, transactions }
    }
}

fn open(folder: &Path, workers: usize, threads: usize) -> Result<Store, BenchError> {
    let options = Options {
        workers,
        durability: Durability::Asynchronous,
        checkpoint_log_bytes: NO_CHECKPOINT,
        log_bytes_max: 0,
        recovery_threads: threads,
        ..Options::default()
    };
    Store::open(folder, options).map_err(BenchError::store)
}

/// All rows of all tables as one number; the order in which they are seen does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    rows: u64,
    sum: u64,
}

impl State {
    fn of(engine: &dyn TpccEngine) -> Result<State, BenchError> {
        let mut state = State::default();
        for table in TableName::ALL {
            let each = &mut |row: &tpcc::Row| {
                let mut text = Text(DefaultHasher::new());
                // Writing into a hasher cannot fail.
                let _ = write!(text, "{row:?}");
                state.rows += 1;
                state.sum = state.sum.wrapping_add(text.0.finish());
            };
            engine.visit(table, each).map_err(BenchError::store)?;
        }
        Ok(state)
    }
}

/// Hashes what is written into it.
struct Text(DefaultHasher);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Fills the folder; returns what is in the store when it is closed.
fn write(folder: &Path, written: Written, cpus: &[CpuId]) -> Result<State, BenchError> {
    let engine = CorunTpcc::new(open(folder, cpus.len(), 0)?).map_err(BenchError::store)?;
    tpcc::load(&engine, written.scale, SEED, 1, &|_| ()).map_err(BenchError::store)?;
    let workload = TpccWorkload {
        scale: written.scale,
        load_seed: SEED,
        mix: Mix::STANDARD,
    };
    let options = RunOptions {
        clients: cpus.len(),
        workers: cpus.len(),
        cpus: cpus.to_vec(),
        measure: Measure::Transactions(written.transactions),
        seed: SEED,
        ..RunOptions::default()
    };
    run_tpcc(&engine, &workload, &options).map_err(BenchError::store)?;
    let state = State::of(&engine)?;
    let store = engine.store().clone();
    drop(engine);
    store.close().map_err(BenchError::store)?;
    Ok(state)
}

/// What one opening gave.
struct Opened {
    records: u64,
    seconds: f64,
    right: bool,
}

fn reopen(folder: &Path, threads: usize, expected: State) -> Result<Opened, BenchError> {
    let start = Instant::now();
    let store = open(folder, 1, threads)?;
    let seconds = start.elapsed().as_secs_f64();
    let records = store.recovered().records;
    let engine = CorunTpcc::new(store).map_err(BenchError::store)?;
    let found = State::of(&engine)?;
    Ok(Opened {
        records,
        seconds,
        right: found == expected,
    })
}

/// Runs the case.
///
/// # Errors
/// The store's; a state that differs is a wrong answer and no error.
pub fn run(
    written: Written,
    thread_counts: &[usize],
    cpus: &[CpuId],
    scratch: &Scratch,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let rounds = runner.plan().repetitions;
    let progress = runner.progress();
    let steps = 1 + rounds * thread_counts.len();
    progress.begin(&format!("{SUITE} {CASE}"), steps as u64);
    let folder = scratch.folder(CASE)?;
    let copy = scratch.path().join("recovery-copy");
    let state = write(&folder, written, cpus)?;
    progress.advance(1);
    let mut opened: Vec<Vec<Opened>> = thread_counts.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for step in 0..thread_counts.len() {
            let at = (step + round) % thread_counts.len();
            copy_files(&folder, &copy)?;
            let mine = &cpus[..thread_counts[at].clamp(1, cpus.len())];
            opened[at].push(on_cpus(mine, || reopen(&copy, thread_counts[at], state))??);
            progress.advance(1);
        }
    }
    for folder in [&folder, &copy] {
        remove(folder)
            .map_err(|source| BenchError::io(format!("could not remove {}", folder.display()), source))?;
    }
    progress.end();
    for (&threads, opened) in thread_counts.iter().zip(&opened) {
        for row in rows(written, threads, opened) {
            runner.emit(row);
        }
    }
    Ok(())
}

fn rows(written: Written, threads: usize, opened: &[Opened]) -> Vec<Row> {
    let right = opened.iter().all(|opened| opened.right);
    let records = opened.first().map_or(0, |opened| opened.records);
    let rates: Vec<f64> = opened
        .iter()
        .map(|opened| opened.records as f64 / opened.seconds.max(1e-9))
        .collect();
    let times: Vec<f64> = opened.iter().map(|opened| opened.seconds * 1e3).collect();
    let warehouses = f64::from(written.scale.warehouses) / f64::from(written.scale.divisor);
    [(RECORDS_PER_S, "1/s", rates), ("ms", "ms", times)]
        .into_iter()
        .filter_map(|(metric, unit, values)| {
            let spread = Spread::of(&values)?;
            let row = Row::measured(SUITE, CASE, metric, unit, spread, right)
                .with("engine", CORUN)
                .with("workload", "tpcc")
                .with("scale", scale_value(warehouses))
                .with("workers", threads)
                .with("durability", "async")
                .with("teams", "off")
                .with("records", records)
                .with("transactions", written.transactions);
            Some(row)
        })
        .collect()
}

/// Makes `to` a copy of `from`, which holds files only.
fn copy_files(from: &Path, to: &Path) -> Result<(), BenchError> {
    let copy = || -> std::io::Result<()> {
        remove(to)?;
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    copy().map_err(|source| {
        BenchError::io(
            format!("could not copy {} to {}", from.display(), to.display()),
            source,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_change_is_a_wrong_answer() {
        let cpus = corun_topology::affinity::allowed_cpus().expect("Linux");
        let scratch = Scratch::new(None).expect("a folder");
        let (folder, copy) = (scratch.folder("a").expect("one"), scratch.path().join("b"));
        let written = Written {
            scale: Scale::hundredth(1),
            transactions: 200,
        };
        let state = write(&folder, written, &cpus[..1]).expect("a log");
        copy_files(&folder, &copy).expect("a copy");
        let opened = reopen(&copy, 1, state).expect("readable");
        assert!(opened.right && opened.records > 200);
        let fewer = State {
            rows: state.rows - 1,
            ..state
        };
        copy_files(&folder, &copy).expect("a copy");
        let opened = reopen(&copy, 2, fewer).expect("readable");
        assert!(!opened.right);
        let row = &rows(written, 2, &[opened])[0];
        assert_eq!((row.metric.as_str(), row.answer_ok), (RECORDS_PER_S, Some(false)));
    }
}
