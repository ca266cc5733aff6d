//! A block of memory seen as cache lines, on huge pages where the machine has them.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::slice;

use corun_model::units::Bytes;

use super::error::MeasureError;

/// Words of eight bytes in a line of 64, the line size of every machine corun runs on. Machines with 128-byte lines
/// see two accesses to one line as two.
pub const WORDS_PER_LINE: usize = 8;
const LINE: usize = WORDS_PER_LINE * size_of::<u64>();
const HUGE_PAGE: usize = 2 << 20;

/// Zeroed lines, aligned to a huge page and advised to use them, so that random access pays for caches, not for page
/// walks.
pub struct Lines {
    words: NonNull<u64>,
    layout: Layout,
}

// SAFETY: the block is owned, plain memory; shared access only reads.
unsafe impl Send for Lines {}
// SAFETY: as above; changing it takes `&mut`.
unsafe impl Sync for Lines {}

impl Lines {
    /// `bytes` rounded up to whole lines, at least one.
    ///
    /// # Errors
    /// [`MeasureError::Memory`] when the system has not so much.
    pub fn new(bytes: Bytes) -> Result<Self, MeasureError> {
        let failed = || MeasureError::Memory(bytes);
        let size = bytes
            .as_usize()
            .max(1)
            .checked_next_multiple_of(LINE)
            .ok_or_else(failed)?;
        let layout = Layout::from_size_align(size, HUGE_PAGE).map_err(|_| failed())?;
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc(layout) };
        let words = NonNull::new(block.cast::<u64>()).ok_or_else(failed)?;
        // Advice must come before the first touch: pages already there stay small. So not `alloc_zeroed`, which may
        // touch them.
        #[cfg(target_os = "linux")]
        if size >= HUGE_PAGE {
            // SAFETY: whole huge pages within our own block; the advice changes speed only.
            unsafe { libc::madvise(block.cast(), size / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: `size` bytes from `block` are ours.
        unsafe { block.write_bytes(0, size) };
        Ok(Self { words, layout })
    }

    /// Every word, in order.
    pub fn words(&self) -> &[u64] {
        // SAFETY: the block is initialised, aligned, `layout.size()` bytes long and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.layout.size() / size_of::<u64>()) }
    }

    /// Every word, in order, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`, and `&mut self` makes it the only view.
        unsafe { slice::from_raw_parts_mut(self.words.as_ptr(), self.layout.size() / size_of::<u64>()) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.words.as_ptr().cast(), self.layout) };
    }
}

/// A generator of well-mixed numbers: a Weyl sequence through one multiply. Two multiplies and three simple operations
/// an address, so that memory, not arithmetic, is the limit beyond the first-level cache.
#[derive(Clone)]
pub(super) struct Mixer(u64);

impl Mixer {
    pub(super) fn new(seed: u64) -> Self {
        // Seeds 0, 1, 2, ... must give sequences that do not overlap shifted by one.
        Self(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 0x94d0_49bb_1331_11eb)
    }

    /// Moves the sequence on by `amount`.
    #[inline(always)]
    pub(super) fn add(&mut self, amount: u64) {
        self.0 = self.0.wrapping_add(amount);
    }

    /// A number below `bound`; the bias is below `bound / 2^64`.
    #[inline(always)]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeroed_whole_and_aligned() {
        for (bytes, words) in [(0, 8), (1, 8), (64, 8), (65, 16), (3 << 20, 3 << 17)] {
            let lines = Lines::new(Bytes(bytes)).unwrap();
            assert_eq!(lines.words().len(), words);
            assert_eq!(lines.words().as_ptr() as usize % HUGE_PAGE, 0);
            assert!(lines.words().iter().all(|word| *word == 0));
        }
    }

    #[test]
    fn memory_nobody_has_is_an_error() {
        for bytes in [u64::MAX, i64::MAX as u64 - 4096, 1 << 60] {
            assert!(matches!(Lines::new(Bytes(bytes)), Err(MeasureError::Memory(_))));
        }
    }

    #[test]
    fn the_mixer_is_even() {
        let mut mixer = Mixer::new(1);
        let mut counts = [0u32; 16];
        (0..160_000).for_each(|_| counts[mixer.below(16) as usize] += 1);
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }
}
