//! [`Writer`]: new rows into a table, for `INSERT` and `COPY`.
//!
//! ```text
//!   rows (filled one after the other, in one buffer) ─► CHECK ─► insert, or what ON CONFLICT says ─► RETURNING
//! ```
//!
//! What is written together is a part of a statement: at most [`TOGETHER`] rows, after which others run. What it is not: where rows come from.

use super::super::checks::Checks;
use super::super::conflict::{Conflict, LOOKS_MAX, Looker, OnConflict, second_time, told};
use super::super::returning::Returning;
use super::super::rows;
use crate::session::{ClientSession, Isolation, StoreFailure, Zone};
use crate::write::TableInfo;
use arrow::array::RecordBatch;
use corun_store::{Lock, Rid, RowBuf, RowRef, Snapshot, StoreError, Transaction};
use corun_wire::error::{Refusal, code};
use datafusion::common::ScalarValue;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that are written without a pause: about a millisecond.
pub(crate) const TOGETHER: usize = 1024;

/// Rows that can be made again, by their positions.
pub(crate) trait NewRows {
    fn count(&self) -> usize;

    /// The row of a position.
    ///
    /// # Errors
    /// What speaks against its values.
    fn row(&mut self, at: usize) -> Result<&RowBuf, Refusal>;
}

/// Rows that are there.
pub(crate) struct Made<'a>(pub(crate) &'a [RowBuf]);

impl NewRows for Made<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&mut self, at: usize) -> Result<&RowBuf, Refusal> {
        let row = self.0.get(at);
        row.ok_or_else(|| Refusal::new(code::INTERNAL_ERROR, "there is no such row"))
    }
}

/// How rows of a statement are written.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(in super::super) info: Arc<TableInfo>,
    pub(in super::super) checks: Checks,
    pub(in super::super) conflict: Option<OnConflict>,
    pub(in super::super) returning: Option<Returning>,
}

/// Whether checks of foreign keys wait for the statement's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred(bool);

/// What a statement has written so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) rows: u64,
    pub(crate) returned: Vec<RecordBatch>,
    /// Rows that `ON CONFLICT DO UPDATE` must not update again.
    touched: HashSet<Rid>,
}

/// What a part has written.
struct Part {
    rows: u64,
    returned: Option<RecordBatch>,
    touched: HashSet<Rid>,
}

impl Writer {
    /// Of rows that are only inserted.
    pub(in super::super) fn plain(info: Arc<TableInfo>, checks: Checks) -> Self {
        Writer {
            info,
            checks,
            conflict: None,
            returning: None,
        }
    }

    /// Before the first row of a statement: rows of a table that refers to itself may refer to later ones, and what `ON CONFLICT` says of a row
    /// comes before what it refers to.
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn defer(&self, session: &mut ClientSession) -> Result<Deferred, Refusal> {
        let info = &self.info;
        let updates = self.conflict.as_ref().is_some_and(OnConflict::updates);
        let mut keys = info.definition.foreign_keys.iter();
        if !keys.any(|key| updates || key.schema == info.schema && key.table == info.name) {
            return Ok(Deferred(false));
        }
        let store = session.store_transaction()?;
        store.run(|transaction| Ok(transaction.defer_foreign_keys()?))?;
        Ok(Deferred(true))
    }

    /// Behind its last row.
    ///
    /// # Errors
    /// A row that refers to none.
    pub(crate) fn check_deferred(
        &self,
        session: &mut ClientSession,
        Deferred(deferred): Deferred,
    ) -> Result<(), Refusal> {
        if !deferred {
            return Ok(());
        }
        let store = session.store_transaction()?;
        store.run(|transaction| Ok(transaction.check_foreign_keys()?))
    }

    /// Writes rows: at most [`TOGETHER`].
    ///
    /// # Errors
    /// What speaks against a row; locks that are not granted.
    pub(crate) fn write(
        &self,
        session: &mut ClientSession,
        rows: &mut dyn NewRows,
        progress: &mut Progress,
        parameters: &[ScalarValue],
    ) -> Result<(), Refusal> {
        let zone = session.zone();
        if self.checks.is_empty() {
            return self.write_checked(session, rows, progress, parameters, zone);
        }
        let mut made = Vec::with_capacity(rows.count());
        for at in 0..rows.count() {
            made.push(rows.row(at)?.clone());
        }
        let batch = rows::batch_of_new(&self.info, made.iter().map(|row| (Rid(0), row)))?;
        self.checks.check(&self.info, &batch, &zone)?;
        self.write_checked(session, &mut Made(&made), progress, parameters, zone)
    }

    fn write_checked(
        &self,
        session: &mut ClientSession,
        rows: &mut dyn NewRows,
        progress: &mut Progress,
        parameters: &[ScalarValue],
        zone: Zone,
    ) -> Result<(), Refusal> {
        let store = session.store_transaction()?;
        let isolation = store.isolation();
        let moment = match (&self.conflict, isolation) {
            (Some(_), Isolation::RepeatableRead) => store.read_moment(&[])?,
            _ => None,
        };
        let before = &progress.touched;
        let part = store.run(|transaction| {
            let (part, written) = match &self.conflict {
                None => self.insert(transaction, rows, zone)?,
                Some(conflict) => {
                    let resolving = Resolving {
                        writer: self,
                        conflict,
                        looker: conflict.looker(&self.info, moment.as_deref())?,
                        locks: isolation == Isolation::Serializable,
                        before,
                        parameters,
                        zone,
                    };
                    resolving.run(transaction, rows)?
                }
            };
            let returned = match self.returning {
                None => None,
                Some(_) => Some(self.read_back(transaction, &written)?),
            };
            Ok(Part { returned, ..part })
        })?;
        progress.rows += part.rows;
        progress.touched.extend(part.touched);
        if let Some((returning, rows)) = self.returning.as_ref().zip(part.returned) {
            progress.returned.push(returning.rows(&rows, parameters)?);
        }
        Ok(())
    }

    fn insert(
        &self,
        transaction: &Transaction<'_>,
        rows: &mut dyn NewRows,
        zone: Zone,
    ) -> Result<(Part, Vec<Rid>), StoreFailure> {
        let mut written = Vec::new();
        for at in 0..rows.count() {
            let row = rows.row(at)?;
            let rid = transaction
                .insert(&self.info.table, row)
                .map_err(|error| told(&self.info, Some(row.row()), zone, error))?;
            if self.returning.is_some() {
                written.push(rid);
            }
        }
        let part = Part {
            rows: rows.count() as u64,
            returned: None,
            touched: HashSet::new(),
        };
        Ok((part, written))
    }

    /// The rows as they are now.
    fn read_back(&self, transaction: &Transaction<'_>, rids: &[Rid]) -> Result<RecordBatch, StoreFailure> {
        let mut found: Vec<(Rid, RowRef<'_>)> = Vec::with_capacity(rids.len());
        for rid in rids {
            if let Some(row) = transaction.get(&self.info.table, *rid, Lock::Exclusive)? {
                found.push((*rid, row));
            }
        }
        Ok(rows::batch(&self.info, &found)?)
    }
}

/// A part of an `INSERT ... ON CONFLICT`.
struct Resolving<'a> {
    writer: &'a Writer,
    conflict: &'a OnConflict,
    looker: Looker<'a>,
    /// Whether what `DO NOTHING` sees is locked.
    locks: bool,
    /// Rows that parts before this have written.
    before: &'a HashSet<Rid>,
    parameters: &'a [ScalarValue],
    zone: Zone,
}

impl Resolving<'_> {
    fn run(
        &self,
        transaction: &Transaction<'_>,
        rows: &mut dyn NewRows,
    ) -> Result<(Part, Vec<Rid>), StoreFailure> {
        let moment = match self.conflict.updates() || self.locks {
            true => None,
            false => Some(transaction.snapshot()?),
        };
        let mut state = State {
            written: vec![None; rows.count()],
            touched: HashSet::new(),
            waiting: Vec::new(),
            awaited: HashSet::new(),
        };
        for at in 0..rows.count() {
            let is_own = |rid: Rid| state.touched.contains(&rid) || self.before.contains(&rid);
            let there = match self.inserted(transaction, moment.as_ref(), rows.row(at)?, is_own)? {
                Inserted::New(rid) => {
                    state.written[at] = Some(rid);
                    state.touched.insert(rid);
                    continue;
                }
                Inserted::Nothing => continue,
                Inserted::There(rid) => rid,
            };
            if state.awaited.contains(&there) {
                self.update(transaction, rows, &mut state)?;
            }
            if state.touched.contains(&there) || self.before.contains(&there) {
                return Err(second_time().into());
            }
            state.waiting.push((at, there));
            state.awaited.insert(there);
            if self.conflict.moves() {
                self.update(transaction, rows, &mut state)?;
            }
        }
        self.update(transaction, rows, &mut state)?;
        let written: Vec<Rid> = state.written.into_iter().flatten().collect();
        let part = Part {
            rows: written.len() as u64,
            returned: None,
            touched: match self.conflict.updates() {
                true => state.touched,
                false => HashSet::new(),
            },
        };
        Ok((part, written))
    }

    /// Inserts a row, unless there is one of its key.
    fn inserted(
        &self,
        transaction: &Transaction<'_>,
        moment: Option<&Snapshot>,
        row: &RowBuf,
        is_own: impl Fn(Rid) -> bool,
    ) -> Result<Inserted, StoreFailure> {
        let updates = self.conflict.updates();
        if let Some(moment) = moment
            && self.looker.is_at(moment, row)?
        {
            return Ok(Inserted::Nothing);
        }
        for _ in 0..LOOKS_MAX {
            if moment.is_none()
                && let Some(there) = self.looker.locked(transaction, row, &is_own)?
            {
                return Ok(if updates {
                    Inserted::There(there)
                } else {
                    Inserted::Nothing
                });
            }
            match transaction.insert_or_lock(&self.writer.info.table, row) {
                Ok(rid) => return Ok(Inserted::New(rid)),
                Err(StoreError::Duplicate { index, .. }) if self.conflict.has_arbiter(&index) => {
                    if moment.is_some() {
                        return Ok(Inserted::Nothing);
                    }
                }
                Err(error) => return Err(told(&self.writer.info, Some(row.row()), self.zone, error)),
            }
        }
        Err(crate::session::StoreTransaction::changed_meanwhile().into())
    }

    /// Updates the rows that wait for it.
    fn update(
        &self,
        transaction: &Transaction<'_>,
        rows: &mut dyn NewRows,
        state: &mut State,
    ) -> Result<(), StoreFailure> {
        if state.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut state.waiting);
        state.awaited.clear();
        let Writer { info, checks, .. } = self.writer;
        let updated = self.conflict.update(
            transaction,
            info,
            checks,
            &waiting,
            rows,
            self.parameters,
            self.zone,
        )?;
        for (at, rid) in updated {
            state.written[at] = Some(rid);
            state.touched.insert(rid);
        }
        Ok(())
    }
}

enum Inserted {
    New(Rid),
    /// A row is there, and stays as it is.
    Nothing,
    /// A row is there, and is locked.
    There(Rid),
}

struct State {
    /// By position.
    written: Vec<Option<Rid>>,
    touched: HashSet<Rid>,
    /// Rows that are there, to be updated together.
    waiting: Vec<Conflict>,
    awaited: HashSet<Rid>,
}
