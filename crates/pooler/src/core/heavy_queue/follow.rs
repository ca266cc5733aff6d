//! [`Follow`]: where the queries that run truly are, and the thread that brings their parallel workers there.
//!
//! ```text
//!  place (event loop) ─► began ──┬─► SHOW QUEUE                   thread, while a query with workers runs:
//!                                └─► planned with workers? ─────►   look for new ones after 1, 2, 4 .. 250 ms, then every 250 ms;
//!  end of its ticket ────► ended                                      each to the class of its leader and the cores lent to it
//! ```
//!
//! Workers come when the plan first gathers rows, which may be late, and again with each repetition of that part, so the looks go on
//! as long as the query; a look costs one list of the server's children, and the titles of those that are new. The event loops never wait
//! for it.
//!
//! A worker ends with its gathering and serves no other query: nothing is to be moved back.
//!
//! Its lock is held for microseconds, never while a process is looked at, and no other lock is taken under it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use corun_model::cache::coschedule::QueryId;
use corun_model::cache::partition::Class;
use corun_model::units::CpuId;
use corun_net::process::{Backend, Search, SystemProcesses};
use parking_lot::{Condvar, Mutex};

use super::place::Assigned;
use crate::core::shared::Shared;

/// From the start of a query to the first look for its workers, which PostgreSQL starts one to several milliseconds after it.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// The longest time between two looks. Unmeasured: short beside the run time of a query that gains anything from where it runs.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Where a query runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// The core its server process was bound to, if it was.
    pub cpu: Option<CpuId>,
    /// The class of the cache it was put into, if it was.
    pub class: Option<Class>,
    /// Workers brought after it so far.
    pub workers: usize,
}

/// All queries that run.
#[derive(Default)]
pub(super) struct Follow(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    placed: HashMap<QueryId, Placed>,
    hunts: HashMap<QueryId, Hunt>,
    /// Somebody looks.
    runs: bool,
}

/// A query whose workers are looked for.
struct Hunt {
    /// `None` while it is being looked for.
    search: Option<Search>,
    /// The cores that workers were bound to last.
    cpus: Vec<CpuId>,
    due: Instant,
    pause: Duration,
}

impl Follow {
    /// A query runs in this place. With a backend it is planned with workers, which are to follow it.
    pub(super) fn began(&self, shared: &Arc<Shared>, id: QueryId, placed: Placed, backend: Option<&Backend>) {
        let mut state = self.0.state.lock();
        state.placed.insert(id, placed);
        if let Some(backend) = backend {
            let hunt = Hunt {
                search: Some(Search::new(backend)),
                cpus: Vec::new(),
                due: Instant::now() + FIRST_LOOK,
                pause: FIRST_LOOK,
            };
            state.hunts.insert(id, hunt);
            if !state.runs {
                state.runs = self.start(shared);
            }
        }
        self.others_change(&mut state);
    }

    /// It does not any more.
    pub(super) fn ended(&self, id: QueryId) {
        let mut state = self.0.state.lock();
        state.hunts.remove(&id);
        if state.placed.remove(&id).is_some() {
            self.others_change(&mut state);
        }
    }

    /// Where a query runs, if it was placed.
    pub(super) fn of(&self, id: QueryId) -> Option<Placed> {
        self.0.state.lock().placed.get(&id).copied()
    }

    /// Cores are lent anew.
    fn others_change(&self, state: &mut State) {
        if state.hunts.is_empty() && !state.runs {
            return;
        }
        let now = Instant::now();
        for hunt in state.hunts.values_mut() {
            hunt.due = hunt.due.min(now + FIRST_LOOK);
        }
        self.0.woken.notify_one();
    }

    /// Starts the thread. It ends when nobody has workers any more.
    fn start(&self, shared: &Arc<Shared>) -> bool {
        let (inner, shared) = (Arc::clone(&self.0), Arc::downgrade(shared));
        let looks = move || {
            while let Some(id) = inner.next() {
                inner.look(&shared, id);
            }
        };
        let thread = std::thread::Builder::new()
            .name("corun-workers".to_owned())
            .spawn(looks);
        if let Err(error) = &thread {
            tracing::debug!(%error, "parallel workers run where the system puts them");
        }
        thread.is_ok()
    }
}

impl Inner {
    /// Waits for the next query to be looked after; `None`: there are none.
    fn next(&self) -> Option<QueryId> {
        let mut state = self.state.lock();
        loop {
            let first = state.hunts.iter().min_by_key(|(_, hunt)| hunt.due);
            let Some((&id, due)) = first.map(|(id, hunt)| (id, hunt.due)) else {
                // Under the lock: whoever comes next starts another thread.
                state.runs = false;
                return None;
            };
            if due <= Instant::now() {
                return Some(id);
            }
            self.woken.wait_until(&mut state, due);
        }
    }

    /// Looks for workers of a query and moves those that are new, all of them if their cores have changed.
    fn look(&self, shared: &Weak<Shared>, id: QueryId) {
        let Some(shared) = shared.upgrade() else {
            self.state.lock().hunts.clear();
            return;
        };
        let (partitioner, wanted) = (
            shared.heavy_queue.partitioner(),
            shared.heavy_queue.cpus_of_workers(id),
        );
        let (mut search, class, before) = {
            let mut state = self.state.lock();
            let class = state.placed.get(&id).and_then(|placed| placed.class);
            let Some(hunt) = state.hunts.get_mut(&id) else {
                return;
            };
            hunt.pause = (hunt.pause * 2).min(LOOK_EVERY);
            hunt.due = Instant::now() + hunt.pause;
            let Some(search) = hunt.search.take() else { return };
            (search, class, hunt.cpus.clone())
        };
        let new = search.look(&SystemProcesses);
        let cpus = wanted.unwrap_or_default();
        let (mut moved, mut all_bound) = (0, true);
        for worker in search.workers() {
            let is_new = new.contains(worker);
            if (!is_new && cpus == before) || !self.state.lock().hunts.contains_key(&id) {
                continue;
            }
            // It has ended, or stays where it is: a hint is a hint.
            let bound = !cpus.is_empty() && search.bind(&SystemProcesses, *worker, &cpus).is_ok();
            all_bound &= bound;
            let mut classed = false;
            if let (true, Some(partitioner), Some(class)) = (is_new, &partitioner, class)
                && search.is_still(&SystemProcesses, *worker)
            {
                classed = shared.heavy_queue.assign(&**partitioner, worker.pid, class) == Assigned::There;
            }
            moved += usize::from(is_new && (bound || classed));
        }
        let mut state = self.state.lock();
        if let Some(hunt) = state.hunts.get_mut(&id) {
            hunt.search = Some(search);
            // Where one was not bound, the next look binds all of them again.
            hunt.cpus = if all_bound { cpus } else { Vec::new() };
            if let Some(placed) = state.placed.get_mut(&id) {
                placed.workers += moved;
            }
        }
    }
}
