//! How large the structures of the suite `memory-latency` are: far beyond the last-level cache, or as in the paper, or tiny.
//!
//! Pure: topology in, sizes out. Not here: what is put into the structures ([`super::data`]).

use corun_model::topology::Topology;
use corun_model::units::Bytes;

/// Bytes of a row of the paper's tables.
const ROW_BYTES: u64 = 64;
/// Bytes an indexed key takes in a tree of 75 % full leaves: key and RID, and a little for inner nodes.
const INDEXED_KEY_BYTES: u64 = 12;
/// Bytes a build row takes by column: key, two attributes, bucket and cell.
const COLUMN_ROW_BYTES: u64 = 32;
/// Last-level cache assumed where none is described.
const LLC_FALLBACK: Bytes = Bytes::mib(32);
/// One structure takes at most this share of the machine's memory.
const MEMORY_SHARE: u64 = 8;
/// The tables of `memory-latency` are this many times the cache a process may count on ...
const OVER_PLANNED_LLC: u64 = 4;
/// ... and this many times the cache the machine announces. A virtual machine may announce what it shares with others; then the
/// first factor alone would leave tables that sometimes fit.
const OVER_ANNOUNCED_LLC: u64 = 2;
/// Probes of a run: enough that starting a thread does not show, few enough that most modes take a fifth of a second.
const PROBES: usize = 1_000_000;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Thousands of rows.
    Quick,
    /// By the machine's caches.
    Machine,
    /// As in the paper's experiments.
    Paper,
}

/// Elements of each structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Keys in the index.
    pub index_keys: usize,
    /// Probes of the index.
    pub index_probes: usize,
    /// Rows of each side of the row-wise hash join and of the join index.
    pub rows: usize,
    /// Probes of the row-wise hash join.
    pub row_probes: usize,
    /// Build rows of the column-wise hash join.
    pub column_rows: usize,
    /// Probe rows of the column-wise hash join, all of which are probed.
    pub column_probes: usize,
    /// Pairs of the join index.
    pub pairs: usize,
}

impl Sizes {
    /// The sizes for a machine.
    pub fn of(extent: Extent, topology: &Topology) -> Sizes {
        match extent {
            Extent::Quick => Sizes {
                index_keys: 20_000,
                index_probes: 3_000,
                rows: 4_000,
                row_probes: 3_000,
                column_rows: 4_000,
                column_probes: 3_000,
                pairs: 3_000,
            },
            Extent::Machine => Sizes::beyond_cache(topology),
            // Sections 6.1, 6.2 and A.1.1; for the columns the paper says no size, so the row-wise join's.
            Extent::Paper => Sizes {
                index_keys: 10_000_000,
                index_probes: 10_000_000,
                rows: 2_000_000,
                row_probes: 2_000_000,
                column_rows: 2_000_000,
                column_probes: 2_000_000,
                pairs: 1_000_000,
            },
        }
    }

    fn beyond_cache(topology: &Topology) -> Sizes {
        let planned = topology.planning_llc_bytes().unwrap_or(LLC_FALLBACK).0;
        let announced = topology.last_level_cache_bytes().map_or(0, |bytes| bytes.0);
        let wanted = (planned * OVER_PLANNED_LLC).max(announced * OVER_ANNOUNCED_LLC);
        let memory = topology.memory.limit.or(topology.memory.total);
        let bytes = memory.map_or(wanted, |memory| wanted.min(memory.0 / MEMORY_SHARE));
        let elements = |each: u64| usize::try_from(bytes / each).unwrap_or(usize::MAX).max(1000);
        Sizes {
            index_keys: elements(INDEXED_KEY_BYTES),
            index_probes: PROBES,
            rows: elements(ROW_BYTES),
            row_probes: PROBES,
            column_rows: elements(COLUMN_ROW_BYTES),
            column_probes: PROBES,
            pairs: PROBES,
        }
    }

    /// The same structures with shorter probe streams.
    pub fn with_probes_at_most(self, tuples: usize) -> Sizes {
        Sizes {
            index_probes: self.index_probes.min(tuples),
            row_probes: self.row_probes.min(tuples),
            column_probes: self.column_probes.min(tuples),
            pairs: self.pairs.min(tuples),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_model::topology::Memory;

    use super::*;

    #[test]
    fn tables_are_beyond_the_cache_and_within_memory() {
        let machine = |total| Topology {
            memory: Memory {
                total: Some(Bytes::gib(total)),
                ..Memory::default()
            },
            ..Topology::default()
        };
        let large = Sizes::of(Extent::Machine, &machine(64));
        assert_eq!(large.rows as u64 * ROW_BYTES, LLC_FALLBACK.0 * OVER_PLANNED_LLC);
        // An eighth of 1 GiB is the same 128 MiB; less memory, smaller tables.
        assert_eq!(Sizes::of(Extent::Machine, &machine(1)), large);
        assert!(Sizes::of(Extent::Machine, &machine(0)).rows >= 1000);
    }

    #[test]
    fn the_papers_sizes_are_the_papers() {
        let paper = Sizes::of(Extent::Paper, &Topology::default());
        assert_eq!(
            (paper.index_keys, paper.rows, paper.pairs),
            (10_000_000, 2_000_000, 1_000_000)
        );
    }
}
