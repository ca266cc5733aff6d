//! [`Planned`]: buckets, batches and limit as PostgreSQL expects them before it has seen a row.

use super::built::Stored;
use super::{ALIGNMENT, HEAD, LINK, Memory, PIECE_MAX, POINTER, aligned, power_of_two, whole};
use crate::units::Bytes;

/// Buckets of even the smallest planned table.
pub(super) const BUCKETS_MIN: u64 = 1024;
/// Rows of a table of unknown size.
const ROWS_UNKNOWN: f64 = 1000.0;
/// Hundredths of the limit that rows of frequent outer values may take.
pub(super) const FREQUENT_PERCENT: u64 = 2;
/// What one entry of the table of frequent values takes.
pub(super) const FREQUENT_ENTRY: u64 = 16;
/// Number of an entry in the list of entries in use.
pub(super) const FREQUENT_NUMBER: u64 = 4;
/// Most buckets and batches: they are counted in 31 bits.
const COUNT_MAX: u64 = 1 << 30;

/// What a hash join builds its table from, as estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Rows; of a parallel hash those of all processes together.
    pub rows: f64,
    /// Data of a row: the `width` that `EXPLAIN` prints.
    pub width: u64,
    /// Processes that build one table together, a leader among them; 1 for a table of its own.
    pub participants: u64,
    /// Whether statistics of the outer side are looked at for frequent values: the join has one condition, whose outer side is a
    /// column of a table.
    pub frequent: bool,
}

/// A table before it is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Estimated rows.
    pub rows: f64,
    /// Buckets it starts with, a power of two.
    pub buckets: u64,
    /// Parts of which one is in memory at a time, a power of two.
    pub batches: u64,
    /// Memory that one batch may take.
    pub limit: Bytes,
    /// Entries for frequent outer values there is room for; used only where there are several batches.
    pub frequent_max: u64,
    /// As given, at least 1.
    pub participants: u64,
    /// What a process may take alone, which is the limit of a shared table once that has batches.
    pub(super) limit_alone: Bytes,
    pub(super) width: u64,
}

impl Planned {
    /// What is expected of an input.
    pub fn of(input: &Input, memory: &Memory) -> Self {
        let rows = if input.rows > 0.0 {
            input.rows
        } else {
            ROWS_UNKNOWN
        };
        let alone = memory.limit();
        let participants = input.participants.max(1);
        let row = LINK + aligned(HEAD) + aligned(input.width);
        let needed = rows * row as f64;
        let parts = |limit: u64| {
            let entry = row + 8 * POINTER + FREQUENT_NUMBER + FREQUENT_ENTRY;
            let frequent = if input.frequent {
                (limit / entry * FREQUENT_PERCENT / 100).min(COUNT_MAX)
            } else {
                0
            };
            (limit.saturating_sub(frequent * entry), frequent)
        };
        let most_buckets = |room: u64| {
            let pointers = (room / POINTER).min(PIECE_MAX / POINTER).clamp(1, COUNT_MAX);
            // The next lower power of two.
            1 << pointers.ilog2()
        };
        let buckets_of = |room: u64| power_of_two(whole(rows).min(most_buckets(room)).max(BUCKETS_MIN));
        let planned = |buckets, batches, limit: u64, frequent| Self {
            rows,
            buckets,
            batches,
            limit: Bytes(limit),
            frequent_max: frequent,
            participants,
            limit_alone: alone,
            width: input.width,
        };
        // Processes that share a table may put their limits together, but only for a single batch.
        for limit in [alone.0.saturating_mul(participants), alone.0] {
            let (room, frequent) = parts(limit);
            let buckets = buckets_of(room);
            if needed + (buckets * POINTER) as f64 <= room as f64 {
                return planned(buckets, 1, limit, frequent);
            }
        }
        let (room, frequent) = parts(alone.0);
        let filled = row + POINTER;
        let buckets = if room <= filled {
            1
        } else {
            power_of_two(room / filled).min(most_buckets(room))
        };
        let left = room.saturating_sub(buckets * POINTER).max(1);
        let batches = whole(needed / left as f64).min(most_buckets(room));
        planned(buckets, power_of_two(batches.max(2)), alone.0, frequent)
    }

    /// The rows that were estimated, stored: data as wide as estimated, and no NULLs.
    pub fn stored(&self) -> Stored {
        Stored::new(self.rows, self.width as f64)
    }
}

const _: () = assert!(ALIGNMENT.is_power_of_two() && BUCKETS_MIN.is_power_of_two());
