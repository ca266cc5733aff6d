//! How many rows a join input will have, when column statistics are missing: enough to put the smaller input, whose
//! table fits the cache, on the build side.
//!
//! The estimate is the usual one for foreign keys: each row of the larger relation meets the rows its key names, and a
//! filter on the smaller relation keeps that share of the larger one. It is crude on purpose and only decides when the
//! inputs differ by far ([`swap_pays`]). Join order is not chosen here.

/// Rows of a relation, and of the same relation before any of its filters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cardinality {
    /// Rows expected.
    pub rows: f64,
    /// Rows if no filter dropped any.
    pub unfiltered_rows: f64,
}

/// Share of rows that one condition keeps which is not an equality with a constant: a range, a pattern, anything opaque.
pub const CONDITION_SHARE: f64 = 0.2;

/// Share of rows that an equality with a constant keeps: names, types and flags have tens of values.
pub const EQUALITY_SHARE: f64 = 0.05;

/// Conditions that are counted; more of them tend to depend on each other.
const CONDITIONS_MAX: u32 = 3;

/// Groups for each row of an aggregate's input.
pub const GROUP_SHARE: f64 = 0.25;

/// Of the numbers between a key's least and largest, at least this share of what its rows would take: a few were deleted.
const KEY_RANGE_SHARE: f64 = 0.9;

/// A build side this many times smaller than the probe side is worth swapping for, although the estimate is crude.
pub const SWAP_FACTOR: f64 = 3.0;

/// The values of a column, or those of them that conditions leave: from the least to the largest. Infinite where there is no end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    /// The least.
    pub from: f64,
    /// The largest.
    pub to: f64,
}

impl ValueRange {
    /// All values.
    pub const ALL: ValueRange = ValueRange {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    /// The values that are in both.
    pub fn within(self, other: ValueRange) -> Self {
        ValueRange {
            from: self.from.max(other.from),
            to: self.to.min(other.to),
        }
    }

    /// The share of the values of a column, these, that lie in `kept`, from 0 to 1, as if all of them came equally often. `step` is between
    /// neighbouring values: 1 of whole numbers, 0 where there are values between any two.
    pub fn share(self, kept: ValueRange, step: f64) -> f64 {
        let kept = self.within(kept);
        let (part, whole) = (kept.to - kept.from + step, self.to - self.from + step);
        if kept.from > kept.to {
            0.0
        } else if whole > 0.0 && whole.is_finite() {
            (part / whole).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

impl Cardinality {
    /// A stored relation.
    pub fn of_table(rows: f64) -> Self {
        Cardinality {
            rows,
            unfiltered_rows: rows,
        }
    }

    /// After a conjunction of `equalities` with constants and `others`.
    pub fn filtered(self, equalities: u32, others: u32) -> Self {
        let equalities = equalities.min(CONDITIONS_MAX);
        let others = others.min(CONDITIONS_MAX - equalities);
        let share = EQUALITY_SHARE.powi(equalities as i32) * CONDITION_SHARE.powi(others as i32);
        Cardinality {
            rows: self.rows * share,
            ..self
        }
    }

    /// After conditions that are known to keep this share, from 0 to 1; at least one row of those there were.
    pub fn kept(self, share: f64) -> Self {
        Cardinality {
            rows: (self.rows * share).max(self.rows.min(1.0)),
            ..self
        }
    }

    /// After grouping.
    pub fn grouped(self) -> Self {
        Cardinality {
            rows: self.rows * GROUP_SHARE,
            unfiltered_rows: self.unfiltered_rows * GROUP_SHARE,
        }
    }

    /// After a join with `other` on a foreign key, whichever of the two holds the key.
    pub fn joined(self, other: Cardinality) -> Self {
        let (large, small) = if self.unfiltered_rows >= other.unfiltered_rows {
            (self, other)
        } else {
            (other, self)
        };
        Cardinality {
            rows: large.rows * small.share(),
            ..large
        }
    }

    /// Whether a column whose values span `range` whole numbers can hold a key of this relation: another number in each row.
    pub fn may_be_key(self, range: f64) -> bool {
        range >= self.unfiltered_rows * KEY_RANGE_SHARE
    }

    /// After a semi join with `other`, or a join that looks each row up by a key of `other`: at most its own rows.
    pub fn semi_joined(self, other: Cardinality) -> Self {
        Cardinality {
            rows: self.rows * other.share(),
            ..self
        }
    }

    /// Share of the rows that filters left.
    fn share(self) -> f64 {
        if self.unfiltered_rows > 0.0 {
            (self.rows / self.unfiltered_rows).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

/// Build sides of at most so many rows stay: their tables fit the caches, and scans of the probe side profit from what they know of
/// their keys. Of TPC-DS at scale factor 1, swapped, q26 took 1.6 times as long.
pub const SMALL_BUILD_ROWS: f64 = 100_000.0;

/// Whether building on the probe side instead is clearly better.
pub fn swap_pays(build: Cardinality, probe: Cardinality) -> bool {
    build.rows > SMALL_BUILD_ROWS && build.rows > SWAP_FACTOR * probe.rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACT: f64 = 6e6;

    #[test]
    fn a_join_of_fact_and_dimension_keeps_the_facts() {
        let fact = Cardinality::of_table(FACT);
        let dates = Cardinality::of_table(2556.0);
        assert_eq!(fact.joined(dates).rows, FACT);
        assert_eq!(dates.joined(fact).rows, FACT);
    }

    #[test]
    fn a_filtered_dimension_keeps_its_share_of_the_facts() {
        let part = Cardinality::of_table(200_000.0).filtered(1, 0);
        let joined = Cardinality::of_table(FACT).joined(part);
        assert_eq!(joined.rows, FACT * EQUALITY_SHARE);
        assert!(swap_pays(joined, part));
        assert!(!swap_pays(part, joined));
    }

    #[test]
    fn more_conditions_keep_fewer_rows_but_never_none() {
        let table = Cardinality::of_table(1e6);
        assert!(table.filtered(0, 2).rows < table.filtered(0, 1).rows);
        assert!(table.filtered(1, 0).rows < table.filtered(0, 1).rows);
        assert!(table.filtered(9, 9).rows >= 1e6 * EQUALITY_SHARE.powi(3));
        assert_eq!(table.filtered(0, 0), table);
    }

    #[test]
    fn ranges_keep_their_share_of_the_values() {
        let range = |from, to| ValueRange { from, to };
        let days = range(1.0, 100.0);
        assert_eq!(days.share(range(11.0, 20.0), 1.0), 0.1);
        assert_eq!(days.share(range(91.0, f64::INFINITY), 1.0), 0.1);
        assert_eq!(days.share(range(7.0, 7.0), 1.0), 0.01);
        assert_eq!(days.share(ValueRange::ALL, 1.0), 1.0);
        for nothing in [range(101.0, 200.0), range(20.0, 11.0), range(-5.0, 0.0)] {
            assert_eq!(days.share(nothing, 1.0), 0.0, "{nothing:?}");
        }
        assert_eq!(range(0.0, 1.0).share(range(0.25, 0.5), 0.0), 0.25);
        assert_eq!(range(3.0, 3.0).share(range(0.0, 5.0), 0.0), 1.0, "one value");
        assert_eq!(
            ValueRange::ALL.share(range(0.0, 5.0), 0.0),
            1.0,
            "of no bounds there is no share"
        );
        let table = Cardinality::of_table(200.0);
        assert_eq!(table.kept(0.1).rows, 20.0);
        assert_eq!(table.kept(0.0).rows, 1.0);
        assert_eq!(Cardinality::of_table(0.0).kept(0.5).rows, 0.0);
    }

    #[test]
    fn near_sizes_stay() {
        let a = Cardinality::of_table(100.0);
        let b = Cardinality::of_table(60.0);
        assert!(!swap_pays(a, b) && !swap_pays(b, a));
    }

    #[test]
    fn a_large_dimension_does_not_make_a_relation_larger() {
        let customers = Cardinality::of_table(100_000.0).filtered(0, 1);
        let demographics = Cardinality::of_table(1_920_800.0);
        assert!(demographics.may_be_key(1_920_800.0) && !demographics.may_be_key(100_000.0));
        assert_eq!(customers.semi_joined(demographics).rows, 20_000.0);
        let kept = customers.semi_joined(demographics.filtered(1, 0));
        assert!((kept.rows - 1000.0).abs() < 1e-6, "{kept:?}");
        assert_eq!(kept.unfiltered_rows, 100_000.0);
    }

    #[test]
    fn small_builds_stay() {
        let (build, probe) = (Cardinality::of_table(73_000.0), Cardinality::of_table(100.0));
        assert!(!swap_pays(build, probe));
        assert!(swap_pays(Cardinality::of_table(730_000.0), probe));
    }

    #[test]
    fn empty_relations_do_not_divide_by_zero() {
        let none = Cardinality::of_table(0.0);
        assert_eq!(none.joined(none).rows, 0.0);
        assert_eq!(Cardinality::of_table(5.0).semi_joined(none).rows, 5.0);
    }
}
