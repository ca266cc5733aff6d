//! Joins whose table does not fit memory: both sides in files, pair by pair.
//!
//! ```text
//! left  --hash of the keys--> 16 files ┐
//!                                      ├-> pair by pair:  a table that fits
//! right --hash of the keys--> 16 files ┘                  or 16 smaller pairs, by further bits
//!                                                         or, where few keys have all rows, a block of left rows after the other (`blocks`)
//! ```
//!
//! Each output stream takes the next pair that nobody has taken, so that all end at the same time. The rows of a pair are
//! joined with nothing else, so that every join type is what it is in memory. Nobody is told what keys the left side has:
//! no filter below the right side drops rows.

use super::blocks;
use super::build::{self, Build, BuildMetrics, BuildSide, BuildSpec, Overflow};
use super::files::{Files, Part, rows_of};
use super::stream::{ProbeMetrics, ProbeSpec, Prober};
use crate::tasks;
use arrow::array::RecordBatch;
use datafusion::common::{JoinType, internal_err, resources_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, SpillMetrics,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows are split at most so often, the first time included.
const LEVELS_MAX: u32 = 4;
/// A file that has so many of its pair's left rows has keys that further bits do not separate either.
const KEPT_MAX: f64 = 0.9;

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
    pub(super) stock: Arc<HashJoinExec>,
    pub(super) build: Arc<BuildSpec>,
    /// The same for few rows, which are built whatever they take.
    build_few: Arc<BuildSpec>,
    pub(super) probe: Arc<ProbeSpec>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
    left: Files,
    pub(super) right: Files,
    /// Those that nobody has taken: of each output partition, or one list of all. Guarded by the mutexes.
    pairs: Vec<Mutex<Vec<Pair>>>,
    /// Output partitions that were asked for. Guarded by the mutex.
    begun: Mutex<HashSet<usize>>,
}

/// Rows that meet nothing but each other.
pub(super) struct Pair {
    pub(super) left: Part,
    pub(super) right: Part,
    /// How often its rows were split.
    level: u32,
}

impl Pair {
    /// Whether nothing comes of it.
    fn is_empty(&self, join_type: JoinType) -> bool {
        use JoinType::*;
        match (self.left.rows, self.right.rows) {
            (0, 0) => true,
            (0, _) => matches!(
                join_type,
                Inner | Left | LeftSemi | LeftAnti | LeftMark | RightSemi
            ),
            (_, 0) => matches!(
                join_type,
                Inner | Right | RightSemi | RightAnti | RightMark | LeftSemi
            ),
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
        let files = |schema| Files::new(&context, SpillMetrics::new(&spec.metrics, right.start), schema);
        let left_files = files(Arc::clone(&spec.build.schema));
        let right_files = files(spec.stock.right().schema());
        let left = left_files.split(left, &spec.build.on_left, 0).await?;
        let inputs = right
            .map(|partition| spec.stock.right().execute(partition, Arc::clone(&context)))
            .collect::<Result<Vec<_>>>()?;
        let inputs = match spec.by_partition {
            true => inputs.into_iter().map(|input| vec![input]).collect(),
            false => vec![inputs],
        };
        let splits = inputs.into_iter().map(|inputs| {
            let (files, on_right) = (right_files.clone(), spec.probe.on_right.clone());
            async move { files.split(inputs, &on_right, 0).await }
        });
        let right = tasks::all(splits).await?;
        let pairs = right.into_iter().map(|right| {
            let pairs = left.iter().cloned().zip(right);
            let pairs = pairs.map(|(left, right)| Pair {
                left,
                right,
                level: 1,
            });
            Mutex::new(pairs.collect())
        });
        let build = BuildSpec {
            probe_streams: 1,
            dynamic: None,
            overflow: Overflow::ToMoreFiles,
            ..spec.build
        };
        Ok(SpilledJoin {
            pairs: pairs.collect(),
            begun: Mutex::default(),
            build_few: Arc::new(BuildSpec {
                overflow: Overflow::Fails,
                ..build.clone()
            }),
            build: Arc::new(build),
            stock: spec.stock,
            probe: spec.probe,
            metrics: spec.metrics,
            context,
            left: left_files,
            right: right_files,
        })
    }

    /// The rows that leave in an output partition; an error if they have left already, as pairs are joined once.
    pub(super) fn rows(
        self: Arc<Self>,
        output: usize,
        metrics: ProbeMetrics,
    ) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        let again = !self.begun.lock().insert(output);
        let joined = stream::try_unfold((self, metrics), move |(join, metrics)| async move {
            if again {
                return internal_err!(
                    "partition {output} of a join is executed again without a reset of its state"
                );
            }
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
        self: &Arc<Self>,
        pair: Pair,
        output: usize,
        metrics: ProbeMetrics,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.stock.schema();
        let nothing = EmptyRecordBatchStream::new(Arc::clone(&schema));
        if pair.is_empty(*self.stock.join_type()) {
            return Ok(Box::pin(nothing));
        }
        if let Some(side) = self.table(&pair.left, 0..pair.left.rows, output).await? {
            let right = self.right.read(&pair.right)?;
            return Ok(self.rows_of_probes(&self.probe, side, right, metrics));
        }
        if pair.level < LEVELS_MAX {
            self.split_further(&pair, output).await?;
            return Ok(Box::pin(nothing));
        }
        let rows = blocks::rows(Arc::clone(self), pair, output, metrics);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The rows that leave when right rows probe a table.
    pub(super) fn rows_of_probes(
        &self,
        spec: &Arc<ProbeSpec>,
        side: Arc<BuildSide>,
        right: SendableRecordBatchStream,
        metrics: ProbeMetrics,
    ) -> SendableRecordBatchStream {
        let prober = Prober::new(Arc::clone(spec), side, right, self.stock.fetch(), metrics);
        Box::pin(RecordBatchStreamAdapter::new(
            self.stock.schema(),
            prober.batches(),
        ))
    }

    /// The table of some left rows of a file; `None` where they do not fit.
    ///
    /// # Errors
    /// There is no memory for rows that are at most a batch.
    pub(super) async fn table(
        &self,
        left: &Part,
        rows: Range<usize>,
        output: usize,
    ) -> Result<Option<Arc<BuildSide>>> {
        let spec = match rows.len() <= self.probe.batch_size {
            true => &self.build_few,
            false => &self.build,
        };
        let pool = Arc::clone(self.context.memory_pool());
        let metrics = self.build_metrics(output);
        let left = vec![rows_of(self.left.read(left)?, rows.clone())];
        match build::build(Arc::clone(spec), left, pool, metrics).await? {
            Build::Table(side) => Ok(Some(side)),
            Build::TooLarge(_) => Ok(None),
            Build::Stock(_) => resources_err!("there is no memory for a join table of {} rows", rows.len()),
        }
    }

    fn build_metrics(&self, output: usize) -> BuildMetrics {
        BuildMetrics {
            time: MetricBuilder::new(&self.metrics).subset_time("build_time", output),
            // The metrics of the join are those of its input; tables of pairs come and go.
            batches: Count::new(),
            rows: Count::new(),
            bytes: Gauge::new(),
            reused: Gauge::new(),
        }
    }

    /// Makes several pairs of one.
    async fn split_further(&self, pair: &Pair, output: usize) -> Result<()> {
        let left = vec![self.left.read(&pair.left)?];
        let left = self.left.split(left, &self.build.on_left, pair.level).await?;
        let right = vec![self.right.read(&pair.right)?];
        let right = self.right.split(right, &self.probe.on_right, pair.level).await?;
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
}
