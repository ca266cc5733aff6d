//! [`Horizon`]: which snapshots are open, and so which old versions nobody needs any more.
//!
//! Collectors go by the newest commit: a snapshot is of that or of a later one, and what was replaced after the one it is of is kept. From the
//! first snapshot of what is *durable* on they go by the newest durable commit, which is a flush older: until then the versions of a flush would
//! be kept for nobody, and fill the caches.
//!
//! What it is not: a lock. Snapshots and writers never wait for each other.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::ts::Ts;

/// A place no snapshot has.
const FREE: u64 = u64::MAX;

/// Nobody has asked for durable snapshots.
const NEVER: u64 = u64::MAX;
/// Somebody is just asking for the first.
const BEGINS: u64 = u64::MAX - 1;

/// Those who keep old versions while they follow them, at a time.
const PINS: usize = 4;

/// The timestamps of all open snapshots.
#[derive(Debug)]
pub(crate) struct Horizon {
    /// Of pins; behind them that of a checkpoint's snapshot, then those of snapshots.
    places: Box<[AtomicU64]>,
    /// Places that are taken.
    taken: AtomicUsize,
    /// Places from here on were never taken: the first free one is, so few are looked at.
    end: AtomicUsize,
    /// What is durable counts, from this commit on; or `NEVER`, or `BEGINS`.
    durable_from: AtomicU64,
}

impl Horizon {
    pub(crate) fn new(snapshots_max: usize) -> Self {
        Horizon {
            places: (0..PINS + 1 + snapshots_max.max(1))
                .map(|_| AtomicU64::new(FREE))
                .collect(),
            taken: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            durable_from: AtomicU64::new(NEVER),
        }
    }

    /// What no later snapshot is older than. None while that changes.
    ///
    /// A collector that finds `NEVER` has read `last` before, so not after [`Horizon::keep_durable`] read it: of the two sequentially consistent
    /// fences its own is first. So nobody ever frees more than what was replaced up to the number returned here later.
    #[inline]
    pub(crate) fn floor(&self, last: impl FnOnce() -> Ts, durable: impl FnOnce() -> Ts) -> Option<Ts> {
        let last = last();
        fence(Ordering::SeqCst);
        match self.durable_from.load(Ordering::SeqCst) {
            NEVER => Some(last),
            BEGINS => None,
            from => Some(durable().max(Ts(from))),
        }
    }

    /// From now on what is durable counts. Returns the commit that must be durable before a snapshot can be of the newest durable one.
    pub(crate) fn keep_durable(&self, last: impl FnOnce() -> Ts) -> Ts {
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if self
            .durable_from
            .compare_exchange(NEVER, BEGINS, order.0, order.1)
            .is_ok()
        {
            fence(Ordering::SeqCst);
            self.durable_from.store(last().0, Ordering::SeqCst);
        }
        loop {
            match self.durable_from.load(Ordering::SeqCst) {
                // Another thread is two lines above.
                BEGINS => std::thread::yield_now(),
                from => return Ts(from),
            }
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.places.len() - PINS - 1
    }

    pub(crate) fn open(&self) -> usize {
        let snapshots = &self.places[PINS + 1..];
        let open = |place: &&AtomicU64| place.load(Ordering::Relaxed) != FREE;
        snapshots.iter().filter(open).count()
    }

    /// Takes a place for a snapshot of what `last` says then. None if all are taken.
    ///
    /// A collector either sees the place taken (with timestamp 0 at first, which keeps everything), or it looked before the
    /// place was taken; then the newest timestamp it knew is not newer than the one read here, and what it frees was replaced
    /// before: the two sequentially consistent fences order the looks.
    ///
    /// The fence behind the look pairs with that of [`unlinked`].
    pub(crate) fn enter(&self, last: impl FnOnce() -> Ts) -> Option<(usize, Ts)> {
        self.enter_at(PINS + 1..self.places.len(), last)
    }

    /// As [`Horizon::enter`], in a place kept for the one checkpoint there may be: without it the log could not be shortened.
    pub(crate) fn enter_for_checkpoint(&self, last: impl FnOnce() -> Ts) -> Option<(usize, Ts)> {
        self.enter_at(PINS..PINS + 1, last)
    }

    fn enter_at(&self, among: Range<usize>, last: impl FnOnce() -> Ts) -> Option<(usize, Ts)> {
        let number = self.take(among)?;
        let ts = last();
        fence(Ordering::SeqCst);
        self.places[number].store(ts.0, Ordering::SeqCst);
        Some((number, ts))
    }

    /// Takes a place with timestamp 0.
    fn take(&self, among: Range<usize>) -> Option<usize> {
        let taken = |&number: &usize| {
            let place = &self.places[number];
            place
                .compare_exchange(FREE, 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        let number = among.into_iter().find(taken)?;
        self.end.fetch_max(number + 1, Ordering::SeqCst);
        self.taken.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Some(number)
    }

    /// Keeps every version that was replaced after [`Pin::oldest`], for who has no snapshot and wants to follow `previous`. None
    /// if that cannot be had just now.
    ///
    /// Collectors that look from now on keep everything. One that looked before cannot free more than that: it knew no newer
    /// timestamp than `floor` says here (by the fences, as with snapshots), and of each snapshot that is open here it either saw
    /// that too, or the snapshot came later and is not older than the newest it knew. A snapshot that is just being made could be
    /// any, so then there is no answer.
    pub(crate) fn pin(&self, floor: impl FnOnce() -> Option<Ts>) -> Option<Pin<'_>> {
        let number = self.take(0..PINS)?;
        let mut pin = Pin {
            horizon: self,
            number,
            oldest: Ts::ZERO,
        };
        pin.oldest = floor()?;
        fence(Ordering::SeqCst);
        for (other, place) in self.places.iter().enumerate() {
            match place.load(Ordering::SeqCst) {
                0 if other != number => return None,
                ts if other != number => pin.oldest = pin.oldest.min(Ts(ts)),
                _ => {}
            }
        }
        Some(pin)
    }

    pub(crate) fn leave(&self, number: usize) {
        // Release: what the snapshot read was read before anybody frees it.
        self.places[number].store(FREE, Ordering::Release);
        self.taken.fetch_sub(1, Ordering::Release);
    }

    /// Whether nobody follows versions without a lock, so that what was taken out of a slot before this call is nobody's: who comes
    /// later has a fence behind its coming, and so finds the slot as it is now.
    pub(crate) fn is_clear(&self) -> bool {
        fence(Ordering::SeqCst);
        self.taken.load(Ordering::SeqCst) == 0
    }

    /// The oldest state anybody may still look at: versions replaced at or before it are free to go.
    #[inline]
    pub(crate) fn oldest(&self, last: impl FnOnce() -> Ts) -> Ts {
        let last = last();
        fence(Ordering::SeqCst);
        if self.taken.load(Ordering::SeqCst) == 0 {
            return last;
        }
        // As for `taken`: a place that is not looked at was taken after the fence above.
        let taken = &self.places[..self.end.load(Ordering::SeqCst)];
        let places = taken.iter().map(|place| place.load(Ordering::SeqCst));
        Ts(places.min().unwrap_or(FREE).min(last.0))
    }
}

/// While it is there, old versions are kept. From [`Horizon::pin`].
#[derive(Debug)]
pub(crate) struct Pin<'a> {
    horizon: &'a Horizon,
    number: usize,
    oldest: Ts,
}

impl Pin<'_> {
    /// No snapshot is older, now or later, and nothing that was replaced after it is freed.
    pub(crate) fn oldest(&self) -> Ts {
        self.oldest
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.horizon.leave(self.number);
    }
}

/// For what was just taken out of a slot: snapshots of this timestamp and later are not led there.
///
/// A snapshot of a commit that `last` does not know here has looked after it: of the two sequentially consistent fences, here
/// and in [`Horizon::enter`], this one is first, so its reads of the slot see what was put there before. Without the fence the
/// store to the slot could still be on its way while such a snapshot reads the slot.
pub(crate) fn unlinked(last: impl FnOnce() -> Ts) -> Ts {
    fence(Ordering::SeqCst);
    last().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_keeps_everything_and_knows_the_oldest() {
        let horizon = Horizon::new(1);
        let pin = horizon.pin(|| Some(Ts(7))).unwrap();
        assert_eq!((pin.oldest(), horizon.open()), (Ts(7), 0));
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(0));
        assert!(
            horizon.pin(|| Some(Ts(7))).is_none(),
            "the other may be a snapshot that begins"
        );
        drop(pin);
        assert_eq!(horizon.oldest(|| Ts(9)), Ts(9));
        let (place, _) = horizon.enter(|| Ts(4)).unwrap();
        assert!(
            horizon.enter(|| Ts(4)).is_none(),
            "pins' places are no snapshots'"
        );
        assert_eq!(horizon.pin(|| Some(Ts(7))).unwrap().oldest(), Ts(4));
        horizon.leave(place);
        assert_eq!((horizon.oldest(|| Ts(9)), horizon.open()), (Ts(9), 0));
    }

    #[test]
    fn what_is_durable_counts_once_somebody_has_asked_for_it() {
        let horizon = Horizon::new(1);
        let floor = |last, durable| horizon.floor(|| Ts(last), || Ts(durable));
        assert_eq!(floor(9, 3), Some(Ts(9)));
        assert_eq!(horizon.keep_durable(|| Ts(12)), Ts(12));
        assert_eq!(
            floor(15, 3),
            Some(Ts(12)),
            "what may be freed already is not kept"
        );
        assert_eq!(floor(20, 14), Some(Ts(14)));
        assert_eq!(horizon.keep_durable(|| Ts(30)), Ts(12), "once");
    }

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
