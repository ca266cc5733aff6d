//! The first pass over the build rows: how many, which range, how many different, how many a partition.

use std::sync::atomic::{AtomicBool, Ordering};

use super::hash::{Mixer, partition};
use crate::codes::{Chunk, Span};

/// What one task saw.
pub(crate) struct Survey {
    pub(crate) rows: usize,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Rows of each partition, or of one that is everything.
    pub(crate) histogram: Vec<u32>,
    pub(crate) sketch: Sketch,
}

impl Survey {
    /// Looks at a run of rows; `bits`: counts the rows of `1 << bits` partitions, which costs a store each; `estimate`:
    /// also looks at how many different codes it has. Ends early when cancelled.
    pub(crate) fn take(
        chunks: &[Chunk<'_>],
        run: &[Span],
        mixer: Mixer,
        bits: Option<u32>,
        estimate: bool,
        cancel: &AtomicBool,
    ) -> Survey {
        let mut survey = Survey {
            rows: 0,
            min: u64::MAX,
            max: 0,
            histogram: vec![0; 1 << bits.unwrap_or(0)],
            sketch: Sketch::default(),
        };
        for span in run {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            let Survey {
                rows,
                min,
                max,
                histogram,
                sketch,
            } = &mut survey;
            let (mut low, mut high, mut count) = (*min, *max, 0);
            chunks[span.chunk].for_each(span.start, span.end, |code, _| {
                let mixed = mixer.mix(code);
                low = low.min(code);
                high = high.max(code);
                count += 1;
                if let Some(bits) = bits {
                    histogram[partition(mixed, bits)] += 1;
                }
                if estimate {
                    sketch.add(mixed);
                }
            });
            *rows += count;
            (*min, *max) = (low, high);
        }
        if bits.is_none() {
            survey.histogram[0] = survey.rows as u32;
        }
        survey
    }
}

/// Distinct hashes kept by a [`Sketch`]. The estimate's standard deviation is about one in the root of this: 4.4 %.
pub(crate) const KEPT: usize = 512;

/// Hashes gathered before they are cut down to [`KEPT`].
const GATHERED_MAX: usize = 4 * KEPT;

/// Recently gathered hashes, to drop repeats of few keys before they are sorted.
const RECENT: usize = 1024;

/// Counts different hashes by the smallest ones of them (Bar-Yossef et al., RANDOM 2002, "k minimum values"): if the
/// 512th smallest of the hashes seen is at a fraction f of the whole range, there are about 512 / f. Exact below 512.
pub(crate) struct Sketch {
    gathered: Vec<u64>,
    threshold: u64,
    recent: Vec<u64>,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch {
            gathered: Vec::with_capacity(GATHERED_MAX),
            threshold: u64::MAX,
            recent: vec![0; RECENT],
        }
    }
}

impl Sketch {
    /// Adds a hash.
    #[inline(always)]
    pub(crate) fn add(&mut self, mixed: u64) {
        if mixed <= self.threshold {
            self.gather(mixed);
        }
    }

    #[inline(never)]
    fn gather(&mut self, mixed: u64) {
        // Hash 0 looks like an empty place and is always gathered: harmless, repeats are removed when sorted.
        let recent = &mut self.recent[mixed as usize % RECENT];
        if *recent == mixed && mixed != 0 {
            return;
        }
        *recent = mixed;
        self.gathered.push(mixed);
        if self.gathered.len() == GATHERED_MAX {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.gathered.sort_unstable();
        self.gathered.dedup();
        if self.gathered.len() >= KEPT {
            self.gathered.truncate(KEPT);
            self.threshold = self.gathered[KEPT - 1];
        }
    }

    /// Takes over what another sketch saw.
    pub(crate) fn merge(&mut self, other: &Sketch) {
        for &mixed in &other.gathered {
            self.add(mixed);
        }
    }

    /// The number of different hashes, and whether it is exact.
    pub(crate) fn distinct(&mut self) -> (usize, bool) {
        self.shrink();
        if self.gathered.len() < KEPT {
            return (self.gathered.len(), true);
        }
        let fraction = (self.threshold as f64 + 1.0) / 2.0_f64.powi(64);
        (((KEPT - 1) as f64 / fraction) as usize, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(keys: u64, repeats: u64) -> Sketch {
        let mixer = Mixer::new(9, 1);
        let mut sketch = Sketch::default();
        for _ in 0..repeats {
            (0..keys).for_each(|key| sketch.add(mixer.mix(key * 77)));
        }
        sketch
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        for keys in [0, 1, 5, 511] {
            for repeats in [1, 1000] {
                let expected = if keys == 0 { 0 } else { keys as usize };
                assert_eq!(sketch_of(keys, repeats).distinct(), (expected, true));
            }
        }
    }

    #[test]
    fn many_keys_are_estimated_within_a_fifth() {
        for keys in [1_000_u64, 30_000, 1_000_000] {
            for repeats in [1, 3] {
                let (estimate, exact) = sketch_of(keys, repeats).distinct();
                assert!(!exact);
                assert!(
                    (estimate as f64 / keys as f64 - 1.0).abs() < 0.2,
                    "{estimate} for {keys}"
                );
            }
        }
    }

    #[test]
    fn merging_equals_seeing_everything() {
        let mixer = Mixer::new(9, 1);
        let (mut left, mut right, mut whole) = (Sketch::default(), Sketch::default(), Sketch::default());
        for key in 0..50_000 {
            let mixed = mixer.mix(key);
            whole.add(mixed);
            if key % 3 == 0 {
                left.add(mixed)
            } else {
                right.add(mixed)
            }
        }
        left.merge(&right);
        assert_eq!(left.distinct(), whole.distinct());
    }

    #[test]
    fn a_survey_sees_bounds_and_counts() {
        let values = [7_u64, 3, 9, 3];
        let valid = crate::Validity::new(&[0b1011], 0, 4);
        let chunk = Chunk {
            codes: crate::Codes::U64 {
                values: &values,
                bias: 0,
            },
            valid: Some(valid),
            first_row: 10,
        };
        let run = [Span {
            chunk: 0,
            start: 0,
            end: 4,
        }];
        let mut survey = Survey::take(
            &[chunk],
            &run,
            Mixer::new(0, 0),
            Some(2),
            true,
            &AtomicBool::new(false),
        );
        assert_eq!((survey.rows, survey.min, survey.max), (3, 3, 7));
        assert_eq!(survey.histogram.iter().sum::<u32>(), 3);
        assert_eq!(survey.sketch.distinct(), (2, true));
    }
}
