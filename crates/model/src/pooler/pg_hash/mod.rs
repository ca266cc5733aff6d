//! How much memory a hash table of PostgreSQL takes, by the server's own rules (paper 002, section 4.1: `S` is "the size of
//! the hash table", which an estimate of rows alone does not give).
//!
//! A hash join keeps each row of its inner side as a packed tuple behind a link, and one pointer for each bucket:
//!
//! ```text
//!   buckets (a power of two, at least 1024 as planned, one row each)      chunks of 32 KiB, rows one behind the other
//!   ┌────┬────┬────┬────┬─ ─┐                                             ┌────────┬────────────────────────┬─ ─
//!   │ 8 B│    │    │    │   │ ──────────────────────────────────────────▶ │ header │ link 16 │ head 16 │ data, to 8 B
//!   └────┴────┴────┴────┴─ ─┘                                             └────────┴────────────────────────┴─ ─
//! ```
//!
//! Two questions have two answers. [`Planned::of`] is what the planner and the start of the executor expect of an estimate of
//! rows and width: buckets, batches, the limit. [`Planned::built`] is what stands in memory once so many rows of such a size
//! went in: buckets double while there is a single batch, batches double where the limit is passed. It is what
//! `EXPLAIN ANALYZE` prints as `Buckets`, `Batches` and `Memory Usage` ([`Built::counted`]), and beside it what the rows really
//! take after alignment and packing ([`Built::resident`]), which is what a cache notices. [`aggregate`] does the same for hashed
//! groups.
//!
//! # Versions
//! The rules are those of PostgreSQL 13 to 17.
//! - 12 knows no `hash_mem_multiplier`: hand in 1.0. It is 1.0 by default up to 14, and 2.0 since 15. 12 also takes the full
//!   2 % for outer values that are frequent, where later ones take as much of it as whole entries need.
//! - 18 gives a join more memory than the limit rather than so many batches that the buffers of their files outweigh it. Tables
//!   planned with a few batches are as here; beyond about `limit / 16 KiB` batches they are larger and have fewer batches.
//!
//! Not here: reading plans, and how many rows there will be, which is the host's estimate and what corrects it.

pub mod aggregate;
mod built;
mod planned;

pub use built::{Built, Frequent, Stored};
pub use planned::{Input, Planned};

use crate::units::Bytes;

/// What memory is aligned to in rows and tuples.
const ALIGNMENT: u64 = 8;
/// A pointer: one bucket.
const POINTER: u64 = 8;
/// Link to the next row of a bucket and the hash value.
const LINK: u64 = 16;
/// Head of a stored tuple without its bitmap of NULLs.
const HEAD: u64 = 15;
/// Largest single piece of memory the server asks for.
const PIECE_MAX: u64 = 0x3fff_ffff;

/// What a server allows a hash table, by its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// `work_mem`.
    pub work_mem: Bytes,
    /// `hash_mem_multiplier`; 1.0 where the server has none.
    pub hash_mem_multiplier: f64,
}

impl Default for Memory {
    /// PostgreSQL's own since 15: 4 MB, twice.
    fn default() -> Self {
        Self {
            work_mem: Bytes::mib(4),
            hash_mem_multiplier: 2.0,
        }
    }
}

impl Memory {
    /// What a table of one process may take before it is cut into batches. A multiplier that is no number counts as 1.
    pub fn limit(&self) -> Bytes {
        let multiplier = if self.hash_mem_multiplier.is_finite() {
            self.hash_mem_multiplier.max(1.0)
        } else {
            1.0
        };
        Bytes((self.work_mem.0 as f64 * multiplier) as u64)
    }
}

/// The next multiple of what memory is aligned to.
fn aligned(bytes: u64) -> u64 {
    bytes.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// Whole bytes of an estimate; what is no number, or negative, is nothing.
fn whole(value: f64) -> u64 {
    // The conversion saturates, and makes 0 of what is no number.
    value.ceil() as u64
}

/// The smallest power of two that is at least `value`, up to 2^62.
fn power_of_two(value: u64) -> u64 {
    value.clamp(1, 1 << 62).next_power_of_two()
}
