//! Keys that are longer than an index keeps: the whole key of a row, and the rows of one cut key in the order of whole keys.
//!
//! ```text
//! the index's entry     the first 64 bytes of the key (see `key`), which compare as the keys do, or are equal
//! the whole key         from the row: as there, but a text(max) without filling: its bytes, each 0 as 0 255, then 0 0
//! ```
//!
//! No whole key of an index begins another, so that a bound is a place before or behind all keys that begin with some bytes. What
//! it is not: kept anywhere. Rows with equal cut keys are read all before the first of them is returned.

use super::writer::Sink;
use super::{KeyRange, Words};
use crate::index::IndexInner;
use crate::slots::Rid;
use crate::transaction::{Direction, Found};

/// The whole key of a row or of values.
pub(crate) type LongKey = Vec<u8>;

impl Sink for LongKey {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn fill(&mut self, byte: u8, count: usize) {
        self.resize(self.len() + count, byte);
    }

    fn null(&mut self, _: usize) {}

    fn text(&mut self, bytes: &[u8], _: u32) {
        for &byte in bytes {
            self.push(byte);
            if byte == 0 {
                self.push(0xff);
            }
        }
        self.extend_from_slice(&[0, 0]);
    }
}

/// A place among whole keys: before all that begin with these bytes, or behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: LongKey,
    pub(crate) behind: bool,
}

impl Bound {
    /// Whether a key lies behind it.
    fn is_before(&self, key: &[u8]) -> bool {
        match key.starts_with(&self.bytes) {
            true => !self.behind,
            false => key > &self.bytes[..],
        }
    }
}

/// Whole keys between two bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongRange {
    pub(crate) low: Bound,
    pub(crate) high: Bound,
}

impl LongRange {
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.low.is_before(key) && !self.high.is_before(key)
    }
}

/// The rows of one cut key.
#[derive(Default)]
pub(crate) struct Run<'a> {
    /// Those that are still to come, the next one last.
    rows: Vec<(LongKey, Found<'a>)>,
    /// The entry behind them, which was read already.
    ahead: Option<(Words, Rid)>,
}

impl<'a> Run<'a> {
    /// The next row of a range. `next` returns the next entry of the index there, `read` the row of an entry, if it has that key.
    pub(crate) fn next<E>(
        &mut self,
        mut next: impl FnMut() -> Option<(Words, Rid)>,
        index: &IndexInner,
        range: &KeyRange,
        direction: Direction,
        mut read: impl FnMut(&Words, Rid) -> Result<Option<Found<'a>>, E>,
    ) -> Result<Option<(LongKey, Found<'a>)>, E> {
        loop {
            if let Some(row) = self.rows.pop() {
                return Ok(Some(row));
            }
            let first = self.ahead.take().or_else(&mut next);
            let mut entry = first;
            while let (Some((key, rid)), Some((cut, _))) = (entry, first) {
                if key != cut {
                    self.ahead = entry;
                    break;
                }
                if let Some(found) = read(&key, rid)? {
                    let long = index.layout.long_of_row(found.row);
                    if range.holds(&long) {
                        self.rows.push((long, found));
                    }
                }
                entry = next();
            }
            if first.is_none() {
                return Ok(None);
            }
            let order = |(key, found): &(LongKey, Found<'a>), other: &(LongKey, Found<'a>)| {
                (key, found.rid).cmp(&(&other.0, other.1.rid))
            };
            self.rows.sort_unstable_by(|a, b| match direction {
                Direction::Ascending => order(b, a),
                Direction::Descending => order(a, b),
            });
        }
    }

    /// Puts the row back that was returned last.
    pub(crate) fn put_back(&mut self, row: (LongKey, Found<'a>)) {
        self.rows.push(row);
    }
}
