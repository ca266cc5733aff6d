//! [`HugeBuf`]: an array in huge pages, for structures that are reached at random.
//!
//! A 300 MiB table in 4 KiB pages needs 76,800 page-table entries, far beyond any TLB: nearly every probe then pays a
//! page walk beside its cache miss. In 2 MiB pages it needs 150. Memory comes from the global allocator, so that a
//! counting allocator sees it, and a failed allocation is an error, not an abort.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Arrays of at least this many bytes are rounded up to huge pages and advised as such. Smaller ones would waste more memory on rounding than
/// their TLB misses cost. They are aligned to cache lines only: allocators map blocks of larger alignment anew each time, and only the first
/// and the last page are small then.
pub const HUGE_FROM_BYTES: usize = 4 << 20;

/// Bytes of a huge page on x86-64 (and the usual size on aarch64).
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The allocator had no such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: usize,
}

/// Element types of a [`HugeBuf`].
///
/// # Safety
/// All-zero bytes must be a valid value, and the type must have no padding that matters and no destructor.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u16 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for u128 {}
// SAFETY: a number; zero bytes are 0.0.
unsafe impl Plain for f32 {}

/// A fixed-length array, 64-byte aligned, in huge pages from [`HUGE_FROM_BYTES`] on.
pub struct HugeBuf<T: Plain> {
    memory: Unwritten<T>,
}

/// Memory of a future [`HugeBuf`] whose elements are still to be written, in parallel, through raw pointers.
pub(crate) struct Unwritten<T: Plain> {
    pointer: NonNull<T>,
    length: usize,
    layout: Layout,
}

// SAFETY: it owns its memory like a `Vec<T>`, and `T: Plain` is `Send`.
unsafe impl<T: Plain> Send for Unwritten<T> {}
// SAFETY: shared access only hands out a raw pointer; `T: Plain` is `Sync`.
unsafe impl<T: Plain> Sync for Unwritten<T> {}

/// The layout of `length` elements, or `None` when its size overflows.
fn layout_of<T>(length: usize) -> Option<Layout> {
    let bytes = length.checked_mul(size_of::<T>())?.max(64);
    let alignment = align_of::<T>().max(64);
    if bytes < HUGE_FROM_BYTES {
        return Layout::from_size_align(bytes, alignment).ok();
    }
    let rounded = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
    Layout::from_size_align(rounded, alignment).ok()
}

/// The addresses of a slice's memory.
pub(crate) fn addresses<T>(slice: &[T]) -> std::ops::Range<usize> {
    let range = slice.as_ptr_range();
    range.start as usize..range.end as usize
}

/// Asks for huge pages behind memory that was just allocated and not touched yet. Only advice: nothing but speed depends on it.
pub fn ask_for_huge_pages<T>(memory: &[T]) {
    advise(memory.as_ptr().cast::<u8>().cast_mut(), size_of_val(memory));
}

/// Asks for the huge pages that lie inside of `bytes` bytes. A refusal (old kernel, huge pages off) only costs speed, so the answer is not
/// looked at.
pub(crate) fn advise(start: *mut u8, bytes: usize) {
    let first = (start as usize).next_multiple_of(HUGE_PAGE_BYTES);
    let last = (start as usize + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    #[cfg(all(target_os = "linux", not(miri)))]
    if first < last {
        // SAFETY: the advice changes no contents; for addresses that are not mapped the call only fails.
        unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (first, last);
}

/// The bytes a [`HugeBuf`] of `length` elements takes from the allocator (saturating).
pub fn bytes_of<T: Plain>(length: usize) -> usize {
    layout_of::<T>(length).map_or(usize::MAX, |layout| layout.size())
}

impl<T: Plain> Unwritten<T> {
    /// Takes memory for `length` elements.
    pub(crate) fn new(length: usize) -> Result<Self, OutOfMemory> {
        let Some(layout) = layout_of::<T>(length) else {
            return Err(OutOfMemory { bytes: usize::MAX });
        };
        // SAFETY: the layout has at least 64 bytes.
        let pointer = unsafe { alloc(layout) };
        let Some(pointer) = NonNull::new(pointer.cast::<T>()) else {
            return Err(OutOfMemory { bytes: layout.size() });
        };
        if layout.size() >= HUGE_FROM_BYTES {
            advise(pointer.as_ptr().cast(), layout.size());
        }
        Ok(Unwritten {
            pointer,
            length,
            layout,
        })
    }

    /// The first element.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// The bytes taken from the allocator.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Declares all elements written.
    ///
    /// # Safety
    /// Every element must have been written, and those writes must happen before this call.
    pub(crate) unsafe fn assume_written(self) -> HugeBuf<T> {
        HugeBuf { memory: self }
    }
}

impl<T: Plain> Drop for Unwritten<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `alloc` with this layout and is freed once.
        unsafe { dealloc(self.pointer.as_ptr().cast(), self.layout) };
    }
}

impl<T: Plain> HugeBuf<T> {
    /// `length` elements of all-zero bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the allocator refuses.
    pub fn zeroed(length: usize) -> Result<Self, OutOfMemory> {
        let memory = Unwritten::<T>::new(length)?;
        // `alloc_zeroed` is not used: for large alignments it may write through small pages before the advice is given.
        // SAFETY: the allocation holds `length` elements, and zero bytes are a valid `T` (`Plain`).
        unsafe {
            memory.as_ptr().write_bytes(0, length);
            Ok(memory.assume_written())
        }
    }

    /// The bytes taken from the allocator.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

impl<T: Plain> Deref for HugeBuf<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `length` elements are allocated and written.
        unsafe { std::slice::from_raw_parts(self.memory.pointer.as_ptr(), self.memory.length) }
    }
}

impl<T: Plain> DerefMut for HugeBuf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.memory.pointer.as_ptr(), self.memory.length) }
    }
}

impl<T: Plain> fmt::Debug for HugeBuf<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HugeBuf")
            .field("length", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_are_zero_aligned_and_writable() {
        let mut small = HugeBuf::<u32>::zeroed(5).unwrap();
        assert_eq!(&*small, &[0; 5]);
        assert_eq!(small.as_ptr() as usize % 64, 0);
        small[4] = 9;
        assert_eq!(small[4], 9);

        let large = HugeBuf::<u64>::zeroed(HUGE_FROM_BYTES / 8 + 1).unwrap();
        assert_eq!(large.as_ptr() as usize % 64, 0);
        assert_eq!(large.bytes(), bytes_of::<u64>(HUGE_FROM_BYTES / 8 + 1));
        assert_eq!(large.bytes(), HUGE_FROM_BYTES + HUGE_PAGE_BYTES);
        assert!(large.iter().all(|&word| word == 0));
    }

    #[test]
    fn empty_is_allowed() {
        assert!(HugeBuf::<u8>::zeroed(0).unwrap().is_empty());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(HugeBuf::<u64>::zeroed(usize::MAX / 4).is_err());
        assert!(HugeBuf::<u64>::zeroed(1 << 58).is_err());
    }
}
