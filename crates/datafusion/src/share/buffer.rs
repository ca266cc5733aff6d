//! The batches of one partition on their way to several readers.
//!
//! ```text
//!              first                                 produced
//!   dropped      | batch | batch | spilled ... | batch |        <- a task that asks the part for the next one
//!                     ^ reader 2               ^ reader 1, wants more
//! ```
//!
//! A task of its own runs the part, so that a reader that is not polled any more holds nobody up. It runs while some reader has read
//! all there is; what the slowest reader has read is dropped. What the memory pool has no room for goes to files.

use arrow::array::RecordBatch;
use datafusion::common::exec_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::Notify;

/// Batches that are made ahead of the fastest reader.
const AHEAD: usize = 2;

/// Who reads: one for each reader of a part.
pub(super) type Ticket = u64;

/// What a buffer tells of its filling.
pub(super) enum Filled {
    /// There are so many more bytes.
    More(usize),
    /// The part has given all it has.
    Whole,
    /// It has failed, or does not run any more.
    Failed,
}

/// Batches of one partition.
pub(super) struct Buffer {
    state: Mutex<State>,
    /// Told when a batch, the end or an error has come.
    produced: Notify,
    /// Told when a reader wants more.
    wanted: Arc<Notify>,
    spills: SpillManager,
}

struct State {
    /// The number of the first batch in `batches`.
    first: usize,
    batches: VecDeque<Kept>,
    /// Who has not read everything yet.
    places: BTreeMap<Ticket, Place>,
    end: Option<Result<(), Arc<DataFusionError>>>,
    /// Until somebody else accounts for the batches: a pool that divides itself among those that can spill counts also who holds nothing.
    reservation: Option<MemoryReservation>,
    task: Option<SpawnedTask<()>>,
}

struct Place {
    /// The number of the next batch.
    next: usize,
    /// Whether it reads already. Who only waits for its turn does not ask for more.
    reads: bool,
}

#[derive(Clone)]
enum Kept {
    Memory(RecordBatch),
    File(Arc<dyn SpillFile>),
}

/// What a reader finds at its place.
enum Found {
    Batch(Kept),
    End,
    Nothing,
}

impl Buffer {
    /// A buffer for `readers`, filled from `input`; `tell` is called by the task that fills it.
    pub(super) fn start(
        name: &str,
        readers: impl Iterator<Item = Ticket>,
        input: SendableRecordBatchStream,
        context: &TaskContext,
        metrics: SpillMetrics,
        tell: impl Fn(Filled) + Send + 'static,
    ) -> Arc<Buffer> {
        let consumer = MemoryConsumer::new(name.to_owned()).with_can_spill(true);
        let wanted = Arc::new(Notify::new());
        let waits = |ticket| {
            let place = Place {
                next: 0,
                reads: false,
            };
            (ticket, place)
        };
        let buffer = Arc::new(Buffer {
            state: Mutex::new(State {
                first: 0,
                batches: VecDeque::new(),
                places: readers.map(waits).collect(),
                end: None,
                reservation: Some(consumer.register(context.memory_pool())),
                task: None,
            }),
            produced: Notify::new(),
            wanted: Arc::clone(&wanted),
            spills: SpillManager::new(context.runtime_env(), metrics, input.schema()),
        });
        // The task never holds the buffer while it waits: a buffer that nobody has any more ends its task.
        let filled = Arc::downgrade(&buffer);
        let ended = EndedEarly {
            buffer: Arc::downgrade(&buffer),
            tell,
        };
        let task = SpawnedTask::spawn(async move {
            let mut input = input;
            while let Some(wants) = filled.upgrade().map(|buffer| buffer.wants()) {
                if !wants {
                    // A reader that asked in between has left a permit.
                    wanted.notified().await;
                    continue;
                }
                let next = AssertUnwindSafe(input.next()).catch_unwind().await;
                let next = next.unwrap_or_else(|panic| Some(Err(panicked(panic.as_ref()))));
                let Some(buffer) = filled.upgrade() else { return };
                let filled = buffer.take(next);
                buffer.produced.notify_waiters();
                let is_over = !matches!(filled, Filled::More(_));
                (ended.tell)(filled);
                if is_over {
                    return;
                }
            }
        });
        buffer.state.lock().task = Some(task);
        buffer
    }

    /// Whether some reader is near what was produced.
    fn wants(&self) -> bool {
        let state = self.state.lock();
        let produced = state.first + state.batches.len();
        let ahead = |place: &Place| place.reads && place.next + AHEAD > produced;
        state.end.is_none() && state.places.values().any(ahead)
    }

    /// Keeps what the part gave.
    fn take(&self, next: Option<Result<RecordBatch>>) -> Filled {
        let mut state = self.state.lock();
        let kept = match next {
            None => {
                state.end = Some(Ok(()));
                return Filled::Whole;
            }
            Some(batch) => batch.and_then(|batch| self.keep(&mut state, batch)),
        };
        match kept {
            Ok((kept, bytes)) => {
                state.batches.push_back(kept);
                Filled::More(bytes)
            }
            Err(error) => {
                state.end = Some(Err(Arc::new(error)));
                Filled::Failed
            }
        }
    }

    /// The batch in memory or in a file, and the bytes it needs in memory; what is in a file counts as if there were no end of them.
    fn keep(&self, state: &mut State, batch: RecordBatch) -> Result<(Kept, usize)> {
        let bytes = get_record_batch_memory_size(&batch);
        match state
            .reservation
            .as_ref()
            .map_or(Ok(()), |reservation| reservation.try_grow(bytes))
        {
            Ok(()) => Ok((Kept::Memory(batch), bytes)),
            Err(error) => {
                let file = self
                    .spills
                    .spill_record_batch_and_finish(&[batch], "a shared part of a statement")?;
                let file = file.map(Kept::File).ok_or(error)?;
                Ok((file, usize::MAX))
            }
        }
    }

    fn find(&self, ticket: Ticket) -> Result<Found> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(place) = state.places.get_mut(&ticket) else {
            return exec_err!("a reader of a shared part has lost its place");
        };
        let at = place.next - state.first;
        if let Some(kept) = state.batches.get(at).cloned() {
            place.next += 1;
            state.drop_read();
            return Ok(Found::Batch(kept));
        }
        match &state.end {
            None => Ok(Found::Nothing),
            Some(Ok(())) => Ok(Found::End),
            Some(Err(error)) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }

    /// Lets one more reader begin later; whether all batches are still there for it.
    pub(super) fn expect(&self, ticket: Ticket) -> bool {
        let mut state = self.state.lock();
        let waits = Place {
            next: 0,
            reads: false,
        };
        state.first == 0 && state.places.insert(ticket, waits).is_none()
    }

    /// A reader that has not begun never will.
    pub(super) fn forget(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if state.places.get(&ticket).is_some_and(|place| !place.reads) {
            state.places.remove(&ticket);
            state.drop_read();
        }
    }

    /// Lets a reader begin that was expected.
    pub(super) fn read(self: &Arc<Self>, ticket: Ticket) -> Option<Reader> {
        let mut state = self.state.lock();
        let place = state.places.get_mut(&ticket).filter(|place| !place.reads)?;
        place.reads = true;
        let buffer = Arc::clone(self);
        Some(Reader { buffer, ticket })
    }

    /// Whether the part has given all it has.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.state.lock().end, Some(Ok(())))
    }

    /// Somebody else accounts for the memory from here on.
    pub(super) fn free_reservation(&self) {
        self.state.lock().reservation = None;
    }
}

/// A panic of a part is an error of all who read it.
fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    DataFusionError::Execution(format!("a shared part panicked: {text}"))
}

/// Tells of a task that ends before its part has: because nobody reads, or its runtime is shut down.
struct EndedEarly<T: Fn(Filled)> {
    buffer: std::sync::Weak<Buffer>,
    tell: T,
}

impl<T: Fn(Filled)> Drop for EndedEarly<T> {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.upgrade() else {
            return;
        };
        {
            let mut state = buffer.state.lock();
            if state.end.is_some() {
                return;
            }
            let ended = DataFusionError::Execution("what a shared part ran on was shut down".to_owned());
            state.end = Some(Err(Arc::new(ended)));
        }
        buffer.produced.notify_waiters();
        (self.tell)(Filled::Failed);
    }
}

impl State {
    /// Drops the batches that all readers have read, and the task that nobody needs any more.
    fn drop_read(&mut self) {
        let slowest = self.places.values().map(|place| place.next).min();
        let slowest = slowest.unwrap_or(usize::MAX);
        while self.first < slowest {
            let Some(kept) = self.batches.pop_front() else {
                break;
            };
            self.first += 1;
            if let (Kept::Memory(batch), Some(reservation)) = (kept, &self.reservation) {
                let bytes = get_record_batch_memory_size(&batch).min(reservation.size());
                reservation.shrink(bytes);
            }
        }
    }
}

/// One reader's place in a buffer.
pub(super) struct Reader {
    buffer: Arc<Buffer>,
    ticket: Ticket,
}

impl Reader {
    /// The next batch.
    ///
    /// # Errors
    /// The part's, and those of files.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let buffer = &self.buffer;
        loop {
            let produced = buffer.produced.notified();
            let mut produced = std::pin::pin!(produced);
            // From here on nothing is missed.
            produced.as_mut().enable();
            match buffer.find(self.ticket)? {
                Found::Batch(kept) => {
                    buffer.wanted.notify_one();
                    return match kept {
                        Kept::Memory(batch) => Ok(Some(batch)),
                        Kept::File(file) => {
                            let mut file = buffer.spills.read_spill_as_stream(file, None)?;
                            file.next().await.transpose()
                        }
                    };
                }
                Found::End => return Ok(None),
                Found::Nothing => {
                    buffer.wanted.notify_one();
                    produced.await;
                }
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let task = {
            let mut state = self.buffer.state.lock();
            state.places.remove(&self.ticket);
            state.drop_read();
            // Dropping the task ends it; what it tells then must find the buffer unlocked.
            match state.places.is_empty() {
                true => state.task.take(),
                false => None,
            }
        };
        drop(task);
    }
}

#[cfg(test)]
mod tests;
