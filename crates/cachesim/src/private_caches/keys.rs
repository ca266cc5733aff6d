//! [`Keys`]: which keys are asked for how often, and how the domain is cut so that every range is asked for equally often.
//!
//! ```text
//!   rows of the domain     ▁▁▇▁▁▂▁▁▁▅▁▁▁▁▁▂▁▁      how often each is asked for: popular ones lie anywhere
//!   ranges of 4 owners     |  A |    B   |  C |  D  |      cut at quarters of the sum: what rebalancing by load comes to
//! ```
//!
//! Not here: rebalancing itself, which is `model`'s; the simulation begins where it has ended.

use super::layout::scatter;

/// Most rows of a domain: its sums take 8 bytes each.
pub const ROWS_MAX: u64 = 1 << 27;

/// The keys of one domain.
#[derive(Clone, Debug)]
pub struct Keys {
    rows: u64,
    /// Sums of the popularities up to each row, if keys are not even.
    sums: Vec<f64>,
}

impl Keys {
    /// `rows` keys, of which the one of rank r is asked for in proportion to 1 / r^`skew`; 0 for all alike. The popular ones lie anywhere.
    ///
    /// Rows are at least 1 and cut to [`ROWS_MAX`]; a skew that is no number or negative is none.
    pub fn new(rows: u64, skew: f64) -> Keys {
        let rows = rows.clamp(1, ROWS_MAX);
        if skew.is_nan() || skew <= 0.0 {
            return Keys {
                rows,
                sums: Vec::new(),
            };
        }
        // Ranks by a scrambled number: equal ones are ordered by row.
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by_key(|&row| (scatter(u64::from(row)), row));
        let mut popularity = vec![0.0; rows as usize];
        for (rank, &row) in order.iter().enumerate() {
            popularity[row as usize] = (rank as f64 + 1.0).powf(-skew);
        }
        let mut sum = 0.0;
        for value in &mut popularity {
            sum += *value;
            *value = sum;
        }
        Keys {
            rows,
            sums: popularity,
        }
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The key at a part, 0 to 1, of all askings in the order of keys: for even chances in part `n` of `m`, parts from n/m to (n+1)/m.
    pub fn row(&self, part: f64) -> u64 {
        let row = match self.sums.last() {
            None => (part * self.rows as f64) as u64,
            Some(total) => self.sums.partition_point(|&sum| sum <= part * total) as u64,
        };
        row.min(self.rows - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn even_keys_are_even_and_skewed_ones_follow_their_ranks() {
        let even = Keys::new(10, 0.0);
        assert_eq!(
            [0.0, 0.05, 0.35, 0.999, 1.0].map(|part| even.row(part)),
            [0, 0, 3, 9, 9]
        );
        let skewed = Keys::new(1000, 1.0);
        let mut count = vec![0_u32; 1000];
        for part in 0..200_000 {
            count[skewed.row(f64::from(part) / 200_000.0) as usize] += 1;
        }
        count.sort_unstable_by(|a, b| b.cmp(a));
        // The sum of 1/r to 1,000 is 7.485.
        assert!((f64::from(count[0]) / 200_000.0 - 1.0 / 7.485).abs() < 1e-3);
        assert!((f64::from(count[9]) / 200_000.0 - 0.1 / 7.485).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn later_parts_are_later_keys(rows in 1_u64..2000, skew in 0.0..1.5_f64, mut parts in prop::collection::vec(0.0..=1.0_f64, 2..20)) {
            let keys = Keys::new(rows, skew);
            parts.sort_by(f64::total_cmp);
            let found: Vec<u64> = parts.iter().map(|&part| keys.row(part)).collect();
            prop_assert!(found.is_sorted());
            prop_assert!(found.iter().all(|&row| row < rows));
        }
    }
}
