//! Statements around a statement that writes or locks: `WITH ... UPDATE`, and queries with `FOR UPDATE` within other statements, as queues of
//! jobs have them (`UPDATE job SET .. WHERE id = (SELECT id FROM job .. FOR UPDATE SKIP LOCKED LIMIT 1)`).
//!
//! Such a query within runs first, on its own; its rows then stand in its place as constants. It cannot depend on the statement around it.

use super::select::query as query_of;
use super::{Change, Changed, PreparedChange, delete, insert, lock, merge, prepare, update};
use crate::session::{ClientSession, cells_as, plain_columns};
use arrow::datatypes::DataType;
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::{Format, Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, Ident, Parens, Query, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, Value, Values, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Rows that a query within may lock.
const ROWS_MAX: usize = 10_000;

/// Queries with locks within one statement.
const QUERIES_MAX: usize = 100;

/// A statement with queries within that lock rows.
#[derive(Debug)]
pub(crate) struct Nested {
    statement: Statement,
    parameters: Vec<Type>,
    text: String,
}

/// Whether a query writes or locks.
pub(crate) fn changes(query: &Query) -> bool {
    let writes = matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    );
    writes || !query.locks.is_empty() || first_of(query, true).is_some()
}

/// Plans a statement that begins with `WITH`, or a query that locks.
pub(super) async fn prepare_query(
    session: &ClientSession,
    of: &Query,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    let with = of.with.as_ref();
    match of.body.as_ref() {
        SetExpr::Update(Statement::Update(inner)) => {
            update::prepare_with(session, with, inner, types, text).await
        }
        SetExpr::Delete(Statement::Delete(inner)) => {
            delete::prepare_with(session, with, inner, types, text).await
        }
        SetExpr::Merge(Statement::Merge(inner)) => {
            merge::prepare_with(session, with, inner, types, text).await
        }
        SetExpr::Insert(Statement::Insert(inner)) => {
            // The queries belong to the one whose rows are inserted.
            let mut inner = inner.clone();
            if let (Some(source), Some(with)) = (&mut inner.source, with) {
                match &mut source.with {
                    None => source.with = Some(with.clone()),
                    Some(own) => {
                        own.recursive |= with.recursive;
                        own.cte_tables.splice(0..0, with.cte_tables.iter().cloned());
                    }
                }
            }
            insert::prepare(session, &inner, types, text).await
        }
        _ => lock::prepare(session, of, types, text).await,
    }
}

/// Plans a statement with queries within that lock; `None`: there are none.
pub(super) async fn prepare_nested(
    session: &ClientSession,
    statement: &Statement,
    types: &[u32],
    text: &str,
) -> Result<Option<PreparedChange>, Refusal> {
    let is_query = matches!(statement, Statement::Query(_));
    if first_of(statement, is_query).is_none() {
        return Ok(None);
    }
    let mut without = statement.clone();
    _ = VisitMut::visit(
        &mut without,
        &mut WithoutLocks {
            depth: 0,
            keeps_outermost: is_query,
        },
    );
    let prepared = Box::pin(prepare(session, &without, types, text)).await?;
    Ok(Some(PreparedChange {
        parameters: prepared.parameters.clone(),
        columns: prepared.columns,
        change: Change::Nested(Nested {
            statement: statement.clone(),
            parameters: prepared.parameters,
            text: text.to_owned(),
        }),
    }))
}

impl Nested {
    /// Runs it.
    pub(super) async fn run(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Changed, Refusal> {
        let types: Vec<u32> = self.parameters.iter().map(|of| of.oid()).collect();
        let mut statement = self.statement.clone();
        let is_query = matches!(statement, Statement::Query(_));
        let mut left = QUERIES_MAX;
        while let Some(query) = first_of(&statement, is_query) {
            left = left.checked_sub(1).ok_or_else(|| {
                Refusal::new(
                    code::PROGRAM_LIMIT,
                    "too many queries within a statement lock rows",
                )
            })?;
            let prepared = lock::prepare(session, &query, &types, &self.text).await?;
            let columns = prepared.columns.clone().unwrap_or_default();
            let locked = Box::pin(prepared.run(session, parameters)).await?;
            let mut constants = Some(constants(session, &columns, &locked)?);
            let mut replace = Replace {
                depth: 0,
                is_query,
                with: &mut constants,
            };
            _ = VisitMut::visit(&mut statement, &mut replace);
        }
        let prepared = Box::pin(prepare(session, &statement, &types, &self.text)).await?;
        Box::pin(prepared.run(session, parameters)).await
    }
}

/// Rows as a query that has no tables.
fn constants(session: &ClientSession, columns: &[ResultColumn], locked: &Changed) -> Result<Query, Refusal> {
    let zone = session.zone();
    let mut types: Vec<SqlType> = Vec::new();
    for column in columns {
        let named = super::Declared {
            of: column.of,
            length: None,
            precision: None,
        };
        let parsed = super::select::parsed(&format!("null::{named}"))?;
        types.push(match parsed {
            Expr::Cast { data_type, .. } => data_type,
            _ => SqlType::Text,
        });
    }
    let mut rows: Vec<Vec<Expr>> = Vec::new();
    for batch in locked.returned.iter().flatten() {
        let arrays = plain_columns(batch)?;
        for (at, array) in arrays.iter().enumerate() {
            if let (DataType::Decimal128(precision, scale), Some(of)) = (array.data_type(), types.get_mut(at))
            {
                let digits = ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale));
                *of = SqlType::Numeric(digits);
            }
        }
        let cells: Vec<_> = arrays
            .iter()
            .zip(columns)
            .map(|(array, column)| cells_as(array.as_ref(), column.of.kind))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            if rows.len() == ROWS_MAX {
                let what = format!("a query within a statement locks more than {ROWS_MAX} rows");
                return Err(Refusal::new(code::PROGRAM_LIMIT, what));
            }
            let mut values = Vec::new();
            for cell in &cells {
                let value = cell(row)?.map(|value| {
                    let mut text = Vec::new();
                    value.write(&mut text, Format::Text, &zone);
                    Value::SingleQuotedString(String::from_utf8_lossy(&text).into_owned())
                });
                values.push(Expr::Value(value.unwrap_or(Value::Null).into()));
            }
            rows.push(values);
        }
    }
    let is_empty = rows.is_empty();
    let item = |(at, (column, data_type)): (usize, (&ResultColumn, SqlType))| SelectItem::ExprWithAlias {
        expr: Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(match is_empty {
                true => Expr::Value(Value::Null.into()),
                false => Expr::Identifier(Ident::with_quote('"', format!("column{}", at + 1))),
            }),
            data_type,
            array: false,
            format: None,
        },
        alias: Ident::with_quote('"', &column.name),
    };
    let items = columns.iter().zip(types).enumerate().map(item).collect();
    if is_empty {
        let never = Expr::Value(Value::Boolean(false).into());
        return Ok(query_of(
            None,
            super::select::select(items, Vec::new(), Some(never)),
        ));
    }
    let row = |content: Vec<Expr>| Parens {
        opening_token: AttachedToken::empty(),
        content,
        closing_token: AttachedToken::empty(),
    };
    let mut values = query_of(None, super::select::select(Vec::new(), Vec::new(), None));
    values.body = Box::new(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: rows.into_iter().map(row).collect(),
    }));
    let from = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(values),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', "\u{1}locked"),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    let select = super::select::select(items, vec![super::select::alone(from)], None);
    Ok(query_of(None, select))
}

/// The first query with locks that has none within; the outermost does not count where the statement is that query.
fn first_of(of: &impl Visit, is_query: bool) -> Option<Query> {
    let mut first = First { depth: 0, is_query };
    match of.visit(&mut first) {
        ControlFlow::Break(query) => Some(query),
        ControlFlow::Continue(()) => None,
    }
}

struct First {
    depth: usize,
    is_query: bool,
}

impl Visitor for First {
    type Break = Query;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Query> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<Query> {
        self.depth -= 1;
        match query.locks.is_empty() || self.is_query && self.depth == 0 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(query.clone()),
        }
    }
}

/// Puts a query into the place of the one that [`first_of`] finds.
struct Replace<'q> {
    depth: usize,
    is_query: bool,
    with: &'q mut Option<Query>,
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if query.locks.is_empty() || self.is_query && self.depth == 0 {
            return ControlFlow::Continue(());
        }
        if let Some(with) = self.with.take() {
            *query = with;
        }
        ControlFlow::Break(())
    }
}

/// Takes the locks of queries within away.
struct WithoutLocks {
    depth: usize,
    keeps_outermost: bool,
}

impl VisitorMut for WithoutLocks {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth > 0 || !self.keeps_outermost {
            query.locks.clear();
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
