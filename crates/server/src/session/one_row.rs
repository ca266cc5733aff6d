//! [`is_one_row`], [`answer`]: queries without tables, such as `select 1` or `select version()`, which connection pools send all the time.
//!
//! Their one row is computed where the session is: no optimizer, no coordinator, no task. Nothing of that could make them faster, and it
//! costs more than they do.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Whether a plan is one row of expressions that need nothing but each other.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    expressions(plan).is_some()
}

fn expressions(plan: &LogicalPlan) -> Option<&[Expr]> {
    let LogicalPlan::Projection(projection) = plan else {
        return None;
    };
    let LogicalPlan::EmptyRelation(from) = projection.input.as_ref() else {
        return None;
    };
    let alone = |of: &Expr| {
        of.exists(|of| {
            Ok(matches!(
                of,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::HigherOrderFunction(_)
                    | Expr::ScalarVariable(..)
            ))
        })
        .is_ok_and(|needs_more| !needs_more)
    };
    (from.produce_one_row && projection.expr.iter().all(alone)).then_some(projection.expr.as_slice())
}

/// The row; `None` of another plan, or one that cannot be computed here: the planner says what is wrong with it.
pub(super) fn answer(plan: &LogicalPlan, state: &SessionState) -> Option<RecordBatch> {
    // Functions may panic.
    let computed = catch_unwind(AssertUnwindSafe(|| {
        computed(plan, expressions(plan)?, state).ok()
    }));
    computed.ok().flatten()
}

fn computed(plan: &LogicalPlan, expressions: &[Expr], state: &SessionState) -> Result<RecordBatch> {
    let options = state.config_options();
    let nothing = Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(&nothing))
        .with_config_options(Arc::clone(options))
        .with_current_time()
        .build();
    let properties = ExecutionProps {
        query_execution_start_time: context.query_execution_start_time(),
        config_options: Some(Arc::clone(options)),
        ..ExecutionProps::new()
    };
    let simplifier = ExprSimplifier::new(context);
    let one = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (expression, field) in expressions.iter().zip(plan.schema().fields()) {
        let typed = simplifier.coerce(expression.clone(), &nothing)?;
        let simple = simplifier.simplify(typed)?;
        let physical = create_physical_expr(
            &simple,
            &nothing,
            &properties,
            &PhysicalPlanningContext::default(),
        )?;
        let column = physical.evaluate(&one)?.into_array(1)?;
        fields.push(Field::new(field.name(), column.data_type().clone(), true));
        columns.push(column);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
