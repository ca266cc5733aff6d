//! [`words_below`]: the search of a node of one-word keys, a cache line in one compare.
//!
//! The compiler makes no vector loads of atomics, and vector intrinsics on words that others write would be a data race. The
//! instructions below are what a loop of relaxed loads, one for each lane, would do: the words are aligned, their order does not
//! matter, and whoever uses the answer validates the node's version afterwards, which throws away a mixture. Miri and processors
//! without AVX-512 take the loop itself; a test compares the two.
//!
//! What it is not: needed. It only makes the search of short keys faster (see [`SharedCsbTree`](super::SharedCsbTree)).

use std::sync::atomic::AtomicU64;

/// Where a node's keys begin: behind two words.
pub(super) const KEYS_BYTE: usize = 16;

/// Counts the words below a key among `WORDS` ascending ones that begin [`KEYS_BYTE`] behind the first word of a node, which lies on
/// a cache line and has at least as many lines as hold them. `None` where this machine has no such instructions.
#[inline(always)]
pub(super) fn words_below<const WORDS: usize>(node: &AtomicU64, key: u64) -> Option<usize> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F.
        return Some(unsafe { words_below_avx512::<WORDS>(node, key) });
    }
    let _ = (node, key);
    None
}

/// # Safety
/// The processor must have AVX-512F.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn words_below_avx512<const WORDS: usize>(node: &AtomicU64, key: u64) -> usize {
    const {
        assert!(
            WORDS > 14 && WORDS <= 22,
            "the keys begin in the first line and end in the third"
        );
    }
    let (first, second, third): (u64, u64, u64);
    // SAFETY: three aligned lines of a node are read (the contract of the caller), no memory is written, no stack used. Registers
    // from 16 on leave the upper halves of the others clean, so code around it needs no `vzeroupper`.
    unsafe {
        std::arch::asm!(
            "vpbroadcastq zmm16, {key}",
            "vpcmpuq k1, zmm16, zmmword ptr [{node}], 6",
            "vpcmpuq k2, zmm16, zmmword ptr [{node} + 64], 6",
            "vpcmpuq k3, zmm16, zmmword ptr [{node} + 128], 6",
            "kmovw {first:e}, k1",
            "kmovw {second:e}, k2",
            "kmovw {third:e}, k3",
            key = in(reg) key,
            node = in(reg) node,
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
    // Two words stand before the keys. They ascend, so the bits of those below are the lowest.
    let below = (first | second << 8 | third << 16) >> 2;
    (!below | 1 << WORDS).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[repr(align(64))]
    struct Lines([AtomicU64; 32]);

    #[test]
    fn it_counts_what_a_loop_counts() {
        let node = Lines(std::array::from_fn(|_| AtomicU64::new(0)));
        for used in 0..=20_usize {
            for slot in 0..20 {
                let word = if slot < used {
                    (slot as u64) << 59 | slot as u64
                } else {
                    u64::MAX
                };
                node.0[2 + slot].store(word, Ordering::Relaxed);
            }
            for before in [0, u64::MAX] {
                node.0[0].store(before, Ordering::Relaxed);
                node.0[1].store(before, Ordering::Relaxed);
                node.0[22].store(before, Ordering::Relaxed);
                let keys: Vec<u64> = (0..20)
                    .map(|slot| node.0[2 + slot].load(Ordering::Relaxed))
                    .collect();
                for key in keys
                    .iter()
                    .flat_map(|&key| [key.wrapping_sub(1), key, key.wrapping_add(1)])
                {
                    let expected = keys.iter().filter(|&&other| other < key).count();
                    let found = words_below::<20>(&node.0[0], key);
                    assert_eq!(found.unwrap_or(expected), expected, "{keys:?} below {key}");
                }
            }
        }
    }
}
