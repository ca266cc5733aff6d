//! Keys: the values of an index's columns as words that compare as the values do.
//!
//! ```text
//! integers     sign bit flipped, most significant byte first
//! floats       as f64: sign bit flipped, or all bits if negative (NaN above all numbers, -0 below 0)
//! fixed text   its bytes
//! text(max)    max bytes, filled up with zeros, then its length (1, 2 or 4 bytes): "a" < "a\0" < "ab"
//! nullable     one byte before: 0 for NULL (then zeros), 1 for a value
//! ```
//!
//! Bytes of all columns one after another, up to [`KEY_BYTES_MAX`], read as big-endian words. An index uses as many words as
//! its widest key needs (1, 2, 4 or 8), so that short keys make short nodes. Keys that may be longer are cut there: they compare as
//! the values do or are equal, and whoever needs the difference looks at the rows ([`long`]).
//!
//! What it is not: it cannot be turned back; rows are read for their values.

pub(crate) mod long;
mod writer;

use std::ops::Bound;

use self::long::{LongKey, LongRange};
use self::writer::{Sink, Writer, length_bytes};
use crate::row::RowRef;
use crate::schema::ColumnDef;
use crate::value::{Type, Value};

/// Bytes of a key that an index keeps. Rows whose longer keys differ only behind them lie together there, and are sorted when they
/// are read.
pub const KEY_BYTES_MAX: usize = WORDS_MAX * 8;
/// Most words of a key.
pub const WORDS_MAX: usize = 8;

/// A key, filled up with zeros.
pub type Words = [u64; WORDS_MAX];

/// Why values make no key of an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A value of another type than the column's.
    #[error("index {index:?}: column {column:?} holds {expected}, not {found}")]
    Type {
        /// The index.
        index: String,
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// What was given.
        found: String,
    },
    /// More or fewer values than columns.
    #[error("index {index:?}: {found} values for {columns} columns")]
    Count {
        /// The index.
        index: String,
        /// Its columns.
        columns: usize,
        /// Values given.
        found: usize,
    },
}

/// Entries of an index from one key to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) low: Words,
    pub(crate) high: Words,
    /// Bounds of whole keys, if the index cuts keys.
    pub(crate) long: Option<Box<LongRange>>,
}

impl KeyRange {
    /// Of all keys.
    pub(crate) fn all() -> Self {
        KeyRange {
            low: [0; WORDS_MAX],
            high: [u64::MAX; WORDS_MAX],
            long: None,
        }
    }
}

/// The key of values for all columns.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    pub(crate) words: Words,
    /// The whole key, if the index cuts keys.
    pub(crate) long: Option<LongKey>,
}

impl Exact {
    /// Its entries alone.
    pub(crate) fn range(&self) -> KeyRange {
        let bound = |behind| long::Bound {
            bytes: self.long.clone().unwrap_or_default(),
            behind,
        };
        let long = || LongRange {
            low: bound(false),
            high: bound(true),
        };
        KeyRange {
            low: self.words,
            high: self.words,
            long: self.long.is_some().then(|| Box::new(long())),
        }
    }
}

impl KeyRange {
    /// Whether a whole key lies in it, whose cut key does.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.long.as_ref().is_none_or(|long| long.holds(key))
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.low > self.high
    }
}

/// A column of an index.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    position: usize,
    data_type: Type,
    nullable: bool,
    /// Bytes in the key, the NULL byte included.
    bytes: usize,
}

/// How keys of one index are made.
#[derive(Debug)]
pub(crate) struct KeyLayout {
    index: String,
    parts: Vec<Part>,
    /// Where every column goes, if all are integers without NULL that fit one word together: most indexes' keys are.
    one_word: Option<Vec<Piece>>,
    /// Where the bytes are that are 0 for NULL.
    null_bytes: Vec<usize>,
    /// Whether there may be keys longer than [`KEY_BYTES_MAX`].
    cuts: bool,
}

/// An integer's place in a key of one word.
#[derive(Clone, Copy, Debug)]
struct Piece {
    position: usize,
    /// Its sign bit.
    sign: u64,
    /// All of its bits.
    mask: u64,
    shift: u32,
    least: i64,
    most: i64,
}

impl Piece {
    #[inline]
    fn place(&self, value: i64) -> u64 {
        ((value as u64 ^ self.sign) & self.mask) << self.shift
    }
}

/// The places of a key's columns in one word, if it is of that kind.
fn one_word(parts: &[Part]) -> Option<Vec<Piece>> {
    let mut left = u64::BITS;
    let piece = |part: &Part| {
        let bits = part.bytes as u32 * 8;
        left = left.checked_sub(bits)?;
        let (least, most) = part.data_type.integer_range()?;
        (!part.nullable).then_some(Piece {
            position: part.position,
            sign: 1 << (bits - 1),
            mask: u64::MAX >> (u64::BITS - bits),
            shift: left,
            least,
            most,
        })
    };
    parts.iter().map(piece).collect()
}

/// Bytes a column takes in a key.
fn part_bytes(column: &ColumnDef) -> usize {
    let length = match column.data_type {
        Type::Text { max } | Type::Bytes { max } => max as usize + length_bytes(max),
        // Bounds are f64, which f32 would round.
        Type::F32 => 8,
        other => other.fixed_bytes().expect("the other types are fixed"),
    };
    length + usize::from(column.nullable)
}

/// What stands behind the values that all keys of a bound begin with.
enum Tail<'v> {
    Nothing,
    /// Any value but NULL.
    NotNull,
    Value(Value<'v>),
}

/// A bound: before all keys that begin so, or behind them.
struct Edge<'v> {
    tail: Tail<'v>,
    behind: bool,
}

impl KeyLayout {
    /// Of columns that were checked to fit.
    pub(crate) fn new(index: &str, columns: &[ColumnDef], positions: &[usize]) -> Self {
        let part = |&position: &usize| Part {
            name: columns[position].name.clone(),
            position,
            data_type: columns[position].data_type,
            nullable: columns[position].nullable,
            bytes: part_bytes(&columns[position]),
        };
        let parts: Vec<Part> = positions.iter().map(part).collect();
        let (mut at, mut null_bytes) = (0, Vec::new());
        for part in &parts {
            null_bytes.extend(part.nullable.then_some(at));
            at += part.bytes;
        }
        KeyLayout {
            index: index.to_owned(),
            one_word: one_word(&parts),
            cuts: at > KEY_BYTES_MAX,
            null_bytes,
            parts,
        }
    }

    /// Whether keys may be longer than an index keeps.
    #[inline]
    pub(crate) fn cuts(&self) -> bool {
        self.cuts
    }

    /// Whether one of the values is NULL in the row of a key: such a key equals no other, as in SQL.
    #[inline]
    pub(crate) fn has_null(&self, key: &Words, row: RowRef<'_>) -> bool {
        if self.cuts {
            return self.parts.iter().any(|part| row.is_null(part.position));
        }
        let byte = |at: &usize| key[at / 8].to_be_bytes()[at % 8];
        self.null_bytes.iter().any(|at| byte(at) == 0)
    }

    /// Words its keys need: 1, 2, 4 or 8.
    pub(crate) fn words(&self) -> usize {
        let bytes: usize = self.parts.iter().map(|part| part.bytes).sum();
        bytes.div_ceil(8).next_power_of_two().min(WORDS_MAX)
    }

    /// The key of a row.
    pub(crate) fn of_row(&self, row: RowRef<'_>) -> Words {
        if let Some(pieces) = &self.one_word {
            let word = pieces.iter().map(|piece| piece.place(row.int(piece.position)));
            return [word.sum(), 0, 0, 0, 0, 0, 0, 0];
        }
        let mut writer = Writer::new();
        for part in &self.parts {
            if part.data_type.is_integer() && !part.nullable {
                push_integer(&mut writer, part.data_type, row.int(part.position));
            } else {
                part.push(&mut writer, row.value(part.position));
            }
        }
        writer.words(0)
    }

    /// The whole key of a row.
    pub(crate) fn long_of_row(&self, row: RowRef<'_>) -> LongKey {
        let mut long = LongKey::new();
        for part in &self.parts {
            part.push(&mut long, row.value(part.position));
        }
        long
    }

    /// Whether a row whose key in the index is `key` has this one, and not only its beginning.
    #[inline]
    pub(crate) fn is_of(&self, row: RowRef<'_>, key: &Exact) -> bool {
        key.long
            .as_ref()
            .is_none_or(|long| *long == self.long_of_row(row))
    }

    /// The key of a row, as one to look for.
    pub(crate) fn exact_of_row(&self, row: RowRef<'_>) -> Exact {
        Exact {
            words: self.of_row(row),
            long: self.cuts.then(|| self.long_of_row(row)),
        }
    }

    /// Whether two rows have the same key.
    pub(crate) fn same(&self, a: RowRef<'_>, b: RowRef<'_>) -> bool {
        // By their bytes: 0 and -0 are equal numbers, but two keys.
        if self.one_word.is_some() {
            return self.of_row(a) == self.of_row(b);
        }
        let same = |part: &Part| {
            a.is_null(part.position) == b.is_null(part.position)
                && a.raw(part.position) == b.raw(part.position)
        };
        if self.parts.iter().all(same) {
            return true;
        }
        match self.cuts {
            true => self.long_of_row(a) == self.long_of_row(b),
            false => self.of_row(a) == self.of_row(b),
        }
    }

    /// Writes values that rows can have, and what stands behind them.
    fn write<S: Sink>(&self, mut to: S, values: &[Value<'_>], tail: &Tail<'_>) -> S {
        for (part, value) in self.parts.iter().zip(values) {
            part.push(&mut to, *value);
        }
        match (tail, self.parts.get(values.len())) {
            (Tail::Value(value), Some(part)) => part.push(&mut to, *value),
            (Tail::NotNull, Some(part)) if part.nullable => to.push(&[1]),
            _ => {}
        }
        to
    }

    /// The keys that begin with `prefix` and lie between two bounds. Where a bound is cut, all that begin like it are among the
    /// words, and the bounds of whole keys leave them out.
    fn range(&self, prefix: &[Value<'_>], low: &Edge<'_>, high: &Edge<'_>) -> KeyRange {
        let words = |edge: &Edge<'_>| self.write(Writer::new(), prefix, &edge.tail);
        let first = words(low);
        let first = match low.behind && !first.is_cut() {
            true => next(first.words(0xff)),
            false => Some(first.words(0)),
        };
        let last = words(high);
        let last = match high.behind || last.is_cut() {
            true => Some(last.words(0xff)),
            false => previous(last.words(0)),
        };
        let (Some(first), Some(last)) = (first, last) else {
            return NOTHING;
        };
        let bound = |edge: &Edge<'_>| long::Bound {
            bytes: self.write(LongKey::new(), prefix, &edge.tail),
            behind: edge.behind,
        };
        let long = || LongRange {
            low: bound(low),
            high: bound(high),
        };
        KeyRange {
            low: first,
            high: last,
            long: self.cuts.then(|| Box::new(long())),
        }
    }

    fn count(&self, found: usize) -> KeyError {
        KeyError::Count {
            index: self.index.clone(),
            columns: self.parts.len(),
            found,
        }
    }

    fn wrong(&self, part: &Part, value: &Value<'_>) -> KeyError {
        KeyError::Type {
            index: self.index.clone(),
            column: part.name.clone(),
            expected: part.data_type,
            found: value.to_string(),
        }
    }

    /// The key of values for all columns. None if no row can have them: out of the column's range, or too long.
    pub(crate) fn exact(&self, values: &[Value<'_>]) -> Result<Option<Exact>, KeyError> {
        if values.len() != self.parts.len() {
            return Err(self.count(values.len()));
        }
        if let Some(word) = self.word_of(values) {
            return Ok(Some(Exact {
                words: [word, 0, 0, 0, 0, 0, 0, 0],
                long: None,
            }));
        }
        if !self.possible(values)? {
            return Ok(None);
        }
        let long = || self.write(LongKey::new(), values, &Tail::Nothing);
        Ok(Some(Exact {
            words: self.write(Writer::new(), values, &Tail::Nothing).words(0),
            long: self.cuts.then(long),
        }))
    }

    /// The key of integers in their ranges, if it is of one word.
    #[inline]
    fn word_of(&self, values: &[Value<'_>]) -> Option<u64> {
        let mut word = 0;
        for (piece, value) in self.one_word.as_ref()?.iter().zip(values) {
            match *value {
                Value::Int(value) if (piece.least..=piece.most).contains(&value) => {
                    word |= piece.place(value)
                }
                _ => return None,
            }
        }
        Some(word)
    }

    /// Whether a row can have these values.
    fn possible(&self, values: &[Value<'_>]) -> Result<bool, KeyError> {
        for (part, value) in self.parts.iter().zip(values) {
            if !part.accepts(value) {
                return Err(self.wrong(part, value));
            }
            if !part.holds(value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keys that begin with these values.
    pub(crate) fn prefix(&self, values: &[Value<'_>]) -> Result<KeyRange, KeyError> {
        if values.len() > self.parts.len() {
            return Err(self.count(values.len()));
        }
        if !self.possible(values)? {
            return Ok(NOTHING);
        }
        let edge = |behind| Edge {
            tail: Tail::Nothing,
            behind,
        };
        Ok(self.range(values, &edge(false), &edge(true)))
    }

    /// Keys that begin with `prefix` and whose next column lies between two bounds. A bound on either side leaves NULLs out.
    pub(crate) fn between(
        &self,
        prefix: &[Value<'_>],
        low: Bound<Value<'_>>,
        high: Bound<Value<'_>>,
    ) -> Result<KeyRange, KeyError> {
        let Some(part) = self.parts.get(prefix.len()) else {
            return Err(self.count(prefix.len() + 1));
        };
        if !self.possible(prefix)? {
            return Ok(NOTHING);
        }
        let unbounded = matches!((&low, &high), (Bound::Unbounded, Bound::Unbounded));
        for bound in [&low, &high] {
            let (Bound::Included(value) | Bound::Excluded(value)) = bound else {
                continue;
            };
            if *value == Value::Null {
                return Ok(NOTHING);
            }
            if !part.accepts(value) {
                return Err(self.wrong(part, value));
            }
        }
        let (Some(low), Some(high)) = (part.above(low), part.below(high)) else {
            return Ok(NOTHING);
        };
        let edge = |tail, behind| Edge { tail, behind };
        let low = match low {
            Bound::Unbounded if unbounded => edge(Tail::Nothing, false),
            Bound::Unbounded => edge(Tail::NotNull, false),
            Bound::Included(value) => edge(Tail::Value(value), false),
            Bound::Excluded(value) => edge(Tail::Value(value), true),
        };
        let high = match high {
            Bound::Unbounded => edge(Tail::NotNull, true),
            Bound::Included(value) => edge(Tail::Value(value), true),
            Bound::Excluded(value) => edge(Tail::Value(value), false),
        };
        Ok(self.range(prefix, &low, &high))
    }
}

/// A range without keys.
pub(crate) const NOTHING: KeyRange = KeyRange {
    low: [u64::MAX; WORDS_MAX],
    high: [0; WORDS_MAX],
    long: None,
};

/// The smallest key above, if there is one.
pub(crate) fn next(mut words: Words) -> Option<Words> {
    for word in words.iter_mut().rev() {
        let (sum, carry) = word.overflowing_add(1);
        *word = sum;
        if !carry {
            return Some(words);
        }
    }
    None
}

/// The largest key below, if there is one.
pub(crate) fn previous(mut words: Words) -> Option<Words> {
    for word in words.iter_mut().rev() {
        let (difference, borrow) = word.overflowing_sub(1);
        *word = difference;
        if !borrow {
            return Some(words);
        }
    }
    None
}

/// The number of a bound, if it is one.
fn number(bound: &Bound<Value<'_>>) -> Option<i128> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => value.number(),
        Bound::Unbounded => None,
    }
}

fn push_integer(writer: &mut impl Sink, data_type: Type, value: i64) {
    let flipped = (value as u64) ^ (1 << 63);
    match data_type {
        Type::I8 => writer.push(&[(value as u8) ^ 0x80]),
        Type::I16 => writer.push(&((value as u16) ^ (1 << 15)).to_be_bytes()),
        Type::I32 | Type::Date => writer.push(&((value as u32) ^ (1 << 31)).to_be_bytes()),
        _ => writer.push(&flipped.to_be_bytes()),
    }
}

impl Part {
    /// Whether the value is of the column's type, or NULL.
    fn accepts(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Null => true,
            Value::Bool(_) => self.data_type == Type::Bool,
            Value::Int(_) | Value::Decimal(_) => self.data_type.number_range().is_some(),
            Value::Float(_) => self.data_type.is_float(),
            Value::Text(_) => self.data_type.is_text(),
            Value::Bytes(_) => self.data_type.is_bytes(),
        }
    }

    /// Whether a row can have the value, which it accepts.
    fn holds(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Null => self.nullable,
            Value::Int(_) | Value::Decimal(_) => {
                let range = self.data_type.number_range();
                let within = |((least, most), value)| (least..=most).contains(&value);
                range.zip(value.number()).is_some_and(within)
            }
            Value::Text(text) => text.len() <= self.data_type.bytes_max(),
            Value::Bytes(bytes) => match self.data_type.exact_bytes() {
                Some(exactly) => bytes.len() == exactly,
                None => bytes.len() <= self.data_type.bytes_max(),
            },
            Value::Float(value) => {
                self.data_type == Type::F64 || f64::from(*value as f32).to_bits() == value.to_bits()
            }
            Value::Bool(_) => true,
        }
    }

    /// The same lower bound in values the column can hold. None if no field is above it.
    fn above<'v>(&self, low: Bound<Value<'v>>) -> Option<Bound<Value<'v>>> {
        if let (Some(value), Some((least, most))) = (number(&low), self.data_type.number_range()) {
            return match value {
                value if value < least => Some(Bound::Unbounded),
                value if value > most => None,
                _ => Some(low),
            };
        }
        // A bound that is longer than fields lies just above its beginning, a shorter one below all fields that begin with it.
        Some(match low {
            Bound::Included(value) if self.longer(&value) => Bound::Excluded(value),
            Bound::Excluded(value) if self.shorter(&value) => Bound::Included(value),
            other => other,
        })
    }

    /// The same upper bound in values the column can hold. None if no field is below it.
    fn below<'v>(&self, high: Bound<Value<'v>>) -> Option<Bound<Value<'v>>> {
        if let (Some(value), Some((least, most))) = (number(&high), self.data_type.number_range()) {
            return match value {
                value if value > most => Some(Bound::Unbounded),
                value if value < least => None,
                _ => Some(high),
            };
        }
        Some(match high {
            Bound::Excluded(value) if self.longer(&value) => Bound::Included(value),
            Bound::Included(value) if self.shorter(&value) => Bound::Excluded(value),
            other => other,
        })
    }

    fn longer(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Text(text) => text.len() > self.data_type.bytes_max(),
            Value::Bytes(bytes) => bytes.len() > self.data_type.bytes_max(),
            _ => false,
        }
    }

    fn shorter(&self, value: &Value<'_>) -> bool {
        match (value, self.data_type.exact_bytes()) {
            (Value::Bytes(bytes), Some(exactly)) => bytes.len() < exactly,
            _ => false,
        }
    }

    /// Writes a value it holds.
    fn push(&self, to: &mut impl Sink, value: Value<'_>) {
        let width = self.bytes - usize::from(self.nullable);
        if self.nullable {
            if value == Value::Null {
                to.push(&[0]);
                to.null(width);
                return;
            }
            to.push(&[1]);
        }
        match value {
            Value::Null => to.null(width),
            Value::Bool(value) => to.push(&[u8::from(value)]),
            Value::Int(value) if self.data_type.is_integer() => push_integer(to, self.data_type, value),
            Value::Int(_) | Value::Decimal(_) => {
                let value = value.number().expect("it is one of both");
                match self.data_type.is_wide() {
                    true => to.push(&(value as u128 ^ (1 << 127)).to_be_bytes()),
                    // A value that the column accepts fits.
                    false => push_integer(to, self.data_type, value as i64),
                }
            }
            Value::Float(value) => {
                let bits = value.to_bits();
                let negative = bits >> 63 != 0;
                let ordered = if negative { !bits } else { bits ^ (1 << 63) };
                to.push(&ordered.to_be_bytes());
            }
            Value::Text(text) => self.push_bytes(to, text.as_bytes()),
            Value::Bytes(bytes) => self.push_bytes(to, bytes),
        }
    }

    fn push_bytes(&self, to: &mut impl Sink, bytes: &[u8]) {
        let most = self.data_type.bytes_max();
        let bytes = &bytes[..bytes.len().min(most)];
        match self.data_type {
            Type::Text { max } | Type::Bytes { max } => to.text(bytes, max),
            of => {
                to.push(bytes);
                let filler = if of.is_text() { b' ' } else { 0 };
                to.fill(filler, most - bytes.len());
            }
        }
    }
}
