//! Built-in functions in this library's own types: those that arrive with a plan are the other library's, which rules do not know and
//! which cost a crossing of the interface for each batch.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan};
use datafusion_ffi::udaf::ForeignAggregateUDF;
use datafusion_ffi::udf::ForeignScalarUDF;
use datafusion_ffi::udwf::ForeignWindowUDF;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use std::sync::Arc;

/// The plan with functions of `session` in place of foreign ones of the same names, except those that users wrote: the other library's codec
/// sends these with a text of their own.
pub(crate) fn own(
    plan: LogicalPlan,
    session: &SessionState,
    codec: &dyn LogicalExtensionCodec,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let node =
            node.map_expressions(|tree| tree.transform_up(|node| own_function(node, session, codec)))?;
        // Types of columns follow from functions, and those of nodes below may have changed.
        Ok(Transformed::yes(node.data.recompute_schema()?))
    })
    .data()
}

fn own_function(
    mut node: Expr,
    session: &SessionState,
    codec: &dyn LogicalExtensionCodec,
) -> Result<Transformed<Expr>> {
    let mut text = Vec::new();
    let changed = match &mut node {
        Expr::ScalarFunction(call) if call.func.inner().is::<ForeignScalarUDF>() => {
            codec.try_encode_udf(&call.func, &mut text)?;
            let own = session.scalar_functions().get(call.func.name());
            put(&mut call.func, own, &text)
        }
        Expr::AggregateFunction(call) => own_aggregate(&mut call.func, session, codec)?,
        Expr::WindowFunction(call) => match &mut call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => own_aggregate(function, session, codec)?,
            WindowFunctionDefinition::WindowUDF(function) if function.inner().is::<ForeignWindowUDF>() => {
                codec.try_encode_udwf(function, &mut text)?;
                let own = session.window_functions().get(function.name());
                put(function, own, &text)
            }
            WindowFunctionDefinition::WindowUDF(_) => false,
        },
        _ => false,
    };
    Ok(match changed {
        true => Transformed::yes(node),
        false => Transformed::no(node),
    })
}

fn own_aggregate(
    function: &mut Arc<AggregateUDF>,
    session: &SessionState,
    codec: &dyn LogicalExtensionCodec,
) -> Result<bool> {
    if !function.inner().is::<ForeignAggregateUDF>() {
        return Ok(false);
    }
    let mut text = Vec::new();
    codec.try_encode_udaf(function, &mut text)?;
    let own = session.aggregate_functions().get(function.name());
    Ok(put(function, own, &text))
}

/// Puts an own function in place of one that has no text.
fn put<T>(function: &mut Arc<T>, own: Option<&Arc<T>>, text: &[u8]) -> bool {
    match own.filter(|_| text.is_empty()) {
        Some(own) => {
            *function = Arc::clone(own);
            true
        }
        None => false,
    }
}
