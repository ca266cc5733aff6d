//! The rows of a build side, read from all its inputs at once, as long as there is memory for them.

use super::build::BuildMetrics;
use crate::again::again;
use crate::tasks;
use arrow::array::RecordBatch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{internal_datafusion_err, resources_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What came of reading.
pub(super) enum Collected {
    /// All rows, in the order of the inputs, and their memory.
    All(Vec<RecordBatch>, MemoryReservation),
    /// The inputs from their beginnings, as the pool refused memory for more of them, and how it did.
    TooLarge(Vec<SendableRecordBatchStream>, DataFusionError),
}

/// What the inputs have taken together.
struct Total {
    reservation: MemoryReservation,
    counter: Mutex<RecordBatchMemoryCounter>,
    /// Whether the pool has refused more; how it did is guarded by the mutex.
    refused: AtomicBool,
    refusal: Mutex<Option<DataFusionError>>,
}

impl Total {
    fn grow(&self, bytes: usize, bytes_max: usize) -> Result<()> {
        if bytes > bytes_max.saturating_sub(self.reservation.size()) {
            return Err(resources_datafusion_err!(
                "a join's build side may take {bytes_max} bytes"
            ));
        }
        self.reservation.try_grow(bytes)
    }
}

/// What was read of an input.
struct Read {
    batches: Vec<RecordBatch>,
    rest: Option<SendableRecordBatchStream>,
}

/// Reads all streams at once, each in a task of its own, as long as they take at most `bytes_max` of the pool that `reservation` is of.
///
/// # Errors
/// Those of the streams.
pub(super) async fn collect(
    streams: Vec<SendableRecordBatchStream>,
    reservation: MemoryReservation,
    bytes_max: usize,
    metrics: &BuildMetrics,
) -> Result<Collected> {
    let schemas: Vec<_> = streams.iter().map(|stream| stream.schema()).collect();
    let total = Arc::new(Total {
        reservation,
        counter: Mutex::new(RecordBatchMemoryCounter::new()),
        refused: AtomicBool::new(false),
        refusal: Mutex::new(None),
    });
    let reading = streams
        .into_iter()
        .map(|stream| read(stream, Arc::clone(&total), bytes_max, metrics.clone()));
    let parts = tasks::all(reading).await?;
    let total =
        Arc::into_inner(total).ok_or_else(|| internal_datafusion_err!("a build task outlived the build"))?;
    let Some(refusal) = total.refusal.into_inner() else {
        let batches = parts.into_iter().flat_map(|part| part.batches).collect();
        return Ok(Collected::All(batches, total.reservation));
    };
    metrics.bytes.sub(total.reservation.size());
    let memory = Arc::new(total.reservation);
    let inputs = schemas.into_iter().zip(parts).map(|(schema, part)| {
        let rest = stream::iter(part.rest).flatten();
        again(schema, part.batches, Arc::clone(&memory), rest)
    });
    Ok(Collected::TooLarge(inputs.collect(), refusal))
}

/// Reads a stream until the pool refuses memory for it or for another one.
async fn read(
    mut stream: SendableRecordBatchStream,
    total: Arc<Total>,
    bytes_max: usize,
    metrics: BuildMetrics,
) -> Result<Read> {
    let mut batches = Vec::new();
    // Relaxed: it is only about when to stop.
    while !total.refused.load(Ordering::Relaxed) {
        let Some(batch) = stream.next().await else {
            return Ok(Read { batches, rest: None });
        };
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        let bytes = total.counter.lock().count_batch(&batch);
        match total.grow(bytes, bytes_max) {
            Ok(()) => metrics.bytes.add(bytes),
            Err(refusal) => {
                total.refused.store(true, Ordering::Relaxed);
                total.refusal.lock().get_or_insert(refusal);
            }
        }
        metrics.batches.add(1);
        metrics.rows.add(batch.num_rows());
        batches.push(batch);
    }
    Ok(Read {
        batches,
        rest: Some(stream),
    })
}
