//! [`Keys`]: the keys of a batch, in columns or in records, as hot loops read them.

use std::ops::Range;

use crate::codes::Validity;
use crate::table::hash::Mixer;

/// Rows of a batch with these words and this validity.
///
/// # Panics
/// When there are no words, or lengths differ.
pub(super) fn rows_of(keys: &[&[u64]], valid: Option<Validity<'_>>) -> usize {
    let rows = keys[0].len();
    assert!(
        keys.iter().all(|word| word.len() == rows),
        "key words differ in length"
    );
    assert!(
        valid.is_none_or(|valid| valid.len() == rows),
        "validity and keys differ in length"
    );
    rows
}

/// The keys of consecutive rows.
pub(super) trait Keys {
    /// Words of a key.
    fn words(&self) -> usize;

    /// A word of a row's key.
    fn word(&self, row: usize, word: usize) -> u64;

    /// The hash of a row's key.
    #[inline(always)]
    fn hash(&self, mixer: Mixer, row: usize) -> u64 {
        let first = mixer.mix(self.word(row, 0));
        (1..self.words()).fold(first, |hash, word| mixer.mix(hash ^ self.word(row, word)))
    }

    /// Fills `hashes` with those of the first rows.
    #[inline(always)]
    fn hash_all(&self, mixer: Mixer, hashes: &mut [u64]) {
        for (row, hash) in hashes.iter_mut().enumerate() {
            *hash = self.hash(mixer, row);
        }
    }
}

/// Keys of `WORDS` words, one column each.
pub(super) struct Columns<'a, const WORDS: usize>([&'a [u64]; WORDS]);

impl<'a, const WORDS: usize> Columns<'a, WORDS> {
    /// The keys of `rows`.
    pub(super) fn new(columns: &[&'a [u64]], rows: Range<usize>) -> Self {
        Columns(std::array::from_fn(|word| &columns[word][rows.clone()]))
    }
}

impl<const WORDS: usize> Keys for Columns<'_, WORDS> {
    #[inline(always)]
    fn words(&self) -> usize {
        WORDS
    }

    #[inline(always)]
    fn word(&self, row: usize, word: usize) -> u64 {
        self.0[word][row]
    }
}

/// Keys of any number of words, one column each.
pub(super) struct ManyColumns<'a> {
    pub(super) columns: &'a [&'a [u64]],
    pub(super) first_row: usize,
}

impl Keys for ManyColumns<'_> {
    #[inline(always)]
    fn words(&self) -> usize {
        self.columns.len()
    }

    #[inline(always)]
    fn word(&self, row: usize, word: usize) -> u64 {
        self.columns[word][self.first_row + row]
    }
}

/// The keys of whole records; `WORDS` is 0 where the number of words is known late.
pub(super) struct RecordKeys<'a, const WORDS: usize> {
    pub(super) records: &'a [u64],
    pub(super) record_words: usize,
    pub(super) key_words: usize,
}

impl<const WORDS: usize> Keys for RecordKeys<'_, WORDS> {
    #[inline(always)]
    fn words(&self) -> usize {
        if WORDS == 0 { self.key_words } else { WORDS }
    }

    #[inline(always)]
    fn word(&self, row: usize, word: usize) -> u64 {
        self.records[row * self.record_words + word]
    }
}

/// Fills `hashes` with those of the keys of `records`.
pub(super) fn hash_records(
    mixer: Mixer,
    records: &[u64],
    record_words: usize,
    key_words: usize,
    hashes: &mut [u64],
) {
    if key_words == 1 {
        let keys = RecordKeys::<1> {
            records,
            record_words,
            key_words,
        };
        keys.hash_all(mixer, hashes);
    } else {
        let keys = RecordKeys::<0> {
            records,
            record_words,
            key_words,
        };
        keys.hash_all(mixer, hashes);
    }
}
