//! [`ProcessPool`]: what the pools that event loops have for one database, server user and host have together: how many connections
//! there are, which loops have free ones, and which wait.
//!
//! ```text
//!  loop A: a client waits ─► open()? ─ room ─► connects
//!                               └ full ─► hunger() ─► Message::Give to a loop with free connections ─┐
//!  loop B: a server is free ─► hungriest()? ─ somebody ─► leaves its reactor, Message::Server ◄──────┘
//!                                   └ nobody ─► kept, and counted as free
//! ```
//!
//! A loop says that it is hungry before it looks for free connections, and that a connection is free before it looks for hungry loops:
//! one of two that do so at the same time sees the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use corun_model::pooler::hunger::Hunger;
use parking_lot::Mutex;

use crate::config::Effective;
use crate::core::server::Server;
use crate::session::settings::Settings;

/// Pools known at which those that nobody has any more are dropped.
const SWEEP_AT: usize = 1024;

/// Greetings kept at most: as many different sets of start-up settings are validated once.
const GREETINGS_MAX: usize = 256;

/// ParameterStatus: names and values.
pub(crate) type Parameters = Vec<(String, String)>;

/// What a client with certain start-up settings is told.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub parameters: Parameters,
    pub settings: Arc<Settings>,
    /// What the connection was made by that said so.
    pub effective: Arc<Effective>,
}

/// Which servers: the database's entry, the user they are logged in to as, and the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerKey {
    pub database: Arc<str>,
    pub user: Arc<str>,
    pub host: usize,
}

/// A connection on its way from one event loop to another.
pub(crate) struct Given {
    pub key: ServerKey,
    pub server: Box<Server>,
    pub stream: corun_net::reactor::Stream,
    /// What it was made by.
    pub effective: Arc<Effective>,
    /// Its age, and how long nobody has used it: loops have clocks of their own.
    pub age: Duration,
    pub unused: Duration,
    /// RECONNECT orders that the giving loop had seen.
    pub reconnects: u64,
}

/// Pools by their servers.
pub(crate) struct ProcessPools {
    loops: usize,
    pools: Mutex<HashMap<ServerKey, Weak<ProcessPool>>>,
}

impl ProcessPools {
    /// For so many event loops.
    pub fn new(loops: usize) -> Self {
        Self {
            loops,
            pools: Mutex::default(),
        }
    }

    /// The pool of these servers.
    pub fn of(&self, key: ServerKey) -> Arc<ProcessPool> {
        let mut pools = self.pools.lock();
        if let Some(known) = pools.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        if pools.len() >= SWEEP_AT {
            pools.retain(|_, pool| pool.strong_count() > 0);
        }
        let made = self.alone();
        pools.insert(key, Arc::downgrade(&made));
        made
    }

    /// A pool that no other loop knows of.
    pub fn alone(&self) -> Arc<ProcessPool> {
        Arc::new(ProcessPool {
            state: Mutex::new(State {
                servers: 0,
                connecting: 0,
                beside: 0,
                hungry: vec![None; self.loops],
            }),
            hungry: AtomicUsize::new(0),
            idle: (0..self.loops).map(|_| AtomicUsize::new(0)).collect(),
            greetings: Mutex::default(),
        })
    }
}

/// One of them.
pub(crate) struct ProcessPool {
    state: Mutex<State>,
    /// Loops that are hungry.
    hungry: AtomicUsize,
    /// Free connections of each loop.
    idle: Vec<AtomicUsize>,
    /// What clients are told, by what they ask for at start-up.
    greetings: Mutex<HashMap<Arc<Settings>, Arc<Greeting>>>,
}

struct State {
    /// Connections, those on their way to the server or to another loop included.
    servers: usize,
    /// Of these, not logged in yet.
    connecting: usize,
    /// Connections that no client gets: so many more may be made.
    beside: usize,
    /// Of each loop, what its clients wait for while there is no room for another connection.
    hungry: Vec<Option<Hunger>>,
}

impl State {
    /// The loop whose clients have waited longest, but for one.
    fn hungriest(&self, except: usize) -> Option<(Hunger, usize)> {
        let others = self
            .hungry
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != except);
        others
            .filter_map(|(index, hunger)| Some(((*hunger)?, index)))
            .min_by_key(|(hunger, index)| (hunger.since, *index))
    }
}

impl ProcessPool {
    /// Counts a connection that is to be made, unless there are `most`.
    pub fn open(&self, most: usize) -> bool {
        let mut state = self.state.lock();
        let room = state.servers < most.saturating_add(state.beside);
        if room {
            state.servers += 1;
            state.connecting += 1;
        }
        room
    }

    /// A connection that was counted is logged in.
    pub fn connected(&self) {
        let mut state = self.state.lock();
        state.connecting = state.connecting.saturating_sub(1);
    }

    /// A connection has gone. Returns the loop that is to be told that there is room.
    pub fn closed(&self, was_connecting: bool) -> Option<usize> {
        let mut state = self.state.lock();
        state.servers = state.servers.saturating_sub(1);
        state.connecting = state.connecting.saturating_sub(usize::from(was_connecting));
        state.hungriest(usize::MAX).map(|(_, index)| index)
    }

    /// Connections of all loops for clients, those on their way included.
    pub fn servers(&self) -> usize {
        let state = self.state.lock();
        state.servers.saturating_sub(state.beside)
    }

    /// One connection more that no client gets. Returns the loop that is to be told that there is room.
    pub fn one_more_beside(&self) -> Option<usize> {
        let mut state = self.state.lock();
        state.beside += 1;
        state.hungriest(usize::MAX).map(|(_, index)| index)
    }

    /// One connection less that no client gets.
    pub fn one_less_beside(&self) {
        let mut state = self.state.lock();
        state.beside = state.beside.saturating_sub(1);
    }

    /// Of these, those that are logged in and are for clients.
    pub fn connected_servers(&self) -> usize {
        let state = self.state.lock();
        state.servers.saturating_sub(state.connecting + state.beside)
    }

    /// Clients of a loop wait for a connection and there is no room for one more; `None`: nobody does any more. Returns another loop with a
    /// free connection, which can be asked for it.
    pub fn hunger(&self, event_loop: usize, hunger: Option<Hunger>) -> Option<usize> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.hungry[event_loop], hunger);
        match (before, hunger) {
            (None, Some(_)) => self.hungry.fetch_add(1, Ordering::SeqCst),
            (Some(_), None) => self.hungry.fetch_sub(1, Ordering::SeqCst),
            _ => 0,
        };
        drop(state);
        hunger?;
        let free = |index: &usize| self.idle[*index].load(Ordering::SeqCst);
        let others = (0..self.idle.len()).filter(|&index| index != event_loop);
        others.filter(|index| free(index) > 0).max_by_key(free)
    }

    /// Whether a loop has said that it is hungry.
    pub fn is_hungry(&self, event_loop: usize) -> bool {
        self.hungry.load(Ordering::SeqCst) > 0 && self.state.lock().hungry[event_loop].is_some()
    }

    /// Another loop that a free connection should go to `now`; `own` is what this loop's own clients wait for.
    #[inline]
    pub fn hungriest(&self, event_loop: usize, own: Option<Hunger>, now: Duration) -> Option<usize> {
        if self.hungry.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let (hunger, index) = self.state.lock().hungriest(event_loop)?;
        own.is_none_or(|own| hunger.comes_before(&own, now))
            .then_some(index)
    }

    /// A connection is on its way to a hungry loop, which will say what it waits for then.
    pub fn fed(&self, event_loop: usize) {
        if let Some(hunger) = &mut self.state.lock().hungry[event_loop] {
            hunger.servers += 1;
        }
    }

    /// What clients with these start-up settings are told, if a server that was made by the same configuration has said so.
    pub fn greeting(&self, asked: &Settings, effective: &Effective) -> Option<Arc<Greeting>> {
        let greetings = self.greetings.lock();
        let known = greetings.get(asked)?;
        (!known.effective.moves(effective)).then(|| Arc::clone(known))
    }

    /// Keeps what clients with these start-up settings are told.
    pub fn keep_greeting(&self, asked: Arc<Settings>, greeting: Arc<Greeting>) {
        let mut greetings = self.greetings.lock();
        if greetings.len() >= GREETINGS_MAX {
            greetings.clear();
        }
        greetings.insert(asked, greeting);
    }

    /// Servers are to be asked again what clients are told.
    pub fn forget_greetings(&self) {
        self.greetings.lock().clear();
    }

    /// Connections have become free on a loop, or have ceased to be.
    pub fn count_idle(&self, event_loop: usize, more: usize, less: usize) {
        let idle = &self.idle[event_loop];
        idle.fetch_add(more, Ordering::SeqCst);
        idle.fetch_sub(less, Ordering::SeqCst);
    }
}

/// The free connections of one loop's pool; the last was used last.
pub(crate) struct Idle {
    servers: Vec<usize>,
    event_loop: usize,
    all: Arc<ProcessPool>,
}

impl Idle {
    /// None yet.
    pub fn new(event_loop: usize, all: Arc<ProcessPool>) -> Self {
        Self {
            servers: Vec::new(),
            event_loop,
            all,
        }
    }

    pub fn event_loop(&self) -> usize {
        self.event_loop
    }

    /// What the loops have together.
    pub fn all(&self) -> &Arc<ProcessPool> {
        &self.all
    }

    pub fn push(&mut self, server: usize) {
        self.servers.push(server);
        self.all.count_idle(self.event_loop, 1, 0);
    }

    pub fn pop(&mut self) -> Option<usize> {
        let server = self.servers.pop()?;
        self.all.count_idle(self.event_loop, 0, 1);
        Some(server)
    }

    /// Takes out the one at a place.
    pub fn remove(&mut self, at: usize) -> usize {
        self.all.count_idle(self.event_loop, 0, 1);
        self.servers.remove(at)
    }

    /// Takes one out, if it is there.
    pub fn forget(&mut self, server: usize) {
        if let Some(at) = self.servers.iter().position(|&idle| idle == server) {
            self.remove(at);
        }
    }

    /// Takes all out.
    pub fn take(&mut self) -> Vec<usize> {
        let servers = std::mem::take(&mut self.servers);
        self.all.count_idle(self.event_loop, 0, servers.len());
        servers
    }
}

impl std::ops::Deref for Idle {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.servers
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 0;
    const B: usize = 1;
    const C: usize = 2;

    const NOW: Duration = Duration::from_secs(10);

    fn second(number: u64) -> Option<Hunger> {
        Some(Hunger {
            since: Duration::from_secs(number),
            waiting: 1,
            servers: 0,
        })
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let pool = ProcessPools::new(3).alone();
        assert!(pool.open(2) && pool.open(2) && !pool.open(2));
        assert!(pool.open(3), "a reserve");
        assert_eq!((pool.servers(), pool.connected_servers()), (3, 0));
        pool.connected();
        assert_eq!(pool.connected_servers(), 1);
        assert_eq!(pool.closed(false), None);
        assert_eq!(pool.closed(true), None);
        assert_eq!((pool.servers(), pool.connected_servers()), (1, 0));
        assert!(pool.open(2));
    }

    #[test]
    fn a_connection_beside_makes_room_for_who_has_waited_longest() {
        let pool = ProcessPools::new(3).alone();
        assert!(pool.open(1) && !pool.open(1));
        assert_eq!(
            (pool.hunger(B, second(5)), pool.hunger(C, second(3))),
            (None, None)
        );
        assert_eq!(pool.one_more_beside(), Some(C));
        assert!(pool.open(1) && !pool.open(1));
        pool.one_less_beside();
        assert_eq!(pool.servers(), 2);
    }

    #[test]
    fn who_has_waited_longest_is_next() {
        let pool = ProcessPools::new(3).alone();
        assert_eq!(pool.hungriest(A, None, NOW), None);
        assert_eq!(pool.hunger(B, second(5)), None, "nobody has a free one");
        assert_eq!(pool.hunger(C, second(3)), None);
        assert_eq!(pool.hungriest(A, None, NOW), Some(C));
        assert_eq!(
            pool.hungriest(A, second(3), NOW),
            None,
            "its own has waited as long"
        );
        assert_eq!(pool.hungriest(A, second(4), NOW), None, "nearly as long");
        assert_eq!(pool.hungriest(A, second(5), NOW), Some(C));
        assert_eq!(pool.hungriest(C, second(4), NOW), None);
        assert_eq!(pool.closed(false), Some(C));
        assert_eq!(pool.hunger(C, None), None);
        assert!(pool.is_hungry(B) && !pool.is_hungry(C));
        assert_eq!(pool.hungriest(A, None, NOW), Some(B));
    }

    #[test]
    fn free_connections_are_counted_where_they_are() {
        let pool = ProcessPools::new(3).alone();
        let (mut of_a, mut of_b) = (Idle::new(A, Arc::clone(&pool)), Idle::new(B, Arc::clone(&pool)));
        of_a.push(7);
        of_b.push(1);
        of_b.push(2);
        assert_eq!(pool.hunger(C, second(1)), Some(B), "it has most");
        assert_eq!(of_b.take(), [1, 2]);
        assert_eq!(pool.hunger(C, second(1)), Some(A));
        of_a.forget(8);
        assert_eq!(pool.hunger(C, second(1)), Some(A));
        of_a.forget(7);
        assert_eq!(pool.hunger(C, second(1)), None);
        of_a.push(7);
        drop(of_a);
        assert_eq!(pool.hunger(C, second(1)), None);
    }

    #[test]
    fn loops_find_the_same_pool() {
        let pools = ProcessPools::new(2);
        let key = |database: &str| ServerKey {
            database: database.into(),
            user: "u".into(),
            host: 0,
        };
        let a = pools.of(key("a"));
        assert!(a.open(1));
        assert_eq!(pools.of(key("a")).servers(), 1);
        assert_eq!(pools.of(key("b")).servers(), 0);
    }
}
