//! The SELECT of a statement that writes: which rows it finds, and what becomes of them.
//!
//! ```text
//!   UPDATE t SET a = a + 1 FROM s WHERE ..  ─►  SELECT t."\u{1}rid", t.a + 1 FROM "\u{1}t" AS t, s WHERE ..
//! ```
//!
//! What a client wrote keeps its place in the client's text, so that errors point there. Order of calls: [`Target::of`], [`Target::assignments`]
//! for `SET`, [`select`] and [`query`] for the statement. What it is not: the planner; `session::plan_ast` plans what is built here.

use super::insert::Literal;
use super::{Column, ColumnDefault, Identity, TableInfo, wrong_type};
use crate::catalog::folded;
use crate::define::AGGREGATES;
use crate::session::{ClientSession, Zone, refusal_of_datafusion};
use crate::users::WriteRight;
use corun_datafusion::store::ROW_NUMBER;
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::{Kind, Type};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectFlavor,
    SelectItem, SetExpr, Spanned, Statement, TableAlias, TableFactor, TableWithJoins, Value, Visit, VisitMut,
    Visitor, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The table that a statement writes, and what the statement calls it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) info: Arc<TableInfo>,
    pub(super) alias: Ident,
    /// Whether the statement gives the alias itself: then it does not know the table by its own name.
    renamed: bool,
}

/// A column that a statement gives a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Its position in the table.
    pub(super) column: usize,
    pub(super) to: Source,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The item of the SELECT list with this position.
    Item(usize),
    /// The column's default, which is a constant or NULL.
    Default,
}

impl Target {
    /// The table of `UPDATE`, `DELETE` or `MERGE`; the user must be allowed to write to it.
    ///
    /// # Errors
    /// It is no table of the store; rights.
    pub(super) fn of(
        session: &ClientSession,
        factor: &TableFactor,
        right: WriteRight,
    ) -> Result<Target, Refusal> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return Err(Refusal::new(
                code::SYNTAX_ERROR,
                format!("rows of a table can be changed only, not of {factor}"),
            ));
        };
        let info = session.table_info(name)?;
        session.check_may_write(right, &info)?;
        if let Some(alias) = alias
            && !alias.columns.is_empty()
        {
            let what = "names of columns behind the alias of the table that is changed are not supported";
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
        Ok(Target::named(info, name, alias.as_ref()))
    }

    /// The same for a table that is known.
    pub(super) fn named(info: Arc<TableInfo>, name: &ObjectName, alias: Option<&TableAlias>) -> Target {
        let renamed = alias.is_some();
        let alias = match alias {
            Some(alias) => alias.name.clone(),
            None => Ident::with_quote_and_span('"', name.span(), &info.name),
        };
        Target { info, alias, renamed }
    }

    /// What the statement calls the table.
    pub(super) fn name(&self) -> String {
        folded(&self.alias)
    }

    /// The table with its row numbers, for FROM.
    pub(super) fn relation(&self) -> TableFactor {
        numbered(&self.info, self.alias.clone())
    }

    /// The row number.
    pub(super) fn rid(&self) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), Ident::with_quote('"', ROW_NUMBER)])
    }

    /// The position of a column that `SET` or a list of columns names.
    ///
    /// # Errors
    /// 42703.
    pub(super) fn position(&self, name: &ObjectName, text: &str) -> Result<usize, Refusal> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
        let missing = |column: &str, of: &Ident| {
            let what = format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                self.info.name
            );
            at(Refusal::new("42703", what), text, of)
        };
        match parts.as_slice() {
            [column] if name.0.len() == 1 => {
                let position = self.info.column(&folded(column));
                position.ok_or_else(|| missing(&folded(column), column))
            }
            [table, ..] => {
                let refusal = missing(&folded(table), table);
                let is_target = folded(table) == self.name();
                Err(match is_target {
                    true => refusal.hint("SET target columns cannot be qualified with the relation name."),
                    false => refusal,
                })
            }
            [] => Err(Refusal::new(code::SYNTAX_ERROR, "a name of a column is expected")),
        }
    }

    /// What `SET` says; expressions go to the end of the SELECT list.
    ///
    /// # Errors
    /// Columns that are not there, or twice; values that are too few or too many.
    pub(super) fn assignments(
        &self,
        set: &[Assignment],
        items: &mut Vec<SelectItem>,
        text: &str,
    ) -> Result<Vec<Assigned>, Refusal> {
        let mut assigned: Vec<Assigned> = Vec::new();
        let mut add = |name: &ObjectName, value: &Expr| {
            let column = self.position(name, text)?;
            if assigned.iter().any(|known| known.column == column) {
                let name = &self.info.columns[column].name;
                let what = format!("multiple assignments to same column \"{name}\"");
                return Err(Refusal::new(code::SYNTAX_ERROR, what));
            }
            let to = self.source(column, value, items)?;
            assigned.push(Assigned { column, to });
            Ok(())
        };
        for Assignment { target, value } in set {
            match target {
                AssignmentTarget::ColumnName(name) => add(name, value)?,
                AssignmentTarget::Tuple(names) => {
                    let values = row(value, names.len()).ok_or_else(|| {
                        let what = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                        Refusal::new(code::NOT_SUPPORTED, what)
                    })?;
                    if names.len() != values.len() {
                        let what = "number of columns does not match number of values";
                        return Err(Refusal::new(code::SYNTAX_ERROR, what));
                    }
                    for (name, value) in names.iter().zip(&values) {
                        add(name, value)?;
                    }
                }
            }
        }
        Ok(assigned)
    }

    /// Where the value of a column comes from; an expression goes to the end of the SELECT list.
    ///
    /// # Errors
    /// An identity that is always generated; a default that is no SQL.
    pub(super) fn source(
        &self,
        column: usize,
        value: &Expr,
        items: &mut Vec<SelectItem>,
    ) -> Result<Source, Refusal> {
        let of = &self.info.columns[column];
        let expression = match is_default(value) {
            true => match &of.default {
                ColumnDefault::None | ColumnDefault::Constant(_) => return Ok(Source::Default),
                ColumnDefault::Expression(text) => parsed(text)?,
            },
            false if of.identity == Some(Identity::Always) => {
                let what = format!("column \"{}\" can only be updated to DEFAULT", of.name);
                let detail = format!(
                    "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                    of.name
                );
                return Err(Refusal::new("428C9", what).detail(detail));
            }
            false => self.typed(column, value.clone()),
        };
        Ok(Source::Item(push(items, expression)))
    }

    /// A value for a column: a parameter has the column's type, and so has NULL.
    pub(super) fn typed(&self, column: usize, value: Expr) -> Expr {
        match (
            is_placeholder(&value),
            declared_type(self.info.columns[column].declared.of),
        ) {
            (true, Some(data_type)) => Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(value),
                data_type,
                array: false,
                format: None,
            },
            _ => value,
        }
    }

    /// The kinds of the items of a SELECT list, as those who assign them want them: bytes and texts that are to be UUIDs or JSON are such.
    pub(super) fn kinds(&self, columns: &[ResultColumn], assigned: &[Assigned]) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = columns.iter().map(|column| column.of.kind).collect();
        for assigned in assigned {
            if let Source::Item(at) = assigned.to
                && let Some(kind) = kinds.get_mut(at)
                && !matches!(kind, Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Inet)
            {
                *kind = self.info.columns[assigned.column].declared.of.kind;
            }
        }
        kinds
    }

    /// Whether the columns take what they are assigned, as PostgreSQL's assignment casts do: types, and constants with their values.
    ///
    /// # Errors
    /// 42804; whatever is wrong with a constant.
    pub(super) fn check_types(
        &self,
        columns: &[ResultColumn],
        items: &[SelectItem],
        assigned: &[Assigned],
        of: (Zone, &str),
    ) -> Result<(), Refusal> {
        let mut wrong = None;
        for assigned in assigned {
            let Source::Item(at) = assigned.to else {
                continue;
            };
            if let (Some(from), Some(SelectItem::ExprWithAlias { expr, .. })) =
                (columns.get(at), items.get(at))
            {
                let to = &self.info.columns[assigned.column];
                wrong = wrong.or(check_assigned(to, expr, from.of, of)?);
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// `schema.t.a` as `t.a`: the table has an alias in what is planned.
    pub(super) fn unqualify(&self, of: &mut impl VisitMut) {
        if !self.renamed {
            _ = VisitMut::visit(of, &mut Unqualified(self));
        }
    }
}

struct Unqualified<'t>(&'t Target);

impl VisitorMut for Unqualified<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = of
            && let [schema, table, _] = parts.as_slice()
            && folded(schema) == self.0.info.schema
            && folded(table) == self.0.info.name
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// A table with its row numbers, for FROM.
pub(super) fn numbered(info: &TableInfo, alias: Ident) -> TableFactor {
    let marked = format!("{}{}", crate::data::WITH_ROW_NUMBERS, info.name);
    let name = [info.schema.as_str(), marked.as_str()];
    TableFactor::Table {
        name: ObjectName::from(name.map(|part| Ident::with_quote('"', part)).to_vec()),
        alias: Some(TableAlias {
            explicit: true,
            name: alias,
            columns: Vec::new(),
            at: None,
        }),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// A relation without joins.
pub(super) fn alone(relation: TableFactor) -> TableWithJoins {
    TableWithJoins {
        relation,
        joins: Vec::new(),
    }
}

/// Adds an expression to a SELECT list, under a name that nothing else has; returns its position.
pub(super) fn push(items: &mut Vec<SelectItem>, expr: Expr) -> usize {
    let at = items.len();
    let alias = Ident::with_quote('"', format!("\u{1}{at}"));
    items.push(SelectItem::ExprWithAlias { expr, alias });
    at
}

/// A SELECT of these.
pub(super) fn select(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// A query that is this SELECT.
pub(super) fn query(with: Option<With>, select: Select) -> Query {
    Query {
        with,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// A statement that is this SELECT.
pub(super) fn statement(with: Option<With>, select: Select) -> Statement {
    Statement::Query(Box::new(query(with, select)))
}

/// An expression of a definition.
///
/// # Errors
/// It is none.
pub(super) fn parsed(text: &str) -> Result<Expr, Refusal> {
    let parsed = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| refusal_of_datafusion(&error.into(), ""))
}

/// The word `DEFAULT`.
pub(super) fn is_default(of: &Expr) -> bool {
    matches!(of, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Whether a column takes an expression of a type; what is returned is wrong, too, but told when all else is known to be right.
///
/// # Errors
/// As [`Target::check_types`].
pub(super) fn check_assigned(
    to: &Column,
    expr: &Expr,
    from: Type,
    of: (Zone, &str),
) -> Result<Option<Refusal>, Refusal> {
    match Literal::of(to, expr, of)? {
        Literal::Wrong(refusal) => return Ok(Some(refusal)),
        Literal::None if !is_unknown(expr) => check_type(to, from)?,
        _ => {}
    }
    Ok(None)
}

/// # Errors
/// 42804: the column takes no expressions of such a type.
pub(super) fn check_type(to: &Column, from: Type) -> Result<(), Refusal> {
    match takes(to.declared.of, from) {
        true => Ok(()),
        false => Err(wrong_type(to, from)),
    }
}

/// A literal whose type is what it is needed for.
fn is_unknown(of: &Expr) -> bool {
    match of {
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::Null
                | Value::Placeholder(_)
        ),
        Expr::Nested(inner) => is_unknown(inner),
        _ => false,
    }
}

/// Whether PostgreSQL casts from one type to the other where a value is assigned. What it is told of is only what would be wrong for sure:
/// expressions may have another type here than there.
fn takes(to: Type, from: Type) -> bool {
    let class = |of: Type| match of.kind {
        _ if of.array => 0,
        Kind::Bool => 1,
        Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Oid | Kind::Float4 | Kind::Float8 | Kind::Numeric => 2,
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name => 3,
        Kind::Date | Kind::Timestamp | Kind::Timestamptz => 4,
        _ => 0,
    };
    match (class(to), class(from)) {
        (0 | 3, _) | (_, 0) => true,
        (to, from) => to == from,
    }
}

/// A parameter and nothing else.
pub(super) fn is_placeholder(of: &Expr) -> bool {
    match of {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Nested(inner) => is_placeholder(inner),
        _ => false,
    }
}

/// The expressions of `(a, b)` or `ROW(a, b)`; of a sub-SELECT of so many columns one sub-SELECT for each.
fn row(of: &Expr, columns: usize) -> Option<Vec<Expr>> {
    match of {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Nested(value) => Some(vec![value.as_ref().clone()]),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            values.collect()
        }
        Expr::Subquery(query) => {
            let one = |at: usize| {
                let mut query = query.clone();
                let SetExpr::Select(select) = query.body.as_mut() else {
                    return None;
                };
                let plain = |item: &SelectItem| {
                    matches!(
                        item,
                        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                    )
                };
                if select.projection.len() != columns
                    || select.distinct.is_some()
                    || !select.projection.iter().all(plain)
                {
                    return None;
                }
                // Beside an aggregate, what is none says nothing of how many rows there are.
                let aggregates: Vec<bool> = select.projection.iter().map(has_aggregate).collect();
                if !aggregates[at] && aggregates.contains(&true) {
                    return Some(Expr::Subquery(Box::new(column_of(query.as_ref().clone(), at))));
                }
                select.projection = vec![select.projection.swap_remove(at)];
                Some(Expr::Subquery(query))
            };
            (0..columns).map(one).collect()
        }
        _ => None,
    }
}

/// Whether an item calls an aggregate function.
fn has_aggregate(item: &SelectItem) -> bool {
    struct Calls(bool);
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = of
                && let Some(name) = function.name.0.last().and_then(ObjectNamePart::as_ident)
                && function.over.is_none()
            {
                self.0 |= AGGREGATES.contains(&folded(name).as_str());
            }
            ControlFlow::Continue(())
        }
    }
    let mut calls = Calls(false);
    _ = item.visit(&mut calls);
    calls.0
}

/// One column of a query.
fn column_of(mut inner: Query, at: usize) -> Query {
    if let SetExpr::Select(select) = inner.body.as_mut() {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                push(&mut select.projection, expr);
            }
        }
    }
    let from = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(inner),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', "\u{1}row"),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    let column = Expr::Identifier(Ident::with_quote('"', format!("\u{1}{at}")));
    let mut items = Vec::new();
    push(&mut items, column);
    query(None, select(items, vec![alone(from)], None))
}

/// The type that parameters for a column of this type are cast to; `None`: values come as texts.
fn declared_type(of: Type) -> Option<SqlType> {
    let name = match of.kind {
        Kind::Bool => "boolean",
        Kind::Int2 => "smallint",
        Kind::Int4 => "integer",
        Kind::Int8 | Kind::Oid => "bigint",
        Kind::Float4 => "real",
        Kind::Float8 => "double precision",
        Kind::Numeric => "numeric",
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name => "text",
        Kind::Bytea => "bytea",
        Kind::Date => "date",
        Kind::Time => "time",
        Kind::Timestamp => "timestamp",
        Kind::Timestamptz => "timestamptz",
        Kind::Interval => "interval",
        Kind::Uuid => "uuid",
        Kind::Json => "json",
        Kind::Jsonb => "jsonb",
        Kind::Inet => "inet",
        _ => return None,
    };
    if of.array {
        return None;
    }
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(name);
    parsed.and_then(|mut parser| parser.parse_data_type()).ok()
}

/// The refusal, at the place of a name.
pub(super) fn at(refusal: Refusal, text: &str, name: &Ident) -> Refusal {
    let start = name.span.start;
    match text.is_empty() || start.line == 0 {
        true => refusal,
        false => refusal.at(text, crate::session::byte_of(text, start)),
    }
}
