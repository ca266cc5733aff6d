//! Statements to the core that has their keys (paper 004, section 2): core pools, who may take whose work, and when.
//!
//! ```text
//!  pool of a host ─┬─ core pool 0: servers bound to the cores of worker 0 ◄─ keys of its range
//!                  ├─ core pool 1                                         ◄─ keys of its range
//!                  └─ ...        without a key: any core pool with a free server, this loop's own cores first
//! ```
//!
//! A core pool is a [`Pool`] of its own with a part of the size. A statement waits for its own core pool a bounded time while another has a free
//! server (`range_wait_max_us`); then the free one takes it. Where dispatch is off for now, every core pool takes from every other at once,
//! and all servers are bound as if there were no ranges. Which core pool a statement gets never changes what it returns.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_model::pooler::ranges::AutoDispatch;
use corun_model::units::CpuId;
use corun_net::reactor::Reactor;

use crate::config::{Dispatch, Effective, PoolMode, ReplicaDispatch, Switch};
use crate::core::classify::classifier::Classifier;
use crate::core::classify::request::{First, Request, look_up};
use crate::core::client::Client;
use crate::core::client::wait::WaitsIn;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::pool::{Pool, PoolKey, Waiting};
use crate::core::ranges::{Key, LoopRanges, Ranges};
use crate::core::server::connect::Attempt;
use crate::core::shared::Shared;
use crate::understand::Understood;
use crate::understand::keys::{Literals, parameters_of_bind};
use corun_wire::{HEADER_BYTES, frontend, header, read};

/// Messages looked at for a key: what follows goes where the beginning went.
const MESSAGES_MAX: usize = 16;
/// Statements in an interval below which it says nothing about whether dispatch pays.
const STATEMENTS_MIN: u64 = 200;

/// What one event loop knows of the ranges of a database.
pub(in crate::core) struct Dispatcher {
    pub ranges: LoopRanges,
    auto: AutoDispatch,
    /// Statements and their time until the last judgement.
    seen: (u64, Duration),
    /// For random dispatch.
    turn: u64,
}

/// What an event loop has for ranges of keys.
#[derive(Default)]
pub(in crate::core) struct LoopDispatch {
    /// The cores of all loops, in order: the workers that ranges of keys belong to.
    pub cpus: Vec<CpuId>,
    /// What is known of ranges of keys, by database; `None`: it has none.
    pub dispatchers: HashMap<Arc<str>, Option<Dispatcher>>,
    /// When somebody who waits may go with a server of another core pool.
    pub overflow_at: Option<Duration>,
    /// Why a backend was not bound to its core, lately.
    pub unbound_because: String,
}

/// Where a client's request goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct CorePool {
    pub pool: usize,
    /// Of its key; `None`: it has none, and may go to any other core pool as well.
    pub domain: Option<usize>,
}

impl Dispatcher {
    fn new(shared: Arc<Ranges>) -> Self {
        Self {
            ranges: LoopRanges::new(shared),
            auto: AutoDispatch::new(),
            seen: (0, Duration::ZERO),
            turn: 0,
        }
    }

    /// Whether keys decide now.
    pub fn is_on(&self, dispatch: Dispatch) -> bool {
        match dispatch {
            Dispatch::Range | Dispatch::Random => true,
            Dispatch::Auto => self.auto.on(),
            Dispatch::Off => false,
        }
    }

    /// The worker for a key.
    fn worker(&mut self, key: &Key, client: u64, dispatch: Dispatch) -> usize {
        if dispatch == Dispatch::Random {
            self.turn = self.turn.wrapping_add(1);
            // Fibonacci hashing of the client and its turn: even, and not in step with anything.
            let mixed = (client ^ self.turn << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let owners = self.ranges.owners(key.domain) as u64;
            return ((mixed >> 33) % owners.max(1)) as usize;
        }
        key.worker
    }
}

/// Where the first statement with a key among a request's messages belongs.
pub(in crate::core) fn key_of(
    ranges: &mut LoopRanges,
    client: &Client,
    classifier: &mut Classifier,
    first: &mut First,
    bytes: &[u8],
) -> Option<Key> {
    let mut at = 0;
    let mut parsed: Vec<(&[u8], Arc<Understood>, &[u8])> = Vec::new();
    for number in 0..MESSAGES_MAX {
        let head = header(&bytes[at..]).ok().flatten()?;
        let message = bytes.get(at..at + head.total)?;
        let body = &message[HEADER_BYTES..];
        match head.tag {
            frontend::QUERY if number == 0 => {
                let sql = read::query(body)?;
                let understood = first.understood(client, classifier, bytes)?;
                let plan = understood.keys.as_ref()?;
                let resolved = ranges.resolve(plan)?;
                let kind = ranges.kind(resolved.domain);
                let span = plan.span(resolved.column, kind, &Literals::of(sql));
                return ranges.locate(resolved.domain, span);
            }
            frontend::PARSE => {
                let parse = read::parse(body)?;
                let understood = match number {
                    0 => first.understood(client, classifier, bytes).cloned(),
                    _ => look_up(client, classifier, message),
                };
                parsed.push((parse.name, understood?, parse.sql));
            }
            frontend::BIND => {
                let (_, name, _) = read::bind(body)?;
                let here = parsed.iter().rev().find(|(known, _, _)| *known == name);
                let (understood, sql) = match here {
                    Some((_, understood, sql)) => (understood, *sql),
                    None => {
                        let statement = &client.statements.get(name)?.statement;
                        (&statement.understood, &*statement.sql)
                    }
                };
                if let Some(plan) = &understood.keys
                    && let Some(resolved) = ranges.resolve(plan)
                    && let Some(values) = parameters_of_bind(body)
                {
                    let kind = ranges.kind(resolved.domain);
                    let span = plan.span(resolved.column, kind, &(values, Literals::of(sql)));
                    if let Some(key) = ranges.locate(resolved.domain, span) {
                        return Some(key);
                    }
                }
            }
            frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE | frontend::FLUSH => {}
            _ => return None,
        }
        at += head.total;
    }
    None
}

impl Shared {
    /// The ranges of a database by its configuration of now; what was counted stays while that says the same.
    fn ranges(&self, database: &Arc<str>, workers: usize) -> Option<Arc<Ranges>> {
        let files = self.files();
        let mut all = self.ranges.lock();
        if let Some(known) = all.get(database)
            && known.is_of(&files.config, database)
        {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(Ranges::of(&files.config, database, workers)?);
        all.insert(Arc::clone(database), Arc::clone(&made));
        Some(made)
    }
}

impl<R: Reactor> EventLoop<R> {
    /// How many core pools a pool of this size has: one, unless keys of its database have ranges.
    fn core_pool_count(&self, effective: &Effective, size: usize) -> usize {
        let ranges = &self.files.config.ranges;
        let ranged = effective.dispatch != Dispatch::Off
            && effective.pool_mode == PoolMode::Transaction
            && self.files.config.corun.bind_backends != Switch::Off
            // Only a process of this machine can be bound to a core.
            && effective.hosts.iter().chain(&effective.replicas).all(|host| host.host.is_here())
            && ranges.values().any(|range| range.database == effective.database);
        if ranged {
            self.ranges.cpus.len().min(size).max(1)
        } else {
            1
        }
    }

    /// Makes a pool's core pools what its settings say: the pool itself is the first. `size` and `reserve` are all core pools' together.
    pub(in crate::core) fn arrange_core_pools(&mut self, index: usize, size: usize, reserve: usize) {
        let Some(pool) = self.pools.get(index) else {
            return;
        };
        let effective = Arc::clone(&pool.effective);
        let key = pool.key.clone();
        let core_pools = self.core_pool_count(&effective, size);
        let mut all = vec![index];
        for core_pool in 1..core_pools {
            let key = PoolKey {
                core_pool,
                ..key.clone()
            };
            all.push(self.core_pool_at(key, &effective, index));
        }
        let old = self
            .pools
            .get(index)
            .map(|pool| pool.core_pools.clone())
            .unwrap_or_default();
        for &core_pool in &all {
            if let Some(pool) = self.pools.get_mut(core_pool) {
                (pool.size, pool.reserve) = (size, reserve);
                pool.share = match core_pools {
                    1 => usize::MAX,
                    several => (size + reserve).div_ceil(several).max(1),
                };
            }
        }
        // Core pools there were more of: what waits there goes on, what is free is closed in time.
        for core_pool in old.into_iter().filter(|core_pool| !all.contains(core_pool)) {
            if let Some(pool) = self.pools.get_mut(core_pool) {
                let waiting = pool.waiting.drain();
                pool.share = 0;
                self.todo.extend(pool.idle.take().into_iter().map(Todo::Free));
                for (_, server) in self
                    .servers
                    .iter_mut()
                    .filter(|(_, server)| server.pool == core_pool)
                {
                    server.life.closing = Some("the pool has fewer core pools");
                }
                for waiting in waiting {
                    self.move_waiting(waiting, index);
                }
            }
        }
        if let Some(pool) = self.pools.get_mut(index) {
            pool.core_pools = if all.len() > 1 { all } else { Vec::new() };
        }
        self.open_dispatcher(index);
    }

    fn move_waiting(&mut self, waiting: Waiting, to: usize) {
        if let (Some(client), Some(pool)) = (self.clients.get_mut(waiting.client), self.pools.get_mut(to)) {
            client.wait.place = WaitsIn::Pool(to);
            pool.waiting.push(waiting);
            self.todo.push_back(Todo::Connect(to));
        }
    }

    /// Finds out what is known of the ranges of a pool's database.
    pub(in crate::core) fn open_dispatcher(&mut self, pool: usize) {
        let Some(pool) = self.pools.get(pool) else {
            return;
        };
        if !self.ranges.dispatchers.contains_key(&pool.key.database) {
            let database = Arc::clone(&pool.key.database);
            let shared = self.shared.ranges(&database, self.ranges.cpus.len().max(1));
            self.ranges
                .dispatchers
                .insert(database, shared.map(Dispatcher::new));
        }
    }

    fn dispatcher(&self, pool: &Pool) -> Option<&Dispatcher> {
        self.ranges.dispatchers.get(&pool.key.database)?.as_ref()
    }

    /// Where a client's request belongs, if its keys decide anything now.
    pub(in crate::core) fn key_of_request(&mut self, request: &mut Request<'_>) -> Option<Key> {
        let client = self.clients.get(request.client)?;
        let pool = self.pools.get(client.pool)?;
        let dispatcher = self.ranges.dispatchers.get_mut(&pool.key.database)?.as_mut()?;
        let effective = &pool.effective;
        let core_pools = !pool.core_pools.is_empty() && dispatcher.is_on(effective.dispatch);
        let copies = !effective.replicas.is_empty() && effective.replica_dispatch == ReplicaDispatch::Range;
        if !core_pools && !copies {
            return None;
        }
        let key = key_of(
            &mut dispatcher.ranges,
            client,
            &mut self.classifier,
            &mut request.first,
            request.bytes,
        )?;
        dispatcher.ranges.count(&key);
        Some(key)
    }

    /// Which of a pool's core pools a client's request goes to.
    pub(in crate::core) fn core_pool(&mut self, pool: usize, index: usize, key: Option<Key>) -> CorePool {
        let decide = self.keys_decide(pool);
        let Some(found) = self.pools.get(pool).filter(|pool| !pool.core_pools.is_empty()) else {
            return CorePool { pool, domain: None };
        };
        if let (Some(key), Some(client)) = (key.filter(|_| decide), self.clients.get(index))
            && let Some(Some(dispatcher)) = self.ranges.dispatchers.get_mut(&found.key.database)
        {
            let worker = dispatcher.worker(&key, client.id, found.effective.dispatch);
            let core_pool = worker * found.core_pools.len() / self.ranges.cpus.len().max(1);
            return CorePool {
                pool: found.core_pools[core_pool.min(found.core_pools.len() - 1)],
                domain: Some(key.domain),
            };
        }
        CorePool {
            pool: self.least_loaded(&found.core_pools),
            domain: None,
        }
    }

    /// The core pool with most to spare, those bound to this loop's own cores first.
    fn least_loaded(&self, core_pools: &[usize]) -> usize {
        let load = |&core_pool: &usize| {
            let Some(pool) = self.pools.get(core_pool) else {
                return (i64::MAX, true);
            };
            let spare =
                pool.idle.len() + (pool.share.min(pool.size) + pool.beside).saturating_sub(pool.servers);
            let load = pool.waiting.len() as i64 - spare as i64;
            let own = self.cpu_of_core_pool(&pool.key, core_pools.len());
            (
                load.max(-1),
                own.is_none_or(|cpu| !self.place.cpus.contains(&cpu)),
            )
        };
        core_pools.iter().copied().min_by_key(load).unwrap_or(0)
    }

    /// The core of a core pool.
    fn cpu_of_core_pool(&self, key: &PoolKey, core_pools: usize) -> Option<CpuId> {
        let at = key.core_pool * self.ranges.cpus.len() / core_pools.max(1);
        self.ranges.cpus.get(at).copied()
    }

    /// The core pools a pool is one of; empty where it is alone.
    pub(in crate::core) fn core_pools_beside(&self, pool: usize) -> &[usize] {
        let first = self.pools.get(pool).map_or(pool, |pool| pool.first_core_pool);
        self.pools.get(first).map_or(&[], |pool| &pool.core_pools)
    }

    /// The cores a server of this pool is to be bound to now: those of its core pool while keys decide, otherwise this loop's.
    pub(in crate::core) fn cores_for(&self, pool: usize) -> Vec<CpuId> {
        let core_pools = self.core_pools_beside(pool);
        if let Some(own) = self.pools.get(pool).filter(|_| !core_pools.is_empty())
            && self.keys_decide(own.first_core_pool)
        {
            let workers = self.ranges.cpus.len();
            let first = |core_pool: usize| (core_pool * workers / core_pools.len()).min(workers);
            return self.ranges.cpus[first(own.key.core_pool)..first(own.key.core_pool + 1)].to_vec();
        }
        self.place.cpus.clone()
    }

    /// Somebody who waits in another core pool and may go with a free server of this pool.
    pub(in crate::core) fn take_from_others(&mut self, pool: usize) -> Option<Waiting> {
        let core_pools = self.core_pools_beside(pool).to_vec();
        if core_pools.is_empty() {
            return None;
        }
        let bound = self.overflow_after(pool);
        let now = self.now;
        let may = |waiting: &Waiting| waiting.domain.is_none() || now.saturating_sub(waiting.since) >= bound;
        let oldest = |core_pool: usize, may: &dyn Fn(&Waiting) -> bool| {
            let pool = self.pools.get(core_pool)?;
            pool.waiting
                .iter()
                .filter(|waiting| may(waiting))
                .map(|waiting| waiting.since)
                .min()
        };
        let others = || core_pools.iter().copied().filter(|&core_pool| core_pool != pool);
        let best = others()
            .filter_map(|core_pool| oldest(core_pool, &may).map(|since| (since, core_pool)))
            .min();
        let Some((_, from)) = best else {
            let next = others()
                .filter_map(|core_pool| oldest(core_pool, &|_| true))
                .min();
            if let Some(since) = next {
                self.look_for_overflow(since + bound);
            }
            return None;
        };
        let taken = self.pools.get_mut(from)?.waiting.take(may)?;
        if let Some(domain) = taken.domain
            && let Some(pool) = self.pools.get(from)
            && let Some(dispatcher) = self.dispatcher(pool)
            && let Some(domain) = dispatcher.ranges.shared.domains.get(domain)
        {
            domain.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        Some(taken)
    }

    /// Makes a connection in another core pool for those that wait in one that has all of its own: what is free there takes them.
    pub(in crate::core) fn connect_beside(&mut self, reactor: &mut R, index: usize) {
        let Some(pool) = self.pools.get(index) else {
            return;
        };
        let size = pool.size;
        let core_pools = self.core_pools_beside(index);
        let of = |&core_pool: &usize| self.pools.get(core_pool).map(|pool| (core_pool, pool));
        let connecting: usize = core_pools
            .iter()
            .filter_map(of)
            .map(|(_, pool)| pool.connecting)
            .sum();
        let idle = core_pools
            .iter()
            .filter_map(of)
            .any(|(_, pool)| !pool.idle.is_empty());
        if pool.paused || idle || pool.waiting.len() <= connecting {
            return;
        }
        let room = core_pools.iter().filter_map(of).find(|(_, pool)| {
            let failed = pool.failed.as_ref().is_some_and(|(_, until)| self.now < *until);
            pool.has_share() && pool.waiting.is_empty() && !pool.paused && !failed
        });
        if let Some((core_pool, _)) = room
            && self.connect(reactor, core_pool, size) == Attempt::Begun
        {
            self.look_for_overflow(self.now + self.overflow_after(index));
        }
    }

    /// How long a statement waits for its own core pool while another is free.
    fn overflow_after(&self, pool: usize) -> Duration {
        let first = self.pools.get(pool).map_or(pool, |pool| pool.first_core_pool);
        if self.keys_decide(first) {
            Duration::from_micros(u64::from(self.files.config.corun.range_wait_max_us))
        } else {
            Duration::ZERO
        }
    }

    /// Sees to it that waiting clients are looked at again by then.
    pub(in crate::core) fn look_for_overflow(&mut self, at: Duration) {
        self.ranges.overflow_at = Some(self.ranges.overflow_at.map_or(at, |known| known.min(at)));
    }

    /// A client has begun to wait in a core pool: somebody free in another may take it, at once or soon.
    pub(in crate::core) fn offer_to_others(&mut self, pool: usize, keyed: bool) {
        let core_pools = self.core_pools_beside(pool);
        let others = core_pools.iter().copied().filter(|&core_pool| core_pool != pool);
        let free = others
            .filter_map(|core_pool| self.pools.get(core_pool))
            .find_map(|pool| pool.idle.first().copied());
        if free.is_none() {
            return;
        }
        let after = if keyed {
            self.overflow_after(pool)
        } else {
            Duration::ZERO
        };
        self.look_for_overflow(self.now + after);
    }

    /// A server of a core pool has become free: those that wait in others may take it once they have waited long enough. Their own may
    /// have no server, and never get one while the pool is full.
    pub(in crate::core) fn offer_to_waiting(&mut self, pool: usize) {
        let waits = |&core_pool: &usize| core_pool != pool && self.has_waiting(core_pool);
        if self.core_pools_beside(pool).iter().any(waits) {
            self.look_for_overflow(self.now + self.overflow_after(pool));
        }
    }

    /// Gives free servers to those that have waited long enough in other core pools.
    pub(in crate::core) fn overflow_tick(&mut self) {
        if self.ranges.overflow_at.is_none_or(|at| self.now < at) {
            return;
        }
        self.ranges.overflow_at = None;
        let free: Vec<usize> = self
            .pools
            .iter_mut()
            .filter(|(_, pool)| pool.key.core_pool > 0 || !pool.core_pools.is_empty())
            .flat_map(|(_, pool)| pool.idle.take())
            .collect();
        self.todo.extend(free.into_iter().map(Todo::Free));
    }

    /// Several times a second: counts go together, buckets move, and `auto` is judged.
    pub(in crate::core) fn dispatch_tick(&mut self) {
        if self.ranges.dispatchers.is_empty() {
            return;
        }
        let first = self.index == 0;
        let shared = Arc::clone(&self.shared);
        for (database, dispatcher) in &mut self.ranges.dispatchers {
            let Some(dispatcher) = dispatcher else {
                continue;
            };
            dispatcher.ranges.tick();
            if first {
                dispatcher.ranges.shared.rebalance(shared.started.elapsed());
            }
            let (mut statements, mut took) = (0, Duration::ZERO);
            for (_, pool) in self
                .pools
                .iter()
                .filter(|(_, pool)| pool.key.database == *database)
            {
                statements += pool.totals.queries;
                took += pool.totals.query_time + pool.totals.wait_time;
            }
            let (before, then) = std::mem::replace(&mut dispatcher.seen, (statements, took));
            let (done, time) = (statements.saturating_sub(before), took.saturating_sub(then));
            if done >= STATEMENTS_MIN {
                let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                dispatcher.auto.interval(dispatcher.auto.on(), done, nanoseconds);
            }
        }
    }

    /// Whether keys decide now where requests of a pool go.
    pub(in crate::core) fn keys_decide(&self, pool: usize) -> bool {
        let Some(pool) = self.pools.get(pool).filter(|pool| !pool.core_pools.is_empty()) else {
            return false;
        };
        self.dispatcher(pool)
            .is_some_and(|dispatcher| dispatcher.is_on(pool.effective.dispatch))
    }

    /// Everything known of ranges is to be asked anew: the configuration changed.
    pub(in crate::core) fn forget_ranges(&mut self) {
        self.ranges.dispatchers.clear();
    }
}
