//! [`TableLock`]: the lock of one table.

use super::error::HeldBy;
use super::mode::TableMode;
use super::slot::Slot;
use crate::park::Park;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Groups of holders that count their intentions apart. Holder n counts in shard n modulo this, so neighbours, which are
/// what different cores run, never share a cache line. Unmeasured beyond 2 cores.
const SHARDS: usize = 32;

const IS_ONE: u64 = 1;
const IX_ONE: u64 = 1 << 32;

/// Holders in mode IS in the lower half, in mode IX in the upper.
#[derive(Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

struct Waiter {
    slot: u32,
    wait: u64,
    held: Option<TableMode>,
    /// What it will hold: `held` with what it asked for.
    mode: TableMode,
    park: Arc<dyn Park>,
}

#[derive(Default)]
struct State {
    /// Holders in modes S, SIX and X.
    strong: Vec<(u32, TableMode)>,
    /// Those who hold something and want more first, then in order of arrival.
    waiters: VecDeque<Waiter>,
}

/// The lock of one table: intentions are counted in shards, one atomic step each, as long as nobody holds or wants more.
///
/// Who wants more raises `flagged` and then counts; who has an intention to announce counts itself and then reads `flagged`.
/// All four steps are sequentially consistent, so at least one of the two sees the other. Who finds the flag raised takes its
/// count back and asks under the mutex. Likewise on the way out: whoever takes its count back and finds the flag raised hands
/// over under the mutex, and if it does not find it, then whoever raises it later sees the count taken back.
pub struct TableLock {
    number: u32,
    shards: Box<[Shard]>,
    /// Somebody holds S, SIX or X, or waits. Changed under the mutex only.
    flagged: AtomicBool,
    state: Mutex<State>,
}

/// What came of a request.
pub(super) enum Entered {
    Granted,
    /// `contested`: another holder wants more as well.
    Queued {
        contested: bool,
    },
}

impl std::fmt::Debug for TableLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableLock")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl TableLock {
    /// The number of locks that keep names of tables, which no table has.
    pub const OF_A_NAME: u32 = u32::MAX;

    /// The free lock of the table of this number (which only serves messages).
    pub fn new(number: u32) -> Arc<Self> {
        Arc::new(TableLock {
            number,
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            flagged: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// The table's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether nobody holds it or waits for it at this moment.
    pub fn is_free(&self) -> bool {
        !self.flagged.load(Ordering::SeqCst) && self.counts() == (0, 0)
    }

    fn shard(&self, slot: u32) -> &AtomicU64 {
        &self.shards[slot as usize % SHARDS].0
    }

    /// Adds what `mode` counts for; nothing for strong modes.
    fn one(mode: Option<TableMode>) -> u64 {
        match mode {
            Some(TableMode::IS) => IS_ONE,
            Some(TableMode::IX) => IX_ONE,
            _ => 0,
        }
    }

    fn counts(&self) -> (u64, u64) {
        let sums = self.shards.iter().map(|shard| shard.0.load(Ordering::SeqCst));
        sums.fold((0, 0), |(is, ix), both| (is + both % IX_ONE, ix + both / IX_ONE))
    }

    /// Takes an intention without the mutex. `held` is weaker and an intention, too. False: ask with [`Self::enter`]; nothing
    /// has changed but that somebody may have to be settled for, which `enter` does.
    #[inline]
    pub(super) fn take(&self, slot: u32, held: Option<TableMode>, mode: TableMode) -> bool {
        let gain = Self::one(Some(mode)).wrapping_sub(Self::one(held));
        let shard = self.shard(slot);
        shard.fetch_add(gain, Ordering::SeqCst);
        if !self.flagged.load(Ordering::SeqCst) {
            return true;
        }
        shard.fetch_sub(gain, Ordering::SeqCst);
        false
    }

    /// Takes an intention, of a holder that has nothing of the table, if nobody holds or wants more. Else nothing has changed.
    pub(super) fn try_take(&self, slots: &[Slot], slot: u32, mode: TableMode) -> bool {
        self.shard(slot)
            .fetch_add(Self::one(Some(mode)), Ordering::SeqCst);
        if !self.flagged.load(Ordering::SeqCst) {
            return true;
        }
        // Others may have seen the count: they are settled for.
        self.lower(slots, slot, mode, None);
        false
    }

    /// Grants `mode` (which includes what is `held`), or puts the request in the queue.
    pub(super) fn enter(
        &self,
        slots: &[Slot],
        (slot, wait): (u32, u64),
        held: Option<TableMode>,
        mode: TableMode,
        park: &Arc<dyn Park>,
    ) -> Entered {
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        self.flagged.store(true, Ordering::SeqCst);
        let upgrades = state
            .waiters
            .iter()
            .take_while(|waiter| waiter.held.is_some())
            .count();
        let ahead = if held.is_some() {
            upgrades
        } else {
            state.waiters.len()
        };
        let entered = if self.goes(&state, slot, held, mode, ahead) {
            self.hand(&mut state, slot, held, Some(mode));
            Entered::Granted
        } else {
            state.waiters.insert(
                ahead,
                Waiter {
                    slot,
                    wait,
                    held,
                    mode,
                    park: Arc::clone(park),
                },
            );
            Entered::Queued {
                contested: held.is_some() && upgrades > 0,
            }
        };
        // Others may have seen a count that `take` had to take back.
        self.settle(&mut state, slots, &mut woken);
        drop(state);
        woken.iter().for_each(|park| park.unpark());
        entered
    }

    /// Lets go of `mode`, down to the weaker one that is left, if any.
    pub(super) fn lower(&self, slots: &[Slot], slot: u32, mode: TableMode, left: Option<TableMode>) {
        if mode.is_intention() {
            let loss = Self::one(Some(mode)).wrapping_sub(Self::one(left));
            self.shard(slot).fetch_sub(loss, Ordering::SeqCst);
            if !self.flagged.load(Ordering::SeqCst) {
                return;
            }
        }
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        if !mode.is_intention() {
            self.hand(&mut state, slot, Some(mode), left);
        }
        self.settle(&mut state, slots, &mut woken);
        drop(state);
        woken.iter().for_each(|park| park.unpark());
    }

    /// Takes a waiter out of the queue, if it is there still. Afterwards it is known for good whether it was granted.
    pub(super) fn leave(&self, slots: &[Slot], slot: u32, held: Option<TableMode>) -> HeldBy {
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        state.waiters.retain(|waiter| waiter.slot != slot);
        let strong = state.strong.iter().find(|(holder, _)| *holder != slot).copied();
        let (is, ix) = self.counts();
        self.settle(&mut state, slots, &mut woken);
        drop(state);
        woken.iter().for_each(|park| park.unpark());
        let others = (is + ix).saturating_sub(u64::from(held.is_some_and(TableMode::is_intention)));
        match (strong, others) {
            (Some((holder, _)), 0) => HeldBy::One(holder),
            (None, 0) => HeldBy::Queue,
            (strong, others) => HeldBy::Shared(others as u32 + u32::from(strong.is_some())),
        }
    }

    /// Whether a request goes with the holders and the first `ahead` waiters, the requester itself excepted.
    fn goes(&self, state: &State, slot: u32, held: Option<TableMode>, mode: TableMode, ahead: usize) -> bool {
        let (is, ix) = self.counts();
        // One's own count is in one's own shard since before this mutex was taken, so it is in the sums.
        let (is, ix) = (is - Self::one(held) % IX_ONE, ix - Self::one(held) / IX_ONE);
        (is == 0 || mode.goes_with(TableMode::IS))
            && (ix == 0 || mode.goes_with(TableMode::IX))
            && state
                .strong
                .iter()
                .all(|(holder, other)| *holder == slot || mode.goes_with(*other))
            && state
                .waiters
                .iter()
                .take(ahead)
                .all(|other| mode.goes_with(other.mode))
    }

    fn hand(&self, state: &mut State, slot: u32, held: Option<TableMode>, mode: Option<TableMode>) {
        let gain = Self::one(mode).wrapping_sub(Self::one(held));
        self.shard(slot).fetch_add(gain, Ordering::SeqCst);
        state.strong.retain(|(holder, _)| *holder != slot);
        if let Some(strong) = mode.filter(|mode| !mode.is_intention()) {
            state.strong.push((slot, strong));
        }
    }

    /// Hands the lock to every waiter that goes with the holders and with those ahead of it, and lowers the flag if it can.
    fn settle(&self, state: &mut State, slots: &[Slot], woken: &mut Vec<Arc<dyn Park>>) {
        let mut at = 0;
        while at < state.waiters.len() {
            let Waiter {
                slot,
                wait,
                held,
                mode,
                ..
            } = state.waiters[at];
            if self.goes(state, slot, held, mode, at) {
                self.hand(state, slot, held, Some(mode));
                slots[slot as usize].grant(wait);
                woken.extend(state.waiters.remove(at).map(|waiter| waiter.park));
            } else {
                at += 1;
            }
        }
        if state.strong.is_empty() && state.waiters.is_empty() {
            self.flagged.store(false, Ordering::SeqCst);
        }
    }

    /// For the detector: whom the waiter has to wait for, holders of intentions excepted; those ahead in the queue
    /// only if `queue`.
    pub(super) fn ahead(&self, slot: u32, queue: bool, out: &mut Vec<u32>) {
        let state = self.state.lock();
        let Some(at) = state.waiters.iter().position(|waiter| waiter.slot == slot) else {
            return;
        };
        let mode = state.waiters[at].mode;
        let others = state.strong.iter().copied();
        let others = others.chain(
            state
                .waiters
                .iter()
                .take(if queue { at } else { 0 })
                .map(|waiter| (waiter.slot, waiter.mode)),
        );
        out.extend(
            others
                .filter(|(other, theirs)| *other != slot && !mode.goes_with(*theirs))
                .map(|(other, _)| other),
        );
    }
}
