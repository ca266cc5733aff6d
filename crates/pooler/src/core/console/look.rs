//! What an event loop tells of itself: its clients, servers and pools as others may see them.

use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::client::Phase;
use crate::core::client::wait::WaitsIn;
use crate::core::console::ask::Part;
use crate::core::console::statistics::{Times, Totals};
use crate::core::event_loop::EventLoop;
use crate::core::server::pin_names;

/// The state of a server that listens for clients.
pub(super) const LISTENS: &str = "listen";

/// A client as others may see it.
#[derive(Clone, Debug)]
pub(crate) struct ClientView {
    pub id: u64,
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub application: String,
    pub origin: String,
    pub local: String,
    pub state: &'static str,
    pub connected: Duration,
    pub quiet: Duration,
    pub waited: Duration,
    pub server: Option<u64>,
    pub pins: String,
    pub prepared: usize,
    pub tls: String,
    pub buffer: BufferView,
}

impl ClientView {
    /// Whether it has proved who it is.
    pub fn is_in(&self) -> bool {
        self.state != "login"
    }
}

/// What is kept for a connection, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferView {
    /// Received and not passed on.
    pub received: usize,
    /// Of the current message, still to come.
    pub to_come: usize,
    /// To be sent, and not taken by the kernel.
    pub to_send: usize,
    /// Not read for now.
    pub paused: bool,
}

/// A server connection as others may see it.
#[derive(Clone, Debug)]
pub(crate) struct ServerView {
    pub id: u64,
    pub user: String,
    pub database: Arc<str>,
    pub state: &'static str,
    pub address: String,
    pub pid: u32,
    pub connected: Duration,
    pub quiet: Duration,
    pub client: Option<u64>,
    pub bound: Option<u32>,
    pub prepared: usize,
    pub replica: bool,
    pub closing: bool,
    pub tls: String,
    pub buffer: BufferView,
}

/// A pool as others may see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolView {
    pub database: Arc<str>,
    pub user: Arc<str>,
    pub host: usize,
    pub mode: &'static str,
    pub clients: usize,
    pub clients_active: usize,
    pub clients_waiting: usize,
    pub servers_active: usize,
    pub servers_idle: usize,
    pub servers_login: usize,
    pub servers_cancelled: usize,
    /// Busy with a query of the proxy's own, for nobody.
    pub servers_tested: usize,
    /// Cancel requests on their way to its servers.
    pub cancels: usize,
    /// Those that wait until a server has the query they are for.
    pub cancels_waiting: usize,
    pub waited: Duration,
    pub totals: Totals,
    /// Queries by the number of the host, of several without replicas.
    pub queries_of: Vec<u64>,
    pub times: Times,
    /// Cohorts are formed now.
    pub cohorts: bool,
    /// Statements taken from the queue, and those of them that followed one of their shape.
    pub taken: u64,
    pub alike: u64,
}

impl<R: Reactor> EventLoop<R> {
    /// What there is in this loop.
    pub(in crate::core) fn look(&self, reactor: &R) -> Part {
        let tls = |tls: &Option<Box<corun_wire::tls::TlsSession>>| {
            tls.as_ref().map(|tls| tls.description()).unwrap_or_default()
        };
        let clients = self.clients.iter().map(|(_, client)| ClientView {
            id: client.id,
            user: Arc::clone(&client.user),
            database: Arc::clone(&client.database),
            application: client.settings.0.get("application_name").map_or_else(
                || client.application.to_string(),
                |name| String::from_utf8_lossy(name).into_owned(),
            ),
            origin: client.origin(),
            local: client
                .local
                .map(|address| address.to_string())
                .unwrap_or_default(),
            state: match (&client.phase, client.wait.waits(), client.server) {
                (Phase::Console, _, _) => "console",
                (Phase::Ready | Phase::Greeting(_), true, _) => "waiting",
                (Phase::Ready, false, Some(_)) => "active",
                (Phase::Ready, false, None) => "idle",
                _ => "login",
            },
            connected: self.now.saturating_sub(client.connected),
            quiet: self.now.saturating_sub(client.since),
            waited: match client.wait.waits() {
                true => self.now.saturating_sub(client.wait.since),
                false => Duration::ZERO,
            },
            server: client
                .server
                .and_then(|server| self.servers.get(server))
                .map(|server| server.id),
            pins: pin_names(client.pins),
            prepared: client.statements.len(),
            tls: tls(&client.transport.tls),
            buffer: BufferView {
                received: client.inbox.len(),
                to_come: client.passing,
                to_send: reactor.queued(client.token()),
                paused: client.paused,
            },
        });
        let servers = self.servers.iter().map(|(_, server)| {
            let pool = self.pools.get(server.pool);
            ServerView {
                id: server.id,
                user: pool.map(|pool| pool.effective.user.clone()).unwrap_or_default(),
                database: pool
                    .map(|pool| Arc::clone(&pool.key.database))
                    .unwrap_or_default(),
                state: if !server.is_ready() {
                    "login"
                } else if server.stages.hub.is_some() {
                    LISTENS
                } else if server.is_used() {
                    "active"
                } else if server.process.cancels.under_way() > 0 {
                    "being_canceled"
                } else if server.task.is_some() {
                    "tested"
                } else if server.life.used {
                    "used"
                } else {
                    "idle"
                },
                address: server.host.place(),
                pid: server.process.pid,
                connected: self.now.saturating_sub(server.life.created),
                quiet: self.now.saturating_sub(server.life.since),
                client: server
                    .user
                    .client
                    .and_then(|client| self.clients.get(client))
                    .map(|client| client.id),
                bound: server
                    .process
                    .bound
                    .as_ref()
                    .filter(|bound| !bound.loose)
                    .map(|bound| bound.cpu.0),
                prepared: server.session.statements.len(),
                replica: server.host.replica,
                closing: server.life.closing.is_some(),
                tls: tls(&server.transport.tls),
                buffer: BufferView {
                    received: server.reading.partial.len(),
                    to_come: server.reading.passing,
                    to_send: reactor.queued(server.token()),
                    paused: server.reading.paused,
                },
            }
        });
        Part {
            event_loop: self.index,
            cpu: match self.place.cpus.as_slice() {
                [cpu] => Some(cpu.0),
                _ => None,
            },
            node: self.place.node,
            unbound_because: self.ranges.unbound_because.clone(),
            // Questions are answered on the loop's own thread.
            busy: corun_topology::clock::thread_cpu_time(),
            errors: self.errors.clone(),
            shapes: self.classifier.understanding.shapes(),
            io: self.io,
            clients: clients.collect(),
            servers: servers.collect(),
            pools: self.look_at_pools(),
            splits: self.look_at_splits(),
            buffers: self.buffers(reactor),
            peers: self.look_at_peers(),
            ..Part::default()
        }
    }

    /// The pools of this loop.
    pub(in crate::core) fn look_at_pools(&self) -> Vec<PoolView> {
        let pools = self.pools.iter().map(|(index, pool)| {
            let mine = self.servers.iter().filter(|(_, server)| server.pool == index);
            let mut view = PoolView {
                database: Arc::clone(&pool.key.database),
                user: Arc::clone(&pool.key.user),
                host: pool.key.host,
                mode: pool.effective.pool_mode.word(),
                clients: pool.clients,
                clients_waiting: pool.waiting.len(),
                servers_idle: pool.idle.len(),
                servers_login: pool.connecting,
                waited: pool.waited(self.now),
                totals: pool.totals,
                queries_of: pool.queries_of.clone(),
                times: pool.times.clone(),
                cohorts: pool.waiting.forms(),
                taken: pool.waiting.taken,
                alike: pool.waiting.alike,
                ..PoolView::default()
            };
            for (_, server) in mine {
                if server.stages.hub.is_some() {
                    continue;
                }
                let works = server.is_used();
                view.servers_active += usize::from(works);
                view.servers_cancelled += usize::from(!works && server.process.cancels.under_way() > 0);
                view.servers_tested += usize::from(!works && server.task.is_some());
                view.cancels += server.process.cancels.under_way() as usize;
            }
            for (_, client) in self.clients.iter().filter(|(_, client)| client.pool == index) {
                view.clients_active += usize::from(client.server.is_some());
                view.clients_waiting += usize::from(client.wait.place == WaitsIn::NoHost);
                view.cancels_waiting += usize::from(client.cancel_wanted);
            }
            view
        });
        pools.collect()
    }
}
