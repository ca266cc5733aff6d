//! `SharedWork`: what the statements of several sessions make, where others find it while it is made and afterwards.

use super::find::hash;
use super::part::{Part, Place};
use super::sources::Source;
use crate::caches::bytes_to_keep;
use corun_model::shared_work::{KeptResults, SeenBefore};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::config::ConfigEntry;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// Parts that are remembered for a second time; about the statements of a few minutes.
const SEEN: usize = 4096;
/// Different settings that are told apart at a time.
const SETTINGS: usize = 16;

/// Parts under way and results that are kept, of all sessions that come from one session state.
pub(crate) struct SharedWork {
    state: Mutex<State>,
}

struct State {
    entries: HashMap<u64, Known>,
    by_key: HashMap<Key, u64>,
    last: u64,
    results: KeptResults<u64>,
    seen: SeenBefore<u64>,
    too_large: SeenBefore<u64>,
    settings: Vec<(u64, Arc<Settings>)>,
    last_settings: u64,
    parts_joined: u64,
    results_reused: u64,
}

type Settings = Vec<(String, Option<String>)>;

struct Known {
    key: Key,
    part: Arc<Part>,
    reservation: MemoryReservation,
}

/// What makes two parts the same.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) part: Arc<LogicalPlan>,
    pub(super) sources: Arc<[Source]>,
    /// Its number among those that are told apart.
    pub(super) settings: u64,
    pub(super) pool: Arc<dyn MemoryPool>,
    /// A part ends with the runtime that runs it.
    pub(super) runtime: Option<tokio::runtime::Id>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
            && self.runtime == other.runtime
            && std::ptr::addr_eq(Arc::as_ptr(&self.pool), Arc::as_ptr(&other.pool))
            && self.part == other.part
            && self.sources == other.sources
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.part.hash(hasher);
        self.settings.hash(hasher);
    }
}

/// Where a reader's rows come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// This statement makes them.
    Here,
    /// Another statement is making them.
    UnderWay,
    /// Another statement has made them.
    Kept,
}

/// What a statement took from others instead of making it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct TakenWork {
    /// Parts that another statement was making.
    pub parts_under_way: usize,
    /// Parts that another statement had made.
    pub parts_kept: usize,
    /// Columns of row groups that others had read.
    pub columns: usize,
}

/// What statements share at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedWorkState {
    /// Parts that run, and results that are kept.
    pub parts: usize,
    /// Results that are kept.
    pub results: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Columns of row groups that are kept.
    pub columns: usize,
    /// Their bytes.
    pub column_bytes: usize,
    /// Parts that were run for whoever else wants them, since the start.
    pub parts_run: u64,
    /// Readers that took the rows of a part which another statement was running.
    pub parts_joined: u64,
    /// Readers that took a result which was kept.
    pub results_reused: u64,
    /// Columns of row groups that scans asked for.
    pub columns_asked: u64,
    /// Of these, how many were kept.
    pub columns_reused: u64,
}

impl Origin {
    /// For `EXPLAIN`, where it is another statement.
    pub(super) fn label(self) -> Option<&'static str> {
        match self {
            Origin::Here => None,
            Origin::UnderWay => Some("run by another statement"),
            Origin::Kept => Some("kept from another statement"),
        }
    }
}

impl fmt::Debug for SharedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

impl SharedWork {
    pub(crate) fn new() -> Self {
        SharedWork {
            state: Mutex::new(State {
                entries: HashMap::new(),
                by_key: HashMap::new(),
                last: 0,
                results: KeptResults::new(0),
                seen: SeenBefore::new(SEEN),
                too_large: SeenBefore::new(SEEN),
                settings: Vec::new(),
                last_settings: 0,
                parts_joined: 0,
                results_reused: 0,
            }),
        }
    }

    /// What there is now.
    pub(crate) fn now(&self) -> SharedWorkState {
        let state = self.state.lock();
        SharedWorkState {
            parts: state.entries.len(),
            results: state.results.len(),
            bytes: state.results.bytes(),
            parts_run: state.last,
            parts_joined: state.parts_joined,
            results_reused: state.results_reused,
            ..SharedWorkState::default()
        }
    }

    /// Forgets all results and which parts were wanted. Who reads a part goes on.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        let all = state.entries.keys().copied().collect();
        let gone = state.remove_all(all);
        state.seen = SeenBefore::new(SEEN);
        state.too_large = SeenBefore::new(SEEN);
        drop(state);
        drop(gone);
    }

    /// Notes that `part` is wanted; whether it was before, and is not known to be too large to keep.
    pub(super) fn seen_before(&self, part: &LogicalPlan) -> bool {
        let hash = hash(part);
        let mut state = self.state.lock();
        let is_too_large = state.too_large.contains(&hash);
        state.seen.again(hash) && !is_too_large
    }

    /// The number of these settings: the same settings have the same one.
    pub(super) fn settings(&self, entries: Vec<ConfigEntry>) -> u64 {
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value));
        let settings: Settings = entries.collect();
        let mut state = self.state.lock();
        if let Some((number, _)) = state.settings.iter().find(|(_, known)| **known == settings) {
            return *number;
        }
        state.last_settings += 1;
        let number = state.last_settings;
        if state.settings.len() == SETTINGS {
            state.settings.remove(0);
        }
        state.settings.push((number, Arc::new(settings)));
        number
    }

    /// A reader of the part that is the same as `key`, which `plan` makes if nobody else does. Results may have `bytes` in all.
    pub(super) fn reader(
        self: &Arc<Self>,
        key: Key,
        plan: &Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
        bytes: usize,
    ) -> (Place, Origin) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let too_many = state.results.resize(bytes_to_keep(bytes, key.pool.as_ref()));
        let mut gone = state.remove_all(too_many);
        if let Some(id) = state.by_key.get(&key).copied()
            && let Some(known) = state.entries.get(&id)
            && known.part.partitions == plan.output_partitioning().partition_count()
            && let Some(place) = known.part.admit()
        {
            let origin = match known.part.is_complete() {
                true => Origin::Kept,
                false => Origin::UnderWay,
            };
            match origin {
                Origin::Kept => state.results_reused += 1,
                _ => state.parts_joined += 1,
            }
            state.results.used(id);
            return (place, origin);
        }
        if let Some(id) = state.by_key.get(&key).copied() {
            gone.extend(state.remove(id));
        }
        state.last += 1;
        let id = state.last;
        let entry = Entry {
            work: Arc::downgrade(self),
            id,
            largest: state.results.largest(),
        };
        let part = Arc::new(Part::new(Arc::clone(plan), Arc::clone(schema), Some(entry)));
        // Nobody has read of it yet.
        let place = part.admit().expect("a part that has not begun has all its rows");
        let reservation = MemoryConsumer::new("results that corun keeps").register(&key.pool);
        state.by_key.insert(key.clone(), id);
        let known = Known {
            key,
            part,
            reservation,
        };
        state.entries.insert(id, known);
        (place, Origin::Here)
    }

    fn remove(&self, id: u64) {
        // Dropped when the lock is free.
        let _gone = self.state.lock().remove(id);
    }
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Known> {
        self.results.remove(id);
        let known = self.entries.remove(&id)?;
        if self.by_key.get(&known.key) == Some(&id) {
            self.by_key.remove(&known.key);
        }
        known.part.keep_no_longer();
        Some(known)
    }

    fn remove_all(&mut self, ids: Vec<u64>) -> Vec<Known> {
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

/// What a part tells of itself.
pub(super) struct Entry {
    work: Weak<SharedWork>,
    id: u64,
    largest: usize,
}

impl Entry {
    /// Bytes of the largest result that is kept.
    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    pub(super) fn is_too_large(&self) {
        let Some(work) = self.work.upgrade() else { return };
        let mut state = work.state.lock();
        if let Some(known) = state.entries.get(&self.id) {
            let hash = hash(&known.key.part);
            state.too_large.again(hash);
        }
        let gone = state.remove(self.id);
        drop(state);
        drop(gone);
    }

    pub(super) fn is_complete(&self, bytes: usize, seconds: f64) {
        let Some(work) = self.work.upgrade() else { return };
        let mut state = work.state.lock();
        let mut gone = Vec::new();
        let Some(known) = state.entries.get_mut(&self.id) else {
            return;
        };
        known.part.hand_over();
        if known.reservation.try_grow(bytes).is_ok() {
            let ids = state.results.offer(self.id, bytes, seconds);
            gone.extend(state.remove_all(ids));
        } else {
            gone.extend(state.remove(self.id));
        }
        drop(state);
        drop(gone);
    }

    pub(super) fn has_failed(&self) {
        if let Some(work) = self.work.upgrade() {
            work.remove(self.id);
        }
    }

    /// All its readers have gone; unless a new one came in between.
    pub(super) fn is_abandoned(&self) {
        let Some(work) = self.work.upgrade() else { return };
        let mut state = work.state.lock();
        let still = state
            .entries
            .get(&self.id)
            .is_some_and(|known| known.part.is_abandoned());
        let gone = match still {
            true => state.remove(self.id),
            false => None,
        };
        drop(state);
        drop(gone);
    }
}
