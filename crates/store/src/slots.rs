//! [`Slots`]: the rows of a table by their [`Rid`]s.
//!
//! ```text
//! directory             chunks: the first two of 1,024 slots, each further one as large as all before it, never moved
//! ┌───┬───┬───┬───┐    ┌──────┬─────────┬──────┬─────────┬───
//! │ ● │ ● │   │...│ ┌─►│ lock │ newest  │ lock │ newest  │ ...    16 bytes a slot; pages are touched when used
//! └─┼─┴───┴───┴───┘ │  └──────┴─────────┴──────┴─────────┴───
//!   └───────────────┘
//! ```
//!
//! Rids that are free again are kept in lists by worker, so that workers seldom meet; what a list has too many of goes through
//! a pool to the others, since the worker that deletes may not be the one that inserts.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use corun_exec::huge::ask_for_huge_pages;
use corun_exec::prefetch::prefetch_read;
use parking_lot::Mutex;

use crate::lock::LockWord;
use crate::version::{Version, VersionPtr, as_raw};

/// Names a row of a table, for as long as the row exists. Stays the same over restarts.
///
/// A rid is used again: once a row is deleted and neither a snapshot nor a transaction sees it any more, another row gets its number.
/// Beyond a transaction keep keys. (A program that never deletes rows may keep rids.)
///
/// It turns into a number and back:
///
/// ```
/// use corun_store::Rid;
///
/// let rid = Rid::from(7);
/// assert_eq!((u32::from(rid), u64::from(rid)), (7, 7));
/// assert_eq!(Rid::try_from(7_u64)?, rid);
/// assert!(Rid::try_from(1_u64 << 32).is_err());
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rid(pub u32);

impl From<u32> for Rid {
    fn from(number: u32) -> Self {
        Rid(number)
    }
}

impl TryFrom<u64> for Rid {
    type Error = std::num::TryFromIntError;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        number.try_into().map(Rid)
    }
}

impl From<Rid> for u32 {
    fn from(rid: Rid) -> Self {
        rid.0
    }
}

impl From<Rid> for u64 {
    fn from(rid: Rid) -> Self {
        rid.0.into()
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Slots of the first chunk.
const FIRST_BITS: u32 = 10;
const CHUNKS: usize = 1 + 32 - FIRST_BITS as usize;
/// Fresh or pooled rids a worker takes at once.
const BATCH: u32 = 64;
/// Free rids a worker keeps for itself.
const KEPT: usize = 4 * BATCH as usize;
/// Rids there can be: the last is kept free.
const RIDS_MAX: u32 = u32::MAX;

/// One row's place.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) lock: LockWord,
    newest: AtomicPtr<Version>,
}

impl Slot {
    /// The newest version.
    #[inline]
    pub(crate) fn newest(&self) -> Option<VersionPtr> {
        // Acquire: pairs with `set`, so that the version's head and bytes are seen.
        VersionPtr::from_raw(self.newest.load(Ordering::Acquire))
    }

    /// Asks the caches for the newest version and the first `bytes` of its row, as it is now: it may be gone. Returns its address.
    #[inline]
    pub(crate) fn ask_newest(&self, bytes: usize) -> *const u8 {
        let newest = self.newest();
        newest.map_or(std::ptr::null(), |version| version.ask_first(bytes))
    }

    /// Only called by who holds the row's lock exclusively.
    #[inline]
    pub(crate) fn set(&self, version: Option<VersionPtr>) {
        self.newest.store(as_raw(version), Ordering::Release);
    }
}

/// Number of a rid's chunk and its place there.
#[inline]
fn place(rid: u32) -> (usize, usize) {
    let chunk = u32::BITS - (rid >> FIRST_BITS).leading_zeros();
    let first = if chunk == 0 {
        0
    } else {
        1 << (chunk - 1 + FIRST_BITS)
    };
    (chunk as usize, (rid - first) as usize)
}

/// Slots of a chunk.
fn chunk_slots(chunk: usize) -> usize {
    1 << (chunk.saturating_sub(1) + FIRST_BITS as usize)
}

/// Free rids of one worker, on a line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Free(Mutex<Vec<u32>>);

/// All rows of a table.
#[derive(Debug)]
pub(crate) struct Slots {
    directory: [OnceLock<Box<[Slot]>>; CHUNKS],
    /// Rids below were handed out at least once.
    end: AtomicU32,
    free: Box<[Free]>,
    pool: Mutex<Vec<u32>>,
    /// Length of the pool, so that an empty one costs no mutex.
    pooled: AtomicUsize,
}

impl Slots {
    pub(crate) fn new(workers: usize) -> Self {
        Slots {
            directory: std::array::from_fn(|_| OnceLock::new()),
            end: AtomicU32::new(0),
            free: (0..workers.max(1)).map(|_| Free::default()).collect(),
            pool: Mutex::default(),
            pooled: AtomicUsize::new(0),
        }
    }

    /// The slot of a rid that was handed out.
    ///
    /// # Panics
    /// If it was not.
    #[inline]
    pub(crate) fn slot(&self, rid: Rid) -> &Slot {
        self.find(rid).expect("the rid was handed out")
    }

    /// The slot of any rid.
    #[inline]
    pub(crate) fn find(&self, rid: Rid) -> Option<&Slot> {
        let (chunk, at) = place(rid.0);
        self.directory[chunk].get()?.get(at)
    }

    /// Asks the caches for a slot.
    #[inline]
    pub(crate) fn ask(&self, rid: Rid) {
        if let Some(slot) = self.find(rid) {
            prefetch_read(slot);
        }
    }

    /// Asks the caches for the newest version of a slot and the first `bytes` of its row. Nothing of it is read: it may be gone.
    #[inline]
    pub(crate) fn ask_row(&self, rid: Rid, bytes: usize) {
        if let Some(version) = self.find(rid).and_then(Slot::newest) {
            version.ask(bytes);
        }
    }

    /// A rid nobody uses. None when there are no more.
    pub(crate) fn take(&self, worker: usize) -> Option<Rid> {
        let mut free = self.free[worker % self.free.len()].0.lock();
        if free.is_empty() && self.pooled.load(Ordering::Relaxed) > 0 {
            let mut pool = self.pool.lock();
            let rest = pool.len().saturating_sub(BATCH as usize);
            free.extend(pool.drain(rest..));
            self.pooled.store(rest, Ordering::Relaxed);
        }
        match free.pop() {
            Some(rid) => Some(Rid(rid)),
            None => self.fresh(&mut free),
        }
    }

    /// A rid nobody has used, though others may be free. None when there are no more.
    pub(crate) fn take_fresh(&self, worker: usize) -> Option<Rid> {
        self.fresh(&mut self.free[worker % self.free.len()].0.lock())
    }

    fn fresh(&self, free: &mut Vec<u32>) -> Option<Rid> {
        let first = self
            .end
            .try_update(Ordering::AcqRel, Ordering::Relaxed, |end| {
                (end < RIDS_MAX - BATCH).then_some(end + BATCH)
            })
            .ok()?;
        self.chunk(first);
        // Popped from the end: in ascending order.
        free.extend((first + 1..first + BATCH).rev());
        Some(Rid(first))
    }

    /// Gives a rid back whose slot holds no version.
    pub(crate) fn give(&self, worker: usize, rid: Rid) {
        let mut free = self.free[worker % self.free.len()].0.lock();
        free.push(rid.0);
        if free.len() > KEPT {
            self.put_in_pool(free.drain(..BATCH as usize));
        }
    }

    fn put_in_pool(&self, rids: impl Iterator<Item = u32>) {
        let mut pool = self.pool.lock();
        pool.extend(rids);
        self.pooled.store(pool.len(), Ordering::Relaxed);
    }

    /// The slot of a rid read from a file, made if need be. For recovery.
    pub(crate) fn claim(&self, rid: Rid) -> Option<&Slot> {
        if rid.0 >= RIDS_MAX - BATCH {
            return None;
        }
        self.chunk(rid.0);
        let end = (rid.0 / BATCH + 1) * BATCH;
        // Nearly always there: threads that read different rows need not pass the line to and fro.
        if self.end.load(Ordering::Relaxed) < end {
            self.end.fetch_max(end, Ordering::AcqRel);
        }
        self.find(rid)
    }

    /// Frees the row of a rid read from a file, while its reader alone has the row: for recovery. False if there is none.
    pub(crate) fn clear_now(&self, rid: Rid) -> bool {
        let slot = self.find(rid);
        let Some((slot, version)) = slot.and_then(|slot| Some((slot, slot.newest()?))) else {
            return false;
        };
        slot.set(None);
        // SAFETY: one thread alone has the row, and nobody else knows its version.
        unsafe { version.free(None) };
        true
    }

    fn chunk(&self, rid: u32) {
        let (chunk, _) = place(rid);
        self.directory[chunk].get_or_init(|| {
            let slots = Box::<[Slot]>::new_zeroed_slice(chunk_slots(chunk));
            ask_for_huge_pages(&slots);
            // SAFETY: a free lock word and a null pointer are zeros: see `a_slot_of_zeros_is_a_free_one`.
            unsafe { slots.assume_init() }
        });
    }

    /// Rids from here on were never handed out.
    pub(crate) fn end(&self) -> u32 {
        self.end.load(Ordering::Acquire)
    }

    /// After recovery: hands all slots without a version to the pool. Returns the number of the others.
    pub(crate) fn sweep(&self) -> u64 {
        let (mut rows, mut free) = (0, Vec::new());
        for rid in (0..self.end()).rev() {
            match self.find(Rid(rid)).and_then(Slot::newest) {
                Some(_) => rows += 1,
                None => {
                    self.chunk(rid);
                    free.push(rid);
                }
            }
        }
        self.put_in_pool(free.into_iter());
        rows
    }

    /// Bytes of all newest versions, while nobody changes them.
    pub(crate) fn version_bytes(&self) -> u64 {
        let versions = (0..self.end()).filter_map(|rid| self.find(Rid(rid))?.newest());
        versions.map(|version| version.bytes() as u64).sum()
    }

    /// Frees all newest versions. Returns their bytes.
    pub(crate) fn free_versions(&mut self) -> u64 {
        let mut bytes = 0;
        for chunk in &mut self.directory {
            for slot in chunk.take().into_iter().flatten() {
                if let Some(version) = slot.newest() {
                    bytes += version.bytes() as u64;
                    // SAFETY: the slot owned its newest version, and nobody has the table any more.
                    unsafe { version.free(None) };
                }
            }
        }
        bytes
    }

    /// Bytes of memory, versions apart.
    pub(crate) fn bytes(&self) -> usize {
        self.end() as usize * size_of::<Slot>() + size_of::<Self>()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.free_versions();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_slot_of_zeros_is_a_free_one() {
        let slot = Slot::default();
        assert!(slot.newest().is_none());
        // SAFETY: a slot has no padding; it is read as bytes while nobody writes it.
        let bytes: [u8; 16] = unsafe { std::mem::transmute(slot) };
        assert_eq!(bytes, [0; 16]);
    }

    #[test]
    fn every_rid_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for rid in 0..100_000 {
            assert_eq!(place(rid), expected);
            expected.1 += 1;
            if expected.1 == chunk_slots(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (chunk, at) = place(u32::MAX);
        assert!(chunk < CHUNKS && at < chunk_slots(chunk));
    }

    #[test]
    fn rids_are_handed_out_once_and_again_after_they_were_given_back() {
        let slots = Slots::new(2);
        let taken: HashSet<u32> = (0..1000).map(|at| slots.take(at % 2).unwrap().0).collect();
        assert_eq!(taken.len(), 1000);
        slots.give(1, Rid(77));
        assert_eq!(slots.take(1), Some(Rid(77)));
        assert!(slots.slot(Rid(999)).newest().is_none());
        assert!(slots.find(Rid(1 << 20)).is_none());
    }

    #[test]
    fn a_worker_uses_what_another_gave_back() {
        let slots = Slots::new(2);
        let taken: Vec<Rid> = (0..1000).map(|_| slots.take(0).unwrap()).collect();
        let end = slots.end();
        taken.iter().for_each(|rid| slots.give(1, *rid));
        let again: HashSet<Rid> = (0..700).map(|_| slots.take(0).unwrap()).collect();
        assert_eq!((again.len(), slots.end()), (700, end));
        assert!(again.iter().all(|rid| rid.0 < end));
    }

    #[test]
    fn rids_end_with_an_error_that_says_so() {
        let slots = Slots::new(1);
        slots.end.store(RIDS_MAX - BATCH, Ordering::Relaxed);
        assert_eq!((slots.take(0), slots.take_fresh(0)), (None, None));
        slots.give(0, Rid(5));
        assert_eq!(slots.take(0), Some(Rid(5)));
        let table = "t".to_owned();
        assert_eq!(
            crate::StoreError::TooManyRows { table }.to_string(),
            "table \"t\" has as many rows as a table can have (2^32)"
        );
    }

    #[test]
    fn recovery_finds_free_slots() {
        let slots = Slots::new(1);
        slots
            .claim(Rid(130))
            .unwrap()
            .set(VersionPtr::new(None, None, Some(b"row"), 0, 0));
        assert!(slots.claim(Rid(u32::MAX)).is_none());
        assert_eq!(slots.sweep(), 1);
        let taken: HashSet<u32> = (0..191).map(|_| slots.take(0).unwrap().0).collect();
        assert!(!taken.contains(&130));
        assert_eq!(taken.iter().max(), Some(&191));
    }
}
