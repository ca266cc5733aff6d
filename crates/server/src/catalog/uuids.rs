//! [`Uuids`]: comparisons of UUIDs with texts. PostgreSQL reads such a literal as a UUID; for DataFusion UUIDs are bytes, and bytes are no texts.
//!
//! Operators are seen while a statement is planned, lists (`IN`) by the analyzer, before it looks for the types that both sides can have. What it
//! is not: casts that a statement writes ([`super::typed`]), nor comparisons with lists of parameters (`ANY`).

use super::typed;
use crate::session::planned_moments;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Reads texts that UUIDs are compared with.
#[derive(Debug)]
pub(super) struct Uuids {
    cast: Arc<ScalarUDF>,
}

impl Uuids {
    pub(super) fn new() -> Arc<Uuids> {
        Arc::new(Uuids {
            cast: Arc::new(typed::uuid_cast()),
        })
    }

    /// An expression that is compared with a UUID: a text as one.
    ///
    /// # Errors
    /// A literal that is none.
    fn of(&self, expression: Expr, schema: &DFSchema) -> Result<Expr> {
        use ScalarValue as S;
        match &expression {
            Expr::Literal(S::Utf8(Some(text)) | S::Utf8View(Some(text)) | S::LargeUtf8(Some(text)), _) => {
                let bytes = typed::uuid_bytes(text)?;
                Ok(Expr::Literal(S::FixedSizeBinary(16, Some(bytes.to_vec())), None))
            }
            // Its type is that of the other side.
            Expr::Placeholder(Placeholder { field: None, .. }) => Ok(expression),
            other => match other.get_type(schema) {
                Ok(DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) => {
                    Ok(self.cast.call(vec![expression]))
                }
                _ => Ok(expression),
            },
        }
    }
}

fn is_uuid(expression: &Expr, schema: &DFSchema) -> bool {
    let field = expression.to_field(schema);
    field.is_ok_and(|(_, field)| typed::is_uuid(&field))
}

fn compares(operator: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(operator, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq)
}

impl ExprPlanner for Uuids {
    fn plan_binary_op(&self, of: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some(planned) = planned_moments(&of.left, &of.op, &of.right, schema) {
            return Ok(PlannerResult::Planned(planned));
        }
        if !compares(&of.op) {
            return Ok(PlannerResult::Original(of));
        }
        let RawBinaryExpr { op, left, right } = of;
        let (left, right) = match (is_uuid(&left, schema), is_uuid(&right, schema)) {
            (true, false) => (left, self.of(right, schema)?),
            (false, true) => (self.of(left, schema)?, right),
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

impl AnalyzerRule for Uuids {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            node.map_expressions(|expression| {
                expression.transform_up(|expression| match expression {
                    Expr::InList(InList { expr, list, negated }) if is_uuid(&expr, &schema) => {
                        let list = list.into_iter().map(|item| self.of(item, &schema));
                        let list = list.collect::<Result<Vec<_>>>()?;
                        Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        });
        changed.map(|changed| changed.data)
    }

    fn name(&self) -> &str {
        "corun_uuids"
    }
}
