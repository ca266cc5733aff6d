//! [`compile`]: from a plan to a [`Short`], if the plan is a look-up by a key or a short range of an index.
//!
//! ```text
//!   [Limit] ─ [Sort] ─ Projection ─ [Aggregate] ─ [Filter] ─ [SubqueryAlias] ─ TableScan of a store's table        in any order that means the same
//!      ▼         ▼          ▼            ▼            ▼
//!    rows   index order  outputs      totals       equality on all columns of a unique index, or on the first of any, and a range of the next
//!           or sorted                              the rest: a condition on the row
//! ```
//!
//! Every expression is rewritten over one schema: `c0`, `c1`, ... are the table's columns, `p0`, ... the parameters, so that nothing has to be
//! planned when parameters are known. What it is not: an optimizer. What is not of this shape goes the usual way.

use super::expression::{Expression, Input, Source};
use super::key;
use super::totals::{Total, is_known};
use super::{Access, Short, Span};
use arrow::datatypes::{DataType, Field, FieldRef};
use corun_datafusion::store::StoreTable;
use corun_store::{Direction, Index, Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, Cast, Sort as SortExpr};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Nodes of a plan that is looked at.
const DEPTH_MAX: usize = 16;
/// Parts of an expression.
const NODES_MAX: usize = 200;

/// The short way to the rows of a plan; `None`: there is none. Parameters are placeholders; `types` are those of the values that they get, as far
/// as these are known: others than were declared, where a number has fewer digits.
pub(crate) fn compile(plan: &LogicalPlan, types: &[DataType], state: &SessionState) -> Option<Short> {
    // Functions of constants are evaluated, and may panic.
    catch_unwind(AssertUnwindSafe(|| compiled(plan, types, state)))
        .ok()
        .flatten()
}

fn compiled(plan: &LogicalPlan, types: &[DataType], state: &SessionState) -> Option<Short> {
    // Types are made equal, as they are in any plan that runs.
    let plan = retyped(plan.clone(), types).ok()?;
    let analyzed = state
        .analyzer()
        .execute_and_check(plan, state.config_options(), |_, _| {})
        .ok()?;
    let mut scope = Scope::default();
    let peeled = peel(&analyzed, &mut scope, 0)?;
    Compiler::new(scope, &peeled.totals, state)?.compile(peeled)
}

/// The plan with parameters of these types.
fn retyped(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    if types.is_empty() {
        return Ok(plan);
    }
    let retype = |of: Expr| {
        of.transform_up(|of| {
            let Expr::Placeholder(mut of) = of else {
                return Ok(Transformed::no(of));
            };
            let number = parameter(&of.id).and_then(|at| types.get(at));
            if let Some(data_type) = number {
                of.field = Some(Arc::new(Field::new("", data_type.clone(), true)));
            }
            Ok(Transformed::yes(Expr::Placeholder(of)))
        })
    };
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(retype)?
            .map_data(LogicalPlan::recompute_schema)
    })
    .data()
}

/// The position of a parameter by its name.
fn parameter(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// What expressions are over.
#[derive(Default)]
struct Scope {
    columns: Vec<FieldRef>,
    parameters: BTreeMap<usize, DataType>,
    table: Option<StoreTable>,
}

/// A plan without its nodes.
struct Peeled {
    outputs: Vec<Expr>,
    filters: Vec<Expr>,
    /// Outputs are made of these, if there are any.
    totals: Vec<AggregateFunction>,
    sort: Vec<SortExpr>,
    /// Rows that are skipped, and those that are wanted.
    limit: Option<(Option<Expr>, Option<Expr>)>,
}

fn column(at: usize) -> Expr {
    Expr::Column(Column::new_unqualified(format!("c{at}")))
}

fn peel(plan: &LogicalPlan, scope: &mut Scope, depth: usize) -> Option<Peeled> {
    if depth > DEPTH_MAX {
        return None;
    }
    let below = |plan: &LogicalPlan, scope: &mut Scope| peel(plan, scope, depth + 1);
    match plan {
        LogicalPlan::TableScan(scan) => {
            if !scan.filters.is_empty() || scan.fetch.is_some() {
                return None;
            }
            let provider = source_as_provider(&scan.source).ok()?;
            scope.table = Some(provider.downcast_ref::<StoreTable>()?.clone());
            scope.columns = scan.source.schema().fields().iter().map(Arc::clone).collect();
            let outputs = match &scan.projection {
                Some(columns) => columns.iter().copied().map(column).collect(),
                None => (0..scope.columns.len()).map(column).collect(),
            };
            Some(Peeled {
                outputs,
                filters: Vec::new(),
                totals: Vec::new(),
                sort: Vec::new(),
                limit: None,
            })
        }
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, scope),
        LogicalPlan::Filter(filter) => {
            let mut peeled = below(&filter.input, scope)?;
            let of = rewrite(&filter.predicate, filter.input.schema(), &peeled.outputs, scope)?;
            peeled.filters.push(of);
            (peeled.limit.is_none() && peeled.totals.is_empty()).then_some(peeled)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut peeled = below(&aggregate.input, scope)?;
            let rows = peeled.totals.is_empty() && peeled.limit.is_none();
            if !aggregate.group_expr.is_empty() || !rows {
                return None;
            }
            let schema = aggregate.input.schema();
            for of in &aggregate.aggr_expr {
                let mut of = aggregate_of(of).filter(|of| is_known(of))?.clone();
                let arguments = of.params.args.iter();
                let arguments = arguments.map(|of| rewrite(of, schema, &peeled.outputs, scope));
                of.params.args = arguments.collect::<Option<_>>()?;
                peeled.totals.push(of);
            }
            peeled.sort.clear();
            let totals = 0..peeled.totals.len();
            peeled.outputs = totals
                .map(|at| Expr::Column(Column::new_unqualified(format!("t{at}"))))
                .collect();
            Some(peeled)
        }
        LogicalPlan::Projection(projection) => {
            let mut peeled = below(&projection.input, scope)?;
            let schema = projection.input.schema();
            let outputs = projection.expr.iter();
            let outputs = outputs.map(|of| rewrite(of, schema, &peeled.outputs, scope));
            peeled.outputs = outputs.collect::<Option<_>>()?;
            Some(peeled)
        }
        LogicalPlan::Sort(sort) => {
            let mut peeled = below(&sort.input, scope)?;
            if peeled.limit.is_some() || !peeled.sort.is_empty() || sort.fetch.is_some() {
                return None;
            }
            if !peeled.totals.is_empty() {
                // There is one row.
                return Some(peeled);
            }
            for by in &sort.expr {
                let expr = rewrite(&by.expr, sort.input.schema(), &peeled.outputs, scope)?;
                peeled.sort.push(SortExpr { expr, ..by.clone() });
            }
            Some(peeled)
        }
        LogicalPlan::Limit(limit) => {
            let mut peeled = below(&limit.input, scope)?;
            let schema = limit.input.schema();
            let rewritten = |of: &Option<Box<Expr>>, scope: &mut Scope| match of {
                None => Some(None),
                Some(of) => rewrite(of, schema, &[], scope).map(Some),
            };
            let rows = (rewritten(&limit.skip, scope)?, rewritten(&limit.fetch, scope)?);
            if peeled.limit.is_some() || !peeled.totals.is_empty() {
                return None;
            }
            peeled.limit = Some(rows);
            Some(peeled)
        }
        _ => None,
    }
}

fn aggregate_of(of: &Expr) -> Option<&AggregateFunction> {
    match of {
        Expr::AggregateFunction(of) => Some(of),
        Expr::Alias(alias) => aggregate_of(&alias.expr),
        _ => None,
    }
}

/// An expression over the table's columns and parameters; `None`: it needs something else.
fn rewrite(of: &Expr, schema: &DFSchema, outputs: &[Expr], scope: &mut Scope) -> Option<Expr> {
    let mut refused = false;
    let rewritten = of.clone().transform_up(|of| {
        Ok(match of {
            Expr::Column(column) => {
                let found = schema.index_of_column(&column).ok();
                match found.and_then(|at| outputs.get(at)) {
                    Some(output) => Transformed::yes(output.clone()),
                    None => {
                        refused = true;
                        Transformed::no(Expr::Column(column))
                    }
                }
            }
            Expr::Placeholder(of) => {
                let at = parameter(&of.id);
                match (at, &of.field) {
                    (Some(at), Some(field)) => {
                        let before = scope.parameters.insert(at, field.data_type().clone());
                        refused |= before.is_some_and(|before| before != *field.data_type());
                        Transformed::yes(Expr::Column(Column::new_unqualified(format!("p{at}"))))
                    }
                    _ => {
                        refused = true;
                        Transformed::no(Expr::Placeholder(of))
                    }
                }
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            of => {
                refused |= !is_plain(&of);
                Transformed::no(of)
            }
        })
    });
    let rewritten = rewritten.data().ok().filter(|_| !refused)?;
    // Event loops have small stacks, and expressions are evaluated from within themselves.
    let mut nodes = 0;
    let counted = rewritten.apply(|_| {
        nodes += 1;
        Ok(match nodes > NODES_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    (counted.is_ok() && nodes <= NODES_MAX).then_some(rewritten)
}

/// Whether an expression says the same whenever it is evaluated, and needs nothing but its arguments.
fn is_plain(of: &Expr) -> bool {
    match of {
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => true,
        _ => false,
    }
}

/// A condition of the filter, and whether an index has answered it.
struct Condition {
    of: Expr,
    answered: bool,
}

/// What a comparison says about a column: `column op operand`, the operand without a column.
struct Compared {
    column: usize,
    operator: Operator,
    operand: Expr,
}

struct Compiler {
    table: StoreTable,
    stored: Vec<Type>,
    columns: Vec<FieldRef>,
    parameters: BTreeMap<usize, DataType>,
    /// Where totals stand behind the parameters.
    totals_at: usize,
    schema: Arc<DFSchema>,
    simplifier: ExprSimplifier,
    properties: ExecutionProps,
}

impl Compiler {
    fn new(scope: Scope, totals: &[AggregateFunction], state: &SessionState) -> Option<Compiler> {
        let table = scope.table?;
        let definition = table.table().definition();
        let stored: Vec<Type> = definition.columns.iter().map(|column| column.data_type).collect();
        // One more column is the row's number.
        if scope.columns.len() < stored.len() || scope.columns.len() > stored.len() + 1 {
            return None;
        }
        let columns = scope.columns.iter().enumerate();
        let columns = columns.map(|(at, field)| Field::clone(field).with_name(format!("c{at}")));
        let parameters = scope.parameters.iter();
        let parameters = parameters.map(|(at, of)| Field::new(format!("p{at}"), of.clone(), true));
        let mut fields: Vec<Field> = columns.chain(parameters).collect();
        let over =
            |fields: &[Field]| DFSchema::from_unqualified_fields(fields.to_vec().into(), HashMap::new());
        if !totals.is_empty() {
            let of_rows = over(&fields).ok()?;
            for (at, total) in totals.iter().enumerate() {
                let of = Expr::AggregateFunction(total.clone()).get_type(&of_rows).ok()?;
                fields.push(Field::new(format!("t{at}"), of, true));
            }
        }
        let schema = Arc::new(over(&fields).ok()?);
        let options = state.config_options();
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&schema))
            .with_config_options(Arc::clone(options))
            .with_current_time()
            .build();
        let properties = ExecutionProps {
            config_options: Some(Arc::clone(options)),
            ..ExecutionProps::new()
        };
        Some(Compiler {
            table,
            stored,
            columns: scope.columns,
            totals_at: scope.parameters.keys().next_back().map_or(0, |last| last + 1),
            parameters: scope.parameters,
            schema,
            simplifier: ExprSimplifier::new(context),
            properties,
        })
    }

    fn compile(self, peeled: Peeled) -> Option<Short> {
        let mut conditions = Vec::new();
        for filter in peeled.filters {
            let simple = self.simplifier.simplify(filter).ok()?;
            let parts = split_conjunction_owned(simple).into_iter().flat_map(between);
            conditions.extend(parts.map(|of| Condition { of, answered: false }));
        }
        let access = self.key(&mut conditions);
        // One row needs no order.
        let (access, sort) = match access {
            Some(key) => (key, Vec::new()),
            None => match self.span(&mut conditions, &peeled.sort) {
                Some(ordered) => (ordered, Vec::new()),
                None => (self.span(&mut conditions, &[])?, peeled.sort),
            },
        };
        let rest = conditions.into_iter().filter(|condition| !condition.answered);
        let residual = match conjunction(rest.map(|condition| condition.of)) {
            None => None,
            Some(of) => Some(self.expression(&of)?),
        };
        let outputs = peeled.outputs.into_iter();
        let outputs = outputs.map(|of| {
            let data_type = of.get_type(self.schema.as_ref()).ok()?;
            Some((self.source(self.simplifier.simplify(of).ok()?)?, data_type))
        });
        let outputs = outputs.collect::<Option<Vec<_>>>()?;
        let sort = sort.into_iter().map(|by| {
            let of = by.expr.get_type(self.schema.as_ref()).ok()?;
            let source = self.source(self.simplifier.simplify(by.expr).ok()?)?;
            Some((source, of, by.asc, by.nulls_first))
        });
        let sort = sort.collect::<Option<Vec<_>>>()?;
        let totals = peeled.totals.into_iter().map(|mut total| {
            let arguments = std::mem::take(&mut total.params.args).into_iter().map(|of| {
                let data_type = of.get_type(self.schema.as_ref()).ok()?;
                Some((self.source(self.simplifier.simplify(of).ok()?)?, data_type))
            });
            Total::plan(&total, arguments.collect::<Option<_>>()?).ok()
        });
        let totals = totals.collect::<Option<Vec<_>>>()?;
        let (skip, fetch) = peeled.limit.unwrap_or_default();
        let rows = |of: Option<Expr>| match of {
            None => Some(None),
            Some(of) => self.operand(of).map(Some),
        };
        Some(Short {
            table: self.table.table().clone(),
            store: self.table.store().clone(),
            access,
            residual,
            outputs,
            sort,
            totals,
            totals_at: self.totals_at,
            skip: rows(skip)?,
            fetch: rows(fetch)?,
            types: self
                .columns
                .iter()
                .map(|field| field.data_type().clone())
                .collect(),
            parameters: self.parameters.into_iter().collect(),
        })
    }

    /// Equality on all columns of a unique index.
    fn key(&self, conditions: &mut [Condition]) -> Option<Access> {
        let indexes = self.table.table().indexes();
        indexes.into_iter().filter(Index::is_unique).find_map(|index| {
            let found = self.equalities(index.columns(), conditions);
            if found.len() < index.columns().len() || found.is_empty() {
                return None;
            }
            let key = self.answer(found, conditions)?;
            Some(Access::Key { index, key })
        })
    }

    /// For each of the first columns that are bound to a value: the number of the condition, and the value.
    fn equalities(&self, columns: &[usize], conditions: &[Condition]) -> Vec<(usize, Compared)> {
        let bound = columns.iter().map(|column| {
            conditions.iter().enumerate().find_map(|(at, condition)| {
                let compared = self.compared(&condition.of)?;
                let is_it = compared.column == *column && compared.operator == Operator::Eq;
                is_it.then_some((at, compared))
            })
        });
        bound.map_while(|found| found).collect()
    }

    /// The operands of conditions that an index answers.
    fn answer(
        &self,
        found: Vec<(usize, Compared)>,
        conditions: &mut [Condition],
    ) -> Option<Vec<(Source, Type)>> {
        let operands = found.into_iter().map(|(at, compared)| {
            let stored = self.stored[compared.column];
            // Blanks at the end count for SQL, and do not for the index.
            conditions[at].answered = !matches!(stored, Type::FixedText { .. });
            Some((self.operand(compared.operand)?, stored))
        });
        operands.collect()
    }

    /// A range of an index, in whose order the rows are wanted.
    fn span(&self, conditions: &mut [Condition], sort: &[SortExpr]) -> Option<Access> {
        let mut best: Option<(usize, Index)> = None;
        for index in self.table.table().indexes() {
            let bound = self.equalities(index.columns(), conditions).len();
            let next = index.columns().get(bound).copied();
            let bounded = next.is_some_and(|next| !self.bounds(next, conditions).is_empty());
            let useful = bound > 0 || bounded;
            if !useful || self.order(&index, bound, bounded, sort).is_none() {
                continue;
            }
            let score = 2 * bound + usize::from(bounded);
            if best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, index));
            }
        }
        let (_, index) = best?;
        let found = self.equalities(index.columns(), conditions);
        let bound = found.len();
        let next = index.columns().get(bound).copied();
        let bounds = next.map(|next| self.bounds(next, conditions)).unwrap_or_default();
        let direction = self.order(&index, bound, !bounds.is_empty(), sort)?;
        let prefix = self.answer(found, conditions)?;
        let mut span = Span {
            prefix,
            next: next.map(|next| self.stored[next]),
            low: None,
            high: None,
            direction,
        };
        for (at, compared) in bounds {
            let included = matches!(compared.operator, Operator::GtEq | Operator::LtEq);
            let place = match compared.operator {
                Operator::Gt | Operator::GtEq => &mut span.low,
                _ => &mut span.high,
            };
            // A second bound on the same side is looked at row by row.
            if place.is_none() {
                *place = Some((self.operand(compared.operand)?, included));
                conditions[at].answered = true;
            }
        }
        Some(Access::Span {
            index,
            span: Box::new(span),
        })
    }

    /// The bounds on a column: the numbers of the conditions, and what they say.
    fn bounds(&self, column: usize, conditions: &[Condition]) -> Vec<(usize, Compared)> {
        let found = conditions.iter().enumerate().filter_map(|(at, condition)| {
            let compared = self.compared(&condition.of)?;
            let of = compared.operand.get_type(self.schema.as_ref()).ok()?;
            let stored = self.stored[column];
            // A bound that is cut to the column's digits is another one.
            let exact = match (&of, stored) {
                (DataType::Decimal128(_, scale), Type::Decimal { scale: kept, .. }) => {
                    i8::try_from(kept).ok() >= Some(*scale)
                }
                (DataType::Decimal128(..), _) => false,
                _ => true,
            };
            let is_bound = matches!(
                compared.operator,
                Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq
            );
            let useful = compared.column == column && is_bound && exact && key::sorts_as_index(&of, stored);
            useful.then_some((at, compared))
        });
        found.collect()
    }

    /// The direction in which an index has the rows in the wanted order, behind `bound` columns of one value each; `None`: in none.
    fn order(&self, index: &Index, bound: usize, bounded: bool, sort: &[SortExpr]) -> Option<Direction> {
        let mut rest = index.columns()[bound..].iter();
        let fixed = &index.columns()[..bound];
        let mut direction = None;
        for by in sort {
            let Expr::Column(of) = &by.expr else {
                return None;
            };
            let Input::Column(at) = self.input(&of.name)? else {
                return None;
            };
            if fixed.contains(&at) {
                continue;
            }
            let is_first = direction.is_none() && bounded;
            if rest.next() != Some(&at) || !key::sorts_as_index(self.columns[at].data_type(), self.stored[at])
            {
                return None;
            }
            // An index has NULL before all values; a column with a bound has none.
            let nulls_first_in_index = by.asc;
            if self.columns[at].is_nullable() && !is_first && by.nulls_first != nulls_first_in_index {
                return None;
            }
            let wanted = match by.asc {
                true => Direction::Ascending,
                false => Direction::Descending,
            };
            if direction.is_some_and(|known| known != wanted) {
                return None;
            }
            direction = Some(wanted);
        }
        Some(direction.unwrap_or(Direction::Ascending))
    }

    /// What a condition says about one column.
    fn compared(&self, of: &Expr) -> Option<Compared> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = of else {
            return None;
        };
        let one = |side: &Expr, operator: Operator, operand: &Expr| {
            let column = self.bare_column(side)?;
            let of = operand.get_type(self.schema.as_ref()).ok()?;
            let stored = *self.stored.get(column)?;
            let fits = self.is_of_parameters(operand) && key::equals_as_index(&of, stored);
            fits.then(|| Compared {
                column,
                operator,
                operand: operand.clone(),
            })
        };
        one(left, *op, right).or_else(|| one(right, op.swap()?, left))
    }

    /// The column that an expression is, perhaps under casts that keep its values.
    fn bare_column(&self, of: &Expr) -> Option<usize> {
        match of {
            Expr::Column(column) => match self.input(&column.name)? {
                Input::Column(at) => {
                    let is_known = key::equals_as_index(self.columns[at].data_type(), self.stored[at]);
                    is_known.then_some(at)
                }
                _ => None,
            },
            Expr::Cast(Cast { expr, field }) => {
                let from = expr.get_type(self.schema.as_ref()).ok()?;
                let at = self.bare_column(expr)?;
                key::keeps_values(&from, field.data_type()).then_some(at)
            }
            _ => None,
        }
    }

    fn is_of_parameters(&self, of: &Expr) -> bool {
        let columns = of.column_refs();
        columns
            .iter()
            .all(|column| matches!(self.input(&column.name), Some(Input::Parameter(_))))
    }

    /// Which of the names of [`Self::schema`] one is.
    fn input(&self, name: &str) -> Option<Input> {
        let (kind, at) = name.split_at_checked(1)?;
        let at = at.parse::<usize>().ok()?;
        match kind {
            "p" => Some(Input::Parameter(at)),
            "t" => Some(Input::Parameter(self.totals_at + at)),
            _ if at < self.stored.len() => Some(Input::Column(at)),
            _ => Some(Input::RowNumber),
        }
    }

    /// A value that needs no row.
    fn operand(&self, of: Expr) -> Option<Source> {
        match self.is_of_parameters(&of) {
            true => self.source(self.simplifier.simplify(of).ok()?),
            false => None,
        }
    }

    fn source(&self, of: Expr) -> Option<Source> {
        Some(match of {
            Expr::Literal(value, _) => Source::Constant(value),
            Expr::Column(of) => match self.input(&of.name)? {
                Input::Parameter(at) => Source::Parameter(at),
                Input::RowNumber => Source::RowNumber,
                Input::Column(at) => {
                    let known = key::reads(self.stored[at], self.columns[at].data_type());
                    known.then_some(Source::Column(at))?
                }
            },
            of => Source::Computed(self.expression(&of)?),
        })
    }

    fn expression(&self, of: &Expr) -> Option<Expression> {
        let mut names: Vec<&str> = of.column_refs().iter().map(|column| column.name()).collect();
        names.sort_unstable();
        let inputs: Vec<Input> = names.iter().map(|name| self.input(name)).collect::<Option<_>>()?;
        let readable = inputs.iter().all(|input| match input {
            Input::Column(at) => key::reads(self.stored[*at], self.columns[*at].data_type()),
            _ => true,
        });
        if !readable {
            return None;
        }
        let fields = names.iter().map(|name| {
            let at = self.schema.index_of_column_by_name(None, name)?;
            Some(Field::clone(self.schema.field(at)))
        });
        let fields: Vec<Field> = fields.collect::<Option<_>>()?;
        let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new()).ok()?;
        Expression::plan(of, inputs, &schema, &self.properties).ok()
    }
}

/// `BETWEEN` as two comparisons.
fn between(of: Expr) -> Vec<Expr> {
    match of {
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => vec![expr.as_ref().clone().gt_eq(*low), expr.lt_eq(*high)],
        of => vec![of],
    }
}
