//! Short statements that lock or change the rows they find.
//!
//! All rows are locked before one is written, so that a statement that has to run the usual way has changed nothing. What it is not: `INSERT` of
//! values, which runs as it is ([`crate::write`]).

use super::Act;
use crate::session::client::ClientSession;
use crate::session::store_transaction::{Isolation, StoreFailure};
use crate::short::{Locking, Short, Writing, compile};
use crate::write::{ColumnDefault, PlainChange, PreparedChange, assign};
use arrow::datatypes::DataType;
use corun_store::{Found, Lock, Rid, RowBuf, Transaction};
use corun_wire::error::Refusal;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement;

impl ClientSession {
    /// The short way of a statement that writes.
    pub(super) async fn compiled_change(
        &self,
        (sql, text): (&Statement, &str),
        change: &PreparedChange,
        declared: &[u32],
        types: &[DataType],
    ) -> Option<Act> {
        if let Some((plan, lock, kept)) = change.plain_lock() {
            let mut short = compile(plan, types, &self.context.state_ref().read())?;
            short.keep(kept);
            return short.is_of_rows().then_some(Act::Lock(short, lock));
        }
        let (plan, plain) = change.plain()?;
        let short = compile(plan, types, &self.context.state_ref().read())?;
        let returned = match &change.columns {
            None => None,
            Some(_) => {
                let query = change.returned(sql)?;
                let planned = self.plan_ast(query, declared, text).await.ok()?;
                let of = compile(&planned.plan, types, &self.context.state_ref().read())?;
                Some(of)
            }
        };
        let of_rows = short.is_of_rows() && returned.as_ref().is_none_or(Short::is_of_rows);
        of_rows.then_some(Act::Change(short, plain, returned))
    }

    /// Locks rows and writes them to the client; `None`: it gives up.
    pub(super) fn lock_short(
        &mut self,
        short: &Short,
        lock: Lock,
        how: Writing<'_>,
        parameters: &[ScalarValue],
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, Refusal> {
        let begin = out.len();
        self.with_rows(short, lock, parameters, |_, found| {
            out.truncate(begin);
            for row in &found {
                short.write_row(*row, parameters, how, out)?;
            }
            Ok(found.len() as u64)
        })
    }

    /// Changes rows, and writes those that are returned to the client; `None`: it gives up.
    pub(super) fn change_short(
        &mut self,
        short: &Short,
        change: &PlainChange,
        returned: Option<(&Short, Writing<'_>)>,
        parameters: &[ScalarValue],
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, Refusal> {
        let zone = self.zone();
        let begin = out.len();
        let table = &change.info.table;
        self.with_rows(short, Lock::Exclusive, parameters, |transaction, found| {
            out.truncate(begin);
            let rows = found.len() as u64;
            let Some(kinds) = &change.kinds else {
                transaction.defer_foreign_keys()?;
                for row in found {
                    if let Some((of, how)) = returned {
                        of.write_row(row, parameters, how, out)?;
                    }
                    transaction.delete(table, row.rid)?;
                }
                transaction.check_foreign_keys()?;
                return Ok(rows);
            };
            // The first output is the row's number.
            let kinds = kinds.get(1..).unwrap_or_default();
            let mut changed: Vec<(Rid, RowBuf)> = Vec::with_capacity(found.len());
            for row in found {
                let values = short.values(row, parameters, 1, kinds)?;
                let mut new = table.new_row();
                for (column, item) in &change.assigned {
                    let of = &change.info.columns[*column];
                    match (item, &of.default) {
                        (None, ColumnDefault::Constant(value)) => new.set(*column, value.value())?,
                        (item, _) => {
                            let value = item.and_then(|item| values.get(item.checked_sub(1)?));
                            let value = value.and_then(Option::as_ref);
                            assign(of, *column, value, &zone, &mut new)?;
                        }
                    }
                }
                changed.push((row.rid, new));
            }
            transaction.defer_foreign_keys()?;
            for (rid, new) in &changed {
                let new = new.row();
                transaction.update(table, *rid, |row| {
                    let mut columns = change.assigned.iter();
                    columns.try_for_each(|(column, _)| row.set(*column, new.value(*column)))
                })?;
            }
            transaction.check_foreign_keys()?;
            if let Some((of, how)) = returned {
                for (rid, _) in changed {
                    if let Some(row) = transaction.get(table, rid, Lock::Exclusive)? {
                        of.write_row(Found { rid, row }, parameters, how, out)?;
                    }
                }
            }
            Ok(rows)
        })
    }

    /// Finds and locks rows, and does something with them; `None`: it gives up.
    fn with_rows<R>(
        &mut self,
        short: &Short,
        lock: Lock,
        parameters: &[ScalarValue],
        mut take: impl FnMut(&Transaction<'_>, Vec<Found<'_>>) -> Result<R, StoreFailure>,
    ) -> Result<Option<R>, Refusal> {
        let store = self.store_transaction()?;
        let moment = match store.isolation() {
            Isolation::RepeatableRead => store.read_moment(&[])?,
            Isolation::ReadCommitted | Isolation::Serializable => None,
        };
        let how = match (&moment, store.isolation()) {
            (Some(moment), _) => Locking::AsOf(moment),
            (None, Isolation::Serializable) => Locking::Serializable,
            (None, _) => Locking::Now,
        };
        store.run(|transaction| {
            let transaction: &Transaction<'_> = transaction;
            match short.lock(transaction, how, lock, parameters)? {
                Some(found) => take(transaction, found).map(Some),
                None => Ok(None),
            }
        })
    }
}
