//! The allocator of the programs that run queries: mimalloc, with huge pages for large blocks, which are kept for the next query.
//!
//! ```text
//! block < 4 MiB ──────────────────────────────> mimalloc
//! block >= 4 MiB, on a huge page, huge pages asked for ─┘  freed: kept for [`KEPT`], then given back by whoever frees next,
//!                                                          or by [`GivingBack`] where nobody does
//! ```
//!
//! A page that was given back costs a page fault when it is taken again, and in a virtual machine often one of the host too: groupings of
//! millions of groups took 1.3 to 1.7 times as long, some rounds four times.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mimalloc::MiMalloc;

use crate::huge::{self, HUGE_FROM_BYTES, HUGE_PAGE_BYTES};

/// How long memory that is free is kept while the program goes on allocating.
pub const KEPT: Duration = Duration::from_secs(60);

/// `mi_option_purge_delay` of mimalloc's header.
const PURGE_DELAY: c_int = 15;
/// Its value, in milliseconds, where neither the program nor the environment has set it.
const PURGE_DELAY_DEFAULT: c_long = 1000;

// Declared in mimalloc.h; the crate `mimalloc` links them.
unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// A global allocator: mimalloc, with huge pages for large blocks.
pub struct HugeBlocks;

/// The layout really asked of mimalloc. A function of `layout` alone, so that freeing finds it again.
fn inner_layout(layout: Layout) -> Layout {
    if layout.size() < HUGE_FROM_BYTES || layout.align() >= HUGE_PAGE_BYTES {
        return layout;
    }
    // Sizes within a huge page of the address space's end do not fit the larger alignment; they fail later anyway.
    Layout::from_size_align(layout.size(), HUGE_PAGE_BYTES).unwrap_or(layout)
}

/// Asks for huge pages under a large block.
fn advise(block: *mut u8, layout: Layout) {
    if !block.is_null() && layout.size() >= HUGE_FROM_BYTES {
        huge::advise(block, layout.size());
    }
}

// SAFETY: every method passes a valid layout to mimalloc and the same layout again when the block is freed (`inner_layout` is a function of
// the caller's layout alone); the alignment is only ever raised.
unsafe impl GlobalAlloc for HugeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has non-zero size, and so has the inner one.
        let block = unsafe { MiMalloc.alloc(inner_layout(layout)) };
        advise(block, layout);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { MiMalloc.alloc_zeroed(inner_layout(layout)) };
        advise(block, layout);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from mimalloc with this very layout.
        unsafe { MiMalloc.dealloc(block, inner_layout(layout)) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `new_size`, rounded up to the alignment, fits.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let (old_inner, new_inner) = (inner_layout(layout), inner_layout(new_layout));
        if old_inner.align() == new_inner.align() && (new_size < HUGE_FROM_BYTES || new_size <= layout.size())
        {
            // SAFETY: the block came from mimalloc with `old_inner`, whose alignment stays.
            return unsafe { MiMalloc.realloc(block, old_inner, new_size) };
        }
        // SAFETY: `new_size` is not zero by the caller's contract.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: two live blocks of at least the copied length that do not overlap; the old one is then freed with its own layout.
            unsafe {
                std::ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
        }
        moved
    }
}

/// Has free memory kept for [`KEPT`], unless the environment (`MIMALLOC_PURGE_DELAY`, in milliseconds) says otherwise. For the beginning
/// of a program whose allocator is [`HugeBlocks`].
pub fn keep_free_memory() {
    // SAFETY: the calls take and give numbers.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT {
            mi_option_set(PURGE_DELAY, KEPT.as_millis() as c_long);
        }
    }
}

/// How long free memory is kept.
pub fn kept() -> Duration {
    // SAFETY: the call takes and gives a number.
    let milliseconds = unsafe { mi_option_get(PURGE_DELAY) };
    u64::try_from(milliseconds).map_or(Duration::MAX, Duration::from_millis)
}

/// Gives the system all memory that is free.
pub fn give_back() {
    // SAFETY: it may be called at any time from any thread.
    unsafe { mi_collect(true) };
}

/// Gives free memory back when a program has had nothing to do for some time.
#[derive(Debug)]
pub struct GivingBack {
    /// `None` once it ends.
    works: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl GivingBack {
    /// Gives memory back when [`GivingBack::work`] was not called for as long as `idle`; once, then it waits for the next call.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn after(idle: Duration) -> std::io::Result<GivingBack> {
        let (works, heard) = channel();
        let watch = move || {
            while heard.recv().is_ok() {
                loop {
                    match heard.recv_timeout(idle) {
                        Ok(()) => {}
                        Err(RecvTimeoutError::Timeout) => break give_back(),
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("giving-back".to_owned())
            .spawn(watch)?;
        Ok(GivingBack {
            works: Some(works),
            thread: Some(thread),
        })
    }

    /// Says that there was work until now.
    pub fn work(&self) {
        if let Some(works) = &self.works {
            // It ends with this value only.
            let _ = works.send(());
        }
    }
}

impl Drop for GivingBack {
    fn drop(&mut self) {
        self.works = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
