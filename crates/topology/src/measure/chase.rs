//! The dependent pointer chase: each load's address is the value of the load before it.
//!
//! All lines of the working set form one random cycle, so that every line is visited before any is visited again and
//! no prefetcher can guess the next:
//!
//! ```text
//! line 0 -> line 7 -> line 2 -> line 5 -> ... -> line 0
//! ```
//!
//! Repetitions go on where the last one stopped. Starting over would walk the same few lines again, which the caches
//! then hold whatever the working set's size.

use std::hint::black_box;

use super::lines::{Lines, Mixer, WORDS_PER_LINE};
use crate::clock::thread_cpu_time;

/// Links the first `lines` lines of the block into one random cycle and returns the word to start from.
///
/// Lines are linked in visiting order, which leaves the caches as a walk that is about to return to the start would.
///
/// # Panics
/// When the block has fewer lines.
pub(super) fn link(block: &mut Lines, lines: usize, seed: u64) -> u64 {
    let words = block.words_mut();
    assert!(
        lines >= 1 && lines * WORDS_PER_LINE <= words.len(),
        "{lines} lines do not fit the block"
    );
    assert!(u32::try_from(lines).is_ok(), "line numbers are 32 bits wide");
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut mixer = Mixer::new(seed);
    for last in (1..lines).rev() {
        order.swap(last, mixer.below(last as u64 + 1) as usize);
    }
    let followers = order.iter().skip(1).chain(order.first());
    for (line, follower) in order.iter().zip(followers) {
        words[*line as usize * WORDS_PER_LINE] = (*follower as usize * WORDS_PER_LINE) as u64;
    }
    // Linking wrote every line; one reading pass in the same order replaces modified lines by clean ones, so that the
    // walk does not pay for writing them back.
    let sum = order.iter().fold(0u64, |sum, line| {
        sum.wrapping_add(words[*line as usize * WORDS_PER_LINE])
    });
    black_box(sum);
    u64::from(order[0]) * WORDS_PER_LINE as u64
}

/// Walks `hops` links from word `start`; returns where it ended and the nanoseconds of CPU time a hop took.
pub(super) fn walk(block: &Lines, start: u64, hops: usize) -> (u64, f64) {
    let words = block.words();
    let began = thread_cpu_time();
    let mut at = start;
    for _ in 0..hops {
        // The bounds check is predicted and off the path of the dependency: it costs no latency.
        at = words[at as usize];
    }
    let at = black_box(at);
    (
        at,
        (thread_cpu_time() - began).as_nanos() as f64 / hops.max(1) as f64,
    )
}

#[cfg(test)]
mod tests {
    use corun_model::units::Bytes;

    use super::*;

    #[test]
    fn every_line_is_visited_once_a_round() {
        let mut block = Lines::new(Bytes::kib(64)).unwrap();
        for lines in [1, 2, 3, 1000] {
            let start = link(&mut block, lines, 9);
            let mut seen = vec![false; lines];
            let mut at = start;
            for _ in 0..lines {
                let line = at as usize / WORDS_PER_LINE;
                assert!(
                    !std::mem::replace(&mut seen[line], true),
                    "line {line} came twice"
                );
                at = walk(&block, at, 1).0;
            }
            assert_eq!(at, start, "{lines} hops do not close the cycle");
            assert_eq!(walk(&block, start, lines).0, start);
        }
    }
}
