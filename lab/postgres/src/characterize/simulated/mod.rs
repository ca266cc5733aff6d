//! Where a database's instructions and misses go, without counters: PostgreSQL's stand-alone backend under valgrind.
//!
//! ```text
//!   statement ──▶ settings, once ──────────────▶ [ valgrind [ postgres --single ] ] ──▶ what starting and warming up takes ──┐
//!             └─▶ settings, once and k times ──▶ [ valgrind [ postgres --single ] ] ──▶ that, and k executions ──────────────┴▶ difference / k
//! ```
//!
//! Order of calls: [`simulate`], once there are whatever smaller tables the statements need. Each statement is executed once
//! more than it counts, so that catalogs, buffers and simulated caches are warm, as the paper's are by a query before. Cachegrind gives
//! instructions, misses and branches for each [`Shape`] of caches; callgrind, for the first shape, the same by function, with the file of code
//! each is from, and which lines of code are executed. [`rows`] turns both into rows.
//!
//! What such numbers are not: cachegrind knows two levels of cache, replaces the least recently used line, has no prefetchers, no TLBs and
//! no kernel, and its branch predictor is a small one of its own. No time follows from them. One backend is simulated, alone: nothing of
//! concurrency is in them. So each row says `cachegrind`, and which caches.
//!
//! A server must not run on the data folder meanwhile; that is checked. Not here: the workloads themselves, measured runs.

mod rows;
mod shape;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corun_cachesim::cachegrind::Profile;
use corun_cachesim::callgrind::Executed;

use crate::fixture;
use crate::fixture::account::Account;
use crate::fixture::cluster::Programs;
use crate::traced::counted::CountedBackend;
use crate::traced::{PEER, valgrind, values};
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;

pub use rows::{Found, SERVER, rows};
pub use shape::Shape;

/// Rows of the table that scans and joins read when simulated, a tenth of the measured one's. PostgreSQL 15 on two virtual cores of Zen 4:
/// starting takes 3 s under cachegrind, one uSS over 100,000 rows 0.5 s, one uNJ 4 s, one uTPC-C over 1,000,000 rows 0.03 s; all three
/// under two shapes, and under callgrind once, took just under two minutes on a 2-core AMD EPYC VM.
pub const TABLE_ROWS: u64 = 100_000;
/// Executions that are counted by default: of short statements such as uTPC-C, and of those that read a whole table.
pub const EXECUTIONS_SHORT: usize = 10;
/// See [`EXECUTIONS_SHORT`].
pub const EXECUTIONS_LONG: usize = 1;
/// Most statements of one call.
const STATEMENTS_MAX: usize = 100;
/// Most executions of a statement that are counted.
const EXECUTIONS_MAX: usize = 10_000;

/// What a statement must leave: a query asked afterwards gives these values in this column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The query.
    pub sql: String,
    /// The column's name.
    pub column: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// A statement to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The workload it stands for: `utpcc`, `uss`, ...
    pub workload: String,
    /// Settings of the session, such as those that pin its plan.
    pub settings: Vec<(String, String)>,
    /// Statements that make things ready before each simulated run, themselves not simulated, such as emptying the table it writes to.
    pub before: Vec<String>,
    /// The statement, which writes.
    pub sql: String,
    /// What it leaves.
    pub expect: Expect,
    /// How many executions are counted, besides the one that warms up.
    pub executions: usize,
    /// Rows of the largest table it reads, for the reader of the rows; simulation wants smaller tables than a measured run has.
    pub table_rows: u64,
}

/// How to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The caches, most important first.
    pub shapes: Vec<Shape>,
    /// A folder for files that are removed afterwards.
    pub scratch: PathBuf,
    /// `on`, `off` or `none`: what rows say of the machine.
    pub smt: String,
    /// Time after which no run is begun.
    pub budget: Duration,
    /// Longest time of one run.
    pub run_within: Duration,
}

/// Simulates each statement under each shape of caches: rows of the cases `misses`, `mix`, `functions`, `footprint` and `resources`.
///
/// Whatever the time did not suffice for becomes a row without number that says so.
///
/// # Errors
/// When valgrind or PostgreSQL is not here, a server runs on the data folder, a statement fails, or valgrind's output cannot be read.
pub fn simulate(
    programs: &Programs,
    data: &Path,
    account: Option<Account>,
    statements: &[Statement],
    options: &Options,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BenchError> {
    valgrind()?;
    if statements.len() > STATEMENTS_MAX {
        let many = format!(
            "at most {STATEMENTS_MAX} statements are simulated, not {}",
            statements.len()
        );
        return Err(BenchError::BadArgument(many));
    }
    for statement in statements {
        if !(1..=EXECUTIONS_MAX).contains(&statement.executions) {
            let wrong = format!(
                "a statement is simulated 1 to {EXECUTIONS_MAX} times, not {}",
                statement.executions
            );
            return Err(BenchError::BadArgument(wrong));
        }
    }
    let backend = CountedBackend::new(programs, data, account, &options.scratch)?.within(options.run_within);
    let runs = statements.len() * (options.shapes.len() + 1);
    progress.begin("simulating PostgreSQL", runs as u64);
    let began = Instant::now();
    let mut found: Vec<Found> = statements.iter().map(Found::of).collect();
    let outcome = (|| -> Result<(), BenchError> {
        // The first shape of every statement comes before the second of any: a short budget costs the less important one.
        for (nth, shape) in options.shapes.iter().enumerate() {
            for found in &mut found {
                if began.elapsed() < options.budget {
                    found.cachegrind(&backend, shape)?;
                } else {
                    found.late(shape);
                }
                progress.advance(1);
            }
            if nth > 0 {
                continue;
            }
            for found in &mut found {
                if began.elapsed() < options.budget {
                    found.callgrind(&backend, shape)?;
                }
                progress.advance(1);
            }
        }
        Ok(())
    })();
    progress.end();
    outcome?;
    Ok(found.iter().flat_map(|found| rows(found, &options.smt)).collect())
}

impl Found {
    /// Runs it under cachegrind, warm-up only and in full, and keeps the difference.
    fn cachegrind(&mut self, backend: &CountedBackend, shape: &Shape) -> Result<(), BenchError> {
        let read = |text: &str| Profile::parse(text).map_err(|error| failed(error.to_string()));
        let (warm, full) = self.pair(backend, "cachegrind", &shape.arguments(), &read)?;
        let profile = full.less(&warm).map_err(|error| failed(error.to_string()))?;
        self.profiles.push((shape.clone(), profile));
        Ok(())
    }

    /// The same under callgrind, which keeps both runs.
    fn callgrind(&mut self, backend: &CountedBackend, shape: &Shape) -> Result<(), BenchError> {
        let read = |text: &str| Executed::parse(text).map_err(|error| failed(error.to_string()));
        let mut arguments = shape.arguments();
        let by_instruction = ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"];
        arguments.extend(by_instruction.map(str::to_owned));
        let (warm, full) = self.pair(backend, "callgrind", &arguments, &read)?;
        self.executed = Some((shape.clone(), warm, full));
        Ok(())
    }

    fn pair<T>(
        &mut self,
        backend: &CountedBackend,
        tool: &str,
        arguments: &[String],
        read: &dyn Fn(&str) -> Result<T, BenchError>,
    ) -> Result<(T, T), BenchError> {
        let statement = self.statement.clone();
        let settings = statement
            .settings
            .iter()
            .map(|(name, value)| format!("set {name} to {value}"));
        let mut texts: Vec<String> = settings.collect();
        texts.push(statement.sql.clone());
        let mut run = |texts: &[String]| {
            backend.native(&statement.before)?;
            let (output, _) = backend.under(tool, arguments, texts)?;
            let Expect {
                sql,
                column,
                values: wanted,
            } = &statement.expect;
            let left = backend.native(std::slice::from_ref(sql))?;
            self.answer_ok &= left.iter().all(|answer| values(answer, column) == *wanted);
            read(&output)
        };
        // Once natively: the first reader of new rows notes in them that they are visible, which no later one does.
        backend.native(&texts)?;
        let warm = run(&texts)?;
        texts.extend(std::iter::repeat_n(statement.sql.clone(), statement.executions));
        Ok((warm, run(&texts)?))
    }
}

fn failed(reason: impl Into<String>) -> BenchError {
    fixture::failed(PEER, reason)
}
