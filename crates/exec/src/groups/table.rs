//! [`Table`]: open addressing from keys to records that lie one after another.
//!
//! ```text
//! slots    | tag, position | 0 (empty) | tag, position | ..     32 bits each, at most half of them taken
//! records  | before .. | base: no group | position 1 | position 2 | ..
//! ```
//!
//! A slot has the low bits of its key's hash beside the position, so that a record's line is touched only when its key
//! is nearly surely the one that is looked for. No position is 0, so an empty slot needs no value of the key. Records
//! in the slots themselves were rejected: they would be spread over twice the memory, and would move when it grows.

use super::keys::{Keys, hash_records};
use super::layout::Layout;
use super::{BATCH_ROWS, try_zeroed};
use crate::codes::Validity;
use crate::huge::{HugeBuf, OutOfMemory};
use crate::prefetch::prefetch_read;
use crate::table::hash::Mixer;

/// Groups a new table has room for.
const FIRST_CAPACITY: usize = 128;

/// Most groups of a table: slots are numbered by 32 bits.
pub(super) const CAPACITY_MAX: usize = (1 << 31) - 1;

/// How many rows ahead a record is asked for, and again how many more its slot. Unmeasured.
const AHEAD_ROWS: usize = 12;

/// Bytes of slots a group is given.
pub(super) const SLOT_BYTES: usize = 8;

/// Groups by key.
#[derive(Debug)]
pub(super) struct Table {
    layout: Layout,
    mixer: Mixer,
    /// Bits of the hash that all keys of the table share, the highest ones.
    first_bit: u32,
    slots: HugeBuf<u32>,
    capacity: usize,
    /// Which bits of a slot are the tag.
    tag_mask: u32,
    records: Vec<u64>,
    /// The record before the first one of the table.
    base: usize,
    groups: usize,
}

/// Where batches look for NULL keys: row `first_row` of the bitmap is the batch's first.
#[derive(Clone, Copy)]
pub(super) struct NullKeys<'a> {
    pub(super) valid: Validity<'a>,
    pub(super) first_row: usize,
}

impl NullKeys<'_> {
    #[inline(always)]
    pub(super) fn is_null(&self, row: usize) -> bool {
        !self.valid.is_valid(self.first_row + row)
    }
}

impl Table {
    /// An empty table for at least one group.
    pub(super) fn new(layout: Layout, mixer: Mixer, capacity: usize) -> Result<Self, OutOfMemory> {
        let capacity = capacity.clamp(1, FIRST_CAPACITY);
        let mut table = Table {
            mixer,
            first_bit: 0,
            slots: HugeBuf::zeroed(2 * capacity)?,
            capacity,
            tag_mask: tag_mask(capacity),
            records: Vec::new(),
            base: 0,
            groups: 0,
            layout,
        };
        table.reserve(capacity + 1)?;
        table.records.extend_from_slice(table.layout.initial());
        Ok(table)
    }

    fn reserve(&mut self, records: usize) -> Result<(), OutOfMemory> {
        let words = records.saturating_mul(self.layout.record_words());
        self.records.try_reserve(words).map_err(|_| OutOfMemory {
            bytes: words.saturating_mul(8),
        })
    }

    /// Groups in the table.
    pub(super) fn len(&self) -> usize {
        self.groups
    }

    /// Groups there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allocated bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.records.capacity() * 8
    }

    /// The records of the groups.
    pub(super) fn groups(&self) -> &[u64] {
        &self.records[(self.base + 1) * self.layout.record_words()..]
    }

    /// The record at position 0 and those of the groups.
    pub(super) fn positions_mut(&mut self) -> &mut [u64] {
        &mut self.records[self.base * self.layout.record_words()..]
    }

    /// All records from the very first, which is no group.
    pub(super) fn into_records(self) -> Vec<u64> {
        self.records
    }

    /// Removes the groups.
    pub(super) fn clear(&mut self) {
        self.records
            .truncate((self.base + 1) * self.layout.record_words());
        self.groups = 0;
        self.slots.fill(0);
    }

    /// Begins an empty table after the records there are, for keys that share the `first_bit` highest bits of their hash.
    pub(super) fn begin(&mut self, first_bit: u32) -> Result<(), OutOfMemory> {
        self.first_bit = first_bit;
        self.base += self.groups;
        self.groups = 0;
        self.slots.fill(0);
        self.reserve(self.capacity)
    }

    /// Makes room for twice as many groups, at most `capacity_max`.
    pub(super) fn grow(&mut self, capacity_max: usize) -> Result<(), OutOfMemory> {
        let capacity = (self.capacity * 2).min(capacity_max);
        if capacity > CAPACITY_MAX {
            return Err(OutOfMemory { bytes: usize::MAX });
        }
        self.slots = HugeBuf::zeroed(2 * capacity)?;
        self.capacity = capacity;
        self.tag_mask = tag_mask(capacity);
        self.reserve(capacity - self.len())?;

        let (key_words, record_words) = (self.layout.key_words(), self.layout.record_words());
        let mut hashes = [0; 64];
        let mut position = 0;
        let groups = &self.records[(self.base + 1) * record_words..];
        for batch in groups.chunks(hashes.len() * record_words) {
            let hashes = &mut hashes[..batch.len() / record_words];
            hash_records(self.mixer, batch, record_words, key_words, hashes);
            for &hash in &*hashes {
                let mut slot = slot_of(hash, self.first_bit, self.slots.len());
                while self.slots[slot] != 0 {
                    slot = next(slot, self.slots.len());
                }
                position += 1;
                self.slots[slot] = hash as u32 & self.tag_mask | position;
            }
        }
        Ok(())
    }

    /// Writes the positions of the groups of the rows from `first` on, new groups with states of no rows among them, and 0 for
    /// rows whose key is NULL. Returns the row for whose new group there was no room, or the number of rows.
    ///
    /// `FAR`: the table is larger than the private caches.
    #[inline(always)]
    pub(super) fn find<const FAR: bool>(
        &mut self,
        keys: &impl Keys,
        hashes: &[u64],
        nulls: Option<NullKeys<'_>>,
        first: usize,
        positions: &mut [u32],
    ) -> usize {
        let record_words = self.layout.record_words();
        let positions = &mut positions[..hashes.len()];
        for row in first..hashes.len() {
            if FAR {
                self.ask_ahead(hashes, row);
            }
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                positions[row] = 0;
                continue;
            }
            let hash = hashes[row];
            let mut slot = slot_of(hash, self.first_bit, self.slots.len());
            positions[row] = loop {
                let entry = self.slots[slot];
                if (entry ^ hash as u32) & self.tag_mask == 0 && entry != 0 {
                    let position = entry & !self.tag_mask;
                    let record = (self.base + position as usize) * record_words;
                    let key = &self.records[record..record + keys.words()];
                    if (0..keys.words()).all(|word| key[word] == keys.word(row, word)) {
                        break position;
                    }
                }
                if entry == 0 {
                    if self.groups == self.capacity {
                        return row;
                    }
                    self.append(keys, row);
                    self.groups += 1;
                    self.slots[slot] = hash as u32 & self.tag_mask | self.groups as u32;
                    break self.groups as u32;
                }
                slot = next(slot, self.slots.len());
            };
        }
        hashes.len()
    }

    #[inline(always)]
    fn append(&mut self, keys: &impl Keys, row: usize) {
        let record = self.records.len();
        self.records.extend_from_slice(self.layout.initial());
        for word in 0..keys.words() {
            self.records[record + word] = keys.word(row, word);
        }
    }

    /// Asks for what later rows of the batch will read.
    #[inline(always)]
    fn ask_ahead(&self, hashes: &[u64], row: usize) {
        if let Some(&hash) = hashes.get(row + 2 * AHEAD_ROWS) {
            prefetch_read(&self.slots[slot_of(hash, self.first_bit, self.slots.len())]);
        }
        if let Some(&hash) = hashes.get(row + AHEAD_ROWS) {
            let entry = self.slots[slot_of(hash, self.first_bit, self.slots.len())];
            let position = (entry & !self.tag_mask) as usize;
            prefetch_read(
                self.records
                    .as_ptr()
                    .wrapping_add((self.base + position) * self.layout.record_words()),
            );
        }
    }
}

/// The bits of a slot that positions up to `capacity` leave.
fn tag_mask(capacity: usize) -> u32 {
    u32::MAX
        .checked_shl(usize::BITS - capacity.leading_zeros())
        .unwrap_or(0)
}

/// Where a hash is looked for first.
#[inline(always)]
fn slot_of(hash: u64, first_bit: u32, slots: usize) -> usize {
    let high = hash << first_bit >> 32;
    ((high * slots as u64) >> 32) as usize
}

/// The slot after `slot`.
#[inline(always)]
fn next(slot: usize, slots: usize) -> usize {
    if slot + 1 == slots { 0 } else { slot + 1 }
}

/// What batches need beside a table.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) hashes: Vec<u64>,
    pub(super) positions: Vec<u32>,
}

impl Scratch {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Scratch {
            hashes: try_zeroed(BATCH_ROWS)?,
            positions: try_zeroed(BATCH_ROWS)?,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.hashes.capacity() * 8 + self.positions.capacity() * 4
    }
}
