//! [`merge`]: the second phase, one call a partition.

use std::ops::Range;

use super::fold::combine_rows;
use super::keys::{Keys, RecordKeys, hash_records};
use super::layout::{Fold, Layout, state_of};
use super::partitioned::Partitioned;
use super::table::{Scratch, Table};
use super::{BATCH_ROWS, Options};
use crate::huge::OutOfMemory;
use crate::table::hash::Mixer;

/// How many times the budget of a table that of a merge may be before its records are split. Measured (Zen 4, 1 MiB
/// of L2, 512 KiB budget, 4 M groups), ns a record in the merge: tables of 4 MiB take 15 whole and 25 split, of 9 MiB
/// 20 whole, of 36 MiB 42 whole and 27 split.
const SPLIT_FROM_TABLES: usize = 8;

/// Bits by which records are split.
const SPLIT_BITS: u32 = 6;

/// Bits by which records can be split at all: the others place groups in tables.
const BITS_MAX: u32 = 32;

/// Merges the records of one partition, in chunks of whole records, into groups. Chunks that are owned are freed one
/// by one.
///
/// Records of several partitions, or of several [`LocalGroups`](super::LocalGroups), may come in one call, as long as
/// layout and seed are the same.
///
/// Where the groups are far more than `options.table_bytes` holds, the records are split once more by further bits of
/// the hash, and again, up to 32 bits; keys that share all those are merged in one table, however large.
///
/// # Errors
/// [`OutOfMemory`].
///
/// # Panics
/// When the words of a chunk are not whole records, or `options` ask for more than 8 bits of partitions.
pub fn merge<C: AsRef<[u64]>>(
    layout: &Layout,
    chunks: impl IntoIterator<Item = C>,
    options: &Options,
) -> Result<Groups, OutOfMemory> {
    assert!(options.partition_bits <= 8, "at most 256 partitions");
    let mixer = Mixer::new(options.seed, 0);
    let near_capacity = options.groups_of(layout, options.table_bytes);
    let mut merger = Merger {
        layout,
        mixer,
        near_capacity,
        table: Table::new(layout.clone(), mixer, usize::MAX)?,
        scratch: Scratch::new()?,
        pending: Vec::new(),
        splits: 0,
    };
    merger.table.begin(options.partition_bits)?;
    merger.merge(chunks, options.partition_bits)?;
    while let Some(part) = merger.pending.pop() {
        merger.table.begin(part.first_bit)?;
        merger.merge(part.chunks, part.first_bit)?;
    }
    Ok(Groups {
        layout: layout.clone(),
        records: merger.table.into_records(),
        splits: merger.splits,
    })
}

/// Records that were split off and are still to be merged.
struct Part {
    chunks: Vec<Vec<u64>>,
    /// Bits of the hash that they share.
    first_bit: u32,
}

struct Merger<'a> {
    layout: &'a Layout,
    mixer: Mixer,
    near_capacity: usize,
    table: Table,
    scratch: Scratch,
    pending: Vec<Part>,
    splits: usize,
}

impl Merger<'_> {
    /// Merges chunks whose hashes share `first_bit` bits into the table, which is empty, or splits them.
    fn merge<C: AsRef<[u64]>>(
        &mut self,
        chunks: impl IntoIterator<Item = C>,
        first_bit: u32,
    ) -> Result<(), OutOfMemory> {
        let record_words = self.layout.record_words();
        let mut split: Option<Partitioned> = None;
        for chunk in chunks {
            let records = chunk.as_ref();
            assert!(
                records.len().is_multiple_of(record_words),
                "a chunk ends inside a record"
            );
            for mut batch in records.chunks(BATCH_ROWS * record_words) {
                if split.is_none() {
                    batch = &batch[self.merge_batch(batch, first_bit)? * record_words..];
                }
                if batch.is_empty() {
                    continue;
                }
                if split.is_none() {
                    split = Some(self.split_table(first_bit)?);
                }
                if let Some(split) = &mut split {
                    scatter(self.layout, self.mixer, batch, &mut self.scratch, split)?;
                }
            }
        }
        let Some(mut split) = split else { return Ok(()) };
        self.splits += 1;
        let failed = |_| OutOfMemory {
            bytes: split.partitions() * size_of::<Part>(),
        };
        self.pending.try_reserve(split.partitions()).map_err(failed)?;
        for partition in 0..split.partitions() {
            let chunks = split.take(partition);
            if !chunks.is_empty() {
                let first_bit = first_bit + SPLIT_BITS;
                self.pending.push(Part { chunks, first_bit });
            }
        }
        Ok(())
    }

    /// Merges records into the table. Returns how many; it is less than all when the table has become too large.
    fn merge_batch(&mut self, batch: &[u64], first_bit: u32) -> Result<usize, OutOfMemory> {
        let record_words = self.layout.record_words();
        let records = batch.len() / record_words;
        let mut end = self.find(batch, 0);
        while end < records {
            let far = self.table.capacity() >= SPLIT_FROM_TABLES * self.near_capacity;
            if far && first_bit + SPLIT_BITS <= BITS_MAX {
                break;
            }
            self.table.grow(usize::MAX)?;
            end = self.find(batch, end);
        }
        combine_rows(
            self.layout,
            self.table.positions_mut(),
            &self.scratch.positions[..end],
            &batch[..end * record_words],
        );
        Ok(end)
    }

    fn find(&mut self, records: &[u64], first: usize) -> usize {
        let (record_words, key_words) = (self.layout.record_words(), self.layout.key_words());
        if key_words == 1 {
            let keys = RecordKeys::<1> {
                records,
                record_words,
                key_words,
            };
            self.find_keys(&keys, records.len() / record_words, first)
        } else {
            let keys = RecordKeys::<0> {
                records,
                record_words,
                key_words,
            };
            self.find_keys(&keys, records.len() / record_words, first)
        }
    }

    fn find_keys(&mut self, keys: &impl Keys, records: usize, first: usize) -> usize {
        let positions = &mut self.scratch.positions[..records];
        if self.table.capacity() > self.near_capacity {
            self.table.find::<true>(keys, None, first, positions)
        } else {
            self.table.find::<false>(keys, None, first, positions)
        }
    }

    /// Scatters the groups of the table by further bits.
    fn split_table(&mut self, first_bit: u32) -> Result<Partitioned, OutOfMemory> {
        let mut split = Partitioned::new(self.layout, first_bit, SPLIT_BITS)?;
        for batch in self
            .table
            .groups()
            .chunks(BATCH_ROWS * self.layout.record_words())
        {
            scatter(self.layout, self.mixer, batch, &mut self.scratch, &mut split)?;
        }
        self.table.clear();
        Ok(split)
    }
}

/// Upper bound of the bytes that [`merge`] takes for so many records, those included: all may be groups, in a table that
/// has just grown.
pub fn merge_bytes_max(layout: &Layout, records: usize) -> usize {
    let record = layout.record_words() * size_of::<u64>();
    records.saturating_mul(4 * record + 24)
}

fn scatter(
    layout: &Layout,
    mixer: Mixer,
    batch: &[u64],
    scratch: &mut Scratch,
    into: &mut Partitioned,
) -> Result<(), OutOfMemory> {
    let (record_words, key_words) = (layout.record_words(), layout.key_words());
    let hashes = &mut scratch.hashes[..batch.len() / record_words];
    hash_records(mixer, batch, record_words, key_words, hashes);
    into.scatter(batch, hashes)
}

/// The groups of a partition, each once, in no particular order.
#[derive(Debug)]
pub struct Groups {
    layout: Layout,
    /// The first record is no group.
    records: Vec<u64>,
    splits: usize,
}

impl Groups {
    /// Groups.
    pub fn len(&self) -> usize {
        self.records.len() / self.layout.record_words() - 1
    }

    /// No groups?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        self.records.capacity() * 8
    }

    /// How many times records were split by further bits of their hashes.
    pub fn splits(&self) -> usize {
        self.splits
    }

    /// The records of groups, whole and one after another.
    ///
    /// # Panics
    /// When the range ends after the last group.
    pub fn records(&self, groups: Range<usize>) -> &[u64] {
        let record_words = self.layout.record_words();
        assert!(groups.end <= self.len(), "no such group");
        &self.records[(groups.start + 1) * record_words..(groups.end + 1) * record_words]
    }

    /// A word of the keys of groups.
    ///
    /// # Panics
    /// When there is no such word or group.
    pub fn key_word(&self, word: usize, groups: Range<usize>) -> impl ExactSizeIterator<Item = u64> {
        assert!(word < self.layout.key_words(), "no such key word");
        let records = self.records(groups);
        records
            .chunks_exact(self.layout.record_words())
            .map(move |record| record[word])
    }

    /// The states of fold number `fold` of groups.
    ///
    /// # Panics
    /// When there is no such fold or group, or its states have two words.
    pub fn state(&self, fold: usize, groups: Range<usize>) -> impl ExactSizeIterator<Item = u64> {
        let offset = self.offset(fold, 1);
        let records = self.records(groups);
        records
            .chunks_exact(self.layout.record_words())
            .map(move |record| record[offset])
    }

    /// The states of fold number `fold` of groups, where they have two words.
    ///
    /// # Panics
    /// When there is no such fold or group, or its states have one word.
    pub fn state_i128(&self, fold: usize, groups: Range<usize>) -> impl ExactSizeIterator<Item = i128> {
        let offset = self.offset(fold, 2);
        let records = self.records(groups);
        records
            .chunks_exact(self.layout.record_words())
            .map(move |record| state_of([record[offset], record[offset + 1]]))
    }

    fn offset(&self, number: usize, words: usize) -> usize {
        let fold: Fold = self.layout.folds()[number];
        assert_eq!(fold.words(), words, "words of the state of {fold:?}");
        self.layout.offset(number)
    }
}
