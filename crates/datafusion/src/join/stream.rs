//! One probe stream: waits for the build side, then turns probe batches into output batches.
//!
//! ```text
//! Waiting --build ready--> Probing --input ends--> Unmatched build rows (last stream) --> Done
//!    └--table did not fit--> the rows of a join of files, or the stock join's, passed through
//! ```
//!
//! Probe batches are worked off in steps of at most `batch_size` pairs, so that a key with a million partners never
//! makes a batch of a million rows. Within a stream, output follows the order of the probe rows.

use super::align;
use super::build::BuildSide;
use super::keys::Encoded;
use super::output::{Assembler, Rows};
use super::verify::{retain_equal, retain_true};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use corun_exec::table::{Pairs, ProbeCursor};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, RecordOutput, Time};
use futures::{Stream, StreamExt};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::coop::consume_budget;

/// The parts of a join that every step reads.
pub struct ProbeSpec {
    /// Join type; build rows are the left ones.
    pub join_type: JoinType,
    /// Key expressions over the right schema.
    pub on_right: Vec<PhysicalExprRef>,
    /// Condition beyond the keys.
    pub filter: Option<JoinFilter>,
    /// Output columns.
    pub assembler: Assembler,
    /// Columns of the filter's intermediate batch.
    pub filter_assembler: Option<Assembler>,
    /// `NOT IN` semantics.
    pub null_aware: bool,
    /// Rows of an output batch.
    pub batch_size: usize,
}

impl ProbeSpec {
    /// The same keys and condition for another join type, with other output columns.
    pub fn with(&self, join_type: JoinType, schema: SchemaRef, sources: Vec<ColumnIndex>) -> ProbeSpec {
        ProbeSpec {
            join_type,
            on_right: self.on_right.clone(),
            filter: self.filter.clone(),
            assembler: Assembler { schema, sources },
            filter_assembler: self.filter_assembler.clone(),
            null_aware: self.null_aware,
            batch_size: self.batch_size,
        }
    }
}

/// Metrics of the probe phase.
#[derive(Clone)]
pub struct ProbeMetrics {
    /// Rows out, elapsed time.
    pub baseline: BaselineMetrics,
    /// Time in probing and assembling.
    pub time: Time,
    /// Probe batches.
    pub batches: Count,
    /// Probe rows.
    pub rows: Count,
}

/// One probe batch being worked off.
struct Current {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    encoded: Encoded,
    /// The last probe row that had a pair in earlier steps.
    last_matched: Option<u32>,
}

/// State of a probe stream after the build side is there.
pub struct Prober {
    spec: Arc<ProbeSpec>,
    side: Arc<BuildSide>,
    input: Option<SendableRecordBatchStream>,
    current: Option<Current>,
    cursor: ProbeCursor,
    pairs: Pairs,
    out: LimitedBatchCoalescer,
    /// Unmatched build rows still to be emitted, once the input has ended.
    rest: Option<Range<usize>>,
    finished: bool,
    metrics: ProbeMetrics,
}

impl Prober {
    /// A prober of `input` against `side`, emitting at most `fetch` rows.
    pub fn new(
        spec: Arc<ProbeSpec>,
        side: Arc<BuildSide>,
        input: SendableRecordBatchStream,
        fetch: Option<usize>,
        metrics: ProbeMetrics,
    ) -> Self {
        let out = LimitedBatchCoalescer::new(Arc::clone(&spec.assembler.schema), spec.batch_size, fetch);
        let hopeless = (side.rows == 0 && spec.join_type.empty_build_side_produces_empty_result())
            || (side.table.rows() == 0 && spec.join_type.empty_map_produces_empty_result());
        Prober {
            spec,
            side,
            input: (!hopeless).then_some(input),
            current: None,
            cursor: ProbeCursor::default(),
            pairs: Pairs::default(),
            out,
            rest: hopeless.then_some(0..0),
            finished: false,
            metrics,
        }
    }

    /// The next output batch; `None` at the end.
    ///
    /// # Errors
    /// Errors of the input and of expressions.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.out.next_completed_batch() {
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            if self.finished {
                return Ok(None);
            }
            if let Some(current) = self.current.take() {
                // A batch may have any number of pairs, none of which the condition lets through.
                consume_budget().await;
                self.timed(|this| this.step(current))?;
            } else if let Some(input) = &mut self.input {
                match input.next().await {
                    Some(batch) => {
                        let batch = batch?;
                        self.timed(|this| this.begin(batch))?;
                    }
                    None => {
                        self.input = None;
                        self.rest = Some(self.unmatched_range());
                    }
                }
            } else {
                self.timed(Prober::emit_rest)?;
            }
        }
    }

    /// The output batches.
    pub fn batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut prober| async move {
            Ok(prober.next().await?.map(|batch| (batch, prober)))
        })
    }

    fn timed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let (time, elapsed) = (
            self.metrics.time.clone(),
            self.metrics.baseline.elapsed_compute().clone(),
        );
        let _timers = (time.timer(), elapsed.timer());
        work(self)
    }

    /// Takes a new probe batch in.
    fn begin(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.metrics.batches.add(1);
        self.metrics.rows.add(batch.num_rows());
        let keys = evaluate_expressions_to_arrays(&self.spec.on_right, &batch)?;
        if self.spec.null_aware {
            self.side.probe_non_empty.store(true, Ordering::Relaxed);
            if keys[0].logical_null_count() > 0 {
                self.side.probe_has_null.store(true, Ordering::Relaxed);
            }
            if self.side.probe_has_null.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let encoded = self.side.keys.encode(&keys)?;
        if self.spec.filter.is_none() && self.side.keys.is_exact() && self.whole_batch(&batch, &encoded)? {
            return Ok(());
        }
        self.cursor.reset();
        self.current = Some(Current {
            batch,
            keys,
            encoded,
            last_matched: None,
        });
        Ok(())
    }

    /// Join types that only ask whether a probe row matched, or only mark build rows, need no pairs.
    fn whole_batch(&mut self, batch: &RecordBatch, encoded: &Encoded) -> Result<bool> {
        let (codes, valid) = (encoded.codes(), encoded.validity());
        let rows = batch.num_rows();
        match self.spec.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                if let Some(visited) = &self.side.visited {
                    self.side.table.mark(&codes, valid, None, visited);
                }
                Ok(true)
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                let mut matched = std::mem::take(&mut self.pairs.probe);
                self.side.table.matches(&codes, valid, None, &mut matched);
                self.emit_probe_rows(batch, &matched, 0..rows)?;
                self.pairs.probe = matched;
                Ok(true)
            }
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => Ok(false),
        }
    }

    /// Finds the next pairs of the current batch and emits what they complete.
    fn step(&mut self, mut current: Current) -> Result<()> {
        let mut pairs = std::mem::take(&mut self.pairs);
        let done = self.side.table.probe(
            &current.encoded.codes(),
            current.encoded.validity(),
            None,
            &mut self.cursor,
            self.spec.batch_size,
            &mut pairs,
        );
        if !self.side.keys.is_exact() {
            // Where NULLs do not match, the table finds no pair with one.
            let nulls_are = NullEquality::NullEqualsNull;
            retain_equal(&mut pairs, &self.side.key_values, &current.keys, nulls_are)?;
        }
        if let (Some(filter), Some(assembler)) = (&self.spec.filter, &self.spec.filter_assembler) {
            retain_true(
                &mut pairs,
                filter.expression(),
                assembler,
                self.side.columns(),
                &current.batch,
            )?;
        }
        let rows = done.then(|| current.batch.num_rows());
        let complete = align::complete(&pairs.probe, &mut current.last_matched, rows);
        self.emit(&current.batch, &mut pairs, complete)?;
        self.pairs = pairs;
        if !done && !self.finished {
            self.current = Some(current);
        }
        Ok(())
    }

    /// Emits what `pairs` mean for the join type; `range` are the probe rows that are complete now.
    fn emit(&mut self, batch: &RecordBatch, pairs: &mut Pairs, range: Range<usize>) -> Result<()> {
        if let Some(visited) = &self.side.visited {
            visited.mark_rows(&pairs.build);
        }
        match self.spec.join_type {
            JoinType::Inner | JoinType::Left => self.emit_pairs(batch, pairs),
            JoinType::Right | JoinType::Full => {
                if range.len() == pairs.len() && self.side.table.is_unique() {
                    // Every row of the range has exactly one partner.
                    return self.emit_pairs(batch, pairs);
                }
                let (build, probe) = align::with_unmatched(&pairs.build, &pairs.probe, range);
                let rows = probe.len();
                let build = Rows::Indices(UInt32Array::from(build));
                let probe = Rows::Indices(UInt32Array::from(probe));
                self.push(rows, &build, Some(batch), &probe, None)
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                let matched = align::matched(&pairs.probe, range.clone());
                self.emit_probe_rows(batch, &matched, range)
            }
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Ok(()),
        }
    }

    fn emit_pairs(&mut self, batch: &RecordBatch, pairs: &mut Pairs) -> Result<()> {
        let rows = pairs.len();
        if rows == 0 {
            return Ok(());
        }
        let build = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.build)));
        // Ascending and as many as there are rows, without duplicates: all rows in order.
        let all = rows == batch.num_rows() && self.side.table.is_unique();
        let probe = if all {
            Rows::All
        } else {
            Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.probe)))
        };
        self.push(rows, &build, Some(batch), &probe, None)?;
        pairs.build = build.into_vec();
        if !all {
            pairs.probe = probe.into_vec();
        }
        Ok(())
    }

    /// Right semi, anti and mark joins: the rows of `range`, given those of them that matched.
    fn emit_probe_rows(&mut self, batch: &RecordBatch, matched: &[u32], range: Range<usize>) -> Result<()> {
        if self.spec.join_type == JoinType::RightMark {
            let mut mark = vec![false; range.len()];
            matched
                .iter()
                .for_each(|row| mark[*row as usize - range.start] = true);
            let mark = BooleanArray::from(mark);
            let rows = range.len();
            let selected = batch.slice(range.start, rows);
            return self.push(rows, &Rows::Null, Some(&selected), &Rows::All, Some(&mark));
        }
        let anti = self.spec.join_type == JoinType::RightAnti;
        let rows = if anti {
            align::unmatched(matched, range)
        } else {
            matched.to_vec()
        };
        let count = rows.len();
        let selection = if count == batch.num_rows() {
            Rows::All
        } else {
            Rows::Indices(UInt32Array::from(rows))
        };
        self.push(count, &Rows::Null, Some(batch), &selection, None)
    }

    /// Build rows to emit after the input has ended: all for the last stream, none for the others.
    fn unmatched_range(&self) -> Range<usize> {
        let finals = matches!(
            self.spec.join_type,
            JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
        );
        if !finals {
            return 0..0;
        }
        let last = self.side.probe_completed();
        let not_in_null = self.spec.null_aware && self.side.probe_has_null.load(Ordering::Relaxed);
        if last && !not_in_null {
            0..self.side.rows
        } else {
            0..0
        }
    }

    /// Emits the next stretch of build rows that the probe left over, and ends the stream after the last.
    fn emit_rest(&mut self) -> Result<()> {
        let rest = self.rest.take().unwrap_or(0..0);
        if rest.is_empty() {
            self.finished = true;
            return self.out.finish();
        }
        let Some(visited) = &self.side.visited else {
            return Ok(());
        };
        if self.spec.join_type == JoinType::LeftMark {
            let end = rest.end.min(rest.start + self.spec.batch_size);
            self.rest = Some(end..rest.end);
            let rows: Vec<u32> = (rest.start as u32..end as u32).collect();
            let mark: BooleanBuffer = rows.iter().map(|row| visited.is_marked(*row)).collect();
            let count = rows.len();
            let build = Rows::Indices(UInt32Array::from(rows));
            return self.push(
                count,
                &build,
                None,
                &Rows::Null,
                Some(&BooleanArray::new(mark, None)),
            );
        }
        let nulls = self
            .side
            .key_nulls
            .as_ref()
            .filter(|_| self.side.probe_non_empty.load(Ordering::Relaxed));
        let semi = self.spec.join_type == JoinType::LeftSemi;
        // Few rows may be left of many: selecting columns costs per batch, so a batch is filled first.
        let (mut rows, mut end) = (Vec::new(), rest.start);
        while end < rest.end && rows.len() < self.spec.batch_size {
            let start = end;
            end = rest.end.min(start + self.spec.batch_size);
            let found = rows.len();
            visited.select(start..end, semi, &mut rows);
            if let Some(nulls) = nulls {
                let fresh = rows.split_off(found);
                rows.extend(fresh.into_iter().filter(|row| nulls.is_valid(*row as usize)));
            }
        }
        self.rest = Some(end..rest.end);
        let count = rows.len();
        let build = Rows::Indices(UInt32Array::from(rows));
        self.push(count, &build, None, &Rows::Null, None)
    }

    fn push(
        &mut self,
        rows: usize,
        build: &Rows,
        batch: Option<&RecordBatch>,
        probe: &Rows,
        mark: Option<&BooleanArray>,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let spec = Arc::clone(&self.spec);
        let batch = spec
            .assembler
            .assemble(rows, (self.side.columns(), build), (batch, probe), mark)?;
        if self.out.push_batch(batch)? == PushBatchStatus::LimitReached {
            self.out.finish()?;
            self.finished = true;
            self.input = None;
            self.current = None;
        }
        Ok(())
    }
}

/// Output columns a join type takes from the left side besides those in `sources`; used by the node to plan copies.
pub fn left_columns(sources: &[ColumnIndex]) -> impl Iterator<Item = usize> {
    sources
        .iter()
        .filter(|source| source.side == JoinSide::Left)
        .map(|source| source.index)
}
