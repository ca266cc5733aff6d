//! What the console and the metrics ask of every event loop, and how the answers come together.
//!
//! ```text
//!  console ─► Ask to each loop's mailbox ─► each adds its part ─► the last one tells who asked
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use corun_net::reactor::Reactor;
use parking_lot::Mutex;

use crate::admin::{PeerPoolRow, PreparedRow, QueryRow, SplitRow};
use crate::core::client::Phase;
use crate::core::console::look::{ClientView, PoolView, ServerView};
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::memory::Buffers;
use crate::core::shared::{Message, Shared};
use corun_wire::error::{Refusal, code};

/// What a loop is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Tell what there is.
    Look,
    /// Tell what pools have counted.
    Count,
    /// Tell which statements are prepared.
    Prepared,
    /// Tell which statements took time.
    Queries,
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
    /// Nobody waits for it.
    Nobody,
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
    pub splits: Vec<SplitRow>,
    pub buffers: Buffers,
    pub prepared: Vec<PreparedRow>,
    pub queries: Vec<QueryRow>,
    pub peers: Vec<PeerPoolRow>,
    /// Things done, by orders that do something: clients or servers found.
    pub touched: usize,
}

impl Answers {
    /// Sends an order to every loop, and makes the place for their parts.
    pub fn ask(shared: &Shared, order: &Order, tell: Tell) -> Arc<Self> {
        let answers = Arc::new(Self {
            parts: Mutex::default(),
            expected: shared.mailboxes.len(),
            tell,
        });
        shared.tell_all(|| {
            Message::Ask(Ask {
                order: order.clone(),
                answers: Arc::clone(&answers),
            })
        });
        answers
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
    pub(in crate::core) fn asked(&mut self, reactor: &mut R, ask: Ask) {
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
            Order::Queries => Part {
                queries: self.queries.rows(),
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
            let answers = Arc::clone(&ask.answers);
            match &ask.answers.tell {
                Tell::Console(event_loop, slot, id) => {
                    self.shared
                        .tell(*event_loop, Message::Answered(*slot, *id, answers));
                }
                Tell::Thread(sender) => {
                    let _ = sender.try_send(());
                }
                Tell::Log => self.shared.tell(0, Message::Counted(answers)),
                Tell::Nobody => {}
            }
        }
    }

    /// Sends an order of a console client to every loop.
    pub(in crate::core) fn ask_all(&self, order: &Order, slot: usize, id: u64) {
        Answers::ask(&self.shared, order, Tell::Console(self.index, slot, id));
    }

    fn obey(&mut self, reactor: &mut R, order: &Order) -> usize {
        let named =
            |name: &Option<String>, database: &str| name.as_deref().is_none_or(|name| name == database);
        match order {
            Order::Look | Order::Count | Order::Prepared | Order::Queries => 0,
            Order::Pause(name) => {
                let mut touched = 0;
                let mut idle = Vec::new();
                for (_, pool) in &mut self.pools {
                    if named(name, &pool.key.database) {
                        touched += 1;
                        pool.paused = true;
                        idle.extend(pool.idle.take());
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
                        self.todo.extend(pool.idle.take().into_iter().map(Todo::Free));
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
                    .filter(|(_, client)| client.counted && !matches!(client.phase, Phase::Console))
                    .filter(|(_, client)| named(name, &client.database))
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
                self.refuse_client(reactor, index, &crate::core::event_loop::goodbye());
                1
            }
            Order::Reconnect(name) => {
                let mut touched = 0;
                self.reconnects += 1;
                for (_, server) in &mut self.servers {
                    let pool = self.pools.get_mut(server.pool);
                    if pool.is_some_and(|pool| named(name, &pool.key.database)) {
                        touched += 1;
                        server.life.closing = Some("database configuration changed");
                    }
                }
                for (_, pool) in &mut self.pools {
                    self.todo.extend(pool.idle.take().into_iter().map(Todo::Free));
                }
                touched
            }
            Order::Drain => {
                self.begin_to_end(reactor, false);
                0
            }
            Order::Shutdown { at_once: true } => {
                self.stop(reactor, true);
                0
            }
            Order::Shutdown { at_once: false } => {
                self.begin_to_end(reactor, true);
                0
            }
        }
    }
}
