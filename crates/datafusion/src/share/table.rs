//! The table that stands for a part of a statement.

use super::exec::CorunSharedExec;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::OnceCell;

/// A part of a statement with several readers.
#[derive(Debug)]
pub(super) struct SharedPart {
    name: String,
    plan: LogicalPlan,
    schema: SchemaRef,
    readers: usize,
    /// The plan over which all readers are made, once one of them is planned.
    planned: OnceCell<CorunSharedExec>,
}

impl SharedPart {
    pub(super) fn new(plan: LogicalPlan, readers: usize) -> SharedPart {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let fields = plan.schema().fields().iter().enumerate();
        // Names of the part's own columns may repeat.
        let fields = fields.map(|(index, field)| field.as_ref().clone().with_name(SharedPart::column(index)));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        SharedPart {
            name: format!("corun_shared_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            plan,
            schema,
            readers,
            planned: OnceCell::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name of a column of the table.
    pub(super) fn column(index: usize) -> String {
        format!("c{index}")
    }

    async fn planned(&self, session: &dyn Session) -> Result<&CorunSharedExec> {
        let plan = || async {
            let plan = session.create_physical_plan(&self.plan).await?;
            Ok(CorunSharedExec::new(
                &self.name,
                plan,
                Arc::clone(&self.schema),
                self.readers,
            ))
        };
        self.planned.get_or_try_init(plan).await
    }
}

/// One reader's table.
#[derive(Debug)]
pub(super) struct SharedTable {
    part: Arc<SharedPart>,
    reader: usize,
}

impl SharedTable {
    pub(super) fn new(part: Arc<SharedPart>, reader: usize) -> SharedTable {
        SharedTable { part, reader }
    }

    pub(super) fn part(&self) -> &SharedPart {
        &self.part
    }
}

#[async_trait]
impl TableProvider for SharedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.part.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Arc<dyn ExecutionPlan> = Arc::new(self.part.planned(session).await?.reader(self.reader));
        let Some(projection) = projection else {
            return Ok(all);
        };
        let columns = projection.iter().map(|&index| {
            let name = SharedPart::column(index);
            (Arc::new(Column::new(&name, index)) as Arc<dyn PhysicalExpr>, name)
        });
        Ok(Arc::new(ProjectionExec::try_new(
            columns.collect::<Vec<_>>(),
            all,
        )?))
    }
}
