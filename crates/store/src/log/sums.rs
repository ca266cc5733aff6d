//! [`Sums`]: the checksum of any part of a file, without reading the part again.
//!
//! A search for frames behind a hole finds many bytes that look like the head of one. To check each against a payload of
//! up to all that follows would take days in the torn end of a large commit. The checksum of a part follows from those of what
//! lies before its ends, because checksums of this kind are linear. What it is not: another checksum.

use std::cell::OnceCell;
use std::ops::Range;

use crc32fast::Hasher;

use super::frame::payload_sum;

/// Bytes between two places whose checksums are kept; a part of few of them is read. Unmeasured.
const STEP: usize = 4096;

/// Checksums of a file's bytes.
pub(super) struct Sums<'a> {
    pub(super) bytes: &'a [u8],
    /// Of all bytes before each multiple of [`STEP`]; made when first needed.
    before: OnceCell<Vec<u32>>,
}

impl<'a> Sums<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Sums {
            bytes,
            before: OnceCell::new(),
        }
    }

    /// What [`payload_sum`] says of a part.
    pub(super) fn of(&self, seed: u32, part: Range<usize>) -> u32 {
        let length = part.len();
        if length <= 4 * STEP {
            return payload_sum(seed, &self.bytes[part]);
        }
        let (start, end) = (self.before(part.start), self.before(part.end));
        followed_by(start, length) ^ end ^ followed_by(seed, length)
    }

    /// The checksum of all bytes before `at`.
    fn before(&self, at: usize) -> u32 {
        let before = self.before.get_or_init(|| {
            let mut sum = Hasher::new();
            let mut sums = vec![0];
            for step in self.bytes.chunks_exact(STEP) {
                sum.update(step);
                sums.push(sum.clone().finalize());
            }
            sums
        });
        let step = at / STEP;
        payload_sum(before[step], &self.bytes[step * STEP..at])
    }
}

/// What a checksum becomes by bytes behind whose own checksum is 0.
fn followed_by(sum: u32, bytes: usize) -> u32 {
    let mut hasher = Hasher::new_with_initial(sum);
    hasher.combine(&Hasher::new_with_initial_len(0, bytes as u64));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_have_the_sums_of_their_bytes(seed in any::<u32>(), salt in any::<u8>(), start in 0_usize..60_000, length in 0_usize..60_000) {
            let bytes: Vec<u8> = (0..100_000_usize).map(|at| ((at * at) >> 3) as u8 ^ salt).collect();
            let part = start..(start + length).min(bytes.len());
            let sums = Sums::new(&bytes);
            prop_assert_eq!(sums.of(seed, part.clone()), payload_sum(seed, &bytes[part]));
        }
    }
}
