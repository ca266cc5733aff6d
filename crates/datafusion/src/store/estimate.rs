//! How many rows lie in ranges of an index.
//!
//! The first rows of a range are read, [`PROBE`] at most for all ranges together. If the range ends before, that is the answer.
//! Otherwise its last row is looked up, and the rows between are estimated from how far the rows read have come from the first
//! to the last, in the column behind the values the range fixes:
//!
//! ```text
//!   first ├──── rows read ────┤ so far                                    last
//!         rows of the range  ≈  rows read · (last - first) / (so far - first)
//! ```
//!
//! A range whose rows read do not differ there cannot be estimated, and such an index is not used.

use corun_store::{Direction, Index, KeyRange, Snapshot, Type, Value};

/// Rows read of all ranges of a scan at most, while a statement is planned; about a millisecond.
const PROBE: usize = 4096;
/// Rows read of one range at most, if there are many.
const PROBE_RANGE_MIN: usize = 64;

/// Rows in the ranges, about. `column` is the one behind those that are the same within each range.
pub fn rows(index: &Index, ranges: &[KeyRange], column: Option<usize>, moment: &Snapshot) -> Option<u64> {
    let probe = (PROBE / ranges.len().max(1)).max(PROBE_RANGE_MIN);
    ranges
        .iter()
        .map(|range| rows_of(index, range, column, moment, probe))
        .sum()
}

fn rows_of(
    index: &Index,
    range: &KeyRange,
    column: Option<usize>,
    moment: &Snapshot,
    probe: usize,
) -> Option<u64> {
    let mut scan = moment.scan(index, range, Direction::Ascending).ok()?;
    let Some(first) = scan.next() else {
        return Some(0);
    };
    let (mut read, mut so_far) = (1, first);
    for found in scan.by_ref().take(probe - 1) {
        (read, so_far) = (read + 1, found);
    }
    if read < probe || scan.next().is_none() {
        return Some(read as u64);
    }
    let last = moment.scan(index, range, Direction::Descending).ok()?.next()?;
    let column = column?;
    let [first, so_far, last] = [first, so_far, last].map(|found| found.row.value(column));
    let data_type = index.table().layout().data_type(column);
    let part = part(first, so_far, last, data_type)?;
    Some((read as f64 / part) as u64)
}

/// Where `value` lies between `first` (0) and `last` (1).
fn part(first: Value<'_>, value: Value<'_>, last: Value<'_>, data_type: Type) -> Option<f64> {
    let shared = shared_bytes(first, last);
    let place = |value: Value<'_>| match value {
        Value::Int(value) => Some(value as f64),
        Value::Decimal(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        Value::Text(text) => Some(leading(text.as_bytes(), shared)),
        Value::Bytes(bytes) => Some(leading(bytes, shared)),
        Value::Null => match data_type {
            // NULLs come first; texts begin at 0 anyway.
            of if of.is_text() || of.is_bytes() => Some(0.0),
            _ => None,
        },
        Value::Bool(_) => None,
    };
    let (first, value, last) = (place(first)?, place(value)?, place(last)?);
    let part = (value - first) / (last - first);
    (part.is_finite() && part > 0.0 && part <= 1.0).then_some(part)
}

/// Bytes that two texts begin with alike.
fn shared_bytes(a: Value<'_>, b: Value<'_>) -> usize {
    let bytes = |value| match value {
        Value::Text(text) => str::as_bytes(text),
        Value::Bytes(bytes) => bytes,
        _ => &[],
    };
    let pairs = std::iter::zip(bytes(a), bytes(b));
    pairs.take_while(|(a, b)| a == b).count()
}

/// The eight bytes behind the first `skip` as a number.
fn leading(bytes: &[u8], skip: usize) -> f64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.iter().skip(skip)) {
        *to = *from;
    }
    u64::from_be_bytes(word) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_first_and_the_last() {
        let int = |a: i64, b: i64, c: i64| part(a.into(), b.into(), c.into(), Type::I64);
        assert_eq!(int(10, 15, 30), Some(0.25));
        assert_eq!(int(10, 10, 30), None);
        assert_eq!(int(10, 10, 10), None);
        let text = |a, b, c| {
            part(
                Value::Text(a),
                Value::Text(b),
                Value::Text(c),
                Type::Text { max: 9 },
            )
        };
        assert_eq!(text("key a", "key b", "key e"), Some(0.25));
        assert_eq!(text("key", "key", "key"), None);
        let null = |b: i64| part(Value::Null, b.into(), 9_i64.into(), Type::I64);
        assert_eq!(null(3), None);
    }
}
