//! Before anything is grouped: how many groups there will be, from the first rows of all inputs. Where they are few and their keys cannot be
//! numbered, DataFusion's own steps group the rows, those that were looked at first ([`stock_over`]).

use super::collect::no_memory;
use super::numbers::Numbering;
use super::texts::Known;
use super::{Spec, over};
use crate::again::again;
use crate::tasks;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use corun_exec::groups::DistinctKeys;
use corun_model::operators::groups::{LOOKS, Look, Verdict};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::{self, Fuse};
use parking_lot::Mutex;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;

/// First rows are kept where there is memory for so many times as many: whoever groups them needs the rest. Unmeasured.
const ROOM: usize = 4;

/// How groups are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By DataFusion's steps.
    Stock,
    /// By numbers of their keys, in the caches.
    Numbered,
    /// By hashes of their keys, in the caches.
    Hashed,
}

/// Looks at the first rows of all inputs, each in a task of its own, until one of them tells how many groups there are: to wait for the others
/// could take all their rows, which an exchange below would have to hold. Gives the inputs from their beginnings again, and how their groups
/// are to be made.
///
/// # Errors
/// Of the inputs and expressions; no memory for the counts.
pub(super) async fn look_ahead(
    spec: &Arc<Spec>,
    inputs: Vec<SendableRecordBatchStream>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<(Vec<SendableRecordBatchStream>, Way)> {
    let verdict = Arc::new(watch::Sender::new(None));
    let looking = inputs.into_iter().enumerate().map(|(number, input)| {
        let consumer = MemoryConsumer::new(format!("CorunGroupsLookedAt[{number}]"));
        let first = FirstRows::new(Arc::clone(spec), consumer.register(pool), verdict.subscribe());
        let verdict = Arc::clone(&verdict);
        async move { first?.look_at(input, &verdict).await }
    });
    let inputs = tasks::all(looking).await?;
    let way = verdict.borrow().unwrap_or(Way::Stock);
    Ok((inputs, way))
}

/// What an input has told, once one has.
type Told = watch::Receiver<Option<Way>>;

/// The first rows of an input.
struct FirstRows {
    spec: Arc<Spec>,
    batches: Vec<RecordBatch>,
    /// Rows of them all whose keys were counted, and of the last batch.
    counted: usize,
    counted_of_last: usize,
    distinct: DistinctKeys,
    bytes: RecordBatchMemoryCounter,
    reservation: MemoryReservation,
    /// Whether there was no memory for more of them.
    refused: bool,
    /// Changes when an input has told how many groups there are.
    told: Told,
}

impl FirstRows {
    fn new(spec: Arc<Spec>, reservation: MemoryReservation, told: Told) -> Result<FirstRows> {
        let distinct = DistinctKeys::new(LOOKS[LOOKS.len() - 1], spec.options.seed);
        Ok(FirstRows {
            spec,
            batches: Vec::new(),
            counted: 0,
            counted_of_last: 0,
            distinct: distinct.map_err(no_memory)?,
            bytes: RecordBatchMemoryCounter::new(),
            reservation,
            refused: false,
            told,
        })
    }

    /// The input from its beginning; the first verdict of all inputs is kept in `verdict`.
    async fn look_at(
        mut self,
        input: SendableRecordBatchStream,
        verdict: &watch::Sender<Option<Way>>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, mut input) = (input.schema(), input.fuse());
        if let Some(found) = self.verdict(&mut input).await? {
            let found = self.way(found)?;
            verdict.send_if_modified(|told| {
                let first = told.is_none();
                *told = told.or(Some(found));
                first
            });
        }
        self.reservation.resize(self.reservation.size() / ROOM);
        Ok(again(schema, self.batches, self.reservation, input))
    }

    /// Long texts take longer by hashes than in DataFusion's tables.
    fn way(&self, groups: Verdict) -> Result<Way> {
        Ok(match groups {
            Verdict::Few | Verdict::Skewed if self.have_numbers()? => Way::Numbered,
            Verdict::Many | Verdict::Skewed if self.spec.texts.are_short() => Way::Hashed,
            _ => Way::Stock,
        })
    }

    /// Whether all keys so far can be numbered.
    fn have_numbers(&self) -> Result<bool> {
        let Some(mut numbers) = self.spec.numbers() else {
            return Ok(false);
        };
        for batch in &self.batches {
            let columns = evaluate_expressions_to_arrays(&self.spec.group_by, batch)?;
            if numbers.number(&columns) == Numbering::TooMany {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the first rows tell; `None` where there are too few, or another input has told before.
    async fn verdict(&mut self, input: &mut Fuse<SendableRecordBatchStream>) -> Result<Option<Verdict>> {
        for rows in LOOKS {
            let mut counts = [0.0; 3];
            for (count, rows) in counts.iter_mut().zip([rows / 4, rows / 2, rows]) {
                match self.distinct_of(rows, input).await? {
                    Some(distinct) => *count = distinct,
                    // Many groups can go to files where there is no memory for them.
                    None => return Ok(self.refused.then_some(Verdict::Many)),
                }
            }
            let [quarter, half, whole] = counts;
            let look = Look {
                rows: rows as f64,
                quarter,
                half,
                whole,
            };
            match look.verdict() {
                // Of long texts only few groups are made here.
                Verdict::Unclear if !self.spec.texts.are_short() => return Ok(Some(Verdict::Many)),
                Verdict::Unclear => {}
                clear => return Ok(Some(clear)),
            }
        }
        Ok(None)
    }

    /// About how many keys are different among the first `rows`; `None` where there are fewer, no memory for so many, or another input has
    /// told what it is asked for.
    async fn distinct_of(
        &mut self,
        rows: usize,
        input: &mut Fuse<SendableRecordBatchStream>,
    ) -> Result<Option<f64>> {
        while self.counted < rows {
            let uncounted = self.batches.last().map(|last| {
                let left = last.num_rows() - self.counted_of_last;
                last.slice(self.counted_of_last, left.min(rows - self.counted))
            });
            match uncounted.filter(|uncounted| uncounted.num_rows() > 0) {
                Some(uncounted) => self.count(&uncounted)?,
                None if self.refused => return Ok(None),
                None => {
                    let next = match select(input.next(), pin!(self.told.changed())).await {
                        Either::Left((next, _)) => next,
                        Either::Right(_) => None,
                    };
                    match next {
                        Some(batch) => self.keep(batch?),
                        None => return Ok(None),
                    }
                }
            }
        }
        Ok(Some(self.distinct.count()))
    }

    fn keep(&mut self, batch: RecordBatch) {
        let bytes = self.bytes.count_batch(&batch);
        self.refused = self.reservation.try_grow(bytes * ROOM).is_err();
        self.batches.push(batch);
        self.counted_of_last = 0;
    }

    fn count(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = evaluate_expressions_to_arrays(&self.spec.group_by, rows)?;
        let keys = self
            .spec
            .keys
            .encode(&columns, &mut Known::new(Arc::clone(&self.spec.texts)));
        self.distinct.add(&keys.words(), keys.valid());
        self.counted += rows.num_rows();
        self.counted_of_last += rows.num_rows();
        Ok(())
    }
}

/// The stock steps from `first` to `last` over these streams instead of `first`'s input.
///
/// # Errors
/// Of the steps that get another input.
pub(super) fn stock_over(
    first: &Arc<AggregateExec>,
    last: &Arc<AggregateExec>,
    streams: Vec<SendableRecordBatchStream>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = first.input().schema();
    let streams = streams.into_iter().map(|stream| {
        let (schema, stream) = (stream.schema(), Mutex::new(Some(stream)));
        Arc::new(ReadOnce { schema, stream }) as Arc<dyn PartitionStream>
    });
    let input = StreamingTableExec::try_new(schema, streams.collect(), None, None, false, None)?;
    let first: Arc<dyn ExecutionPlan> = over(first, vec![Arc::new(input)])?;
    let reads_rows = |step: &AggregateExec| step.mode().input_mode() == AggregateInputMode::Raw;
    let last: Arc<dyn ExecutionPlan> = Arc::<AggregateExec>::clone(last);
    last.transform_down(|node| {
        Ok(
            match node.downcast_ref::<AggregateExec>().is_some_and(reads_rows) {
                true => Transformed::new(Arc::clone(&first), true, TreeNodeRecursion::Jump),
                false => Transformed::no(node),
            },
        )
    })
    .data()
}

/// A stream that is there already.
struct ReadOnce {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for ReadOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnce").finish_non_exhaustive()
    }
}

impl PartitionStream for ReadOnce {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = self.stream.lock().take();
        stream.unwrap_or_else(|| {
            let error = internal_datafusion_err!("the first rows of groups were read before");
            let schema = Arc::clone(&self.schema);
            Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Err(error)])))
        })
    }
}
