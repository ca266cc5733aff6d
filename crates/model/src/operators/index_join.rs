//! Whether to join through an index or to build a hash table.
//!
//! A hash join reads both inputs once, builds from one and probes with the other. A join through an index reads the outer
//! input only, and pays a way down a tree and gathers of the rows found for each of its rows. So the index wins where the
//! outer input is small beside the table. [`gain_ns`] compares the two in nanoseconds of one thread; both spread over
//! threads alike. Rows of the indexed table that a filter drops cost a scan; testing the filter is left out on both sides.

/// What the decision rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs {
    /// Rows the hash table would be built from.
    pub build_rows: f64,
    /// Rows that would probe it.
    pub probe_rows: f64,
    /// Whether the build input is the indexed one; else the probe input is.
    pub indexed_builds: bool,
    /// Rows of the indexed table before any filter.
    pub table_rows: f64,
    /// Bytes of the index.
    pub tree_bytes: usize,
    /// Bytes of private cache a core has.
    pub l2_bytes: usize,
    /// Bytes of last-level cache to count on.
    pub llc_bytes: usize,
}

/// Nanoseconds by where a structure of some size lies.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// In a core's private cache.
    l2: f64,
    /// In the last-level cache.
    llc: f64,
    /// Beyond the caches.
    memory: f64,
}

impl Cost {
    fn at(self, bytes: f64, inputs: &Inputs) -> f64 {
        if bytes <= inputs.l2_bytes as f64 {
            self.l2
        } else if bytes <= inputs.llc_bytes as f64 {
            self.llc
        } else {
            self.memory
        }
    }
}

// Nanoseconds of one thread a row, fitted to `corun-lab bench join --case indexed --threads 1` (Sapphire Rapids VM, 2 MiB of L2,
// unique 64-bit keys, one payload column each side, 2026-11-21):
//
//   indexed   outside   through the index   hashed
//   16 M      100 k     8.0 ms              83 ms
//   16 M      1 M       72 ms               179 ms
//   16 M      4 M       249 ms              308 ms
//   4 M       1 M       48 ms               71 ms
//   4 M       4 M       188 ms              124 ms
//   1 M       100 k     4.8 ms              8.0 ms
//   1 M       1 M       39 ms               27 ms
//   100 k     1 k       0.9 ms              1.3 ms
//   100 k     100 k     4.1 ms              2.8 ms
//
// Rows of a key beyond the first cost the same either way: 16 rows a key in 4 M rows, 1 M outside: 162 and 166 ms.

/// A row put into a hash table.
const BUILD_NS: Cost = Cost {
    l2: 15.0,
    llc: 20.0,
    memory: 30.0,
};

/// A row that is read and probes a hash table.
const PROBE_NS: Cost = Cost {
    l2: 5.0,
    llc: 6.5,
    memory: 9.5,
};

/// A row that is looked up in an index, its match gathered.
const LOOKUP_NS: Cost = Cost {
    l2: 40.0,
    llc: 48.0,
    memory: 63.0,
};

/// Bytes a row takes in a hash table.
const TABLE_BYTES_PER_ROW: f64 = 16.0;

/// A row that a scan reads and a filter drops. Unmeasured.
pub const SCAN_NS: f64 = 1.0;

impl Inputs {
    /// Rows of the indexed side that reach the join, and of the other one.
    fn indexed_and_outer(&self) -> (f64, f64) {
        if self.indexed_builds {
            (self.build_rows, self.probe_rows)
        } else {
            (self.probe_rows, self.build_rows)
        }
    }
}

/// Nanoseconds of the hash join, the scan of rows that a filter of the indexed side drops included.
pub fn hash_ns(inputs: &Inputs) -> f64 {
    let table_bytes = inputs.build_rows * TABLE_BYTES_PER_ROW;
    let (indexed_rows, _) = inputs.indexed_and_outer();
    inputs.build_rows * BUILD_NS.at(table_bytes, inputs)
        + inputs.probe_rows * PROBE_NS.at(table_bytes, inputs)
        + (inputs.table_rows - indexed_rows).max(0.0) * SCAN_NS
}

/// Nanoseconds of the join through the index.
pub fn index_ns(inputs: &Inputs) -> f64 {
    let (_, outer_rows) = inputs.indexed_and_outer();
    outer_rows * LOOKUP_NS.at(inputs.tree_bytes as f64, inputs)
}

/// Nanoseconds that the join through the index is expected to take less than the hash join; negative where it takes more.
pub fn gain_ns(inputs: &Inputs) -> f64 {
    hash_ns(inputs) - index_ns(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: f64 = 1e6;

    fn inputs(outer: f64, table: f64, indexed_builds: bool) -> Inputs {
        let (build_rows, probe_rows) = if indexed_builds {
            (table, outer)
        } else {
            (outer, table)
        };
        Inputs {
            build_rows,
            probe_rows,
            indexed_builds,
            table_rows: table,
            tree_bytes: table as usize * 14,
            l2_bytes: 2 << 20,
            llc_bytes: 8 << 20,
        }
    }

    #[test]
    fn a_small_outer_input_uses_the_index_of_a_large_table() {
        assert!(gain_ns(&inputs(1000.0, 16.0 * MILLION, false)) > 0.0);
        assert!(gain_ns(&inputs(1000.0, 16.0 * MILLION, true)) > 0.0);
    }

    #[test]
    fn an_outer_input_of_the_tables_size_does_not() {
        for rows in [1000.0, MILLION, 16.0 * MILLION] {
            assert!(gain_ns(&inputs(rows, rows, false)) < 0.0, "{rows}");
            assert!(gain_ns(&inputs(4.0 * rows, rows, true)) < 0.0, "{rows}");
        }
    }

    #[test]
    fn the_measured_cases_are_decided_as_measured() {
        for (table, outer, index_wins) in [
            (16.0 * MILLION, 1e5, true),
            (16.0 * MILLION, MILLION, true),
            (16.0 * MILLION, 4.0 * MILLION, true),
            (4.0 * MILLION, MILLION, true),
            (4.0 * MILLION, 4.0 * MILLION, false),
            (MILLION, 1e5, true),
            (MILLION, MILLION, false),
            (1e5, 1e3, true),
            (1e5, 1e5, false),
        ] {
            assert_eq!(
                gain_ns(&inputs(outer, table, false)) > 0.0,
                index_wins,
                "{table} {outer}"
            );
        }
    }

    #[test]
    fn a_selective_filter_of_the_indexed_side_speaks_for_hashing() {
        let whole = inputs(1e5, MILLION, true);
        let filtered = Inputs {
            build_rows: 1e4,
            ..whole
        };
        assert!(gain_ns(&filtered) < gain_ns(&whole));
    }

    #[test]
    fn more_outer_rows_only_speak_against_the_index() {
        let gains: Vec<f64> = [1e3, 1e5, 1e6, 4e6, 1e8]
            .map(|outer| gain_ns(&inputs(outer, 16.0 * MILLION, true)))
            .to_vec();
        assert!(gains.windows(2).all(|pair| pair[0] > pair[1]), "{gains:?}");
    }

    #[test]
    fn nothing_gains_nothing() {
        assert_eq!(gain_ns(&inputs(0.0, 0.0, true)), 0.0);
    }
}
