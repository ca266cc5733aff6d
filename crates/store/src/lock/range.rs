//! [`RangeLocks`]: the intervals of one index that transactions have read, so that nobody slips an entry into them.
//!
//! A reader first registers its interval, then reads the index. An inserter first puts its entry (its row under X), then looks
//! for intervals with that key. So either the reader finds the entry, and waits for the row, or the inserter finds the
//! interval, and waits for the reader to end. An inserter waits only for those it finds at once: readers that come later find
//! its entry.

use super::error::HeldBy;
use super::slot::Slot;
use crate::park::Park;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// An encoded key, padded to eight words; compared word by word, the first first.
pub type RangeKey = [u64; 8];

/// Intervals of one holder in one index are kept apart up to this many; beyond, a new one is joined with its neighbour, and what
/// lies between is locked as well. It bounds what a transaction with very many costs itself and others.
const INTERVALS_MAX: usize = 256;
/// Marks of one holder whose intervals in one index are kept apart; those of further ones are let go of together with the last of these.
const MARKS_MAX: usize = 16;
/// Empty lists kept for the next holders.
const SPARE_MAX: usize = 64;

type Interval = (RangeKey, RangeKey);

struct HeldIntervals {
    slot: u32,
    /// The holder's newest mark when they were registered; those of later marks are apart.
    mark: u32,
    /// Ascending, no two overlap.
    intervals: Vec<Interval>,
}

impl HeldIntervals {
    /// Whether one of them has all keys from `lo` to `hi`.
    fn cover(&self, lo: &RangeKey, hi: &RangeKey) -> bool {
        let at = self.intervals.partition_point(|interval| interval.1 < *lo);
        let interval = self.intervals.get(at);
        interval.is_some_and(|interval| interval.0 <= *lo && *hi <= interval.1)
    }
}

struct Waiter {
    slot: u32,
    wait: u64,
    key: RangeKey,
    /// Those whose intervals it met and who have not ended since.
    blockers: Vec<u32>,
    park: Arc<dyn Park>,
}

#[derive(Default)]
struct State {
    held: Vec<HeldIntervals>,
    waiters: VecDeque<Waiter>,
    spare: Vec<Vec<Interval>>,
}

/// The intervals of one index that transactions hold in mode S.
pub struct RangeLocks {
    number: u32,
    /// How many lists of intervals transactions hold. Changed under the mutex only.
    holders: AtomicUsize,
    state: Mutex<State>,
}

impl std::fmt::Debug for RangeLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeLocks")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What came of registering an interval.
pub(super) struct Registered {
    /// The first of this holder in this index.
    pub first: bool,
    /// How many more intervals the holder has now; joined ones make it fewer.
    pub more: isize,
}

impl RangeLocks {
    /// No intervals, for the index of this number (which only serves messages).
    pub fn new(number: u32) -> Arc<Self> {
        Arc::new(RangeLocks {
            number,
            holders: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// The index's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many transactions hold intervals at this moment; those with intervals before and behind a mark count for each.
    pub fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }

    /// Whether the holder's intervals cover this one already.
    pub(super) fn covers(&self, slot: u32, lo: &RangeKey, hi: &RangeKey) -> bool {
        let state = self.state.lock();
        let mut held = state.held.iter();
        held.any(|held| held.slot == slot && held.cover(lo, hi))
    }

    /// Registers an interval, `lo <= hi`, of a holder whose newest mark is `mark`.
    pub(super) fn register(&self, slot: u32, mark: u32, lo: &RangeKey, hi: &RangeKey) -> Registered {
        let mut state = self.state.lock();
        let mine = || {
            let held = state.held.iter().enumerate();
            held.filter(|(_, held)| held.slot == slot)
        };
        let newest = mine().max_by_key(|(_, held)| held.mark);
        let newest = newest.map(|(at, held)| (at, held.mark));
        let (at, first) = match newest {
            Some((at, newest)) if newest == mark || mine().count() >= MARKS_MAX => (at, false),
            _ => {
                let intervals = state.spare.pop().unwrap_or_default();
                state.held.push(HeldIntervals {
                    slot,
                    mark,
                    intervals,
                });
                self.holders.store(state.held.len(), Ordering::Relaxed);
                (state.held.len() - 1, newest.is_none())
            }
        };
        let intervals = &mut state.held[at].intervals;
        let before = intervals.len();
        join(intervals, *lo, *hi);
        let more = intervals.len() as isize - before as isize;
        drop(state);
        // Pairs with the fence in `passes`: of two sequentially consistent fences one is first. If ours is, the inserter's load
        // of `holders` sees our count. If the inserter's is, our reads of the index, which follow, see its entry.
        fence(Ordering::SeqCst);
        Registered { first, more }
    }

    /// Whether there are no intervals at all, for an inserter whose entry is in the index.
    #[inline]
    pub(super) fn passes(&self) -> bool {
        // Pairs with the fence in `register`.
        fence(Ordering::SeqCst);
        self.holders.load(Ordering::Acquire) == 0
    }

    /// Whether no other holder's intervals have the key now; else the inserter is put among the waiters. If an interval is
    /// registered after we held the mutex, then its reader sees the entry.
    pub(super) fn enter(&self, (slot, wait): (u32, u64), key: &RangeKey, park: &Arc<dyn Park>) -> bool {
        let mut state = self.state.lock();
        let mut blockers = Vec::new();
        for held in &state.held {
            if held.slot != slot && held.cover(key, key) && !blockers.contains(&held.slot) {
                blockers.push(held.slot);
            }
        }
        if blockers.is_empty() {
            return true;
        }
        state.waiters.push_back(Waiter {
            slot,
            wait,
            key: *key,
            blockers,
            park: Arc::clone(park),
        });
        false
    }

    /// Gives up the intervals of a holder from a mark on; all of them: 0. Returns how many are left.
    pub(super) fn release(&self, slots: &[Slot], slot: u32, mark: u32) -> usize {
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        let State { held, waiters, spare } = &mut *state;
        let (mut at, mut left) = (0, 0);
        while let Some(list) = held.get(at) {
            if list.slot != slot || list.mark < mark {
                left += usize::from(list.slot == slot) * list.intervals.len();
                at += 1;
                continue;
            }
            let mut intervals = held.swap_remove(at).intervals;
            intervals.clear();
            if spare.len() < SPARE_MAX {
                spare.push(intervals);
            }
        }
        self.holders.store(held.len(), Ordering::Release);
        let is_kept = |key: &RangeKey| {
            let mut held = held.iter();
            left > 0 && held.any(|held| held.slot == slot && held.cover(key, key))
        };
        waiters.retain_mut(|waiter| {
            if !is_kept(&waiter.key) {
                waiter.blockers.retain(|blocker| *blocker != slot);
            }
            if waiter.blockers.is_empty() {
                slots[waiter.slot as usize].grant(waiter.wait);
                woken.push(Arc::clone(&waiter.park));
            }
            !waiter.blockers.is_empty()
        });
        drop(state);
        woken.iter().for_each(|park| park.unpark());
        left
    }

    /// Takes a waiter out, if it is there still. Afterwards it is known for good whether it was granted.
    pub(super) fn leave(&self, slot: u32) -> HeldBy {
        let mut state = self.state.lock();
        let Some(at) = state.waiters.iter().position(|waiter| waiter.slot == slot) else {
            return HeldBy::Queue;
        };
        match state.waiters.remove(at).map(|waiter| waiter.blockers).as_deref() {
            Some([one]) => HeldBy::One(*one),
            Some(many) => HeldBy::Shared(many.len() as u32),
            None => HeldBy::Queue,
        }
    }

    /// For the detector: whom the waiter has to wait for.
    pub(super) fn ahead(&self, slot: u32, out: &mut Vec<u32>) {
        let state = self.state.lock();
        if let Some(waiter) = state.waiters.iter().find(|waiter| waiter.slot == slot) {
            out.extend(&waiter.blockers);
        }
    }
}

/// Adds an interval to disjoint ascending ones, joining those it overlaps.
fn join(intervals: &mut Vec<Interval>, mut lo: RangeKey, mut hi: RangeKey) {
    let from = intervals.partition_point(|interval| interval.1 < lo);
    let to = from + intervals[from..].partition_point(|interval| interval.0 <= hi);
    if from < to {
        lo = lo.min(intervals[from].0);
        hi = hi.max(intervals[to - 1].1);
        intervals[from] = (lo, hi);
        intervals.drain(from + 1..to);
    } else if intervals.len() < INTERVALS_MAX {
        intervals.insert(from, (lo, hi));
    } else if from > 0 {
        intervals[from - 1].1 = hi;
    } else {
        intervals[0].0 = lo;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(at: u64) -> RangeKey {
        [1, at, 0, 0, 0, 0, 0, 0]
    }

    proptest! {
        #[test]
        fn joined_intervals_cover_exactly_what_was_added(added in prop::collection::vec((0_u64..100, 0_u64..8), 0..40)) {
            let mut intervals = Vec::new();
            let mut covered = [false; 128];
            for (lo, length) in added {
                join(&mut intervals, key(lo), key(lo + length));
                covered[lo as usize..=(lo + length) as usize].fill(true);
            }
            prop_assert!(intervals.iter().all(|(lo, hi)| lo <= hi));
            prop_assert!(intervals.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for (at, covered) in covered.iter().enumerate() {
                let at = key(at as u64);
                prop_assert_eq!(intervals.iter().any(|(lo, hi)| *lo <= at && at <= *hi), *covered);
            }
        }
    }

    #[test]
    fn very_many_intervals_are_joined_and_still_cover() {
        for down in [false, true] {
            let ranges = RangeLocks::new(0);
            let mut count = 0;
            for step in 0..10_000_u64 {
                let at = if down { 100_000 - step * 7 } else { step * 7 };
                count += ranges.register(3, 0, &key(at), &key(at + 2)).more;
                assert!(ranges.covers(3, &key(at), &key(at + 2)) && !ranges.covers(4, &key(at), &key(at)));
            }
            assert_eq!(count, INTERVALS_MAX as isize);
            assert!(
                (0..10_000)
                    .map(|step| if down { 100_000 - step * 7 } else { step * 7 })
                    .all(|at| ranges.covers(3, &key(at), &key(at)))
            );
            assert!(!ranges.covers(3, &key(200_000), &key(200_000)));
        }
    }
}
