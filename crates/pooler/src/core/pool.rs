//! [`Pool`]: the server connections of one database and user on one event loop, and the clients that wait for one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::balance::Balance;
use super::cohorts::Queue;
use super::statistics::{Times, Totals};
use crate::config::{Effective, PoolMode};
use crate::session::settings::Settings;
use crate::understand::Shape;
use crate::wire::error::{Refusal, code};

/// What pools are told apart by: the database and user as clients name them, and which of the database's hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub database: Arc<str>,
    pub user: Arc<str>,
    /// 0: the primary's; the others: replicas, in the order of the configuration.
    pub host: usize,
    /// 0: the first core pool, or the only one; see `dispatch`.
    pub core_pool: usize,
}

/// A client in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub client: usize,
    pub shape: Shape,
    pub since: Duration,
    /// The domain of its key, where it waits in the core pool that has it; otherwise it may go with any core pool's server.
    pub domain: Option<usize>,
    /// The queue of heavy queries has given it a core, which does nothing until it has a server.
    pub has_core: bool,
}

/// Greetings kept at most: as many different sets of start-up settings are validated once.
const GREETINGS_MAX: usize = 256;

/// Connections and clients of a database and user.
pub(super) struct Pool {
    pub key: PoolKey,
    pub effective: Arc<Effective>,
    /// Share of the pool's size that this event loop has.
    pub size: usize,
    pub reserve: usize,
    /// Pools that share its size, itself the first; empty where it is alone. The first core pool's only.
    pub core_pools: Vec<usize>,
    /// The pool that has the list.
    pub first_core_pool: usize,
    // Connections.
    /// Free ones; the last was used last.
    pub idle: Vec<usize>,
    /// All, those that connect included.
    pub servers: usize,
    pub connecting: usize,
    // Clients.
    pub clients: usize,
    pub waiting: Queue,
    // State.
    pub paused: bool,
    pub disabled: bool,
    /// The configuration has its database no more.
    pub gone: bool,
    /// The last attempt to connect failed: why, and when the next may be made.
    pub failed: Option<(Refusal, Duration)>,
    /// What clients are told, by what they ask for at start-up.
    pub greetings: HashMap<Arc<Settings>, Arc<Greeting>>,
    /// Which of the database's hosts is connected to next.
    pub hosts: Balance,
    /// Since when nobody has used it.
    pub unused_since: Option<Duration>,
    pub totals: Totals,
    /// Queries by the number of the host that answered; of several `host`s without replicas.
    pub queries_of: Vec<u64>,
    pub times: Times,
}

/// ParameterStatus: names and values.
pub(super) type Parameters = Vec<(String, String)>;

/// What a client with certain start-up settings is told.
#[derive(Debug)]
pub(super) struct Greeting {
    pub parameters: Parameters,
    pub settings: Arc<Settings>,
}

impl Pool {
    pub fn new(key: PoolKey, effective: Arc<Effective>, size: usize, reserve: usize, queue: Queue) -> Self {
        let hosts = Balance::of(&effective);
        let several = effective.hosts.len();
        Self {
            key,
            effective,
            size,
            reserve,
            core_pools: Vec::new(),
            first_core_pool: usize::MAX,
            idle: Vec::new(),
            servers: 0,
            connecting: 0,
            clients: 0,
            waiting: queue,
            paused: false,
            disabled: false,
            gone: false,
            failed: None,
            greetings: HashMap::new(),
            hosts,
            unused_since: None,
            totals: Totals::default(),
            queries_of: vec![0; several],
            times: Times::default(),
        }
    }

    /// Connections kept without work, of which each of `loops` has its part.
    pub fn minimum(&self, loops: usize) -> usize {
        (self.effective.min_pool_size as usize)
            .div_ceil(loops)
            .min(self.size)
    }

    /// Takes a client out of the queue.
    pub fn unqueue(&mut self, client: usize) {
        self.waiting.remove(client);
    }

    /// Why it serves a client no more, or not yet: `DISABLE` keeps out those that are `entering`.
    pub fn refusal(&self, entering: bool) -> Option<Refusal> {
        let name = &self.key.database;
        if self.gone {
            Some(removed(name))
        } else if self.disabled && entering {
            let message = format!("database \"{name}\" is disabled");
            Some(Refusal::new(code::INVALID_CATALOG, message))
        } else {
            None
        }
    }

    /// Whether nobody uses it, nor any connection of its.
    pub fn is_unused(&self) -> bool {
        self.clients == 0 && self.servers == 0 && self.waiting.is_empty()
    }

    /// How long the client that waits longest has waited.
    pub fn waited(&self, now: Duration) -> Duration {
        let oldest = self.waiting.iter().next();
        oldest.map_or(Duration::ZERO, |waiting| now.saturating_sub(waiting.since))
    }

    /// Whether another connection is to be made for those that wait. For one that has been given a core there may be one more than the
    /// pool's share on this event loop: other shares may lie idle meanwhile. It is closed once it has nothing to do.
    pub fn wants_server(&self, now: Duration, reserve_after: Duration) -> bool {
        if self.paused || self.waiting.len() <= self.connecting {
            return false;
        }
        let size = self.size + self.waiting.with_core();
        if self.servers < size || self.reserve == 0 || reserve_after.is_zero() {
            return self.servers < size;
        }
        self.servers < size + self.reserve && self.waited(now) >= reserve_after
    }

    /// A free connection that makes room for those that wait: in session mode it may serve none of them.
    pub fn unfit(&self) -> Option<usize> {
        let wanted = !self.paused && self.waiting.len() > self.connecting;
        let session = self.effective.pool_mode == PoolMode::Session;
        self.idle.first().copied().filter(|_| wanted && session)
    }

    /// Keeps what a client with these start-up settings is told.
    pub fn keep_greeting(&mut self, asked: Arc<Settings>, greeting: Arc<Greeting>) {
        if self.greetings.len() >= GREETINGS_MAX {
            self.greetings.clear();
        }
        self.greetings.insert(asked, greeting);
    }
}

/// What clients are told whose database the configuration has no more.
pub(super) fn removed(database: &str) -> Refusal {
    Refusal::new(
        code::INVALID_CATALOG,
        format!("database \"{database}\" is not configured any more"),
    )
}
