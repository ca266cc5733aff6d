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
use corun_model::progress::Progress;
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{Outcome, RunOptions, TpccWorkload, run_tpcc};
use lab_core::error::BenchError;
use tokio::runtime::Runtime;

use super::Side;
use super::statements::Statement;
use crate::demo::drive::{ClientRun, Draw, clients};
use crate::demo::schedule::roles;
use crate::demo::turns;

/// One turn of the live part: its clients analyse; there are none where transactions run alone.
pub type Turn = turns::Turn<Side, Transactions>;

/// What ran beside the analytic clients.
#[derive(Debug, Clone)]
pub struct Transactions {
    /// The transactions.
    pub outcome: Outcome,
    /// Consistency conditions that did not hold when all had stopped.
    pub violations: Vec<String>,
}

/// What the analytic clients of a turn have in common.
pub struct Analysis {
    /// The engine that sees the store's tables.
    pub engine: Engine,
    /// What they ask.
    pub statements: Arc<Vec<Statement>>,
    /// How many there are.
    pub clients: usize,
    /// Decides the order of statements.
    pub draw: Draw,
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
    analysis: Option<Analysis>,
    progress: &dyn Progress,
) -> Result<(Outcome, Vec<ClientRun>), BenchError> {
    std::thread::scope(|scope| {
        let terminals = scope.spawn(|| run_tpcc(tpcc, workload, run));
        let analysed = runtime.block_on(analyse(analysis, run.warmup, time, progress));
        let outcome = match terminals.join() {
            Ok(outcome) => outcome.map_err(BenchError::store)?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((outcome, analysed?))
    })
}

/// Waits for the warm-up, then runs the analytic clients, if there are any, and watches the time.
async fn analyse(
    analysis: Option<Analysis>,
    warmup: Duration,
    time: Duration,
    progress: &dyn Progress,
) -> Result<Vec<ClientRun>, BenchError> {
    tokio::time::sleep(warmup).await;
    let Some(analysis) = analysis else {
        let nobody = |_| std::future::ready(Err(EngineError::new("nobody asks")));
        return clients(std::iter::empty(), Draw::default(), time, nobody, progress).await;
    };
    let (engine, statements, draw) = (analysis.engine, analysis.statements, analysis.draw);
    let all: Vec<usize> = (0..statements.len()).collect();
    let roles = roles(analysis.clients, 0)
        .into_iter()
        .map(|role| (role, all.clone()));
    let ask = move |number: usize| {
        let (engine, statements) = (engine.clone(), Arc::clone(&statements));
        async move {
            let statement = &statements[number];
            let begin = Instant::now();
            let answer = engine.query(&statement.sql).await?;
            Ok::<_, EngineError>((begin.elapsed(), statement.judge(&answer)))
        }
    };
    clients(roles, draw, time, ask, progress).await
}
