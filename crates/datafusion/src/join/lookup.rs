//! What the build side tells the probe side's scan: the join's dynamic filter.
//!
//! As the stock join does, the filter is the range of each key and, for few keys, an `IN` list, otherwise a lookup in
//! the table. It is only ever a hint: the join itself drops what the scan let through.

use super::build::{BuildSide, DynamicFilter};
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, IsNullExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use parking_lot::Mutex;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Where a build publishes its keys. Shared by the partitions of a join; the last of them updates the filter.
pub struct FilterSink {
    filter: DynamicFilter,
    on_right: Vec<PhysicalExprRef>,
    probe_schema: SchemaRef,
    null_equality: NullEquality,
    null_aware: bool,
    inlist_keys_max: usize,
    inlist_bytes_max: usize,
    state: Mutex<State>,
}

struct State {
    waiting_for: usize,
    sides: Vec<Arc<BuildSide>>,
    /// One array a key column and build batch would be too many: one (min, max) a column.
    bounds: Option<Vec<Option<(ScalarValue, ScalarValue)>>>,
    keys_have_null: bool,
    /// The build keys, while they are few.
    few: Option<Vec<ArrayRef>>,
}

impl FilterSink {
    /// A sink that updates `filter` after `builds` builds.
    ///
    /// `inlist_keys_max` and `inlist_bytes_max` are DataFusion's limits for an `IN` list.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        filter: DynamicFilter,
        on_right: Vec<PhysicalExprRef>,
        probe_schema: SchemaRef,
        null_equality: NullEquality,
        null_aware: bool,
        inlist_keys_max: usize,
        inlist_bytes_max: usize,
        builds: usize,
    ) -> Self {
        let state = State {
            waiting_for: builds,
            sides: Vec::new(),
            bounds: None,
            keys_have_null: false,
            few: Some(Vec::new()),
        };
        FilterSink {
            filter,
            on_right,
            probe_schema,
            null_equality,
            null_aware,
            inlist_keys_max,
            inlist_bytes_max,
            state: Mutex::new(state),
        }
    }

    /// Adds one build; the last one updates the filter.
    ///
    /// # Errors
    /// Key types that cannot be compared or listed.
    pub fn publish(&self, side: &Arc<BuildSide>, key_batches: &[Vec<ArrayRef>]) -> Result<()> {
        let mut state = self.state.lock();
        state.waiting_for = state.waiting_for.saturating_sub(1);
        if side.rows > 0 {
            let bounds = bounds_of(key_batches, self.on_right.len())?;
            state.bounds = Some(match state.bounds.take() {
                None => bounds,
                Some(other) => other
                    .into_iter()
                    .zip(bounds)
                    .map(|(a, b)| union(a, b))
                    .collect::<Result<_>>()?,
            });
            state.keys_have_null |= key_batches.iter().flatten().any(|array| array.null_count() > 0);
            state.sides.push(Arc::clone(side));
            let State { few, sides, .. } = &mut *state;
            if let Some(list) = few {
                list.extend(key_batches.iter().filter_map(|columns| columns.first().cloned()));
                let keys: usize = sides.iter().map(|side| side.table.distinct_keys()).sum();
                let bytes: usize = list.iter().map(|array| array.get_array_memory_size()).sum();
                if self.on_right.len() > 1 || keys > self.inlist_keys_max || bytes > self.inlist_bytes_max {
                    *few = None;
                }
            }
        }
        if state.waiting_for > 0 {
            return Ok(());
        }
        let sides = std::mem::take(&mut state.sides);
        // An empty build side leaves the filter as it is: such joins end without reading the probe side.
        if !sides.is_empty() {
            let predicate = self.predicate(&mut state, sides)?;
            self.filter.update(predicate)?;
        }
        self.filter.mark_complete();
        Ok(())
    }

    fn predicate(&self, state: &mut State, sides: Vec<Arc<BuildSide>>) -> Result<PhysicalExprRef> {
        let mut conjuncts: Vec<PhysicalExprRef> = Vec::new();
        for (expression, bounds) in self.on_right.iter().zip(state.bounds.take().unwrap_or_default()) {
            let Some((min, max)) = bounds else { continue };
            conjuncts.push(binary(expression, Operator::GtEq, lit(min)));
            conjuncts.push(binary(expression, Operator::LtEq, lit(max)));
        }
        let member: PhysicalExprRef = match state.few.take() {
            Some(list) => {
                let parts: Vec<&dyn Array> = list.iter().map(|array| array.as_ref()).collect();
                let keys = arrow::compute::concat(&parts)?;
                let expression = Arc::clone(&self.on_right[0]);
                Arc::new(InListExpr::try_new_from_array(
                    expression,
                    keys,
                    false,
                    &self.probe_schema,
                )?)
            }
            None => Arc::new(TableLookup {
                on_right: self.on_right.clone(),
                sides,
            }),
        };
        conjuncts.push(member);
        let all = conjuncts
            .into_iter()
            .reduce(|all, next| Arc::new(BinaryExpr::new(all, Operator::And, next)) as PhysicalExprRef)
            .unwrap_or_else(|| lit(true));
        // Probe rows with NULL keys must get through where they matter to the join.
        let nulls_matter =
            self.null_aware || (self.null_equality == NullEquality::NullEqualsNull && state.keys_have_null);
        if !nulls_matter {
            return Ok(all);
        }
        let mut kept = all;
        for expression in &self.on_right {
            if expression.nullable(&self.probe_schema)? {
                let is_null: PhysicalExprRef = Arc::new(IsNullExpr::new(Arc::clone(expression)));
                kept = Arc::new(BinaryExpr::new(is_null, Operator::Or, kept));
            }
        }
        Ok(kept)
    }
}

fn binary(left: &PhysicalExprRef, operator: Operator, right: PhysicalExprRef) -> PhysicalExprRef {
    Arc::new(BinaryExpr::new(Arc::clone(left), operator, right))
}

/// Smallest and largest value of each key column; `None` where the type has no order or all are NULL.
fn bounds_of(
    key_batches: &[Vec<ArrayRef>],
    columns: usize,
) -> Result<Vec<Option<(ScalarValue, ScalarValue)>>> {
    let mut all: Vec<Option<(ScalarValue, ScalarValue)>> = vec![None; columns];
    for batch in key_batches {
        for (slot, array) in all.iter_mut().zip(batch) {
            *slot = union(slot.take(), array_bounds(array)?)?;
        }
    }
    Ok(all)
}

fn array_bounds(array: &ArrayRef) -> Result<Option<(ScalarValue, ScalarValue)>> {
    let ordered = array.data_type().is_primitive()
        || matches!(
            array.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
    // Float bounds would have to treat NaN and -0.0 as the join does; they prune nothing worth it.
    if !ordered || array.data_type().is_floating() {
        return Ok(None);
    }
    let mut min = MinAccumulator::try_new(array.data_type())?;
    let mut max = MaxAccumulator::try_new(array.data_type())?;
    min.update_batch(std::slice::from_ref(array))?;
    max.update_batch(std::slice::from_ref(array))?;
    let (min, max) = (min.evaluate()?, max.evaluate()?);
    Ok((!min.is_null() && !max.is_null()).then_some((min, max)))
}

type Bounds = Option<(ScalarValue, ScalarValue)>;

fn union(a: Bounds, b: Bounds) -> Result<Bounds> {
    Ok(match (a, b) {
        (Some((a_min, a_max)), Some((b_min, b_max))) => {
            let min = if b_min.try_cmp(&a_min)?.is_lt() {
                b_min
            } else {
                a_min
            };
            let max = if b_max.try_cmp(&a_max)?.is_gt() {
                b_max
            } else {
                a_max
            };
            Some((min, max))
        }
        (a, b) => a.or(b),
    })
}

/// `true` for rows whose key may be in one of the tables; hashed keys may give false positives, never false negatives.
pub struct TableLookup {
    on_right: Vec<PhysicalExprRef>,
    sides: Vec<Arc<BuildSide>>,
}

impl fmt::Debug for TableLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TableLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.on_right.iter().map(ToString::to_string).collect();
        write!(f, "corun_lookup({})", keys.join(", "))
    }
}

impl TableLookup {
    fn addresses(&self) -> impl Iterator<Item = *const BuildSide> {
        self.sides.iter().map(Arc::as_ptr)
    }
}

impl PartialEq for TableLookup {
    fn eq(&self, other: &Self) -> bool {
        self.on_right == other.on_right && self.addresses().eq(other.addresses())
    }
}

impl Eq for TableLookup {}

impl Hash for TableLookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.on_right.hash(state);
        self.addresses().for_each(|address| address.hash(state));
    }
}

impl PhysicalExpr for TableLookup {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = evaluate_expressions_to_arrays(&self.on_right, batch)?;
        let mut found = BooleanBufferBuilder::new(batch.num_rows());
        found.append_n(batch.num_rows(), false);
        let mut rows = Vec::new();
        for side in &self.sides {
            let encoded = side.keys.encode(&keys)?;
            side.table
                .matches(&encoded.codes(), encoded.validity(), None, &mut rows);
            rows.iter().for_each(|row| found.set_bit(*row as usize, true));
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(
            found.finish(),
            None,
        ))))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.on_right.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        Ok(Arc::new(TableLookup {
            on_right: children,
            sides: self.sides.clone(),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
