//! Statements around a statement that writes or locks: `WITH ... UPDATE`, queries with `FOR UPDATE` within other statements, as queues of jobs
//! have them (`UPDATE job SET .. WHERE id = (SELECT id FROM job .. LIMIT 1 FOR UPDATE SKIP LOCKED)`), and statements that write in a `WITH`.
//!
//! Such a part runs first, on its own; its rows then stand in its place as constants. It cannot depend on the statement around it, and that
//! cannot read what the part has written: for PostgreSQL all of it reads one moment.

use super::select::query as query_of;
use super::{Change, Changed, PreparedChange, delete, insert, lock, merge, prepare, update};
use crate::session::{ClientSession, cells_as, names, plain_columns};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::{Format, Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, FromTable, Ident, Parens, Query, SelectItem,
    SetExpr, Statement, TableAlias, TableFactor, TableObject, Value, ValueWithSpan, Values, Visit, VisitMut,
    Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Rows that a query within may lock.
const ROWS_MAX: usize = 10_000;

/// Such queries within one statement.
const QUERIES_MAX: usize = 100;

/// A statement with queries within that write or lock rows.
#[derive(Debug)]
pub(crate) struct Nested {
    statement: Statement,
    parameters: Vec<Type>,
    text: String,
}

/// Whether a query writes or locks.
pub(crate) fn changes(query: &Query) -> bool {
    writes(query) || !query.locks.is_empty() || first_of(query, true).is_some()
}

fn writes(query: &Query) -> bool {
    matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
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
        SetExpr::Update(Statement::Update(inner)) => update::prepare(session, with, inner, types, text).await,
        SetExpr::Delete(Statement::Delete(inner)) => delete::prepare(session, with, inner, types, text).await,
        SetExpr::Merge(Statement::Merge(inner)) => merge::prepare(session, with, inner, types, text).await,
        SetExpr::Insert(Statement::Insert(inner)) => insert::prepare(session, with, inner, types, text).await,
        _ => lock::prepare(session, of, types, text).await,
    }
}

/// Plans a statement with queries within that write or lock; `None`: there are none.
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
    let (mut without, mut types, mut left) = (statement.clone(), types.to_vec(), QUERIES_MAX);
    while let Some(query) = first_of(&without, is_query) {
        left = one_less(left)?;
        let part = Box::pin(prepare_query(session, &query, &types, text)).await?;
        learn(&mut types, &query, &part.parameters);
        let columns = part.columns.unwrap_or_default();
        replace(&mut without, is_query, constants(session, &columns, &[])?);
        if let Some(target) = target(&query)
            && Reads::is_read(&without, &target)
        {
            let what = format!("a statement cannot read the table \"{target}\" that its WITH changes");
            let hint = "Change it by a statement of its own.";
            return Err(Refusal::new(code::NOT_SUPPORTED, what).hint(hint));
        }
    }
    let prepared = Box::pin(prepare(session, &without, &types, text)).await?;
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
            left = one_less(left)?;
            let part = Box::pin(prepare_query(session, &query, &types, &self.text)).await?;
            let columns = part.columns.clone().unwrap_or_default();
            let done = Box::pin(part.run(session, parameters)).await?;
            let rows = constants(session, &columns, &done.returned.unwrap_or_default())?;
            replace(&mut statement, is_query, rows);
        }
        let prepared = Box::pin(prepare(session, &statement, &types, &self.text)).await?;
        Box::pin(prepared.run(session, parameters)).await
    }
}

fn one_less(left: usize) -> Result<usize, Refusal> {
    let what = "too many queries within a statement write or lock rows";
    left.checked_sub(1)
        .ok_or_else(|| Refusal::new(code::PROGRAM_LIMIT, what))
}

/// Takes on the types of the parameters that a part has.
fn learn(types: &mut Vec<u32>, part: &Query, known: &[Type]) {
    struct Numbers(Vec<usize>);
    impl Visitor for Numbers {
        type Break = ();
        fn pre_visit_value(&mut self, of: &ValueWithSpan) -> ControlFlow<()> {
            if let Value::Placeholder(name) = &of.value
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            {
                self.0.push(number);
            }
            ControlFlow::Continue(())
        }
    }
    let mut numbers = Numbers(Vec::new());
    _ = part.visit(&mut numbers);
    for at in numbers.0.into_iter().filter_map(|number| number.checked_sub(1)) {
        let Some(of) = known.get(at) else {
            continue;
        };
        if types.len() <= at {
            types.resize(at + 1, 0);
        }
        if types[at] == 0 {
            types[at] = of.oid();
        }
    }
}

/// The name of the table that a query writes.
fn target(query: &Query) -> Option<String> {
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => Some(name.clone()),
        _ => None,
    };
    let name = match query.body.as_ref() {
        SetExpr::Update(Statement::Update(of)) => of_factor(&of.table.relation)?,
        SetExpr::Delete(Statement::Delete(of)) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &of.from;
            of_factor(&from.first()?.relation)?
        }
        SetExpr::Merge(Statement::Merge(of)) => of_factor(&of.table)?,
        SetExpr::Insert(Statement::Insert(of)) => match &of.table {
            TableObject::TableName(name) => name.clone(),
            _ => return None,
        },
        _ => return None,
    };
    names(&name).ok().map(|(_, name)| name)
}

/// Whether a statement reads a table of a name.
struct Reads<'n>(&'n str);

impl Reads<'_> {
    fn is_read(statement: &Statement, name: &str) -> bool {
        statement.visit(&mut Reads(name)).is_break()
    }
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, of: &TableFactor) -> ControlFlow<()> {
        match of {
            TableFactor::Table { name, .. } if names(name).is_ok_and(|(_, name)| name == self.0) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Rows as a query that has no tables.
fn constants(
    session: &ClientSession,
    columns: &[ResultColumn],
    batches: &[RecordBatch],
) -> Result<Query, Refusal> {
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
    for batch in batches {
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
    let is_empty = rows.is_empty() || columns.is_empty();
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
    let mut items: Vec<SelectItem> = columns.iter().zip(types).enumerate().map(item).collect();
    if items.is_empty() {
        // Of a part without RETURNING, which nothing can name.
        super::select::push(&mut items, Expr::Value(Value::Null.into()));
    }
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

/// Whether a query runs before the statement that it is within.
fn is_part(query: &Query) -> bool {
    writes(query) || !query.locks.is_empty()
}

/// The first query that writes or locks and has none within; the outermost does not count where the statement is that query.
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
        match is_part(query) && !(self.is_query && self.depth == 0) {
            true => ControlFlow::Break(query.clone()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Puts a query into the place of the one that [`first_of`] finds.
struct Replace {
    depth: usize,
    is_query: bool,
    with: Option<Query>,
}

fn replace(statement: &mut Statement, is_query: bool, with: Query) {
    let mut replace = Replace {
        depth: 0,
        is_query,
        with: Some(with),
    };
    _ = VisitMut::visit(statement, &mut replace);
}

impl VisitorMut for Replace {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if !is_part(query) || self.is_query && self.depth == 0 {
            return ControlFlow::Continue(());
        }
        if let Some(with) = self.with.take() {
            *query = with;
        }
        ControlFlow::Break(())
    }
}
