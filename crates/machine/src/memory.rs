//! Counting the program's live and peak heap bytes.
//!
//! The program installs [`CountingAllocator`] around its real allocator once; [`live_bytes`], [`reset_peak`] and
//! [`peak_bytes`] then return what the whole process has. Where both sides of a comparison run in this process (corun's joins
//! and DataFusion's), both are counted alike. Sides that are processes of their own
//! (DuckDB, SQLite, redb, fjall, RocksDB, PostgreSQL, PgBouncer) have their own allocators, and nothing here counts them.
//!
//! ```text
//! thread --> its shard: live += size ----(beyond +-64 KiB)----> LIVE += shard, PEAK = max(PEAK, LIVE)
//!            (own cache line)                                   (two shared cache lines)
//! ```
//!
//! Two threads that allocate small blocks thus touch no common line. The price is that [`peak_bytes`] may miss up to
//! 64 KiB a thread; [`live_bytes`] sums the shards and is exact while nobody allocates. One shared counter pair was the
//! rejected alternative: every allocation of every thread would fight over it.
//!
//! Counted are the bytes asked for, not the allocator's rounding, its caches or memory mapped by other means.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

/// A thread's unreported change in live bytes never exceeds this, so that the peak is off by at most this a thread.
const SHARD_LIMIT: i64 = 64 << 10;
/// Threads beyond this number share shards, which costs time, not exactness.
const SHARDS: usize = 64;
/// From this size on a block that grows is copied by the counter, so that the peak has both copies.
const COPIED_FROM: usize = 4 << 20;

/// A cell on cache lines of its own; two lines, because CPUs fetch them in pairs.
#[repr(align(128))]
struct Padded(AtomicI64);

static SHARD: [Padded; SHARDS] = [const { Padded(AtomicI64::new(0)) }; SHARDS];
static LIVE: Padded = Padded(AtomicI64::new(0));
static PEAK: Padded = Padded(AtomicI64::new(0));
static THREADS_SEEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Const-initialised and without a destructor, so that using it inside the allocator never allocates.
    static MY_SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Adds to the calling thread's shard and reports to the totals when enough has gathered.
fn count(change: i64) {
    let shard = MY_SHARD.get();
    let shard = if shard == usize::MAX {
        let assigned = THREADS_SEEN.fetch_add(1, Relaxed) % SHARDS;
        MY_SHARD.set(assigned);
        assigned
    } else {
        shard
    };
    let gathered = SHARD[shard].0.fetch_add(change, Relaxed) + change;
    if gathered.abs() >= SHARD_LIMIT {
        report(shard);
    }
}

fn report(shard: usize) {
    let moved = SHARD[shard].0.swap(0, Relaxed);
    let live = LIVE.0.fetch_add(moved, Relaxed) + moved;
    PEAK.0.fetch_max(live, Relaxed);
}

/// Heap bytes live now, over all threads. Exact while no other thread allocates.
pub fn live_bytes() -> u64 {
    let shards: i64 = SHARD.iter().map(|shard| shard.0.load(Relaxed)).sum();
    u64::try_from(LIVE.0.load(Relaxed) + shards).unwrap_or(0)
}

/// Starts a new peak at the bytes live now. One measurement at a time: the peak belongs to the process.
pub fn reset_peak() {
    (0..SHARDS).for_each(report);
    PEAK.0.store(LIVE.0.load(Relaxed), Relaxed);
}

/// Most heap bytes live at once since [`reset_peak`]; may miss up to 64 KiB a thread. Zero without a
/// [`CountingAllocator`].
pub fn peak_bytes() -> u64 {
    let peak = u64::try_from(PEAK.0.load(Relaxed)).unwrap_or(0);
    peak.max(live_bytes())
}

/// A global allocator that counts.
///
/// ```
/// use corun_machine::memory::{self, CountingAllocator};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator<std::alloc::System> = CountingAllocator::new(std::alloc::System);
///
/// memory::reset_peak();
/// let before = memory::live_bytes();
/// let block = vec![1u8; 8 << 20];
/// assert_eq!(memory::live_bytes() - before, 8 << 20);
/// drop(block);
/// assert!(memory::peak_bytes() - before >= 8 << 20);
/// ```
pub struct CountingAllocator<A> {
    inner: A,
}

impl<A> CountingAllocator<A> {
    /// Wraps the allocator that does the work.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

fn size(layout: Layout) -> i64 {
    // Layouts are at most isize::MAX bytes.
    layout.size() as i64
}

// SAFETY: every method passes the caller's layout to the inner allocator, and the same again when the block is freed. Counting never
// allocates and never unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has non-zero size.
        let block = unsafe { self.inner.alloc(layout) };
        if !block.is_null() {
            count(size(layout));
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        if !block.is_null() {
            count(size(layout));
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `inner` with this very layout.
        unsafe { self.inner.dealloc(block, layout) };
        count(-size(layout));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `new_size`, rounded up to the alignment, fits.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if new_size < COPIED_FROM || new_size <= layout.size() {
            // SAFETY: the block came from `inner` with this layout.
            let moved = unsafe { self.inner.realloc(block, layout, new_size) };
            if !moved.is_null() {
                count(size(new_layout) - size(layout));
            }
            return moved;
        }
        // SAFETY: `new_size` is not zero by the caller's contract.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: two live blocks of at least the copied length that do not overlap; the old one is then freed
            // with its own layout.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, layout.size());
                self.dealloc(block, layout);
            }
        }
        moved
    }
}
