//! The work-ahead set: a fixed circular array through which a main thread tells a helper thread what to load (paper 000,
//! section 4).
//!
//! ```text
//!             post ─▶ writes the next entry, returns the old one
//!   main  ──────────┐
//!                   ▼
//!   ┌───────┬───────┬───────┬───────┬───────┬───────┐
//!   │ A B s │ C D s │ E * s │ * * - │ F G s │ H * s │   A..H references, * the dummy line, s state of the main thread
//!   └───────┴───────┴───────┴───────┴───────┴───────┘
//!                       ▲
//!   helper ─────────────┘ reads references one entry after the other, backward or forward, and loads what they name
//! ```
//!
//! An entry is `M` references and the main thread's state side by side, as in the paper, so what the two threads do to
//! each other's caches is decided line by line of this array. The helper never looks at states and never interprets
//! what it loads; the main thread never waits for it. An answer can therefore not depend on the helper: it may never
//! start, stall or stop early.
//!
//! Order of calls: [`WorkAheadSet::new`], [`WorkAheadSet::split`], then [`Main::post`] on one thread and
//! [`Helper::step`] on another, until the main thread has its last state back.
//!
//! What it is not: it starts no threads and knows no operators; see [`super::run()`].
//!
//! A set's lifetime is fixed when it is made. If the main thread could shorten it, it could post memory that the helper,
//! who still sees the longer one, would outlive:
//!
//! ```compile_fail,E0597
//! use corun_exec::stage::{Reference, work_ahead::WorkAheadSet};
//! use corun_model::operators::mode::Direction;
//!
//! let mut set = WorkAheadSet::<'static, (), 1>::new(4, 1).unwrap();
//! let (mut main, mut helper) = set.split(Direction::Forward);
//! {
//!     let short_lived = Box::new(1_u64);
//!     main.post([Reference::to(&*short_lived)].into_iter(), ());
//! }
//! let mut dangling: Option<Reference<'static>> = None;
//! helper.step(false, |reference| dangling = Some(reference));
//! ```

use std::cell::UnsafeCell;
use std::marker::PhantomData;

use corun_model::operators::mode::Direction;

use super::reference::Reference;
use super::sync::{AtomicPtr, Ordering};
use crate::prefetch::LINE_BYTES;

/// Entries of a set at most: far beyond any cache, and it bounds the memory a wrong size can take.
pub const ENTRIES_MAX: usize = 1 << 20;

/// A set that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkAheadError {
    /// It would hold nothing.
    #[error(
        "a work-ahead set holds at least one reference; its size is the references it may hold, each a cache line"
    )]
    Empty,
    /// `m` is not within `1..=M`.
    #[error("a stage needs between 1 and {max} references; {min} at least makes no sense")]
    References {
        /// The `m` given.
        min: usize,
        /// The entry's `M`.
        max: usize,
    },
    /// It would not fit any cache.
    #[error("{entries} entries are more than the {ENTRIES_MAX} a work-ahead set may have")]
    TooLarge {
        /// Entries asked for.
        entries: usize,
    },
}

/// A cache line that the main thread never touches: what unused references point to. It outlives every set.
#[repr(C, align(64))]
struct DummyLine([u8; LINE_BYTES]);

static DUMMY: DummyLine = DummyLine([0; LINE_BYTES]);

#[inline(always)]
fn dummy() -> *mut u8 {
    std::ptr::from_ref(&DUMMY).cast::<u8>().cast_mut()
}

/// What only the main thread looks at.
#[derive(Clone, Copy)]
struct Held<S> {
    state: S,
    /// Valid references of the entry.
    references: u32,
    /// Whether there is a state at all: false for an entry that was posted to keep the count down.
    live: bool,
}

/// One entry: references for the helper, then the main thread's state.
#[repr(C)]
struct Entry<S, const M: usize> {
    addresses: [AtomicPtr<u8>; M],
    held: UnsafeCell<Held<S>>,
}

impl<S: Default, const M: usize> Entry<S, M> {
    fn empty() -> Self {
        Entry {
            addresses: std::array::from_fn(|_| AtomicPtr::new(dummy())),
            held: UnsafeCell::new(Held {
                state: S::default(),
                references: 0,
                live: false,
            }),
        }
    }
}

/// Entries of a set for `lines` valid references, of which each stage asks for `min` to `max`.
///
/// # Errors
/// As [`WorkAheadSet::new`].
pub(super) fn entries_of(lines: usize, min: usize, max: usize) -> Result<usize, WorkAheadError> {
    if min == 0 || min > max {
        return Err(WorkAheadError::References { min, max });
    }
    if lines == 0 {
        return Err(WorkAheadError::Empty);
    }
    let entries = (lines / min).max(1);
    if entries > ENTRIES_MAX {
        return Err(WorkAheadError::TooLarge { entries });
    }
    Ok(entries)
}

/// The shared array. `S` is the main thread's state, `M` the references of an entry, `'a` the lifetime of what they name.
pub struct WorkAheadSet<'a, S, const M: usize> {
    entries: Box<[Entry<S, M>]>,
    /// The threshold `t` on valid references.
    lines_max: usize,
    /// References go in at one end and come out at the other, so `'a` may neither grow nor shrink.
    memory: PhantomData<fn(Reference<'a>) -> Reference<'a>>,
}

// SAFETY: the only unsynchronised part of an entry is `held`, and only `Main` touches it, of which there is one.
unsafe impl<S: Send, const M: usize> Sync for WorkAheadSet<'_, S, M> {}

impl<'a, S: Copy + Default, const M: usize> WorkAheadSet<'a, S, M> {
    /// A set for at most `lines` valid references (the paper's `t`), of which every stage asks for `references_min` (`m`)
    /// to `M`: it has `lines / references_min` entries, at least one.
    ///
    /// The threshold keeps new work out ([`Main::is_full`]); it does not stop a tuple inside from needing more references in
    /// its next stage, so the set holds `entries * M` valid references in the worst case.
    ///
    /// # Errors
    /// [`WorkAheadError`] when the size is zero or beyond [`ENTRIES_MAX`] entries, or `references_min` is not in `1..=M`.
    pub fn new(lines: usize, references_min: usize) -> Result<Self, WorkAheadError> {
        let entries = entries_of(lines, references_min, M)?;
        Ok(WorkAheadSet {
            entries: (0..entries).map(|_| Entry::empty()).collect(),
            lines_max: lines,
            memory: PhantomData,
        })
    }

    /// Entries of the array.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of an entry: how many share a cache line decides what the threads do to each other.
    pub const ENTRY_BYTES: usize = size_of::<Entry<S, M>>();

    /// The two ends: the main thread's and the helper's. The helper begins at the main thread's first entry. What earlier
    /// ends left in the set is forgotten.
    pub fn split(&mut self, direction: Direction) -> (Main<'_, 'a, S, M>, Helper<'_, 'a, S, M>) {
        self.entries.iter_mut().for_each(|entry| *entry = Entry::empty());
        let entries = self.entries.len();
        let set = &*self;
        let main = Main {
            set,
            next: 0,
            valid: 0,
        };
        let helper = Helper {
            set,
            next: 0,
            direction,
            // No address is null, so nothing counts as seen yet.
            seen: vec![std::ptr::null_mut(); entries],
        };
        (main, helper)
    }
}

/// The main thread's end of a set: it posts, and what it posted comes back a round later.
pub struct Main<'s, 'a, S, const M: usize> {
    set: &'s WorkAheadSet<'a, S, M>,
    next: usize,
    /// The paper's `N`: valid references in the set.
    valid: usize,
}

impl<'a, S: Copy + Default, const M: usize> Main<'_, 'a, S, M> {
    /// Whether new work should stay out: the set holds its `t` valid references (section 4.1).
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.valid >= self.set.lines_max
    }

    /// Valid references now in the set.
    pub fn valid(&self) -> usize {
        self.valid
    }

    /// Writes `references` and `state` to the next entry and returns the state that was there, if there was one. Unused
    /// references point to the dummy line.
    ///
    /// # Panics
    /// If there are more than `M` references.
    #[inline(always)]
    pub fn post(&mut self, references: impl ExactSizeIterator<Item = Reference<'a>>, state: S) -> Option<S> {
        let count = references.len();
        assert!(
            count <= M,
            "an entry of this work-ahead set holds {M} references, not {count}"
        );
        let mut addresses = [dummy(); M];
        for (slot, reference) in addresses.iter_mut().zip(references) {
            *slot = reference.address().cast_mut();
        }
        self.write(
            addresses,
            Held {
                state,
                references: count as u32,
                live: true,
            },
        )
    }

    /// Writes an entry without references and without state: to keep the count of valid references down, and at the end
    /// to get the remaining states back.
    #[inline(always)]
    pub fn post_nothing(&mut self) -> Option<S> {
        self.write(
            [dummy(); M],
            Held {
                state: S::default(),
                references: 0,
                live: false,
            },
        )
    }

    #[inline(always)]
    fn write(&mut self, addresses: [*mut u8; M], new: Held<S>) -> Option<S> {
        let entry = &self.set.entries[self.next];
        // SAFETY: `Main` is the only one to touch `held`, and there is one `Main` (`split` borrows the set mutably).
        let held = unsafe { &mut *entry.held.get() };
        let old = std::mem::replace(held, new);
        for (slot, address) in entry.addresses.iter().zip(addresses) {
            // Nothing is published through an address: what it names was there before the threads began, and its
            // contents are not looked at. So no ordering is needed.
            slot.store(address, Ordering::Relaxed);
        }
        self.valid = self.valid + new.references as usize - old.references as usize;
        self.next += 1;
        if self.next == self.set.entries.len() {
            self.next = 0;
        }
        old.live.then_some(old.state)
    }
}

/// What a helper did in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It loaded an entry's references and went on to the next entry.
    Loaded,
    /// The entry has not changed since its last visit; it stays there. Only with `spin`.
    Unchanged,
}

/// The helper's end of a set: it goes round and loads.
pub struct Helper<'s, 'a, S, const M: usize> {
    set: &'s WorkAheadSet<'a, S, M>,
    next: usize,
    direction: Direction,
    /// The first reference of each entry at the last visit.
    seen: Vec<*mut u8>,
}

// SAFETY: its raw pointers are only compared; the set it borrows is `Sync`.
unsafe impl<S: Send, const M: usize> Send for Helper<'_, '_, S, M> {}

impl<'a, S: Copy + Default, const M: usize> Helper<'_, 'a, S, M> {
    /// Looks at one entry and hands all its references, dummies included, to `load`.
    ///
    /// With `spin`, an entry whose first reference is what it was at the last visit is not loaded again and the helper
    /// stays; the dummy line is never waited on (section 4.4).
    #[inline(always)]
    pub fn step(&mut self, spin: bool, mut load: impl FnMut(Reference<'a>)) -> Looked {
        let entry = &self.set.entries[self.next];
        let first = entry.addresses[0].load(Ordering::Relaxed);
        if spin {
            let seen = &mut self.seen[self.next];
            if *seen == first && first != dummy() {
                return Looked::Unchanged;
            }
            *seen = first;
        }
        // SAFETY: every address in the array came from a `Reference<'a>` or is the dummy line, which is static.
        load(unsafe { Reference::at(first) });
        for slot in &entry.addresses[1..] {
            // SAFETY: as above.
            load(unsafe { Reference::at(slot.load(Ordering::Relaxed)) });
        }
        let last = self.set.entries.len() - 1;
        self.next = match self.direction {
            Direction::Forward if self.next == last => 0,
            Direction::Forward => self.next + 1,
            Direction::Backward if self.next == 0 => last,
            Direction::Backward => self.next - 1,
        };
        Looked::Loaded
    }
}

/// Loads one byte of the line and throws it away. The load is inline assembly: the language does not see it, so there is no
/// data race with a thread that writes the line, and it cannot be optimised away as a prefetch of nothing.
#[inline(always)]
pub(crate) fn load(reference: Reference<'_>) {
    let address = reference.address();
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: the byte is mapped and readable for as long as the reference lives (`Reference`); the value goes nowhere.
    unsafe {
        std::arch::asm!("movzx {value:e}, byte ptr [{address}]", address = in(reg) address, value = out(reg) _,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("ldrb {value:w}, [{address}]", address = in(reg) address, value = out(reg) _,
            options(nostack, preserves_flags, readonly));
    }
    // Elsewhere, and under the checkers that have no assembly, the helper only reads the array.
    #[cfg(any(miri, loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
