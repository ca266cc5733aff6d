//! Dependent accesses to lines drawn evenly at random: what the last-level cache is worth to a hash table.
//!
//! Each line is drawn independently of all before, so that in the long run *any* cache holds an equal part of the working
//! set, whatever lines it evicts: of a set of `W` bytes a cache of `C` serves `C / W`. A cyclic chase ([`super::chase`])
//! visits every line before any a second time, which is the worst case of most replacement policies: on a virtual
//! Sapphire Rapids it bent at 10 to 31 MiB from run to run, while even draws, and tables of 64 to 96 MiB beside a
//! polluting neighbour, found 78 MiB.

use std::hint::black_box;

use super::lines::{Lines, Mixer, WORDS_PER_LINE};
use crate::clock::thread_cpu_time;

/// Most accesses that bring a working set into the caches. Sets beyond every cache need as many as a cache has lines.
const TOUCHES_MAX: usize = 4 << 20;

/// Accesses of the first `lines` lines that do not wait for each other: fast, and leaves the caches as [`walk`] would.
pub(super) fn warm(block: &Lines, lines: usize, mixer: &mut Mixer) {
    let words = block.words();
    let mut sum = 0u64;
    for _ in 0..(lines * 3).min(TOUCHES_MAX) {
        let line = mixer.below(lines as u64) as usize;
        sum = sum.wrapping_add(words[line * WORDS_PER_LINE]);
    }
    black_box(sum);
}

/// Nanoseconds of CPU time an access takes when each waits for the one before; some of them are arithmetic.
///
/// # Panics
/// When the block has fewer lines.
pub(super) fn walk(block: &Lines, lines: usize, hops: usize, mixer: &mut Mixer) -> f64 {
    let words = block.words();
    // Makes the next address wait for the value without depending on it; the compiler must not know that it is zero.
    let nothing = black_box(0u64);
    let began = thread_cpu_time();
    for _ in 0..hops {
        let line = mixer.below(lines as u64) as usize;
        mixer.add(words[line * WORDS_PER_LINE] & nothing);
    }
    black_box(&*mixer);
    (thread_cpu_time() - began).as_nanos() as f64 / hops.max(1) as f64
}

#[cfg(test)]
mod tests {
    use corun_model::units::Bytes;

    use super::*;

    #[test]
    fn walking_draws_what_the_mixer_draws_and_takes_time() {
        let mut block = Lines::new(Bytes::kib(64)).unwrap();
        block.words_mut().fill(u64::MAX);
        let (mut walked, mut drawn) = (Mixer::new(3), Mixer::new(3));
        warm(&block, 1000, &mut walked);
        assert!(walk(&block, 1000, 500, &mut walked) > 0.0);
        for _ in 0..3000 + 500 {
            drawn.below(1000);
        }
        assert_eq!(walked.below(1 << 40), drawn.below(1 << 40));
    }
}
