//! [`Garbage`]: what committed transactions left behind, until no snapshot needs it.
//!
//! Three things are left: versions that were replaced, index entries of rows that were deleted or whose key changed, and the
//! slots of deleted rows. Each session keeps its own, in commit order, and clears some of it after each of its transactions.
//! What a session leaves when it ends, or has too much of, goes to the store ([`Orphans`]), where every session helps with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::horizon::{Horizon, unlinked};
use crate::key::Words;
use crate::lock::{Got, Holder, RowMode, RowName};
use crate::log::Log;
use crate::memory::{Memory, Share};
use crate::pool::Pool;
use crate::row::{Layouts, RowRef};
use crate::slots::Rid;
use crate::table::Table;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Most things cleared after one transaction, so that none pays for all: more than one transaction usually leaves.
const CLEAR_MAX: usize = 256;

/// Things a session keeps for itself, so that an idle one does not keep more from being cleared.
const KEPT_MAX: usize = 4 * CLEAR_MAX;

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
    pub(crate) horizon: &'a Horizon,
    pub(crate) memory: &'a Memory,
    pub(crate) pool: &'a Pool,
    pub(crate) worker: usize,
    pub(crate) oldest: Ts,
    /// As `oldest`, and durable: who finds the trace of a deletion must learn of its commit for as long as that may be lost.
    pub(crate) oldest_durable: Ts,
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

    fn len(&self) -> usize {
        self.versions.len() + self.ghosts.len()
    }

    /// Whether there is more than one session should keep.
    pub(crate) fn is_too_much(&self) -> bool {
        self.len() > KEPT_MAX
    }

    /// When the first of its versions, and of its ghosts, may be cleared.
    fn ready(&self) -> (Ts, Ts) {
        let version = self.versions.front().map(|dead| dead.end);
        let ghost = self.ghosts.front().map(|ghost| ghost.end);
        (version.unwrap_or(NEVER), ghost.unwrap_or(NEVER))
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
            unsafe { dead.version.free(Some(with.pool)) };
            self.versions.pop_front();
        }
        // Once each at most: those that cannot be cleared now go to the end.
        for _ in 0..self.ghosts.len().min(CLEAR_MAX) {
            if self
                .ghosts
                .front()
                .is_none_or(|ghost| ghost.end > with.oldest_durable)
            {
                break;
            }
            let ghost = self.ghosts.pop_front().expect("there is a first");
            let slot = ghost.table.0.slots.slot(ghost.rid);
            let name = RowName {
                table: ghost.table.0.id,
                rid: ghost.rid.0,
            };
            // Nobody changes a row that is locked here. Who has it locked may bring the key back, and who has the table locked
            // looks at rows without locks on them: later again.
            let locked = matches!(holder.try_intend(&ghost.table.0.lock), Ok(true))
                && matches!(holder.try_row(name, &slot.lock, RowMode::X), Ok(Some(Got::New)));
            let cleared = if locked {
                clear(&ghost, with)
            } else {
                Cleared::Later
            };
            holder.release_all(|_| &slot.lock);
            match cleared {
                Cleared::Done => {}
                Cleared::Later => self.ghosts.push_back(ghost),
                Cleared::Emptied(version) => {
                    let table = &ghost.table.0;
                    table.row_bytes.add(with.worker, -(version.bytes() as i64));
                    if with.horizon.is_clear() {
                        share.give(with.memory, version.bytes());
                        // SAFETY: it was taken out of its slot, which owned it, and nobody reads without a lock now.
                        unsafe { version.free(Some(with.pool)) };
                    } else {
                        // A snapshot may just be reading that it says "deleted".
                        self.push_version(version, unlinked(|| with.log.last()));
                    }
                    table.slots.give(with.worker, ghost.rid);
                }
            }
        }
    }
}

/// What came of a ghost.
enum Cleared {
    Done,
    /// It cannot be cleared just now.
    Later,
    /// The last version of a slot that is free now.
    Emptied(VersionPtr),
}

/// Clears one ghost whose row is locked.
fn clear(ghost: &Ghost, with: &Clearing<'_>) -> Cleared {
    let table = &ghost.table.0;
    let slot = table.slots.slot(ghost.rid);
    let newest = slot.newest();
    match &ghost.index {
        Some((number, key)) => {
            let Some(index) = table.index(usize::from(*number)) else {
                return Cleared::Done;
            };
            match is_needed(&table.layouts, newest, with, |row| {
                index.layout.of_row(row) == *key
            }) {
                None => Cleared::Later,
                Some(true) => Cleared::Done,
                Some(false) => {
                    index.tree.remove(key, ghost.rid);
                    Cleared::Done
                }
            }
        }
        None => {
            let seen_by_all = |version: &VersionPtr| version.committed().is_some_and(|ts| ts <= with.oldest);
            match newest.filter(|version| version.is_deleted() && seen_by_all(version)) {
                None => Cleared::Done,
                Some(deleted) => {
                    slot.set(None);
                    Cleared::Emptied(deleted)
                }
            }
        }
    }
}

/// Whether a state of a locked row that somebody may still look at has the key: the states down to the first that all snapshots
/// see. None if that cannot be told just now.
fn is_needed(
    layouts: &Layouts,
    newest: Option<VersionPtr>,
    with: &Clearing<'_>,
    has_key: impl Fn(RowRef<'_>) -> bool,
) -> Option<bool> {
    let Some(newest) = newest else {
        return Some(false);
    };
    // SAFETY: the row's lock keeps its newest version.
    if unsafe { layouts.row(newest) }.is_some_and(&has_key) {
        return Some(true);
    }
    let seen_by_all = |version: VersionPtr, oldest: Ts| version.committed().is_some_and(|ts| ts <= oldest);
    if seen_by_all(newest, with.oldest) {
        return Some(false);
    }
    // The row was changed meanwhile. Other sessions may know a newer horizon and be freeing its older states.
    let floor = || with.horizon.floor(|| with.log.last(), || with.log.durable());
    let pin = with.horizon.pin(floor)?;
    let mut version = newest;
    while !seen_by_all(version, pin.oldest()) {
        let Some(previous) = version.previous() else {
            break;
        };
        // What a transaction replaced itself nobody has seen, and it leaves no ghost of its own.
        let passing = previous.committed() == version.committed();
        version = previous;
        // SAFETY: it was replaced by a version that is newer than the pin's horizon, and such are kept while the pin is there.
        if !passing && unsafe { layouts.row(version) }.is_some_and(&has_key) {
            return Some(true);
        }
    }
    Some(false)
}

/// No timestamp is that late.
const NEVER: Ts = Ts(u64::MAX);

/// Garbage without a session, in the order in which it came.
pub(crate) struct Orphans {
    parts: Mutex<VecDeque<Garbage>>,
    /// What must be passed before a version, or a ghost, of the first part may be cleared.
    ready: (AtomicU64, AtomicU64),
}

impl Default for Orphans {
    fn default() -> Self {
        Orphans {
            parts: Mutex::default(),
            ready: (AtomicU64::new(NEVER.0), AtomicU64::new(NEVER.0)),
        }
    }
}

impl Orphans {
    /// Takes garbage over.
    pub(crate) fn put(&self, garbage: Garbage) {
        if garbage.is_empty() {
            return;
        }
        let mut parts = self.parts.lock();
        match parts.back_mut() {
            Some(last) if last.len() + garbage.len() <= KEPT_MAX => last.append(garbage),
            _ => parts.push_back(garbage),
        }
        self.note(&parts);
    }

    /// Whether there is nothing to take. A hint, as in [`Orphans::take`].
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let (version, ghost) = (&self.ready.0, &self.ready.1);
        version.load(Ordering::Relaxed).min(ghost.load(Ordering::Relaxed)) == NEVER.0
    }

    /// Hands a part out of which something may be cleared. What is left of it is to be put back.
    #[inline]
    pub(crate) fn take(&self, oldest: Ts, oldest_durable: Ts) -> Option<Garbage> {
        // Relaxed: a hint. Who misses garbage now sees it after a later transaction.
        let (version, ghost) = (&self.ready.0, &self.ready.1);
        if version.load(Ordering::Relaxed) > oldest.0 && ghost.load(Ordering::Relaxed) > oldest_durable.0 {
            return None;
        }
        let mut parts = self.parts.lock();
        let part = parts.pop_front();
        self.note(&parts);
        part
    }

    fn note(&self, parts: &VecDeque<Garbage>) {
        let (version, ghost) = parts.front().map_or((NEVER, NEVER), Garbage::ready);
        self.ready.0.store(version.0, Ordering::Relaxed);
        self.ready.1.store(ghost.0, Ordering::Relaxed);
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        // Only when the store itself ends: sessions hand theirs over.
        for dead in self.versions.drain(..) {
            // SAFETY: no session and no snapshot is left.
            unsafe { dead.version.free(None) };
        }
    }
}
