//! [`Horizon`]: which snapshots are open, and so which old versions nobody needs any more.
//!
//! What it is not: a lock. Snapshots and writers never wait for each other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::ts::Ts;

/// A place no snapshot has.
const FREE: u64 = u64::MAX;

/// The timestamps of all open snapshots.
#[derive(Debug)]
pub(crate) struct Horizon {
    places: Box<[AtomicU64]>,
    open: AtomicUsize,
}

impl Horizon {
    pub(crate) fn new(snapshots_max: usize) -> Self {
        Horizon {
            places: (0..snapshots_max.max(1)).map(|_| AtomicU64::new(FREE)).collect(),
            open: AtomicUsize::new(0),
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Takes a place for a snapshot of what `last` says then. None if all are taken.
    ///
    /// A collector either sees the place taken (with timestamp 0 at first, which keeps everything), or it looked before the
    /// place was taken; then the newest timestamp it knew is not newer than the one read here, and what it frees was replaced
    /// before: the two sequentially consistent fences order the looks.
    pub(crate) fn enter(&self, last: impl FnOnce() -> Ts) -> Option<(usize, Ts)> {
        let taken = |place: &AtomicU64| {
            place
                .compare_exchange(FREE, 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        let number = self.places.iter().position(taken)?;
        self.open.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let ts = last();
        self.places[number].store(ts.0, Ordering::SeqCst);
        Some((number, ts))
    }

    pub(crate) fn leave(&self, number: usize) {
        // Release: what the snapshot read was read before anybody frees it.
        self.places[number].store(FREE, Ordering::Release);
        self.open.fetch_sub(1, Ordering::Release);
    }

    /// The oldest state anybody may still look at: versions replaced at or before it are free to go.
    #[inline]
    pub(crate) fn oldest(&self, last: impl FnOnce() -> Ts) -> Ts {
        let last = last();
        fence(Ordering::SeqCst);
        if self.open.load(Ordering::SeqCst) == 0 {
            return last;
        }
        let places = self.places.iter().map(|place| place.load(Ordering::SeqCst));
        Ts(places.min().unwrap_or(FREE).min(last.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_snapshot_counts() {
        let horizon = Horizon::new(2);
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(9));
        let (first, ts) = horizon.enter(|| Ts(3)).unwrap();
        assert_eq!(ts, Ts(3));
        let (second, _) = horizon.enter(|| Ts(5)).unwrap();
        assert!(horizon.enter(|| Ts(6)).is_none());
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(3));
        horizon.leave(first);
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(5));
        horizon.leave(second);
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(9));
    }
}
