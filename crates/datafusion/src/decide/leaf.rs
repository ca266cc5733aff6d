//! [`Leaf`]: filters and projections over an in-memory table, known from a sample of its rows.
//!
//! ```text
//!   FilterExec  p_category = …          sample: 64 runs of rows, evenly spread ─▶ the same filter ─▶ rows kept
//!     DataSourceExec  part                                                                             widths, key ranges
//! ```
//!
//! Statistics of in-memory tables end at their row counts. A sample costs a fraction of a millisecond once, and what it said is
//! remembered ([`super::memory`]). Conditions are DataFusion's own code only: functions that somebody else registered may
//! take any time, wait, or panic, and are not called for an estimate; nor are volatile ones.

use super::memory::Memory;
use crate::index::IndexedSource;
use crate::join::build::row_bytes;
use crate::join::keys::{codes_of, has_codes};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use corun_model::cache::sampling::Sample;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Rows of a sample: enough to find the share of a condition that keeps one row of 25 to 4 % (one standard deviation).
const SAMPLE_ROWS: usize = 16 << 10;

/// A sample of which fewer rows are kept is taken again with [`LARGER`] times the rows: conditions that keep one row of a
/// thousand are then found to 9 %. Conditions that keep next to nothing stay unsure, and make small tables.
const KEPT_MIN: usize = 128;

/// See [`KEPT_MIN`].
const LARGER: usize = 8;

/// Runs of neighbouring rows that a sample consists of: neighbours share cache lines, and are alike in sorted tables.
const SAMPLE_RUNS: usize = 64;

/// Batches looked at for the identity of a table; of more of them every n-th.
const BATCHES_LOOKED_AT: usize = 4096;

/// What is known of a key: one column or several together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyNumbers {
    /// Smallest and largest code the join's table will see (see `join::keys`); `None` for hashed keys.
    pub bounds: Option<(u64, u64)>,
    /// Different keys.
    pub distinct: f64,
}

/// What a sample said.
pub struct LeafNumbers {
    sample: Sample,
    widths: Mutex<HashMap<usize, f64>>,
    keys: Mutex<HashMap<Vec<usize>, KeyNumbers>>,
}

/// A sampled piece of a plan.
pub struct Leaf {
    numbers: Arc<LeafNumbers>,
    plan: Arc<dyn ExecutionPlan>,
    /// Rows kept, read again only if a number is missing.
    kept: OnceLock<Option<RecordBatch>>,
    /// Whether no row is dropped.
    pub unfiltered: bool,
    /// Names tables and conditions.
    pub fingerprint: String,
    /// The schema of the whole table.
    pub table: SchemaRef,
}

impl Leaf {
    /// The leaf that `plan` is; `None` when it is more than plain operators over an in-memory table, or cannot be sampled.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, memory: &Memory) -> Option<Leaf> {
        let mut chain = Chain::default();
        let source = chain.follow(plan)?;
        let rows: usize = source
            .partitions()
            .iter()
            .flatten()
            .map(RecordBatch::num_rows)
            .sum();
        let fingerprint = format!("{:x}:{rows}{}", identity(source), chain.text);
        let kept = OnceLock::new();
        let numbers = memory.leaf(&fingerprint, || {
            let mut sample = Sample {
                table_rows: rows,
                seen: rows.min(SAMPLE_ROWS),
                kept: rows.min(SAMPLE_ROWS),
            };
            if chain.filters > 0 {
                let mut batch = run(plan, sample.seen)?;
                if batch.num_rows() < KEPT_MIN && !sample.is_whole() {
                    sample.seen = rows.min(SAMPLE_ROWS * LARGER);
                    batch = run(plan, sample.seen)?;
                }
                sample.kept = batch.num_rows();
                let _ = kept.set(Some(batch));
            }
            Some(LeafNumbers {
                sample,
                widths: Mutex::default(),
                keys: Mutex::default(),
            })
        })?;
        Some(Leaf {
            numbers,
            plan: Arc::clone(plan),
            kept,
            unfiltered: chain.filters == 0,
            fingerprint,
            table: source.original_schema(),
        })
    }

    /// How the sample came out.
    pub fn sample(&self) -> Sample {
        self.numbers.sample
    }

    fn kept(&self) -> Option<&RecordBatch> {
        self.kept
            .get_or_init(|| run(&self.plan, self.sample().seen))
            .as_ref()
    }

    /// Bytes of a row in a column without a fixed width, on average; `None` where no row was kept.
    pub fn width(&self, column: usize) -> Option<f64> {
        if let Some(width) = self.numbers.widths.lock().get(&column) {
            return Some(*width);
        }
        let array = self.kept().filter(|kept| kept.num_rows() > 0)?.column(column);
        let width = row_bytes(array) as f64 / array.len() as f64;
        self.numbers.widths.lock().insert(column, width);
        Some(width)
    }

    /// The key that these columns make; `None` where nothing could be read.
    pub fn key(&self, columns: &[usize]) -> Option<KeyNumbers> {
        if let Some(key) = self.numbers.keys.lock().get(columns) {
            return Some(*key);
        }
        let kept = self.kept()?;
        let arrays: Vec<ArrayRef> = columns
            .iter()
            .map(|column| Arc::clone(kept.column(*column)))
            .collect();
        let key = key_numbers(&arrays, self.sample())?;
        self.numbers.keys.lock().insert(columns.to_vec(), key);
        Some(key)
    }
}

/// Ranges and different values of the keys in a sample, as `join::keys` would encode them.
fn key_numbers(arrays: &[ArrayRef], sample: Sample) -> Option<KeyNumbers> {
    let numbers = arrays.iter().all(|array| has_codes(array.data_type()));
    let codes = |array: &ArrayRef| -> Vec<u64> {
        let (codes, valid) = codes_of(array);
        let is_valid = |row: &usize| valid.as_ref().is_none_or(|valid| valid.is_valid(*row));
        (0..array.len())
            .filter(is_valid)
            .map(|row| codes.get(row))
            .collect()
    };
    let range = |codes: &[u64]| {
        let (min, max) = codes.iter().min().zip(codes.iter().max())?;
        Some(sample.bounds(*min, *max))
    };
    if let ([array], true) = (arrays, numbers) {
        let codes = codes(array);
        let bounds = range(&codes);
        return Some(numbers_of(codes, bounds, sample));
    }
    let spans = numbers.then(|| {
        arrays.iter().try_fold(1_u64, |product, array| {
            let (min, max) = range(&codes(array))?;
            let product = product.checked_mul((max - min).checked_add(1)?)?;
            (product <= 1 << 63).then_some(product)
        })
    });
    let bounds = spans.flatten().map(|product| (0, product - 1));
    let mut hashes = vec![0_u64; arrays.first()?.len()];
    create_hashes(arrays, &RandomState::with_seed(1), &mut hashes).ok()?;
    Some(numbers_of(hashes, bounds, sample))
}

fn numbers_of(mut values: Vec<u64>, bounds: Option<(u64, u64)>, sample: Sample) -> KeyNumbers {
    values.sort_unstable();
    let (mut distinct, mut once) = (0, 0);
    for same in values.chunk_by(|a, b| a == b) {
        distinct += 1;
        once += usize::from(same.len() == 1);
    }
    KeyNumbers {
        bounds,
        distinct: sample.distinct(distinct, once),
    }
}

/// The operators of a leaf, as text.
#[derive(Default)]
struct Chain {
    filters: usize,
    text: String,
}

impl Chain {
    /// The source below, if only operators are in between that can be done to a sample.
    fn follow<'a>(&mut self, plan: &'a Arc<dyn ExecutionPlan>) -> Option<&'a MemorySourceConfig> {
        if plan.fetch().is_some() {
            return None;
        }
        if let Some(source) = memory_source(plan) {
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{:?}", source.projection());
            return Some(source);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let predicate = filter.predicate();
            if !may_be_called(predicate) {
                return None;
            }
            self.filters += 1;
            let _ = write!(self.text, " where {predicate} {:?}", filter.projection());
            return self.follow(filter.input());
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            for item in projection.expr() {
                if !may_be_called(&item.expr) {
                    return None;
                }
                let _ = write!(self.text, " select {}", item.expr);
            }
            return self.follow(projection.input());
        }
        match (passes_rows_on(plan), plan.children().as_slice()) {
            (true, [input]) => self.follow(input),
            _ => None,
        }
    }
}

/// Operators that hand on all rows and columns, whatever they do about partitions and batches.
pub fn passes_rows_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(
        plan.name(),
        "RepartitionExec" | "CoalescePartitionsExec" | "CoalesceBatchesExec" | "CooperativeExec"
    )
}

/// The in-memory table that `plan` scans.
fn memory_source(plan: &Arc<dyn ExecutionPlan>) -> Option<&MemorySourceConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let indexed = source.downcast_ref::<IndexedSource>().map(IndexedSource::memory);
    indexed.or_else(|| source.downcast_ref::<MemorySourceConfig>())
}

/// Whether an expression may be evaluated for an estimate.
fn may_be_called(expression: &Arc<dyn PhysicalExpr>) -> bool {
    static OURS: OnceLock<Vec<Arc<ScalarUDF>>> = OnceLock::new();
    if is_volatile(expression) {
        return false;
    }
    let mut foreign = false;
    let visited = expression.apply(|part| {
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() {
            let ours = OURS.get_or_init(SessionStateDefaults::default_scalar_functions);
            foreign |= !ours.iter().any(|one| std::ptr::eq(one.as_ref(), call.fun()));
        }
        Ok(if foreign {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    visited.is_ok() && !foreign
}

/// A number that changes with the batches of a table, whatever order its partitions are in.
fn identity(source: &MemorySourceConfig) -> u64 {
    let batches = source.partitions().iter().map(Vec::len).sum::<usize>();
    let step = batches.div_ceil(BATCHES_LOOKED_AT).max(1);
    let all: Option<Vec<usize>> = source.projection().clone();
    let mut sum = 0_u64;
    for batch in source.partitions().iter().flatten().step_by(step) {
        let mut add = |column: &ArrayRef| {
            let address = Arc::as_ptr(column).cast::<()>() as u64;
            sum = sum.wrapping_add((address ^ batch.num_rows() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        };
        match &all {
            Some(columns) => columns.iter().for_each(|column| add(batch.column(*column))),
            None => batch.columns().iter().for_each(&mut add),
        }
    }
    sum
}

/// What `plan` gives of a sample of `wanted` rows of its table.
fn run(plan: &Arc<dyn ExecutionPlan>, wanted: usize) -> Option<RecordBatch> {
    if let Some(source) = memory_source(plan) {
        return take(source, &plan.schema(), wanted);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let batch = run(filter.input(), wanted)?;
        let kept = filter
            .predicate()
            .evaluate(&batch)
            .ok()?
            .into_array(batch.num_rows())
            .ok()?;
        let batch = filter_record_batch(&batch, kept.as_boolean_opt()?).ok()?;
        return match filter.projection().as_ref() {
            Some(columns) => batch.project(columns).ok(),
            None => Some(batch),
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let batch = run(projection.input(), wanted)?;
        let columns = projection.expr().iter().map(|item| {
            let value = item.expr.evaluate(&batch).ok()?;
            value.into_array(batch.num_rows()).ok()
        });
        return RecordBatch::try_new(plan.schema(), columns.collect::<Option<_>>()?).ok();
    }
    match plan.children().as_slice() {
        [input] => run(input, wanted),
        _ => None,
    }
}

/// `wanted` rows spread evenly over a table, or all of a small one.
fn take(source: &MemorySourceConfig, schema: &SchemaRef, wanted: usize) -> Option<RecordBatch> {
    let rows = source
        .partitions()
        .iter()
        .flatten()
        .map(RecordBatch::num_rows)
        .sum();
    let mut runs = runs(rows, wanted).into_iter().peekable();
    let (mut pieces, mut first) = (Vec::new(), 0);
    for batch in source.partitions().iter().flatten() {
        let rows = first..first + batch.num_rows();
        first = rows.end;
        if runs.peek().is_none_or(|run| run.start >= rows.end) {
            continue;
        }
        let batch = match source.projection() {
            Some(columns) => batch.project(columns).ok()?,
            None => batch.clone(),
        };
        while let Some(run) = runs.peek_mut().filter(|run| run.start < rows.end) {
            let end = run.end.min(rows.end);
            pieces.push(batch.slice(run.start - rows.start, end - run.start));
            // The rest of the run is in the next batch.
            run.start = end;
            if run.start == run.end {
                runs.next();
            }
        }
    }
    concat_batches(schema, &pieces).ok()
}

/// The rows of a sample.
fn runs(rows: usize, wanted: usize) -> Vec<Range<usize>> {
    if rows <= wanted {
        // One range only, and not the numbers in it.
        return std::iter::once(0..rows).filter(|run| !run.is_empty()).collect();
    }
    let length = wanted / SAMPLE_RUNS;
    let last = (rows - length) as u128;
    let start = |run: usize| (run as u128 * last / (SAMPLE_RUNS - 1) as u128) as usize;
    (0..SAMPLE_RUNS)
        .map(start)
        .map(|start| start..start + length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_reaches_from_the_first_row_to_the_last() {
        let length = |runs: &[Range<usize>]| runs.iter().map(Range::len).sum::<usize>();
        assert!(runs(0, SAMPLE_ROWS).is_empty());
        assert_eq!(length(&runs(5, SAMPLE_ROWS)), 5);
        assert_eq!(length(&runs(SAMPLE_ROWS, SAMPLE_ROWS)), SAMPLE_ROWS);
        for rows in [SAMPLE_ROWS + 1, 20_000, 1 << 20, 1 << 40] {
            let runs = runs(rows, SAMPLE_ROWS);
            assert_eq!((runs[0].start, runs[SAMPLE_RUNS - 1].end), (0, rows));
            assert_eq!(length(&runs), SAMPLE_ROWS);
            assert!(runs.windows(2).all(|pair| pair[0].end <= pair[1].start), "{rows}");
        }
    }
}
