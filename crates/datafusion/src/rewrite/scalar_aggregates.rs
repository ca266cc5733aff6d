//! Aggregates without groups over one table, under different conditions, read the table once.
//!
//! ```text
//! (select avg(x) from t where k < 5)      =>   the first column of   select avg(x) filter (where k < 5), count(*) filter (where k > 7)
//! (select count(*) from t where k > 7)    =>   the second            from t where k < 5 or k > 7
//! ```
//!
//! The statement then has one aggregate in several places, which [`crate::share`] runs once. Scalar sub-queries and derived tables stay
//! where they are.

use super::conditions::may_fail;
use super::is_plain;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, disjunction, expr_to_columns, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan,
    TableScanBuilder,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The plan with one aggregate in the place of those that read the same table; `None` if there are none.
pub(super) fn together(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut all: Vec<Scalars> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && let Some(scalars) = Scalars::of(aggregate)?
            && !all.contains(&scalars)
        {
            all.push(scalars);
        }
        Ok(below(node))
    })?;
    let mut merged = Vec::new();
    for group in groups(all) {
        merged.extend(Merged::of(group)?);
    }
    if merged.is_empty() {
        return Ok(None);
    }
    let plan = plan.clone().transform_down_with_subqueries(|node| {
        let rows = match &node {
            LogicalPlan::Aggregate(aggregate) => part_of(&merged, aggregate)?,
            _ => None,
        };
        Ok(match rows {
            Some(rows) => Transformed::new(rows, true, TreeNodeRecursion::Jump),
            None => {
                let below = below(&node);
                Transformed::new(node, false, below)
            }
        })
    });
    plan.data().map(Some)
}

/// Parts of a recursive query run more than once; they are not shared.
fn below(node: &LogicalPlan) -> TreeNodeRecursion {
    match node {
        LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
        _ => TreeNodeRecursion::Continue,
    }
}

/// The columns of the merged aggregate that are those of `aggregate`, if it is part of one.
fn part_of(merged: &[Merged], aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some(scalars) = Scalars::of(aggregate)? else {
        return Ok(None);
    };
    for all in merged {
        if let Some(place) = all.parts.iter().position(|part| *part == scalars) {
            return all.columns_of(place, &aggregate.schema);
        }
    }
    Ok(None)
}

/// Rows of a table under conditions.
struct Rows<'a> {
    scan: &'a TableScan,
    /// All hold for each row; over the columns of the table.
    conditions: Vec<Expr>,
    /// What each column is, over the columns of the table.
    columns: Vec<Expr>,
}

impl<'a> Rows<'a> {
    /// What `plan` reads, if it is nothing but conditions and other names for columns over a table.
    fn of(plan: &'a LogicalPlan) -> Result<Option<Self>> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let columns = scan.projected_schema.columns();
                let whole = scan.fetch.is_none() && scan.statistics_requests.is_empty();
                Ok(whole.then(|| Rows {
                    scan,
                    conditions: Vec::new(),
                    columns: columns.into_iter().map(Expr::Column).collect(),
                }))
            }
            LogicalPlan::SubqueryAlias(alias) => Rows::of(&alias.input),
            LogicalPlan::Filter(filter) => {
                let Some(mut rows) = Rows::of(&filter.input)? else {
                    return Ok(None);
                };
                for condition in split_conjunction(&filter.predicate) {
                    let condition = rows.over_table(condition, filter.input.schema())?;
                    if !rows.conditions.contains(&condition) {
                        rows.conditions.push(condition);
                    }
                }
                Ok(Some(rows))
            }
            LogicalPlan::Projection(projection) => {
                let Some(rows) = Rows::of(&projection.input)? else {
                    return Ok(None);
                };
                let schema = projection.input.schema();
                let columns = projection.expr.iter().map(|expr| rows.over_table(expr, schema));
                let columns = columns.collect::<Result<_>>()?;
                Ok(Some(Rows { columns, ..rows }))
            }
            _ => Ok(None),
        }
    }

    /// An expression over these rows, which have this schema, as one over the table.
    fn over_table(&self, expr: &Expr, schema: &DFSchema) -> Result<Expr> {
        let replaced = expr.clone().transform_up(|part| {
            let Expr::Column(column) = &part else {
                return Ok(Transformed::no(part));
            };
            match schema.maybe_index_of_column(column) {
                Some(index) => Ok(Transformed::yes(self.columns[index].clone())),
                None => internal_err!("{column} is not a column of what an aggregate reads"),
            }
        });
        Ok(replaced.data()?.unalias())
    }
}

/// What an aggregate without groups computes from a table.
struct Scalars {
    scan: TableScan,
    /// Filters of the scan that no filter above repeats.
    applied: Vec<Expr>,
    conditions: Vec<Expr>,
    functions: Vec<AggregateFunction>,
    /// The columns of the table in all of these.
    columns: HashSet<Column>,
    /// Whether a condition might fail for rows that others keep away from it.
    may_fail: bool,
}

impl PartialEq for Scalars {
    fn eq(&self, other: &Self) -> bool {
        self.same_rows(other) && self.conditions == other.conditions && self.functions == other.functions
    }
}

impl Scalars {
    /// `None` for what has to run by itself.
    fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        if !aggregate.group_expr.is_empty() || aggregate.aggr_expr.is_empty() {
            return Ok(None);
        }
        let Some(rows) = Rows::of(&aggregate.input)? else {
            return Ok(None);
        };
        let mut functions = Vec::with_capacity(aggregate.aggr_expr.len());
        let mut columns = HashSet::new();
        for expr in &aggregate.aggr_expr {
            let expr = rows.over_table(expr, aggregate.input.schema())?;
            expr_to_columns(&expr, &mut columns)?;
            match expr {
                Expr::AggregateFunction(function) if is_plain_function(&function)? => {
                    functions.push(function);
                }
                _ => return Ok(None),
            }
        }
        for condition in &rows.conditions {
            expr_to_columns(condition, &mut columns)?;
            if !is_plain(condition)? {
                return Ok(None);
            }
        }
        let filters = functions
            .iter()
            .filter_map(|function| function.params.filter.as_deref());
        let mut asked = rows.conditions.iter().chain(filters);
        let may_fail = asked.any(|condition| may_fail(condition, &rows.scan.projected_schema));
        let applied = rows.scan.filters.iter();
        let applied = applied.filter(|filter| !rows.conditions.contains(filter));
        let scalars = Scalars {
            scan: rows.scan.clone(),
            applied: applied.cloned().collect(),
            conditions: rows.conditions,
            functions,
            columns,
            may_fail,
        };
        Ok((!scalars.may_be_known()).then_some(scalars))
    }

    /// Whether statistics of the table may tell the values without reading it.
    fn may_be_known(&self) -> bool {
        let known = |function: &AggregateFunction| {
            let params = &function.params;
            matches!(function.func.name(), "count" | "min" | "max")
                && !params.distinct
                && params.filter.is_none()
                && params
                    .args
                    .iter()
                    .all(|arg| matches!(arg, Expr::Column(_) | Expr::Literal(..)))
        };
        self.conditions.is_empty() && self.functions.iter().all(known)
    }

    /// Whether both read the same rows but for their conditions.
    fn same_rows(&self, other: &Self) -> bool {
        self.scan.table_name == other.scan.table_name
            && same_table(&self.scan, &other.scan)
            && self.applied == other.applied
    }

    /// Whether one aggregate may compute both. What might fail is asked of the same rows as before.
    fn fits(&self, other: &Self) -> bool {
        let same_conditions = || self.conditions == other.conditions;
        self.same_rows(other)
            && self.may_fail == other.may_fail
            && (!self.may_fail || same_conditions())
            && !self.columns.is_disjoint(&other.columns)
    }

    /// Its conditions without the `common` ones.
    fn rest(&self, common: &[Expr]) -> Option<Expr> {
        let rest = self.conditions.iter();
        conjunction(rest.filter(|condition| !common.contains(condition)).cloned())
    }
}

fn same_table(one: &TableScan, other: &TableScan) -> bool {
    if Arc::ptr_eq(&one.source, &other.source) {
        return true;
    }
    match (source_as_provider(&one.source), source_as_provider(&other.source)) {
        (Ok(one), Ok(other)) => Arc::ptr_eq(&one, &other),
        _ => false,
    }
}

/// Whether a function may be computed beside others: it asks for no order of the rows, and its expressions are plain.
fn is_plain_function(function: &AggregateFunction) -> Result<bool> {
    let params = &function.params;
    if !params.order_by.is_empty() {
        return Ok(false);
    }
    for expr in params.args.iter().chain(params.filter.as_deref()) {
        if !is_plain(expr)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Groups of those that read the same table and share a column with the first of their group: without one, nothing is read twice.
fn groups(all: Vec<Scalars>) -> Vec<Vec<Scalars>> {
    let mut groups: Vec<Vec<Scalars>> = Vec::new();
    for scalars in all {
        let fits = |group: &&mut Vec<Scalars>| group[0].fits(&scalars);
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(scalars),
            None => groups.push(vec![scalars]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// One aggregate that computes what several do.
struct Merged {
    parts: Vec<Scalars>,
    /// Conditions that all of them have: the functions need not ask for them.
    common: Vec<Expr>,
    functions: Vec<Expr>,
    plan: LogicalPlan,
}

impl Merged {
    /// `None` where they are better apart.
    fn of(parts: Vec<Scalars>) -> Result<Option<Self>> {
        let first = &parts[0];
        let is_common = |condition: &&Expr| parts.iter().all(|part| part.conditions.contains(condition));
        let common: Vec<Expr> = first.conditions.iter().filter(is_common).cloned().collect();
        let mut rests: Vec<Option<Expr>> = Vec::new();
        let mut functions: Vec<Expr> = Vec::new();
        for part in &parts {
            let rest = part.rest(&common);
            for function in &part.functions {
                let function = filtered(function, rest.as_ref());
                if !functions.contains(&function) {
                    functions.push(function);
                }
            }
            if !rests.contains(&rest) {
                rests.push(rest);
            }
        }
        let either = disjunction(rests.iter().flatten().cloned());
        if same_names(&functions) {
            return Ok(None);
        }
        // The table finds rows by the conditions of each: it has to be able to do so by all.
        let prunes = parts.iter().any(|part| !part.scan.filters.is_empty());
        if prunes
            && either
                .as_ref()
                .is_some_and(|either| !supports(&first.scan, either))
        {
            return Ok(None);
        }
        let mut conditions = common.clone();
        if rests.iter().all(Option::is_some) {
            conditions.extend(either);
        }
        let scan = scan(&parts, &conditions)?;
        let mut rows = LogicalPlanBuilder::from(LogicalPlan::TableScan(scan));
        if let Some(condition) = conjunction(conditions) {
            rows = rows.filter(condition)?;
        }
        let plan = Aggregate::try_new(Arc::new(rows.build()?), Vec::new(), functions.clone())?;
        Ok(Some(Merged {
            parts,
            common,
            functions,
            plan: LogicalPlan::Aggregate(plan),
        }))
    }

    /// What one of the parts gives, whose columns have the names of `schema`.
    fn columns_of(&self, part: usize, schema: &DFSchema) -> Result<Option<LogicalPlan>> {
        let part = &self.parts[part];
        let rest = part.rest(&self.common);
        let mut columns = Vec::with_capacity(part.functions.len());
        for (function, (qualifier, field)) in part.functions.iter().zip(schema.iter()) {
            let function = filtered(function, rest.as_ref());
            let Some(place) = self.functions.iter().position(|other| *other == function) else {
                return internal_err!("{function} is missing in a merged aggregate");
            };
            let column = Column::from(self.plan.schema().qualified_field(place));
            columns.push(Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
        }
        let plan = LogicalPlanBuilder::from(self.plan.clone())
            .project(columns)?
            .build()?;
        // Those above were planned for these columns.
        let same = plan.schema().fields() == schema.fields();
        Ok(same.then_some(plan))
    }
}

/// The function over the rows that it counts already and for which `condition` holds.
fn filtered(function: &AggregateFunction, condition: Option<&Expr>) -> Expr {
    let mut function = function.clone();
    let own = function.params.filter.take().map(|own| *own);
    function.params.filter = conjunction(condition.cloned().into_iter().chain(own)).map(Box::new);
    Expr::AggregateFunction(function)
}

/// Whether two functions have one name, as they may have that differ in a cast.
fn same_names(functions: &[Expr]) -> bool {
    let mut names = HashSet::new();
    !functions
        .iter()
        .all(|function| names.insert(function.schema_name().to_string()))
}

/// Whether the table makes use of a condition.
fn supports(scan: &TableScan, condition: &Expr) -> bool {
    let support = scan.source.supports_filters_pushdown(&[condition]);
    support.is_ok_and(|support| !support.contains(&TableProviderFilterPushDown::Unsupported))
}

/// A scan of all columns that the parts read. The table hears of the conditions it can make use of.
fn scan(parts: &[Scalars], conditions: &[Expr]) -> Result<TableScan> {
    let first = &parts[0];
    let fields = first.scan.source.schema();
    let is_read = |name: &String| {
        let mut columns = parts.iter().flat_map(|part| &part.columns);
        columns.any(|column| column.name == *name)
    };
    let projection = fields.fields().iter().enumerate();
    let projection = projection.filter(|(_, field)| is_read(field.name()));
    let mut filters = first.applied.clone();
    filters.extend(
        conditions
            .iter()
            .filter(|one| supports(&first.scan, one))
            .cloned(),
    );
    TableScanBuilder::new(first.scan.table_name.clone(), Arc::clone(&first.scan.source))
        .with_projection(Some(projection.map(|(index, _)| index).collect()))
        .with_filters(filters)
        .build()
}
