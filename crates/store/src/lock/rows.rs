//! [`RowQueues`]: who waits for rows. Only rows that somebody waits for have a queue.

use super::error::HeldBy;
use super::mode::RowMode;
use super::slot::Slot;
use super::word::{LockWord, OWNER, SHARED, WAITERS};
use crate::park::Park;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

struct Waiter {
    slot: u32,
    wait: u64,
    mode: RowMode,
    /// It holds S already.
    upgrade: bool,
    park: Arc<dyn Park>,
}

#[derive(Default)]
struct Queue {
    /// The holder in mode X as of the last change under the mutex. It is right whenever that holder waits itself: it cannot
    /// let go of the row without coming here before it waits again.
    owner: u32,
    /// Upgrades first, then in order of arrival.
    waiters: VecDeque<Waiter>,
}

#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<u64, Queue>>);

/// What came of a request under the queue's mutex.
pub(super) enum Entered {
    Granted,
    /// It would have to wait, and may not.
    Refused,
    /// It waits. `contested`: another holder of the same row wants more as well, which is a deadlock.
    Queued {
        contested: bool,
    },
}

/// One request for a row.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub key: u64,
    pub word: &'a LockWord,
    pub slot: u32,
    pub mode: RowMode,
    pub upgrade: bool,
}

/// The number of a holder in lock words: 0 stands for nobody.
#[inline]
pub(super) fn number(slot: u32) -> u64 {
    u64::from(slot) + 1
}

/// What a row's word gains and loses when the request is granted.
fn hand(word: &LockWord, slot: u32, mode: RowMode, upgrade: bool) {
    match (mode, upgrade) {
        (RowMode::S, _) => word.hand(SHARED, 0),
        (RowMode::X, false) => word.hand(number(slot), 0),
        (RowMode::X, true) => word.hand(number(slot), SHARED),
    }
}

/// Whether the holders of `word` let the request in. Once true under the mutex of an announced queue it stays so: holders only
/// leave.
fn goes(word: u64, mode: RowMode, upgrade: bool) -> bool {
    let shared = (word & !WAITERS) / SHARED;
    word & OWNER == 0 && (mode == RowMode::S || shared == u64::from(upgrade))
}

/// Queues of rows in a sharded table, by the row's name.
pub(super) struct RowQueues {
    shards: Box<[Shard]>,
}

/// Many more than cores, so that two rows rarely share a mutex. Unmeasured; a power of two.
const SHARDS: usize = 128;

impl RowQueues {
    pub fn new() -> Self {
        RowQueues {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: u64) -> &Mutex<HashMap<u64, Queue>> {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[mixed as usize % SHARDS].0
    }

    /// Grants the request, or puts it in the row's queue if it came with a number and a way to wake it.
    pub fn enter(&self, request: Request<'_>, waiter: Option<(u64, &Arc<dyn Park>)>) -> Entered {
        let Request {
            key,
            word,
            slot,
            mode,
            upgrade,
        } = request;
        let mut shard = self.shard(key).lock();
        let queue = shard.entry(key).or_default();
        // From here on nobody takes the row but under this mutex, and whoever leaves it comes here.
        let now = word.announce();
        queue.owner = (now & OWNER) as u32;
        let contested = upgrade && queue.waiters.iter().any(|other| other.upgrade);
        let behind = match (mode, upgrade) {
            (RowMode::X, true) => contested,
            (RowMode::X, false) => !queue.waiters.is_empty(),
            (RowMode::S, _) => queue.waiters.iter().any(|other| other.mode == RowMode::X),
        };
        let entered = if !behind && goes(now, mode, upgrade) {
            hand(word, slot, mode, upgrade);
            if mode == RowMode::X {
                queue.owner = number(slot) as u32;
            }
            Entered::Granted
        } else if let Some((wait, park)) = waiter {
            let waiter = Waiter {
                slot,
                wait,
                mode,
                upgrade,
                park: Arc::clone(park),
            };
            let at = match upgrade {
                true => queue.waiters.iter().take_while(|other| other.upgrade).count(),
                false => queue.waiters.len(),
            };
            queue.waiters.insert(at, waiter);
            Entered::Queued { contested }
        } else {
            Entered::Refused
        };
        if queue.waiters.is_empty() {
            word.quiet();
            shard.remove(&key);
        }
        entered
    }

    /// Hands the row to those who may have it now. Called after the row was let go of with waiters announced.
    pub fn settle(&self, slots: &[Slot], key: u64, word: &LockWord) {
        let mut woken = Vec::new();
        let mut shard = self.shard(key).lock();
        Self::settle_locked(&mut shard, slots, key, word, &mut woken);
        drop(shard);
        woken.iter().for_each(|park| park.unpark());
    }

    /// Takes a waiter out of the queue, if it is there still. Afterwards it is known for good whether it was granted.
    pub fn leave(&self, slots: &[Slot], key: u64, word: &LockWord, slot: u32) -> HeldBy {
        let mut woken = Vec::new();
        let mut shard = self.shard(key).lock();
        if let Some(queue) = shard.get_mut(&key) {
            queue.waiters.retain(|waiter| waiter.slot != slot);
        }
        let now = word.load();
        Self::settle_locked(&mut shard, slots, key, word, &mut woken);
        drop(shard);
        woken.iter().for_each(|park| park.unpark());
        match (now & OWNER, (now & !WAITERS) / SHARED) {
            (0, 0) => HeldBy::Queue,
            (0, count) => HeldBy::Shared(count as u32),
            (owner, _) => HeldBy::One(owner as u32 - 1),
        }
    }

    fn settle_locked(
        shard: &mut HashMap<u64, Queue>,
        slots: &[Slot],
        key: u64,
        word: &LockWord,
        woken: &mut Vec<Arc<dyn Park>>,
    ) {
        // Without a queue another has settled already.
        let Some(queue) = shard.get_mut(&key) else { return };
        while let Some(first) = queue.waiters.front() {
            if !goes(word.load(), first.mode, first.upgrade) {
                break;
            }
            hand(word, first.slot, first.mode, first.upgrade);
            slots[first.slot as usize].grant(first.wait);
            woken.extend(queue.waiters.pop_front().map(|first| first.park));
        }
        queue.owner = (word.load() & OWNER) as u32;
        if queue.waiters.is_empty() {
            word.quiet();
            shard.remove(&key);
        }
    }

    /// For the detector: whom the waiter has to wait for, holders in mode S excepted.
    pub fn ahead(&self, key: u64, slot: u32, out: &mut Vec<u32>) {
        let shard = self.shard(key).lock();
        let Some(queue) = shard.get(&key) else { return };
        let Some(at) = queue.waiters.iter().position(|waiter| waiter.slot == slot) else {
            return;
        };
        let mode = queue.waiters[at].mode;
        out.extend(queue.owner.checked_sub(1));
        let conflicting = |other: &&Waiter| mode == RowMode::X || other.mode == RowMode::X;
        out.extend(
            queue
                .waiters
                .iter()
                .take(at)
                .filter(conflicting)
                .map(|other| other.slot),
        );
    }
}
