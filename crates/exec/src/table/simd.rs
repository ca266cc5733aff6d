//! Comparing one key with all keys of a line: AVX-512, AVX2 and portable twins.
//!
//! [`Isa::detect`] is called once, when a table is built; loops are compiled once per instruction set and entered
//! through [`Isa`]'s `match`, so no detection happens inside them.

use super::layout::{Line, Line32, Line64};
pub(crate) use crate::isa::Isa;

/// A loop to be compiled once per instruction set. Implementations must be `#[inline(always)]`.
pub(crate) trait Loop {
    /// The answer.
    type Output;

    /// Runs it.
    ///
    /// # Safety
    /// The processor must have the instruction set the loop's types name; implementations may ask for more.
    unsafe fn run(self) -> Self::Output;
}

/// Elements [`Instructions::pack`] may write beyond those it counts.
pub(crate) const PACK_SLACK: usize = 16;

/// An instruction set as a type, for loops compiled with it.
pub(crate) trait Instructions: Copy + Send + Sync + 'static {
    /// Runs a loop with these instructions.
    ///
    /// # Safety
    /// As [`Loop::run`], and the processor must have this set.
    unsafe fn enter<W: Loop>(work: W) -> W::Output;

    /// Writes `data[i] - minus` for each `i` with `values[i] != 0`, one after the other without a branch on the values, and
    /// returns how many.
    ///
    /// # Safety
    /// `values` and `data` must hold `count` elements, `out` have room for [`PACK_SLACK`] more than that and overlap
    /// neither; the processor must have this set.
    #[inline(always)]
    unsafe fn pack(values: *const u32, data: *const u32, count: usize, minus: u32, out: *mut u32) -> usize {
        let mut packed = 0;
        for index in 0..count {
            // SAFETY: the index is in range, and not more were packed than looked at.
            unsafe {
                out.add(packed).write(data.add(index).read().wrapping_sub(minus));
                packed += usize::from(values.add(index).read() != 0);
            }
        }
        packed
    }
}

impl Instructions for Portable {
    #[inline(always)]
    unsafe fn enter<W: Loop>(work: W) -> W::Output {
        // SAFETY: the caller's promise.
        unsafe { work.run() }
    }
}

/// One instruction set's way to compare a line.
pub(crate) trait Compare<L: Line>: Instructions {
    /// One bit a slot: is its key equal? Free slots may answer yes to key 0; their value is 0.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn matching(line: &L, key: L::Key) -> u32;

    /// One bit a slot: is it taken?
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn filled(line: &L) -> u32;
}

/// Evaluates an expression with a type name standing for the [`Compare`] type of an [`Isa`].
macro_rules! with_compare {
    ($isa:expr, $compare:ident => $body:expr) => {
        match $isa {
            $crate::table::simd::Isa::Portable => {
                type $compare = $crate::table::simd::Portable;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            $crate::table::simd::Isa::Avx2 => {
                type $compare = $crate::table::simd::Avx2;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            $crate::table::simd::Isa::Avx512 => {
                type $compare = $crate::table::simd::Avx512;
                $body
            }
        }
    };
}
pub(crate) use with_compare;

/// Whatever the target guarantees.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl<L: Line> Compare<L> for Portable
where
    L: PortableKeys,
{
    #[inline(always)]
    unsafe fn matching(line: &L, key: L::Key) -> u32 {
        line.portable_matching(key)
    }

    #[inline(always)]
    unsafe fn filled(line: &L) -> u32 {
        line.values()
            .iter()
            .rev()
            .fold(0, |mask, &value| mask << 1 | u32::from(value != 0))
    }
}

/// Lines whose keys can be compared one by one.
pub(crate) trait PortableKeys: Line {
    /// One bit a slot: is its key equal?
    fn portable_matching(&self, key: Self::Key) -> u32;
}

impl PortableKeys for Line64 {
    #[inline(always)]
    fn portable_matching(&self, key: u64) -> u32 {
        self.keys
            .iter()
            .rev()
            .fold(0, |mask, &other| mask << 1 | u32::from(other == key))
    }
}

impl PortableKeys for Line32 {
    #[inline(always)]
    fn portable_matching(&self, key: u32) -> u32 {
        self.keys
            .iter()
            .rev()
            .fold(0, |mask, &other| mask << 1 | u32::from(other == key))
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{Compare, Instructions, Line32, Line64, Loop};

    /// # Safety
    /// As [`Instructions::enter`].
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn run_avx2<W: Loop>(work: W) -> W::Output {
        // SAFETY: the caller's promise.
        unsafe { work.run() }
    }

    /// # Safety
    /// As [`Instructions::enter`].
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,bmi1,bmi2")]
    unsafe fn run_avx512<W: Loop>(work: W) -> W::Output {
        // SAFETY: the caller's promise.
        unsafe { work.run() }
    }

    impl Instructions for Avx2 {
        #[inline(always)]
        unsafe fn enter<W: Loop>(work: W) -> W::Output {
            // SAFETY: the caller's promise.
            unsafe { run_avx2(work) }
        }
    }

    impl Instructions for Avx512 {
        #[inline(always)]
        unsafe fn enter<W: Loop>(work: W) -> W::Output {
            // SAFETY: the caller's promise.
            unsafe { run_avx512(work) }
        }

        #[inline(always)]
        unsafe fn pack(
            values: *const u32,
            data: *const u32,
            count: usize,
            minus: u32,
            out: *mut u32,
        ) -> usize {
            let mut packed = 0;
            for start in (0..count).step_by(16) {
                let left = (count - start).min(16);
                let lanes = (0xffff_u32 >> (16 - left)) as __mmask16;
                // SAFETY: AVX-512F is there and `out` has room for 16 more than `count` by the contract; the masked
                // loads read only elements below `count`.
                unsafe {
                    let value = _mm512_maskz_loadu_epi32(lanes, values.add(start).cast());
                    let datum = _mm512_maskz_loadu_epi32(lanes, data.add(start).cast());
                    let found = _mm512_test_epi32_mask(value, value);
                    let datum = _mm512_sub_epi32(datum, _mm512_set1_epi32(minus as i32));
                    _mm512_storeu_si512(out.add(packed).cast(), _mm512_maskz_compress_epi32(found, datum));
                    packed += found.count_ones() as usize;
                }
            }
            packed
        }
    }

    /// 256-bit compares.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    /// A whole line in one compare.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    impl Compare<Line64> for Avx2 {
        #[inline(always)]
        unsafe fn matching(line: &Line64, key: u64) -> u32 {
            // SAFETY: AVX2 is there by the trait's contract; bytes 0..32 lie inside the line, which is 64-aligned.
            let low = unsafe {
                let keys = _mm256_load_si256(core::ptr::from_ref(line).cast());
                let equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(key as i64));
                _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32
            };
            low | u32::from(line.keys[4] == key) << 4
        }

        #[inline(always)]
        unsafe fn filled(line: &Line64) -> u32 {
            // SAFETY: AVX2 is there by the trait's contract; bytes 32..64 lie inside the line, which is 64-aligned.
            // The lanes of the half line are key 4 (two), value 0..4, passed.
            unsafe {
                let half = _mm256_load_si256(core::ptr::from_ref(line).cast::<__m256i>().add(1));
                let free = _mm256_cmpeq_epi32(half, _mm256_setzero_si256());
                !(_mm256_movemask_ps(_mm256_castsi256_ps(free)) as u32) >> 2 & 0x1f
            }
        }
    }

    impl Compare<Line32> for Avx2 {
        #[inline(always)]
        unsafe fn matching(line: &Line32, key: u32) -> u32 {
            // SAFETY: AVX2 is there by the trait's contract; bytes 0..32 lie inside the line, which is 64-aligned.
            unsafe {
                let keys = _mm256_load_si256(core::ptr::from_ref(line).cast());
                let equal = _mm256_cmpeq_epi32(keys, _mm256_set1_epi32(key as i32));
                _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32 & 0x7f
            }
        }

        #[inline(always)]
        unsafe fn filled(line: &Line32) -> u32 {
            // SAFETY: AVX2 is there by the trait's contract; bytes 32..64 lie inside the line, which is 64-aligned.
            unsafe {
                let values = _mm256_load_si256(core::ptr::from_ref(line).cast::<__m256i>().add(1));
                let free = _mm256_cmpeq_epi32(values, _mm256_setzero_si256());
                !(_mm256_movemask_ps(_mm256_castsi256_ps(free)) as u32) & 0x7f
            }
        }
    }

    impl Compare<Line64> for Avx512 {
        #[inline(always)]
        unsafe fn matching(line: &Line64, key: u64) -> u32 {
            // SAFETY: AVX-512F is there by the trait's contract; the load is the whole, aligned line.
            unsafe {
                let lanes = _mm512_load_si512(core::ptr::from_ref(line).cast());
                u32::from(_mm512_cmpeq_epi64_mask(lanes, _mm512_set1_epi64(key as i64))) & 0x1f
            }
        }

        #[inline(always)]
        unsafe fn filled(line: &Line64) -> u32 {
            // SAFETY: AVX-512F is there by the trait's contract; the load is the whole, aligned line.
            unsafe {
                let lanes = _mm512_load_si512(core::ptr::from_ref(line).cast());
                u32::from(_mm512_test_epi32_mask(lanes, lanes)) >> 10 & 0x1f
            }
        }
    }

    impl Compare<Line32> for Avx512 {
        #[inline(always)]
        unsafe fn matching(line: &Line32, key: u32) -> u32 {
            // SAFETY: AVX-512VL is there by the trait's contract; bytes 0..32 lie inside the aligned line.
            unsafe {
                let keys = _mm256_load_si256(core::ptr::from_ref(line).cast());
                u32::from(_mm256_cmpeq_epi32_mask(keys, _mm256_set1_epi32(key as i32))) & 0x7f
            }
        }

        #[inline(always)]
        unsafe fn filled(line: &Line32) -> u32 {
            // SAFETY: AVX-512VL is there by the trait's contract; bytes 32..64 lie inside the aligned line.
            unsafe {
                let values = _mm256_load_si256(core::ptr::from_ref(line).cast::<__m256i>().add(1));
                u32::from(_mm256_test_epi32_mask(values, values)) & 0x7f
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    fn check<L: Line + PortableKeys, C: Compare<L>>(line: &L, key: L::Key) {
        // SAFETY: the caller only names sets `Isa::available` lists.
        let (matching, filled) = unsafe { (C::matching(line, key), C::filled(line)) };
        // SAFETY: the portable twin needs nothing.
        let expected = unsafe { (Portable::matching(line, key), Portable::filled(line)) };
        assert_eq!((matching, filled), expected);
    }

    #[test]
    fn packing_keeps_what_has_a_value() {
        for isa in Isa::available() {
            for count in 0..70_usize {
                for pattern in [0_u64, u64::MAX, 0x5555_1234_8001_ffff, 1 << 33] {
                    let values: Vec<u32> = (0..count).map(|i| (pattern >> (i % 64)) as u32 & 1).collect();
                    let data: Vec<u32> = (0..count as u32).map(|i| i * 3).collect();
                    let mut out = vec![0; count + PACK_SLACK];
                    let packed = with_compare!(isa, C => {
                        // SAFETY: the set is available; there is room for the slack.
                        unsafe { C::pack(values.as_ptr(), data.as_ptr(), count, 1, out.as_mut_ptr()) }
                    });
                    let expected: Vec<u32> = (0..count)
                        .filter(|&i| values[i] != 0)
                        .map(|i| data[i].wrapping_sub(1))
                        .collect();
                    assert_eq!(&out[..packed], expected);
                }
            }
        }
    }

    #[test]
    fn every_set_agrees_with_the_portable_one() {
        let keys = [0, 1, 2, u64::MAX, 1 << 32, 1 << 31];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut draw = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            let line64 = Line64 {
                keys: std::array::from_fn(|_| keys[draw(6)]),
                values: std::array::from_fn(|_| [0, 1, 1 << 31][draw(3)]),
                passed: draw(3) as u32,
            };
            #[cfg(target_arch = "x86_64")]
            let line32 = Line32 {
                keys: std::array::from_fn(|_| keys[draw(6)] as u32),
                passed: draw(3) as u32,
                values: std::array::from_fn(|_| [0, 1, 1 << 31][draw(3)]),
                unused: draw(3) as u32,
            };
            let key = keys[draw(6)];
            for isa in Isa::available() {
                match isa {
                    Isa::Portable => {
                        let bits = (0..5)
                            .filter(|&slot| line64.keys[slot] == key)
                            .map(|slot| 1 << slot)
                            .sum::<u32>();
                        assert_eq!(line64.portable_matching(key), bits);
                    }
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => {
                        check::<_, Avx2>(&line64, key);
                        check::<_, Avx2>(&line32, key as u32);
                    }
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => {
                        check::<_, Avx512>(&line64, key);
                        check::<_, Avx512>(&line32, key as u32);
                    }
                }
            }
        }
    }
}
