//! A part that runs once, and who reads it.

use super::buffer::{Buffer, Filled, Reader, Ticket};
use super::work::Entry;
use crate::stop::{Stop, StopOnDrop, stoppable};
use arrow::datatypes::SchemaRef;
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The ticket of whoever keeps the result for later statements; it never reads.
const KEEPER: Ticket = 0;

/// A part, run at most once, for readers of one statement or of several.
pub(super) struct Part {
    pub(super) name: String,
    number: u64,
    /// Of the rows as readers get them.
    pub(super) schema: SchemaRef,
    pub(super) partitions: usize,
    /// Where other statements find it.
    entry: Option<Entry>,
    metrics: ExecutionPlanMetricsSet,
    /// What runs ends with the last who wants it.
    stop: StopOnDrop,
    state: Mutex<State>,
}

struct State {
    /// What is run; gone once it has, with the tables it built.
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// By partition, once somebody reads it.
    buffers: Vec<Option<Arc<Buffer>>>,
    /// Who may still read, or reads.
    tickets: BTreeSet<Ticket>,
    /// Whether the result is kept for later statements as long as it is not complete.
    keeps: bool,
    last: Ticket,
    begun: Option<Instant>,
    /// Bytes of all batches so far.
    bytes: usize,
}

impl Part {
    /// A part that `plan` makes; `entry` is where other statements find it.
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, schema: SchemaRef, entry: Option<Entry>) -> Part {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let partitions = plan.output_partitioning().partition_count();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Part {
            name: format!("corun_shared_{number}"),
            number,
            schema,
            partitions,
            metrics: ExecutionPlanMetricsSet::new(),
            stop: StopOnDrop(Stop::default()),
            state: Mutex::new(State {
                plan: Some(plan),
                buffers: vec![None; partitions],
                tickets: BTreeSet::new(),
                keeps: entry.is_some(),
                last: KEEPER,
                begun: None,
                bytes: 0,
            }),
            entry,
        }
    }

    /// One bit of 64 by which its readers know each other, as long as other statements may join them.
    pub(super) fn bit(&self) -> Option<u64> {
        let open = self.entry.is_some() && !self.is_complete();
        open.then(|| 1 << (self.number % u64::from(u64::BITS)))
    }

    /// What is run, until it has.
    pub(super) fn plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.state.lock().plan.clone()
    }

    /// Runs this plan instead, unless something runs already.
    pub(super) fn replace_plan(&self, plan: Arc<dyn ExecutionPlan>) {
        let mut state = self.state.lock();
        if state.begun.is_none() && plan.output_partitioning().partition_count() == self.partitions {
            state.plan = Some(plan);
        }
    }

    /// A place for one more reader, as long as all rows are there for it.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.state.lock();
        state.last += 1;
        let ticket = state.last;
        let mut expected = state.buffers.iter().flatten();
        if !expected.all(|buffer| buffer.expect(ticket)) {
            state.forget(ticket);
            return None;
        }
        state.tickets.insert(ticket);
        let part = Arc::clone(self);
        Some(Place { part, ticket })
    }

    /// Whether the whole result is there.
    pub(super) fn is_complete(&self) -> bool {
        self.state.lock().is_whole()
    }

    /// Whether nobody reads what is not complete either.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.lock().is_abandoned()
    }

    /// Rows are dropped as soon as the readers that there are have read them.
    pub(super) fn keep_no_longer(&self) {
        let mut state = self.state.lock();
        state.keeps = false;
        state.forget(KEEPER);
    }

    /// The memory of the result is accounted for by who keeps it.
    pub(super) fn hand_over(&self) {
        let state = self.state.lock();
        state
            .buffers
            .iter()
            .flatten()
            .for_each(|buffer| buffer.free_reservation());
    }

    fn begin(
        self: &Arc<Self>,
        ticket: Ticket,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Reader>> {
        let mut state = self.state.lock();
        if let Some(buffer) = &state.buffers[partition] {
            return Ok(buffer.read(ticket));
        }
        let Some(mut plan) = state.plan.clone() else {
            return exec_err!("a shared part has no plan");
        };
        if state.begun.is_none() {
            state.begun = Some(Instant::now());
            plan = stoppable(plan, &self.stop.0)?;
            state.plan = Some(Arc::clone(&plan));
        }
        let input = plan.execute(partition, Arc::clone(context))?;
        let keeper = state.keeps.then_some(KEEPER);
        let readers = state.tickets.iter().copied().chain(keeper);
        let metrics = SpillMetrics::new(&self.metrics, partition);
        let part = Arc::downgrade(self);
        let tell = move |filled| {
            if let Some(part) = part.upgrade() {
                part.filled(filled);
            }
        };
        let buffer = Buffer::start(&self.name, readers, input, context, metrics, tell);
        let reader = buffer.read(ticket);
        state.buffers[partition] = Some(buffer);
        Ok(reader)
    }

    fn filled(&self, filled: Filled) {
        let entry = self.entry.as_ref();
        match filled {
            Filled::More(bytes) => {
                let mut state = self.state.lock();
                state.bytes = state.bytes.saturating_add(bytes);
                let (bytes, keeps) = (state.bytes, state.keeps);
                drop(state);
                if let Some(entry) = entry.filter(|entry| keeps && bytes > entry.largest()) {
                    entry.is_too_large();
                }
            }
            Filled::Whole => {
                let Some(entry) = entry else { return };
                let mut state = self.state.lock();
                if !state.is_whole() {
                    return;
                }
                // Several partitions may end at once: who finds the plan tells.
                let Some(plan) = state.plan.take() else { return };
                let seconds = state.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
                let (bytes, keeps) = (state.bytes, state.keeps);
                drop(state);
                drop(plan);
                if keeps {
                    entry.is_complete(bytes, seconds);
                }
            }
            Filled::Failed => {
                if let Some(entry) = entry {
                    entry.has_failed();
                }
            }
        }
    }

    fn leave(&self, ticket: Ticket) {
        let abandoned = {
            let mut state = self.state.lock();
            state.tickets.remove(&ticket);
            state.forget(ticket);
            state.keeps && state.is_abandoned()
        };
        if let Some(entry) = self.entry.as_ref().filter(|_| abandoned) {
            entry.is_abandoned();
        }
    }
}

impl State {
    /// Nobody reads what is not complete either.
    fn is_abandoned(&self) -> bool {
        self.tickets.is_empty() && !self.is_whole()
    }

    fn is_whole(&self) -> bool {
        let whole = |buffer: &Option<Arc<Buffer>>| buffer.as_ref().is_some_and(|buffer| buffer.is_whole());
        self.buffers.iter().all(whole)
    }

    fn forget(&self, ticket: Ticket) {
        self.buffers
            .iter()
            .flatten()
            .for_each(|buffer| buffer.forget(ticket));
    }
}

/// A reader's right to all rows of a part; they are kept for it until it has read them or is dropped.
pub(super) struct Place {
    part: Arc<Part>,
    ticket: Ticket,
}

impl Place {
    pub(super) fn part(&self) -> &Arc<Part> {
        &self.part
    }

    /// The batches of a partition; `None` when this reader has had them.
    ///
    /// # Errors
    /// A partition that there is not, or the part's own when it starts.
    pub(super) fn begin(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Option<Reader>> {
        if partition >= self.part.partitions {
            return Err(exec_datafusion_err!(
                "{} has {} partitions, not {}",
                self.part.name,
                self.part.partitions,
                partition + 1
            ));
        }
        self.part.begin(self.ticket, partition, context)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.part.leave(self.ticket);
    }
}
