//! Counting a node's keys below a given one: AVX-512, AVX2 and portable twins.
//!
//! [`Isa::detect`] is called once, when a tree is made. A [`Task`] is compiled once per instruction set and entered through
//! [`Isa::run`], so no detection happens inside it. All twins are free of branches on the keys: they look at every key slot,
//! taken or not, because unused slots hold the largest order. What it is not: a binary search, which would wait for a
//! mispredicted branch at nearly every step.

pub(crate) use crate::isa::Isa;

impl Isa {
    /// Runs a task with this set.
    ///
    /// # Safety
    /// The processor must have it.
    #[inline(always)]
    pub(crate) unsafe fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            // SAFETY: every processor has what the target guarantees.
            Isa::Portable => unsafe { task.run::<Portable>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise.
            Isa::Avx2 => unsafe { x86::run_avx2(task) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise.
            Isa::Avx512 => unsafe { x86::run_avx512(task) },
        }
    }
}

/// Work that is compiled once per instruction set. Implementations of `run` must be `#[inline(always)]`.
pub(crate) trait Task {
    /// The answer.
    type Output;

    /// Does it.
    ///
    /// # Safety
    /// The processor must have the set `S` stands for.
    unsafe fn run<S: Search>(self) -> Self::Output;
}

/// One instruction set's way to search a node.
pub trait Search: Copy {
    /// How many of `keys` 4-byte integers, 8 bytes into a node, are less than `key`.
    ///
    /// # Safety
    /// `node` must be 64-byte aligned and have `LINES * 64` readable, initialised bytes; `8 + 4 * keys` may not exceed
    /// them and `LINES` not exceed [`LINES_MAX`](super::node::LINES_MAX). The processor must have the instruction set.
    unsafe fn less32<const LINES: usize>(node: *const u8, keys: usize, key: i32) -> usize;

    /// The same for 8-byte integers.
    ///
    /// # Safety
    /// As [`Search::less32`], with 8 bytes a key.
    unsafe fn less64<const LINES: usize>(node: *const u8, keys: usize, key: i64) -> usize;
}

/// Whatever the target guarantees.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Search for Portable {
    #[inline(always)]
    unsafe fn less32<const LINES: usize>(node: *const u8, keys: usize, key: i32) -> usize {
        // SAFETY: the caller's promise; byte 8 of an aligned node is aligned for 4-byte integers.
        let keys = unsafe { std::slice::from_raw_parts(node.add(8).cast::<i32>(), keys) };
        keys.iter().map(|&other| u32::from(other < key)).sum::<u32>() as usize
    }

    #[inline(always)]
    unsafe fn less64<const LINES: usize>(node: *const u8, keys: usize, key: i64) -> usize {
        // SAFETY: the caller's promise; byte 8 of an aligned node is aligned for 8-byte integers.
        let keys = unsafe { std::slice::from_raw_parts(node.add(8).cast::<i64>(), keys) };
        keys.iter().map(|&other| u64::from(other < key)).sum::<u64>() as usize
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{Search, Task};

    /// # Safety
    /// As [`super::Isa::run`].
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) unsafe fn run_avx2<T: Task>(task: T) -> T::Output {
        // SAFETY: the caller's promise.
        unsafe { task.run::<Avx2>() }
    }

    /// # Safety
    /// As [`super::Isa::run`].
    #[target_feature(enable = "avx512f,avx2,popcnt")]
    pub(super) unsafe fn run_avx512<T: Task>(task: T) -> T::Output {
        // SAFETY: the caller's promise.
        unsafe { task.run::<Avx512>() }
    }

    /// 256-bit compares.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2;

    /// A whole line in one compare.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512;

    /// One bit for each lane of a node that holds a key; `header` lanes come before the first.
    #[inline(always)]
    const fn key_lanes(header: usize, keys: usize) -> u64 {
        (u64::MAX >> (64 - header - keys)) & (u64::MAX << header)
    }

    impl Search for Avx2 {
        #[inline(always)]
        unsafe fn less32<const LINES: usize>(node: *const u8, keys: usize, key: i32) -> usize {
            let lanes = key_lanes(2, keys);
            let mut less = 0;
            for half in 0..2 * LINES {
                // SAFETY: AVX2 is there and all halves of the aligned lines are readable by the contract.
                let bits = unsafe {
                    let others = _mm256_load_si256(node.cast::<__m256i>().add(half));
                    let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(key), others);
                    _mm256_movemask_ps(_mm256_castsi256_ps(below)) as u32
                };
                less |= u64::from(bits) << (8 * half);
            }
            (less & lanes).count_ones() as usize
        }

        #[inline(always)]
        unsafe fn less64<const LINES: usize>(node: *const u8, keys: usize, key: i64) -> usize {
            let lanes = key_lanes(1, keys);
            let mut less = 0;
            for half in 0..2 * LINES {
                // SAFETY: as above.
                let bits = unsafe {
                    let others = _mm256_load_si256(node.cast::<__m256i>().add(half));
                    let below = _mm256_cmpgt_epi64(_mm256_set1_epi64x(key), others);
                    _mm256_movemask_pd(_mm256_castsi256_pd(below)) as u32
                };
                less |= u64::from(bits) << (4 * half);
            }
            (less & lanes).count_ones() as usize
        }
    }

    impl Search for Avx512 {
        #[inline(always)]
        unsafe fn less32<const LINES: usize>(node: *const u8, keys: usize, key: i32) -> usize {
            let lanes = key_lanes(2, keys);
            let mut less = 0;
            for line in 0..LINES {
                // SAFETY: AVX-512F is there and all aligned lines are readable by the contract.
                let bits = unsafe {
                    let others = _mm512_load_si512(node.cast::<__m512i>().add(line));
                    _mm512_cmplt_epi32_mask(others, _mm512_set1_epi32(key))
                };
                less |= u64::from(bits) << (16 * line);
            }
            (less & lanes).count_ones() as usize
        }

        #[inline(always)]
        unsafe fn less64<const LINES: usize>(node: *const u8, keys: usize, key: i64) -> usize {
            let lanes = key_lanes(1, keys);
            let mut less = 0;
            for line in 0..LINES {
                // SAFETY: as above.
                let bits = unsafe {
                    let others = _mm512_load_si512(node.cast::<__m512i>().add(line));
                    _mm512_cmplt_epi64_mask(others, _mm512_set1_epi64(key))
                };
                less |= u64::from(bits) << (8 * line);
            }
            (less & lanes).count_ones() as usize
        }
    }
}
