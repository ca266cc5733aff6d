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
    let aggregate = |function: &mut Arc<AggregateUDF>| {
        if !function.inner().is::<ForeignAggregateUDF>() {
            return Ok(false);
        }
        let own = session.aggregate_functions().get(function.name());
        put(function, own, |function, text| {
            codec.try_encode_udaf(function, text)
        })
    };
    let changed = match &mut node {
        Expr::ScalarFunction(call) if call.func.inner().is::<ForeignScalarUDF>() => {
            let own = session.scalar_functions().get(call.func.name());
            put(&mut call.func, own, |function, text| {
                codec.try_encode_udf(function, text)
            })?
        }
        Expr::AggregateFunction(call) => aggregate(&mut call.func)?,
        Expr::WindowFunction(call) => match &mut call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => aggregate(function)?,
            WindowFunctionDefinition::WindowUDF(function) if function.inner().is::<ForeignWindowUDF>() => {
                let own = session.window_functions().get(function.name());
                put(function, own, |function, text| {
                    codec.try_encode_udwf(function, text)
                })?
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

/// Puts an own function in place of one that is encoded without a text.
fn put<T>(
    function: &mut Arc<T>,
    own: Option<&Arc<T>>,
    encode: impl FnOnce(&T, &mut Vec<u8>) -> Result<()>,
) -> Result<bool> {
    let mut text = Vec::new();
    encode(function, &mut text)?;
    let Some(own) = own.filter(|_| text.is_empty()) else {
        return Ok(false);
    };
    *function = Arc::clone(own);
    Ok(true)
}
