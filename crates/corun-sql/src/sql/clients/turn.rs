//! One turn: clients run their queries at once, each in its own order, until all have run theirs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use arrow::datatypes::SchemaRef;
use corun_cli::progress::Bars;
use corun_datafusion::{Coordinator, Engine, EngineError, TakenWork};
use corun_model::progress::Progress as _;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::queries::{Output, Query};

/// Work that takes less has no progress bar.
const BAR_AFTER: Duration = Duration::from_secs(2);

/// What runs queries.
#[derive(Clone)]
pub enum Target {
    /// An engine, which starts each at once.
    Engine(Engine),
    /// A coordinator before it, which decides when and where each starts.
    Coordinator(Coordinator),
}

/// A query, run once.
#[derive(Debug)]
pub struct Execution {
    /// Its number.
    pub query: usize,
    /// From sending it to having its last row.
    pub milliseconds: f64,
    /// How long it waited and ran, and what it took from others, where a coordinator says so.
    pub report: Option<(f64, f64, TakenWork)>,
    /// How its answer differs from the first one.
    pub difference: Option<String>,
}

/// A turn of a side.
#[derive(Debug)]
pub struct Turn {
    /// From its beginning to the last client's end.
    pub seconds: f64,
    /// What was run, in the order in which it ended.
    pub executions: Vec<Execution>,
    /// Whether all was: nobody interrupted it.
    pub is_complete: bool,
}

/// A progress bar that comes only when the work is long.
pub struct LateBar {
    bars: Bars,
    what: String,
    total: u64,
    done: u64,
    began: Instant,
    is_shown: bool,
}

impl LateBar {
    /// Of `total` steps.
    pub fn new(what: String, total: u64) -> LateBar {
        LateBar {
            bars: Bars::new(),
            what,
            total,
            done: 0,
            began: Instant::now(),
            is_shown: false,
        }
    }

    /// One step was done.
    pub fn advance(&mut self) {
        self.done += 1;
        if self.is_shown {
            self.bars.advance(1);
        }
    }

    /// Shows the bar if it is time to.
    pub fn look(&mut self) {
        if !self.is_shown && self.began.elapsed() >= BAR_AFTER {
            self.is_shown = true;
            self.bars.begin(&self.what, self.total);
            self.bars.advance(self.done);
        }
    }
}

impl Target {
    /// Runs a query to its end.
    ///
    /// # Errors
    /// Whatever planning or execution reports.
    pub async fn execute(
        &self,
        number: usize,
        query: &Query,
    ) -> Result<(SchemaRef, Output, Execution), EngineError> {
        let start = Instant::now();
        let (schema, output, counting, report) = match self {
            Target::Engine(engine) => {
                let (schema, mut batches) = engine.stream(&query.sql).await?;
                let (output, counting) = collect(&schema, &mut batches).await?;
                (schema, output, counting, None)
            }
            Target::Coordinator(coordinator) => {
                let mut submitted = coordinator.submit(&query.sql).await?;
                let schema = submitted.schema();
                let (output, counting) = collect(&schema, &mut submitted).await?;
                (schema, output, counting, submitted.report())
            }
        };
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let execution = Execution {
            query: number,
            milliseconds: start.elapsed().saturating_sub(counting).as_secs_f64() * 1e3,
            report: report.map(|report| {
                (
                    milliseconds(report.waited_ns),
                    milliseconds(report.ran_ns),
                    report.taken,
                )
            }),
            difference: query.difference(&schema, &output),
        };
        Ok((schema, output, execution))
    }
}

/// Reads all batches; also how long it took to check them.
async fn collect<S>(schema: &SchemaRef, batches: &mut S) -> Result<(Output, Duration), EngineError>
where
    S: Stream<Item = Result<arrow::array::RecordBatch, EngineError>> + Unpin,
{
    let mut output = Output::default();
    let mut counting = Duration::ZERO;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let begin = Instant::now();
        output.take(schema, batch);
        counting += begin.elapsed();
    }
    Ok((output, counting))
}

/// Runs a turn; `orders` has the queries of each client. It ends early when `interrupt` does.
///
/// # Errors
/// The first query that fails; the other clients are stopped.
pub async fn run<I: Future>(
    target: &Target,
    queries: &Arc<Vec<Query>>,
    orders: Vec<Vec<usize>>,
    what: String,
    mut interrupt: Pin<&mut I>,
) -> Result<Turn> {
    let total = orders.iter().map(Vec::len).sum::<usize>();
    let mut bar = LateBar::new(what, total as u64);
    let (sender, mut receiver) = mpsc::channel(total.max(1));
    let mut clients = JoinSet::new();
    let start = Instant::now();
    for order in orders {
        clients.spawn(client(target.clone(), Arc::clone(queries), order, sender.clone()));
    }
    drop(sender);
    let mut turn = Turn {
        seconds: 0.0,
        executions: Vec::with_capacity(total),
        is_complete: true,
    };
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            ended = receiver.recv() => match ended {
                None => break,
                Some((_, Ok(execution))) => {
                    turn.executions.push(execution);
                    bar.advance();
                }
                Some((number, Err(error))) => return Err(queries[number].failed(error)),
            },
            _ = interrupt.as_mut() => {
                turn.is_complete = false;
                break;
            }
            _ = ticks.tick() => bar.look(),
        }
    }
    turn.seconds = start.elapsed().as_secs_f64();
    // Dropped with their set, clients that still run are stopped, and their queries cancelled.
    Ok(turn)
}

type Ended = (usize, Result<Execution, EngineError>);

async fn client(target: Target, queries: Arc<Vec<Query>>, order: Vec<usize>, ended: mpsc::Sender<Ended>) {
    for number in order {
        let ran = target.execute(number, &queries[number]).await;
        let failed = ran.is_err();
        let ran = ran.map(|(_, _, execution)| execution);
        // Nobody listens: the turn was interrupted.
        if ended.send((number, ran)).await.is_err() || failed {
            return;
        }
    }
}
