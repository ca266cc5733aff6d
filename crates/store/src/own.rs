//! [`Own`]: which versions a transaction has written, for its snapshots.
//!
//! ```text
//!   slot ─► newest: not committed, and the row is locked by the transaction? ─► its own; the newest from before the snapshot is shown
//!              │ else
//!              └──► the newest that was committed up to the snapshot's timestamp
//! ```
//!
//! A snapshot may be read by other threads, and longer than its transaction lasts. What it then shows of others is committed all the same, by
//! [`Own::written`]; each call that begins to read says so by [`Own::stands`].

use crate::lock::Locks;
use crate::slots::Slot;
use crate::table::TableInner;
use crate::version::VersionPtr;

/// What a transaction has written up to one moment.
#[derive(Debug)]
pub(crate) struct Own {
    /// Of its session.
    slot: u32,
    /// The session's change that would be next.
    since: u64,
    /// As the locks count the slot's transactions.
    turns: u64,
}

impl Own {
    pub(crate) fn new(locks: &Locks, slot: u32, since: u64) -> Own {
        Own {
            slot,
            since,
            turns: locks.turns(slot),
        }
    }

    /// Whether the transaction goes on.
    pub(crate) fn stands(&self, locks: &Locks) -> bool {
        locks.turns(self.slot) == self.turns
    }

    /// Whether the transaction has changed definitions of a table.
    #[inline]
    pub(crate) fn has_defined(&self, table: &TableInner) -> bool {
        table.definer().is_of(self.slot)
    }

    /// The version that the transaction had made of a row at that moment, if any. `newest` was read from the slot.
    ///
    /// A version that is in the slot after the row was seen to be the session's, and is not committed, the session has made: another would
    /// have committed it or taken it out before it let go of the row, and a snapshot that is open keeps its address from being used again.
    /// The slot's turn, read last, says that it is still the same session's, in the same transaction.
    #[inline]
    pub(crate) fn written(&self, locks: &Locks, slot: &Slot, mut newest: VersionPtr) -> Option<VersionPtr> {
        loop {
            if newest.committed().is_some() || !slot.lock.is_owned_by(self.slot) {
                return None;
            }
            let again = slot.newest()?;
            if again == newest {
                break;
            }
            // The transaction has just changed the row.
            newest = again;
        }
        if !self.stands(locks) {
            return None;
        }
        let mut version = newest;
        while version.is_made_since(self.since) {
            version = version.previous()?;
        }
        version.committed().is_none().then_some(version)
    }
}
