//! The join table: from codes to build rows.
//!
//! Order of calls: [`JoinTable::build`] once, then for every probe batch [`JoinTable::probe`] (pairs of rows),
//! [`JoinTable::matches`] (which probe rows have a partner) or [`JoinTable::mark`] (which build rows have one). A table
//! is immutable and shared between threads freely.
//!
//! What it is not: it cannot change after the build, and it does not compare keys beyond their codes.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use corun_exec::{BuildOptions, Chunk, Codes, JoinTable, Pairs, ProbeCursor, Serial};
//!
//! let build_keys = Codes::U64 { values: &[10, 20, 10], bias: 0 };
//! let chunk = Chunk { codes: build_keys, valid: None, first_row: 0 };
//! let table = JoinTable::build(&[chunk], &BuildOptions::default(), &Serial, &AtomicBool::new(false))?;
//!
//! let probe_keys = Codes::U64 { values: &[7, 10, 20], bias: 0 };
//! let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
//! assert!(table.probe(&probe_keys, None, None, &mut cursor, 100, &mut pairs));
//! assert_eq!((pairs.build, pairs.probe), (vec![0, 2, 1], vec![1, 1, 2]));
//! # Ok::<(), corun_exec::BuildError>(())
//! ```

mod build;
#[cfg(test)]
mod cursor_tests;
mod dense;
mod direct;
mod fill;
pub(crate) mod hash;
mod kernel;
mod layout;
mod measure;
mod members;
mod plan;
mod probe;
mod scatter;
mod simd;
mod step;
mod survey;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corun_model::cache::reuse::Reuse;

use crate::codes::Chunk;
use crate::huge::{HugeBuf, OutOfMemory, addresses};
use crate::workers::Workers;
use hash::Mixer;
use layout::{Line32, Line64};
use members::Members;
use simd::Isa;

pub(crate) use step::Looked;

pub use measure::probe_times;
pub use plan::{
    BuildOptions, KeysExpected, Kind, bytes_expected, bytes_max, bytes_max_of, matches_bytes,
    matches_bytes_max,
};
pub use probe::{Pairs, ProbeCursor};

/// The largest build row number a table can hold.
pub const ROW_MAX: u32 = layout::ROW_MAX;

/// Why a table was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The caller's flag was raised.
    #[error("the build was cancelled")]
    Cancelled,
    /// The allocator refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A row number does not fit in 31 bits.
    #[error("a join table holds at most 2147483646 rows, not {rows}")]
    TooManyRows {
        /// Rows asked for.
        rows: u64,
    },
}

/// A map from 64-bit codes to build rows.
#[derive(Debug)]
pub struct JoinTable {
    /// Which table of the process it is: cursors stay with theirs.
    id: NonZeroU64,
    index: Index,
    duplicates: HugeBuf<u32>,
    members: Option<Members>,
    mixer: Mixer,
    isa: Isa,
    bounds: Option<(u64, u64)>,
    rows: usize,
    distinct: usize,
    /// From this many bytes on, what is read at random is larger than the private caches: probe with prefetching.
    prefetch_from_bytes: usize,
    /// Whether what is prefetched stays.
    reuse: Reuse,
}

#[derive(Debug)]
enum Index {
    /// One element a code in range and a last one, 0, for all others.
    Dense { values: HugeBuf<u32> },
    /// Lines of 32-bit keys, in `1 << bits` partitions.
    Lines32 { lines: HugeBuf<Line32>, bits: u32 },
    /// Lines of 64-bit keys, in `1 << bits` partitions.
    Lines64 { lines: HugeBuf<Line64>, bits: u32 },
}

/// A number that no other table has.
fn next_id() -> NonZeroU64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let before = LAST.fetch_add(1, Ordering::Relaxed);
    NonZeroU64::MIN.saturating_add(before)
}

impl JoinTable {
    /// Builds a table of the valid rows of `chunks`.
    ///
    /// Row numbers must ascend from chunk to chunk for [`JoinTable::probe`] to give the rows of a key ascending;
    /// otherwise they come in the order of the chunks. `workers` run the parallel passes of larger builds; `cancel` is
    /// looked at between pieces of work of about a millisecond.
    ///
    /// # Errors
    /// [`BuildError`]: cancelled, out of memory, or a row number above [`ROW_MAX`].
    ///
    /// # Panics
    /// When a chunk's validity and codes differ in length.
    pub fn build(
        chunks: &[Chunk<'_>],
        options: &BuildOptions,
        workers: &dyn Workers,
        cancel: &AtomicBool,
    ) -> Result<JoinTable, BuildError> {
        build::build(chunks, options, workers, cancel)
    }

    /// A table without rows.
    fn empty() -> Result<JoinTable, BuildError> {
        Ok(JoinTable {
            id: next_id(),
            index: Index::Dense {
                values: HugeBuf::zeroed(1)?,
            },
            duplicates: HugeBuf::zeroed(0)?,
            members: None,
            mixer: Mixer::new(0, 0),
            isa: Isa::detect(),
            bounds: None,
            rows: 0,
            distinct: 0,
            prefetch_from_bytes: usize::MAX,
            reuse: Reuse::Keep,
        })
    }

    /// How codes are mapped.
    pub fn kind(&self) -> Kind {
        match self.index {
            Index::Dense { .. } => Kind::Dense,
            Index::Lines32 { .. } => Kind::Buckets32,
            Index::Lines64 { .. } => Kind::Buckets64,
        }
    }

    /// Rows in the table; rows that were not valid are not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Different codes.
    pub fn distinct_keys(&self) -> usize {
        self.distinct
    }

    /// Says whether the lines that probes read are worth a place in the outer caches; [`Reuse::Keep`] unless told otherwise. A
    /// hint, only followed where probes prefetch: what is near is near.
    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// Has no code several rows?
    pub fn is_unique(&self) -> bool {
        self.distinct == self.rows
    }

    /// Bytes taken from the allocator.
    pub fn bytes(&self) -> usize {
        let members = self.members.as_ref().map_or(0, Members::bytes);
        self.index_bytes() + self.duplicates.bytes() + members
    }

    /// Where its memory is: the index, then the lists of keys with several rows. For access traces.
    pub fn memory(&self) -> [std::ops::Range<usize>; 2] {
        let index = match &self.index {
            Index::Dense { values } => addresses(values),
            Index::Lines32 { lines, .. } => addresses(lines),
            Index::Lines64 { lines, .. } => addresses(lines),
        };
        [index, addresses(&self.duplicates)]
    }

    fn index_bytes(&self) -> usize {
        match &self.index {
            Index::Dense { values } => values.bytes(),
            Index::Lines32 { lines, .. } => lines.bytes(),
            Index::Lines64 { lines, .. } => lines.bytes(),
        }
    }

    /// The smallest and largest code; `None` without rows.
    pub fn code_bounds(&self) -> Option<(u64, u64)> {
        self.bounds
    }
}
