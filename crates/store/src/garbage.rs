//! [`Garbage`]: what committed transactions left behind, until no snapshot needs it.
//!
//! Three things are left: versions that were replaced, index entries of rows that were deleted or whose key changed, and the
//! slots of deleted rows. Each session keeps its own, in commit order, and clears some of it after each of its transactions;
//! what a session leaves when it ends goes to the store, where every session helps with it.

use std::collections::VecDeque;

use crate::key::Words;
use crate::lock::{Got, Holder, RowMode, RowName};
use crate::log::Log;
use crate::memory::{Memory, Share};
use crate::row::RowRef;
use crate::slots::Rid;
use crate::table::Table;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Most things cleared after one transaction, so that none pays for all: more than one transaction usually leaves.
const CLEAR_MAX: usize = 256;

/// A version nobody is led to any more.
#[derive(Clone, Copy, Debug)]
struct Dead {
    version: VersionPtr,
    /// Snapshots of this timestamp and later do not see it.
    end: Ts,
}

/// An index entry (or a slot, if `index` is none) that no later row state needs.
pub(crate) struct Ghost {
    pub(crate) table: Table,
    pub(crate) index: Option<(u8, Words)>,
    pub(crate) rid: Rid,
    pub(crate) end: Ts,
}

/// Things to clear, in the order in which they may be.
#[derive(Default)]
pub(crate) struct Garbage {
    versions: VecDeque<Dead>,
    ghosts: VecDeque<Ghost>,
}

/// What clearing needs of the store.
pub(crate) struct Clearing<'a> {
    pub(crate) log: &'a Log,
    pub(crate) memory: &'a Memory,
    pub(crate) worker: usize,
    pub(crate) oldest: Ts,
}

impl Garbage {
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.ghosts.is_empty()
    }

    pub(crate) fn push_version(&mut self, version: VersionPtr, end: Ts) {
        self.versions.push_back(Dead { version, end });
    }

    pub(crate) fn push_ghost(&mut self, ghost: Ghost) {
        self.ghosts.push_back(ghost);
    }

    /// Takes over another's.
    pub(crate) fn append(&mut self, mut other: Garbage) {
        self.versions.append(&mut other.versions);
        self.ghosts.append(&mut other.ghosts);
    }

    /// Clears what can be. `holder` has no transaction now.
    pub(crate) fn clear(&mut self, with: &Clearing<'_>, holder: &mut Holder, share: &mut Share) {
        for _ in 0..CLEAR_MAX {
            let Some(dead) = self.versions.front().filter(|dead| dead.end <= with.oldest) else {
                break;
            };
            share.give(with.memory, dead.version.bytes());
            // SAFETY: it is in this list only; its slot names a newer version, and every open or future snapshot sees that or a
            // still newer one, so nobody is led here.
            unsafe { dead.version.free() };
            self.versions.pop_front();
        }
        for _ in 0..CLEAR_MAX {
            if self.ghosts.front().is_none_or(|ghost| ghost.end > with.oldest) {
                break;
            }
            let ghost = self.ghosts.pop_front().expect("there is a first");
            let slot = ghost.table.0.slots.slot(ghost.rid);
            let name = RowName {
                table: ghost.table.0.id,
                rid: ghost.rid.0,
            };
            // Nobody changes a row that is locked here. Who has it locked may bring the key back: later again.
            if !matches!(holder.try_row(name, &slot.lock, RowMode::X), Ok(Some(Got::New))) {
                self.ghosts.push_back(ghost);
                continue;
            }
            let emptied = clear(&ghost, with);
            holder.release_all(|_| &slot.lock);
            if let Some(version) = emptied {
                // A snapshot may just be reading that it says "deleted".
                self.push_version(version, with.log.last().next());
                ghost.table.0.slots.give(with.worker, ghost.rid);
            }
        }
    }
}

/// Clears one ghost whose row is locked. Returns the last version of a slot that is free now.
fn clear(ghost: &Ghost, with: &Clearing<'_>) -> Option<VersionPtr> {
    let table = &ghost.table.0;
    let slot = table.slots.slot(ghost.rid);
    let newest = slot.newest();
    match &ghost.index {
        Some((number, key)) => {
            let index = table.index(usize::from(*number))?;
            // The states of the row somebody may still look at: down to the first that all snapshots see.
            let mut state = newest;
            while let Some(version) = state {
                // SAFETY: the newest version is kept by the row's lock, older ones down to the first that is committed and seen
                // by all by the rule that nothing newer is freed.
                let row = unsafe { version.row() };
                if row.is_some_and(|row| index.layout.of_row(RowRef::new(&table.layout, row)) == *key) {
                    return None;
                }
                let seen_by_all = version.committed().is_some_and(|ts| ts <= with.oldest);
                state = if seen_by_all { None } else { version.previous() };
            }
            index.tree.remove(key, ghost.rid);
            None
        }
        None => {
            let deleted = newest.filter(|version| {
                version.is_deleted() && version.committed().is_some_and(|ts| ts <= with.oldest)
            })?;
            slot.set(None);
            Some(deleted)
        }
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        // Only when the store itself ends: sessions hand theirs over.
        for dead in self.versions.drain(..) {
            // SAFETY: no session and no snapshot is left.
            unsafe { dead.version.free() };
        }
    }
}
