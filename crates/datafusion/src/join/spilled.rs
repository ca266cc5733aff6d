//! Joins whose table does not fit memory: a hybrid of hash joins of files and, at the end, a sort-merge join.
//!
//! ```text
//! left  --hash of the keys--> 16 files ┐
//!                                      ├-> pair by pair:  a table that fits
//! right --hash of the keys--> 16 files ┘                  or 16 smaller pairs, by further bits
//!                                                         or, where few keys have all rows, a sort-merge join
//! ```
//!
//! Each output stream takes the next pair that nobody has taken, so that all end at the same time. The rows of a pair are joined with nothing else,
//! so that every join type is what it is in memory. Nobody is told what keys the left side has: no filter below the right side drops rows.

use super::build::{self, Build, BuildMetrics, BuildSpec};
use super::stream::{ProbeMetrics, ProbeSpec, Prober};
use crate::tasks;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{JoinType, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::{self, poll_fn};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bits of the hash by which a side is split.
const SPLIT_BITS: u32 = 4;
/// Files of a side, or pairs that a pair is split into. Unmeasured.
const SPLIT: usize = 1 << SPLIT_BITS;
/// A pair is split at most so often.
const LEVELS_MAX: u32 = 4;
/// A file that has so many of its pair's left rows has keys that further bits do not separate either.
const KEPT_MAX: f64 = 0.9;
/// Rows that are written at once. Unmeasured.
const ROWS_A_WRITE: usize = 1024;
/// Of the hash; plus how often the rows were split before.
const SEED: u64 = 0x7370_6c69;

/// What the join of files needs to know of the join that it is.
pub(super) struct Spec {
    pub(super) stock: Arc<HashJoinExec>,
    pub(super) build: BuildSpec,
    pub(super) probe: Arc<ProbeSpec>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) context: Arc<TaskContext>,
    /// Whether the rows of a right partition have to leave in the output partition of its number.
    pub(super) by_partition: bool,
}

/// A join of files, shared by its output streams.
pub(super) struct SpilledJoin {
    stock: Arc<HashJoinExec>,
    build: Arc<BuildSpec>,
    probe: Arc<ProbeSpec>,
    metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
    left: SpillManager,
    right: SpillManager,
    /// Those that nobody has taken: of each output partition, or one list of all. Guarded by the mutexes.
    pairs: Vec<Mutex<Vec<Pair>>>,
}

/// Rows of one side whose keys' hashes have the same bits.
#[derive(Clone)]
struct Part {
    file: Option<Arc<dyn SpillFile>>,
    rows: usize,
}

/// Rows that meet nothing but each other.
struct Pair {
    left: Part,
    right: Part,
    /// How often its rows were split.
    level: u32,
}

impl Pair {
    /// Whether nothing comes of it.
    fn is_empty(&self, join_type: JoinType) -> bool {
        use JoinType::*;
        match (self.left.rows, self.right.rows) {
            (0, 0) => true,
            (0, _) => matches!(join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark | RightSemi),
            (_, 0) => matches!(join_type, Inner | Right | RightSemi | RightAnti | RightMark | LeftSemi),
            _ => false,
        }
    }
}

impl SpilledJoin {
    /// Writes both sides to files: `left`, and the partitions `right` of the right side.
    ///
    /// # Errors
    /// Of the inputs and the keys' expressions; a disk that is full.
    pub(super) async fn new(
        spec: Spec,
        left: Vec<SendableRecordBatchStream>,
        right: Range<usize>,
    ) -> Result<SpilledJoin> {
        let context = spec.context;
        let files = |schema: SchemaRef| {
            let metrics = SpillMetrics::new(&spec.metrics, right.start);
            SpillManager::new(context.runtime_env(), metrics, schema)
                .with_compression_type(context.session_config().spill_compression())
        };
        let (left_files, right_files) = (files(Arc::clone(&spec.build.schema)), files(spec.stock.right().schema()));
        let left = split(left, spec.build.on_left.clone(), left_files.clone(), 0).await?;
        let inputs = right
            .map(|partition| spec.stock.right().execute(partition, Arc::clone(&context)))
            .collect::<Result<Vec<_>>>()?;
        let inputs = match spec.by_partition {
            true => inputs.into_iter().map(|input| vec![input]).collect(),
            false => vec![inputs],
        };
        let splits = inputs.into_iter().map(|inputs| {
            let on_right = spec.probe.on_right.clone();
            split(inputs, on_right, right_files.clone(), 0)
        });
        let right = tasks::all(splits).await?;
        let pairs = right.into_iter().map(|right| {
            let pairs = left.iter().cloned().zip(right);
            let pairs = pairs.map(|(left, right)| Pair { left, right, level: 1 });
            Mutex::new(pairs.collect())
        });
        Ok(SpilledJoin {
            pairs: pairs.collect(),
            build: Arc::new(BuildSpec {
                probe_streams: 1,
                dynamic: None,
                ..spec.build
            }),
            stock: spec.stock,
            probe: spec.probe,
            metrics: spec.metrics,
            context,
            left: left_files,
            right: right_files,
        })
    }

    /// The rows that leave in an output partition.
    pub(super) fn rows(
        self: Arc<Self>,
        output: usize,
        metrics: ProbeMetrics,
    ) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        let joined = stream::try_unfold((self, metrics), move |(join, metrics)| async move {
            let Some(pair) = join.take(output) else {
                return Ok::<_, DataFusionError>(None);
            };
            let rows = join.joined(pair, output, metrics.clone()).await?;
            Ok(Some((rows, (join, metrics))))
        });
        joined.try_flatten()
    }

    fn pairs_of(&self, output: usize) -> &Mutex<Vec<Pair>> {
        &self.pairs[if self.pairs.len() == 1 { 0 } else { output }]
    }

    fn take(&self, output: usize) -> Option<Pair> {
        self.pairs_of(output).lock().pop()
    }

    /// The rows of a pair; none where it has become several pairs.
    async fn joined(
        &self,
        pair: Pair,
        output: usize,
        metrics: ProbeMetrics,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.stock.schema();
        if pair.is_empty(*self.stock.join_type()) {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty())));
        }
        let left = read(&self.left, &pair.left)?;
        let pool = Arc::clone(self.context.memory_pool());
        match build::build(Arc::clone(&self.build), vec![left], pool, self.build_metrics(output)).await? {
            Build::Table(side) => {
                let right = read(&self.right, &pair.right)?;
                let prober = Prober::new(Arc::clone(&self.probe), side, right, self.stock.fetch(), metrics);
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, prober.batches())))
            }
            Build::TooLarge(inputs) if pair.level < LEVELS_MAX => {
                self.split_further(inputs, &pair, output).await?;
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty())))
            }
            Build::TooLarge(_) => {
                MetricBuilder::new(&self.metrics)
                    .counter("sort_merge_joins", output)
                    .add(1);
                let mut rows = self.sort_merge_join(&pair)?.execute(0, Arc::clone(&self.context))?;
                let counted = poll_fn(move |task| metrics.baseline.record_poll(rows.poll_next_unpin(task)));
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Build::Stock(_) => internal_err!("a join of files was given back to the stock join"),
        }
    }

    fn build_metrics(&self, output: usize) -> BuildMetrics {
        BuildMetrics {
            time: MetricBuilder::new(&self.metrics).subset_time("build_time", output),
            // They were counted when they came.
            batches: Count::new(),
            rows: Count::new(),
            bytes: MetricBuilder::new(&self.metrics).gauge("build_mem_used", output),
            reused: MetricBuilder::new(&self.metrics).gauge(super::REUSED_BYTES, output),
        }
    }

    /// Makes several pairs of one, whose left rows are `left`.
    async fn split_further(
        &self,
        left: Vec<SendableRecordBatchStream>,
        pair: &Pair,
        output: usize,
    ) -> Result<()> {
        let (on_left, on_right) = (self.build.on_left.clone(), self.probe.on_right.clone());
        let left = split(left, on_left, self.left.clone(), pair.level).await?;
        let right = vec![read(&self.right, &pair.right)?];
        let right = split(right, on_right, self.right.clone(), pair.level).await?;
        let kept_max = pair.left.rows as f64 * KEPT_MAX;
        let smaller = left.into_iter().zip(right).map(|(left, right)| Pair {
            level: match left.rows as f64 > kept_max {
                true => LEVELS_MAX,
                false => pair.level + 1,
            },
            left,
            right,
        });
        self.pairs_of(output).lock().extend(smaller);
        Ok(())
    }

    /// A pair as a sort-merge join, which needs no memory for all rows of a key.
    fn sort_merge_join(&self, pair: &Pair) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = &self.stock;
        let left = sorted(FileRows::plan(&self.left, &pair.left)?, &self.build.on_left)?;
        let right = sorted(FileRows::plan(&self.right, &pair.right)?, &self.probe.on_right)?;
        let join = SortMergeJoinExec::try_new(
            left,
            right,
            stock.on().to_vec(),
            stock.filter().cloned(),
            *stock.join_type(),
            vec![Default::default(); stock.on().len()],
            stock.null_equality(),
        )?;
        let join: Arc<dyn ExecutionPlan> = Arc::new(join);
        let Some(projection) = stock.projection.as_ref() else {
            return Ok(join);
        };
        let schema = join.schema();
        let columns = projection.iter().map(|&index| {
            let name = schema.field(index).name();
            ProjectionExpr::new(Arc::new(Column::new(name, index)), name.clone())
        });
        Ok(Arc::new(ProjectionExec::try_new(columns, join)?))
    }
}

fn sorted(rows: Arc<dyn ExecutionPlan>, on: &[PhysicalExprRef]) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = on.iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
    match LexOrdering::new(keys) {
        Some(ordering) => Ok(Arc::new(SortExec::new(ordering, rows))),
        None => internal_err!("a hash join without keys"),
    }
}

/// A file that is being written: appends a batch, or ends it where there is none.
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

struct Writing {
    write: Write,
    rows: usize,
}

impl Writing {
    fn new(files: &SpillManager) -> Result<Writing> {
        let mut file = files.create_in_progress_file("a join")?;
        let write: Write = Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        });
        Ok(Writing { write, rows: 0 })
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
        let mut into = into.lock();
        into.rows += batch.num_rows();
        (into.write)(Some(&batch))?;
        Ok(())
    }
}

/// Writes the rows of some streams to files by their keys' hashes; they were split `level` times before.
async fn split(
    inputs: Vec<SendableRecordBatchStream>,
    on: Vec<PhysicalExprRef>,
    files: SpillManager,
    level: u32,
) -> Result<Vec<Part>> {
    let parts = (0..SPLIT).map(|_| Ok(Mutex::new(Writing::new(&files)?)));
    let parts = Arc::new(parts.collect::<Result<Vec<_>>>()?);
    let scattered = inputs.into_iter().map(|input| {
        let (on, schema) = (on.clone(), Arc::clone(files.schema()));
        scatter(input, on, schema, Arc::clone(&parts), level)
    });
    tasks::all(scattered).await?;
    let finished = parts.iter().map(|part| {
        let mut part = part.lock();
        Ok(Part {
            file: (part.write)(None)?,
            rows: part.rows,
        })
    });
    finished.collect()
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
            waiting.batches.push(take_record_batch(&batch, &UInt32Array::from(rows))?);
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

fn read(files: &SpillManager, part: &Part) -> Result<SendableRecordBatchStream> {
    match &part.file {
        Some(file) => files.read_spill_as_stream(Arc::clone(file), None),
        None => Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(files.schema()),
            stream::empty(),
        ))),
    }
}

/// The rows of a file as a plan.
struct FileRows {
    files: SpillManager,
    part: Part,
}

impl FileRows {
    fn plan(files: &SpillManager, part: &Part) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::clone(files.schema());
        let rows = Arc::new(FileRows {
            files: files.clone(),
            part: part.clone(),
        });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, None, false, None)?))
    }
}

impl fmt::Debug for FileRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRows").finish_non_exhaustive()
    }
}

impl PartitionStream for FileRows {
    fn schema(&self) -> &SchemaRef {
        self.files.schema()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        read(&self.files, &self.part).unwrap_or_else(|error| {
            let failed = stream::once(async { Err(error) });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.files.schema()), failed))
        })
    }
}
