//! [`Expressions`]: the list of a SELECT, planned once, and evaluated over any rows of its relations.
//!
//! ```text
//!   SELECT a + $1, upper(b) FROM "\u{1}t" AS t ─► plan_ast ─► the top projection's expressions, parameters as columns ─► physical expressions
//!                                                              rows of t, parameters ─────────────────────────────────────────┘─► columns
//! ```
//!
//! For CHECK, RETURNING, DEFAULT and ON CONFLICT, whose rows are in no table yet. What it is not: a query; subqueries in such expressions are
//! refused.

use super::select::statement;
use crate::session::{ClientSession, refusal_of_datafusion};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use corun_datafusion::store::ROW_NUMBER;
use corun_wire::error::{Refusal, code};
use corun_wire::values::Type;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Select, With};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// See [`self`].
pub(super) struct Expressions {
    context: SessionContext,
    /// Types are as they are when it runs.
    expressions: Vec<Expr>,
    /// Columns of the relations, then the parameters that are asked for.
    input: DFSchemaRef,
    /// How many columns the relations have.
    relations: usize,
    /// Positions of the parameters that are asked for, and their types.
    asked: Vec<(usize, FieldRef)>,
    parameters: Vec<Type>,
    output: SchemaRef,
    /// Of expressions that always say the same of the same row.
    physical: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl std::fmt::Debug for Expressions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expressions")
            .field("expressions", &self.expressions)
            .finish_non_exhaustive()
    }
}

impl Expressions {
    /// Plans a SELECT list; `FROM` has the relations whose rows are given when it is evaluated. `*` stands for no row number.
    ///
    /// # Errors
    /// Whatever is wrong with it; subqueries, aggregates and window functions.
    pub(super) async fn plan(
        session: &ClientSession,
        select: Select,
        parameters: &[Type],
        text: &str,
    ) -> Result<Expressions, Refusal> {
        Self::plan_with(session, None, select, parameters, text).await
    }

    /// The same with the queries of a `WITH`.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn plan_with(
        session: &ClientSession,
        with: Option<With>,
        select: Select,
        parameters: &[Type],
        text: &str,
    ) -> Result<Expressions, Refusal> {
        let types: Vec<u32> = parameters.iter().map(|of| of.oid()).collect();
        let planned = session.plan_ast(statement(with, select), &types, text).await?;
        let context = session.context.clone();
        let made = catch_unwind(AssertUnwindSafe(|| {
            Self::of_plan(context, &planned.plan, planned.parameters)
        }));
        match made {
            Ok(made) => made.map_err(|error| told(error, text)),
            Err(_) => Err(panicked()),
        }
    }

    fn of_plan(
        context: SessionContext,
        plan: &LogicalPlan,
        parameters: Vec<Type>,
    ) -> Result<Expressions, Failure> {
        let LogicalPlan::Projection(projection) = plan else {
            return Err(Failure::Told(not_here()));
        };
        match projection.input.as_ref() {
            LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Values(_) => {}
            LogicalPlan::Window(_) => {
                let what = "window functions are not allowed here";
                return Err(Failure::Told(Refusal::new("42P20", what)));
            }
            LogicalPlan::Aggregate(_) => {
                let what = "aggregate functions are not allowed here";
                return Err(Failure::Told(Refusal::new("42803", what)));
            }
            _ => return Err(Failure::Told(not_here())),
        }
        let relations = projection.input.schema();
        let mut asked: BTreeMap<usize, FieldRef> = BTreeMap::new();
        let mut bound = Vec::new();
        for (expression, (_, field)) in projection.expr.iter().zip(plan.schema().iter()) {
            if field.name() == ROW_NUMBER && matches!(expression, Expr::Column(_)) {
                continue;
            }
            check(expression)?;
            let expression = expression
                .clone()
                .transform(|of| as_column(of, &mut asked))
                .data()?;
            bound.push((expression, Arc::clone(field)));
        }
        let mut fields: Vec<(Option<TableReference>, FieldRef)> = relations
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
            .collect();
        let asked: Vec<(usize, FieldRef)> = asked.into_iter().collect();
        fields.extend(asked.iter().map(|(_, field)| (None, Arc::clone(field))));
        let input = Arc::new(DFSchema::new_with_metadata(fields, HashMap::new())?);
        let (simplifier, _) = simplifier(&context.state_ref().read(), &input);
        let (mut expressions, mut outputs) = (Vec::new(), Vec::new());
        for (expression, field) in bound {
            let typed = simplifier.coerce(expression, &input)?;
            let (_, of) = typed.to_field(&input)?;
            outputs.push(
                Field::clone(&field)
                    .with_data_type(of.data_type().clone())
                    .with_nullable(true),
            );
            expressions.push(typed);
        }
        let mut made = Expressions {
            relations: relations.fields().len(),
            expressions,
            input,
            asked,
            parameters,
            output: Arc::new(Schema::new(outputs)),
            physical: None,
            context,
        };
        if made.expressions.iter().all(is_immutable) {
            made.physical = Some(made.physical()?);
        }
        Ok(made)
    }

    /// The types of the statement's parameters, as far as its expressions tell.
    pub(super) fn parameters(&self) -> &[Type] {
        &self.parameters
    }

    /// Names and types of what [`Expressions::evaluate`] gives.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.output
    }

    /// The columns of the relations, in order, each with its relation's name.
    pub(super) fn relations(&self) -> impl Iterator<Item = (Option<&TableReference>, &FieldRef)> {
        self.input.iter().take(self.relations)
    }

    /// Whether a column of the relations is asked for.
    pub(super) fn asks_for(&self, at: usize) -> bool {
        let (qualifier, field) = self.input.qualified_field(at);
        let is_it = |of: &Expr| {
            Ok(matches!(of, Expr::Column(column)
                if column.name == *field.name() && (column.relation.is_none() || column.relation.as_ref() == qualifier)))
        };
        self.expressions
            .iter()
            .any(|expression| expression.exists(is_it).unwrap_or(true))
    }

    /// Evaluates them over rows with the columns of the relations, in order: one column for each item of the list.
    ///
    /// # Errors
    /// What speaks against a value, such as a division by zero.
    pub(super) fn evaluate(
        &self,
        rows: &RecordBatch,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        self.evaluate_columns(rows.columns(), rows.num_rows(), parameters)
    }

    /// The same over columns, so many rows of them. Those that nobody asks for may be of any type.
    ///
    /// # Errors
    /// As there.
    pub(super) fn evaluate_columns(
        &self,
        rows: &[ArrayRef],
        count: usize,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.evaluated(rows, count, parameters)));
        match evaluated {
            Ok(evaluated) => evaluated.map_err(|error| refusal_of_datafusion(&error, "")),
            Err(_) => Err(panicked()),
        }
    }

    fn evaluated(
        &self,
        rows: &[ArrayRef],
        count: usize,
        parameters: &[ScalarValue],
    ) -> DataFusionResult<RecordBatch> {
        let made;
        let physical = match &self.physical {
            Some(physical) => physical,
            None => {
                made = self.physical()?;
                &made
            }
        };
        let mut columns: Vec<ArrayRef> = rows.iter().take(self.relations).cloned().collect();
        for (at, field) in &self.asked {
            let value = parameters.get(*at).cloned().unwrap_or(ScalarValue::Null);
            let value = match value.data_type() == *field.data_type() {
                true => value,
                false => value.cast_to(field.data_type())?,
            };
            columns.push(value.to_array_of_size(count)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let fields: Vec<Field> = self
            .input
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
            .collect();
        let input = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for (expression, field) in physical.iter().zip(self.output.fields()) {
            let column = expression.evaluate(&input)?.into_array(count)?;
            fields.push(Field::clone(field).with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        Ok(RecordBatch::try_new_with_options(
            Arc::new(Schema::new(fields)),
            columns,
            &options,
        )?)
    }

    fn physical(&self) -> DataFusionResult<Vec<Arc<dyn PhysicalExpr>>> {
        let (simplifier, properties) = simplifier(&self.context.state_ref().read(), &self.input);
        let physical = self.expressions.iter().map(|expression| {
            let simple = simplifier.simplify(expression.clone())?;
            create_physical_expr(
                &simple,
                &self.input,
                &properties,
                &PhysicalPlanningContext::default(),
            )
        });
        physical.collect()
    }
}

enum Failure {
    Told(Refusal),
    Planning(DataFusionError),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::Planning(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Told(refusal)
    }
}

fn told(failure: Failure, text: &str) -> Refusal {
    match failure {
        Failure::Told(refusal) => refusal,
        Failure::Planning(error) => refusal_of_datafusion(&error, text),
    }
}

fn panicked() -> Refusal {
    Refusal::new(code::INTERNAL_ERROR, "an expression cannot be evaluated")
}

fn not_here() -> Refusal {
    Refusal::new(
        code::NOT_SUPPORTED,
        "only expressions of the row are supported here",
    )
}

fn simplifier(state: &SessionState, input: &DFSchemaRef) -> (ExprSimplifier, ExecutionProps) {
    let options = state.config_options();
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(input))
        .with_config_options(Arc::clone(options))
        .with_current_time()
        .build();
    let properties = ExecutionProps {
        query_execution_start_time: context.query_execution_start_time(),
        config_options: Some(Arc::clone(options)),
        ..ExecutionProps::new()
    };
    (ExprSimplifier::new(context), properties)
}

/// Refuses what needs more than the row.
fn check(expression: &Expr) -> Result<(), Refusal> {
    let needs_more = expression.exists(|of| {
        Ok(matches!(
            of,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Unnest(_)
        ))
    });
    match needs_more {
        Ok(false) => Ok(()),
        _ => Err(Refusal::new(
            code::NOT_SUPPORTED,
            "subqueries and functions that return sets are not supported here",
        )
        .hint("Ask for them by a statement of its own, or put the subquery where rows are chosen.")),
    }
}

/// A parameter as a column of the input.
fn as_column(of: Expr, asked: &mut BTreeMap<usize, FieldRef>) -> DataFusionResult<Transformed<Expr>> {
    let Expr::Placeholder(placeholder) = &of else {
        return Ok(Transformed::no(of));
    };
    let number = placeholder
        .id
        .strip_prefix('$')
        .and_then(|id| id.parse::<usize>().ok());
    let Some(at) = number.and_then(|number| number.checked_sub(1)) else {
        return Ok(Transformed::no(of));
    };
    let name = format!("\u{1}${}", at + 1);
    let data_type = placeholder
        .field
        .as_ref()
        .map_or(arrow::datatypes::DataType::Utf8, |field| {
            field.data_type().clone()
        });
    asked
        .entry(at)
        .or_insert_with(|| Arc::new(Field::new(&name, data_type, true)));
    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
}

/// Whether an expression says the same of a row whenever it is asked, whatever the session's settings are.
fn is_immutable(expression: &Expr) -> bool {
    let changes = expression.exists(|of| {
        Ok(match of {
            Expr::ScalarFunction(function) => function.func.signature().volatility != Volatility::Immutable,
            Expr::HigherOrderFunction(_) | Expr::ScalarVariable(..) => true,
            _ => false,
        })
    });
    changes.is_ok_and(|changes| !changes)
}
