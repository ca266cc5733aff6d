//! Hashed groups: what the table of a `HashAggregate`, a hashed `SetOp` or a hashed sub-plan takes (since PostgreSQL 13 such tables
//! spill to disk beyond the limit; 12 lets them grow).
//!
//! A group is an entry in an open-addressed table that is at most nine tenths full, its key as a stored tuple, and one state for
//! each aggregate, in memory that is handed out in powers of two with a header (up to 15; 17 packs more tightly). States that
//! are objects of their own, such as sums of `numeric`, come on top and are not known from a plan: the numbers here are a lower
//! bound for those.

use super::{HEAD, Memory, aligned, power_of_two, whole};
use crate::units::Bytes;

/// An entry of the table: two pointers, hash value, status.
const ENTRY: u64 = 24;
/// Header of a piece of memory.
const PIECE_HEAD: u64 = 16;
/// State of one aggregate: a value and two flags.
const STATE: u64 = 16;
/// Smallest piece of memory.
const PIECE_MIN: u64 = 8;

/// Groups, as estimated or counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// How many.
    pub groups: f64,
    /// Data of a group's key.
    pub key_width: u64,
    /// Aggregates computed for each.
    pub aggregates: u64,
}

impl Groups {
    /// Bytes of one group beside its entry.
    pub fn group_bytes(&self) -> u64 {
        let piece = |bytes: u64| PIECE_HEAD + power_of_two(bytes.max(PIECE_MIN));
        let key = piece(aligned(HEAD).saturating_add(self.key_width));
        let states = match self.aggregates {
            0 => 0,
            some => piece(some.saturating_mul(STATE)),
        };
        key.saturating_add(states)
    }

    /// The table with all groups in it, or as large as it may get before it spills.
    pub fn bytes(&self, memory: &Memory) -> Bytes {
        let groups = whole(self.groups.max(1.0));
        // Nine tenths full at most; twice as many entries when one more comes.
        let entries = power_of_two(whole(groups as f64 / 0.9).max(2)).saturating_mul(ENTRY);
        let all = entries.saturating_add(groups.saturating_mul(self.group_bytes()));
        Bytes(all.min(memory.limit().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_a_tuple_a_state_and_an_entry() {
        let one = Groups {
            groups: 1.0,
            key_width: 4,
            aggregates: 1,
        };
        // 20 bytes of tuple in a piece of 32, one state in a piece of 16, each with a header.
        assert_eq!(one.group_bytes(), 48 + 32);
        let without = Groups { aggregates: 0, ..one };
        assert_eq!(without.group_bytes(), 48);
        let many = Groups {
            groups: 1000.0,
            ..one
        };
        assert_eq!(many.bytes(&Memory::default()), Bytes(2048 * 24 + 1000 * 80));
    }

    #[test]
    fn the_limit_is_where_it_spills() {
        let many = Groups {
            groups: 1e9,
            key_width: u64::MAX,
            aggregates: u64::MAX,
        };
        assert_eq!(many.bytes(&Memory::default()), Memory::default().limit());
    }
}
