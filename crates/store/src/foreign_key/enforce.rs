//! What foreign keys do while transactions change rows.
//!
//! ```text
//! change of a row ─► its consequences, one after the other: rows that refer to it are found, changed, and have consequences themselves
//!                 ─► checks that were noted: does the row that refers find its row? does a row still refer to the key that has gone?
//! ```
//!
//! The consequences are a list, not a recursion: a cascade through any number of tables and rows takes no more stack. It ends: each further
//! change writes a version, and a transaction may write so many bytes. If anything of it is refused, the whole operation is undone.
//!
//! Checks say what a row is *now*, and are noted by numbers and values, so that they stay right whatever else the transaction changes or
//! rolls back before they are made.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{DeferredKeys, ForeignKey, ForeignKeyViolation};
use crate::constant::Constant;
use crate::error::{Result, StoreError};
use crate::index::IndexInner;
use crate::known::Reach;
use crate::lock::RowMode;
use crate::operations::check_stack;
use crate::own::Own;
use crate::row::{RowBuf, RowRef};
use crate::schema::ReferentialAction;
use crate::session::State;
use crate::slots::Rid;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Direction, Lock, NOW, Transaction};
use crate::value::Value;
use crate::version::VersionPtr;

/// A row that was changed, and whose foreign keys have not been looked at.
struct Changed {
    table: Table,
    rid: Rid,
    before: Option<VersionPtr>,
    after: Option<VersionPtr>,
}

/// What has to be true at the end.
enum Check {
    /// The row finds the row it refers to.
    Refers {
        key: Arc<ForeignKey>,
        child: Table,
        rid: Rid,
    },
    /// No row refers to the key that this row had, or another row has it by then.
    Unreferenced { key: Arc<ForeignKey>, row: RowBuf },
}

impl Check {
    fn key(&self) -> &ForeignKey {
        match self {
            Check::Refers { key, .. } | Check::Unreferenced { key, .. } => key,
        }
    }
}

/// A check, and the number of the newest savepoint when it was noted.
struct Noted {
    check: Check,
    savepoint: u64,
}

/// What a transaction has to check yet.
#[derive(Default)]
pub(crate) struct Pending {
    checks: Vec<Noted>,
    /// Made behind a savepoint that was taken after they were noted: going back to it may take away what they found.
    made: Vec<Noted>,
    /// Checks wait until they are asked for.
    deferred: bool,
    /// Those of these wait longer: until the transaction commits.
    waiting: Arc<DeferredKeys>,
}

impl Pending {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// The transaction has ended.
    #[inline]
    pub(crate) fn clear(&mut self) {
        let is_plain = !self.deferred && self.waiting.is_empty();
        if !is_plain || !self.checks.is_empty() || !self.made.is_empty() {
            *self = Pending::default();
        }
    }

    /// Whether the checks of a key wait until the transaction commits.
    fn waits(&self, key: &ForeignKey) -> bool {
        let is_it = || {
            let child = key.child().ok()?;
            let of = child.0.qualified_for(child.0.definer());
            Some(self.waiting.has(&of.schema, &of.name, key.name()))
        };
        !self.waiting.is_empty() && is_it().unwrap_or(false)
    }

    /// The transaction goes back to a savepoint.
    pub(crate) fn again(&mut self) {
        self.checks.append(&mut self.made);
    }
}

impl ForeignKey {
    /// A row of the child refers to no row.
    pub(super) fn missing(&self, child: &Table, row: RowRef<'_>) -> ForeignKeyViolation {
        self.violation(child, row, false)
    }

    /// A row of the parent is still referred to.
    fn still_referenced(&self, parent: &Table, row: RowRef<'_>) -> ForeignKeyViolation {
        self.violation(parent, row, true)
    }

    /// What is wrong with a row of a table, by who has both locked.
    fn violation(&self, of: &Table, row: RowRef<'_>, is_referenced: bool) -> ForeignKeyViolation {
        let position = |pair: &(usize, usize)| if is_referenced { pair.1 } else { pair.0 };
        let columns = of.0.layouts.newest().definitions();
        let positions = || self.pairs.iter().map(position);
        let shown = |table: Result<Table>| {
            table.map_or_else(
                |_| String::new(),
                |table| table.0.qualified_for(table.0.definer()).to_string(),
            )
        };
        ForeignKeyViolation {
            constraint: self.name().to_owned(),
            table: shown(self.child()),
            referenced: shown(self.parent()),
            is_referenced,
            columns: positions().map(|at| columns[at].name.clone()).collect(),
            values: positions().map(|at| Constant::from(row.value(at))).collect(),
        }
    }

    /// An index of the child whose first columns are the key's, and the key's values in their order.
    fn index_of_child<'t, 'v>(
        &self,
        child: &'t Table,
        values: &[Value<'v>],
    ) -> Option<(&'t Arc<IndexInner>, Vec<Value<'v>>)> {
        let count = self.columns.len();
        let mut indexes = child.0.usable(true);
        indexes.find_map(|index| {
            let first = index.columns.get(..count)?;
            let value = |column: &usize| {
                let place = self.columns.iter().position(|of_key| of_key == column)?;
                Some(values[place])
            };
            Some((index, first.iter().map(value).collect::<Option<_>>()?))
        })
    }
}

impl Transaction<'_> {
    /// Checks of foreign keys wait until [`Transaction::check_foreign_keys`], or until the transaction commits: as long as a statement that changes
    /// several rows goes on, as SQL wants it. Meanwhile rows may refer to rows that come later. `Restrict` does not wait, nor do cascades.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// let employee = store.create_table(
    ///     TableDef::new("employee")
    ///         .column("id", Type::I64)
    ///         .nullable("boss", Type::I64)
    ///         .primary_key(&["id"])
    ///         .foreign_key("employee_boss", &["boss"], "employee", &["id"]),
    /// )?;
    /// let mut session = store.session_here()?;
    /// let transaction = session.begin()?;
    /// let mut row = employee.new_row();
    /// row.set("id", 1)?;
    /// row.set("boss", 2)?;
    /// assert!(transaction.insert(&employee, &row).is_err());
    ///
    /// transaction.defer_foreign_keys()?;
    /// transaction.insert(&employee, &row)?;
    /// row.set("id", 2)?;
    /// transaction.insert(&employee, &row)?;
    /// transaction.check_foreign_keys()?;
    /// transaction.commit()?;
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Ended`].
    pub fn defer_foreign_keys(&self) -> Result<()> {
        self.go_on(|state| {
            state.pending.deferred = true;
            Ok(())
        })
    }

    /// Whether checks of foreign keys wait, because of [`Transaction::defer_foreign_keys`].
    pub fn defers_foreign_keys(&self) -> bool {
        self.session.state.borrow().pending.deferred
    }

    /// From now on checks of these foreign keys wait until the transaction commits, or until another call of this no longer names them and
    /// [`Transaction::check_foreign_keys`] asks for them: SQL's `DEFERRABLE INITIALLY DEFERRED` and `SET CONSTRAINTS`.
    ///
    /// # Errors
    /// [`StoreError::Ended`].
    pub fn set_deferred_keys(&self, keys: Arc<DeferredKeys>) -> Result<()> {
        self.go_on(|state| {
            state.pending.waiting = keys;
            Ok(())
        })
    }

    /// Makes the checks of foreign keys that have waited since [`Transaction::defer_foreign_keys`], but for those of
    /// [`Transaction::set_deferred_keys`]; from now on operations make theirs again.
    ///
    /// # Errors
    /// [`StoreError::ForeignKey`], the first that there is. What the transaction has changed stays: go back to a savepoint, abort it, or change what is
    /// wrong and call this again, for the checks wait still. Locks that are not granted.
    pub fn check_foreign_keys(&self) -> Result<()> {
        check_stack()?;
        self.go_on(|state| {
            self.check_pending(state, false)?;
            state.pending.deferred = false;
            Ok(())
        })
    }

    /// Makes the checks that wait, at the end all of them. If one fails, all wait again.
    pub(crate) fn check_pending(&self, state: &mut State, at_end: bool) -> Result<()> {
        let all = std::mem::take(&mut state.pending.checks);
        let (checks, waiting): (Vec<Noted>, Vec<Noted>) = match at_end || state.pending.waiting.is_empty() {
            true => (all, Vec::new()),
            false => (all.into_iter()).partition(|noted| !state.pending.waits(noted.check.key())),
        };
        let mut in_force =
            (checks.iter().map(|noted| &noted.check)).filter(|check| check.key().is_in_force());
        let made = in_force.try_for_each(|check| self.check(state, check));
        state.pending.checks = waiting;
        match made {
            Err(_) => state.pending.checks.extend(checks),
            Ok(()) => {
                let newest = state.savepoints;
                let kept = checks.into_iter().filter(|noted| noted.savepoint < newest);
                state.pending.made.extend(kept);
            }
        }
        made
    }

    /// What the foreign keys of a table make of a row that was just changed.
    #[cold]
    pub(crate) fn follow(
        &self,
        state: &mut State,
        table: &Table,
        rid: Rid,
        before: Option<VersionPtr>,
    ) -> Result<()> {
        let first = state.pending.checks.len();
        let done = self.follow_all(state, table, rid, before);
        let done = match (done, state.pending.deferred) {
            (Ok(()), false) => {
                let checks = state.pending.checks.split_off(first);
                let is_now = |noted: &Noted| !state.pending.waits(noted.check.key());
                let (now, later): (Vec<Noted>, Vec<Noted>) = checks.into_iter().partition(is_now);
                state.pending.checks.extend(later);
                now.iter().try_for_each(|noted| self.check(state, &noted.check))
            }
            (done, _) => done,
        };
        if done.is_err() {
            state.pending.checks.truncate(first);
        }
        done
    }

    fn follow_all(
        &self,
        state: &mut State,
        table: &Table,
        rid: Rid,
        before: Option<VersionPtr>,
    ) -> Result<()> {
        let mut changed = VecDeque::from([Changed {
            table: table.clone(),
            rid,
            before,
            after: table.0.slots.slot(rid).newest(),
        }]);
        while let Some(next) = changed.pop_front() {
            self.follow_one(state, &next, &mut changed)?;
        }
        Ok(())
    }

    /// Notes the checks of a change, and makes its next consequences.
    fn follow_one(&self, state: &mut State, change: &Changed, further: &mut VecDeque<Changed>) -> Result<()> {
        let Changed {
            table,
            rid,
            before,
            after,
        } = change;
        let links = table.0.constraints.links();
        let row = |version: &Option<VersionPtr>| {
            let version = (*version)?;
            // SAFETY: what the transaction replaces is kept to its end, and so is what it made.
            unsafe { table.0.layouts.row(version) }
        };
        let (before, after) = (row(before), row(after));
        for key in &links.own {
            let Some(after) = after.filter(|&after| key.is_used_by(after)) else {
                continue;
            };
            if before.is_none_or(|before| !key.same(before, after)) {
                note(
                    state,
                    Check::Refers {
                        key: Arc::clone(key),
                        child: table.clone(),
                        rid: *rid,
                    },
                );
            }
        }
        for key in &links.referencing {
            let Some(before) = before.filter(|&before| key.is_key_of(before)) else {
                continue;
            };
            if after.is_some_and(|after| key.index.layout.same(before, after)) {
                continue;
            }
            // From now on nobody refers to the key who has not ended.
            state
                .holder
                .pass(&key.index.ranges, &key.index.layout.of_row(before))?;
            let action = match after {
                None => key.made.on_delete,
                Some(_) => key.made.on_update,
            };
            match action {
                ReferentialAction::NoAction => {
                    let mut row = RowBuf::new(table.0.layouts.newest());
                    row.load(table.0.layouts.newest(), before);
                    let key = Arc::clone(key);
                    note(state, Check::Unreferenced { key, row });
                }
                ReferentialAction::Restrict => {
                    if !self.children(state, key, before, Lock::Shared)?.is_empty() {
                        return Err(violated(key.still_referenced(table, before)));
                    }
                }
                ReferentialAction::Cascade | ReferentialAction::SetNull => {
                    let set_null = action == ReferentialAction::SetNull;
                    for rid in self.children(state, key, before, Lock::Exclusive)? {
                        let new = after.filter(|_| !set_null);
                        let goes = after.is_none() && !set_null;
                        further.extend(self.change_child(state, key, rid, before, new, goes)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes a row that refers to `before`, which is locked exclusively: it goes, or refers to `new`, or to nothing. None if it has changed
    /// since, by a cascade.
    fn change_child(
        &self,
        state: &mut State,
        key: &ForeignKey,
        rid: Rid,
        before: RowRef<'_>,
        new: Option<RowRef<'_>>,
        goes: bool,
    ) -> Result<Option<Changed>> {
        let child = key.child()?;
        let slot = child.0.slots.slot(rid);
        let newest = state.newest(slot);
        // SAFETY: locked; what the transaction replaces is kept to its end.
        let row = newest.and_then(|version| unsafe { child.0.layouts.row(version) });
        let Some(row) = row.filter(|&row| key.refers(row, before)) else {
            return Ok(None);
        };
        let mut changed = RowBuf::new(child.0.layouts.newest());
        if !goes {
            changed.load(child.0.layouts.newest(), row);
            for (&column, &referenced) in key.columns.iter().zip(&key.index.columns) {
                let value = new.map_or(Value::Null, |new| new.value(referenced));
                changed.set(column, value)?;
            }
        }
        let after = match goes {
            true => None,
            false => Some(changed.whole(child.0.name(), &child.0.layouts)?),
        };
        self.change_alone(state, &child.0, (rid, slot), newest, after, Some(RowMode::S))?;
        let after = slot.newest();
        Ok(Some(Changed {
            table: child.clone(),
            rid,
            before: newest,
            after,
        }))
    }

    /// The rows that refer to a row, each locked; one is enough for who locks shared. The row itself is locked exclusively.
    fn children(
        &self,
        state: &mut State,
        key: &ForeignKey,
        parent: RowRef<'_>,
        lock: Lock,
    ) -> Result<Vec<Rid>> {
        let child = key.child()?;
        let reach = match lock {
            Lock::Shared => Reach::ReadRows,
            Lock::Exclusive => Reach::WriteRows,
        };
        let reach = self.reach(state, &child, reach)?;
        let Some(values) = key.values_of_parent(parent) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let mut look = |state: &mut State, rid: Rid| -> Result<bool> {
            let row = self.lock_and_read(state, &child, rid, lock, reach, NOW)?;
            found.extend(row.filter(|&row| key.refers(row, parent)).map(|_| rid));
            Ok(lock == Lock::Shared && !found.is_empty())
        };
        if let Some((index, values)) = key.index_of_child(&child, &values) {
            let range = index.layout.prefix(&values)?;
            let mut cursor = index.tree.cursor();
            cursor.seek(&range, Direction::Ascending);
            while let Some((_, rid)) = cursor.next(&range, Direction::Ascending) {
                if look(state, rid)? {
                    break;
                }
            }
        } else {
            for rid in self.candidates(state, key, &child, parent)? {
                if look(state, rid)? {
                    break;
                }
            }
        }
        // A row may have several entries.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The rows that refer to a row, among all rows of the child, not locked. All those of others are committed (see `follow_one`), so a snapshot
    /// of now has them.
    fn candidates(
        &self,
        state: &mut State,
        key: &ForeignKey,
        child: &Table,
        parent: RowRef<'_>,
    ) -> Result<Vec<Rid>> {
        let store = &self.session.store;
        let own = Own::new(&store.locks, state.holder.slot(), state.writes.next_change());
        let snapshot = Snapshot::with_own(store, own)?;
        state.seen = state.seen.max(snapshot.ts());
        let rows = snapshot.rows(child, 0..child.rid_end())?;
        let refers = rows.filter(|found| key.refers(found.row, parent));
        Ok(refers.map(|found| found.rid).collect())
    }

    fn check(&self, state: &mut State, check: &Check) -> Result<()> {
        match check {
            Check::Refers { key, child, rid } => {
                let reach = self.reach(state, child, Reach::ReadRows)?;
                let row = self.lock_and_read(state, child, *rid, Lock::Shared, reach, NOW)?;
                match row.and_then(|row| Some((row, key.values_of_child(row)?))) {
                    Some((row, values)) if !self.has_row(state, key, &values)? => {
                        Err(violated(key.missing(child, row)))
                    }
                    _ => Ok(()),
                }
            }
            Check::Unreferenced { key, row } => {
                let row = row.row();
                if self.children(state, key, row, Lock::Shared)?.is_empty() {
                    return Ok(());
                }
                let values = key.values_of_parent(row).unwrap_or_default();
                match self.has_row(state, key, &values)? {
                    true => Ok(()),
                    false => Err(violated(key.still_referenced(&key.parent()?, row))),
                }
            }
        }
    }
}

fn note(state: &mut State, check: Check) {
    let savepoint = state.savepoints;
    state.pending.checks.push(Noted { check, savepoint });
}

#[cold]
fn violated(violation: ForeignKeyViolation) -> StoreError {
    StoreError::ForeignKey(Box::new(violation))
}
