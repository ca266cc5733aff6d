//! What the table's memory looks like: [`Line64`], [`Line32`] and the encoding of values.
//!
//! ```text
//! Line64, one cache line:   key 0 | key 1 | key 2 | key 3 | key 4 | value 0..4 (u32 each) | passed (u32)
//!                           0       8       16      24      32      40                      60         64
//! Line32, one cache line:   key 0..6 (u32 each) | unused (u32) | value 0..6 (u32 each) | passed (u32)
//!                           0                     28             32                      60             64
//! value:    0                    no such key
//!           1 ..= 2^31 - 1       row + 1: the key's only row
//!           2^31 | offset        the key has several rows: duplicates[offset] = count, followed by that many rows
//! ```
//!
//! Slots of a line fill from the left; a value of 0 means free. A key whose line is full goes to the next line of its
//! partition, and sets one of 32 bits (chosen by its mixed code) in `passed` of every full line it passes. So a probe
//! reads a second line only if its key, or one that shares its bit, really went on: a miss nearly always costs one
//! line. A stored count of overflows, as other tables have, was rejected because every miss on an overflown line would
//! then read on. Keys, values and the way on being in one line follows Ross (ICDE 2007, bucketised probing in SIMD
//! registers); the bit filter is the idea of tags in a bucket's header.

use std::mem::offset_of;

use crate::huge::Plain;

/// Set in a value that names several rows.
pub(crate) const SEVERAL: u32 = 1 << 31;

/// Elements after the last duplicate list that may be read (not used), so that lists are copied in pieces of this many.
pub(crate) const LIST_PIECE: usize = 8;

/// The largest row number that can be stored: `row + 1` must stay below [`SEVERAL`].
pub(crate) const ROW_MAX: u32 = SEVERAL - 2;

/// Five 64-bit keys.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Line64 {
    pub(crate) keys: [u64; 5],
    pub(crate) values: [u32; 5],
    pub(crate) passed: u32,
}

/// Seven 32-bit keys.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Line32 {
    pub(crate) keys: [u32; 7],
    pub(crate) unused: u32,
    pub(crate) values: [u32; 7],
    pub(crate) passed: u32,
}

const _: () = assert!(size_of::<Line64>() == 64 && align_of::<Line64>() == 64);
const _: () = assert!(size_of::<Line32>() == 64 && align_of::<Line32>() == 64);
const _: () = assert!(offset_of!(Line64, passed) == offset_of!(Line64, values) + Line64::SLOTS * 4);
const _: () = assert!(offset_of!(Line32, passed) == offset_of!(Line32, values) + Line32::SLOTS * 4);

// SAFETY: integers without padding.
unsafe impl Plain for Line64 {}
// SAFETY: integers without padding.
unsafe impl Plain for Line32 {}

/// What [`Line64`] and [`Line32`] share.
pub(crate) trait Line: Plain {
    /// What a slot compares.
    type Key: Plain + Eq + Default;

    /// Keys in a line.
    const SLOTS: usize;

    /// Where the values begin, in 32-bit words.
    const VALUES_WORD: usize;

    /// The key of a code. `min` is the smallest code of the table.
    fn key(code: u64, min: u64) -> Self::Key;

    /// The code of a key, the inverse of [`Line::key`].
    fn code(key: Self::Key, min: u64) -> u64;

    /// Notes that a key with this bit (0 to 31) went on to the next line.
    fn pass(&mut self, bit: u32);

    /// Is this the slot's key?
    fn has(&self, slot: usize, key: Self::Key) -> bool;

    /// Writes a slot's key and returns its value.
    fn take(&mut self, slot: usize, key: Self::Key) -> &mut u32;

    /// The values, a free slot's being 0.
    fn values(&self) -> &[u32];

    /// The values.
    fn values_mut(&mut self) -> &mut [u32];

    /// The value of the slot `mask` (one bit a slot) marks first, or the bits of the keys that passed if it marks none:
    /// they stand where the value after the last one would.
    fn value_or_passed(&self, mask: u32) -> u32;
}

impl Line for Line64 {
    type Key = u64;
    const SLOTS: usize = 5;
    const VALUES_WORD: usize = offset_of!(Line64, values) / 4;

    #[inline(always)]
    fn key(code: u64, _min: u64) -> u64 {
        code
    }

    #[inline(always)]
    fn code(key: u64, _min: u64) -> u64 {
        key
    }

    #[inline(always)]
    fn pass(&mut self, bit: u32) {
        self.passed |= 1 << bit;
    }

    #[inline(always)]
    fn has(&self, slot: usize, key: u64) -> bool {
        self.keys[slot] == key
    }

    #[inline(always)]
    fn take(&mut self, slot: usize, key: u64) -> &mut u32 {
        self.keys[slot] = key;
        &mut self.values[slot]
    }

    #[inline(always)]
    fn values(&self) -> &[u32] {
        &self.values
    }

    #[inline(always)]
    fn values_mut(&mut self) -> &mut [u32] {
        &mut self.values
    }

    #[inline(always)]
    fn value_or_passed(&self, mask: u32) -> u32 {
        let slot = (mask | 1 << Self::SLOTS).trailing_zeros() as usize;
        debug_assert!(slot <= Self::SLOTS);
        // SAFETY: the word after the last value is `passed`, in the same line (see the offsets asserted above).
        unsafe {
            *core::ptr::from_ref(self)
                .cast::<u32>()
                .add(Self::VALUES_WORD + slot)
        }
    }
}

impl Line32 {
    /// The keys here: codes less the smallest.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        let taken = self
            .keys
            .iter()
            .zip(&self.values)
            .filter(|(_, value)| **value != 0);
        taken.map(|(key, _)| *key)
    }
}

impl Line for Line32 {
    type Key = u32;
    const SLOTS: usize = 7;
    const VALUES_WORD: usize = offset_of!(Line32, values) / 4;

    #[inline(always)]
    fn key(code: u64, min: u64) -> u32 {
        code.wrapping_sub(min) as u32
    }

    #[inline(always)]
    fn code(key: u32, min: u64) -> u64 {
        min + u64::from(key)
    }

    #[inline(always)]
    fn pass(&mut self, bit: u32) {
        self.passed |= 1 << bit;
    }

    #[inline(always)]
    fn has(&self, slot: usize, key: u32) -> bool {
        self.keys[slot] == key
    }

    #[inline(always)]
    fn take(&mut self, slot: usize, key: u32) -> &mut u32 {
        self.keys[slot] = key;
        &mut self.values[slot]
    }

    #[inline(always)]
    fn values(&self) -> &[u32] {
        &self.values
    }

    #[inline(always)]
    fn values_mut(&mut self) -> &mut [u32] {
        &mut self.values
    }

    #[inline(always)]
    fn value_or_passed(&self, mask: u32) -> u32 {
        let slot = (mask | 1 << Self::SLOTS).trailing_zeros() as usize;
        debug_assert!(slot <= Self::SLOTS);
        // SAFETY: the word after the last value is `passed`, in the same line (see the offsets asserted above).
        unsafe {
            *core::ptr::from_ref(self)
                .cast::<u32>()
                .add(Self::VALUES_WORD + slot)
        }
    }
}

/// Which of the 32 bits in `passed` a mixed code sets: its low bits, which [`super::hash::reduce`] hardly looks at.
#[inline(always)]
pub(crate) fn passed_bit(mixed: u64) -> u32 {
    mixed as u32 % 32
}
