//! Rows of a join's side in files: written by their keys' hashes, or one after the other, and read again.

use crate::tasks;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Bits of the hash by which rows are split.
const SPLIT_BITS: u32 = 4;
/// Files that rows are split into. Unmeasured.
const SPLIT: usize = 1 << SPLIT_BITS;
/// Rows that are written at once. Unmeasured.
const ROWS_A_WRITE: usize = 1024;
/// Seed of the hash by which rows are split first; each further split adds one.
const SEED: u64 = 0x7370_6c69;

/// Makes the files of one side. They are gone when nobody has them any more.
#[derive(Clone)]
pub(super) struct Files(SpillManager);

/// Rows in a file; none where there are no rows.
#[derive(Clone)]
pub(super) struct Part {
    file: Option<Arc<dyn SpillFile>>,
    pub(super) rows: usize,
}

impl Files {
    /// Files of rows of one schema.
    pub(super) fn new(context: &TaskContext, metrics: SpillMetrics, schema: SchemaRef) -> Files {
        let compression = context.session_config().spill_compression();
        Files(SpillManager::new(context.runtime_env(), metrics, schema).with_compression_type(compression))
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    /// Writes the rows of some streams to files by the hashes of the keys `on`; they were split `level` times before.
    ///
    /// # Errors
    /// Of the streams and the keys' expressions; a disk that is full.
    pub(super) async fn split(
        &self,
        inputs: Vec<SendableRecordBatchStream>,
        on: &[PhysicalExprRef],
        level: u32,
    ) -> Result<Vec<Part>> {
        let parts = (0..SPLIT).map(|_| Mutex::new(Writing::new(self)));
        let parts: Arc<Vec<_>> = Arc::new(parts.collect());
        let scattered = inputs.into_iter().map(|input| {
            scatter(
                input,
                on.to_vec(),
                Arc::clone(self.schema()),
                Arc::clone(&parts),
                level,
            )
        });
        tasks::all(scattered).await?;
        parts.iter().map(|part| part.lock().finish()).collect()
    }

    /// Writes all rows of a stream to one file.
    ///
    /// # Errors
    /// Of the stream; a disk that is full.
    pub(super) async fn write(&self, mut input: SendableRecordBatchStream) -> Result<Part> {
        let mut file = Writing::new(self);
        while let Some(batch) = input.next().await {
            file.append(&batch?)?;
            // Batches that are there already make no other pause, in which the task could be cancelled.
            tokio::task::coop::consume_budget().await;
        }
        file.finish()
    }

    /// The rows of a file.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub(super) fn read(&self, part: &Part) -> Result<SendableRecordBatchStream> {
        match &part.file {
            Some(file) => self.0.read_spill_as_stream(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.schema())))),
        }
    }
}

/// The rows in `range` of a stream, counted from its beginning.
pub(super) fn rows_of(input: SendableRecordBatchStream, range: Range<usize>) -> SendableRecordBatchStream {
    let schema = input.schema();
    let state = (input, range.start, range.len());
    let rows = stream::try_unfold(state, |(mut input, mut skipped, rows)| async move {
        if rows == 0 {
            return Ok(None);
        }
        while let Some(batch) = input.next().await.transpose()? {
            let here = batch.num_rows();
            if here > skipped {
                let taken = rows.min(here - skipped);
                return Ok(Some((batch.slice(skipped, taken), (input, 0, rows - taken))));
            }
            skipped -= here;
        }
        Ok(None)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// A file that is being written: appends a batch, or ends it where there is none.
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

struct Writing {
    files: Files,
    /// Made with the first row: a process may have so many files open.
    write: Option<Write>,
    rows: usize,
}

impl Writing {
    fn new(files: &Files) -> Writing {
        Writing {
            files: files.clone(),
            write: None,
            rows: 0,
        }
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.write.is_none() {
            let mut file = self.files.0.create_in_progress_file("a join")?;
            self.write = Some(Box::new(move |batch| match batch {
                Some(batch) => file.append_batch(batch).map(|_| None),
                None => file.finish(),
            }));
        }
        self.rows += batch.num_rows();
        let written = self.write.as_mut().map(|write| write(Some(batch)));
        written.transpose().map(|_| ())
    }

    fn finish(&mut self) -> Result<Part> {
        let file = self.write.take().map(|mut write| write(None)).transpose()?;
        Ok(Part {
            file: file.flatten(),
            rows: self.rows,
        })
    }
}

/// Rows that wait until they are enough to be written.
#[derive(Default)]
struct Waiting {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Waiting {
    fn write(&mut self, schema: &SchemaRef, into: &Mutex<Writing>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let batch = concat_batches(schema, &self.batches)?;
        *self = Waiting::default();
        into.lock().append(&batch)
    }
}

async fn scatter(
    mut input: SendableRecordBatchStream,
    on: Vec<PhysicalExprRef>,
    schema: SchemaRef,
    parts: Arc<Vec<Mutex<Writing>>>,
    level: u32,
) -> Result<()> {
    let state = RandomState::with_seed(SEED + u64::from(level));
    let mut waiting: [Waiting; SPLIT] = Default::default();
    let mut hashes = Vec::new();
    while let Some(batch) = input.next().await {
        // As above.
        tokio::task::coop::consume_budget().await;
        let batch = batch?;
        let keys = evaluate_expressions_to_arrays(&on, &batch)?;
        hashes.clear();
        hashes.resize(batch.num_rows(), 0);
        create_hashes(&keys, &state, &mut hashes)?;
        let mut rows: [Vec<u32>; SPLIT] = Default::default();
        for (row, hash) in (0..).zip(&hashes) {
            rows[(hash >> (u64::BITS - SPLIT_BITS)) as usize].push(row);
        }
        for ((rows, waiting), part) in rows.into_iter().zip(&mut waiting).zip(&*parts) {
            if rows.is_empty() {
                continue;
            }
            waiting.rows += rows.len();
            waiting
                .batches
                .push(take_record_batch(&batch, &UInt32Array::from(rows))?);
            if waiting.rows >= ROWS_A_WRITE {
                waiting.write(&schema, part)?;
            }
        }
    }
    for (mut waiting, part) in waiting.into_iter().zip(&*parts) {
        waiting.write(&schema, part)?;
    }
    Ok(())
}
