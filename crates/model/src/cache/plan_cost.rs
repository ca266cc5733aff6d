//! What a plan costs, in nanoseconds of one thread: enough to compare forms of one plan, and to tell short queries.
//!
//! Joins cost what [`crate::operators::index_join`] measured; everything else is a constant a row. Crude on purpose: two forms of a plan
//! share most of their operators, and [`crate::cache::plan_choice::COST_MARGIN`] is wider than the error of the rest.

use crate::operators::index_join::{Inputs, SCAN_NS, hash_ns};

/// A row that is put into a group or updates one. Unmeasured.
pub const GROUP_NS: f64 = 12.0;

/// A row compared with another while sorting. Unmeasured.
pub const COMPARE_NS: f64 = 4.0;

/// A pair of rows that a nested-loop join makes. Unmeasured.
pub const PAIR_NS: f64 = 1.0;

/// A row that passes an operator without memory of its own. Unmeasured.
pub const PASS_NS: f64 = 0.5;

/// Cache sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Private to a core.
    pub l2: usize,
    /// Last-level, as far as it can be counted on.
    pub llc: usize,
}

/// A scan.
pub fn scan_ns(rows: f64) -> f64 {
    rows * SCAN_NS
}

/// A hash join.
pub fn hash_join_ns(build_rows: f64, probe_rows: f64, caches: Caches) -> f64 {
    hash_ns(&Inputs {
        build_rows,
        probe_rows,
        indexed_builds: true,
        table_rows: 0.0,
        tree_bytes: 0,
        l2_bytes: caches.l2,
        llc_bytes: caches.llc,
    })
}

/// A sort.
pub fn sort_ns(rows: f64) -> f64 {
    rows * rows.max(2.0).log2() * COMPARE_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_tables_and_more_rows_cost_more() {
        let caches = Caches {
            l2: 1 << 20,
            llc: 8 << 20,
        };
        let of = |build, probe| hash_join_ns(build, probe, caches);
        assert!(of(1e6, 1e6) > 10.0 * of(1e4, 1e5));
        assert!(of(1e6, 1e6) > of(1e4, 1e6));
        assert_eq!(of(0.0, 0.0), 0.0);
        assert!(sort_ns(1e6) > 10.0 * sort_ns(1e5));
        assert_eq!(sort_ns(0.0), 0.0);
        assert_eq!(scan_ns(5.0), 5.0 * SCAN_NS);
    }
}
