//! Whether to join through an index or to build a hash table.
//!
//! A hash join reads both inputs once, builds from one and probes with the other. A join through an index reads the outer
//! input only, and pays a way down a tree and gathers of the rows found for each of its rows. So the index wins where the
//! outer input is small beside the table. [`gain_ns`] compares the two in nanoseconds of one thread; both spread over
//! threads alike. Filters of the indexed side cost both of them about the same and are left out.

/// What the decision rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs {
    /// Rows the hash table would be built from.
    pub build_rows: f64,
    /// Rows that would probe it.
    pub probe_rows: f64,
    /// Whether the build input is the indexed one; else the probe input is.
    pub indexed_builds: bool,
    /// Rows a key of the index has on average.
    pub rows_per_key: f64,
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

const BUILD_NS: Cost = Cost {
    l2: 10.0,
    llc: 15.0,
    memory: 20.0,
};

const PROBE_NS: Cost = Cost {
    l2: 4.0,
    llc: 8.0,
    memory: 14.0,
};

const LOOKUP_NS: Cost = Cost {
    l2: 30.0,
    llc: 40.0,
    memory: 60.0,
};

const MATCH_NS: Cost = Cost {
    l2: 3.0,
    llc: 6.0,
    memory: 12.0,
};

/// Bytes a row takes in a hash table.
const TABLE_BYTES_PER_ROW: f64 = 16.0;

/// Nanoseconds to read a row of a table in order.
const SCAN_NS: f64 = 0.5;

/// Nanoseconds that the join through the index is expected to take less than the hash join; negative where it takes more.
pub fn gain_ns(inputs: &Inputs) -> f64 {
    let table_bytes = inputs.build_rows * TABLE_BYTES_PER_ROW;
    let hash_ns = inputs.build_rows * BUILD_NS.at(table_bytes, inputs)
        + inputs.probe_rows * PROBE_NS.at(table_bytes, inputs)
        + inputs.table_rows * SCAN_NS;
    let outer_rows = if inputs.indexed_builds {
        inputs.probe_rows
    } else {
        inputs.build_rows
    };
    // A hash table's partners are fetched one by one too; a probe input's rows would have come in order.
    let matches = if inputs.indexed_builds {
        0.0
    } else {
        outer_rows * inputs.rows_per_key
    };
    let table = inputs.table_rows * TABLE_BYTES_PER_ROW;
    let index_ns =
        outer_rows * LOOKUP_NS.at(inputs.tree_bytes as f64, inputs) + matches * MATCH_NS.at(table, inputs);
    hash_ns - index_ns
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
            rows_per_key: 1.0,
            table_rows: table,
            tree_bytes: table as usize * 12,
            l2_bytes: 2 << 20,
            llc_bytes: 32 << 20,
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
    fn more_outer_rows_only_speak_against_the_index() {
        let gains: Vec<f64> = [1e3, 1e5, 1e6, 4e6, 1e8]
            .map(|outer| gain_ns(&inputs(outer, 16.0 * MILLION, true)))
            .to_vec();
        assert!(gains.windows(2).all(|pair| pair[0] > pair[1]), "{gains:?}");
    }

    #[test]
    fn an_outer_input_that_reaches_every_row_does_not() {
        let every_row = Inputs {
            rows_per_key: 100.0,
            ..inputs(160_000.0, 16.0 * MILLION, false)
        };
        assert!(gain_ns(&every_row) < 0.0);
        assert!(gain_ns(&inputs(160_000.0, 16.0 * MILLION, false)) > 0.0);
    }

    #[test]
    fn nothing_gains_nothing() {
        assert_eq!(gain_ns(&inputs(0.0, 0.0, true)), 0.0);
    }
}
