//! [`Changed`]: which ranges of a table's rows were changed since a checkpoint.
//!
//! ```text
//!   rows   0 ........ 1023 │ 1024 ...... 2047 │ ...          a word a range: no commit behind that number has changed a row of it
//! ```
//!
//! Commits mark their ranges before they are visible, with a number a few thousand commits ahead, so that a range that changes all the time
//! costs a read and no write. A range may so be taken for changed that is not; never the other way round.
//!
//! What it is not: it does not say which rows of a range.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::slots::Rid;
use crate::ts::Ts;

/// Rows of a range: 1,024 of 200 bytes are a chunk of 200 KB, and a hot range of 1 % of 50 M rows is 490 chunks. Others unmeasured.
pub(crate) const RANGE_ROWS: u32 = 1 << 10;

/// Ranges of the first part; each further part has as many as all before it.
const FIRST: usize = 64;
const PARTS: usize = 17;
const _: () = assert!(FIRST << (PARTS - 1) == (1 << 32) / RANGE_ROWS as usize);

/// How many commits marks are ahead, at least.
const AHEAD: u64 = 1 << 12;

/// For each range, a commit behind which nothing has changed it.
#[derive(Debug)]
pub(crate) struct Changed {
    parts: [OnceLock<Box<[AtomicU64]>>; PARTS],
}

/// The range of a row.
pub(crate) fn range_of(rid: Rid) -> u32 {
    rid.0 / RANGE_ROWS
}

/// The rows of a range.
pub(crate) fn rows_of(range: u32) -> std::ops::Range<u32> {
    range * RANGE_ROWS..range.saturating_add(1).saturating_mul(RANGE_ROWS)
}

/// What to mark ranges with before a commit behind `last`.
pub(crate) fn ahead(last: Ts) -> Ts {
    Ts((last.0 | (AHEAD - 1)) + AHEAD)
}

/// Number of the part of a range, and its place there.
fn place(range: u32) -> (usize, usize) {
    let range = range as usize;
    let part = (usize::BITS - (range / FIRST).leading_zeros()) as usize;
    let first = if part == 0 { 0 } else { FIRST << (part - 1) };
    (part, range - first)
}

impl Changed {
    pub(crate) fn new() -> Self {
        Changed {
            parts: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// A commit up to `ts` changes this row.
    #[inline]
    pub(crate) fn mark(&self, rid: Rid, ts: Ts) {
        let (part, at) = place(range_of(rid));
        let words = self.parts[part].get_or_init(|| {
            let words = FIRST << part.saturating_sub(1);
            (0..words).map(|_| AtomicU64::new(0)).collect()
        });
        // Relaxed: who reads it has seen the commit, which the log's mutex puts behind this.
        if words[at].load(Ordering::Relaxed) < ts.0 {
            words[at].fetch_max(ts.0, Ordering::Relaxed);
        }
    }

    /// Whether a commit behind `ts` may have changed a row of the range.
    pub(crate) fn since(&self, range: u32, ts: Ts) -> bool {
        let (part, at) = place(range);
        let words = self.parts[part].get();
        words.is_some_and(|words| words[at].load(Ordering::Relaxed) > ts.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for range in 0..10_000 {
            assert_eq!(place(range), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0.saturating_sub(1) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(range_of(Rid(u32::MAX))).0, PARTS - 1);
        assert_eq!(rows_of(range_of(Rid(u32::MAX))).end, u32::MAX);
    }

    #[test]
    fn a_mark_says_so_for_its_range_only_and_never_goes_back() {
        let changed = Changed::new();
        assert!(!changed.since(0, Ts::ZERO));
        changed.mark(Rid(1024), Ts(7));
        changed.mark(Rid(2047), Ts(5));
        assert!(changed.since(1, Ts(6)) && !changed.since(1, Ts(7)));
        assert!(!changed.since(0, Ts::ZERO) && !changed.since(2, Ts::ZERO));
    }

    #[test]
    fn a_mark_ahead_covers_thousands_of_commits() {
        for last in [0, 1, AHEAD - 1, AHEAD, 12_345] {
            let mark = ahead(Ts(last));
            assert!(
                mark.0 > last + AHEAD - 1 && mark.0 < last + 2 * AHEAD + 1,
                "{last}: {mark}"
            );
        }
    }
}
