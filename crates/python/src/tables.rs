//! How tables that no file names cross the interface, such as those in memory: by number.

use crate::hand_over::HandOver;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, TableReference, internal_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs, StatisticsContext,
};
use datafusion::prelude::SessionConfig;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use std::fmt;
use std::sync::Arc;

/// Hands over tables that no file names, such as those in memory. Functions are encoded by the other library, which knows who wrote them.
#[derive(Debug)]
pub(crate) struct Tables(HandOver<Arc<dyn TableProvider>>);

impl Tables {
    pub(crate) fn new() -> Self {
        Tables(HandOver::new())
    }
}

impl LogicalExtensionCodec for Tables {
    fn try_decode(
        &self,
        _bytes: &[u8],
        _inputs: &[LogicalPlan],
        _context: &TaskContext,
    ) -> Result<Extension> {
        not_impl_err!("corun has no logical nodes")
    }

    fn try_encode(&self, _node: &Extension, _bytes: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("corun has no logical nodes")
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        _table: &TableReference,
        _schema: SchemaRef,
        _context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(Guest(self.0.take(bytes)?)))
    }

    fn try_encode_table_provider(
        &self,
        _table: &TableReference,
        provider: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        bytes.extend(self.0.give(provider));
        Ok(())
    }
}

/// A table of the other library, which is asked with a session that it understands: options of corun's are unknown there.
#[derive(Debug)]
struct Guest(Arc<dyn TableProvider>);

#[async_trait]
impl TableProvider for Guest {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.0.statistics()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = understood(session);
        let session = own.as_ref().map_or(session, |own| own as &dyn Session);
        let plan = self.0.scan(session, projection, filters, limit).await?;
        Ok(Arc::new(GuestExec(plan)))
    }
}

/// A session of this library without the options that only it knows; `None` for others, which have none.
fn understood(session: &dyn Session) -> Option<SessionState> {
    let state = session.as_any().downcast_ref::<SessionState>()?;
    // The session's catalogs stay: a new one would take the place of the default one.
    let mut config = SessionConfig::from(state.config_options().as_ref().clone())
        .with_create_default_catalog_and_schema(false);
    config.options_mut().extensions = Default::default();
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    Some(builder.with_config(config).build())
}

/// A scan of the other library, which rules leave as it is: they would hand it options that it does not know.
#[derive(Debug)]
pub(crate) struct GuestExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for GuestExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestExec: {}", self.0.name())
    }
}

impl ExecutionPlan for GuestExec {
    fn name(&self) -> &str {
        "GuestExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan has no children"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.0.as_ref(), arguments)
    }
}
