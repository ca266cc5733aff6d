//! [`Table`]: open addressing from keys to records that lie one after another.
//!
//! ```text
//! slots    | tag, position | tag, position | 0 (empty) | .. |  buckets of 4 slots of 32 bits, a third taken at most
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
use crate::huge::{HugeBuf, OutOfMemory, bytes_of};
use crate::prefetch::prefetch_far;
use crate::table::hash::Mixer;

/// Groups a new table has room for.
pub(super) const FIRST_CAPACITY: usize = 128;

/// Most groups of a table: slots are numbered by 32 bits.
pub(super) const CAPACITY_MAX: usize = 1 << 30;

/// How many rows ahead a bucket of a large table is asked for. Unmeasured.
const AHEAD_ROWS: usize = 16;

/// Slots of a bucket, a quarter of a line: they are compared at once, so that no branch tells which of them has the
/// key.
const BUCKET_SLOTS: usize = 4;

/// Bytes of slots a group is given.
pub(super) const SLOT_BYTES: usize = 12;

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
            slots: HugeBuf::zeroed(slots_of(capacity))?,
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

    /// Upper bound of the bytes that it takes to grow a table to so many groups.
    pub(super) fn bytes_of(layout: &Layout, capacity: usize) -> usize {
        // Records are moved when they grow, so that they are there twice for a moment.
        let records = (capacity + 1).saturating_mul(2 * layout.record_words() * 8);
        bytes_of::<u32>(slots_of(capacity)).saturating_add(records)
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

    /// Begins an empty table after the records there are, for keys that share the `first_bit` highest bits of their
    /// hash.
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
        self.slots = HugeBuf::zeroed(slots_of(capacity))?;
        self.capacity = capacity;
        self.tag_mask = tag_mask(capacity);
        let words = (capacity - self.groups) * self.layout.record_words();
        self.records
            .try_reserve_exact(words)
            .map_err(|_| OutOfMemory { bytes: words * 8 })?;

        let (key_words, record_words) = (self.layout.key_words(), self.layout.record_words());
        let mut hashes = [0; 64];
        let mut position = 0;
        let groups = &self.records[(self.base + 1) * record_words..];
        for batch in groups.chunks(hashes.len() * record_words) {
            let hashes = &mut hashes[..batch.len() / record_words];
            hash_records(self.mixer, batch, record_words, key_words, hashes);
            for &hash in &*hashes {
                let mut number = bucket_of(hash, self.first_bit, self.slots.len());
                let slot = loop {
                    let empty = candidates(&self.buckets()[number], u32::MAX, 0);
                    if empty != 0 {
                        break number * BUCKET_SLOTS + empty.trailing_zeros() as usize;
                    }
                    number = next(number, self.buckets().len());
                };
                position += 1;
                self.slots[slot] = hash as u32 & self.tag_mask | position;
            }
        }
        Ok(())
    }

    /// Writes the positions of the groups of the rows from `first` to the length of `positions`, new groups with
    /// states of no rows among them, and 0 for rows whose key is NULL. Returns the row for whose new group there was
    /// no room, or the number of rows.
    ///
    /// `FAR`: the table is larger than the private caches.
    #[inline(always)]
    pub(super) fn find<const FAR: bool>(
        &mut self,
        keys: &impl Keys,
        nulls: Option<NullKeys<'_>>,
        first: usize,
        positions: &mut [u32],
    ) -> usize {
        self.guess::<FAR>(keys, first, positions);
        if let Some(nulls) = nulls {
            for (row, position) in positions.iter_mut().enumerate().skip(first) {
                if nulls.is_null(row) {
                    *position = 0;
                }
            }
        }
        for start in (first..positions.len()).step_by(64) {
            let end = positions.len().min(start + 64);
            let mut missing = self.compare(keys, start, &positions[start..end]);
            while missing != 0 {
                let row = start + missing.trailing_zeros() as usize;
                missing &= missing - 1;
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                let Some(position) = self.find_or_insert(keys, row) else {
                    return row;
                };
                positions[row] = position;
            }
        }
        positions.len()
    }

    /// Writes the only positions, nearly always, where the groups can be, and asks for their records: no branch and
    /// no read depends on a record here, so that those of many rows come at once.
    #[inline(always)]
    fn guess<const FAR: bool>(&self, keys: &impl Keys, first: usize, positions: &mut [u32]) {
        let (tag_mask, first_bit, slots) = (self.tag_mask, self.first_bit, self.slots.len());
        let record_words = self.layout.record_words();
        let records = self.records.as_ptr().wrapping_add(self.base * record_words);
        let buckets = self.buckets();
        let rows = positions.len();
        for (row, place) in positions.iter_mut().enumerate().skip(first) {
            if FAR && row + AHEAD_ROWS < rows {
                let hash = keys.hash(self.mixer, row + AHEAD_ROWS);
                prefetch_far(&buckets[bucket_of(hash, first_bit, slots)]);
            }
            let hash = keys.hash(self.mixer, row);
            let bucket = &buckets[bucket_of(hash, first_bit, slots)];
            let candidates = candidates(bucket, tag_mask, hash as u32 & tag_mask);
            let position = bucket[candidates.trailing_zeros() as usize % BUCKET_SLOTS] & !tag_mask;
            *place = position;
            if FAR {
                prefetch_far(records.wrapping_add(position as usize * record_words));
            }
        }
    }

    /// Which of at most 64 rows, a bit each, have a key that is not that of the record at their position, or position
    /// 0. There is no branch for each, as nobody can tell which rows have new groups.
    #[inline(always)]
    fn compare(&self, keys: &impl Keys, first: usize, positions: &[u32]) -> u64 {
        let record_words = self.layout.record_words();
        let records = &self.records[self.base * record_words..];
        let mut missing = 0;
        for (number, &position) in positions.iter().enumerate() {
            let (record, row) = (position as usize * record_words, first + number);
            let differing = (0..keys.words()).fold(0, |bits, word| {
                bits | records[record + word] ^ keys.word(row, word)
            });
            missing |= u64::from(differing != 0 || position == 0) << number;
        }
        missing
    }

    /// The position of the group of a row, a new one if need be; `None` if there is no room for it.
    #[inline(never)]
    pub(super) fn find_or_insert(&mut self, keys: &impl Keys, row: usize) -> Option<u32> {
        let hash = keys.hash(self.mixer, row);
        let record_words = self.layout.record_words();
        let tag = hash as u32 & self.tag_mask;
        let mut number = bucket_of(hash, self.first_bit, self.slots.len());
        loop {
            let bucket = &self.buckets()[number];
            let mut alike = candidates(bucket, self.tag_mask, tag);
            while alike != 0 {
                let position = bucket[alike.trailing_zeros() as usize % BUCKET_SLOTS] & !self.tag_mask;
                let record = (self.base + position as usize) * record_words;
                let key = &self.records[record..record + keys.words()];
                // An empty slot is like one of tag 0.
                if (0..keys.words()).all(|word| key[word] == keys.word(row, word)) && position != 0 {
                    return Some(position);
                }
                alike &= alike - 1;
            }
            let empty = candidates(bucket, u32::MAX, 0);
            if empty != 0 {
                if self.groups == self.capacity {
                    return None;
                }
                self.append(keys, row);
                self.groups += 1;
                let position = self.groups as u32;
                self.slots[number * BUCKET_SLOTS + empty.trailing_zeros() as usize] = tag | position;
                return Some(position);
            }
            number = next(number, self.buckets().len());
        }
    }

    #[inline(always)]
    fn buckets(&self) -> &[[u32; BUCKET_SLOTS]] {
        self.slots.as_chunks().0
    }

    #[inline(always)]
    fn append(&mut self, keys: &impl Keys, row: usize) {
        let key = (0..keys.words()).map(|word| keys.word(row, word));
        let states = self.layout.initial()[keys.words()..].iter().copied();
        self.records.extend(key.chain(states));
    }
}

/// Which slots of a bucket have a tag, a bit each, without a branch.
#[inline(always)]
fn candidates(bucket: &[u32; BUCKET_SLOTS], tag_mask: u32, tag: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a bucket is the 16 bytes that are read; SSE2 is part of x86-64.
    unsafe {
        use core::arch::x86_64::*;
        let entries = _mm_loadu_si128(bucket.as_ptr().cast());
        let tags = _mm_and_si128(entries, _mm_set1_epi32(tag_mask as i32));
        let equal = _mm_cmpeq_epi32(tags, _mm_set1_epi32(tag as i32));
        _mm_movemask_ps(_mm_castsi128_ps(equal)) as u32
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let tags = bucket.iter().enumerate();
        tags.fold(0, |bits, (slot, entry)| {
            bits | u32::from(entry & tag_mask == tag) << slot
        })
    }
}

/// Slots for so many groups, in whole buckets. Of those of full tables 1 % of the keys are not in the bucket where
/// they are looked for first; with two slots a group it is 4 %, and 100 groups take 0.8 ns a row more.
fn slots_of(capacity: usize) -> usize {
    (3 * capacity).next_multiple_of(BUCKET_SLOTS)
}

/// The bits of a slot that positions up to `capacity` leave.
fn tag_mask(capacity: usize) -> u32 {
    u32::MAX
        .checked_shl(usize::BITS - capacity.leading_zeros())
        .unwrap_or(0)
}

/// The bucket that a hash is looked for in first.
#[inline(always)]
fn bucket_of(hash: u64, first_bit: u32, slots: usize) -> usize {
    let high = hash << first_bit >> 32;
    ((high * slots as u64) >> 32) as usize / BUCKET_SLOTS
}

/// The bucket after `bucket`.
#[inline(always)]
fn next(bucket: usize, buckets: usize) -> usize {
    if bucket + 1 == buckets { 0 } else { bucket + 1 }
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
