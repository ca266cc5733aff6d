//! Rows once for each grouping set, with NULLs where the set has no column.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Aggregate, EmitTo};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::PhysicalGroupBy;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Gives each row once for each grouping set: the groups' columns, which the input has first, then the set's number as DataFusion numbers
/// sets (`__grouping_id`), then the input's other columns.
pub struct CorunExpandExec {
    input: Arc<dyn ExecutionPlan>,
    /// By set and column: whether the set is without the column.
    sets: Vec<Vec<bool>>,
    number_type: DataType,
    /// The states of no rows, if a set without columns has a group even then.
    of_nothing: Option<Vec<ArrayRef>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Where the encoding of a node has its sets: one word of `0` and `1` each, as [`CorunExpandExec`] numbers them.
const SETS: &str = "corun.grouping_sets";

/// Whether these are grouping sets that can be made from the finest of them: one has all columns. A set that is there twice has numbers of its
/// own.
pub(super) fn is_possible(groups: &PhysicalGroupBy) -> bool {
    let sets: HashSet<&Vec<bool>> = groups.groups().iter().collect();
    let has_finest = groups.groups().iter().any(|without| !without.contains(&true));
    let columns = groups.expr().len();
    groups.has_grouping_set()
        && has_finest
        && sets.len() == groups.groups().len()
        && (1..=64).contains(&columns)
}

impl CorunExpandExec {
    /// Expands an input that has the columns of the groups, then the states of `functions` over rows of the schema `raw`.
    ///
    /// # Errors
    /// More than 64 columns; a function without states.
    pub(super) fn of_states(
        input: Arc<dyn ExecutionPlan>,
        sets: Vec<Vec<bool>>,
        functions: &[Arc<AggregateFunctionExpr>],
        raw: &Schema,
    ) -> Result<Self> {
        let of_nothing = match sets.iter().any(|without| !without.contains(&false)) {
            true => {
                let states = functions.iter().map(|function| state_of_nothing(function, raw));
                Some(states.collect::<Result<Vec<_>>>()?.concat())
            }
            false => None,
        };
        CorunExpandExec::try_new(input, sets, of_nothing)
    }

    /// The node without its input, as an Arrow IPC stream, for plans that are sent to another process of the same version.
    ///
    /// # Errors
    /// States of a type that cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let word = |set: &Vec<bool>| {
            set.iter()
                .map(|&without| if without { '1' } else { '0' })
                .collect()
        };
        let words: Vec<String> = self.sets.iter().map(word).collect();
        let states = self.of_nothing.as_deref().unwrap_or_default();
        let fields = states
            .iter()
            .map(|state| Field::new("", state.data_type().clone(), true));
        let sets = HashMap::from([(SETS.to_owned(), words.join(" "))]);
        let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), sets));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        if self.of_nothing.is_some() {
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let states = RecordBatch::try_new_with_options(schema, states.to_vec(), &options)?;
            writer.write(&states)?;
        }
        Ok(writer.into_inner()?)
    }

    /// The node that [`CorunExpandExec::to_bytes`] was called on, over `input`.
    ///
    /// # Errors
    /// Bytes of something else; an input with fewer columns than the sets have and states.
    pub fn from_bytes(bytes: &[u8], input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        let words = schema.metadata().get(SETS).map_or("", String::as_str);
        let set = |word: &str| word.bytes().map(|without| without == b'1').collect();
        let sets: Vec<Vec<bool>> = words.split_ascii_whitespace().map(set).collect();
        let of_nothing = reader.last().transpose()?.map(|states| states.columns().to_vec());
        let columns = sets.first().map_or(0, Vec::len);
        let states = of_nothing.as_ref().map_or(0, Vec::len);
        if columns == 0
            || sets.iter().any(|set| set.len() != columns)
            || input.schema().fields().len() < columns + states
        {
            return internal_err!("these are no grouping sets of the input");
        }
        CorunExpandExec::try_new(input, sets, of_nothing)
    }

    fn try_new(
        input: Arc<dyn ExecutionPlan>,
        sets: Vec<Vec<bool>>,
        of_nothing: Option<Vec<ArrayRef>>,
    ) -> Result<Self> {
        let columns = sets.first().map_or(0, Vec::len);
        let fields = input.schema();
        let number_type = match columns {
            0..=8 => DataType::UInt8,
            9..=16 => DataType::UInt16,
            17..=32 => DataType::UInt32,
            33..=64 => DataType::UInt64,
            _ => return not_impl_err!("grouping sets of more than 64 columns"),
        };
        let mut expanded: Vec<Arc<Field>> = fields.fields().iter().cloned().collect();
        for (column, field) in expanded.iter_mut().enumerate().take(columns) {
            if sets.iter().any(|set| set[column]) {
                *field = Arc::new(field.as_ref().clone().with_nullable(true));
            }
        }
        let number = Field::new(Aggregate::INTERNAL_GROUPING_ID, number_type.clone(), false);
        expanded.insert(columns, Arc::new(number));
        let schema = Arc::new(Schema::new_with_metadata(expanded, fields.metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(CorunExpandExec {
            input,
            sets,
            number_type,
            of_nothing,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl fmt::Debug for CorunExpandExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CorunExpandExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorunExpandExec: grouping_sets={}", self.sets.len())
    }
}

impl ExecutionPlan for CorunExpandExec {
    fn name(&self) -> &str {
        "CorunExpandExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(CorunExpandExec::try_new(
                input,
                self.sets.clone(),
                self.of_nothing.clone(),
            )?)),
            None => internal_err!("an expansion has one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let expansion = Expansion {
            input: self.input.execute(partition, context)?,
            sets: self.sets.clone(),
            number_type: self.number_type.clone(),
            of_nothing: self.of_nothing.clone(),
            schema: Arc::clone(&self.schema),
            next: VecDeque::new(),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::try_unfold(expansion, |mut expansion| async move {
            Ok(expansion.next().await?.map(|batch| (batch, expansion)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A row of the states that a function has of no rows, as a group has them that never got one.
fn state_of_nothing(function: &AggregateFunctionExpr, raw: &Schema) -> Result<Vec<ArrayRef>> {
    if !function.groups_accumulator_supported() {
        let states = function.create_accumulator()?.state()?;
        return states.iter().map(|state| state.to_array_of_size(1)).collect();
    }
    let arguments = function.expressions();
    let arguments = arguments
        .iter()
        .map(|argument| Ok(new_null_array(&argument.data_type(raw)?, 1)));
    let mut accumulator = function.create_groups_accumulator()?;
    // A row that its condition leaves out.
    let condition = BooleanArray::from(vec![false]);
    accumulator.update_batch(&arguments.collect::<Result<Vec<_>>>()?, &[0], Some(&condition), 1)?;
    accumulator.state(EmitTo::All)
}

struct Expansion {
    input: SendableRecordBatchStream,
    sets: Vec<Vec<bool>>,
    number_type: DataType,
    /// Gone once there was a row.
    of_nothing: Option<Vec<ArrayRef>>,
    schema: SchemaRef,
    /// Of one batch, for sets that have not had it.
    next: VecDeque<RecordBatch>,
    baseline: BaselineMetrics,
}

impl Expansion {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.next.pop_front() {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
            let batch = self.input.next().await.transpose()?;
            let elapsed = self.baseline.elapsed_compute().clone();
            let _timer = elapsed.timer();
            match (batch, &self.of_nothing) {
                (Some(batch), _) if batch.num_rows() == 0 => {}
                (Some(batch), _) => {
                    self.of_nothing = None;
                    // All share the batch's columns: only NULLs and numbers are new.
                    let batches = self.sets.iter().map(|set| self.expanded(&batch, set));
                    self.next = batches.collect::<Result<_>>()?;
                }
                (None, Some(states)) => {
                    let batch = self.nothing(states)?;
                    self.of_nothing = None;
                    let empty = self.sets.iter().filter(|without| !without.contains(&false));
                    self.next = empty
                        .map(|set| self.expanded(&batch, set))
                        .collect::<Result<_>>()?;
                }
                (None, None) => return Ok(None),
            }
        }
    }

    /// One row of the input, with the states of no rows.
    fn nothing(&self, states: &[ArrayRef]) -> Result<RecordBatch> {
        let schema = self.input.schema();
        let groups = schema.fields().len() - states.len();
        let fields = schema.fields().iter().take(groups);
        let mut columns: Vec<ArrayRef> = fields.map(|field| new_null_array(field.data_type(), 1)).collect();
        columns.extend(states.iter().cloned());
        // Keys that are never NULL in rows are here.
        let nullable = schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Schema::new(nullable.collect::<Vec<Field>>());
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }

    fn expanded(&self, batch: &RecordBatch, set: &[bool]) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        for (column, without) in columns.iter_mut().zip(set) {
            if *without {
                *column = new_null_array(column.data_type(), rows);
            }
        }
        let number = set
            .iter()
            .fold(0_u64, |number, without| number << 1 | u64::from(*without));
        let number = ScalarValue::UInt64(Some(number)).cast_to(&self.number_type)?;
        columns.insert(set.len(), number.to_array_of_size(rows)?);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
