//! Hints to the memory system: fetch a line soon, or read a slice once without keeping it.
//!
//! x86-64 has intrinsics for these, aarch64 gets its `prfm` as inline assembly, as the standard library's is not stable; on
//! other machines they do nothing. A hint never changes an answer. What they gain on aarch64 is unmeasured.

/// Bytes of a cache line on every machine corun runs on.
pub const LINE_BYTES: usize = 64;

/// One `prfm`. Its operand says what for (`pld`: a load), how near, and whether the line is kept or streams through; a macro, as
/// the operand is part of the instruction.
#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! prfm {
    ($operation:literal, $address:expr) => {
        // SAFETY: a prefetch reads nothing the program can see (so `nomem`), never faults, and changes no register.
        unsafe {
            core::arch::asm!(
                concat!("prfm ", $operation, ", [{address}]"),
                address = in(reg) $address,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

/// How far ahead of the reader [`Once`] asks for lines, in bytes. Unmeasured beyond "a few hundred cycles of scanning".
pub const ONCE_AHEAD_BYTES: usize = 1024;

/// Asks for the line at `address` in every cache level. Any address is allowed, also one that is not mapped.
#[inline(always)]
pub fn prefetch_read<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    prfm!("pldl1keep", address);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}

/// Asks for the line at `address` in the private L2 (and outward), not in L1: there it takes no line fill buffer while it
/// waits. For single lines at random out of cache. Measured (320 MiB), CPU ns a line: Sapphire Rapids, 32 lines ahead, 6.3 against 7.1
/// for [`prefetch_read`]; EPYC VM, 64 ahead, 4.7 against 7.8. Any address is allowed.
#[inline(always)]
pub fn prefetch_far<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    prfm!("pldl2keep", address);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}

/// Asks for the line at `address` for one use: on Intel it comes into L1 without displacing L2 and takes at most a
/// small part of the last level, so a scan does not flush a neighbour's hash table; on aarch64 it is a streaming prefetch
/// (`pldl1strm`), of which each processor makes what it likes. Any address is allowed.
#[inline(always)]
pub fn prefetch_once<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_NTA>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    prfm!("pldl1strm", address);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}

/// A way to ask for lines that are read at random, as a type: hot loops are compiled once for each.
pub(crate) trait Ask: Copy {
    /// Whether anything is asked for.
    const ASKS: bool;

    /// Asks for the line at `address`.
    fn ask<T>(address: *const T);
}

/// Nothing is asked for: all of it is near.
#[derive(Clone, Copy)]
pub(crate) struct Near;

impl Ask for Near {
    const ASKS: bool = false;

    #[inline(always)]
    fn ask<T>(_: *const T) {}
}

/// [`Reuse::Keep`](corun_model::cache::reuse::Reuse::Keep).
#[derive(Clone, Copy)]
pub(crate) struct Kept;

impl Ask for Kept {
    const ASKS: bool = true;

    #[inline(always)]
    fn ask<T>(address: *const T) {
        prefetch_far(address);
    }
}

/// [`Reuse::Once`](corun_model::cache::reuse::Reuse::Once). Between asking and reading there must be far fewer lines than L1 holds: one that
/// fell out of it comes from memory again.
#[derive(Clone, Copy)]
pub(crate) struct Passing;

impl Ask for Passing {
    const ASKS: bool = true;

    #[inline(always)]
    fn ask<T>(address: *const T) {
        prefetch_once(address);
    }
}

/// Iterates over a slice that is read once, asking for its lines ahead with [`prefetch_once`].
///
/// ```
/// let column: Vec<u64> = (0..1000).collect();
/// assert_eq!(corun_exec::prefetch::Once::new(&column).sum::<u64>(), 499_500);
/// ```
#[derive(Clone, Debug)]
pub struct Once<'a, T> {
    slice: &'a [T],
    position: usize,
}

impl<'a, T: Copy> Once<'a, T> {
    /// Reads `slice` from its beginning.
    pub fn new(slice: &'a [T]) -> Self {
        Once { slice, position: 0 }
    }
}

impl<T: Copy> Iterator for Once<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let value = *self.slice.get(self.position)?;
        let byte = self.position * size_of::<T>();
        if byte % LINE_BYTES < size_of::<T>().max(1) {
            prefetch_once(self.slice.as_ptr().wrapping_byte_add(byte + ONCE_AHEAD_BYTES));
        }
        self.position += 1;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.slice.len() - self.position;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_yields_every_element_in_order() {
        for length in [0_usize, 1, 7, 8, 9, 1000] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let words: Vec<u128> = (0..length as u128).collect();
            assert_eq!(Once::new(&bytes).collect::<Vec<_>>(), bytes);
            assert_eq!(Once::new(&words).collect::<Vec<_>>(), words);
        }
    }

    #[test]
    fn a_hint_may_name_any_address() {
        prefetch_read(core::ptr::null::<u8>());
        prefetch_far(core::ptr::null::<u8>());
        prefetch_once(usize::MAX as *const u8);
    }
}
