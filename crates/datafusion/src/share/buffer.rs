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
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// Batches that are made ahead of the fastest reader.
const AHEAD: usize = 2;

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
    /// The number of the next batch of each reader; `usize::MAX` of one that has gone.
    next: Vec<usize>,
    end: Option<Result<(), Arc<DataFusionError>>>,
    reservation: MemoryReservation,
    task: Option<SpawnedTask<()>>,
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
    /// A buffer for so many readers, filled from `input`.
    pub(super) fn start(
        name: &str,
        readers: usize,
        input: SendableRecordBatchStream,
        context: &TaskContext,
        metrics: SpillMetrics,
    ) -> Arc<Buffer> {
        let consumer = MemoryConsumer::new(name.to_owned()).with_can_spill(true);
        let wanted = Arc::new(Notify::new());
        let buffer = Arc::new(Buffer {
            state: Mutex::new(State {
                first: 0,
                batches: VecDeque::new(),
                next: vec![0; readers],
                end: None,
                reservation: consumer.register(context.memory_pool()),
                task: None,
            }),
            produced: Notify::new(),
            wanted: Arc::clone(&wanted),
            spills: SpillManager::new(context.runtime_env(), metrics, input.schema()),
        });
        // The task never holds the buffer while it waits: a buffer that nobody has any more ends its task.
        let filled = Arc::downgrade(&buffer);
        let task = SpawnedTask::spawn(async move {
            let mut input = input;
            while let Some(wants) = filled.upgrade().map(|buffer| buffer.wants()) {
                if !wants {
                    // A reader that asked in between has left a permit.
                    wanted.notified().await;
                    continue;
                }
                let next = input.next().await;
                let Some(buffer) = filled.upgrade() else { return };
                let ended = !matches!(next, Some(Ok(_)));
                buffer.take(next);
                buffer.produced.notify_waiters();
                if ended {
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
        let ahead = |next: &usize| *next != usize::MAX && next.saturating_add(AHEAD) > produced;
        state.end.is_none() && state.next.iter().any(ahead)
    }

    /// Keeps what the part gave.
    fn take(&self, next: Option<Result<RecordBatch>>) {
        let mut state = self.state.lock();
        match next {
            None => state.end = Some(Ok(())),
            Some(Err(error)) => state.end = Some(Err(Arc::new(error))),
            Some(Ok(batch)) => match self.keep(&mut state, batch) {
                Ok(kept) => state.batches.push_back(kept),
                Err(error) => state.end = Some(Err(Arc::new(error))),
            },
        }
    }

    fn keep(&self, state: &mut State, batch: RecordBatch) -> Result<Kept> {
        let bytes = get_record_batch_memory_size(&batch);
        match state.reservation.try_grow(bytes) {
            Ok(()) => Ok(Kept::Memory(batch)),
            Err(error) => {
                let file = self
                    .spills
                    .spill_record_batch_and_finish(&[batch], "a shared part of a statement")?;
                file.map(Kept::File).ok_or(error)
            }
        }
    }

    fn find(&self, reader: usize) -> Result<Found> {
        let mut state = self.state.lock();
        let at = state.next[reader] - state.first;
        if let Some(kept) = state.batches.get(at).cloned() {
            state.next[reader] += 1;
            state.drop_read();
            return Ok(Found::Batch(kept));
        }
        match &state.end {
            None => Ok(Found::Nothing),
            Some(Ok(())) => Ok(Found::End),
            Some(Err(error)) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
}

impl State {
    /// Drops the batches that all readers have read.
    fn drop_read(&mut self) {
        let slowest = self.next.iter().copied().min().unwrap_or(usize::MAX);
        while self.first < slowest {
            let Some(kept) = self.batches.pop_front() else {
                break;
            };
            self.first += 1;
            if let Kept::Memory(batch) = kept {
                self.reservation.shrink(get_record_batch_memory_size(&batch));
            }
        }
    }
}

/// One reader's place in a buffer.
pub(super) struct Reader {
    buffer: Arc<Buffer>,
    reader: usize,
}

impl Reader {
    /// The reader of this number; there is one of each.
    pub(super) fn new(buffer: Arc<Buffer>, reader: usize) -> Reader {
        Reader { buffer, reader }
    }

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
            match buffer.find(self.reader)? {
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
        let mut state = self.buffer.state.lock();
        state.next[self.reader] = usize::MAX;
        if state.next.iter().all(|next| *next == usize::MAX) {
            // Dropping the task ends it.
            state.task = None;
        }
        state.drop_read();
    }
}
