//! A query on its CPUs: what its task does from start to end.
//!
//! [`Seat`] is its place in the books; it outlives all else of the task, and whatever ends the task (an end, an error, a panic, a
//! client that gave up, pools that stop) drops it after plan, stream and memory are gone. Then the next are started.

use super::Shared;
use super::pools;
use super::submitted::{Outcome, Report};
use crate::decide::Planned;
use crate::decide::decision::Decision;
use crate::{EngineError, Stop, TakenWork};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use corun_model::cache::coschedule::{QueryId, Start};
use corun_model::cache::locality::{Classifier, Footprint, Locality};
use corun_model::cache::partition::Class;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::future::AbortRegistration;
use futures::{FutureExt, StreamExt};
use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

/// Batches made ahead of the client.
pub(super) const BATCHES_AHEAD: usize = 4;

/// How long a client may keep a query from going on before others get its CPUs. Unmeasured.
const UNREAD_AFTER: Duration = Duration::from_millis(50);

/// Largest share of a run spent waiting for the client that still teaches: a tenth.
const BLOCKED_SHARE_MAX: u32 = 10;

/// When a run's tables are looked at first; each next time after twice as long.
const LOOK_AFTER: Duration = Duration::from_millis(2);

/// A query that was planned, with all it needs to run.
pub(super) struct Job {
    pub(super) query: PlannedQuery,
    pub(super) out: Out,
    /// By which it is cancelled.
    pub(super) abort: AbortRegistration,
}

/// A query, planned for so many partitions.
pub(super) struct PlannedQuery {
    pub(super) planned: Planned,
    pub(super) partitions: usize,
    /// From which it is planned again for another number.
    pub(super) logical: LogicalPlan,
    pub(super) context: SessionContext,
    /// What it looks at while it does not let go of its CPU.
    pub(super) stop: Stop,
}

/// The way to the client.
pub(super) struct Out {
    pub(super) batches: Sender<RecordBatch>,
    pub(super) outcome: Outcome,
}

/// A place in the books, left when dropped.
pub(super) struct Seat {
    shared: Arc<Shared>,
    id: QueryId,
    left: bool,
}

impl Seat {
    pub(super) fn new(shared: &Arc<Shared>, id: QueryId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            left: false,
        }
    }

    fn leave(mut self, teaches: bool) {
        self.left = true;
        self.shared.end(self.id, teaches);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.left {
            self.shared.end(self.id, false);
        }
    }
}

/// What a run was like.
struct Done {
    report: Report,
    teaches: bool,
}

/// How a query came to run.
pub(super) enum Way {
    /// On CPUs the scheduler gave it.
    Scheduled(Start),
    /// Because it is short; on one thread of any CPU.
    Short,
    /// Because no order could gain anything; over as many CPUs as it was planned for.
    Free,
}

/// Runs a query to its end.
pub(super) async fn run_query(seat: Seat, out: Out, query: PlannedQuery, way: Way) {
    let run = AssertUnwindSafe(drive_query(&seat, &out, query, way));
    let result = run.catch_unwind().await;
    conclude(seat, out, result);
}

/// Runs a statement that is no query to its end. The columns of its result are sent first.
pub(super) async fn run_statement(
    seat: Seat,
    out: Out,
    statement: Statement,
    columns: oneshot::Sender<SchemaRef>,
) {
    let run = AssertUnwindSafe(drive_statement(&seat, &out, statement, columns));
    let result = run.catch_unwind().await;
    conclude(seat, out, result);
}

/// Frees the CPUs, then tells the client: who saw the end of a query no longer finds it in the state.
fn conclude(seat: Seat, out: Out, result: Result<Result<Done, EngineError>, Box<dyn Any + Send>>) {
    let result = match seat.shared.is_stopped() {
        // Pools that stop drop the tasks of an operator in any order: to one that is left, the rows of a dropped one are at
        // their end, and what comes out looks complete.
        true => Err(super::stopped()),
        false => result.unwrap_or_else(|panic| Err(panicked(panic))),
    };
    seat.leave(result.as_ref().is_ok_and(|done| done.teaches));
    *out.outcome.lock() = Some(result.map(|done| done.report));
}

async fn drive_query(seat: &Seat, out: &Out, query: PlannedQuery, way: Way) -> Result<Done, EngineError> {
    let began = Instant::now();
    let shared = &seat.shared;
    let (start, width) = match way {
        Way::Scheduled(start) => {
            let width = start.cpus.len();
            (Some(start), width)
        }
        Way::Short => (None, 1),
        Way::Free => (None, query.partitions),
    };
    if let Some(start) = start.as_ref().filter(|_| width == 1) {
        let class = match start.locality {
            Locality::Weak => Class::Weak,
            Locality::Strong | Locality::Moderate => Class::Default,
        };
        pools::assign(shared.options.partitioner.as_ref(), class);
    }
    let planned = if query.partitions == width {
        query.planned
    } else {
        let stop = Some(&query.stop);
        shared.plan(&query.context, &query.logical, width, stop).await?
    };
    let classifier = start.as_ref().map(|start| shared.classifiers[start.domain]);
    let mut watch = classifier.map(|classifier| Watch::new(&planned.decision, classifier));
    let mut stream = execute_stream(Arc::clone(&planned.plan), Arc::clone(&planned.task))?;
    let mut feed = Feed::new(seat, out);
    loop {
        // Polled again whenever the operators have let go of the CPU for a moment.
        let next = poll_fn(|cx| {
            if let Some(footprint) = watch.as_mut().and_then(|w| w.look(|| planned.footprint_built())) {
                shared.change(seat.id, footprint);
            }
            stream.poll_next_unpin(cx)
        });
        let Some(batch) = next.await else { break };
        if let Some(watch) = &mut watch {
            watch.complete();
        }
        feed.send(batch?).await?;
    }
    drop(stream);
    let (waited_ns, cpus, why) = match start {
        Some(start) => (start.waited_ns, start.cpus, Some(start.why)),
        None => (0, Vec::new(), None),
    };
    let took = began.elapsed();
    Ok(Done {
        teaches: feed.teaches(took),
        report: Report {
            waited_ns,
            ran_ns: nanoseconds(took.saturating_sub(feed.blocked)),
            cpus,
            why,
            rows: feed.rows,
            tables: planned.built(),
            taken: crate::share::taken(&planned.plan)?,
        },
    })
}

async fn drive_statement(
    seat: &Seat,
    out: &Out,
    statement: Statement,
    columns: oneshot::Sender<SchemaRef>,
) -> Result<Done, EngineError> {
    let began = Instant::now();
    let shared = &seat.shared;
    let mut stream = crate::engine::start(&shared.context, &shared.definitions, statement).await?;
    // Nobody there any more: then the task is about to be dropped.
    let _ = columns.send(stream.schema());
    let mut feed = Feed::new(seat, out);
    while let Some(batch) = stream.next().await {
        feed.send(batch?).await?;
    }
    Ok(Done {
        teaches: false,
        report: Report {
            waited_ns: 0,
            ran_ns: nanoseconds(began.elapsed().saturating_sub(feed.blocked)),
            cpus: Vec::new(),
            why: None,
            rows: feed.rows,
            tables: Vec::new(),
            taken: TakenWork::default(),
        },
    })
}

/// Hands batches to the client and keeps account of its delays.
struct Feed<'a> {
    seat: &'a Seat,
    out: &'a Out,
    rows: u64,
    blocked: Duration,
    unread: bool,
}

impl<'a> Feed<'a> {
    fn new(seat: &'a Seat, out: &'a Out) -> Self {
        Self {
            seat,
            out,
            rows: 0,
            blocked: Duration::ZERO,
            unread: false,
        }
    }

    async fn send(&mut self, batch: RecordBatch) -> Result<(), EngineError> {
        self.rows += batch.num_rows() as u64;
        let gone = || EngineError::new("the client is gone");
        let batch = match self.out.batches.try_send(batch) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(gone()),
            Err(TrySendError::Full(batch)) => batch,
        };
        let since = Instant::now();
        let room = if self.unread {
            self.out.batches.reserve().await
        } else {
            match tokio::time::timeout(UNREAD_AFTER, self.out.batches.reserve()).await {
                Ok(room) => room,
                Err(_) => {
                    self.unread = true;
                    self.seat.shared.unread(self.seat.id);
                    self.out.batches.reserve().await
                }
            }
        };
        self.blocked += since.elapsed();
        room.map_err(|_| gone())?.send(batch);
        Ok(())
    }

    /// Whether a run of this length was the query's own doing.
    fn teaches(&self, took: Duration) -> bool {
        !self.unread && self.blocked * BLOCKED_SHARE_MAX <= took
    }
}

/// Notices when the tables of a run are not of the class that was expected.
struct Watch {
    classifier: Classifier,
    known: Footprint,
    complete: bool,
    next: Instant,
    pause: Duration,
}

impl Watch {
    fn new(decision: &Decision, classifier: Classifier) -> Self {
        Self {
            classifier,
            known: decision.footprint,
            complete: false,
            next: Instant::now() + LOOK_AFTER,
            pause: LOOK_AFTER,
        }
    }

    /// Rows came out: the tables of the main pipeline are built.
    fn complete(&mut self) {
        if !self.complete {
            self.complete = true;
            self.next = Instant::now();
        }
    }

    /// Answers with what was built if it is time to look and the class is another. Until the tables are complete only larger
    /// ones count: half a table is always smaller.
    fn look(&mut self, built: impl FnOnce() -> Footprint) -> Option<Footprint> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.pause *= 2;
        self.next = now + self.pause;
        let built = built();
        let counts = self.complete || built.bytes() > self.known.bytes();
        if !counts || self.classifier.locality(built) == self.classifier.locality(self.known) {
            return None;
        }
        self.known = built;
        Some(built)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The error a client gets when its query panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> EngineError {
    let message = match panic.downcast::<String>() {
        Ok(message) => Some(*message),
        Err(panic) => panic.downcast::<&str>().ok().map(|message| (*message).to_owned()),
    };
    EngineError {
        detail: message,
        ..EngineError::new("the query panicked; no other was harmed")
            .with_hint("this is a bug of an operator or function: please report it with the statement")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::cache::locality::Thresholds;
    use corun_model::units::Bytes;

    fn watch(known: Footprint) -> Watch {
        let classifier = Classifier::new(Bytes::mib(4), Thresholds::default()).expect("4 MiB");
        Watch {
            classifier,
            known,
            complete: false,
            next: Instant::now(),
            pause: Duration::ZERO,
        }
    }

    #[test]
    fn half_a_table_is_not_taken_for_a_small_one() {
        let table = |mib| Footprint::Tables(Bytes::mib(mib));
        let mut watch = watch(table(4));
        // Strong so far, but still growing.
        assert_eq!(watch.look(|| table(1)), None);
        assert_eq!(watch.look(|| table(5)), None);
        assert_eq!(watch.look(|| table(20)), Some(table(20)));
        assert_eq!(watch.look(|| table(21)), None);
        watch.complete();
        assert_eq!(watch.look(|| table(1)), Some(table(1)));
        assert_eq!(watch.look(|| Footprint::Streams), Some(Footprint::Streams));
    }

    #[test]
    fn it_does_not_look_all_the_time() {
        let mut watch = watch(Footprint::Streams);
        watch.pause = Duration::from_secs(1000);
        let table = Footprint::Tables(Bytes::mib(1));
        assert_eq!(watch.look(|| table), Some(table));
        assert_eq!(watch.look(|| unreachable!("it is not time")), None);
    }
}
