//! [`Node`]: whole cache lines of atomic words, read without locks and written under one.
//!
//! ```text
//!            0           8            16                      16 + 8·W·CAPACITY
//!            ┌───────────┬────────────┬──────────────────────┬───────────────────┐
//! leaf       │ version   │ unused     │ keys, W words each   │ RIDs, 4 bytes each│
//! inner node │ version   │ children ──┼─▶ separators' keys   │ separators' RIDs  │
//!            └───────────┴────────────┴──────────────────────┴───────────────────┘
//! version:  │ changes: 53 bits │ entries or separators: 8 bits │ leaf │ obsolete │ locked │
//! ```
//!
//! An inner node of n separators has n + 1 children side by side in one group. Child i holds the entries above separator
//! i - 1 up to and including separator i. Slots behind the last hold the largest pair, so that a search looks at every slot,
//! used or not, and branches on none.
//!
//! A version word is a sequence lock. A reader takes the version ([`Node::stable`], Acquire), reads what it likes (Relaxed)
//! and believes it only when [`Node::validate`] (an Acquire fence, then a reload) sees the same version. A writer sets the
//! lock bit (Acquire, then a Release fence, so that whoever sees one of its writes also sees the bit), writes (Relaxed) and
//! publishes a new version (Release). Every shared word is an atomic: whatever a reader meets, there is no data race.
//!
//! Two promises hold for the place a node lies in. It stays a leaf, or an inner node. And while the node is not obsolete, the
//! range of pairs it is responsible for never gets smaller: what splits or moves goes to a new place, and the old one is
//! marked obsolete. So a way down needs one validation a level, and none of the level above.
//!
//! What it is not: it decides nothing about the tree, and frees nothing.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crossbeam_epoch::Guard;

use super::{Key, Pair, Stop};
use crate::prefetch::{LINE_BYTES, prefetch_read};

/// The numbers of a node with keys of `W` words.
pub(super) struct Shape<const W: usize>;

impl<const W: usize> Shape<W> {
    /// Cache lines of a node. See [`SharedCsbTree`](super::SharedCsbTree) for what was measured.
    pub(super) const LINES: usize = match W {
        1 => 4,
        2 => 5,
        4 => 8,
        8 => 12,
        _ => panic!("keys have 1, 2, 4 or 8 words"),
    };
    /// Bytes of a node.
    pub(super) const BYTES: usize = Self::LINES * LINE_BYTES;
    /// Where the keys begin.
    const KEYS: usize = 16;
    /// Most entries of a leaf and most separators of an inner node.
    pub(super) const CAPACITY: usize = (Self::BYTES - Self::KEYS) / (8 * W + 4);
    /// Most children of an inner node.
    pub(super) const CHILDREN: usize = Self::CAPACITY + 1;
    /// Where the RIDs begin.
    const RIDS: usize = Self::KEYS + Self::CAPACITY * 8 * W;
}

/// The largest pair; unused slots hold it.
pub(super) fn largest<const W: usize>() -> Pair<W> {
    ([u64::MAX; W], u32::MAX)
}

/// What a version word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    const LOCKED: u64 = 1;
    const OBSOLETE: u64 = 2;
    const LEAF: u64 = 4;
    const COUNT_SHIFT: u32 = 3;
    const COUNT_MASK: u64 = 0xff << Self::COUNT_SHIFT;
    const CHANGE: u64 = 1 << 11;

    /// The first version of a node.
    pub(super) fn first(leaf: bool, count: usize) -> Self {
        Version((count as u64) << Self::COUNT_SHIFT | if leaf { Self::LEAF } else { 0 })
    }

    /// Entries of a leaf or separators of an inner node; at most the capacity.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        ((self.0 & Self::COUNT_MASK) >> Self::COUNT_SHIFT) as usize
    }

    /// Is it a leaf?
    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & Self::LEAF != 0
    }

    #[inline(always)]
    fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    #[inline(always)]
    fn is_obsolete(self) -> bool {
        self.0 & Self::OBSOLETE != 0
    }

    /// The version after a change that leaves so many slots in use.
    fn after(self, count: usize) -> Self {
        let rest = self.0.wrapping_add(Self::CHANGE) & !Self::COUNT_MASK;
        Version(rest | (count as u64) << Self::COUNT_SHIFT)
    }
}

/// Waits for another thread: a few spins, then the processor is given away, as threads may outnumber cores.
#[derive(Default)]
pub(super) struct Patience {
    waits: u32,
}

impl Patience {
    /// Spins before a wait gives the processor away. Unmeasured; a lock is held for tens of nanoseconds.
    const SPINS: u32 = 32;

    /// Waits a moment.
    #[cold]
    pub(super) fn wait(&mut self) {
        if cfg!(miri) || self.waits >= Self::SPINS {
            std::thread::yield_now();
        } else {
            self.waits += 1;
            std::hint::spin_loop();
        }
    }
}

/// A node that is not freed as long as the guard lives.
pub(super) struct Node<'g, const W: usize> {
    pointer: NonNull<u8>,
    guard: PhantomData<&'g Guard>,
}

impl<const W: usize> Clone for Node<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const W: usize> Copy for Node<'_, W> {}

impl<const W: usize> PartialEq for Node<'_, W> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<'g, const W: usize> Node<'g, W> {
    /// The node at an address.
    ///
    /// # Safety
    /// It must be 64-byte aligned with [`Shape::BYTES`] bytes behind it, written as a node, and stay so as long as the guard
    /// lives; nobody may access it but through `Node`.
    #[inline(always)]
    pub(super) unsafe fn at(address: *mut u8) -> Self {
        debug_assert!(!address.is_null() && address.addr().is_multiple_of(LINE_BYTES));
        // SAFETY: the caller's promise.
        let pointer = unsafe { NonNull::new_unchecked(address) };
        Node {
            pointer,
            guard: PhantomData,
        }
    }

    #[inline(always)]
    fn word(&self, byte: usize) -> &AtomicU64 {
        debug_assert!(byte.is_multiple_of(8) && byte + 8 <= Shape::<W>::RIDS);
        // SAFETY: an aligned word inside the node, which lives and is only accessed through such atomics.
        unsafe { self.pointer.add(byte).cast::<AtomicU64>().as_ref() }
    }

    #[inline(always)]
    fn version(&self) -> &AtomicU64 {
        self.word(0)
    }

    #[inline(always)]
    fn children_word(&self) -> &AtomicPtr<u8> {
        // SAFETY: the second word of the node, aligned for a pointer; it is only accessed here.
        unsafe { self.pointer.add(8).cast::<AtomicPtr<u8>>().as_ref() }
    }

    #[inline(always)]
    fn key_word(&self, slot: usize, word: usize) -> &AtomicU64 {
        self.word(Shape::<W>::KEYS + (slot * W + word) * 8)
    }

    #[inline(always)]
    fn rid_word(&self, slot: usize) -> &AtomicU32 {
        debug_assert!(slot < Shape::<W>::CAPACITY);
        // SAFETY: slots are below the capacity, so this is an aligned half word among the node's RIDs, only accessed here.
        unsafe {
            self.pointer
                .add(Shape::<W>::RIDS + slot * 4)
                .cast::<AtomicU32>()
                .as_ref()
        }
    }

    /// Asks for all lines of a node that may lie here.
    #[inline(always)]
    pub(super) fn prefetch(address: *const u8) {
        for line in 0..Shape::<W>::LINES {
            prefetch_read(address.wrapping_add(line * LINE_BYTES));
        }
    }

    // Reading. What these return means something only after `validate`, or under the lock.

    /// The version, once nobody writes.
    ///
    /// # Errors
    /// [`Stop::Changed`] when the node is obsolete, or locked and the caller may not wait because it holds locks itself.
    #[inline(always)]
    pub(super) fn stable(self, may_wait: bool) -> Result<Version, Stop> {
        let mut patience = Patience::default();
        loop {
            // Acquire: what the writer of this version wrote is seen.
            let version = Version(self.version().load(Ordering::Acquire));
            if version.is_obsolete() {
                return Err(Stop::Changed);
            }
            if !version.is_locked() {
                return Ok(version);
            }
            if !may_wait {
                return Err(Stop::Changed);
            }
            patience.wait();
        }
    }

    /// Was everything read since this version was taken of this version?
    #[inline(always)]
    pub(super) fn validate(self, version: Version) -> Result<(), Stop> {
        // The reads before may not sink below the reload. If one of them saw a later writer's word, then this fence and the
        // one in `lock` make the reload see that writer's lock bit, or something later.
        fence(Ordering::Acquire);
        if self.version().load(Ordering::Relaxed) == version.0 {
            Ok(())
        } else {
            Err(Stop::Changed)
        }
    }

    /// Where it lies.
    pub(super) fn address(self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Where the children begin.
    #[inline(always)]
    pub(super) fn children(self) -> *mut u8 {
        self.children_word().load(Ordering::Relaxed)
    }

    /// The address of a node of a group.
    #[inline(always)]
    pub(super) fn address_in(group: *mut u8, index: usize) -> *mut u8 {
        group.wrapping_add(index * Shape::<W>::BYTES)
    }

    #[inline(always)]
    pub(super) fn key(self, slot: usize) -> Key<W> {
        std::array::from_fn(|word| self.key_word(slot, word).load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn pair(self, slot: usize) -> Pair<W> {
        (self.key(slot), self.rid_word(slot).load(Ordering::Relaxed))
    }

    /// Is the key of a slot less than this one, or equal to it where `equal` is set? A subtraction through all words, last
    /// word first, of which only the last borrow is wanted: no branch on any word.
    #[inline(always)]
    fn key_less(self, slot: usize, key: &Key<W>, equal: bool) -> bool {
        let mut borrow = equal;
        for word in (0..W).rev() {
            let (rest, first) = self
                .key_word(slot, word)
                .load(Ordering::Relaxed)
                .overflowing_sub(key[word]);
            borrow = first | rest.overflowing_sub(u64::from(borrow)).1;
        }
        borrow
    }

    /// Counts the slots for which this is true; it must be so for a prefix of them. Short keys are all looked at, side by
    /// side; of long ones, whose comparison takes longer, log2 are, in steps that do not depend on the answers.
    #[inline(always)]
    fn count_where(self, less: impl Fn(usize) -> bool) -> usize {
        let capacity = const { Shape::<W>::CAPACITY };
        if W == 1 {
            return (0..capacity).map(|slot| usize::from(less(slot))).sum();
        }
        let (mut first, mut length) = (0, capacity);
        while length > 1 {
            let half = length / 2;
            first += usize::from(less(first + half - 1)) * half;
            length -= half;
        }
        first + usize::from(less(first))
    }

    /// How many slots hold keys below this one. At most the count of a node that did not change meanwhile.
    #[inline(always)]
    pub(super) fn keys_below(self, key: &Key<W>) -> usize {
        self.count_where(|slot| self.key_less(slot, key, false))
    }

    /// How many slots hold pairs below this one.
    #[inline(always)]
    pub(super) fn pairs_below(self, pair: &Pair<W>) -> usize {
        self.count_where(|slot| {
            let rid_less = self.rid_word(slot).load(Ordering::Relaxed) < pair.1;
            self.key_less(slot, &pair.0, rid_less)
        })
    }

    // Locking.

    /// Locks the node, which still has this version.
    #[inline(always)]
    pub(super) fn lock(self, version: Version) -> Result<Locked<'g, W>, Stop> {
        debug_assert!(!version.is_locked() && !version.is_obsolete());
        // Acquire: the holder before has published. The version is the one expected, so all that was read under it still
        // holds; a failure reads nothing on.
        self.version()
            .compare_exchange(
                version.0,
                version.0 | Version::LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| Stop::Changed)?;
        // No write below may be seen without the lock bit; see `validate`.
        fence(Ordering::Release);
        Ok(Locked {
            node: self,
            before: version,
        })
    }

    /// Locks the node, whatever its version. Only for one whose parent the caller has locked: it cannot become obsolete, and
    /// locks are waited for from the root downwards and, within a group, from left to right, so nobody waits in a circle.
    pub(super) fn lock_waiting(self) -> Locked<'g, W> {
        let mut patience = Patience::default();
        loop {
            let version = Version(self.version().load(Ordering::Relaxed));
            debug_assert!(
                !version.is_obsolete(),
                "only the holder of the parent retires a node"
            );
            if !version.is_locked()
                && let Ok(locked) = self.lock(version)
            {
                return locked;
            }
            patience.wait();
        }
    }

    // Writing: under the lock, or before the node can be reached.

    pub(super) fn set_children(self, group: *mut u8) {
        self.children_word().store(group, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn set_pair(self, slot: usize, pair: &Pair<W>) {
        for (word, &part) in pair.0.iter().enumerate() {
            self.key_word(slot, word).store(part, Ordering::Relaxed);
        }
        self.rid_word(slot).store(pair.1, Ordering::Relaxed);
    }

    /// Puts a pair at a slot; there must be room for it behind the `count` there are.
    #[inline(always)]
    pub(super) fn insert_pair(self, slot: usize, count: usize, pair: &Pair<W>) {
        debug_assert!(slot <= count && count < Shape::<W>::CAPACITY);
        for at in (slot..count).rev() {
            self.set_pair(at + 1, &self.pair(at));
        }
        self.set_pair(slot, pair);
    }

    /// Takes the pair of a slot out of `count`.
    pub(super) fn remove_pair(self, slot: usize, count: usize) {
        debug_assert!(slot < count && count <= Shape::<W>::CAPACITY);
        for at in slot + 1..count {
            self.set_pair(at - 1, &self.pair(at));
        }
        self.set_pair(count - 1, &largest());
    }

    /// Writes a whole new node: its pairs, and its children if it is an inner one. At most the capacity of pairs is taken.
    pub(super) fn write(self, children: Option<*mut u8>, pairs: impl Iterator<Item = Pair<W>>) {
        let mut count = 0;
        for pair in pairs.take(Shape::<W>::CAPACITY) {
            self.set_pair(count, &pair);
            count += 1;
        }
        for slot in count..Shape::<W>::CAPACITY {
            self.set_pair(slot, &largest());
        }
        self.set_children(children.unwrap_or(std::ptr::null_mut()));
        // Relaxed: whoever reaches this node has read the pointer to its group under a version published after this.
        self.version()
            .store(Version::first(children.is_none(), count).0, Ordering::Relaxed);
    }

    /// The pairs of some slots; for the holder of the lock.
    pub(super) fn pairs(self, slots: std::ops::Range<usize>) -> impl Iterator<Item = Pair<W>> {
        slots.map(move |slot| self.pair(slot))
    }
}

/// A locked node. Dropped, it is unlocked as it was before; a holder that has written must [`Locked::publish`].
pub(super) struct Locked<'g, const W: usize> {
    node: Node<'g, W>,
    before: Version,
}

impl<'g, const W: usize> Locked<'g, W> {
    /// The node.
    pub(super) fn node(&self) -> Node<'g, W> {
        self.node
    }

    /// The version when it was locked.
    pub(super) fn version(&self) -> Version {
        self.before
    }

    /// Unlocks a changed node that now uses so many slots.
    #[inline(always)]
    pub(super) fn publish(self, count: usize) {
        let version = self.before.after(count);
        self.release(version);
    }

    /// Unlocks a node whose content has moved: nobody will lock or believe it again.
    pub(super) fn make_obsolete(self) {
        let Version(before) = self.before.after(0);
        self.release(Version(before | Version::OBSOLETE));
    }

    /// Copies the node, locked as it is, to a new place.
    pub(super) fn copy_to(&self, to: Node<'_, W>) {
        let (count, node) = (self.before.count(), self.node);
        let children = (!self.before.is_leaf()).then(|| node.children());
        to.write(children, node.pairs(0..count));
    }

    #[inline(always)]
    fn release(self, version: Version) {
        // Release: what was written under the lock is seen by whoever takes this version.
        self.node.version().store(version.0, Ordering::Release);
        std::mem::forget(self);
    }
}

impl<const W: usize> Drop for Locked<'_, W> {
    fn drop(&mut self) {
        // Nothing was written, so readers of this version lose nothing. Release as ever.
        self.node.version().store(self.before.0, Ordering::Release);
    }
}
