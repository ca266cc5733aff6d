//! The key of a row that is referred to, locked without its row: so the row's other columns may be updated meanwhile, as PostgreSQL's
//! `FOR KEY SHARE` allows.
//!
//! ```text
//! who refers     registers the interval of the key in the parent's index ─► looks at the row: has it the key, whatever becomes of it?
//!                if that depends on a transaction that goes on: waits for the row
//! who takes it   changes the row (locked exclusively) ─► waits for those who have registered the key ─► looks for rows that refer to it
//! ```
//!
//! It is what [`RangeLocks`](crate::lock::RangeLocks) do for those who add keys: either the one who refers sees the change, or the one who
//! changes sees the interval. A row that is not locked has the key for good if its newest committed version and all that are not committed
//! yet have it: whichever of them stays, when a transaction commits, aborts or goes back to a savepoint; and who takes the key away later waits.

use super::ForeignKey;
use crate::error::{Result, StoreError};
use crate::key::Exact;
use crate::known::Reach;
use crate::log::Log;
use crate::row::RowRef;
use crate::session::State;
use crate::slots::{Rid, Slot};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{Direction, Lock, NOW, Transaction};
use crate::value::Value;
use crate::version::VersionPtr;

/// Whether a row has a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Yes,
    No,
    /// It depends on a transaction that goes on.
    Depends,
}

impl ForeignKey {
    fn is_of(&self, row: RowRef<'_>, key: &Exact) -> bool {
        let layout = &self.index.layout;
        layout.of_row(row) == key.words && layout.is_of(row, key)
    }

    /// Whether a row has the key, for who has registered the key's interval. The snapshot is open, so that versions stay.
    fn look(&self, state: &State, parent: &Table, slot: &Slot, key: &Exact, _open: &Snapshot) -> Has {
        let has = |version: VersionPtr| {
            // SAFETY: versions that are in the slot while a snapshot is open, and those under them up to the newest that is committed, are
            // not freed before it is dropped.
            let row = unsafe { parent.0.layouts.row(version) };
            row.is_some_and(|row| self.is_of(row, key))
        };
        let mine = slot.lock.is_owned_by(state.holder.slot());
        let mut version = slot.newest();
        let newest = version.is_some_and(has);
        while let Some(uncommitted) = version.filter(|version| !mine && version.committed().is_none()) {
            version = uncommitted.previous();
            if version.is_some_and(has) != newest {
                return Has::Depends;
            }
        }
        match newest {
            true => Has::Yes,
            false => Has::No,
        }
    }
}

impl Transaction<'_> {
    /// Whether the parent has a row of the key. If so, nobody takes the key from it before the transaction ends; else nobody adds one.
    pub(super) fn has_row(&self, state: &mut State, key: &ForeignKey, values: &[Value<'_>]) -> Result<bool> {
        let parent = key.parent()?;
        let reach = self.reach(state, &parent, Reach::ReadRows)?;
        let Some(exact) = key.index.layout.exact(values)? else {
            return Ok(false);
        };
        if reach < Reach::Read {
            state
                .holder
                .range(&key.index.ranges, &exact.words, &exact.words)?;
        }
        let snapshot = match Snapshot::new(&self.session.store, Log::last) {
            Ok(snapshot) => Some(snapshot),
            // Without one rows are locked.
            Err(StoreError::TooManySnapshots { .. }) => None,
            Err(error) => return Err(error),
        };
        let range = exact.range();
        let mut cursor = key.index.tree.cursor();
        cursor.seek(&range, Direction::Ascending);
        while let Some((_, rid)) = cursor.next(&range, Direction::Ascending) {
            let slot = parent.0.slots.slot(rid);
            let open = snapshot.as_ref();
            let has = open.map_or(Has::Depends, |open| key.look(state, &parent, slot, &exact, open));
            if has == Has::Yes
                || has == Has::Depends && self.has_key(state, key, &parent, rid, &exact, reach)?
            {
                // It commits behind the commit that made the row so.
                state.seen = open.map_or(state.seen, |open| state.seen.max(open.ts()));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a row has the key, once it is locked.
    fn has_key(
        &self,
        state: &mut State,
        key: &ForeignKey,
        parent: &Table,
        rid: Rid,
        exact: &Exact,
        reach: Reach,
    ) -> Result<bool> {
        let row = self.lock_and_read(state, parent, rid, Lock::Shared, reach, NOW)?;
        Ok(row.is_some_and(|row| key.is_of(row, exact)))
    }
}
