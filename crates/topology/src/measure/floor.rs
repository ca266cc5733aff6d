//! The floor: as fast as this machine can touch random, independent cache lines.
//!
//! A hash probe that misses the caches must touch at least one random line. How many of those per second a machine can
//! do with every trick allowed is the limit that joins are compared with. One 8-byte load a line, addresses from a
//! generator that needs no memory, and every load checked: the sum of what was read is compared with the sum that
//! the addresses demand.
//!
//! Two ways of asking are tried on every buffer, and the faster is used: leave it to the out-of-order window, or
//! prefetch into the second-level cache 64 lines ahead. On a Sapphire Rapids VM (2 MiB L2), huge pages, one thread:
//!
//! | buffer | plain loads | prefetch into L1, 64 ahead | into L2, 64 ahead |
//! | --- | --- | --- | --- |
//! | 1 MiB | 0.85 ns | 0.83 | 0.87 |
//! | 64 MiB | 3.6 | 3.4 | 3.4 |
//! | 256 MiB | 7.4 | 6.2 | 5.2 |
//! | 1 GiB | 10.6 | 10.3 | 9.1 |
//!
//! Distances 32 to 256 differ by less than 3 %. Not here: sizes and repetitions; callers choose them.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

use corun_model::units::{Bytes, CpuId};

use super::error::MeasureError;
use super::lines::{Lines, Mixer, WORDS_PER_LINE};
use super::pinned::run_pinned;
use crate::affinity;

/// How far ahead lines are prefetched; see the table above.
const DISTANCE: usize = 64;
/// Accesses that tell the two ways apart, and at most this many to warm the caches before a sample.
const TRIAL_LINES: u64 = 1 << 16;
const WARM_LINES_MAX: u64 = 1 << 18;

/// One measurement of the floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorSample {
    /// Wall time over all accesses of all threads, in nanoseconds. Not a number when nothing could be measured.
    pub ns_per_line: f64,
    /// Whether what was read is what the addresses demand.
    pub checksum_ok: bool,
}

/// The floor for a buffer of `bytes`, `threads` threads and about `lines` accesses in all.
///
/// Allocates and fills the buffer anew; [`FloorBuffer`] does so once for many samples. If memory or threads cannot be
/// had, the sample says so by `checksum_ok: false`.
pub fn ns_per_line(bytes: usize, threads: usize, lines: u64) -> FloorSample {
    FloorBuffer::new(Bytes(bytes as u64))
        .and_then(|buffer| buffer.sample(threads, lines))
        .unwrap_or(FloorSample {
            ns_per_line: f64::NAN,
            checksum_ok: false,
        })
}

/// A filled buffer to take samples from.
pub struct FloorBuffer {
    block: Lines,
    lines: u64,
    way: Way,
    /// Every sample uses fresh addresses: repeated ones would be in the caches.
    samples: Cell<u64>,
}

/// How lines are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Prefetch,
}

impl FloorBuffer {
    /// Allocates and fills a buffer of `bytes`, rounded up to whole lines.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(bytes: Bytes) -> Result<Self, MeasureError> {
        Self::from_block(Lines::new(bytes)?, bytes)
    }

    /// Uses the first `bytes` of a block somebody already has.
    pub(super) fn from_block(mut block: Lines, bytes: Bytes) -> Result<Self, MeasureError> {
        let available = block.words().len() / WORDS_PER_LINE;
        let lines = (bytes.as_usize() / (8 * WORDS_PER_LINE)).clamp(1, available);
        if u32::try_from(lines).is_err() {
            return Err(MeasureError::Request("buffers of 256 GiB or more"));
        }
        for (line, words) in block
            .words_mut()
            .chunks_exact_mut(WORDS_PER_LINE)
            .take(lines)
            .enumerate()
        {
            words[0] = content(line as u64);
        }
        let mut buffer = Self {
            block,
            lines: lines as u64,
            way: Way::Plain,
            samples: Cell::new(0),
        };
        buffer.way = buffer.faster_way();
        Ok(buffer)
    }

    /// Gives the block back for another use.
    pub(super) fn into_block(self) -> Lines {
        self.block
    }

    /// Measures about `lines` accesses, shared out among `threads` threads on different CPUs where there are enough.
    ///
    /// # Errors
    /// When there are no threads or lines to measure, or a thread cannot be placed.
    pub fn sample(&self, threads: usize, lines: u64) -> Result<FloorSample, MeasureError> {
        let allowed = affinity::allowed_cpus()?;
        // Which CPUs matters only if some, but not all, are used: then one of each core, not two threads of one.
        if threads > 1 && threads < allowed.len() {
            return self.sample_on(&crate::discover().placement_order(), threads, lines);
        }
        self.sample_on(&allowed, threads, lines)
    }

    /// Like [`Self::sample`], taking CPUs in the order given.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn sample_on(&self, cpus: &[CpuId], threads: usize, lines: u64) -> Result<FloorSample, MeasureError> {
        if threads == 0 || lines == 0 || cpus.is_empty() {
            return Err(MeasureError::Request("no threads, no lines or no CPUs"));
        }
        let cpus: Vec<CpuId> = cpus.iter().copied().cycle().take(threads).collect();
        let each = lines.div_ceil(threads as u64);
        let words = self.block.words();
        let (line_count, way) = (self.lines, self.way);
        let seed =
            |thread: usize, round: u64| Mixer::new(round.wrapping_mul(65_537).wrapping_add(thread as u64));
        let (warm_round, round) = (self.samples.get() + 1, self.samples.get() + 2);
        self.samples.set(round);

        let warm = line_count.saturating_mul(4).min(WARM_LINES_MAX);
        let runs = run_pinned(
            &cpus,
            &|thread| {
                black_box(touch(way, words, line_count, warm, seed(thread, warm_round)));
            },
            &|thread| {
                let began = Instant::now();
                let sum = black_box(touch(way, words, line_count, each, seed(thread, round)));
                (began, Instant::now(), sum)
            },
        )?;
        let began = runs.iter().map(|(began, ..)| *began).min();
        let ended = runs.iter().map(|(_, ended, _)| *ended).max();
        let (Some(began), Some(ended)) = (began, ended) else {
            return Err(MeasureError::Request("no threads"));
        };
        let expected = |thread: usize| {
            let mut mixer = seed(thread, round);
            (0..each).fold(0u64, |sum, _| sum.wrapping_add(content(mixer.below(line_count))))
        };
        Ok(FloorSample {
            ns_per_line: (ended - began).as_nanos() as f64 / (each * threads as u64) as f64,
            checksum_ok: runs
                .iter()
                .enumerate()
                .all(|(thread, (.., sum))| *sum == expected(thread)),
        })
    }

    fn faster_way(&self) -> Way {
        let trial = |way, seed| {
            let began = Instant::now();
            black_box(touch(
                way,
                self.block.words(),
                self.lines,
                TRIAL_LINES,
                Mixer::new(seed),
            ));
            began.elapsed()
        };
        let best = |way, seed: u64| (0..4).map(|n| trial(way, seed + n)).min();
        // The first trial of each also warms; the least time decides.
        if best(Way::Prefetch, 1 << 40) < best(Way::Plain, 1 << 41) {
            Way::Prefetch
        } else {
            Way::Plain
        }
    }
}

/// What line `line` holds: never zero, so that a load of untouched memory shows in the sum.
#[inline(always)]
fn content(line: u64) -> u64 {
    line.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1
}

/// Loads `count` random lines of the first `lines`; the wrapping sum of what they hold.
fn touch(way: Way, words: &[u64], lines: u64, count: u64, mixer: Mixer) -> u64 {
    assert!(
        lines as usize * WORDS_PER_LINE <= words.len(),
        "the buffer is shorter than it claims"
    );
    match way {
        Way::Plain => touch_plain(words, lines, count, mixer),
        Way::Prefetch => touch_prefetched(words, lines, count, mixer),
    }
}

fn touch_plain(words: &[u64], lines: u64, count: u64, mut mixer: Mixer) -> u64 {
    let mut sum = 0u64;
    for _ in 0..count {
        sum = sum.wrapping_add(words[mixer.below(lines) as usize * WORDS_PER_LINE]);
    }
    sum
}

fn touch_prefetched(words: &[u64], lines: u64, count: u64, mut mixer: Mixer) -> u64 {
    let mut sum = 0u64;
    // A ring of word numbers on their way: each is loaded when its place is needed again, DISTANCE addresses later.
    let mut ahead = [0usize; DISTANCE];
    let mut left = count;
    let mut filled = 0;
    while left > 0 {
        let round = left.min(DISTANCE as u64) as usize;
        for (place, word) in ahead.iter_mut().enumerate().take(round) {
            let next = mixer.below(lines) as usize * WORDS_PER_LINE;
            prefetch_l2(words, next);
            if place < filled {
                sum = sum.wrapping_add(words[*word]);
            }
            *word = next;
        }
        filled = filled.max(round);
        left -= round as u64;
    }
    ahead[..filled]
        .iter()
        .fold(sum, |sum, word| sum.wrapping_add(words[*word]))
}

#[inline(always)]
fn prefetch_l2(words: &[u64], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address; this one lies within the slice's allocation anyway.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(words.as_ptr().wrapping_add(index).cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; the program sees nothing of what the instruction reads (so `nomem`).
    unsafe {
        std::arch::asm!(
            "prfm pldl2keep, [{address}]",
            address = in(reg) words.as_ptr().wrapping_add(index),
            options(nomem, nostack, preserves_flags)
        );
    }
    // Elsewhere the standard library has no stable prefetch: both ways are then the same loads.
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = (words, index);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_what_the_addresses_demand() {
        let buffer = FloorBuffer::new(Bytes::kib(100)).unwrap();
        for lines in [1, 2, 63, buffer.lines] {
            for count in [0, 1, 63, 64, 65, 127, 128, 1000] {
                let mut mixer = Mixer::new(5);
                let expected = (0..count).fold(0u64, |sum, _| sum.wrapping_add(content(mixer.below(lines))));
                for way in [Way::Plain, Way::Prefetch] {
                    let sum = touch(way, buffer.block.words(), lines, count, Mixer::new(5));
                    assert_eq!(sum, expected, "{way:?}, {count} of {lines} lines");
                }
            }
        }
    }

    #[test]
    fn samples_are_checked_for_every_thread_count() {
        for threads in [1, 2, 5] {
            let sample = ns_per_line(1 << 16, threads, 10_001);
            assert!(
                sample.checksum_ok && sample.ns_per_line > 0.0,
                "{threads}: {sample:?}"
            );
        }
    }

    #[test]
    fn a_damaged_line_is_noticed() {
        let mut buffer = FloorBuffer::new(Bytes(64 * 4)).unwrap();
        buffer.block.words_mut()[WORDS_PER_LINE] ^= 4;
        assert!(!buffer.sample(1, 1000).unwrap().checksum_ok);
    }

    #[test]
    fn what_cannot_be_measured_is_not_a_number() {
        for sample in [
            ns_per_line(1 << 12, 0, 10),
            ns_per_line(1 << 12, 1, 0),
            ns_per_line(usize::MAX, 1, 10),
        ] {
            assert!(sample.ns_per_line.is_nan() && !sample.checksum_ok);
        }
    }
}
