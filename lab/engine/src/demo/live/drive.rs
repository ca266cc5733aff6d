//! One turn: terminals run transactions on a store while clients ask SQL about it.
//!
//! ```text
//!   terminals   |- warm-up -|------ counted ------|
//!   analysts                |------ counted ------|- each finishes the statement it is in -|
//! ```
//!
//! The terminals are clients of `corun-workloads`' driver, threads or members of teams; the analysts are tasks beside them, as in [`crate::demo::drive`]. Nobody is
//! given a share of the CPUs: who may run is up to the operating system.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_datafusion::{Engine, EngineError};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{Outcome, RunError, RunOptions, TpccWorkload, run_tpcc};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Side;
use super::statements::Statement;
use crate::demo::schedule::order;
use corun_model::progress::Progress;
use lab_core::error::BenchError;

/// One statement, run once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Execution {
    /// Index into the statements.
    pub statement: usize,
    /// Milliseconds from sending the statement to having its last row.
    pub milliseconds: f64,
}

/// What one analytic client did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analyst {
    /// From the start of the counted time to the end of its last statement.
    pub seconds: f64,
    /// In order.
    pub executions: Vec<Execution>,
    /// What was wrong with answers, one text each.
    pub wrong: Vec<String>,
}

/// What happened on one side of a round.
#[derive(Debug, Clone)]
pub struct Turn {
    /// How transactions ran, and who analysed.
    pub side: Side,
    /// The round, from 0.
    pub round: usize,
    /// The transactions.
    pub transactions: Outcome,
    /// The analytic clients; none where transactions run alone.
    pub analysts: Vec<Analyst>,
    /// Consistency conditions that did not hold when all had stopped.
    pub violations: Vec<String>,
}

/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(250);

/// What the analytic clients of a turn have in common.
#[derive(Clone)]
pub struct Analysis {
    /// The engine that sees the store's tables.
    pub engine: Engine,
    /// What they ask.
    pub statements: Arc<Vec<Statement>>,
    /// How many there are.
    pub clients: usize,
    /// Decides the order of statements, with the round.
    pub seed: u64,
    /// The round.
    pub round: usize,
}

/// Runs one turn; `run.warmup` and `time` are those of the terminals and of the analysts.
///
/// # Errors
/// The first statement that fails, or the first transaction.
pub fn turn(
    runtime: &Runtime,
    tpcc: &CorunTpcc,
    workload: &TpccWorkload,
    run: &RunOptions,
    time: Duration,
    analysis: Option<&Analysis>,
    progress: &dyn Progress,
) -> Result<(Outcome, Vec<Analyst>), BenchError> {
    std::thread::scope(|scope| {
        let terminals = scope.spawn(|| run_tpcc(tpcc, workload, run));
        let analysed = runtime.block_on(analyse(analysis, run.warmup, time, progress));
        let outcome = match terminals.join() {
            Ok(outcome) => outcome.map_err(|error: RunError| BenchError::Store(error.to_string()))?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((outcome, analysed?))
    })
}

/// Waits for the warm-up, then runs the analytic clients, if there are any, and watches the time.
async fn analyse(
    analysis: Option<&Analysis>,
    warmup: Duration,
    time: Duration,
    progress: &dyn Progress,
) -> Result<Vec<Analyst>, BenchError> {
    tokio::time::sleep(warmup).await;
    let start = Instant::now();
    let mut clients = JoinSet::new();
    if let Some(analysis) = analysis {
        for client in 0..analysis.clients {
            clients.spawn(analyst(analysis.clone(), client, start, time));
        }
    }
    let mut analysts = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    ticks.tick().await;
    while !clients.is_empty() || start.elapsed() < time {
        tokio::select! {
            _ = ticks.tick() => progress.advance(1),
            Some(finished) = clients.join_next() => match finished {
                Ok(analyst) => analysts.push(analyst?),
                Err(error) => return Err(BenchError::Data(format!("a client was stopped: {error}"))),
            },
        }
    }
    analysts.sort_by_key(|(number, _)| *number);
    Ok(analysts.into_iter().map(|(_, analyst)| analyst).collect())
}

/// One analytic client; returns its number and what it did. It runs at least one statement, however late it gets a CPU.
async fn analyst(
    analysis: Analysis,
    client: usize,
    start: Instant,
    time: Duration,
) -> Result<(usize, Analyst), EngineError> {
    let mut done = Analyst::default();
    for statement in order(analysis.seed, analysis.round, client, analysis.statements.len()) {
        if !done.executions.is_empty() && start.elapsed() >= time {
            break;
        }
        let begin = Instant::now();
        let answer = analysis.engine.query(&analysis.statements[statement].sql).await?;
        done.executions.push(Execution {
            statement,
            milliseconds: begin.elapsed().as_secs_f64() * 1000.0,
        });
        done.wrong.extend(analysis.statements[statement].judge(&answer));
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok((client, done))
}

/// How many steps of the progress bar a turn takes.
pub fn steps(time: Duration) -> u64 {
    time.as_millis().div_ceil(TICK.as_millis()) as u64
}
