//! Counter-based random numbers: the value of (seed, stream, row) never depends on threads or on the rows before.
//!
//! Not for cryptography, and not a general generator: three functions the join data needs.

/// SplitMix64's finalizer (Steele et al., 2014): a bijection of 64-bit numbers, so distinct inputs stay distinct.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The random number of one row of one stream.
pub fn draw(seed: u64, stream: u64, row: u64) -> u64 {
    mix(mix(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_add(row))
}

/// Maps a random number to `0..bound` (Lemire's multiply-high; the bias is below `bound / 2^64`).
pub fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Maps a random number to `[0, 1)`.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// The numbers `0..count` in a random order (Fisher and Yates).
///
/// # Panics
/// If `count` exceeds `u32::MAX`.
pub fn permutation(seed: u64, count: usize) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..u32::try_from(count).expect("at most u32::MAX rows")).collect();
    for last in (1..count).rev() {
        let other = below(draw(seed, 0, last as u64), last as u64 + 1) as usize;
        numbers.swap(last, other);
    }
    numbers
}

/// Zipf's distribution with exponent 1 over ranks `1..=n`: rank `k` has probability `1 / (k * H_n)`.
///
/// Sampled by inversion of the continuous hull `1/x` with rejection (Hörmann and Derflinger, 1996), which needs no table
/// of `n` entries and one logarithm and one exponential a draw.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    ranks: f64,
    hull_low: f64,
    hull_high: f64,
}

impl Zipf {
    /// The distribution over `ranks` ranks.
    ///
    /// # Panics
    /// If `ranks` is 0.
    pub fn new(ranks: u64) -> Zipf {
        assert!(ranks > 0, "a Zipf distribution needs a rank");
        // The integral of 1/x is ln x. The hull starts so that the first rank gets exactly its share, 1.
        Zipf {
            ranks: ranks as f64,
            hull_low: 1.5f64.ln() - 1.0,
            hull_high: (ranks as f64 + 0.5).ln(),
        }
    }

    /// A rank in `1..=n` for one row; draws again, bounded, while the hull is rejected.
    pub fn rank(&self, seed: u64, stream: u64, row: u64) -> u64 {
        const DRAWS_MAX: u64 = 64;
        for attempt in 0..DRAWS_MAX {
            let u = unit(draw(seed ^ mix(attempt), stream, row));
            let area = self.hull_high + u * (self.hull_low - self.hull_high);
            let rank = area.exp().round().clamp(1.0, self.ranks);
            if area >= (rank + 0.5).ln() - 1.0 / rank {
                return rank as u64;
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_holds_every_number_once_in_another_order() {
        let numbers = permutation(7, 10_000);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10_000).collect::<Vec<u32>>());
        assert_ne!(sorted, numbers);
        assert_eq!(numbers, permutation(7, 10_000));
        assert_ne!(numbers, permutation(8, 10_000));
        assert!(permutation(7, 0).is_empty());
    }

    #[test]
    fn zipf_ranks_come_as_often_as_the_law_says() {
        const RANKS: u64 = 1000;
        const DRAWS: u64 = 200_000;
        let zipf = Zipf::new(RANKS);
        let mut counts = vec![0u64; RANKS as usize + 1];
        for row in 0..DRAWS {
            counts[zipf.rank(1, 2, row) as usize] += 1;
        }
        let harmonic: f64 = (1..=RANKS).map(|rank| 1.0 / rank as f64).sum();
        for rank in [1usize, 2, 3, 10, 50] {
            let expected = DRAWS as f64 / (rank as f64 * harmonic);
            let error = (counts[rank] as f64 - expected).abs();
            assert!(
                error < 5.0 * expected.sqrt(),
                "rank {rank}: {} instead of {expected}",
                counts[rank]
            );
        }
        let tail: u64 = counts[501..].iter().sum();
        let expected: f64 = (501..=RANKS)
            .map(|rank| DRAWS as f64 / (rank as f64 * harmonic))
            .sum();
        assert!(
            (tail as f64 - expected).abs() < 5.0 * expected.sqrt(),
            "tail {tail} instead of {expected}"
        );
    }

    #[test]
    fn a_single_rank_is_always_drawn() {
        assert!((0..100).all(|row| Zipf::new(1).rank(3, 4, row) == 1));
    }

    #[test]
    fn below_covers_its_range() {
        let mut seen = [false; 10];
        for row in 0..1000 {
            seen[below(draw(1, 1, row), 10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(below(u64::MAX, 10), 9);
    }
}
