//! The table that stands for a part of a statement.

use super::reader::CorunSharedExec;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// One reader's table.
#[derive(Debug)]
struct SharedTable(Arc<CorunSharedExec>);

/// Columns of the table by number: names of the part's own may repeat.
fn column(index: usize) -> String {
    format!("c{index}")
}

/// The columns of `part` as those of its table.
pub(super) fn schema(part: &LogicalPlan) -> SchemaRef {
    let fields = part.schema().fields().iter().enumerate();
    let fields = fields.map(|(index, field)| field.as_ref().clone().with_name(column(index)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A scan of the reader's table that gives the columns of `part` their names.
pub(super) fn scan(part: &LogicalPlan, reader: CorunSharedExec) -> Result<LogicalPlan> {
    let names = part.schema().iter().enumerate();
    let columns = names.map(|(index, (relation, field))| {
        let column = ident(column(index));
        column.alias_qualified(relation.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let name = reader.part_name().to_owned();
    let table = provider_as_source(Arc::new(SharedTable(Arc::new(reader))));
    let plan = LogicalPlanBuilder::scan(name, table, None)?
        .project(columns)?
        .build()?;
    debug_assert_eq!(plan.schema().columns(), part.schema().columns());
    Ok(plan)
}

#[async_trait]
impl TableProvider for SharedTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = Arc::clone(&self.0) as Arc<dyn ExecutionPlan>;
        let Some(projection) = projection else {
            return Ok(all);
        };
        let columns = projection.iter().map(|&index| {
            let name = column(index);
            (Arc::new(Column::new(&name, index)) as Arc<dyn PhysicalExpr>, name)
        });
        Ok(Arc::new(ProjectionExec::try_new(
            columns.collect::<Vec<_>>(),
            all,
        )?))
    }
}
