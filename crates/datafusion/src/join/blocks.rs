//! A pair of files whose left rows do not fit memory and have too few keys to be split: a block of left rows after the other.
//!
//! ```text
//! left:   block 0     block 1     block 2        each becomes a table, which right rows probe:
//! right:  all rows    all rows    all rows       for pairs and for what comes of left rows
//!         all rows -> unmet   ->  unmet   -> unmet   for what comes of right rows: those that met nobody in the blocks before
//! ```

use super::build::BuildSide;
use super::files::Part;
use super::spilled::{Pair, SpilledJoin};
use super::stream::{ProbeMetrics, ProbeSpec, Prober};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{Stream, TryStreamExt, stream};
use std::ops::Range;
use std::sync::Arc;

/// The rows of a pair whose left rows do not fit.
pub(super) fn rows(
    join: Arc<SpilledJoin>,
    pair: Pair,
    output: usize,
    metrics: ProbeMetrics,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let blocks = Blocks {
        left_rows: 0..0,
        block_rows: pair.left.rows / 2,
        unmet: pair.right.clone(),
        pair,
        before: None,
        ended: false,
        count: MetricBuilder::new(&join.metrics).counter("left_blocks", output),
        join,
        output,
        metrics,
    };
    let joined = stream::try_unfold(blocks, |mut blocks| async move {
        let rows = blocks.next().await?;
        Ok::<_, DataFusionError>(rows.map(|rows| (rows, blocks)))
    });
    joined.try_flatten()
}

struct Blocks {
    join: Arc<SpilledJoin>,
    pair: Pair,
    /// The left rows of the block that was built last.
    left_rows: Range<usize>,
    /// As many fit, as far as is known.
    block_rows: usize,
    /// Right rows that met nobody in the blocks before the last.
    unmet: Part,
    /// The last block, where it matters which right rows met nobody.
    before: Option<Arc<BuildSide>>,
    ended: bool,
    output: usize,
    metrics: ProbeMetrics,
    /// Of blocks.
    count: Count,
}

impl Blocks {
    /// What comes of the next block, and behind the last one of the right rows that met nobody.
    async fn next(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        use JoinType::*;
        if self.ended {
            return Ok(None);
        }
        if let Some(side) = self.before.take() {
            let unmet = self.right_rows(RightAnti, &side)?;
            self.unmet = self.join.right.write(unmet).await?;
        }
        let asks_unmet = matches!(
            self.join.probe.join_type,
            Right | Full | RightSemi | RightAnti | RightMark
        );
        if let Some(side) = self.table().await? {
            let rows = self.of_block(&side)?;
            self.before = asks_unmet.then_some(side);
            return Ok(Some(rows));
        }
        self.ended = true;
        if !asks_unmet {
            return Ok(None);
        }
        let join = &self.join;
        let Some(nobody) = join.table(&self.pair.left, 0..0, self.output).await? else {
            return internal_err!("a table of no rows does not fit");
        };
        let unmet = join.right.read(&self.unmet)?;
        Ok(Some(self.probe(&join.probe, &nobody, unmet)))
    }

    /// The next block's table, of as many rows as fit.
    async fn table(&mut self) -> Result<Option<Arc<BuildSide>>> {
        let (start, end) = (self.left_rows.end, self.pair.left.rows);
        if start == end {
            return Ok(None);
        }
        loop {
            let rows = self.block_rows.max(self.join.probe.batch_size);
            let block = start..end.min(start + rows);
            let table = self.join.table(&self.pair.left, block.clone(), self.output);
            if let Some(side) = table.await? {
                self.left_rows = block;
                self.count.add(1);
                return Ok(Some(side));
            }
            self.block_rows = block.len() / 2;
        }
    }

    /// What comes of a block and the right rows, but for right rows that may meet somebody in another one.
    fn of_block(&self, side: &Arc<BuildSide>) -> Result<SendableRecordBatchStream> {
        use JoinType::*;
        let join = &self.join;
        let all = || join.right.read(&self.pair.right);
        let as_type = |join_type| {
            let sources = join.probe.assembler.sources.clone();
            Arc::new(join.probe.with(join_type, join.stock.schema(), sources))
        };
        match join.probe.join_type {
            Inner | Left | LeftSemi | LeftAnti | LeftMark => Ok(self.probe(&join.probe, side, all()?)),
            Right => Ok(self.probe(&as_type(Inner), side, all()?)),
            Full => Ok(self.probe(&as_type(Left), side, all()?)),
            RightSemi => Ok(self.probe(&join.probe, side, join.right.read(&self.unmet)?)),
            RightMark => {
                let met = self.right_rows(RightSemi, side)?;
                Ok(self.probe(&join.probe, side, met))
            }
            RightAnti => Ok(Box::pin(EmptyRecordBatchStream::new(join.stock.schema()))),
        }
    }

    fn probe(
        &self,
        spec: &Arc<ProbeSpec>,
        side: &Arc<BuildSide>,
        right: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let (side, metrics) = (Arc::clone(side), self.metrics.clone());
        self.join.rows_of_probes(spec, side, right, metrics)
    }

    /// Those of the unmet rows that meet somebody in a block (right semi), or nobody (right anti).
    fn right_rows(&self, join_type: JoinType, side: &Arc<BuildSide>) -> Result<SendableRecordBatchStream> {
        let schema: SchemaRef = Arc::clone(self.join.right.schema());
        let side_of = |index| ColumnIndex {
            index,
            side: JoinSide::Right,
        };
        let sources = (0..schema.fields().len()).map(side_of).collect();
        let spec = Arc::new(self.join.probe.with(join_type, Arc::clone(&schema), sources));
        let uncounted = ProbeMetrics {
            baseline: BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), self.output),
            time: self.metrics.time.clone(),
            batches: Count::new(),
            rows: Count::new(),
        };
        let unmet = self.join.right.read(&self.unmet)?;
        let prober = Prober::new(spec, Arc::clone(side), unmet, None, uncounted);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, prober.batches())))
    }
}
