//! `SELECT ... FOR UPDATE` and `FOR SHARE`: the rows that a SELECT has found are locked, then they are its result.
//!
//! The SELECT gets the row number of each locked table as one more column at its end. Rows that others have changed meanwhile make it run again,
//! with the locks that it has. With `SKIP LOCKED` its LIMIT is done here, after rows that others have locked are left out. What it is not:
//! `LOCK TABLE`, and locks of queries within other statements.

use super::rows::{self, FoundRow, RUNS_MAX, TOGETHER};
use super::select::{Target, at, push};
use super::{Change, Changed, PreparedChange};
use crate::catalog::folded;
use crate::session::{
    ClientSession, Isolation, StoreFailure, StoreTransaction, names, refusal_of_datafusion,
};
use crate::users::WriteRight;
use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::UInt32Type;
use corun_datafusion::store::ROW_NUMBER;
use corun_store::lock::LockError;
use corun_store::{Lock, Rid, Snapshot, StoreError, Transaction};
use corun_wire::error::{Refusal, code};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, JoinOperator, LimitClause, LockClause, LockType, NonBlock, ObjectNamePart, Query,
    SetExpr, Statement, TableFactor, TableWithJoins, Value,
};
use std::time::Duration;

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct SelectForUpdate {
    /// Its last columns are the row numbers of the tables.
    plan: LogicalPlan,
    tables: Vec<Locked>,
    /// Columns of the result.
    kept: Vec<usize>,
    /// Where rows may be left out: how many are wanted, and how many of them are not returned.
    skipping: Option<Window>,
}

/// A table whose rows are locked.
#[derive(Debug)]
struct Locked {
    target: Target,
    lock: Lock,
    wait: Wait,
}

/// What happens where others have locked a row. What stands later is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    Always,
    Skip,
    Never,
}

/// `LIMIT` and `OFFSET`.
#[derive(Debug)]
struct Window {
    limit: Option<Number>,
    offset: Option<Number>,
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Is(u64),
    /// The parameter with this position.
    Parameter(usize),
}

/// Plans it.
pub(super) async fn prepare(
    session: &ClientSession,
    of: &Query,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    let mut query = of.clone();
    let locks = std::mem::take(&mut query.locks);
    if let Some(first) = locks.first() {
        check(&query, first)?;
    }
    let of_with: Vec<String> = query
        .with
        .iter()
        .flat_map(|with| &with.cte_tables)
        .map(|cte| folded(&cte.alias.name))
        .collect();
    let mut seen = Relations {
        session,
        locks: &locks,
        of_with: &of_with,
        text,
        tables: Vec::new(),
        names: Vec::new(),
    };
    if let (false, SetExpr::Select(select)) = (locks.is_empty(), query.body.as_mut()) {
        for from in &mut select.from {
            seen.tables_of(from, false)?;
        }
    }
    let Relations { tables, names, .. } = seen;
    for lock in &locks {
        if let Some(of) = &lock.of
            && let Some(name) = of.0.last().and_then(ObjectNamePart::as_ident)
            && !names.contains(&folded(name))
        {
            let what = format!(
                "relation \"{}\" in {} clause not found in FROM clause",
                folded(name),
                strength(lock)
            );
            return Err(at(Refusal::new("42P01", what), text, name));
        }
    }
    if let SetExpr::Select(select) = query.body.as_mut() {
        for table in &tables {
            push(&mut select.projection, table.target.rid());
        }
    }
    for table in &tables {
        table.target.unqualify(&mut query);
    }
    let mut types = types.to_vec();
    let skipping = match tables.iter().any(|table| table.wait == Wait::Skip) {
        true => Some(window(&mut query, &mut types)?),
        false => None,
    };
    let statement = Statement::Query(Box::new(query));
    let planned = match session.plan_ast(statement, &types, text).await {
        Ok(planned) => planned,
        // The row numbers stand in no GROUP BY.
        Err(refusal) if refusal.code == "42803" && !tables.is_empty() => {
            let first = locks.first();
            return Err(first.map_or(refusal, |first| not_allowed(first, "with aggregate functions")));
        }
        Err(refusal) => return Err(refusal),
    };
    if let Some(first) = locks.first() {
        check_plan(&planned.plan, first)?;
    }
    let mut columns = session.columns(&planned.plan)?;
    let fields = planned.plan.schema().fields();
    let own = fields.len().saturating_sub(tables.len());
    let kept: Vec<usize> = (0..own).filter(|at| fields[*at].name() != ROW_NUMBER).collect();
    columns = columns
        .into_iter()
        .enumerate()
        .filter(|(at, _)| kept.contains(at))
        .map(|(_, column)| column)
        .collect();
    Ok(PreparedChange {
        parameters: planned.parameters,
        columns: Some(columns),
        change: Change::Lock(SelectForUpdate {
            plan: planned.plan,
            tables,
            kept,
            skipping,
        }),
    })
}

fn strength(lock: &LockClause) -> &'static str {
    match lock.lock_type {
        LockType::Update => "FOR UPDATE",
        LockType::Share => "FOR SHARE",
    }
}

fn not_allowed(lock: &LockClause, what: &str) -> Refusal {
    let what = format!("{} is not allowed {what}", strength(lock));
    Refusal::new(code::NOT_SUPPORTED, what)
}

/// Refuses queries whose rows are no rows of tables.
fn check(query: &Query, lock: &LockClause) -> Result<(), Refusal> {
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::Values(_) => {
            let what = format!("{} cannot be applied to VALUES", strength(lock));
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
        _ => return Err(not_allowed(lock, "with UNION/INTERSECT/EXCEPT")),
    };
    if select.distinct.is_some() {
        return Err(not_allowed(lock, "with DISTINCT clause"));
    }
    match &select.group_by {
        GroupByExpr::Expressions(by, more) if by.is_empty() && more.is_empty() => {}
        _ => return Err(not_allowed(lock, "with GROUP BY clause")),
    }
    if select.having.is_some() {
        return Err(not_allowed(lock, "with HAVING clause"));
    }
    Ok(())
}

/// The same of what only the planner knows.
fn check_plan(plan: &LogicalPlan, lock: &LockClause) -> Result<(), Refusal> {
    let mut plan = plan;
    loop {
        match plan {
            LogicalPlan::Aggregate(_) => return Err(not_allowed(lock, "with aggregate functions")),
            LogicalPlan::Window(_) => return Err(not_allowed(lock, "with window functions")),
            LogicalPlan::Unnest(_) => {
                return Err(not_allowed(
                    lock,
                    "with set-returning functions in the target list",
                ));
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Filter(_) => match plan.inputs().first() {
                Some(input) => plan = input,
                None => return Ok(()),
            },
            _ => return Ok(()),
        }
    }
}

/// The tables of a FROM.
struct Relations<'a> {
    session: &'a ClientSession,
    locks: &'a [LockClause],
    of_with: &'a [String],
    text: &'a str,
    tables: Vec<Locked>,
    /// All names that it gives.
    names: Vec<String>,
}

impl Relations<'_> {
    /// `nullable`: an outer join may put NULL in the place of the row.
    fn tables_of(&mut self, from: &mut TableWithJoins, nullable: bool) -> Result<(), Refusal> {
        let (mut left, mut rights) = (nullable, Vec::new());
        for join in &from.joins {
            let (outer_left, outer_right) = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            if outer_left {
                left = true;
                rights.iter_mut().for_each(|right| *right = true);
            }
            rights.push(nullable || outer_right);
        }
        self.factor(&mut from.relation, left)?;
        for (join, nullable) in from.joins.iter_mut().zip(rights) {
            self.factor(&mut join.relation, nullable)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor, nullable: bool) -> Result<(), Refusal> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => self.tables_of(table_with_joins, nullable),
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let known = match alias {
                    Some(alias) => folded(&alias.name),
                    None => names(name)?.1,
                };
                self.names.push(known.clone());
                let is_of_with =
                    name.0.len() == 1 && names(name).is_ok_and(|(_, name)| self.of_with.contains(&name));
                let Some((clause, lock, wait)) = self.lock_of(&known).filter(|_| !is_of_with) else {
                    return Ok(());
                };
                if nullable {
                    let what = format!(
                        "{} cannot be applied to the nullable side of an outer join",
                        strength(clause)
                    );
                    return Err(Refusal::new(code::NOT_SUPPORTED, what));
                }
                let place = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
                let target = Target::of(self.session, factor, WriteRight::Update);
                let target = target.map_err(|refusal| match (&place, refusal.position) {
                    (Some(place), None) => at(refusal, self.text, place),
                    _ => refusal,
                })?;
                *factor = target.relation();
                self.tables.push(Locked { target, lock, wait });
                Ok(())
            }
            TableFactor::Derived { alias, .. } => {
                let known = alias
                    .as_ref()
                    .map(|alias| folded(&alias.name))
                    .unwrap_or_default();
                let locked = self.lock_of(&known).map(|(clause, ..)| strength(clause));
                self.names.push(known);
                match locked {
                    Some(strength) => {
                        let what = format!("{strength} of a subquery in FROM is not supported");
                        let hint = "Name the tables whose rows are to be locked by OF.";
                        Err(Refusal::new(code::NOT_SUPPORTED, what).hint(hint))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// How a relation is locked: the strongest that is said of it.
    fn lock_of(&self, name: &str) -> Option<(&LockClause, Lock, Wait)> {
        let names = |lock: &&LockClause| match &lock.of {
            Some(of) => {
                of.0.last()
                    .and_then(ObjectNamePart::as_ident)
                    .is_some_and(|of| folded(of) == name)
            }
            None => true,
        };
        let of_it: Vec<&LockClause> = self.locks.iter().filter(names).collect();
        let lock = match of_it.iter().any(|lock| lock.lock_type == LockType::Update) {
            true => Lock::Exclusive,
            false => Lock::Shared,
        };
        let wait = of_it.iter().map(|lock| match lock.nonblock {
            None => Wait::Always,
            Some(NonBlock::SkipLocked) => Wait::Skip,
            Some(NonBlock::Nowait) => Wait::Never,
        });
        Some((*of_it.first()?, lock, wait.max()?))
    }
}

impl SelectForUpdate {
    /// What there is to do, if that is to wait for the rows of one table.
    pub(super) fn plain(&self) -> Option<(&LogicalPlan, Lock, &[usize])> {
        match (self.tables.as_slice(), &self.skipping) {
            ([table], None) if table.wait == Wait::Always => Some((&self.plan, table.lock, &self.kept)),
            _ => None,
        }
    }
}

/// Takes LIMIT and OFFSET out of a query.
fn window(query: &mut Query, types: &mut Vec<u32>) -> Result<Window, Refusal> {
    let (mut limit, mut offset) = match query.limit_clause.take() {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit, offset.map(|offset| offset.value)),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
    };
    if let Some(fetch) = query.fetch.take() {
        if fetch.with_ties || fetch.percent {
            let what = "FETCH ... WITH TIES or PERCENT cannot stand beside SKIP LOCKED";
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
        let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
        limit = Some(fetch.quantity.unwrap_or_else(one));
    }
    let mut number = |of: Option<Expr>| match of {
        None => Ok(None),
        Some(of) => number(&of, types).map(Some),
    };
    Ok(Window {
        limit: number(limit.take())?,
        offset: number(offset.take())?,
    })
}

fn number(of: &Expr, types: &mut Vec<u32>) -> Result<Number, Refusal> {
    const INT8: u32 = 20;
    let not_supported = || {
        let what = "LIMIT and OFFSET beside SKIP LOCKED take numbers and parameters only";
        Refusal::new(code::NOT_SUPPORTED, what)
    };
    match of {
        Expr::Nested(inner) => number(inner, types),
        Expr::Cast { expr, .. } => number(expr, types),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().map(Number::Is).map_err(|_| not_supported()),
            Value::Null => Ok(Number::Is(u64::MAX)),
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|number| number.parse().ok());
                let at = number
                    .and_then(|number: usize| number.checked_sub(1))
                    .filter(|at| *at < usize::from(u16::MAX))
                    .ok_or_else(not_supported)?;
                if types.len() <= at {
                    types.resize(at + 1, 0);
                }
                if types[at] == 0 {
                    types[at] = INT8;
                }
                Ok(Number::Parameter(at))
            }
            _ => Err(not_supported()),
        },
        _ => Err(not_supported()),
    }
}

impl Window {
    /// How many rows are wanted, and how many of them are not returned.
    fn values(&self, parameters: &[ScalarValue]) -> Result<(u64, u64), Refusal> {
        let limit = self
            .limit
            .map_or(Ok(u64::MAX), |limit| limit.value("LIMIT", parameters))?;
        let offset = self
            .offset
            .map_or(Ok(0), |offset| offset.value("OFFSET", parameters))?;
        Ok((limit, offset))
    }
}

impl Number {
    /// `what`: the clause, for the refusal of a negative number.
    fn value(self, what: &str, parameters: &[ScalarValue]) -> Result<u64, Refusal> {
        let at = match self {
            Number::Is(number) => return Ok(number),
            Number::Parameter(at) => at,
        };
        let value = match parameters.get(at) {
            Some(ScalarValue::Int64(Some(value))) => *value,
            Some(ScalarValue::Int32(Some(value))) => i64::from(*value),
            Some(ScalarValue::Int16(Some(value))) => i64::from(*value),
            Some(value) if value.is_null() => return Ok(if what == "LIMIT" { u64::MAX } else { 0 }),
            _ => {
                let what = format!("argument of {what} must be type bigint");
                return Err(Refusal::new("42804", what));
            }
        };
        u64::try_from(value).map_err(|_| {
            let code = if what == "LIMIT" { "2201W" } else { "2201X" };
            Refusal::new(code, format!("{what} must not be negative"))
        })
    }
}

impl SelectForUpdate {
    /// Runs it.
    pub(super) async fn run(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Changed, Refusal> {
        for _ in 0..RUNS_MAX {
            let (batches, snapshot) = session.read_all(self.plan.clone(), parameters).await?;
            let store = session.store_transaction()?;
            let done = match &self.skipping {
                Some(window) => {
                    let window = window.values(parameters)?;
                    let rows = self.lock_some(store, &snapshot, &batches, window).await?;
                    rows.map(Some)
                }
                None => self.lock_all(store, &snapshot, &batches).await?.then_some(None),
            };
            let Some(rows) = done else {
                match store.isolation() {
                    Isolation::ReadCommitted => continue,
                    _ => return Err(StoreTransaction::changed_meanwhile()),
                }
            };
            let returned = self.result(&batches, rows.as_deref())?;
            return Ok(Changed {
                verb: "SELECT",
                rows: returned.iter().map(|batch| batch.num_rows() as u64).sum(),
                returned: Some(returned),
            });
        }
        Err(StoreTransaction::changed_meanwhile())
    }

    /// The column with the row numbers of a table.
    fn column_of(&self, batch: &RecordBatch, table: usize) -> usize {
        (batch.num_columns() + table).saturating_sub(self.tables.len())
    }

    /// Locks all rows, table by table, in the order of their numbers. False: others have changed one of them.
    async fn lock_all(
        &self,
        store: &mut StoreTransaction,
        snapshot: &Snapshot,
        batches: &[RecordBatch],
    ) -> Result<bool, Refusal> {
        let Some(first) = batches.first() else {
            return Ok(true);
        };
        for (at, locked) in self.tables.iter().enumerate() {
            let found = rows::once(rows::numbers(batches, self.column_of(first, at))?);
            for part in found.chunks(TOGETHER) {
                let newest = store.run(|transaction| lock_part(transaction, snapshot, locked, part))?;
                if !newest {
                    return Ok(false);
                }
                if part.len() == TOGETHER {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(true)
    }

    /// Locks rows in the order of the result until there are as many as are wanted, and leaves out those that others have locked. `None`: others
    /// have changed one of them.
    async fn lock_some(
        &self,
        store: &mut StoreTransaction,
        snapshot: &Snapshot,
        batches: &[RecordBatch],
        (limit, offset): (u64, u64),
    ) -> Result<Option<Vec<FoundRow>>, Refusal> {
        let mut rows: Vec<FoundRow> = Vec::new();
        let mut before = offset;
        for (batch, of) in batches.iter().enumerate() {
            let mut wanted = limit.saturating_sub(rows.len() as u64);
            if wanted == 0 {
                break;
            }
            let part = store.run(|transaction| {
                let (mut part, mut left, mut before) = (Vec::new(), wanted, before);
                for row in 0..of.num_rows() {
                    if left == 0 {
                        break;
                    }
                    match self.lock_row(transaction, snapshot, of, row)? {
                        Answer::Changed => return Ok(None),
                        Answer::Skipped => {}
                        Answer::Locked if before > 0 => before -= 1,
                        Answer::Locked => {
                            left -= 1;
                            let rid = Rid(0);
                            part.push(FoundRow { rid, batch, row });
                        }
                    }
                }
                Ok(Some((part, left, before)))
            })?;
            let Some((part, left, still_before)) = part else {
                return Ok(None);
            };
            (wanted, before) = (left, still_before);
            rows.extend(part);
            if wanted > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(Some(rows))
    }

    fn lock_row(
        &self,
        transaction: &mut Transaction<'_>,
        snapshot: &Snapshot,
        batch: &RecordBatch,
        row: usize,
    ) -> Result<Answer, StoreFailure> {
        for (at, locked) in self.tables.iter().enumerate() {
            let numbers = batch
                .column(self.column_of(batch, at))
                .as_primitive_opt::<UInt32Type>();
            let Some(rid) = numbers
                .filter(|numbers| numbers.is_valid(row))
                .map(|numbers| Rid(numbers.value(row)))
            else {
                continue;
            };
            let table = &locked.target.info.table;
            let begin = transaction.savepoint();
            let usual = transaction.lock_timeout();
            if locked.wait != Wait::Always {
                transaction.set_lock_timeout(Duration::ZERO);
            }
            let done = rows::lock_all(transaction, snapshot, table, std::iter::once(rid), locked.lock);
            let done = match done {
                Err(failure) if locked.wait == Wait::Never && is_timeout(&failure) => {
                    Err(not_granted(locked).into())
                }
                Err(failure) if locked.wait == Wait::Skip && is_timeout(&failure) => {
                    transaction.rollback_to(&begin)?;
                    Ok(Answer::Skipped)
                }
                Err(failure) => Err(failure),
                Ok(true) => Ok(Answer::Locked),
                Ok(false) => Ok(Answer::Changed),
            };
            transaction.set_lock_timeout(usual);
            match done? {
                Answer::Locked => {}
                other => return Ok(other),
            }
        }
        Ok(Answer::Locked)
    }

    /// The result: the columns that clients know, of all rows, or of these.
    fn result(
        &self,
        batches: &[RecordBatch],
        rows: Option<&[FoundRow]>,
    ) -> Result<Vec<RecordBatch>, Refusal> {
        let failed = |error: arrow::error::ArrowError| refusal_of_datafusion(&error.into(), "");
        let mut result = Vec::new();
        for (at, batch) in batches.iter().enumerate() {
            let batch = batch.project(&self.kept).map_err(failed)?;
            let batch = match rows {
                None => batch,
                Some(rows) => {
                    let of_batch = rows.iter().filter(|row| row.batch == at);
                    let numbers: UInt32Array = of_batch.map(|row| row.row as u32).collect();
                    take_record_batch(&batch, &numbers).map_err(failed)?
                }
            };
            result.push(batch);
        }
        Ok(result)
    }
}

/// Locks rows of a table. False: others have changed one of them.
fn lock_part(
    transaction: &mut Transaction<'_>,
    snapshot: &Snapshot,
    locked: &Locked,
    part: &[FoundRow],
) -> Result<bool, StoreFailure> {
    let rids = part.iter().map(|found| found.rid);
    let usual = transaction.lock_timeout();
    if locked.wait == Wait::Never {
        transaction.set_lock_timeout(Duration::ZERO);
    }
    let done = rows::lock_all(
        transaction,
        snapshot,
        &locked.target.info.table,
        rids,
        locked.lock,
    );
    transaction.set_lock_timeout(usual);
    match done {
        Err(failure) if locked.wait == Wait::Never && is_timeout(&failure) => Err(not_granted(locked).into()),
        done => done,
    }
}

/// What became of the locks of a row.
enum Answer {
    Locked,
    Skipped,
    Changed,
}

fn is_timeout(failure: &StoreFailure) -> bool {
    matches!(
        failure,
        StoreFailure::Store(StoreError::Lock(LockError::Timeout { .. }))
    )
}

fn not_granted(locked: &Locked) -> Refusal {
    let what = format!(
        "could not obtain lock on row in relation \"{}\"",
        locked.target.info.name
    );
    Refusal::new("55P03", what)
}
