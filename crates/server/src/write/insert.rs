//! `INSERT`: rows of `VALUES`, of a query, or of defaults, into a table of the store.
//!
//! ```text
//!   VALUES of literals, parameters, defaults ─► rows (cells)          ─┐
//!   VALUES of anything else ─► a query without tables (plans) ─► rows ─┼─► columns' defaults (defaults) ─► written (writer)
//!   SELECT ─► read to its end ─► rows                                 ─┘
//! ```
//!
//! Order of calls: [`prepare`], then [`Insert::run`]. What it is not: `COPY` ([`super::copy`]), which has the defaults and the writer from here.

mod cells;
mod defaults;
mod overriding;
mod plans;
mod target;
mod unnested;
mod writer;

pub(crate) use cells::{Literal, check_width, moment};
pub(crate) use defaults::{DefaultValues, Defaults, Uses};
pub(crate) use overriding::without_overriding;
pub(crate) use target::{Filler, column_name, null_refused, position, positions, text_of};
pub(crate) use writer::{Deferred, Made, NewRows, Progress, TOGETHER, Writer};

use self::cells::{Evaluated, Values, decided, placeholder};
use self::overriding::{Overriding, overriding};
use self::plans::{add_types, known_types, parameters_in};
use super::checks::Checks;
use super::conflict::OnConflict;
use super::returning::Returning;
use super::select::{Target, alone, check_assigned};
use super::{Change, Changed, Identity, PreparedChange, TableInfo};
use crate::session::{Cells, ClientSession, cells_as, columns_of, plain_columns};
use crate::users::WriteRight;
use arrow::array::RecordBatch;
use corun_store::RowBuf;
use corun_wire::error::{Refusal, code};
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Expr, Insert as Clause, OnConflictAction, OnInsert, Parens, Query, SelectItem, SetExpr, Statement,
    TableAlias, TableObject, With,
};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of an `INSERT` that is short. Unmeasured.
const SHORT_ROWS_MAX: usize = 100;

/// An `INSERT`, planned.
#[derive(Debug)]
pub(crate) struct Insert {
    writer: Writer,
    source: Source,
    defaults: Defaults,
    parameters: Vec<Type>,
}

#[derive(Debug)]
enum Source {
    Values(Values),
    Query(Box<Rows>),
}

/// Rows of a query.
#[derive(Debug)]
struct Rows {
    plan: LogicalPlan,
    /// The places of its columns in the table; `None`: the values of one are not taken.
    columns: Vec<Option<usize>>,
    /// The first constant that its column does not take.
    wrong: Option<Refusal>,
}

/// Plans an `INSERT`, with the queries of a `WITH` before it. `types` are those that the client gives for the first parameters (0: none).
///
/// # Errors
/// Whatever is wrong with it.
pub(super) async fn prepare(
    session: &ClientSession,
    with: Option<&With>,
    of: &Clause,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    let TableObject::TableName(name) = &of.table else {
        let what = format!("rows can be inserted into a table only, not into {}", of.table);
        return Err(Refusal::new(code::SYNTAX_ERROR, what));
    };
    if of.overwrite || of.partitioned.is_some() || of.output.is_some() || !of.assignments.is_empty() {
        return Err(Refusal::new(code::SYNTAX_ERROR, "this form of INSERT is not SQL"));
    }
    let info = session.table_info(name)?;
    session.check_may_write(WriteRight::Insert, &info)?;
    let alias = of.table_alias.as_ref().map(|alias| TableAlias {
        explicit: true,
        name: alias.alias.clone(),
        columns: Vec::new(),
        at: None,
    });
    let target = Target::named(Arc::clone(&info), name, alias.as_ref());
    let overriding = overriding(text);
    let mut types = types.to_vec();
    let listed = of
        .columns
        .iter()
        .map(|name| column_name(&info, name))
        .collect::<Result<Vec<_>, _>>()?;
    let columns = positions(&info, listed.iter().copied())?;
    let ignored: Vec<usize> = match overriding {
        Some(Overriding::User) => (0..info.columns.len())
            .filter(|at| info.columns[*at].identity.is_some())
            .collect(),
        _ => Vec::new(),
    };
    let is_listed = !listed.is_empty();
    // The queries belong to the one whose rows are inserted.
    let query = of.source.as_deref().map(|query| match with {
        None => Cow::Borrowed(query),
        Some(with) => Cow::Owned(within(query.clone(), with)),
    });
    let source = match query.as_deref() {
        None => Source::Values(Values::of_defaults()),
        Some(query) => match rows_of(query, &info, &columns) {
            Some(rows) => {
                let rows = rows.as_ref();
                let columns = (columns.as_slice(), is_listed);
                Source::Values(Values::read(session, &info, columns, &ignored, rows, &mut types, text).await?)
            }
            None => {
                let rows = Rows::plan(
                    session, &info, query, &columns, is_listed, &ignored, &mut types, text,
                );
                Source::Query(Box::new(rows.await?))
            }
        },
    };
    let conflict = match &of.on {
        None => None,
        Some(OnInsert::OnConflict(clause)) => {
            let used = parameters_in(clause);
            if matches!(clause.action, OnConflictAction::DoUpdate(_)) {
                session.check_may_write(WriteRight::Update, &info)?;
            }
            let planned = OnConflict::plan(session, &target, clause, &known_types(&types), text).await?;
            add_types(&mut types, planned.parameters(), &used);
            Some(planned)
        }
        Some(_) => {
            let what = "ON DUPLICATE KEY UPDATE is not PostgreSQL's";
            return Err(Refusal::new(code::SYNTAX_ERROR, what).hint("Use ON CONFLICT ... DO UPDATE."));
        }
    };
    let returning = match &of.returning {
        None => None,
        Some(items) => {
            let mut items = items.clone();
            items.iter_mut().for_each(|item| target.unqualify(item));
            let used = parameters_in(&items);
            let from = vec![alone(target.relation())];
            let planned = Returning::plan(session, None, &items, from, &known_types(&types), text).await?;
            add_types(&mut types, planned.parameters(), &used);
            Some(planned)
        }
    };
    if overriding.is_none() {
        source.check_identities(&info)?;
    }
    source.check_constants()?;
    conflict.as_ref().map_or(Ok(()), OnConflict::check)?;
    let defaults = Defaults::plan(session, &info, source.defaults(&info)).await?;
    let parameters = decided(&types)?;
    let columns = returning.as_ref().map(Returning::columns);
    let checks = Checks::plan(session, &info).await?;
    let insert = Insert {
        writer: Writer {
            info,
            checks,
            conflict,
            returning,
        },
        source,
        defaults,
        parameters: parameters.clone(),
    };
    Ok(PreparedChange {
        change: Change::Insert(insert),
        parameters,
        columns,
    })
}

/// A query with those of a `WITH` before its own.
fn within(mut query: Query, with: &With) -> Query {
    match &mut query.with {
        None => query.with = Some(with.clone()),
        Some(own) => {
            own.recursive |= with.recursive;
            own.cte_tables.splice(0..0, with.cte_tables.iter().cloned());
        }
    }
    query
}

/// The rows of a query that is nothing but `VALUES`.
fn plain_rows(query: &Query) -> Option<&[Parens<Vec<Expr>>]> {
    match query.body.as_ref() {
        SetExpr::Values(values) if is_bare(query) => Some(&values.rows),
        _ => None,
    }
}

/// Whether a query is nothing but its body.
fn is_bare(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}

/// The rows of a query whose values all are written in it.
fn rows_of<'q>(
    query: &'q Query,
    info: &TableInfo,
    columns: &[usize],
) -> Option<Cow<'q, [Parens<Vec<Expr>>]>> {
    let rows = plain_rows(query).map(Cow::Borrowed);
    rows.or_else(|| unnested::rows(query, info, columns).map(Cow::Owned))
}

impl Source {
    /// # Errors
    /// A constant that its column does not take.
    fn check_constants(&self) -> Result<(), Refusal> {
        match self {
            Source::Values(values) => values.check_constants(),
            Source::Query(rows) => rows.wrong.clone().map_or(Ok(()), Err),
        }
    }

    /// An identity that is always generated takes no values.
    fn check_identities(&self, info: &TableInfo) -> Result<(), Refusal> {
        let always = |at: &usize| info.columns[*at].identity == Some(Identity::Always);
        let given = match self {
            Source::Values(values) => {
                let mut given = values.columns().iter().enumerate();
                given
                    .find(|(at, column)| always(column) && !values.is_default(*at))
                    .map(|(_, column)| *column)
            }
            Source::Query(rows) => rows.columns.iter().copied().flatten().find(always),
        };
        let Some(column) = given.and_then(|at| info.columns.get(at)) else {
            return Ok(());
        };
        let name = &column.name;
        Err(Refusal::new(
            "428C9",
            format!("cannot insert a non-DEFAULT value into column \"{name}\""),
        )
        .detail(format!(
            "Column \"{name}\" is an identity column defined as GENERATED ALWAYS."
        ))
        .hint("Use OVERRIDING SYSTEM VALUE to override."))
    }

    /// Columns that get their defaults in some row.
    fn defaults<'a>(&'a self, info: &'a TableInfo) -> impl Iterator<Item = usize> + 'a {
        (0..info.columns.len()).filter(move |column| match self {
            Source::Values(values) => match values.columns().iter().position(|at| at == column) {
                None => true,
                Some(at) => (0..values.rows()).any(|row| values.uses_default(row, at)),
            },
            Source::Query(rows) => !rows.columns.contains(&Some(*column)),
        })
    }
}

impl Rows {
    #[expect(
        clippy::too_many_arguments,
        reason = "what a clause is planned by, none of which belongs together"
    )]
    async fn plan(
        session: &ClientSession,
        info: &TableInfo,
        query: &Query,
        columns: &[usize],
        is_listed: bool,
        ignored: &[usize],
        types: &mut Vec<u32>,
        text: &str,
    ) -> Result<Rows, Refusal> {
        let items: &[SelectItem] = match query.body.as_ref() {
            SetExpr::Select(select) => &select.projection,
            _ => &[],
        };
        let expression = |at: usize| match items.get(at)? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        };
        // Behind `*` places say nothing.
        let plain = items.iter().take_while(|item| {
            matches!(
                item,
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
            )
        });
        let plain = plain.count();
        for (at, column) in (0..plain).zip(columns) {
            if let Some(number) = expression(at).and_then(placeholder) {
                if types.len() <= number {
                    types.resize(number + 1, 0);
                }
                if matches!(types[number], 0 | 705) {
                    types[number] = info.columns[*column].declared.of.oid();
                }
            }
        }
        let used = parameters_in(query);
        let statement = Statement::Query(Box::new(query.clone()));
        let planned = session.plan_ast(statement, types, text).await?;
        add_types(types, &planned.parameters, &used);
        let width = planned.plan.schema().fields().len();
        check_width(columns.len(), width, is_listed)?;
        let mut wrong = None;
        let found = columns_of(planned.plan.schema().as_arrow());
        for (at, (column, from)) in columns.iter().zip(&found).enumerate() {
            // What stands behind `*`, and what other forms of queries make of literals, is not known here.
            if let Some(expr) = expression(at).filter(|_| at < plain) {
                let column = &info.columns[*column];
                wrong = wrong.or(check_assigned(column, expr, from.of, (session.zone(), text))?);
            }
        }
        let columns = columns.iter().take(width);
        let columns = columns.map(|column| (!ignored.contains(column)).then_some(*column));
        Ok(Rows {
            plan: planned.plan,
            columns: columns.collect(),
            wrong,
        })
    }
}

impl Insert {
    /// Whether it is of values that need no planner, and few.
    pub(super) fn is_of_values(&self) -> bool {
        let few = |values: &Values| values.is_plain() && values.rows() <= SHORT_ROWS_MAX;
        self.writer.conflict.is_none() && matches!(&self.source, Source::Values(values) if few(values))
    }

    /// Writes the rows.
    ///
    /// # Errors
    /// What speaks against a row; locks that are not granted. Nothing of the statement stays then, if the caller goes back to where it began.
    pub(crate) async fn run(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Changed, Refusal> {
        let Writer { info, conflict, .. } = &self.writer;
        session.check_may_write(WriteRight::Insert, info)?;
        if conflict.as_ref().is_some_and(OnConflict::updates) {
            session.check_may_write(WriteRight::Update, info)?;
        }
        let mut progress = Progress::default();
        let deferred = self.writer.defer(session)?;
        match &self.source {
            Source::Values(values) => {
                self.run_values(values, session, parameters, &mut progress)
                    .await?
            }
            Source::Query(rows) => self.run_query(rows, session, parameters, &mut progress).await?,
        }
        self.writer.check_deferred(session, deferred)?;
        Ok(Changed {
            verb: "INSERT 0",
            rows: progress.rows,
            returned: self.writer.returning.as_ref().map(|_| progress.returned),
        })
    }

    async fn run_values(
        &self,
        values: &Values,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
        progress: &mut Progress,
    ) -> Result<(), Refusal> {
        let evaluated = values.evaluate(session, &self.parameters, parameters).await?;
        let info = &self.writer.info;
        for begin in (0..values.rows()).step_by(TOGETHER) {
            if begin > 0 {
                tokio::task::yield_now().await;
            }
            let count = TOGETHER.min(values.rows() - begin);
            let uses = |column: usize| match values.columns().iter().position(|at| *at == column) {
                None => Uses::All,
                Some(at) => {
                    let mut next = 0;
                    let place = |row: usize| {
                        let uses = values.uses_default(begin + row, at);
                        let place = uses.then_some(next);
                        next += u32::from(uses);
                        place
                    };
                    Uses::Some((0..count).map(place).collect())
                }
            };
            let defaults = self.defaults.values(count, &evaluated.now, uses)?;
            let mut rows = ValueRows {
                filler: Filler::new(info, session.zone(), values.columns()),
                values,
                evaluated: &evaluated,
                defaults: &defaults,
                begin,
                count,
            };
            self.writer.write(session, &mut rows, progress, parameters)?;
        }
        Ok(())
    }

    async fn run_query(
        &self,
        rows: &Rows,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
        progress: &mut Progress,
    ) -> Result<(), Refusal> {
        let (batches, _) = session.read_all(rows.plan.clone(), parameters).await?;
        let now = moment()?;
        // The last first, so that each is dropped as soon as it is written.
        let mut batches: Vec<RecordBatch> = batches.into_iter().rev().collect();
        while let Some(batch) = batches.pop() {
            for begin in (0..batch.num_rows()).step_by(TOGETHER) {
                tokio::task::yield_now().await;
                let part = batch.slice(begin, TOGETHER.min(batch.num_rows() - begin));
                let defaults = self.defaults.values(part.num_rows(), &now, |_| Uses::All)?;
                self.write_part(rows, &part, &defaults, session, progress, parameters)?;
            }
        }
        Ok(())
    }

    fn write_part(
        &self,
        rows: &Rows,
        part: &RecordBatch,
        defaults: &DefaultValues,
        session: &mut ClientSession,
        progress: &mut Progress,
        parameters: &[ScalarValue],
    ) -> Result<(), Refusal> {
        let info = &self.writer.info;
        let arrays = plain_columns(part)?;
        let types = columns_of(part.schema_ref());
        let mut columns = Vec::with_capacity(rows.columns.len());
        for ((to, array), column) in rows.columns.iter().zip(&arrays).zip(&types) {
            if let Some(to) = to {
                columns.push((*to, cells_as(array.as_ref(), column.of.kind)?));
            }
        }
        let given: Vec<usize> = columns.iter().map(|(to, ..)| *to).collect();
        let mut rows = QueryRows {
            filler: Filler::new(info, session.zone(), &given),
            columns,
            defaults,
            count: part.num_rows(),
        };
        self.writer.write(session, &mut rows, progress, parameters)
    }
}

/// Rows of `VALUES`, from one on.
struct ValueRows<'a> {
    filler: Filler<'a>,
    values: &'a Values,
    evaluated: &'a Evaluated<'a>,
    defaults: &'a DefaultValues,
    begin: usize,
    count: usize,
}

impl NewRows for ValueRows<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn row(&mut self, at: usize) -> Result<&RowBuf, Refusal> {
        self.filler.begin();
        self.values
            .set(self.begin + at, self.evaluated, &mut self.filler)?;
        self.defaults.set(at, &mut self.filler)?;
        self.filler.finish()
    }
}

/// Rows of a query: where each column goes, and its values.
struct QueryRows<'a> {
    filler: Filler<'a>,
    columns: Vec<(usize, Cells<'a>)>,
    defaults: &'a DefaultValues,
    count: usize,
}

impl NewRows for QueryRows<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn row(&mut self, at: usize) -> Result<&RowBuf, Refusal> {
        self.filler.begin();
        for (to, cells) in &self.columns {
            self.filler.set(*to, cells(at)?.as_ref())?;
        }
        self.defaults.set(at, &mut self.filler)?;
        self.filler.finish()
    }
}
