//! What the console and the metrics ask of every event loop, and how the answers come together.
//!
//! ```text
//!  console ─► Ask to each loop's mailbox ─► each adds its part ─► the last one tells who asked
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use machine::reactor::Reactor;
use parking_lot::Mutex;

use super::client::Phase;
use super::event_loop::{EventLoop, Todo};
use super::memory::Buffers;
use super::server::pin_names;
use super::shared::Message;
use super::statistics::{Times, Totals};
use crate::admin::PreparedRow;
use crate::wire::error::{Refusal, code};

/// What a loop is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Tell what there is.
    Look,
    /// Tell what pools have counted.
    Count,
    /// Tell which statements are prepared.
    Prepared,
    /// Give nobody a server any more; all databases or one. Idle connections are closed.
    Pause(Option<String>),
    /// Go on.
    Resume(Option<String>),
    /// Refuse new clients of a database, or take them again.
    Disable(String, bool),
    /// Disconnect all clients and servers of a database, and pause it.
    Kill(Option<String>),
    /// Disconnect the client with this number.
    KillClient(u64),
    /// Close servers when they come free.
    Reconnect(Option<String>),
    /// Take no new clients, and end when all have left.
    Drain,
    /// End.
    Shutdown { at_once: bool },
}

/// An order with the place for the answer.
#[derive(Clone)]
pub(crate) struct Ask {
    pub order: Order,
    pub answers: Arc<Answers>,
}

/// Where the parts of an answer come together.
pub(crate) struct Answers {
    parts: Mutex<Vec<Part>>,
    expected: usize,
    tell: Tell,
}

/// Who is told when all parts are there.
pub(crate) enum Tell {
    /// A console client (loop, slot, number).
    Console(usize, usize, u64),
    /// A thread that waits.
    Thread(SyncSender<()>),
    /// The first loop, which logs what was counted.
    Log,
}

/// What one loop has to say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub event_loop: usize,
    /// The core its backends are bound to, where it is one.
    pub cpu: Option<u32>,
    /// The memory node of its cores, where it is one.
    pub node: Option<u32>,
    /// Why a backend was not bound, lately.
    pub unbound_because: String,
    /// CPU time of its thread.
    pub busy: Duration,
    /// Errors sent to clients, by SQLSTATE.
    pub errors: BTreeMap<&'static str, u64>,
    /// Different shapes among the texts that are remembered.
    pub shapes: usize,
    pub io: &'static str,
    pub clients: Vec<ClientView>,
    pub servers: Vec<ServerView>,
    pub pools: Vec<PoolView>,
    pub buffers: Buffers,
    pub prepared: Vec<PreparedRow>,
    /// Things done, by orders that do something: clients or servers found.
    pub touched: usize,
}

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

impl Answers {
    /// A place for `expected` parts.
    pub fn new(expected: usize, tell: Tell) -> Arc<Self> {
        Arc::new(Self {
            parts: Mutex::default(),
            expected,
            tell,
        })
    }

    /// All parts, by event loop.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = std::mem::take(&mut *self.parts.lock());
        parts.sort_by_key(|part| part.event_loop);
        parts
    }
}

impl<R: Reactor> EventLoop<R> {
    /// Does what is asked and adds this loop's part to the answer.
    pub(super) fn asked(&mut self, reactor: &mut R, ask: Ask) {
        let touched = self.obey(reactor, &ask.order);
        self.settle(reactor);
        let mut part = match ask.order {
            Order::Look => self.look(reactor),
            Order::Count => Part {
                pools: self.look_at_pools(),
                ..Part::default()
            },
            Order::Prepared => Part {
                prepared: self.look_at_statements(),
                ..Part::default()
            },
            _ => Part::default(),
        };
        part.event_loop = self.index;
        part.touched = touched;
        let all = {
            let mut parts = ask.answers.parts.lock();
            parts.push(part);
            parts.len() == ask.answers.expected
        };
        if all {
            match &ask.answers.tell {
                Tell::Console(event_loop, slot, id) => {
                    let (slot, id) = (*slot, *id);
                    if let Some(mailbox) = self.shared.mailboxes.get(*event_loop) {
                        let _ = mailbox.post(Message::Answered(slot, id, Arc::clone(&ask.answers)));
                    }
                }
                Tell::Thread(sender) => {
                    let _ = sender.try_send(());
                }
                Tell::Log => {
                    if let Some(mailbox) = self.shared.mailboxes.first() {
                        let _ = mailbox.post(Message::Counted(Arc::clone(&ask.answers)));
                    }
                }
            }
        }
    }

    /// Sends an order to every loop.
    pub(super) fn ask_all(&self, order: &Order, slot: usize, id: u64) {
        let answers = Answers::new(self.shared.mailboxes.len(), Tell::Console(self.index, slot, id));
        for mailbox in &self.shared.mailboxes {
            let _ = mailbox.post(Message::Ask(Ask {
                order: order.clone(),
                answers: Arc::clone(&answers),
            }));
        }
    }

    fn obey(&mut self, reactor: &mut R, order: &Order) -> usize {
        let named =
            |name: &Option<String>, database: &str| name.as_deref().is_none_or(|name| name == database);
        match order {
            Order::Look | Order::Count | Order::Prepared => 0,
            Order::Pause(name) => {
                let mut touched = 0;
                let mut idle = Vec::new();
                for (_, pool) in &mut self.pools {
                    if named(name, &pool.key.database) {
                        touched += 1;
                        pool.paused = true;
                        idle.append(&mut pool.idle);
                    }
                }
                for server in idle {
                    self.close_server(reactor, server, "PAUSE");
                }
                touched
            }
            Order::Resume(name) => {
                let mut touched = 0;
                for (index, pool) in &mut self.pools {
                    if named(name, &pool.key.database) {
                        touched += usize::from(pool.paused);
                        pool.paused = false;
                        self.todo.push_back(Todo::Connect(index));
                        self.todo.extend(pool.idle.drain(..).map(Todo::Free));
                    }
                }
                touched
            }
            Order::Disable(name, disabled) => {
                let mut touched = 0;
                for (_, pool) in &mut self.pools {
                    if *pool.key.database == **name {
                        touched += 1;
                        pool.disabled = *disabled;
                    }
                }
                touched
            }
            Order::Kill(name) => {
                let clients: Vec<usize> = self
                    .clients
                    .iter()
                    .filter(|(_, client)| client.counted && named(name, &client.database))
                    .map(|(index, _)| index)
                    .collect();
                for &client in &clients {
                    let refusal = Refusal::new(code::ADMIN_SHUTDOWN, "database removed");
                    self.refuse_client(reactor, client, &refusal);
                }
                self.obey(reactor, &Order::Pause(name.clone()));
                clients.len()
            }
            Order::KillClient(id) => {
                let found = self.clients.iter().find(|(_, client)| client.id == *id);
                let Some((index, _)) = found else {
                    return 0;
                };
                self.refuse_client(reactor, index, &super::event_loop::goodbye());
                1
            }
            Order::Reconnect(name) => {
                let mut touched = 0;
                for (_, server) in &mut self.servers {
                    let pool = self.pools.get_mut(server.pool);
                    if pool.is_some_and(|pool| named(name, &pool.key.database)) {
                        touched += 1;
                        server.closing = Some("RECONNECT");
                    }
                }
                for (_, pool) in &mut self.pools {
                    self.todo.extend(pool.idle.drain(..).map(Todo::Free));
                }
                touched
            }
            Order::Drain => {
                self.drain(reactor);
                0
            }
            Order::Shutdown { at_once } => {
                self.shut_down(reactor, *at_once);
                0
            }
        }
    }

    /// What there is in this loop.
    fn look(&self, reactor: &R) -> Part {
        let tls = |tls: &Option<Box<crate::tls::TlsSession>>| {
            tls.as_ref().map(|tls| tls.description()).unwrap_or_default()
        };
        let clients = self.clients.iter().map(|(_, client)| ClientView {
            id: client.id,
            user: Arc::clone(&client.user),
            database: Arc::clone(&client.database),
            application: client
                .settings
                .0
                .get("application_name")
                .cloned()
                .unwrap_or_else(|| client.application.to_string()),
            origin: client.origin(),
            local: client
                .local
                .map(|address| address.to_string())
                .unwrap_or_default(),
            state: match (&client.phase, client.waiting, client.server) {
                (Phase::Console, _, _) => "console",
                (Phase::Ready | Phase::Greeting(_), Some(_), _) => "waiting",
                (Phase::Ready, None, Some(_)) => "active",
                (Phase::Ready, None, None) => "idle",
                _ => "login",
            },
            connected: self.now.saturating_sub(client.connected),
            quiet: self.now.saturating_sub(client.since),
            waited: match client.waiting {
                Some(_) => self.now.saturating_sub(client.waiting_since),
                None => Duration::ZERO,
            },
            server: client
                .server
                .and_then(|server| self.servers.get(server))
                .map(|server| server.id),
            pins: pin_names(client.pins),
            prepared: client.statements.len(),
            tls: tls(&client.transport.tls),
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
                } else if server.client.is_some() {
                    "active"
                } else if server.cancels > 0 {
                    "being_canceled"
                } else if server.task.is_some() {
                    "tested"
                } else if server.used {
                    "used"
                } else {
                    "idle"
                },
                address: server
                    .address
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                pid: server.pid,
                connected: self.now.saturating_sub(server.created),
                quiet: self.now.saturating_sub(server.since),
                client: server
                    .client
                    .and_then(|client| self.clients.get(client))
                    .map(|client| client.id),
                bound: server
                    .bound
                    .as_ref()
                    .filter(|bound| !bound.loose)
                    .map(|bound| bound.cpu.0),
                prepared: server.statements.len(),
                replica: server.replica,
                closing: server.closing.is_some(),
                tls: tls(&server.transport.tls),
            }
        });
        Part {
            event_loop: self.index,
            cpu: match self.place.cpus.as_slice() {
                [cpu] => Some(cpu.0),
                _ => None,
            },
            node: self.place.node,
            unbound_because: self.unbound_because.clone(),
            // Questions are answered on the loop's own thread.
            busy: machine::clock::thread_cpu_time(),
            errors: self.errors.clone(),
            shapes: self.desk.understanding.shapes(),
            io: self.io,
            clients: clients.collect(),
            servers: servers.collect(),
            pools: self.look_at_pools(),
            buffers: self.buffers(reactor),
            prepared: Vec::new(),
            touched: 0,
        }
    }

    /// The pools of this loop.
    fn look_at_pools(&self) -> Vec<PoolView> {
        let pools = self.pools.iter().map(|(index, pool)| {
            let mine = self.servers.iter().filter(|(_, server)| server.pool == index);
            let mut view = PoolView {
                database: Arc::clone(&pool.key.database),
                user: Arc::clone(&pool.key.user),
                host: pool.key.host,
                mode: pool.effective.pool_mode.word(),
                clients: pool.clients,
                clients_active: 0,
                clients_waiting: pool.waiting.len(),
                servers_active: 0,
                servers_idle: pool.idle.len(),
                servers_login: pool.connecting,
                servers_cancelled: 0,
                servers_tested: 0,
                cancels: 0,
                cancels_waiting: 0,
                waited: pool.waited(self.now),
                totals: pool.totals,
                queries_of: pool.queries_of.clone(),
                times: pool.times.clone(),
                cohorts: pool.waiting.forms(),
                taken: pool.waiting.taken,
                alike: pool.waiting.alike,
            };
            for (_, server) in mine {
                view.servers_active += usize::from(server.client.is_some());
                view.servers_cancelled += usize::from(server.client.is_none() && server.cancels > 0);
                view.servers_tested += usize::from(server.client.is_none() && server.task.is_some());
                view.cancels += server.cancels as usize;
            }
            view.clients_active = self
                .clients
                .iter()
                .filter(|(_, client)| client.pool == index && client.server.is_some())
                .count();
            view.cancels_waiting = self
                .clients
                .iter()
                .filter(|(_, client)| client.pool == index && client.cancel_wanted)
                .count();
            view
        });
        pools.collect()
    }
}
