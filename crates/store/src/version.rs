//! [`Version`]: one state of a row, never changed once others can see it.
//!
//! ```text
//! slot ─► newest ──previous──► older ──previous──► oldest that a snapshot may still read
//!        ┌────┬──────────┬────────┬──────────┬────────┬─────────────┐
//!        │ ts │ previous │ length │ deleted? │ layout │ row's bytes │    one allocation
//!        └────┴──────────┴────────┴──────────┴────────┴─────────────┘
//! ```
//!
//! Who owns one: the slot owns its newest, the transaction that replaced one owns that until it commits, then its garbage
//! does, until no snapshot can reach it. What is under a newer version that every snapshot sees may be gone, so nobody
//! follows `previous` from such a version.
//!
//! The pointers here are the store's memory management; that is why this file contains `unsafe`.

use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use corun_exec::prefetch::{LINE_BYTES, prefetch_read};

use crate::pool::{Pool, allocate, block_layout, release};
use crate::ts::Ts;

/// Set in `ts` while the transaction that wrote the version has not committed; the other bits count its session's changes.
const UNCOMMITTED: u64 = 1 << 63;

/// The head of a version; its row follows in the same allocation.
#[repr(C)]
pub(crate) struct Version {
    /// Commit timestamp, or `UNCOMMITTED` and the number of the change.
    ts: AtomicU64,
    previous: AtomicPtr<Version>,
    length: u32,
    deleted: bool,
    /// The row's, among those of its table.
    layout: u16,
}

/// Most bytes of a row that are asked for ahead; the processor's own prefetchers follow in longer ones. Unmeasured against others.
const ASKED_BYTES: usize = 2 << 10;

/// Bytes of the head.
const HEAD: usize = size_of::<Version>();

/// A version by its address. Copies name the same version; what keeps it alive is said in the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionPtr(NonNull<Version>);

// SAFETY: a version's head is atomics and constants, its bytes are constant; ownership is handed on as the module says.
unsafe impl Send for VersionPtr {}

impl VersionPtr {
    /// A new version over `previous`, not committed, in memory of a worker's pool if there is one. `change` is its number among those of its
    /// session, `layout` that of the row's layout. None if the allocator refuses.
    pub(crate) fn new(
        pool: Option<&Pool>,
        previous: Option<VersionPtr>,
        row: Option<&[u8]>,
        layout: u16,
        change: u64,
    ) -> Option<VersionPtr> {
        let bytes = row.unwrap_or(&[]);
        let version = Version {
            ts: AtomicU64::new(UNCOMMITTED | change),
            previous: AtomicPtr::new(as_raw(previous)),
            length: bytes.len() as u32,
            deleted: row.is_none(),
            layout,
        };
        // SAFETY: the allocation is not empty; it holds the head and then the row's bytes.
        unsafe {
            let bytes_in_all = HEAD + bytes.len();
            let memory = pool.map_or_else(|| allocate(bytes_in_all), |pool| pool.take(bytes_in_all))?;
            let head = memory.cast::<Version>();
            head.write(version);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr().add(HEAD), bytes.len());
            Some(VersionPtr(head))
        }
    }

    pub(crate) fn from_raw(raw: *mut Version) -> Option<VersionPtr> {
        NonNull::new(raw).map(VersionPtr)
    }

    pub(crate) fn raw(self) -> *mut Version {
        self.0.as_ptr()
    }

    #[inline]
    fn head(&self) -> &Version {
        // SAFETY: whoever holds the pointer keeps the version alive, as the module says.
        unsafe { self.0.as_ref() }
    }

    /// The row's bytes, for as long as the caller keeps the version alive; none of a version that says "deleted".
    ///
    /// # Safety
    /// The version must not be freed during `'a`.
    #[inline]
    pub(crate) unsafe fn row<'a>(self) -> Option<&'a [u8]> {
        if self.head().deleted {
            return None;
        }
        // SAFETY: the bytes were written with the head and never change; the caller keeps them alive.
        Some(unsafe {
            let first = self.0.as_ptr().cast::<u8>().add(HEAD);
            std::slice::from_raw_parts(first, self.head().length as usize)
        })
    }

    /// The row's bytes to be changed in place, while nobody else can see the version: during recovery.
    ///
    /// # Safety
    /// Nobody else may read or write the version during `'a`.
    pub(crate) unsafe fn row_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: as in `row`; the caller is alone.
        unsafe {
            let first = self.0.as_ptr().cast::<u8>().add(HEAD);
            std::slice::from_raw_parts_mut(first, self.head().length as usize)
        }
    }

    /// Asks the caches for the head and the first `bytes` of the row, without reading either.
    #[inline]
    pub(crate) fn ask(self, bytes: usize) {
        ask_lines(self.0.as_ptr().cast(), 0..HEAD + bytes.min(ASKED_BYTES));
    }

    /// As [`VersionPtr::ask`]. Returns the address that was asked for first.
    #[inline]
    pub(crate) fn ask_first(self, bytes: usize) -> *const u8 {
        self.ask(bytes);
        self.0.as_ptr().cast()
    }

    /// Number of its row's layout.
    #[inline]
    pub(crate) fn layout(self) -> u16 {
        self.head().layout
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.head().deleted
    }

    /// When it was committed; none before.
    #[inline]
    pub(crate) fn committed(self) -> Option<Ts> {
        // Acquire: pairs with `commit`. The bytes themselves were published by the slot's pointer.
        let ts = self.head().ts.load(Ordering::Acquire);
        (ts & UNCOMMITTED == 0).then_some(Ts(ts))
    }

    /// Whether the transaction that asks has made it itself, by the change `since` or a later one.
    #[inline]
    pub(crate) fn is_made_since(self, since: u64) -> bool {
        // Relaxed: the asker's own store, or a commit's, which says no.
        let ts = self.head().ts.load(Ordering::Relaxed);
        ts & UNCOMMITTED != 0 && ts & !UNCOMMITTED >= since
    }

    /// Marks it committed.
    #[inline]
    pub(crate) fn commit(self, ts: Ts) {
        self.head().ts.store(ts.0, Ordering::Release);
    }

    pub(crate) fn previous(self) -> Option<VersionPtr> {
        VersionPtr::from_raw(self.head().previous.load(Ordering::Acquire))
    }

    /// Bytes of its row.
    pub(crate) fn row_bytes(self) -> usize {
        self.head().length as usize
    }

    /// Bytes of memory it takes.
    pub(crate) fn bytes(self) -> usize {
        block_layout(HEAD + self.head().length as usize).size()
    }

    /// The version a snapshot of `ts` sees, beginning here.
    pub(crate) fn visible(self, ts: Ts) -> Option<VersionPtr> {
        let mut version = self;
        loop {
            if version.committed().is_some_and(|committed| committed <= ts) {
                return Some(version);
            }
            version = version.previous()?;
        }
    }

    /// Gives its memory back, to a worker's pool if there is one.
    ///
    /// # Safety
    /// Nobody may use the version any more, and it may not be freed twice.
    pub(crate) unsafe fn free(self, pool: Option<&Pool>) {
        let bytes = HEAD + self.head().length as usize;
        // SAFETY: made by `new` with the same size; the caller is the last user.
        unsafe {
            match pool {
                Some(pool) => pool.give(self.0.cast(), bytes),
                None => release(self.0.cast(), bytes),
            }
        }
    }
}

/// Asks the caches for what a row has beyond the first `asked` bytes, for which they were asked before.
#[inline]
pub(crate) fn ask_rest(row: &[u8], asked: usize) {
    ask_lines(row.as_ptr(), asked..row.len().min(ASKED_BYTES));
}

/// Asks for the lines of some bytes behind an address.
#[inline]
fn ask_lines(address: *const u8, bytes: Range<usize>) {
    let mut line = bytes.start;
    while line < bytes.end {
        prefetch_read(address.wrapping_add(line));
        line += LINE_BYTES;
    }
    // The last byte may lie in a line of its own.
    if bytes.start < bytes.end {
        prefetch_read(address.wrapping_add(bytes.end - 1));
    }
}

pub(crate) fn as_raw(version: Option<VersionPtr>) -> *mut Version {
    version.map_or(null_mut(), VersionPtr::raw)
}
