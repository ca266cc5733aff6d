//! What a sample of a table says of the whole of it.
//!
//! Hosts without statistics look at some rows spread over a table and count; the functions here scale the counts up. Order
//! of calls: make a [`Sample`] of how many rows were seen and kept, ask it for rows, key ranges and different keys.
//!
//! Not here: reading rows, and what conditions keep where nothing can be read ([`crate::operators::cardinality`]).

/// How a sample came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Rows of the table.
    pub table_rows: usize,
    /// Rows looked at.
    pub seen: usize,
    /// Rows of those that passed the conditions.
    pub kept: usize,
}

impl Sample {
    /// Whether every row was looked at, so that counts are exact.
    pub fn is_whole(&self) -> bool {
        self.seen >= self.table_rows
    }

    /// Rows of the table that pass. Of a sample that kept none, half a row is taken for kept: the table may hold some.
    pub fn rows(&self) -> f64 {
        if self.is_whole() {
            return self.kept as f64;
        }
        if self.seen == 0 {
            return self.table_rows as f64;
        }
        (self.kept as f64).max(0.5) / self.seen as f64 * self.table_rows as f64
    }

    /// The range of codes among all rows that pass, from the smallest and the largest of those kept: of evenly spread keys,
    /// `k` of them span `(k - 1) / (k + 1)` of the range.
    pub fn bounds(&self, min: u64, max: u64) -> (u64, u64) {
        if self.is_whole() || self.kept < 2 {
            return (min, max);
        }
        let kept = self.kept as f64;
        let missing = (max - min) as f64 * (2.0 / (kept - 1.0));
        (min, max.saturating_add(missing as u64))
    }

    /// Different keys among all rows that pass, of `distinct` among those kept, `once` of which were met a single time: the
    /// first-order jackknife (Haas, Naughton, Seshadri, Stokes, VLDB 1995). Keys that never repeat give one a row.
    pub fn distinct(&self, distinct: usize, once: usize) -> f64 {
        let (rows, kept) = (self.rows(), self.kept as f64);
        if self.is_whole() || self.kept == 0 {
            return distinct as f64;
        }
        let unseen_share = (1.0 - kept / rows).max(0.0) * once as f64 / kept;
        (distinct as f64 / (1.0 - unseen_share).max(kept / rows)).min(rows)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENTH: Sample = Sample {
        table_rows: 1000,
        seen: 100,
        kept: 40,
    };

    #[test]
    fn counts_scale_with_the_table() {
        assert_eq!(TENTH.rows(), 400.0);
        let none = Sample { kept: 0, ..TENTH };
        assert_eq!(none.rows(), 5.0);
        assert_eq!(none.distinct(0, 0), 0.0);
        let whole = Sample {
            seen: 1000,
            kept: 0,
            ..TENTH
        };
        assert_eq!(whole.rows(), 0.0);
        let unread = Sample {
            seen: 0,
            kept: 0,
            ..TENTH
        };
        assert_eq!(unread.rows(), 1000.0);
    }

    #[test]
    fn unique_keys_stay_unique_and_few_stay_few() {
        assert!((TENTH.distinct(40, 40) - 400.0).abs() < 1e-9);
        assert_eq!(TENTH.distinct(5, 0), 5.0);
        assert!(TENTH.distinct(39, 38) < 400.0);
    }

    #[test]
    fn ranges_grow_by_what_a_sample_misses() {
        let (min, max) = TENTH.bounds(100, 490);
        assert_eq!((min, max), (100, 510));
        assert_eq!(TENTH.bounds(7, u64::MAX).1, u64::MAX);
        let one = Sample { kept: 1, ..TENTH };
        assert_eq!(one.bounds(7, 7), (7, 7));
    }

    proptest! {
        #[test]
        fn estimates_stay_between_the_sample_and_the_table(
            table in 1usize..100_000, seen in 1usize..100_000, kept in 0usize..100_000, distinct in 1usize..100_000, once in 0usize..100_000,
        ) {
            let seen = seen.min(table);
            let kept = kept.min(seen);
            let sample = Sample { table_rows: table, seen, kept };
            prop_assert!(sample.rows() >= kept as f64 && sample.rows() <= table as f64);
            if kept > 0 {
                let distinct = distinct.min(kept);
                let all = sample.distinct(distinct, once.min(distinct));
                prop_assert!(all >= distinct as f64 - 1e-6 && all <= sample.rows() + 1e-6);
            }
        }
    }
}
