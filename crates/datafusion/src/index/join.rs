//! `IndexJoinExec`: a join that looks each outer row up in an index of the other side's table.
//!
//! ```text
//!   CorunJoinExec                          IndexJoinExec: index=t_k_idx(k)
//!     FilterExec over t      (build)   =>    outer input, streamed as it is
//!     outer input            (probe)         (t is not read: rows come from its index, the filter is applied to them)
//! ```
//!
//! The outer side may be either side of the join it replaces; its rows are the preserved ones. The node keeps that stock
//! join for its schema, equivalences and statistics, and never runs it. Made by [`super::rule`].

use super::access::{Access, Condition};
use super::stream::{Joiner, Kind, Spec, StreamMetrics};
use super::table::Index;
use super::tree::Lookup;
use crate::join::output::Assembler;
use crate::stock_line;
use corun_model::cache::reuse::Reuse;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    Statistics, StatisticsArgs, StatisticsContext,
};
use std::fmt;
use std::sync::Arc;

/// What an index join emits when the indexed table is on the side `inner` of a join of this type; `None` when rows of the
/// indexed side would be preserved.
pub fn kind(join_type: JoinType, inner: JoinSide) -> Option<Kind> {
    match (join_type, inner) {
        (JoinType::Inner, _) => Some(Kind::Inner),
        (JoinType::Left, JoinSide::Right) | (JoinType::Right, JoinSide::Left) => Some(Kind::Outer),
        (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left) => Some(Kind::Semi),
        (JoinType::LeftAnti, JoinSide::Right) | (JoinType::RightAnti, JoinSide::Left) => Some(Kind::Anti),
        (JoinType::LeftMark, JoinSide::Right) | (JoinType::RightMark, JoinSide::Left) => Some(Kind::Mark),
        _ => None,
    }
}

/// How an index can take part in a join.
pub struct IndexedSide {
    /// The side of the join the indexed table is on.
    pub inner: JoinSide,
    /// What is emitted.
    pub kind: Kind,
    /// The table.
    pub access: Access,
    /// The index asked.
    pub index: Arc<Index>,
    /// The key over the outer schema that it is asked for.
    pub key: PhysicalExprRef,
    /// Further equal keys: table column, expression over the outer schema.
    pub other_keys: Vec<(usize, PhysicalExprRef)>,
}

/// A join through an index.
pub struct IndexJoinExec {
    /// The join this one stands for, over the indexed plan and the outer one. Not executed.
    stock: Arc<HashJoinExec>,
    inner: JoinSide,
    spec: Arc<Spec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexJoinExec {
    /// The index join for `join`, reading `outer` (the join's own other side, or that without its exchange). `mode` is the
    /// join's own, or `CollectLeft` when the exchange was dropped: then nothing is known about the output's partitions.
    ///
    /// # Errors
    /// An outer input that does not fit the join.
    pub fn try_new(
        join: &HashJoinExec,
        side: IndexedSide,
        outer: Arc<dyn ExecutionPlan>,
        mode: PartitionMode,
        lookup: Lookup,
    ) -> Result<Self> {
        let IndexedSide {
            inner,
            kind,
            access,
            index,
            key,
            other_keys,
        } = side;
        let (schema, sources) =
            build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
        let sources = match join.projection.as_ref() {
            Some(projection) => projection.iter().map(|column| sources[*column].clone()).collect(),
            None => sources,
        };
        let schema = match join.projection.as_ref() {
            Some(projection) => Arc::new(schema.project(projection)?),
            None => Arc::new(schema),
        };
        let condition = join.filter().map(|filter| Condition {
            expression: Arc::clone(filter.expression()),
            assembler: Assembler {
                schema: Arc::clone(filter.schema()),
                sources: access.sources(filter.column_indices(), inner),
            },
        });
        let assembler = Assembler {
            schema,
            sources: access.sources(&sources, inner),
        };
        let spec = Arc::new(Spec {
            kind,
            access,
            index,
            key,
            other_keys,
            condition,
            assembler,
            lookup,
        });
        IndexJoinExec::over(join, inner, mode, spec, outer)
    }

    fn over(
        join: &HashJoinExec,
        inner: JoinSide,
        mode: PartitionMode,
        spec: Arc<Spec>,
        outer: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        let children = match inner {
            JoinSide::Left => vec![Arc::clone(join.left()), outer],
            _ => vec![outer, Arc::clone(join.right())],
        };
        // A collected join has its right side's partitions, which is the outer one's then.
        let mode = match inner {
            JoinSide::Left => PartitionMode::CollectLeft,
            _ => mode,
        };
        let stock = join
            .builder()
            .with_partition_mode(mode)
            .with_new_children(children)?
            .recompute_properties()
            .build()?;
        let properties = Arc::new(properties(&stock, inner));
        Ok(IndexJoinExec {
            stock: Arc::new(stock),
            inner,
            spec,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The join this node stands for, over the indexed plan and the outer one.
    pub(crate) fn stock(&self) -> &HashJoinExec {
        &self.stock
    }

    /// The side of the join the indexed table is on.
    pub(crate) fn inner(&self) -> JoinSide {
        self.inner
    }

    /// Bytes of the index asked.
    pub(crate) fn tree_bytes(&self) -> usize {
        self.spec.index.tree.bytes()
    }

    /// Rows of the indexed table.
    pub(crate) fn table_rows(&self) -> usize {
        self.spec.access.indexed.rows()
    }

    pub(crate) fn outer(&self) -> &Arc<dyn ExecutionPlan> {
        match self.inner {
            JoinSide::Left => self.stock.right(),
            _ => self.stock.left(),
        }
    }
}

/// Equivalences are the stock join's. Rows come in the outer input's order and partitions.
fn properties(stock: &HashJoinExec, inner: JoinSide) -> PlanProperties {
    let mut equivalences = stock.properties().equivalence_properties().clone();
    let outer = match inner {
        JoinSide::Left => stock.right(),
        _ => stock.left(),
    };
    let partitions = outer.output_partitioning().partition_count();
    // The stock join keeps the order of its right input and, hashed, the partitions of both.
    let keeps_partitions = inner == JoinSide::Left || *stock.partition_mode() == PartitionMode::Partitioned;
    if inner != JoinSide::Left {
        equivalences.clear_orderings();
    }
    let partitioning = match stock.properties().output_partitioning() {
        known if keeps_partitions && known.partition_count() == partitions => known.clone(),
        _ => Partitioning::UnknownPartitioning(partitions),
    };
    let emission = match outer.pipeline_behavior() {
        EmissionType::Final => EmissionType::Final,
        EmissionType::Incremental | EmissionType::Both => EmissionType::Incremental,
    };
    PlanProperties::new(equivalences, partitioning, emission, outer.boundedness())
}

impl fmt::Debug for IndexJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexJoinExec")
            .field("index", &self.spec.index.name)
            .field("stock", &self.stock)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec {
            access,
            index,
            lookup,
            ..
        } = self.spec.as_ref();
        let column = access.indexed.schema().field(index.column).name();
        if let DisplayFormatType::TreeRender = t {
            writeln!(f, "index={}({column})", index.name)?;
            return self.stock.fmt_as(t, f);
        }
        // The stock join's own line says the rest.
        let rest = stock_line::behind("join_type=", self.stock.as_ref());
        let side = match self.inner {
            JoinSide::Left => "right",
            _ => "left",
        };
        write!(
            f,
            "IndexJoinExec: index={}({column}), mode={}, ",
            index.name, lookup.hiding
        )?;
        if lookup.reuse() == Reuse::Once {
            write!(f, "reuse=once, ")?;
        }
        write!(f, "outer={side}, join_type={rest}")?;
        let filters: Vec<String> = access
            .conditions
            .iter()
            .map(|condition| condition.expression.to_string())
            .collect();
        if filters.is_empty() {
            Ok(())
        } else {
            write!(f, ", index_filter={}", filters.join(" AND "))
        }
    }
}

impl ExecutionPlan for IndexJoinExec {
    fn name(&self) -> &str {
        "IndexJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.outer()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let Spec {
            key,
            other_keys,
            condition,
            access,
            ..
        } = self.spec.as_ref();
        let conditions = access.conditions.iter().chain(condition);
        let expressions = std::iter::once(key)
            .chain(other_keys.iter().map(|(_, outer)| outer))
            .chain(conditions.map(|condition| &condition.expression));
        for expression in expressions {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(outer), None) = (children.pop(), children.pop()) else {
            return internal_err!("an index join has one child");
        };
        let (mode, spec) = (*self.stock.partition_mode(), Arc::clone(&self.spec));
        Ok(Arc::new(IndexJoinExec::over(
            &self.stock,
            self.inner,
            mode,
            spec,
            outer,
        )?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation =
            MemoryConsumer::new(format!("IndexJoin[{partition}]")).register(context.memory_pool());
        let metrics = StreamMetrics {
            baseline: BaselineMetrics::new(&self.metrics, partition),
            batches: MetricBuilder::new(&self.metrics).counter("input_batches", partition),
            rows: MetricBuilder::new(&self.metrics).counter("input_rows", partition),
            candidates: MetricBuilder::new(&self.metrics).counter("index_matches", partition),
        };
        let reuse = format!("reuse_{}", self.spec.lookup.reuse());
        MetricBuilder::new(&self.metrics).counter(reuse, partition).add(1);
        let batch_size = context.session_config().batch_size();
        let joiner = Joiner::new(
            Arc::clone(&self.spec),
            self.outer().execute(partition, context)?,
            batch_size,
            self.stock.fetch(),
            reservation,
            metrics,
        )?;
        let batches = futures::stream::try_unfold(joiner, |mut joiner| async move {
            Ok(joiner.next().await?.map(|batch| (batch, joiner)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let outer = input_stats
            .first()
            .ok_or_else(|| internal_datafusion_err!("an index join has one child"))?;
        let indexed = match self.inner {
            JoinSide::Left => self.stock.left(),
            _ => self.stock.right(),
        };
        let indexed = StatisticsContext::new().compute(indexed.as_ref(), &StatisticsArgs::new())?;
        let inputs = match self.inner {
            JoinSide::Left => [indexed, Arc::clone(outer)],
            _ => [Arc::clone(outer), indexed],
        };
        self.stock.statistics_from_inputs(&inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}
