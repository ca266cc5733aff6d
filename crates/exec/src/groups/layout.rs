//! [`Layout`]: where a group's record has its key and its states.

use super::fold::combine_rows;

/// How a state is folded from the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The number of rows that count.
    Count,
    /// The number of rows that do not count, which costs nothing where all do.
    Skipped,
    /// A sum of 64-bit integers, wrapping.
    SumI64,
    /// A sum of 64-bit floats, as its bits.
    SumF64,
    /// A sum of 128-bit integers, wrapping; two words.
    SumI128,
    /// The least code; `u64::MAX` where no row counts.
    Min,
    /// The greatest code; 0 where no row counts.
    Max,
    /// The least 128-bit integer, two words; `i128::MAX` where no row counts.
    MinI128,
    /// The greatest 128-bit integer, two words; `i128::MIN` where no row counts.
    MaxI128,
}

impl Fold {
    /// Words of a state. Of two words the first is the low one.
    pub fn words(self) -> usize {
        match self {
            Fold::Count | Fold::Skipped | Fold::SumI64 | Fold::SumF64 | Fold::Min | Fold::Max => 1,
            Fold::SumI128 | Fold::MinI128 | Fold::MaxI128 => 2,
        }
    }

    /// The state of no rows.
    fn initial(self) -> i128 {
        match self {
            Fold::Count | Fold::Skipped | Fold::SumI64 | Fold::SumF64 | Fold::SumI128 | Fold::Max => 0,
            Fold::Min => i128::from(u64::MAX),
            Fold::MinI128 => i128::MAX,
            Fold::MaxI128 => i128::MIN,
        }
    }
}

/// The shape of a record, in words of 64 bits:
///
/// ```text
/// | key word 0 | key word 1 | .. | state of fold 0 (1 or 2 words) | state of fold 1 | .. |
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    key_words: usize,
    folds: Vec<Fold>,
    offsets: Vec<usize>,
    initial: Vec<u64>,
}

impl Layout {
    /// Records of `key_words` words of key and the states of `folds`, which may be none (`DISTINCT`).
    ///
    /// # Panics
    /// When `key_words` is 0.
    pub fn new(key_words: usize, folds: Vec<Fold>) -> Self {
        assert!(key_words > 0, "a key has at least one word");
        let mut initial = vec![0; key_words];
        let mut offsets = Vec::with_capacity(folds.len());
        for &fold in &folds {
            offsets.push(initial.len());
            let state = words_of(fold.initial());
            initial.extend_from_slice(&state[..fold.words()]);
        }
        Layout {
            key_words,
            folds,
            offsets,
            initial,
        }
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.key_words
    }

    /// The folds, in the order of their states.
    pub fn folds(&self) -> &[Fold] {
        &self.folds
    }

    /// Words of a record.
    pub fn record_words(&self) -> usize {
        self.initial.len()
    }

    /// The first word of the state of fold number `fold`.
    ///
    /// # Panics
    /// When there is no such fold.
    pub fn offset(&self, fold: usize) -> usize {
        self.offsets[fold]
    }

    /// A record whose key is zero and whose states are of no rows.
    pub fn initial(&self) -> &[u64] {
        &self.initial
    }

    /// Folds the states of record `from` into those of record `into`, whose key stays. Merges records of the NULL key.
    ///
    /// # Panics
    /// When one of them is not a record of this layout.
    pub fn combine(&self, into: &mut [u64], from: &[u64]) {
        assert_eq!(into.len(), self.record_words());
        assert_eq!(from.len(), self.record_words());
        combine_rows(self, into, &[0], from);
    }
}

/// A 128-bit state as words, the low one first.
#[inline(always)]
pub(super) fn words_of(state: i128) -> [u64; 2] {
    [state as u64, (state >> 64) as u64]
}

/// The 128-bit state of two words.
#[inline(always)]
pub(super) fn state_of(words: [u64; 2]) -> i128 {
    i128::from(words[1] as i64) << 64 | i128::from(words[0])
}
