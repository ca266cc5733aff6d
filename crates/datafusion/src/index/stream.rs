//! One stream of an index join: outer batches in, looked up, gathered, and out.
//!
//! ```text
//!  outer batch ─codes─▶ ways down the tree ─▶ candidate pairs ─▶ other keys, conditions ─▶ rows of the join type
//!       ▲                                          (at most a batch of pairs a step)                 │
//!       └─────────────────────────── next batch when all its keys are done ◀────────────────────────┘
//! ```
//!
//! Every outer row is complete before the next begins, so the output follows the outer input's order. There is no build
//! phase and nothing to emit at the end.

use super::access::{Access, Condition};
use super::codes;
use super::table::Index;
use super::tree::{Cursor, Lookup};
use crate::join::align;
use crate::join::keys::CodeBuffer;
use crate::join::output::{Assembler, Columns, Rows};
use crate::join::verify::{retain_equal, retain_true};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::NullBuffer;
use corun_exec::table::Pairs;
use datafusion::common::{NullEquality, internal_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, RecordOutput};
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use tokio::task::coop::consume_budget;

/// What becomes of an outer row with and without partners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One row a pair.
    Inner,
    /// One row a pair, and rows without a partner beside NULLs.
    Outer,
    /// Rows that have a partner, once.
    Semi,
    /// Rows that have none.
    Anti,
    /// All rows, and whether they have a partner.
    Mark,
}

/// The parts of an index join that every step reads.
pub struct Spec {
    /// What is emitted.
    pub kind: Kind,
    /// The indexed table; its columns are the left ones of all assemblers.
    pub access: Access,
    /// The index asked.
    pub index: Arc<Index>,
    /// The key over the outer schema that the index is asked for.
    pub key: PhysicalExprRef,
    /// Further equal keys: table column, expression over the outer schema.
    pub other_keys: Vec<(usize, PhysicalExprRef)>,
    /// The join's condition beyond its keys.
    pub condition: Option<Condition>,
    /// Output columns.
    pub assembler: Assembler,
    /// How lookups are done.
    pub lookup: Lookup,
}

impl Spec {
    /// The table's columns, as found rows are read from them.
    fn columns(&self) -> Columns<'_> {
        Columns {
            arrays: self.access.indexed.columns(),
            reuse: self.lookup.reuse(),
        }
    }

    /// Whether each match of the index is a match of the join.
    fn keys_decide(&self) -> bool {
        self.other_keys.is_empty() && self.condition.is_none() && self.access.conditions.is_empty()
    }
}

/// Metrics of one stream.
pub struct StreamMetrics {
    /// Rows out, elapsed time.
    pub baseline: BaselineMetrics,
    /// Outer batches.
    pub batches: Count,
    /// Outer rows.
    pub rows: Count,
    /// Rows that the index gave for them.
    pub candidates: Count,
}

/// One outer batch being worked off.
struct Current {
    batch: RecordBatch,
    codes: CodeBuffer,
    nulls: Option<NullBuffer>,
    other_keys: Vec<ArrayRef>,
    /// The last outer row that had a pair in earlier steps.
    last_matched: Option<u32>,
}

/// State of a stream.
pub struct Joiner {
    spec: Arc<Spec>,
    input: Option<SendableRecordBatchStream>,
    current: Option<Current>,
    cursor: Cursor,
    pairs: Pairs,
    /// Table columns of the other keys.
    table_keys: Vec<ArrayRef>,
    out: LimitedBatchCoalescer,
    batch_size: usize,
    finished: bool,
    reservation: MemoryReservation,
    metrics: StreamMetrics,
}

impl Joiner {
    /// A joiner of `input`, emitting at most `fetch` rows in batches of `batch_size`.
    ///
    /// # Errors
    /// A key column that the table does not have.
    pub fn new(
        spec: Arc<Spec>,
        input: SendableRecordBatchStream,
        batch_size: usize,
        fetch: Option<usize>,
        reservation: MemoryReservation,
        metrics: StreamMetrics,
    ) -> Result<Self> {
        let column = |number: usize| {
            let columns = spec.access.indexed.columns();
            let column = columns.get(number).cloned().flatten();
            column.ok_or_else(|| internal_datafusion_err!("table column {number} is missing"))
        };
        let table_keys = spec.other_keys.iter().map(|(number, _)| column(*number));
        Ok(Joiner {
            table_keys: table_keys.collect::<Result<_>>()?,
            out: LimitedBatchCoalescer::new(Arc::clone(&spec.assembler.schema), batch_size, fetch),
            spec,
            input: Some(input),
            current: None,
            cursor: Cursor::default(),
            pairs: Pairs::default(),
            batch_size,
            finished: false,
            reservation,
            metrics,
        })
    }

    /// The next output batch; `None` at the end.
    ///
    /// # Errors
    /// Errors of the input and of expressions; memory the pool does not grant.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.out.next_completed_batch() {
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            if self.finished {
                return Ok(None);
            }
            let elapsed = self.metrics.baseline.elapsed_compute().clone();
            if let Some(current) = self.current.take() {
                // A batch may have any number of pairs, none of which the condition lets through.
                consume_budget().await;
                let _timer = elapsed.timer();
                self.step(current)?;
            } else if let Some(input) = &mut self.input {
                match input.next().await {
                    Some(batch) => {
                        let batch = batch?;
                        let _timer = elapsed.timer();
                        self.begin(batch)?;
                    }
                    None => self.input = None,
                }
            } else {
                self.finished = true;
                self.out.finish()?;
            }
        }
    }

    /// Takes a new outer batch in.
    fn begin(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        self.metrics.batches.add(1);
        self.metrics.rows.add(rows);
        let array = |expression: &PhysicalExprRef| expression.evaluate(&batch)?.into_array(rows);
        let key = array(&self.spec.key)?;
        let Some((codes, nulls)) = codes::codes(&key) else {
            return Err(internal_datafusion_err!(
                "a key of type {} has no index",
                key.data_type()
            ));
        };
        let other_keys = self.spec.other_keys.iter().map(|(_, outer)| array(outer));
        let other_keys = other_keys.collect::<Result<_>>()?;
        // One match decides about a row that is not put beside its partners.
        let pairs_matter = matches!(self.spec.kind, Kind::Inner | Kind::Outer);
        self.cursor.reset(!pairs_matter && self.spec.keys_decide());
        self.current = Some(Current {
            batch,
            codes,
            nulls,
            other_keys,
            last_matched: None,
        });
        Ok(())
    }

    /// Finds the next pairs of the current batch and emits what they complete.
    fn step(&mut self, mut current: Current) -> Result<()> {
        let spec = Arc::clone(&self.spec);
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.clear();
        let done = spec
            .index
            .tree
            .next_pairs(
                &current.codes,
                current.nulls.as_ref(),
                spec.lookup,
                &mut self.cursor,
                self.batch_size,
                &mut pairs,
            )
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let row_bytes = 2 * size_of::<u32>();
        self.reservation
            .try_resize(self.cursor.bytes() + pairs.build.capacity() * row_bytes)?;
        self.metrics.candidates.add(pairs.len());
        if !spec.other_keys.is_empty() {
            let plain = NullEquality::NullEqualsNothing;
            retain_equal(&mut pairs, &self.table_keys, &current.other_keys, plain)?;
        }
        // The filters below the join come first: the join's own condition may fail on rows that they drop.
        for condition in spec.access.conditions.iter().chain(&spec.condition) {
            retain_true(
                &mut pairs,
                &condition.expression,
                &condition.assembler,
                spec.columns(),
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

    /// Emits what `pairs` mean; `range` are the outer rows that are complete now.
    fn emit(&mut self, batch: &RecordBatch, pairs: &mut Pairs, range: Range<usize>) -> Result<()> {
        // Ascending and as many as there are rows, each once: all rows in order.
        let unique = self.spec.index.rows_per_key == 1.0;
        let all = unique && pairs.len() == batch.num_rows() && self.spec.keys_decide();
        match self.spec.kind {
            Kind::Inner | Kind::Outer if all => {
                let rows = pairs.len();
                let build = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.build)));
                self.push(rows, &build, batch, &Rows::All, None)?;
                pairs.build = build.into_vec();
                Ok(())
            }
            Kind::Inner => {
                let rows = pairs.len();
                let build = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.build)));
                let probe = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.probe)));
                self.push(rows, &build, batch, &probe, None)?;
                (pairs.build, pairs.probe) = (build.into_vec(), probe.into_vec());
                Ok(())
            }
            Kind::Outer => {
                let (build, probe) = align::with_unmatched(&pairs.build, &pairs.probe, range);
                let rows = probe.len();
                let build = Rows::Indices(UInt32Array::from(build));
                let probe = Rows::Indices(UInt32Array::from(probe));
                self.push(rows, &build, batch, &probe, None)
            }
            Kind::Semi | Kind::Anti => {
                let chosen = if self.spec.kind == Kind::Semi {
                    align::matched(&pairs.probe, range)
                } else {
                    align::unmatched(&pairs.probe, range)
                };
                let rows = chosen.len();
                let probe = if rows == batch.num_rows() {
                    Rows::All
                } else {
                    Rows::Indices(UInt32Array::from(chosen))
                };
                self.push(rows, &Rows::Null, batch, &probe, None)
            }
            Kind::Mark => {
                let mut mark = vec![false; range.len()];
                align::matched(&pairs.probe, range.clone())
                    .into_iter()
                    .for_each(|row| mark[row as usize - range.start] = true);
                let outer = batch.slice(range.start, range.len());
                let mark = BooleanArray::from(mark);
                self.push(range.len(), &Rows::Null, &outer, &Rows::All, Some(&mark))
            }
        }
    }

    fn push(
        &mut self,
        rows: usize,
        build: &Rows,
        batch: &RecordBatch,
        probe: &Rows,
        mark: Option<&BooleanArray>,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let spec = Arc::clone(&self.spec);
        let columns = spec.columns();
        let batch = spec
            .assembler
            .assemble(rows, (columns, build), (Some(batch), probe), mark)?;
        // Outer rows without a partner come on top of a batch of pairs, and the coalescer passes large batches on.
        for start in (0..rows).step_by(self.batch_size) {
            let part = batch.slice(start, self.batch_size.min(rows - start));
            if self.out.push_batch(part)? == PushBatchStatus::LimitReached {
                self.out.finish()?;
                self.finished = true;
                self.input = None;
                self.current = None;
                break;
            }
        }
        Ok(())
    }
}
