//! Grouping in the cache: partitioned hash aggregation in two phases.
//!
//! After Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014, section 4.4), and, for rows that pass by the table,
//! Müller et al., "Cache-Efficient Aggregation: Hashing Is Sorting" (SIGMOD 2015).
//!
//! Order of calls: each thread makes a [`LocalGroups`] of one [`Layout`], pushes its batches and finishes it, which
//! gives [`Partitioned`] records. When all threads have, [`merge`] makes the [`Groups`] of one partition out of the
//! records of all threads; partitions are independent of each other. [`LocalGroups::reduce`] and
//! [`LocalGroups::take`] give memory back in between.
//!
//! A row costs no miss beyond its columns while the groups fit the table. With more groups it costs one sequential
//! write and one sequential read of its record, where a table of all groups would cost a miss each for slot, key and
//! states.
//!
//! [`DistinctKeys`] tells hosts from the first rows how many groups there will be about, before they choose this way.
//!
//! What it is not: it knows no types, no SQL and no strings. Keys are words that are equal when the keys are; states
//! are words that the caller makes values of. It has no threads of its own and does not limit its memory.
//!
//! ```
//! use corun_exec::groups::{Argument, Fold, Layout, LocalGroups, Options, Values, merge};
//!
//! let layout = Layout::new(1, vec![Fold::SumI64, Fold::Count]);
//! let options = Options { table_bytes: 256 << 10, partition_bits: 4, seed: 42 };
//! let mut local = LocalGroups::new(layout.clone(), &options)?;
//! let sum = Argument { values: Values::I64(&[1, 10, 2]), valid: None };
//! let count = Argument { values: Values::None, valid: None };
//! local.push(&[&[7, 8, 7]], None, &[sum, count])?;
//!
//! let mut partitioned = local.finish()?;
//! let mut groups = Vec::new();
//! for partition in 0..partitioned.partitions() {
//!     let merged = merge(&layout, partitioned.take(partition), &options)?;
//!     let all = 0..merged.len();
//!     let states = merged.state(0, all.clone()).zip(merged.state(1, all.clone()));
//!     groups.extend(merged.key_word(0, all).zip(states));
//! }
//! groups.sort();
//! assert_eq!(groups, [(7, (3, 2)), (8, (10, 1))]);
//! # Ok::<(), corun_exec::huge::OutOfMemory>(())
//! ```

mod distinct;
mod fold;
mod keys;
mod layout;
mod local;
mod merge;
mod numbered;
mod pairs;
mod partitioned;
mod runs;
mod table;
#[cfg(test)]
mod tests;

pub use distinct::DistinctKeys;
pub use fold::{Argument, Values};
pub use layout::{Fold, Layout};
pub use local::LocalGroups;
pub use merge::{Groups, merge, merge_bytes_max};
pub use partitioned::Partitioned;

use crate::huge::OutOfMemory;

/// Rows that are looked up before they are folded: their positions and records stay in L1. Measured (Zen 4, 100
/// groups, two folds): 6.1 ns a row with 256 and 512, 6.7 with 1024.
const BATCH_ROWS: usize = 512;

/// Fewest groups of a full table, whatever its budget.
const CAPACITY_MIN: usize = 4;

/// How groups are made; the same for all threads and the merge.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of a table that stays in the private cache, half of L2 for example. A group takes its record and 12
    /// bytes; tables have at least a few records. One that is full but sees groups again grows to at most 8 times as
    /// many bytes.
    pub table_bytes: usize,
    /// There are `1 << partition_bits` partitions; at most 8 bits.
    pub partition_bits: u32,
    /// Of the hash: random where keys may have been chosen to collide.
    pub seed: u64,
}

impl Options {
    /// Bytes that a table may grow to where its rows meet the same groups again.
    pub fn table_bytes_max(&self) -> usize {
        local::GROW_TO_TABLES * self.table_bytes
    }

    /// Groups that a table of so many bytes holds.
    fn groups_of(&self, layout: &Layout, bytes: usize) -> usize {
        (bytes / (layout.record_words() * 8 + table::SLOT_BYTES)).clamp(CAPACITY_MIN, table::CAPACITY_MAX / 8)
    }
}

/// So many zeros.
fn try_zeroed<T: Clone + Default>(length: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut zeroed = Vec::new();
    zeroed.try_reserve_exact(length).map_err(|_| OutOfMemory {
        bytes: length.saturating_mul(size_of::<T>()),
    })?;
    zeroed.resize(length, T::default());
    Ok(zeroed)
}
