//! Fingerprints of query answers that do not depend on row order, batch boundaries or physical types.
//!
//! Each cell becomes canonical text ([`cell_text`]), each row a 64-bit hash of its cells, and the answer the wrapping
//! sum of the row hashes beside the row count: rows may come in any order, but a missing, extra or changed row shows.
//! [`sequence_checksum`] covers what the sum cannot: that the ORDER BY columns come in the right order.
//!
//! Canonical text, so that an `Int32` 5, an `Int64` 5 and a `Decimal` 5.00 agree:
//! - integers: decimal digits; decimals: exact, trailing zeros of the fraction removed;
//! - floats: rounded to 9 significant digits (parallel sums differ in the last bits), whole values without a
//!   fraction, `-0` as `0`, `NaN` as `NaN`;
//! - strings (any Arrow string type) as they are; booleans `true`/`false`; NULL as one zero byte, which no text holds;
//! - everything else as Arrow's display text (dates as `YYYY-MM-DD`).

use arrow::array::{
    Array, AsArray, Decimal128Array, Float32Array, Float64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray,
};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

/// Text of a NULL cell.
pub const NULL_TEXT: &str = "\0";

/// Separates cells within a row; no generated text contains it.
const CELL_END: u8 = 0x1f;

/// What identifies an answer, whatever the order of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Number of rows.
    pub rows: u64,
    /// Wrapping sum of the row hashes.
    pub checksum: u64,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows, checksum {:016x}", self.rows, self.checksum)
    }
}

/// An answer's fingerprint together with the order of its ORDER BY columns: what is recorded in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// The rows, in any order.
    pub answer: Answer,
    /// [`sequence_checksum`] of the ORDER BY columns; 0 where the query has none.
    pub sequence: u64,
}

impl Recorded {
    /// Fingerprint of an answer ordered by the output columns `order_by` (none: no order asked for).
    ///
    /// # Panics
    /// If the answer lacks one of the columns.
    pub fn of(schema: &Schema, batches: &[RecordBatch], order_by: &[&str]) -> Recorded {
        let sequence = match order_by {
            [] => 0,
            columns => sequence_checksum(schema, batches, columns)
                .unwrap_or_else(|| panic!("the answer has no columns {columns:?}")),
        };
        Recorded {
            answer: fingerprint(schema, batches),
            sequence,
        }
    }
}

impl std::fmt::Display for Recorded {
    /// One line of a file of recorded answers: rows, checksum, order.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {:016x} {:016x}",
            self.answer.rows, self.answer.checksum, self.sequence
        )
    }
}

impl std::str::FromStr for Recorded {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let bad = || format!("not a recorded answer: {line:?}");
        let mut words = line.split_whitespace();
        let mut next = || words.next().ok_or_else(bad);
        let rows = next()?.parse().map_err(|_| bad())?;
        let checksum = u64::from_str_radix(next()?, 16).map_err(|_| bad())?;
        let sequence = u64::from_str_radix(next()?, 16).map_err(|_| bad())?;
        Ok(Recorded {
            answer: Answer { rows, checksum },
            sequence,
        })
    }
}

/// Finds `query` in a file of recorded answers: lines of `NAME ROWS CHECKSUM ORDER`, `#` starts a comment.
pub fn find_recorded(file: &str, query: &str) -> Option<Recorded> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == query)
        .and_then(|(_, rest)| rest.parse().ok())
}

/// Fingerprint of an answer: order-insensitive over rows, sensitive to the order of columns.
///
/// # Panics
/// If a batch has another number of columns than `schema`: then the caller mixed up two answers.
pub fn fingerprint(schema: &Schema, batches: &[RecordBatch]) -> Answer {
    let mut answer = Answer { rows: 0, checksum: 0 };
    for batch in batches {
        assert_eq!(
            batch.num_columns(),
            schema.fields().len(),
            "batch and schema of one answer"
        );
        let columns: Vec<usize> = (0..batch.num_columns()).collect();
        for row in 0..batch.num_rows() {
            answer.rows += 1;
            answer.checksum = answer.checksum.wrapping_add(row_hash(batch, &columns, row));
        }
    }
    answer
}

/// Fingerprint of rows already in text form, cells separated by [`row_text`]'s separator: what an oracle produces.
pub fn fingerprint_of_rows(rows: &[String]) -> Answer {
    let checksum = rows.iter().fold(0u64, |sum, row| {
        let mut hash = Hasher::new();
        row.split('|').for_each(|cell| hash.cell(cell));
        sum.wrapping_add(hash.finish())
    });
    Answer {
        rows: rows.len() as u64,
        checksum,
    }
}

/// Checksum of the named columns as a sequence: equal only when their values come in the same order.
///
/// Rows that tie in all ORDER BY columns may come in any order, so name exactly those columns.
/// Returns `None` when the answer lacks one of them.
pub fn sequence_checksum(schema: &Schema, batches: &[RecordBatch], columns: &[&str]) -> Option<u64> {
    let indices: Vec<usize> = columns
        .iter()
        .map(|name| schema.index_of(name).ok())
        .collect::<Option<Vec<_>>>()?;
    let mut sum = 0u64;
    for batch in batches {
        for row in 0..batch.num_rows() {
            sum = mix(sum ^ row_hash(batch, &indices, row));
        }
    }
    Some(sum)
}

/// All rows as text (`a|b|c`), sorted: for messages and for comparing with an oracle.
pub fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> = batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|row| row_text(batch, row)))
        .collect();
    rows.sort_unstable();
    rows
}

/// All rows in the order they come, as the texts of their cells.
pub fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let row = |batch: &RecordBatch, row| {
        let cells = batch.columns().iter();
        cells.map(|column| cell_text(column, row)).collect()
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at)))
        .collect()
}

/// One row as text, cells separated by `|`.
pub fn row_text(batch: &RecordBatch, row: usize) -> String {
    let cells: Vec<String> = batch
        .columns()
        .iter()
        .map(|column| cell_text(column, row))
        .collect();
    cells.join("|")
}

/// Canonical text of one cell; the rules are at the top of this module.
///
/// # Panics
/// If `row` is out of bounds.
pub fn cell_text(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return NULL_TEXT.to_owned();
    }
    let any = column.as_any();
    if let Some(strings) = any.downcast_ref::<StringArray>() {
        return strings.value(row).to_owned();
    }
    if let Some(strings) = any.downcast_ref::<StringViewArray>() {
        return strings.value(row).to_owned();
    }
    if let Some(strings) = any.downcast_ref::<LargeStringArray>() {
        return strings.value(row).to_owned();
    }
    if let Some(floats) = any.downcast_ref::<Float64Array>() {
        return float_text(floats.value(row));
    }
    if let Some(floats) = any.downcast_ref::<Float32Array>() {
        return float_text(f64::from(floats.value(row)));
    }
    if let Some(decimals) = any.downcast_ref::<Decimal128Array>() {
        return trim_fraction(decimals.value_as_string(row));
    }
    match column.data_type() {
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            cell_text(dictionary.values(), dictionary.normalized_keys()[row])
        }
        kind => {
            let text = ArrayFormatter::try_new(column, &FormatOptions::default())
                .map(|formatter| formatter.value(row).to_string())
                .unwrap_or_else(|error| format!("<{kind}: {error}>"));
            if kind.is_decimal() {
                trim_fraction(text)
            } else {
                text
            }
        }
    }
}

/// Removes trailing zeros of a decimal fraction; `-0` becomes `0`.
fn trim_fraction(mut text: String) -> String {
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { "0".to_owned() } else { text }
}

/// Text of a float at 9 significant digits.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() || value == 0.0 {
        return if value == 0.0 {
            "0".to_owned()
        } else {
            value.to_string()
        };
    }
    // Through scientific notation: the only std formatting that rounds to significant digits.
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    rounded.to_string()
}

fn row_hash(batch: &RecordBatch, columns: &[usize], row: usize) -> u64 {
    let mut hash = Hasher::new();
    for &column in columns {
        hash.cell(&cell_text(batch.column(column), row));
    }
    hash.finish()
}

/// FNV-1a over cell texts with a strong finish; recorded in files, so it must never change.
struct Hasher(u64);

impl Hasher {
    fn new() -> Self {
        Hasher(0xcbf2_9ce4_8422_2325)
    }

    fn cell(&mut self, text: &str) {
        for &byte in text.as_bytes().iter().chain(std::iter::once(&CELL_END)) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

/// The finisher of splitmix64: without it the sum of FNV hashes of similar rows could cancel out.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, DictionaryArray, Int32Array, Int64Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
    }

    #[test]
    fn order_batches_and_physical_types_do_not_matter() {
        let one = batch(vec![
            ("k", Arc::new(Int32Array::from(vec![1, 2, 3]))),
            ("s", Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]))),
        ]);
        let other = batch(vec![
            ("k", Arc::new(Int64Array::from(vec![3, 1, 2]))),
            (
                "s",
                Arc::new(StringViewArray::from(vec![Some("c"), Some("a"), None])),
            ),
        ]);
        let expected = fingerprint(&one.schema(), std::slice::from_ref(&one));
        assert_eq!(expected.rows, 3);
        assert_eq!(
            fingerprint(&other.schema(), &[other.slice(0, 1), other.slice(1, 2)]),
            expected
        );
        let rows = sorted_rows(&[one]);
        assert_eq!(rows, ["1|a", "2|\0", "3|c"]);
        assert_eq!(fingerprint_of_rows(&rows), expected);
    }

    #[test]
    fn a_changed_cell_a_moved_cell_and_a_missing_row_show() {
        let make = |k: Vec<i32>, s: Vec<&str>| {
            let b = batch(vec![
                ("k", Arc::new(Int32Array::from(k))),
                ("s", Arc::new(StringArray::from(s))),
            ]);
            fingerprint(&b.schema(), &[b])
        };
        let expected = make(vec![1, 2], vec!["a", "b"]);
        assert_ne!(make(vec![1, 2], vec!["b", "a"]), expected);
        assert_ne!(make(vec![1, 2], vec!["a", "c"]), expected);
        assert_ne!(make(vec![1], vec!["a"]), expected);
        assert_ne!(make(vec![1, 2, 2], vec!["a", "b", "b"]), expected);
    }

    #[test]
    fn sequences_see_the_order() {
        let b = batch(vec![
            ("k", Arc::new(Int32Array::from(vec![1, 1, 2]))),
            ("v", Arc::new(Int32Array::from(vec![7, 8, 9]))),
        ]);
        let turned = |first, second, third| [b.slice(first, 1), b.slice(second, 1), b.slice(third, 1)];
        let schema = b.schema();
        let by_k = sequence_checksum(&schema, &turned(0, 1, 2), &["k"]);
        assert!(by_k.is_some());
        assert_eq!(sequence_checksum(&schema, &turned(1, 0, 2), &["k"]), by_k);
        assert_ne!(sequence_checksum(&schema, &turned(2, 0, 1), &["k"]), by_k);
        assert_ne!(sequence_checksum(&schema, &turned(1, 0, 2), &["k", "v"]), by_k);
        assert_eq!(sequence_checksum(&schema, &turned(0, 1, 2), &["missing"]), None);
    }

    #[test]
    fn recorded_answers_round_trip() {
        let b = batch(vec![("k", Arc::new(Int32Array::from(vec![1, 2])))]);
        let recorded = Recorded::of(&b.schema(), std::slice::from_ref(&b), &["k"]);
        let file = format!("# made by hand\nq1 {recorded}\nq10 0 0 0\n");
        assert_eq!(find_recorded(&file, "q1"), Some(recorded));
        assert_eq!(
            find_recorded(&file, "q10").map(|found| found.answer.rows),
            Some(0)
        );
        assert_eq!(find_recorded(&file, "q2"), None);
        assert!("1 2".parse::<Recorded>().is_err());
        let unordered = Recorded::of(&b.schema(), &[b.slice(1, 1), b.slice(0, 1)], &[]);
        assert_eq!((unordered.answer, unordered.sequence), (recorded.answer, 0));
    }

    #[test]
    fn numbers_have_one_text() {
        let decimals = Decimal128Array::from(vec![1250, 1200, -5, 0])
            .with_precision_and_scale(15, 2)
            .unwrap();
        let texts: Vec<String> = (0..4).map(|row| cell_text(&decimals, row)).collect();
        assert_eq!(texts, ["12.5", "12", "-0.05", "0"]);
        let floats = Float64Array::from(vec![5.0, -0.0, f64::NAN, 0.1 + 0.2, 1e300, f64::NEG_INFINITY]);
        let texts: Vec<String> = (0..4).map(|row| cell_text(&floats, row)).collect();
        assert_eq!(texts, ["5", "0", "NaN", "0.3"]);
        assert_eq!(cell_text(&floats, 5), "-inf");
        assert_eq!(cell_text(&Int32Array::from(vec![-17]), 0), "-17");
        assert_eq!(cell_text(&Date32Array::from(vec![0]), 0), "1970-01-01");
        let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
        assert_eq!(cell_text(&dictionary, 2), "x");
    }
}
