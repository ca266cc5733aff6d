//! Answers of the suite `memory-latency`: counts and order-independent checksums, by tuple, so that any range of a probe stream can be
//! checked without running it again.
//!
//! [`Expected`] is filled by the oracles in [`super::data`], which know nothing of operators. [`of_rows`], [`of_pairs`] and
//! [`of_columns`] read what operators wrote.

use std::fmt;
use std::ops::Range;

use corun_exec::operators::{OutputRow, RidPair, Row};

use corun_workloads::numbers::mix;

/// How many results, and a sum over them that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Results.
    pub rows: u64,
    /// Wrapping sum of a hash of each.
    pub checksum: u64,
}

impl Answer {
    /// One result.
    pub fn one(checksum: u64) -> Answer {
        Answer { rows: 1, checksum }
    }

    /// Both together.
    pub fn and(self, other: Answer) -> Answer {
        Answer {
            rows: self.rows + other.rows,
            checksum: self.checksum.wrapping_add(other.checksum),
        }
    }

    /// All together.
    pub fn sum(answers: impl IntoIterator<Item = Answer>) -> Answer {
        answers.into_iter().fold(Answer::default(), Answer::and)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, checksum {:016x}", self.rows, self.checksum)
    }
}

/// The right answer of every prefix of a probe stream.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Element `n` is the answer of the first `n` tuples.
    prefixes: Vec<Answer>,
}

impl Expected {
    /// From each tuple's own results.
    pub fn new(tuples: usize, mut results: impl FnMut(usize) -> Answer) -> Expected {
        let mut prefixes = Vec::with_capacity(tuples + 1);
        let mut total = Answer::default();
        prefixes.push(total);
        for tuple in 0..tuples {
            total = total.and(results(tuple));
            prefixes.push(total);
        }
        Expected { prefixes }
    }

    /// Tuples of the stream.
    pub fn tuples(&self) -> usize {
        self.prefixes.len() - 1
    }

    /// The answer of these tuples.
    ///
    /// # Panics
    /// If the range is not within the stream.
    pub fn of(&self, tuples: Range<usize>) -> Answer {
        let (before, after) = (self.prefixes[tuples.start], self.prefixes[tuples.end]);
        Answer {
            rows: after.rows - before.rows,
            checksum: after.checksum.wrapping_sub(before.checksum),
        }
    }
}

/// The hash of one row, over all its 64 bytes.
fn row_hash(row: &Row) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    row.payload.chunks(3).fold(u64::from(row.key), |hash, words| {
        words.iter().fold(hash, |hash, &word| step(hash, u64::from(word)))
    })
}

/// The hash of a joined record.
pub fn joined(left: &Row, right: &Row) -> u64 {
    mix(row_hash(left).wrapping_mul(3) ^ row_hash(right))
}

/// The hash of a pair of RIDs.
pub fn paired(pair: RidPair) -> u64 {
    mix(u64::from(pair.outer) << 32 | u64::from(pair.inner))
}

/// The hash of a column-wise record.
pub fn columnar(record: [u32; 5]) -> u64 {
    let [key, a, b, c, d] = record.map(u64::from);
    mix(mix(mix(key << 32 | a) ^ (b << 32 | c)) ^ d)
}

/// What row-wise results come to.
pub fn of_rows(rows: &[OutputRow]) -> Answer {
    Answer::sum(rows.iter().map(|row| Answer::one(joined(&row.left, &row.right))))
}

/// What pairs come to.
pub fn of_pairs(pairs: &[RidPair]) -> Answer {
    Answer::sum(pairs.iter().map(|&pair| Answer::one(paired(pair))))
}

/// What column-wise results come to.
///
/// # Panics
/// If the columns differ in length.
pub fn of_columns(columns: [&[u32]; 5]) -> Answer {
    let rows = columns[0].len();
    Answer::sum((0..rows).map(|row| Answer::one(columnar(columns.map(|column| column[row])))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_stream_add_up() {
        let expected = Expected::new(10, |tuple| Answer {
            rows: tuple as u64 % 3,
            checksum: mix(tuple as u64),
        });
        assert_eq!(expected.tuples(), 10);
        let whole = expected.of(0..10);
        assert_eq!(expected.of(0..4).and(expected.of(4..10)), whole);
        assert_eq!(expected.of(5..5), Answer::default());
    }

    #[test]
    fn a_changed_word_changes_the_answer_and_order_does_not() {
        let row = |key| Row {
            key,
            payload: std::array::from_fn(|at| key * 100 + at as u32),
        };
        let rows = [1, 2, 3].map(|key| OutputRow {
            left: row(key),
            right: row(key + 7),
        });
        let answer = of_rows(&rows);
        assert_eq!(of_rows(&[rows[2], rows[0], rows[1]]), answer);
        for word in 0..15 {
            let mut wrong = rows;
            wrong[1].right.payload[word] ^= 1;
            assert_ne!(of_rows(&wrong), answer, "word {word}");
        }
        let mut swapped = rows;
        std::mem::swap(&mut swapped[0].left, &mut swapped[0].right);
        assert_ne!(of_rows(&swapped), answer);
    }
}
