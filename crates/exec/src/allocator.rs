//! The allocator of the programs that run queries: mimalloc, with huge pages for large blocks, which are kept for the next query.
//!
//! ```text
//! block < 4 MiB ───────────────────────────────────> mimalloc's arenas
//! block >= 4 MiB, with huge pages asked for inside ─┘   freed: kept for [`KEPT`], then given back by whoever frees next,
//!                                                       or by [`GivingBack`] where nobody does
//! ```
//!
//! Blocks are aligned no more than the caller asks: mimalloc maps blocks that are aligned to more than 64 KiB anew each time.
//!
//! A page that was given back costs a page fault when it is taken again, and in a virtual machine often one of the host too: groupings of
//! millions of groups took 1.3 to 1.7 times as long, some rounds four times.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mimalloc::MiMalloc;

use crate::huge::{self, HUGE_FROM_BYTES};

/// How long memory that is free is kept while the program goes on allocating.
pub const KEPT: Duration = Duration::from_secs(60);

/// `mi_option_purge_delay` of mimalloc's header.
const PURGE_DELAY: c_int = 15;

// Declared in mimalloc.h; the crate `mimalloc` links them.
unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// A global allocator: mimalloc, with huge pages for large blocks.
pub struct HugeBlocks;

/// Asks for huge pages under a large block.
fn advise(block: *mut u8, layout: Layout) {
    if !block.is_null() && layout.size() >= HUGE_FROM_BYTES {
        huge::advise(block, layout.size());
    }
}

// SAFETY: every method passes the caller's layout to mimalloc, and the same again when the block is freed.
unsafe impl GlobalAlloc for HugeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has non-zero size.
        let block = unsafe { MiMalloc.alloc(layout) };
        advise(block, layout);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { MiMalloc.alloc_zeroed(layout) };
        advise(block, layout);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from mimalloc with this very layout.
        unsafe { MiMalloc.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if new_size < HUGE_FROM_BYTES || new_size <= layout.size() {
            // SAFETY: the block came from mimalloc with this layout.
            return unsafe { MiMalloc.realloc(block, layout, new_size) };
        }
        // SAFETY: the caller guarantees that `new_size`, rounded up to the alignment, fits.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: `new_size` is not zero by the caller's contract.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: two live blocks of at least the copied length that do not overlap; the old one is then freed with its own layout.
            unsafe {
                std::ptr::copy_nonoverlapping(block, moved, layout.size());
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
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
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
    /// Whether there is work from now on; `None` once this value ends.
    sender: Option<Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl GivingBack {
    /// Gives memory back once `idle` has passed after [`GivingBack::end`] without [`GivingBack::begin`].
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn after(idle: Duration) -> std::io::Result<GivingBack> {
        let (sender, receiver) = channel();
        let watch = move || {
            let mut busy = true;
            loop {
                let next = match busy {
                    true => receiver.recv().map_err(RecvTimeoutError::from),
                    false => receiver.recv_timeout(idle),
                };
                busy = match next {
                    Ok(busy) => busy,
                    Err(RecvTimeoutError::Timeout) => {
                        give_back();
                        // There is nothing more to give until there was work.
                        true
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
            }
        };
        let thread = std::thread::Builder::new()
            .name("giving-back".to_owned())
            .spawn(watch)?;
        Ok(GivingBack {
            sender: Some(sender),
            thread: Some(thread),
        })
    }

    /// There is work from now on.
    pub fn begin(&self) {
        self.say(true);
    }

    /// The work has ended.
    pub fn end(&self) {
        self.say(false);
    }

    fn say(&self, busy: bool) {
        if let Some(sender) = &self.sender {
            // The thread ends with this value only.
            let _ = sender.send(busy);
        }
    }
}

impl Drop for GivingBack {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
