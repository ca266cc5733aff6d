//! Buffers that the kernel receives into: lent to it through a ring in shared memory, handed back as they are read.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Buffers of a reactor; a power of two. Unmeasured.
const BUFFERS: u16 = 256;

/// Size of each: several answers of a page each. Unmeasured.
pub(super) const BUFFER_BYTES: usize = 8 * 1024;

/// The alignment that the kernel wants of the ring.
const PAGE_BYTES: usize = 4096;

/// The name of the only group of buffers in a ring.
pub(super) const GROUP: u16 = 0;

/// The buffers and the ring that lends them.
///
/// ```text
/// memory: | entry 0 | entry 1 | … | entry 255 | buffer 0 | buffer 1 | … | buffer 255 |
///           └ its last two bytes: the tail, up to where the kernel may take entries
/// ```
pub(super) struct Pool {
    memory: NonNull<u8>,
}

// SAFETY: the memory is owned; who writes where is decided by the reactor, which is on one thread at a time, and the kernel.
unsafe impl Send for Pool {}
// SAFETY: methods that write take part in the same agreement: only the reactor's thread calls them.
unsafe impl Sync for Pool {}

const RING_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const BYTES: usize = RING_BYTES + BUFFERS as usize * BUFFER_BYTES;

fn layout() -> Layout {
    const { assert!(BUFFERS.is_power_of_two() && RING_BYTES.is_multiple_of(PAGE_BYTES)) };
    // Neither can overflow.
    Layout::from_size_align(BYTES, PAGE_BYTES).unwrap_or(Layout::new::<u8>())
}

impl Pool {
    pub fn new() -> Self {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(layout()) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout());
        };
        let pool = Self { memory };
        for buffer in 0..BUFFERS {
            pool.give(buffer);
        }
        pool
    }

    /// Tells the kernel.
    ///
    /// # Safety
    /// The pool lives until the ring of this submitter is gone and none of its requests can be completed any more.
    pub unsafe fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.memory.as_ptr().expose_provenance() as u64;
        // SAFETY: the ring begins the memory, is aligned and has as many entries; the caller keeps it alive.
        unsafe { submitter.register_buf_ring_with_flags(address, BUFFERS, GROUP, 0) }
    }

    fn buffer(&self, buffer: u16) -> *mut u8 {
        debug_assert!(buffer < BUFFERS);
        let offset = RING_BYTES + usize::from(buffer % BUFFERS) * BUFFER_BYTES;
        // SAFETY: the remainder is below the number of buffers, so the offset lies within the memory.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    fn tail(&self) -> &AtomicU16 {
        let first: *const BufRingEntry = self.memory.as_ptr().cast();
        // SAFETY: the address of the first entry of the ring; zeroed memory is a valid entry. The tail is aligned, and
        // written through atomics only.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(first).cast_mut()) }
    }

    /// Lends a buffer to the kernel. Only for buffers that it does not have, by the thread of the reactor.
    pub fn give(&self, buffer: u16) {
        let tail = self.tail().load(Ordering::Relaxed);
        let index = usize::from(tail % BUFFERS);
        let entries: *mut BufRingEntry = self.memory.as_ptr().cast();
        // SAFETY: the index is below the number of entries, and the kernel reads this one only after the store below.
        // Through a reference, but not to the whole entry's last bytes: the setters write their own fields.
        let entry = unsafe { &mut *entries.add(index) };
        entry.set_addr(self.buffer(buffer).expose_provenance() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail().store(tail.wrapping_add(1), Ordering::Release);
    }

    /// What the kernel has received into a buffer.
    ///
    /// # Safety
    /// The kernel has given the buffer back with at least `count` bytes in it, and [`Pool::give`] is not called for it while
    /// the slice lives.
    pub unsafe fn received(&self, buffer: u16, count: usize) -> &[u8] {
        // SAFETY: initialised (zeroed, then written by the kernel), inside the buffer, and nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.buffer(buffer), count.min(BUFFER_BYTES)) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.memory.as_ptr(), layout()) };
    }
}
