//! The rows that a change is about, found by a snapshot and locked.
//!
//! What others change meanwhile is told by the newest version of a row: at READ COMMITTED one row is looked at again, and with several the
//! statement runs the usual way, with the locks that it has. What it is not: the change.

use super::expression::At;
use super::run::{Locking, SPAN_ROWS_MAX, count, has_key, with_key};
use super::{Access, Short, Span};
use crate::session::{StoreFailure, StoreTransaction};
use corun_store::{Found, Index, Lock, Rid, Snapshot, Transaction};
use datafusion::common::ScalarValue;

impl Short {
    /// The rows for which the condition holds, locked; `None`: the statement has to run the usual way.
    ///
    /// # Errors
    /// As [`Short::read`]; 40001 of a row that somebody has changed since the moment.
    pub(crate) fn lock<'t>(
        &'t self,
        transaction: &'t Transaction<'_>,
        how: Locking<'_>,
        lock: Lock,
        parameters: &[ScalarValue],
    ) -> Result<Option<Vec<Found<'t>>>, StoreFailure> {
        let (Some(0), Some(fetch)) = (
            count(&self.skip, 0, parameters)?,
            count(&self.fetch, u64::MAX, parameters)?,
        ) else {
            return Ok(None);
        };
        if fetch == 0 {
            return Ok(Some(Vec::new()));
        }
        if let (Locking::Serializable, Access::Key { index, key }) = (how, &self.access) {
            let found = with_key(key, parameters, |key| match lock {
                Lock::Shared => transaction.fetch(index, key),
                Lock::Exclusive => transaction.fetch_for_update(index, key),
            })?;
            let passes = |found: &Found<'_>| self.passes(At::of(*found), parameters);
            return match found {
                Some(found) if passes(&found)? => Ok(Some(vec![found])),
                _ => Ok(Some(Vec::new())),
            };
        }
        // By a snapshot: a key that is not there is not locked against those who add it.
        let own;
        let seen = match how {
            Locking::AsOf(moment) => moment,
            Locking::Now => {
                own = transaction.snapshot()?;
                &own
            }
            // A range is locked with its gaps there.
            Locking::Serializable => return Ok(None),
        };
        match &self.access {
            Access::Key { index, key } => {
                let Some(found) = with_key(key, parameters, |key| seen.fetch(index, key))? else {
                    return Ok(Some(Vec::new()));
                };
                let rid = found.rid;
                if let Locking::AsOf(moment) = how {
                    if !self.passes(At::of(found), parameters)? {
                        return Ok(Some(Vec::new()));
                    }
                    return self.unchanged(transaction, moment, rid, lock).and_then(|found| {
                        let found = found.ok_or_else(StoreTransaction::changed_meanwhile)?;
                        Ok(Some(vec![found]))
                    });
                }
                let Some(row) = transaction.get(&self.table, rid, lock)? else {
                    return Ok(Some(Vec::new()));
                };
                let now = Found { rid, row };
                // It may have been changed while it was waited for.
                let passes = has_key(row, index, key, parameters)? && self.passes(At::of(now), parameters)?;
                Ok(Some(if passes { vec![now] } else { Vec::new() }))
            }
            Access::Span { index, span } => {
                let Some(rids) = self.rids(seen, (index, span), fetch, parameters)? else {
                    return Ok(None);
                };
                let mut all = Vec::with_capacity(rids.len());
                for rid in rids {
                    match (self.unchanged(transaction, seen, rid, lock)?, how) {
                        (Some(found), _) => all.push(found),
                        (None, Locking::AsOf(_)) => return Err(StoreTransaction::changed_meanwhile().into()),
                        (None, _) => return Ok(None),
                    }
                }
                Ok(Some(all))
            }
        }
    }

    /// A row, locked, if its newest version is that of the moment.
    fn unchanged<'t>(
        &'t self,
        transaction: &'t Transaction<'_>,
        moment: &Snapshot,
        rid: Rid,
        lock: Lock,
    ) -> Result<Option<Found<'t>>, StoreFailure>
    where
        Self: 't,
    {
        let row = transaction.get(&self.table, rid, lock)?;
        match row {
            Some(row) if moment.is_newest(&self.table, rid)? => Ok(Some(Found { rid, row })),
            _ => Ok(None),
        }
    }

    /// The first rows of a range for which the condition holds; `None`: too many are looked at.
    fn rids(
        &self,
        seen: &Snapshot,
        (index, span): (&Index, &Span),
        fetch: u64,
        parameters: &[ScalarValue],
    ) -> Result<Option<Vec<Rid>>, StoreFailure> {
        let Some(range) = span.range(index, parameters)? else {
            return Ok(None);
        };
        let mut rids = Vec::new();
        if range.is_empty() {
            return Ok(Some(rids));
        }
        for (looked_at, found) in seen.scan(index, &range, span.direction)?.enumerate() {
            if looked_at == SPAN_ROWS_MAX {
                return Ok(None);
            }
            if self.passes(At::of(found), parameters)? {
                rids.push(found.rid);
                if rids.len() as u64 == fetch {
                    break;
                }
            }
        }
        Ok(Some(rids))
    }
}
