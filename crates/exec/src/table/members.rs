//! Which codes a table has, one bit each: for rows that only ask whether they have a partner.

use super::kernel::{BLOCK_ROWS, Source, Visit};
use super::layout::Line32;
use super::plan::{BuildOptions, KeysExpected, Kind, matches_bytes};
use super::simd::{Instructions, Isa, Loop, with_compare};
use super::{Index, JoinTable};
use crate::huge::{HugeBuf, OutOfMemory};

const WORD_BITS: usize = u64::BITS as usize;

/// One bit a code from the smallest to the largest; the last word is 0 and stands for all others.
#[derive(Debug)]
pub(super) struct Members {
    words: HugeBuf<u64>,
}

impl Members {
    /// Bytes taken from the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// The bits of an index of 32-bit codes that are at most `range` apart.
    ///
    /// # Errors
    /// Out of memory.
    fn of(index: &Index, range: usize) -> Result<Members, OutOfMemory> {
        let mut words = HugeBuf::<u64>::zeroed(range / WORD_BITS + 2)?;
        match index {
            Index::Dense { values } => {
                for (word, values) in words.iter_mut().zip(values.chunks(WORD_BITS)) {
                    for (bit, &value) in values.iter().enumerate() {
                        *word |= u64::from(value != 0) << bit;
                    }
                }
            }
            Index::Lines32 { lines, .. } => {
                for offset in lines.iter().flat_map(Line32::keys) {
                    words[offset as usize / WORD_BITS] |= 1 << (offset as usize % WORD_BITS);
                }
            }
            Index::Lines64 { .. } => unreachable!("codes of 64 bits have no bits"),
        }
        Ok(Members { words })
    }
}

/// Writes the rows whose codes are members, and returns how many.
pub(super) struct MembersProbe<'a> {
    pub(super) members: &'a Members,
    /// The code of the first bit.
    pub(super) min: u64,
    pub(super) isa: Isa,
    /// Room for every row of the source.
    pub(super) rows: *mut u32,
}

impl Visit for MembersProbe<'_> {
    type Output = usize;

    /// Asks for the room, and that the processor has the instruction set.
    unsafe fn visit<S: Source>(self, source: S) -> usize {
        with_compare!(self.isa, C => {
            let scan = Scan { probe: self, source };
            // SAFETY: the caller's promise.
            unsafe { C::enter(scan) }
        })
    }
}

struct Scan<'a, S> {
    probe: MembersProbe<'a>,
    source: S,
}

impl<S: Source> Loop for Scan<'_, S> {
    type Output = usize;

    /// Block by block: first one bit a row, then the numbers of the rows whose bit is set. No row's load waits for another's
    /// answer, so that caches are read as fast as they give.
    #[inline(always)]
    unsafe fn run(self) -> usize {
        let Scan { probe, source } = self;
        let words: &[u64] = &probe.members.words;
        let outside = ((words.len() - 1) * WORD_BITS) as u64;
        let mut buffer = [0_u32; BLOCK_ROWS];
        let mut count = 0;
        let mut start = 0;
        while start < source.len() {
            let end = source.len().min(start + BLOCK_ROWS);
            let mut found = 0_u64;
            for index in start..end {
                // SAFETY: the row is in range, and the bit at most the first of the last word.
                found |= unsafe {
                    let bit = source.code(index).wrapping_sub(probe.min).min(outside) as usize;
                    (words.get_unchecked(bit / WORD_BITS) >> (bit % WORD_BITS) & 1) << (index - start)
                };
            }
            // SAFETY: a block; bits are only set for its rows, and there is room for each row of the source.
            unsafe {
                let rows = source.rows(start, end, &mut buffer);
                while found != 0 {
                    let offset = found.trailing_zeros() as usize;
                    probe.rows.add(count).write(rows.add(offset).read());
                    count += 1;
                    found &= found - 1;
                }
            }
            start = end;
        }
        count
    }
}

impl JoinTable {
    /// Prepares for probe rows of which many have no partner: [`JoinTable::matches`] and [`JoinTable::probe`] then read one bit a
    /// code before the index. Does so where [`matches_bytes`] says that it pays; `asks`: somebody will call
    /// [`JoinTable::matches`]. The bits count in [`JoinTable::bytes`].
    ///
    /// # Errors
    /// Out of memory; the table is as it was.
    pub fn prepare_matches(&mut self, asks: bool, options: &BuildOptions) -> Result<(), OutOfMemory> {
        let Some(bounds) = self.bounds else { return Ok(()) };
        let keys = KeysExpected {
            rows: self.rows,
            distinct: self.distinct,
            bounds,
        };
        if self.kind() != Kind::Buckets64 && matches_bytes(&keys, asks, options) > 0 {
            self.members = Some(Members::of(&self.index, (bounds.1 - bounds.0) as usize)?);
        }
        Ok(())
    }
}
