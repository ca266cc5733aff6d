//! [`Chains`]: the hash table of paper 000, figure 3, without the tuples: buckets of chained cells.
//!
//! ```text
//!   buckets (u32)      cells (16 bytes, in build order)
//!   ┌───┐              ┌──────┬───────┬──────┐
//!   │ 7 ├─────────────▶│ hash │ tuple │ next ├──▶ an earlier cell, or NONE
//!   ├───┤              └──────┴───┬───┴──────┘
//!   │ - │ NONE                    └──▶ row of the build side
//!   └───┘
//! ```
//!
//! Pointers are 32-bit numbers, as the paper's are 32 bits. A cell is padded to 16 bytes so that none spans two lines: one
//! reference is then enough for it. New cells go in front of their bucket's chain, so `next` is always smaller than the
//! cell's own number and every chain ends.

use super::{OperatorError, check_rows};
use crate::huge::{HugeBuf, Plain};
use crate::prefetch::prefetch_read;

/// No cell.
pub(super) const NONE: u32 = u32::MAX;

/// Rows between asking for a bucket and entering a row, while the table is built. As in `table::dense`.
const AHEAD: usize = 32;

/// One build row in its bucket's chain.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) hash: u32,
    /// Below the number of rows the table was built over.
    pub(super) tuple: u32,
    /// Another cell or [`NONE`].
    pub(super) next: u32,
    unused: u32,
}

// SAFETY: integers; the last one is there so that no padding is.
unsafe impl Plain for Cell {}

/// Buckets and cells.
#[derive(Debug)]
pub(super) struct Chains {
    /// The first cell of each bucket or [`NONE`].
    pub(super) buckets: HugeBuf<u32>,
    pub(super) cells: HugeBuf<Cell>,
}

/// The hash code of a key: the middle of one multiplication, which depends on all bits of the key. Not injective, as hash
/// codes of longer keys are not either, so an equal code is only a reason to look at the row.
#[inline(always)]
pub(super) fn hash(key: u32) -> u32 {
    (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

impl Chains {
    /// Enters rows `0..rows` in order.
    pub(super) fn build(
        rows: usize,
        key: impl Fn(usize) -> u32,
        buckets: usize,
    ) -> Result<Chains, OperatorError> {
        check_rows(rows)?;
        if buckets == 0 || buckets > u32::MAX as usize {
            return Err(OperatorError::Buckets { buckets });
        }
        let mut chains = Chains {
            buckets: HugeBuf::zeroed(buckets)?,
            cells: HugeBuf::zeroed(rows)?,
        };
        chains.buckets.fill(NONE);
        for row in 0..rows {
            if row + AHEAD < rows {
                let later = chains.bucket(hash(key(row + AHEAD)));
                prefetch_read(&raw const chains.buckets[later]);
            }
            let hash = hash(key(row));
            let bucket = chains.bucket(hash);
            let next = std::mem::replace(&mut chains.buckets[bucket], row as u32);
            chains.cells[row] = Cell {
                hash,
                tuple: row as u32,
                next,
                unused: 0,
            };
        }
        Ok(chains)
    }

    /// The bucket of a hash code: its high bits, scaled to any number of buckets.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes() + self.cells.bytes()
    }
}
