//! [`Pool`]: the server connections of one database and user on one event loop, and the clients that wait for one.

mod attach;
pub(in crate::core) mod cohorts;
pub(in crate::core) mod free;
pub(in crate::core) mod handover;
pub(in crate::core) mod made;
pub(in crate::core) mod process;

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Effective, PoolMode};
use crate::core::console::statistics::{Times, Totals};
use crate::core::pool::cohorts::Queue;
use crate::core::pool::process::{Idle, ProcessPool, ServerKey};
use crate::core::route::balance::Balance;
use crate::core::route::fleet::REPLICATION;
use crate::understand::Shape;
use corun_wire::error::{Refusal, code};

/// What pools are told apart by: the database as clients name it, the user at the server, and which of the database's hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::core) struct PoolKey {
    pub database: Arc<str>,
    pub user: Arc<str>,
    /// 0: the primary's; the others: replicas, in the order of the configuration.
    pub host: usize,
    /// 0: the first core pool, or the only one; see `dispatch`.
    pub core_pool: usize,
}

impl PoolKey {
    /// The servers behind it, which pools of other loops have too.
    pub fn servers(&self) -> ServerKey {
        ServerKey {
            database: Arc::clone(&self.database),
            user: Arc::clone(&self.user),
            host: self.host,
        }
    }
}

/// A client in the queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Waiting {
    pub client: usize,
    pub shape: Shape,
    pub since: Duration,
    /// The domain of its key, where it waits in the core pool that has it; otherwise it may go with any core pool's server.
    pub domain: Option<usize>,
}

/// Connections and clients of a database and user.
pub(in crate::core) struct Pool {
    pub key: PoolKey,
    pub effective: Arc<Effective>,
    /// What the pools of all loops have together.
    pub all: Arc<ProcessPool>,
    /// Connections that all loops may have, and how many more after a wait.
    pub size: usize,
    pub reserve: usize,
    /// Connections this pool itself may have: of several core pools each has its share.
    pub share: usize,
    /// Core pools that share its size, itself the first; empty where it is alone. The first core pool's only.
    pub core_pools: Vec<usize>,
    /// The pool that has the list.
    pub first_core_pool: usize,
    // Connections.
    /// Free ones; the last was used last.
    pub idle: Idle,
    /// Those whose clients need them no more, but for what they may have left there.
    pub lingering: Idle,
    /// All, those that connect included.
    pub servers: usize,
    /// Of these, those that no client gets.
    pub beside: usize,
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
    /// When others may be asked again to make room under a limit.
    pub evicts_after: Duration,
    /// Which of the database's hosts is connected to next.
    pub hosts: Balance,
    /// Since when nobody has used it.
    pub unused_since: Option<Duration>,
    pub totals: Totals,
    /// Queries by the number of the host that answered; of several `host`s without replicas.
    pub queries_of: Vec<u64>,
    pub times: Times,
}

impl Pool {
    pub fn new(key: PoolKey, effective: Arc<Effective>, queue: Queue, idle: Idle) -> Self {
        let hosts = Balance::of(&effective);
        let several = effective.hosts.len();
        Self {
            key,
            effective,
            all: Arc::clone(idle.all()),
            size: 0,
            reserve: 0,
            share: 0,
            core_pools: Vec::new(),
            first_core_pool: usize::MAX,
            lingering: Idle::new(idle.event_loop(), Arc::clone(idle.all())),
            idle,
            servers: 0,
            beside: 0,
            connecting: 0,
            clients: 0,
            waiting: queue,
            paused: false,
            disabled: false,
            gone: false,
            failed: None,
            evicts_after: Duration::ZERO,
            hosts,
            unused_since: None,
            totals: Totals::default(),
            queries_of: vec![0; several],
            times: Times::default(),
        }
    }

    /// Whether it keeps connections without work: while it has clients, and where it logs in to the server as a user of its own always.
    pub fn keeps_minimum(&self) -> bool {
        self.clients > 0 || self.effective.forced_user
    }

    /// Connections that all loops keep without work.
    pub fn minimum(&self) -> usize {
        (self.effective.min_pool_size as usize).min(self.size)
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

    /// Why the last connection failed, while it is too early for the next and nothing else serves.
    pub fn failing(&self, now: Duration) -> Option<&Refusal> {
        let (refusal, until) = self.failed.as_ref()?;
        let hopeless = now < *until && self.all.servers() == 0 && self.effective.replicas.is_empty();
        hopeless.then_some(refusal)
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

    /// Whether those that wait need another connection.
    pub fn wants_server(&self) -> bool {
        !self.paused && self.waiting.len() > self.connecting
    }

    /// Whether its share leaves room for one connection more.
    pub fn has_share(&self) -> bool {
        self.servers < self.share.saturating_add(self.beside)
    }

    /// How many connections all loops may have for that now.
    pub fn most(&self, now: Duration, reserve_after: Duration) -> usize {
        let late = !reserve_after.is_zero() && self.waited(now) >= reserve_after;
        self.size + if late { self.reserve } else { 0 }
    }

    /// Whether its clients stream the log: they are told less than others, as by PgBouncer.
    pub fn replicates(&self) -> bool {
        self.key.host & REPLICATION != 0
    }

    /// A free connection that makes room for those that wait: in session mode it may serve none of them.
    pub fn unfit(&self) -> Option<usize> {
        let session = self.effective.pool_mode == PoolMode::Session;
        self.idle
            .first()
            .copied()
            .filter(|_| session && self.wants_server())
    }
}

/// What clients are told whose database the configuration has no more.
pub(in crate::core) fn removed(database: &str) -> Refusal {
    Refusal::new(
        code::INVALID_CATALOG,
        format!("database \"{database}\" is not configured any more"),
    )
}
