//! The second half: the records of one hash partition after the other become groups. Each output stream takes the next partitions that nobody
//! has taken, so that all end at the same time.

use super::Spec;
use super::collect::{Collected, Reader, no_memory};
use arrow::array::RecordBatch;
use corun_exec::groups::{Groups, Layout, merge, merge_bytes_max};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput, Time};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Partitions with fewer records together are merged in one step. Unmeasured.
const RECORDS_A_STEP: usize = 32 << 10;

/// What the output streams take partitions from.
pub(super) struct Partitions(Mutex<Untaken>);

struct Untaken {
    reader: Reader,
    /// The record of the rows whose key is NULL.
    null_group: Option<Vec<u64>>,
}

impl Partitions {
    /// # Errors
    /// A file that is not readable.
    pub(super) fn of(mut collected: Collected, layout: &Layout) -> Result<Partitions> {
        let null_group = collected.null_groups().into_iter().reduce(|mut all, more| {
            layout.combine(&mut all, &more);
            all
        });
        Ok(Partitions(Mutex::new(Untaken {
            null_group,
            reader: collected.read(layout.record_words() * size_of::<u64>())?,
        })))
    }
}

/// Groups that are being given.
struct Given {
    groups: Groups,
    /// Whether it is the one whose key is NULL.
    null: bool,
    /// So many were given.
    rows: usize,
}

/// An output stream.
pub(super) struct Merging {
    spec: Arc<Spec>,
    partitions: Arc<Partitions>,
    batch_size: usize,
    reservation: MemoryReservation,
    given: Option<Given>,
    metrics: BaselineMetrics,
    time: Time,
}

impl Merging {
    pub(super) fn new(
        spec: Arc<Spec>,
        partitions: Arc<Partitions>,
        batch_size: usize,
        pool: &Arc<dyn MemoryPool>,
        metrics: BaselineMetrics,
        time: Time,
    ) -> Merging {
        Merging {
            spec,
            partitions,
            batch_size,
            reservation: MemoryConsumer::new("CorunGroupsMerged").register(pool),
            given: None,
            metrics,
            time,
        }
    }

    /// The next batch of groups.
    ///
    /// # Errors
    /// No memory for the groups of one partition; a file that is not readable.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(given) = &mut self.given {
                let rows = given.rows..given.groups.len().min(given.rows + self.batch_size);
                if !rows.is_empty() {
                    given.rows = rows.end;
                    let _timer = self.metrics.elapsed_compute().timer();
                    let batch = self.spec.batch(&given.groups, rows, given.null)?;
                    return Ok(Some(batch.record_output(&self.metrics)));
                }
                self.given = None;
                self.reservation.free();
            }
            self.given = self.step().await?;
            if self.given.is_none() {
                self.metrics.done();
                return Ok(None);
            }
        }
    }

    /// Merges the next partitions.
    async fn step(&mut self) -> Result<Option<Given>> {
        let layout = &self.spec.layout;
        let mut chunks = Vec::new();
        let null_group = {
            let mut untaken = self.partitions.0.lock().await;
            let null_group = untaken.null_group.take();
            if null_group.is_none() {
                let Some(mut next) = untaken.reader.next_records() else {
                    return Ok(None);
                };
                let mut records = 0;
                loop {
                    match self.reservation.try_grow(merge_bytes_max(layout, next)) {
                        Err(refused) if records == 0 => return Err(refused),
                        Err(_) => break,
                        Ok(()) => {}
                    }
                    records += next;
                    untaken.reader.read(&mut chunks).await?;
                    match untaken.reader.next_records() {
                        Some(more) if records + more <= RECORDS_A_STEP => next = more,
                        _ => break,
                    }
                }
            }
            null_group
        };
        let _compute = self.metrics.elapsed_compute().timer();
        let _time = self.time.timer();
        let null = null_group.is_some();
        chunks.extend(null_group);
        let groups = merge(layout, chunks, &self.spec.options).map_err(no_memory)?;
        self.reservation.resize(groups.bytes());
        Ok(Some(Given {
            groups,
            null,
            rows: 0,
        }))
    }
}
