//! [`EventLoop`]: one thread's connections, and what happens to them event by event. Nothing in here blocks, and of statements it runs only those
//! that are short ([`SqlSession::is_short`](super::engine::SqlSession::is_short)): without a hop to another thread and back.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use corun_net::reactor::{Event, Handler, Peer, Reactor, Stream, Token};
use corun_wire::build;
use corun_wire::error::{Refusal, code};
use corun_wire::server::{Connection, Entered, Login, LoginAction, Message};
use corun_wire::startup::Startup;
use corun_wire::tls::TlsServer;
use corun_wire::transport::{Opened, Transport};
use slab::Slab;
use tokio::sync::oneshot::error::TryRecvError;

use super::client::{Client, INBOX_BYTES, Stage, client_token, listener_token, slot_of};
use super::engine::SqlEngine;
use super::outlet::Pipe;
use super::shared::{ClientId, Mail, Mailbox, Shared, shutdown, too_many};
use super::work::{self, Back, Served, Serving, ServingWaker};
use crate::operate::SessionName;
use crate::session::Identity;

/// Time between two looks at all time limits.
const TICK: Duration = Duration::from_millis(250);
/// How long a client's last words may take to go out.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long cancelled statements may take to end when the server stops.
const CANCELLED: Duration = Duration::from_secs(5);
/// Time in which those that were sent away at the end may take what they were told.
const GOODBYE: Duration = Duration::from_millis(200);
/// Bytes that a socket may have queued before no more is taken from the pipe. Unmeasured.
const QUEUED_BYTES_MAX: usize = 256 << 10;
/// Chunks of one client that are sent before others have their turn. Unmeasured.
const CHUNKS_PER_TURN: usize = 8;

/// See [`self`].
pub(super) struct EventLoop<R, E: SqlEngine> {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    engine: E,
    runtime: tokio::runtime::Handle,
    clients: Slab<Box<Client<E::Session>>>,
    /// Listeners, on the first loop only.
    listeners: usize,
    /// The loop that gets the next connection.
    next_loop: usize,
    next_number: u64,
    now: Duration,
    ticked: Duration,
    /// When the end began.
    stopped: Option<Duration>,
    /// When the last client was sent away at the end.
    deserted: Option<Duration>,
    plain: Vec<u8>,
    reactor: PhantomData<fn(&mut R)>,
}

impl<R: Reactor, E: SqlEngine> EventLoop<R, E> {
    /// An event loop with so many listeners in its reactor.
    pub fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox>, engine: E, listeners: usize) -> Self {
        Self {
            shared,
            mailbox,
            runtime: engine.runtime(),
            engine,
            clients: Slab::new(),
            listeners,
            next_loop: 0,
            next_number: 0,
            now: Duration::ZERO,
            ticked: Duration::ZERO,
            stopped: None,
            deserted: None,
            plain: Vec::new(),
            reactor: PhantomData,
        }
    }

    /// Until the server stops and all clients have left.
    ///
    /// # Errors
    /// When the kernel does not let us wait.
    pub fn run(&mut self, reactor: &mut R) -> std::io::Result<()> {
        self.mailbox.read_here();
        loop {
            // Its own letters ring no bell.
            self.mail(reactor);
            let wait = match self.clients.is_empty() && self.stopped.is_none() {
                _ if self.mailbox.has_letters() => Some(Duration::ZERO),
                true => None,
                false => Some((self.ticked + TICK).saturating_sub(self.now)),
            };
            reactor.turn(wait, self)?;
            self.now = reactor.now();
            if self.now.saturating_sub(self.ticked) >= TICK {
                self.ticked = self.now;
                self.tick(reactor);
            }
            if self.shared.is_stopping() && self.stop(reactor) {
                return Ok(());
            }
        }
    }

    fn accepted(&mut self, reactor: &mut R, stream: Stream) {
        if !self.shared.connect() {
            // Without looking at what it says, or a flood of connections would cost a login each.
            if let Some(slot) = self.add(reactor, stream) {
                self.fatal(reactor, slot, &too_many());
            }
            return;
        }
        let target = self.next_loop % self.shared.mailboxes.len();
        self.next_loop = target + 1;
        let mailbox = &self.shared.mailboxes[target];
        if Arc::ptr_eq(mailbox, &self.mailbox) {
            self.add_counted(reactor, stream);
        } else {
            mailbox.post(Mail::Stream(stream));
        }
    }

    fn add_counted(&mut self, reactor: &mut R, stream: Stream) {
        match self.add(reactor, stream) {
            Some(slot) => self.clients[slot].counted = true,
            None => self.shared.disconnect(),
        }
    }

    fn add(&mut self, reactor: &mut R, stream: Stream) -> Option<usize> {
        let peer = stream.peer();
        let entry = self.clients.vacant_entry();
        let slot = entry.key();
        let token = client_token(slot);
        if let Err(error) = reactor.add(token, stream) {
            tracing::warn!(%error, "a connection could not be served");
            return None;
        }
        self.next_number += 1;
        let id = ClientId {
            slot,
            number: self.next_number,
        };
        let os_user = match &peer {
            Some(Peer::Unix { uid, .. }) => corun_net::users::user_name(*uid),
            _ => None,
        };
        let address = match peer {
            Some(Peer::Tcp(address)) => Some(address.ip().to_canonical()),
            _ => None,
        };
        entry.insert(Box::new(Client {
            id,
            transport: Transport::new(token),
            address,
            os_user,
            stage: Stage::Login(Box::new(Login::new()), self.shared.access.now()),
            since: self.now,
            inbox: Vec::new(),
            reserved: 0,
            begun: None,
            paused: false,
            counted: false,
            pipe: Arc::new(Pipe::new(id, Arc::clone(&self.mailbox))),
            waker: Waker::from(Arc::new(ServingWaker {
                mailbox: Arc::clone(&self.mailbox),
                client: id,
            })),
            user: String::new(),
            pid: None,
        }));
        Some(slot)
    }

    /// Forgets a client; its socket is closed or will be.
    fn forget(&mut self, slot: usize) {
        let Some(mut client) = self.clients.try_remove(slot) else {
            return;
        };
        client.pipe.close();
        self.shared.reserve(&client.user, &mut client.reserved, 0);
        if client.counted {
            self.shared.disconnect();
        }
        // A task that has the session ends with it, now that the pipe is closed.
        match client.stage {
            // That may take a moment, which is not the event loop's.
            Stage::Idle(work) => drop(self.runtime.spawn_blocking(move || drop(work))),
            Stage::Waiting(serving) => drop(self.runtime.spawn_blocking(move || drop(serving))),
            _ => {}
        }
    }

    /// Ends a connection after what was said.
    fn close(&mut self, reactor: &mut R, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot) {
            client.transport.end(reactor);
            reactor.close_after_drain(client.transport.token, LAST_WORDS);
            self.forget(slot);
        }
    }

    /// Tells a client that it is sent away, and why.
    fn fatal(&mut self, reactor: &mut R, slot: usize, refusal: &Refusal) {
        if let Some(client) = self.clients.get_mut(slot) {
            let mut out = Vec::new();
            build::fatal(&mut out, refusal);
            client.transport.send(reactor, &out);
            self.close(reactor, slot);
        }
    }

    fn data(&mut self, reactor: &mut R, slot: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        if client.transport.tls.is_none() {
            return self.plain(reactor, slot, bytes);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let opened = client.transport.open(reactor, bytes, &mut plain);
        if !plain.is_empty() {
            self.plain(reactor, slot, &plain);
        }
        self.plain = plain;
        if !matches!(opened, Ok(Opened::Open)) {
            self.close(reactor, slot);
        }
    }

    /// What a client says.
    fn plain(&mut self, reactor: &mut R, slot: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        match &mut client.stage {
            Stage::Login(login, _) => match login.received(bytes) {
                Ok(()) => self.log_in(reactor, slot),
                Err(refusal) => self.fatal(reactor, slot, &refusal),
            },
            Stage::Idle(_) => {
                client.inbox.extend_from_slice(bytes);
                self.hand_over(reactor, slot);
            }
            Stage::Busy(_) | Stage::Waiting(_) => {
                client.inbox.extend_from_slice(bytes);
                if client.inbox.len() > INBOX_BYTES && !client.paused {
                    client.paused = true;
                    reactor.pause(client.transport.token);
                }
            }
            Stage::Leaving => {}
        }
    }

    fn log_in(&mut self, reactor: &mut R, slot: usize) {
        loop {
            let Some(client) = self.clients.get_mut(slot) else {
                return;
            };
            let Stage::Login(login, access) = &mut client.stage else {
                return;
            };
            let engine = &self.engine;
            let database = |startup: &Startup| database_of(engine, startup);
            let policy = access.policy(self.shared.access.random(), &database);
            let connection = Connection {
                address: client.address,
                tls: client.transport.tls.as_deref(),
                os_user: client.os_user.as_deref(),
            };
            match login.next(&connection, &policy) {
                LoginAction::More => return,
                LoginAction::Send(bytes) => client.transport.send(reactor, &bytes),
                LoginAction::BeginTls { answer, received } => {
                    if !self.begin_tls(reactor, slot, answer, &received) {
                        return self.close(reactor, slot);
                    }
                }
                LoginAction::Cancel { pid, secret } => {
                    self.shared.cancel(pid, &secret);
                    return self.close(reactor, slot);
                }
                LoginAction::Refused(denial) => {
                    let from = client.address;
                    self.shared.counts.logins_refused.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(reason = %denial.reason, ?from, "a login was refused");
                    return self.fatal(reactor, slot, &denial.refusal);
                }
                LoginAction::Gone => return self.close(reactor, slot),
                LoginAction::Entered(entered) => return self.entered(reactor, slot, entered),
            }
        }
    }

    /// Returns whether the login goes on.
    fn begin_tls(&mut self, reactor: &mut R, slot: usize, answer: bool, received: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(slot) else {
            return false;
        };
        let Stage::Login(_, access) = &client.stage else {
            return false;
        };
        let Some(Ok(session)) = access.tls().map(TlsServer::accept) else {
            return false;
        };
        if answer {
            client.transport.send(reactor, b"S");
        }
        client.transport.tls = Some(Box::new(session));
        let mut plain = Vec::new();
        let opened = client.transport.open(reactor, received, &mut plain);
        let Stage::Login(login, _) = &mut client.stage else {
            return false;
        };
        matches!(opened, Ok(Opened::Open)) && login.received(&plain).is_ok()
    }

    fn entered(&mut self, reactor: &mut R, slot: usize, entered: Entered) {
        let client = &mut self.clients[slot];
        client.transport.send(reactor, &entered.send);
        let startup = entered.startup;
        // The one that the rules were asked about.
        let database = database_of(&self.engine, &startup);
        let name = SessionName {
            user: startup.user().to_owned(),
            database: database.clone(),
            pid: 0,
            from: match client.address {
                Some(address) => address.to_string(),
                None => "[local]".to_owned(),
            },
        };
        let admission = match self.shared.admit(name) {
            _ if self.shared.is_stopping() => return self.fatal(reactor, slot, &shutdown()),
            Ok(admission) => admission,
            Err(refusal) => return self.fatal(reactor, slot, &refusal),
        };
        client.pid = Some(admission.pid());
        startup.user().clone_into(&mut client.user);
        let own =
            |name: &str| matches!(name, "user" | "database" | "replication") || name.starts_with("_pq_.");
        let who = Identity {
            user: startup.user().to_owned(),
            database,
            pid: admission.pid(),
            address: client.address,
            options: startup
                .parameters
                .iter()
                .filter(|(name, _)| !own(name))
                .cloned()
                .collect(),
        };
        let task = work::begin(
            Arc::clone(&self.shared),
            self.engine.clone(),
            Arc::clone(&client.pipe),
            startup,
            who,
            admission,
            entered.rest,
        );
        client.stage = Stage::Busy(work::spawn(&self.runtime, &self.mailbox, client.id, task));
    }

    /// Gives whole messages to a task, where there are some.
    fn hand_over(&mut self, reactor: &mut R, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let over = client.inbox.len().saturating_sub(INBOX_BYTES);
        if !self.shared.reserve(&client.user, &mut client.reserved, over) {
            let what = "out of memory for messages of clients";
            let refusal = Refusal::new(code::OUT_OF_MEMORY, what)
                .hint("Send shorter statements, or fewer of them at the same time.");
            return self.fatal(reactor, slot, &refusal);
        }
        if client.inbox.first() == Some(&corun_wire::frontend::TERMINATE) {
            return self.close(reactor, slot);
        }
        if let Ok(None) = Message::read(&client.inbox, &self.shared.config.client) {
            let begun = client.begun.unwrap_or(self.now);
            client.begun = (over > 0).then_some(begun);
            return;
        }
        client.begun = None;
        // The bytes stay counted until the task is done with them.
        let inbox = std::mem::take(&mut client.inbox);
        let Stage::Idle(mut work) = std::mem::replace(&mut client.stage, Stage::Leaving) else {
            return;
        };
        let id = client.id;
        let is_short = work.is_short(&inbox);
        let serving: Serving<E::Session> = Box::pin(work::serve(work, inbox));
        match is_short {
            true => self.serve_here(reactor, id, serving),
            false => client.stage = Stage::Busy(work::spawn(&self.runtime, &self.mailbox, id, serving)),
        }
    }

    /// Serves a client on this very thread, as far as that may be.
    fn serve_here(&mut self, reactor: &mut R, id: ClientId, serving: Serving<E::Session>) {
        let client = &mut self.clients[id.slot];
        client.pipe.attend();
        client.stage = match work::serve_here(&self.runtime, serving, &client.waker) {
            Served::Done(back) => return self.took_back(reactor, id, back),
            Served::Panicked => return self.panicked(reactor, id.slot),
            Served::Waits(serving) => Stage::Waiting(serving),
            Served::Leaves(serving) => Stage::Busy(work::spawn(&self.runtime, &self.mailbox, id, serving)),
        };
        // From here on output is announced.
        self.pump(reactor, id);
    }

    /// What this thread serves itself may go on.
    fn woken(&mut self, reactor: &mut R, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.slot).filter(|client| client.id == id) else {
            return;
        };
        match std::mem::replace(&mut client.stage, Stage::Leaving) {
            Stage::Waiting(serving) => self.serve_here(reactor, id, serving),
            // It was polled since.
            other => client.stage = other,
        }
    }

    /// A task is done.
    fn back(&mut self, reactor: &mut R, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.slot).filter(|client| client.id == id) else {
            return;
        };
        let Stage::Busy(receiver) = &mut client.stage else {
            return;
        };
        match receiver.try_recv() {
            Ok(back) => self.took_back(reactor, id, back),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Closed) => self.panicked(reactor, id.slot),
        }
    }

    /// A client's messages are done.
    fn took_back(&mut self, reactor: &mut R, id: ClientId, back: Back<E::Session>) {
        let Some(client) = self.clients.get_mut(id.slot) else {
            return;
        };
        client.since = self.now;
        match back {
            Back::Ready(work, mut rest) => {
                client.stage = Stage::Idle(work);
                // Empty ones, too, for their memory.
                if !rest.is_empty() || client.inbox.is_empty() {
                    rest.append(&mut client.inbox);
                    client.inbox = rest;
                }
                if std::mem::take(&mut client.paused) {
                    reactor.resume(client.transport.token);
                }
                self.pump(reactor, id);
                if self.shared.is_stopping() {
                    return self.dismiss(reactor, id.slot);
                }
                // What came meanwhile, if anything did; and the task's bytes count no more.
                self.hand_over(reactor, id.slot);
            }
            Back::Ended => {
                client.stage = Stage::Leaving;
                self.pump(reactor, id);
            }
        }
    }

    fn panicked(&mut self, reactor: &mut R, slot: usize) {
        let pid = self.clients.get(slot).and_then(|client| client.pid);
        tracing::error!(pid, "a statement panicked; its session ends");
        let what = "the statement failed by a mistake of the server's";
        self.fatal(reactor, slot, &Refusal::new(code::INTERNAL_ERROR, what));
    }

    /// Sends what a task has written, as far as the socket takes it.
    fn pump(&mut self, reactor: &mut R, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.slot).filter(|client| client.id == id) else {
            return;
        };
        let token = client.transport.token;
        let mut sent = Vec::new();
        for _ in 0..CHUNKS_PER_TURN {
            if reactor.queued(token) >= QUEUED_BYTES_MAX {
                // Until `Drained`.
                return;
            }
            let Some(chunk) = client.pipe.take(sent) else {
                if matches!(client.stage, Stage::Leaving) {
                    self.close(reactor, id.slot);
                }
                return;
            };
            client.transport.send(reactor, &chunk);
            sent = chunk;
        }
        self.mailbox.post(Mail::Output(id));
    }

    fn drained(&mut self, reactor: &mut R, token: Token) {
        if let Some(id) = self.clients.get(slot_of(token)).map(|client| client.id) {
            self.pump(reactor, id);
        }
    }

    fn mail(&mut self, reactor: &mut R) {
        for mail in self.mailbox.take() {
            match mail {
                Mail::Stream(stream) => self.add_counted(reactor, stream),
                Mail::Output(id) => self.pump(reactor, id),
                Mail::Back(id) => self.back(reactor, id),
                Mail::Woken(id) => self.woken(reactor, id),
            }
        }
    }

    /// Sends a client away because the server stops, if nothing of it runs.
    fn dismiss(&mut self, reactor: &mut R, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        match client.stage {
            Stage::Login(..) => self.fatal(reactor, slot, &shutdown()),
            Stage::Idle(_) => {
                // Behind what it was told before.
                let mut out = Vec::new();
                build::fatal(&mut out, &shutdown());
                client.pipe.append(out);
                let id = client.id;
                let stage = std::mem::replace(&mut client.stage, Stage::Leaving);
                client.since = self.now;
                if let Stage::Idle(work) = stage {
                    drop(self.runtime.spawn_blocking(move || drop(work)));
                }
                self.pump(reactor, id);
            }
            Stage::Busy(_) | Stage::Waiting(_) | Stage::Leaving => {}
        }
    }

    /// Goes on with the end. Returns whether it is there.
    fn stop(&mut self, reactor: &mut R) -> bool {
        let began = match self.stopped {
            Some(began) => began,
            None => {
                for listener in 0..std::mem::take(&mut self.listeners) {
                    reactor.unlisten(listener_token(listener));
                }
                *self.stopped.insert(self.now)
            }
        };
        let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.dismiss(reactor, slot);
        }
        let grace = match self.shared.ends_at_once() {
            true => Duration::ZERO,
            false => self.shared.config.shutdown_grace,
        };
        let ran = self.now.saturating_sub(began);
        if ran >= grace && (self.ticked == self.now || !self.shared.is_terminating()) {
            // Again at each tick: a session may have been between two statements.
            self.shared.terminate();
        }
        if ran >= grace + CANCELLED {
            let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.fatal(reactor, slot, &shutdown());
            }
        }
        if !self.clients.is_empty() {
            self.deserted = None;
            return false;
        }
        let deserted = *self.deserted.get_or_insert(self.now);
        self.now.saturating_sub(deserted) >= GOODBYE
    }

    fn tick(&mut self, reactor: &mut R) {
        let (login, idle) = (self.shared.config.login_timeout, self.shared.config.idle_timeout);
        let now = self.now;
        let is_half = |client: &Client<E::Session>| {
            let begun = client.begun;
            begun.is_some_and(|begun| now.saturating_sub(begun) >= login)
        };
        let over = |client: &Client<E::Session>| {
            let stays = now.saturating_sub(client.since);
            match client.stage {
                Stage::Login(..) => stays >= login,
                Stage::Idle(_) => is_half(client) || idle.is_some_and(|idle| stays >= idle),
                Stage::Busy(_) | Stage::Waiting(_) => false,
                Stage::Leaving => stays >= LAST_WORDS,
            }
        };
        let slots: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| over(client))
            .map(|(slot, _)| slot)
            .collect();
        for slot in slots {
            let refusal = match self.clients[slot].stage {
                Stage::Login(..) => {
                    Refusal::new(code::QUERY_CANCELED, "canceling authentication due to timeout")
                }
                Stage::Idle(_) if is_half(&self.clients[slot]) => {
                    let detail = format!("Its rest has not come within {} s.", login.as_secs_f64());
                    Refusal::new(code::PROTOCOL_VIOLATION, "incomplete message from client").detail(detail)
                }
                Stage::Idle(_) => Refusal::new(
                    code::IDLE_TIMEOUT,
                    "terminating connection due to idle-session timeout",
                ),
                Stage::Busy(_) | Stage::Waiting(_) | Stage::Leaving => {
                    // It does not read.
                    reactor.close(client_token(slot));
                    self.forget(slot);
                    continue;
                }
            };
            self.fatal(reactor, slot, &refusal);
        }
    }
}

/// The database that a client gets.
fn database_of(engine: &impl SqlEngine, startup: &Startup) -> String {
    engine.database(startup.user(), startup.get("database").unwrap_or_default())
}

impl<R: Reactor, E: SqlEngine> Handler<R> for EventLoop<R, E> {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        self.now = reactor.now();
        match event {
            Event::Accepted { stream, .. } => self.accepted(reactor, stream),
            Event::Data { token, bytes } => self.data(reactor, slot_of(token), bytes),
            Event::Drained { token } => self.drained(reactor, token),
            Event::Closed { token, .. } => self.forget(slot_of(token)),
            Event::Woken => self.mail(reactor),
            _ => {}
        }
    }
}
