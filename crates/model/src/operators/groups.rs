//! Whether rows have so many groups that making them in the caches pays, told from the first rows.
//!
//! Of keys drawn from `g` groups, `n` rows meet `g (1 - e^(-n/g))` different ones, so the second half of them brings
//! `e^(-n/2g)` times as many new keys as the first. Keys that come in order, so many rows each, bring as many new ones in the
//! second half: there is no end of their groups in sight. Of keys of which a few have most rows, more rows always tell of more groups.
//!
//! Order of calls: count the different keys among a quarter of the first [`LOOKS`] rows, among half and among all of them, ask
//! [`Look::verdict`], and look at more rows where it is unclear.

/// Rows that are looked at: few first, for most rows have few groups, then more.
pub const LOOKS: [usize; 2] = [8 << 10, 64 << 10];

/// From so many groups on, making them in the caches pays. Measured (1 MiB of L2 a core, 2 threads, 10 million rows): 100,000 groups
/// take 1.35 times as long as in DataFusion's tables, 200,000 take 0.7 times, 300,000 0.4 times.
const MANY: f64 = 140_000.0;

/// The first look tells groups that are surely fewer.
const SURELY_FEW: f64 = 60_000.0;

/// Keys that come in order have a new one every so many rows, at least: otherwise DataFusion's table is in the caches too.
const ROWS_A_GROUP_MAX: f64 = 8.0;

/// Twice as many rows of uniform keys tell of as many groups, give or take a few percent; of keys whose frequency falls with their rank (Zipf),
/// of 1.5 times as many.
const SKEWED: f64 = 1.25;

/// Different keys among the first rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Rows looked at.
    pub rows: f64,
    /// Different keys among the first quarter of them.
    pub quarter: f64,
    /// Different keys among the first half.
    pub half: f64,
    /// Different keys among all.
    pub whole: f64,
}

/// What a look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Groups that DataFusion makes as fast or faster.
    Few,
    /// Groups that are made faster in the caches.
    Many,
    /// A few groups have most rows, and there are many others: faster in the caches.
    Skewed,
    /// More rows must be looked at.
    Unclear,
}

impl Look {
    /// About how many groups all rows have; infinitely many where no end is in sight.
    pub fn groups(&self) -> f64 {
        estimate(self.rows / 2.0, self.half, self.whole)
    }

    fn is_skewed(&self) -> bool {
        let earlier = estimate(self.rows / 4.0, self.quarter, self.half);
        self.groups() > SKEWED * earlier
    }

    /// What this look tells; one at the most rows of [`LOOKS`] is never unclear.
    pub fn verdict(&self) -> Verdict {
        let groups = self.groups();
        let last = self.rows >= LOOKS[LOOKS.len() - 1] as f64;
        let is_skewed = self.is_skewed();
        if self.whole * ROWS_A_GROUP_MAX < self.rows || groups < SURELY_FEW && !is_skewed {
            Verdict::Few
        } else if !last {
            Verdict::Unclear
        } else if groups >= MANY {
            Verdict::Many
        } else if is_skewed {
            Verdict::Skewed
        } else {
            Verdict::Few
        }
    }
}

/// About how many groups there are where so many rows have `before` different keys, and as many more rows bring these to `after`.
fn estimate(rows: f64, before: f64, after: f64) -> f64 {
    if before <= 0.0 {
        return 0.0;
    }
    let new = ((after - before) / before).max(f64::MIN_POSITIVE);
    if new >= 1.0 {
        return f64::INFINITY;
    }
    rows / -new.ln()
}

/// Bytes of records of one input from which they are reduced where groups have several each. Unmeasured.
const REDUCE_FROM: usize = 32 << 20;

/// They are reduced again when they have grown so many times. Each record that stays is read again a third of a time a new one then.
const REDUCE_GROWN: usize = 4;

/// Where memory is short they are reduced when they have grown twice, and are at least so many bytes. Unmeasured.
const SHORT_FROM: usize = 256 << 10;

/// When the records of an input are reduced to one a group, so that its memory follows the groups, not the rows.
///
/// Order of calls: [`Reductions::are_due`] after each batch, [`Reductions::may_help`] where memory is refused; after each, whether it has
/// helped or not, [`Reductions::left`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Reductions {
    left: usize,
}

impl Reductions {
    /// Whether records of so many bytes are reduced though there is memory.
    pub fn are_due(&self, bytes: usize) -> bool {
        bytes >= REDUCE_FROM.max(self.left.saturating_mul(REDUCE_GROWN))
    }

    /// Whether reducing records of so many bytes comes before writing them to a file.
    pub fn may_help(&self, bytes: usize) -> bool {
        bytes >= SHORT_FROM.max(self.left.saturating_mul(2))
    }

    /// So many bytes of records are left.
    pub fn left(&mut self, bytes: usize) {
        self.left = bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn look(rows: usize, key: impl Fn(u64) -> u64) -> Look {
        let distinct = |rows: usize| (0..rows as u64).map(&key).collect::<HashSet<_>>().len() as f64;
        Look {
            rows: rows as f64,
            quarter: distinct(rows / 4),
            half: distinct(rows / 2),
            whole: distinct(rows),
        }
    }

    /// A number that only looks random.
    fn mixed(row: u64) -> u64 {
        let mixed = (row ^ row >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn verdict(key: impl Fn(u64) -> u64) -> Verdict {
        match look(LOOKS[0], &key).verdict() {
            Verdict::Unclear => look(LOOKS[1], &key).verdict(),
            verdict => verdict,
        }
    }

    #[test]
    fn groups_in_any_order_are_counted() {
        let of = |groups: u64| move |row: u64| mixed(row.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % groups;
        for groups in [100, 3000, 20_000, 60_000, 100_000, 200_000, 300_000] {
            let estimate = look(LOOKS[1], of(groups)).groups();
            let near = groups as f64 * 0.9..groups as f64 * 1.1;
            assert!(
                groups < 20_000 || near.contains(&estimate),
                "{groups}: {estimate}"
            );
            let many = if groups <= 100_000 {
                Verdict::Few
            } else {
                Verdict::Many
            };
            assert_eq!(verdict(of(groups)), many, "{groups}");
        }
        assert_eq!(look(LOOKS[0], of(20_000)).verdict(), Verdict::Few);
        assert_eq!(verdict(of(u64::MAX)), Verdict::Many);
    }

    #[test]
    fn groups_in_order_are_many_where_each_has_few_rows() {
        assert_eq!(verdict(|row| row), Verdict::Many);
        assert_eq!(verdict(|row| row / 4), Verdict::Many);
        assert_eq!(verdict(|row| row / 100), Verdict::Few);
        assert_eq!(verdict(|_| 7), Verdict::Few);
    }

    #[test]
    fn keys_of_which_few_have_most_rows_are_skewed() {
        // The rank of a key is a power of the number of keys: frequencies fall as 1 / rank.
        let zipf = |keys: f64| {
            move |row: u64| {
                let mixed = mixed(row.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                keys.powf(mixed as f64 / 2.0_f64.powi(64)) as u64
            }
        };
        assert_eq!(verdict(zipf(1e5)), Verdict::Skewed);
        for keys in [1e6, 1e8] {
            assert_ne!(verdict(zipf(keys)), Verdict::Few, "{keys}");
        }
        for keys in [10.0, 1e3, 1e4] {
            assert_eq!(verdict(zipf(keys)), Verdict::Few, "{keys}");
        }
    }

    #[test]
    fn records_are_reduced_when_they_have_grown() {
        let mut reductions = Reductions::default();
        assert!(!reductions.are_due(REDUCE_FROM - 1) && reductions.are_due(REDUCE_FROM));
        assert!(!reductions.may_help(SHORT_FROM - 1) && reductions.may_help(SHORT_FROM));
        reductions.left(REDUCE_FROM);
        assert!(!reductions.are_due(4 * REDUCE_FROM - 1) && reductions.are_due(4 * REDUCE_FROM));
        assert!(!reductions.may_help(2 * REDUCE_FROM - 1) && reductions.may_help(2 * REDUCE_FROM));
        reductions.left(usize::MAX);
        assert!(!reductions.are_due(usize::MAX - 1));
    }

    proptest! {
        #[test]
        fn every_look_tells_something(
            rows in 0.0..1e6, quarter in 0.0..1e6, half in 0.0..1e6, whole in 0.0..1e6,
        ) {
            let look = Look { rows, quarter, half, whole };
            prop_assert!(look.groups() >= 0.0);
            prop_assert!(rows < LOOKS[1] as f64 || look.verdict() != Verdict::Unclear);
        }
    }
}
