//! A query from the client's side: its batches, its decision, and what came of it.

use super::Shared;
use crate::decide::decision::{Decision, TableBuilt};
use crate::{EngineError, Stop, TakenWork};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use corun_model::cache::coschedule::{QueryId, Why};
use corun_model::units::CpuId;
use futures::Stream;
use futures::future::AbortHandle;
use parking_lot::Mutex;
use serde::Serialize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// What came of a query.
#[derive(Serialize, Clone, Debug)]
pub struct Report {
    /// Nanoseconds from its arrival to its start.
    pub waited_ns: u64,
    /// Nanoseconds from its start to its end, less those in which it waited for its client to read.
    pub ran_ns: u64,
    /// The CPUs it was given; empty: it bypassed the scheduler, or was no query.
    pub cpus: Vec<CpuId>,
    /// Why it was started there and then.
    pub why: Option<Why>,
    /// Rows of its result.
    pub rows: u64,
    /// Its hash tables, what was expected of them beside what they took.
    pub tables: Vec<TableBuilt>,
    /// What it took from other statements.
    pub taken: TakenWork,
}

/// How a query ended; empty until it did, and for ever if it was cut off.
pub(super) type Outcome = Arc<Mutex<Option<Result<Report, EngineError>>>>;

/// A query that was admitted: a stream of its batches.
///
/// Dropping it cancels the query at once where it waits, and where it runs as soon as its operators let go of the CPU.
/// While nobody reads, a few batches are made ahead; then the query stops, and soon lets others have its CPUs.
pub struct Submitted {
    pub(super) schema: SchemaRef,
    pub(super) decision: Arc<Decision>,
    pub(super) batches: Receiver<RecordBatch>,
    pub(super) outcome: Outcome,
    pub(super) cancel: Cancel,
    pub(super) report: Option<Report>,
    pub(super) ended: bool,
}

impl Submitted {
    /// Columns of the result.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Its number, as [`super::State`] names it.
    pub fn id(&self) -> QueryId {
        self.cancel.id
    }

    /// What was decided before it was admitted.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What came of it, once the stream has ended without an error.
    pub fn report(&self) -> Option<Report> {
        self.report.clone()
    }
}

impl Stream for Submitted {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(batch) = ready!(self.batches.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(batch)));
        }
        self.ended = true;
        self.cancel.needed = false;
        let outcome = self.outcome.lock().take();
        Poll::Ready(match outcome {
            Some(Ok(report)) => {
                self.report = Some(report);
                None
            }
            Some(Err(error)) => Some(Err(error)),
            // Its task was dropped with the pools.
            None => Some(Err(super::stopped())),
        })
    }
}

/// Cancels a query when it is dropped.
pub(super) struct Cancel {
    shared: Arc<Shared>,
    id: QueryId,
    task: AbortHandle,
    stop: Stop,
    needed: bool,
}

impl Cancel {
    pub(super) fn new(shared: &Arc<Shared>, id: QueryId, task: AbortHandle, stop: Stop) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            task,
            stop,
            needed: true,
        }
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        if self.needed {
            self.shared.give_up(self.id);
            self.stop.stop();
            self.task.abort();
        }
    }
}
