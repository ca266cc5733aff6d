//! [`Pool`]: memory of versions that were just freed, for the next versions of the same worker.
//!
//! Clients of one worker take turns on one core. What one of them frees is still in that core's cache; through the allocator
//! it would go back to the thread that once asked for it. So a worker's clients hand blocks of each size to each other, the
//! last freed first.
//!
//! What it is not: an allocator. Blocks come from the global one and go back there when there are too many.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use parking_lot::Mutex;

/// Blocks are multiples of this, in bytes.
const STEP: usize = 16;
/// Sizes that are kept: up to a kibibyte.
const CLASSES: usize = 64;
/// Blocks kept of each size. Unmeasured: some transactions' worth.
const KEPT_MAX: usize = 512;

/// Free blocks by size, for one worker.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Pool(Mutex<[Vec<Block>; CLASSES]>);

#[derive(Debug)]
struct Block(NonNull<u8>);

// SAFETY: a free block is memory that only its owner, the pool, knows.
unsafe impl Send for Block {}

/// The size of a block of at least `bytes`.
pub(crate) fn block_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.next_multiple_of(STEP), STEP).expect("rows are at most some MiB")
}

/// A block from the global allocator.
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: versions have a head, so the size is not 0.
    NonNull::new(unsafe { alloc(block_layout(bytes)) })
}

/// Gives a block to the global allocator.
///
/// # Safety
/// It is of [`allocate`] or [`Pool::take`] with the same size, and nobody uses it.
pub(crate) unsafe fn release(block: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller.
    unsafe { dealloc(block.as_ptr(), block_layout(bytes)) };
}

impl Pool {
    pub(crate) fn new() -> Self {
        Pool(Mutex::new(std::array::from_fn(|_| Vec::new())))
    }

    fn class(bytes: usize) -> Option<usize> {
        Some(bytes.div_ceil(STEP)).filter(|&class| class < CLASSES)
    }

    /// A block, the last freed of its size if there is one.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let kept = Pool::class(bytes).and_then(|class| self.0.lock()[class].pop());
        kept.map_or_else(|| allocate(bytes), |block| Some(block.0))
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// As [`release`].
    #[inline]
    pub(crate) unsafe fn give(&self, block: NonNull<u8>, bytes: usize) {
        if let Some(class) = Pool::class(bytes) {
            let blocks = &mut self.0.lock()[class];
            if blocks.len() < KEPT_MAX {
                blocks.push(Block(block));
                return;
            }
        }
        // SAFETY: by the caller.
        unsafe { release(block, bytes) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, blocks) in self.0.get_mut().iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: it was given back with a size of this class.
                unsafe { release(block.0, class * STEP) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_freed_block_of_a_size_is_the_next() {
        let pool = Pool::new();
        let (a, b, c) = (
            pool.take(40).unwrap(),
            pool.take(48).unwrap(),
            pool.take(5000).unwrap(),
        );
        // SAFETY: each is given back once, with its size.
        unsafe {
            pool.give(a, 40);
            pool.give(b, 48);
            pool.give(c, 5000);
        }
        assert_eq!(pool.take(33).unwrap(), b);
        assert_eq!(pool.take(48).unwrap(), a);
        // SAFETY: as above.
        unsafe {
            pool.give(a, 48);
            release(b, 33);
        }
    }
}
