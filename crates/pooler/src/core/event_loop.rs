//! [`EventLoop`]: one thread's clients, pools and servers, and what happens to them event by event.
//!
//! ```text
//!  turn ─► event ─► client's bytes ─► entrance | serve ─► stages ─► forward ─► server
//!                   server's bytes ─► logging in | reply::relay ─► client ─► go_on ─► todo
//!        ─► todo: free servers to those that wait, clients with bytes left to serve
//!        ─► tick, a few times a second: time limits, connections to make or to close
//! ```
//!
//! Nothing in here blocks. What one event makes possible for somebody else is put on a list and done when the event is over, so that
//! nothing nests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_net::reactor::{Event, Handler, Reactor, Stream, Token};
use slab::Slab;

use crate::config::PoolMode;
use crate::core::classify::classifier::{Classifier, Rules};
use crate::core::client::{Client, Phase, log_client};
use crate::core::config_files::ConfigFiles;
use crate::core::console::queries::Queries;
use crate::core::console::stats_log::StatsLog;
use crate::core::heavy_queue;
use crate::core::listen::Listening;
use crate::core::memory::Memory;
use crate::core::parts::Splits;
use crate::core::peers::Forwards;
use crate::core::pool::{Pool, PoolKey};
use crate::core::ranges::dispatch::LoopDispatch;
use crate::core::route::fleet::LoopHosts;
use crate::core::route::places::Place;
use crate::core::server::cancel::Cancel;
use crate::core::server::{Question, Server};
use crate::core::shared::{Message, Shared};
use crate::core::shutdown::Ending;
use crate::understand::Limits;
use corun_wire::build;
use corun_wire::error::{Refusal, code};

/// Time between two looks at all time limits.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// How long a client's last words may take to go out.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// A client that waits for a server may send this much before it is paused.
pub(super) const WAITING_INBOX_MAX: usize = 64 << 10;

const KIND_BITS: u32 = 2;
const CLIENT: usize = 0;
const SERVER: usize = 1;
const CANCEL: usize = 2;
const LISTENER: usize = 3;

pub(super) fn client_token(index: usize) -> Token {
    index << KIND_BITS | CLIENT
}
pub(super) fn server_token(index: usize) -> Token {
    index << KIND_BITS | SERVER
}
pub(super) fn cancel_token(index: usize) -> Token {
    index << KIND_BITS | CANCEL
}
/// The token of the listener with this number.
pub(crate) fn listener_token(index: usize) -> Token {
    index << KIND_BITS | LISTENER
}

/// Something to do once the current event is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// A server that nobody has.
    Free(usize),
    /// A client (slot, number) whose bytes were left lying.
    Serve(usize, u64),
    /// A client (slot, number) on its way in that looks for a host again.
    Enter(usize, u64),
    /// A pool that may need a connection.
    Connect(usize),
    /// A client (slot, number) that may part with its server.
    GoOn(usize, u64),
}

/// One thread's part of the proxy.
pub(crate) struct EventLoop<R> {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) files: Arc<ConfigFiles>,
    pub(super) clients: Slab<Box<Client>>,
    pub(super) servers: Slab<Box<Server>>,
    pub(super) cancels: Slab<Cancel>,
    /// Cancel requests for other processes' clients; the first loop's only.
    pub(super) forwards: Forwards,
    pub(super) pools: Slab<Pool>,
    pub(super) pool_of: HashMap<PoolKey, usize>,
    pub(super) classifier: Classifier,
    pub(super) todo: VecDeque<Todo>,
    /// Questions to servers that wait for a connection: pool, question, text.
    pub(super) questions: VecDeque<(usize, Question, String)>,
    pub(super) listening: Listening,
    pub(super) hosts: LoopHosts,
    /// RECONNECT orders seen.
    pub(super) reconnects: u64,
    pub(super) now: Duration,
    pub(super) plain: Vec<u8>,
    pub(super) memory: Memory,
    /// The first loop's only.
    pub(super) stats_log: StatsLog,
    /// The cores its backends are bound to, where no ranges of keys say otherwise.
    pub(super) place: Place,
    pub(super) ranges: LoopDispatch,
    /// Queries that may run in parts, and those that do.
    pub(super) splits: Splits,
    /// Which statements take time.
    pub(super) queries: Queries,
    /// Which statements take long.
    pub(super) heavy: heavy_queue::View,
    /// Errors sent to clients, by SQLSTATE: each is one of `wire::error::code`.
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// How its sockets are driven.
    pub(crate) io: &'static str,
    /// Listeners; 0 on all loops but the first, and there once they are closed.
    pub(crate) listeners: usize,
    /// The one among them that is a Unix socket.
    pub(crate) unix_listener: Option<usize>,
    /// All loops accept connections, not only the first one.
    pub(crate) all_accept: bool,
    /// The first loop's only.
    pub(super) ending: Ending,
    pub(super) stopping: bool,
    /// Until then clients that have gone may still take what was said to them.
    pub(super) last_words_until: Duration,
    pub(super) ticked: Duration,
    reactor: PhantomData<fn(&mut R)>,
}

impl<R: Reactor> EventLoop<R> {
    /// An event loop without connections.
    pub fn new(index: usize, shared: Arc<Shared>) -> Self {
        let files = shared.files();
        let limits = Limits {
            entries_max: files.config.corun.statement_cache_size as usize,
            ..Limits::default()
        };
        let mut classifier = Classifier::new(
            limits,
            Arc::clone(&shared.statements),
            Arc::clone(&shared.definitions),
            Arc::clone(&shared.catalogues),
        );
        let splits = Splits::of(&files.config, &mut classifier, Splits::default());
        Self {
            index,
            shared,
            files,
            clients: Slab::new(),
            servers: Slab::new(),
            cancels: Slab::new(),
            forwards: Forwards::new(),
            pools: Slab::new(),
            pool_of: HashMap::new(),
            classifier,
            todo: VecDeque::new(),
            questions: VecDeque::new(),
            listening: Listening::default(),
            hosts: LoopHosts::default(),
            reconnects: 0,
            now: Duration::ZERO,
            plain: Vec::new(),
            memory: Memory::default(),
            stats_log: StatsLog::default(),
            place: Place::default(),
            ranges: LoopDispatch::default(),
            splits,
            queries: Queries::default(),
            heavy: heavy_queue::View::default(),
            errors: BTreeMap::new(),
            io: "epoll",
            listeners: 0,
            unix_listener: None,
            all_accept: false,
            ending: Ending::No,
            stopping: false,
            last_words_until: Duration::ZERO,
            ticked: Duration::ZERO,
            reactor: PhantomData,
        }
    }

    /// One turn: waits, at most until the next tick, and does what there is to do. `false` once everything has ended, on the other
    /// loops, too: until then they may ask this one for a connection, and the console what there is.
    ///
    /// # Errors
    /// When the kernel does not let us wait.
    pub fn turn(&mut self, reactor: &mut R) -> std::io::Result<bool> {
        // What the last of them was told goes out in the turn after.
        let deserted = self.is_deserted();
        let over = deserted && self.now >= self.last_words_until;
        let wait = if over {
            Duration::ZERO
        } else {
            let next = self.ticked + TICK;
            [self.ranges.overflow_at, self.heavy.timeouts_at]
                .into_iter()
                .flatten()
                .fold(next, Duration::min)
                .saturating_sub(reactor.now())
        };
        reactor.turn(Some(wait), self)?;
        self.now = reactor.now();
        if self.now.saturating_sub(self.ticked) >= TICK {
            self.ticked = self.now;
            self.tick(reactor);
            self.settle(reactor);
        }
        self.tell_busy();
        if self.heavy.timeouts_at.is_some() {
            self.heavy_queue_timeouts(reactor);
            self.settle(reactor);
        }
        if self.ranges.overflow_at.is_some() {
            self.overflow_tick();
            self.settle(reactor);
        }
        let over = deserted && self.is_deserted() && self.now >= self.last_words_until;
        Ok(!(over && self.shared.mailboxes[self.index].close()))
    }

    /// Its clients are lost: the other loops do not wait for them, and give it none.
    pub fn give_up(&self) {
        let mailbox = &self.shared.mailboxes[self.index];
        while !mailbox.close() {
            drop(mailbox.take());
        }
        self.shared.clients[self.index].store(0, Ordering::Relaxed);
    }

    /// Does what an event has made possible.
    pub(super) fn settle(&mut self, reactor: &mut R) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Free(server) => self.server_free(reactor, server),
                Todo::Serve(client, id) => self.serve_inbox(reactor, client, id),
                Todo::Enter(client, id) => {
                    if self.clients.get(client).is_some_and(|client| client.id == id) {
                        self.enter_queue(reactor, client);
                    }
                }
                Todo::GoOn(slot, id) => {
                    let client = self.clients.get(slot).filter(|client| client.id == id);
                    if let Some(server) = client.and_then(|client| client.server) {
                        self.go_on(reactor, server);
                    }
                }
                Todo::Connect(pool) => {
                    self.connect_if_wanted(reactor, pool);
                    self.keep_minimum(reactor, pool);
                }
            }
        }
    }

    fn accepted(&mut self, reactor: &mut R, stream: Stream) {
        if self.listeners == 0 {
            // By the listener that is left for cancel requests.
            let added = self.add_client(reactor, stream);
            if let Some(client) = added.and_then(|index| self.clients.get_mut(index)) {
                client.cancels_only = true;
            }
            return;
        }
        let target = self.shared.serves(self.index, self.all_accept);
        if target == self.index {
            self.add_client(reactor, stream);
        } else {
            // Counted at once, so that a burst of connections spreads.
            self.shared.clients[target].fetch_add(1, Ordering::Relaxed);
            if self.shared.mailboxes[target]
                .post(Message::Stream(stream))
                .is_err()
            {
                self.shared.clients[target].fetch_sub(1, Ordering::Relaxed);
                tracing::warn!("a connection was dropped: too many wait to be served");
            }
        }
    }

    fn add_client(&mut self, reactor: &mut R, stream: Stream) -> Option<usize> {
        self.shared.clients[self.index].fetch_add(1, Ordering::Relaxed);
        self.add_counted_client(reactor, stream)
    }

    fn add_counted_client(&mut self, reactor: &mut R, stream: Stream) -> Option<usize> {
        let (peer, local) = (stream.peer(), stream.local());
        let entry = self.clients.vacant_entry();
        let token = client_token(entry.key());
        if let Err(error) = reactor.add(token, stream) {
            tracing::warn!(%error, "a connection could not be served");
            self.shared.clients[self.index].fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let _ = reactor.set_tcp_options(token, &self.files.tcp_options());
        let mut client = Box::new(Client::new(token, self.shared.id(), self.now));
        client.peer = peer;
        client.local = local;
        let index = entry.key();
        entry.insert(client);
        Some(index)
    }

    fn message(&mut self, reactor: &mut R, message: Message) {
        match message {
            Message::Stream(stream) => {
                self.add_counted_client(reactor, stream);
            }
            Message::Cancel { pid, secret } => {
                self.cancel_client(reactor, pid, &secret);
            }
            Message::Forward { peer, request } => self.forward_cancel(reactor, peer, request),
            Message::Config(files) => self.change_config(reactor, files),
            Message::Primary => self.primary_changed(),
            Message::HeavyQueueStarts { client, id, query } => self.heavy_queue_starts(client, id, query),
            Message::Resolved => {
                let pools: Vec<usize> = self.pools.iter().map(|(index, _)| index).collect();
                self.todo.extend(pools.into_iter().map(Todo::Connect));
                self.forward_waiting(reactor);
            }
            Message::Give { key, to } => self.give_free(reactor, &key, to),
            Message::Server(given) => self.take_over(reactor, *given),
            Message::Room(key) => self.look_for_room(&key),
            Message::LoginRefused { key, refusal } => self.refused_elsewhere(reactor, &key, &refusal),
            Message::Evict { of, key, to } => self.evict_for(reactor, of, &key, to),
            Message::Catalogue(database) => self.catalogue_found(reactor, &database),
            Message::OsUser { client, id } => self.os_user_found(reactor, client, id),
            Message::Listen(database, said) => self.said(reactor, &database, said),
            Message::Ask(ask) => self.asked(reactor, ask),
            Message::Answered(slot, id, answers) => self.console_answered(reactor, slot, id, &answers),
            Message::Counted(answers) => self.log_counted(&answers),
            Message::Unlisten => self.unlisten(reactor, true),
            Message::End => self.begin_to_end(reactor, true),
            Message::Stop { at_once } => self.stop(reactor, at_once),
        }
    }

    /// What holds for a client's requests now.
    pub(super) fn rules(&self, client: &Client) -> Rules {
        let proxy = &self.files.config.proxy;
        let effective = self.pools.get(client.pool).map(|pool| &pool.effective);
        Rules {
            mode: effective.map_or(proxy.pool_mode, |effective| effective.pool_mode),
            auto_prepare: effective.map_or(crate::config::AutoPrepare::Off, |effective| {
                effective.auto_prepare
            }),
            doubtful: self.files.config.corun.doubtful,
            split: effective
                .is_some_and(|effective| effective.read_write_split && !effective.replicas.is_empty()),
            late_begin: effective.is_some_and(|effective| {
                effective.pool_mode == PoolMode::Transaction && self.keys_decide(client.pool)
            }),
            counts_statements: proxy.max_prepared_statements > 0,
            carry_statements: proxy.max_prepared_statements > 0
                && effective.is_none_or(|effective| effective.pool_mode != PoolMode::Session),
            extended_only: proxy.disable_pqexec,
            packet_bytes_max: proxy.max_packet_size.0 as usize,
            statement_bytes_max: self.statement_bytes_max(),
            now: self.now,
        }
    }

    /// Tells a client why it has to go, and lets it go. One that has got a part of a message is told nothing: it would take our words for
    /// the rest of it, and a row for whole that is not.
    pub(super) fn refuse_client(&mut self, reactor: &mut R, index: usize, refusal: &Refusal) {
        self.refuse_client_as(reactor, index, refusal, &refusal.message);
    }

    /// The proxy ends: a client is told as by a server that does, and the log says it as PgBouncer's.
    pub(super) fn dismiss_client(&mut self, reactor: &mut R, index: usize) {
        self.refuse_client_as(reactor, index, &goodbye(), "server shutting down");
    }

    fn refuse_client_as(&mut self, reactor: &mut R, index: usize, refusal: &Refusal, why: &str) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if self.files.config.proxy.log_pooler_errors {
            let age = self.now.saturating_sub(client.connected).as_secs();
            log_client!(client, code = refusal.code, "closing because: {why} (age={age}s)");
        }
        *self.errors.entry(refusal.code).or_default() += 1;
        let server = client.server.and_then(|server| self.servers.get(server));
        if server.is_none_or(|server| server.reading.passing == 0) {
            let mut out = Vec::new();
            build::fatal(&mut out, refusal);
            client.transport.send(reactor, &out);
        }
        self.remove_client(reactor, index, true);
    }

    /// A client has said goodbye: it reads nothing more but what is on its way.
    pub(super) fn said_goodbye(&mut self, reactor: &mut R, index: usize) {
        if let Some(client) = self.clients.get(index)
            && reactor.queued(client.token()) == 0
        {
            reactor.close(client.token());
        }
        self.close_client(reactor, index, "client said goodbye");
    }

    /// Lets a client go without a word.
    pub(super) fn close_client(&mut self, reactor: &mut R, index: usize, why: &str) {
        self.log_end(index, why);
        self.remove_client(reactor, index, true);
    }

    fn log_end(&self, index: usize, why: &str) {
        if let Some(client) = self.clients.get(index)
            && self.files.config.proxy.log_disconnections
            && !client.user.is_empty()
        {
            let age = self.now.saturating_sub(client.connected).as_secs();
            log_client!(client, "closing because: {why} (age={age}s)");
        }
    }

    /// Takes a client out of everything. `open`: its socket is still in the reactor.
    pub(super) fn remove_client(&mut self, reactor: &mut R, index: usize, open: bool) {
        self.listens_no_more(reactor, index);
        let Some(client) = self.clients.try_remove(index) else {
            return;
        };
        self.shared.clients[self.index].fetch_sub(1, Ordering::Relaxed);
        if matches!(client.phase, Phase::Console) {
            self.shared.consoles.fetch_sub(1, Ordering::Relaxed);
        }
        if open {
            // What was gathered in this event may not be taken at once either.
            let slow = reactor.queued(client.token()) > 0;
            let until = self.now + if slow { LAST_WORDS } else { TICK };
            self.last_words_until = self.last_words_until.max(until);
            reactor.close_after_drain(client.token(), LAST_WORDS);
        }
        if let Some(pool) = client.wait.pool().and_then(|pool| self.pools.get_mut(pool)) {
            pool.unqueue(index);
        }
        if client.counted {
            self.shared.client_counts.uncount(&client.database, &client.user);
            if let Some(pool) = self.pools.get_mut(client.pool) {
                pool.clients -= 1;
            }
        }
        if let Some(server) = client.server {
            self.deserted(reactor, server, &client);
        }
    }
}

/// What those are told that an administrator ends.
pub(super) fn goodbye() -> Refusal {
    let words = "terminating connection due to administrator command";
    Refusal::new(code::ADMIN_SHUTDOWN, words)
}

impl<R: Reactor> Handler<R> for EventLoop<R> {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        self.now = reactor.now();
        match event {
            Event::Data { token, bytes } => match token & 3 {
                CLIENT => self.client_data(reactor, token >> KIND_BITS, bytes),
                SERVER => self.server_data(reactor, token >> KIND_BITS, bytes),
                _ => {}
            },
            Event::Accepted { stream, .. } => self.accepted(reactor, stream),
            Event::Connected { token } => match token & 3 {
                SERVER => self.server_connected(reactor, token >> KIND_BITS),
                CANCEL => self.cancel_connected(reactor, token >> KIND_BITS),
                _ => {}
            },
            Event::Drained { token } => match token & 3 {
                CLIENT => self.client_drained(reactor, token >> KIND_BITS),
                SERVER => self.server_drained(reactor, token >> KIND_BITS),
                _ => {}
            },
            Event::Closed { token, error } => match token & 3 {
                CLIENT => self.client_closed(reactor, token >> KIND_BITS, error),
                SERVER => self.server_closed(reactor, token >> KIND_BITS, error),
                CANCEL => self.cancel_closed(reactor, token >> KIND_BITS, error),
                _ => {}
            },
            Event::Woken => {
                for message in self.shared.mailboxes[self.index].take() {
                    self.message(reactor, message);
                    self.settle(reactor);
                }
            }
        }
        self.settle(reactor);
    }
}

impl<R: Reactor> EventLoop<R> {
    fn client_closed(&mut self, reactor: &mut R, index: usize, error: Option<std::io::Error>) {
        match error {
            Some(error) => self.log_end(index, &error.to_string()),
            None => self.log_end(index, "client closed the connection"),
        }
        self.remove_client(reactor, index, false);
    }

    fn client_drained(&mut self, reactor: &mut R, index: usize) {
        if let Some(server) = self.clients.get(index).and_then(|client| client.server)
            && let Some(server) = self.servers.get_mut(server)
            && std::mem::take(&mut server.reading.paused)
        {
            reactor.resume(server.token());
        }
        if self
            .clients
            .get(index)
            .is_some_and(|client| client.listens.is_some())
        {
            self.deliver(reactor, index);
        }
    }

    fn server_drained(&mut self, reactor: &mut R, index: usize) {
        if let Some(client) = self.servers.get(index).and_then(|server| server.user.client)
            && let Some(client) = self.clients.get_mut(client)
            && std::mem::take(&mut client.paused)
        {
            reactor.resume(client.token());
        }
    }
}
