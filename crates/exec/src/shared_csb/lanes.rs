//! [`keys_below`]: the search of a node, eight keys in one compare.
//!
//! The compiler makes no vector loads of atomics, and vector intrinsics on words that others write would be a data race. The
//! instructions below do what a loop of relaxed loads, one for each lane, would do: the words are aligned, their order does not
//! matter, and whoever uses the answer validates the node's version afterwards, which throws away a mixture. Miri and processors
//! without AVX-512 search word by word; a test compares the two.
//!
//! What it is not: needed. It only makes the search faster (see [`SharedCsbTree`](super::SharedCsbTree)).

use super::Key;

/// Lanes of one look at a word: two registers of eight.
pub(super) const LANES: usize = 16;

/// Where a node's keys begin: behind two words.
pub(super) const KEYS_BYTE: usize = 16;

/// Counts the keys below another among `KEYS` ascending ones. Their words 0 stand side by side from `first` on, their words 1 follow,
/// and so on. `None` where this machine has no such instructions.
///
/// # Safety
/// From each word's first on, as many lanes as hold `KEYS`, in steps of 8, must be readable, and nobody may write them but by atomics
/// of 4 or 8 bytes.
#[inline(always)]
pub(super) unsafe fn keys_below<const W: usize>(
    first: *const u8,
    keys: usize,
    key: &Key<W>,
) -> Option<usize> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx512f") {
        let mut below = 0;
        for (word, &part) in key.iter().enumerate().rev() {
            let words = first.wrapping_add(word * keys * 8);
            // SAFETY: the processor has AVX-512F, and the caller's promise.
            unsafe {
                if word == W - 1 {
                    below = x86::less(words, keys, part);
                } else {
                    let (less, equal) = x86::less_and_equal(words, part);
                    below = less | equal & below;
                }
            }
        }
        // They ascend, so the bits of those below are the lowest.
        return Some((!below | 1 << keys).trailing_zeros() as usize);
    }
    let _ = (first, keys, key);
    None
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::asm;

    /// One bit for each of two or three registers of words: is it less than this one?
    ///
    /// # Safety
    /// The processor must have AVX-512F; as many aligned words as hold `keys`, in steps of 8, must be readable.
    #[inline(always)]
    pub(super) unsafe fn less(words: *const u8, keys: usize, word: u64) -> u64 {
        let (first, second, third): (u64, u64, u64);
        if keys > super::LANES {
            // SAFETY: reads what the caller promised, writes no memory, uses no stack. Registers from 16 on leave the upper
            // halves of the others clean, so code around it needs no `vzeroupper`.
            unsafe {
                asm!(
                    "vpbroadcastq zmm16, {word}",
                    "vpcmpuq k1, zmm16, zmmword ptr [{words}], 6",
                    "vpcmpuq k2, zmm16, zmmword ptr [{words} + 64], 6",
                    "vpcmpuq k3, zmm16, zmmword ptr [{words} + 128], 6",
                    "kmovw {first:e}, k1",
                    "kmovw {second:e}, k2",
                    "kmovw {third:e}, k3",
                    word = in(reg) word,
                    words = in(reg) words,
                    first = lateout(reg) first,
                    second = lateout(reg) second,
                    third = lateout(reg) third,
                    out("xmm16") _,
                    out("k1") _,
                    out("k2") _,
                    out("k3") _,
                    options(nostack, readonly, preserves_flags),
                );
            }
            return first | second << 8 | third << 16;
        }
        // SAFETY: as above.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {word}",
                "vpcmpuq k1, zmm16, zmmword ptr [{words}], 6",
                "vpcmpuq k2, zmm16, zmmword ptr [{words} + 64], 6",
                "kmovw {first:e}, k1",
                "kmovw {second:e}, k2",
                word = in(reg) word,
                words = in(reg) words,
                first = lateout(reg) first,
                second = lateout(reg) second,
                out("xmm16") _,
                out("k1") _,
                out("k2") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        first | second << 8
    }

    /// One bit for each of two registers of words: is it less than this one, and is it equal?
    ///
    /// # Safety
    /// As [`less`], with 16 words.
    #[inline(always)]
    pub(super) unsafe fn less_and_equal(words: *const u8, word: u64) -> (u64, u64) {
        let (less0, less1, equal0, equal1): (u64, u64, u64, u64);
        // SAFETY: as above.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {word}",
                "vmovdqu64 zmm17, zmmword ptr [{words}]",
                "vmovdqu64 zmm18, zmmword ptr [{words} + 64]",
                "vpcmpuq k1, zmm17, zmm16, 1",
                "vpcmpuq k2, zmm18, zmm16, 1",
                "vpcmpuq k3, zmm17, zmm16, 0",
                "vpcmpuq k4, zmm18, zmm16, 0",
                "kmovw {less0:e}, k1",
                "kmovw {less1:e}, k2",
                "kmovw {equal0:e}, k3",
                "kmovw {equal1:e}, k4",
                word = in(reg) word,
                words = in(reg) words,
                less0 = lateout(reg) less0,
                less1 = lateout(reg) less1,
                equal0 = lateout(reg) equal0,
                equal1 = lateout(reg) equal1,
                out("xmm16") _,
                out("xmm17") _,
                out("xmm18") _,
                out("k1") _,
                out("k2") _,
                out("k3") _,
                out("k4") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        (less0 | less1 << 8, equal0 | equal1 << 8)
    }
}
