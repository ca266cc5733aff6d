//! How clients get servers and lose them again: the part of the event loop that the pool is about.

use std::ops::ControlFlow;
use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::classify::forward::{self, Stop};
use crate::core::classify::request::{self, First, Needs, Request};
use crate::core::client::start::pick;
use crate::core::client::wait::WaitsIn;
use crate::core::console::queries::{Running, SLOW};
use crate::core::console::statistics::micros;
use crate::core::event_loop::{EventLoop, Todo, goodbye};
use crate::core::pool::Waiting;
use crate::core::ranges::dispatch::CorePool;
use crate::core::reply;
use crate::core::reply::change::Change;
use crate::core::reply::filter::AfterReply;
use crate::core::server::{Deadline, TaskKind};
use crate::core::stages::{Halt, Verdict};
use crate::session::settings;
use crate::understand::{Access, Shape, Understood};
use crate::wire::error::{Refusal, code};
use crate::wire::{TransactionStatus, build, frontend};

impl<R: Reactor> EventLoop<R> {
    /// Bytes of a client that is logged in.
    pub(in crate::core) fn client_request(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let inbox_max = self.waiting_inbox_max();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let server = client.server.and_then(|server| self.servers.get(server));
        if client.waits() || server.is_some_and(|server| server.is_taken()) {
            client.inbox.extend(bytes);
            if client.inbox.len() > inbox_max && !client.paused {
                client.paused = true;
                reactor.pause(client.token());
            }
            return self.grew(reactor, bytes.len());
        }
        if client.inbox.is_empty() {
            let used = self.serve(reactor, index, bytes);
            if used < bytes.len()
                && let Some(client) = self.clients.get_mut(index)
            {
                client.inbox = bytes[used..].to_vec();
                self.grew(reactor, bytes.len() - used);
            }
        } else {
            client.inbox.extend(bytes);
            let id = client.id;
            self.serve_inbox(reactor, index, id);
            self.grew(reactor, bytes.len());
        }
    }

    /// Serves what a client's inbox holds.
    pub(in crate::core) fn serve_inbox(&mut self, reactor: &mut R, index: usize, id: u64) {
        let inbox_max = self.waiting_inbox_max();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.id != id || client.waits() || !client.is_ready() {
            return;
        }
        let mut inbox = std::mem::take(&mut client.inbox);
        let used = self.serve(reactor, index, &inbox);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.id != id {
            return;
        }
        if used < inbox.len() {
            inbox.drain(..used);
            client.inbox = inbox;
        }
        let blocked = client.waits() && client.inbox.len() > inbox_max;
        let behind = client
            .server
            .and_then(|server| self.servers.get(server))
            .is_some_and(|server| reactor.queued(server.token()) > 0);
        if client.paused && !blocked && !behind {
            client.paused = false;
            reactor.resume(client.token());
        }
    }

    /// Goes through a client's messages. Returns how many bytes are done with; the rest is kept by the caller, if the client still is
    /// there.
    fn serve(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) -> usize {
        let mut at = 0;
        let Some(client) = self.clients.get_mut(index) else {
            return bytes.len();
        };
        let mut first = First::known(client.first.take());
        if let Some(server) = client.server {
            self.lingers_no_more(server);
            self.judge(index);
        }
        loop {
            let Some(client) = self.clients.get(index) else {
                return bytes.len();
            };
            let mut request = Request {
                client: index,
                bytes: &bytes[at..],
                rules: self.rules(client),
                first,
            };
            let verdict = self.serve_next(reactor, &mut request);
            first = request.first;
            let used = match verdict {
                // It has a server now.
                ControlFlow::Continue(()) => continue,
                ControlFlow::Break(Halt::Done(used)) => {
                    at += used;
                    first = First::default();
                    continue;
                }
                ControlFlow::Break(Halt::Gone) => return bytes.len(),
                ControlFlow::Break(Halt::Leave(used)) => {
                    if let Some(server) = self.clients.get(index).and_then(|client| client.server) {
                        self.part(reactor, server, index);
                    }
                    used
                }
                ControlFlow::Break(Halt::Wait(used)) => used,
            };
            if used == 0
                && let Some(client) = self.clients.get_mut(index)
            {
                client.first = first.take();
            }
            return at + used;
        }
    }

    /// Serves what the client asks for next. `Continue`: it has got a server for that.
    fn serve_next(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        let Some(client) = self.clients.get_mut(request.client) else {
            return ControlFlow::Break(Halt::Gone);
        };
        let server = client.server;
        if client.passing == 0 {
            self.at_any_time(reactor, request)?;
        } else if server.is_none() {
            // What is left of a message that needed no server.
            let part = client.passing.min(request.bytes.len());
            client.passing -= part;
            return ControlFlow::Break(match client.passing {
                0 => Halt::Done(part),
                _ => Halt::Wait(part),
            });
        }
        match server {
            Some(server) => self.serve_on(reactor, server, request),
            None => self.serve_without(reactor, request),
        }
    }

    /// The client has no server.
    fn serve_without(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        let index = request.client;
        let Some(client) = self.clients.get_mut(index) else {
            return ControlFlow::Break(Halt::Gone);
        };
        ControlFlow::Break(match request::needs(client, &mut self.classifier, request) {
            Needs::More => Halt::Wait(0),
            Needs::Answer(total, out) => {
                let used = total.min(request.bytes.len());
                client.passing = total - used;
                client.transport.send(reactor, &out);
                Halt::Done(used)
            }
            Needs::Goodbye => {
                self.said_goodbye(reactor, index);
                Halt::Gone
            }
            Needs::Refusal(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                Halt::Gone
            }
            Needs::Begin(used, understood) => {
                self.begin_late(reactor, index, &request.bytes[..used], understood);
                Halt::Done(used)
            }
            Needs::Server => {
                let understood = request
                    .first
                    .understood(client, &mut self.classifier, request.bytes);
                client.sequences |= understood.is_some_and(|understood| reads_sequences(understood));
                self.before_a_server(reactor, request)?;
                return self.attach(reactor, request);
            }
        })
    }

    /// The client has this server.
    fn serve_on(&mut self, reactor: &mut R, server_index: usize, request: &mut Request<'_>) -> Verdict {
        let queued_max = self.queued_max();
        let index = request.client;
        let all = request.bytes.len();
        match self.servers.get(server_index) {
            None => return ControlFlow::Break(Halt::Gone),
            Some(server) if server.task.is_some() || server.is_taken() => {
                return ControlFlow::Break(Halt::Wait(0));
            }
            Some(_) => self.on_its_server(reactor, server_index, request)?,
        }
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return ControlFlow::Break(Halt::Gone);
        };
        let (used, stop) = forward::forward(client, server, &mut self.classifier, reactor, request);
        let counts = std::mem::take(&mut server.query.counts);
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.totals.counts.add(counts);
        }
        match stop {
            Stop::Unfinished => {
                let queued = reactor.queued(server.token());
                if !client.paused && queued > queued_max {
                    client.paused = true;
                    reactor.pause(client.token());
                }
                if client.cancel_wanted && server.expects.outstanding() > 0 {
                    client.cancel_wanted = false;
                    self.start_cancel(reactor, server_index);
                }
                if queued > 0 {
                    self.grew(reactor, used);
                }
            }
            Stop::Held => client.held = true,
            Stop::Goodbye => {
                self.said_goodbye(reactor, index);
                return ControlFlow::Break(Halt::Gone);
            }
            Stop::Violation(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                return ControlFlow::Break(Halt::Gone);
            }
        }
        // What was answered here, without the server, leaves nothing to wait for.
        self.after_answer(reactor, server_index);
        if used < all
            && self
                .clients
                .get(index)
                .is_some_and(|client| client.server.is_none())
        {
            self.serve_soon(index);
        }
        ControlFlow::Break(Halt::Wait(used))
    }

    /// Gives a client a server, or puts it in the queue.
    fn attach(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        let index = request.client;
        let CorePool {
            pool: pool_index,
            domain,
        } = self.pool_for(reactor, request)?;
        let in_turn = self.files.config.proxy.server_round_robin;
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get_mut(pool_index)) else {
            return ControlFlow::Break(Halt::Wait(0));
        };
        let understood = request
            .first
            .understood(client, &mut self.classifier, request.bytes);
        let shape = understood.map_or(Shape::UNKNOWN, |understood| understood.shape);
        if !pool.paused
            && !pool.gone
            && pool.waiting.is_empty()
            && let Some(server) = pick(&self.servers, pool, client, in_turn)
        {
            pool.waiting.ran(shape);
            if self.pair(reactor, index, server) {
                return ControlFlow::Continue(());
            }
        } else {
            self.enqueue(reactor, index, pool_index, shape, domain);
        }
        ControlFlow::Break(Halt::Wait(0))
    }

    /// Puts a client's waiting bytes on the list of what is done once the event is over.
    pub(in crate::core) fn serve_soon(&mut self, index: usize) {
        if let Some(client) = self.clients.get(index) {
            self.todo.push_back(Todo::Serve(index, client.id));
        }
    }

    /// Puts a client in a pool's queue.
    pub(in crate::core) fn enqueue(
        &mut self,
        reactor: &mut R,
        index: usize,
        pool_index: usize,
        shape: Shape,
        domain: Option<usize>,
    ) {
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get_mut(pool_index)) else {
            return;
        };
        if let Some(refusal) = pool.refusal(!client.is_ready()) {
            return self.refuse_client(reactor, index, &refusal);
        }
        if let Some((refusal, until)) = &pool.failed
            && self.now < *until
            && pool.all.servers() == 0
            && pool.effective.replicas.is_empty()
        {
            let refusal = refusal.clone();
            return self.refuse_client(reactor, index, &refusal);
        }
        client.wait.place = WaitsIn::Pool(pool_index);
        client.wait.since = client.wait.from.take().unwrap_or(self.now);
        client.wait.told = false;
        pool.waiting.push(Waiting {
            client: index,
            shape,
            since: self.now,
            domain,
        });
        if !pool.idle.is_empty() && !pool.paused {
            // Only when the queue was not empty: those before it are served first.
            let free = pool.idle.take();
            self.todo.extend(free.into_iter().map(Todo::Free));
        }
        self.todo.push_back(Todo::Connect(pool_index));
        self.offer_to_others(pool_index, domain.is_some());
    }

    /// Makes a server a client's. `true`: at once; otherwise a query of the proxy's own comes first.
    pub(in crate::core) fn pair(&mut self, reactor: &mut R, index: usize, server_index: usize) -> bool {
        let replica = self
            .servers
            .get(server_index)
            .map(|server| server.pool)
            .is_some_and(|pool| self.is_replica(pool));
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return false;
        };
        debug_assert!(server.user.client.is_none() && server.is_between_transactions());
        client.server = Some(server_index);
        Self::arrived(client);
        client.transaction.began = false;
        client.held = false;
        server.user.client = Some(index);
        server.host.replica = replica;
        let unused = self.now.saturating_sub(server.life.since);
        server.life.since = self.now;
        server.query.transaction_since = self.now;
        server.query.since = self.now;
        server.reading.errors = 0;
        server.query.running = Running::Nothing;
        server.query.came = Some(match client.wait.pool() {
            Some(_) => client.wait.since,
            None => self.now,
        });
        if let Some(pool) = client.wait.leave().and_then(|pool| self.pools.get_mut(pool)) {
            let waited = self.now.saturating_sub(client.wait.since);
            pool.totals.wait_time += waited;
            pool.times.wait.record(micros(waited));
        }
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.totals.attached += 1;
        }
        let proxy = &self.files.config.proxy;
        let check = proxy.server_check_query.as_str();
        if !check.is_empty() && unused > proxy.server_check_delay && server.life.used {
            let text = if check == "<empty>" { ";" } else { check };
            server.start(reactor, TaskKind::Check, text);
            return false;
        }
        self.prepare_pair(reactor, index, server_index)
    }

    /// Sets a client's settings on its server, where they differ. `true`: they do not.
    pub(in crate::core) fn prepare_pair(
        &mut self,
        reactor: &mut R,
        index: usize,
        server_index: usize,
    ) -> bool {
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return false;
        };
        server.life.used = true;
        if !Arc::ptr_eq(&client.settings, &server.session.settings) {
            match settings::change(&server.session.settings, &client.settings) {
                // The same content: one copy is enough from now on.
                None => client.settings = Arc::clone(&server.session.settings),
                Some(sql) => {
                    if let Some(pool) = self.pools.get_mut(server.pool) {
                        pool.totals.settings_carried += 1;
                    }
                    let kind = TaskKind::Replay(Arc::clone(&client.settings));
                    server.start(reactor, kind, &sql);
                    return false;
                }
            }
        }
        if server.session.sequences.pair(client.id, client.sequences) {
            server.start(reactor, TaskKind::Check, "DISCARD SEQUENCES");
            return false;
        }
        if !client.is_ready() {
            self.greet_from_server(reactor, index, server_index);
            return false;
        }
        if let Some(begun) = client.begun.take() {
            client.transaction.wrote |= begun.understood.access != Access::Read;
            // In a flight of its own: should it fail, nothing of the client's runs outside of its transaction.
            server.start_message(reactor, TaskKind::Begin, &begun.text);
            return false;
        }
        true
    }

    /// What a server sent, once it is logged in.
    pub(in crate::core) fn answer(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let queued_max = self.queued_max();
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let mut client = match server.user.client {
            Some(client) => self.clients.get_mut(client).map(|client| &mut **client),
            None => None,
        };
        let received = reply::relay(server, client.as_deref_mut(), reactor, bytes, self.now);
        let mut learnt = None;
        if let Some(pool) = self.pools.get_mut(server.pool) {
            let totals = &mut pool.totals;
            totals.sent += bytes.len() as u64;
            totals.queries += u64::from(received.queries);
            if let Some(queries) = pool.queries_of.get_mut(server.host.number) {
                *queries += u64::from(received.queries);
            }
            totals.transactions += u64::from(received.transactions);
            totals.query_time += received.query_time;
            totals.transaction_time += received.transaction_time;
            if received.queries > 0
                && let Some(understood) = server.query.running.ends(received.queries)
            {
                let database = &pool.key.database;
                if received.latencies[0] > SLOW {
                    self.queries.record(database, &understood, received.latencies[0]);
                }
                learnt = Some(understood);
            }
            for took in received.latencies.iter().take(received.queries as usize) {
                pool.times.query.record(micros(*took));
            }
            if received.transactions == 1 {
                pool.times.transaction.record(micros(received.transaction_time));
            }
        }
        let mut queued_bytes = 0;
        if let Some(client) = client {
            if received.transactions > 0
                && server.session.status == TransactionStatus::Idle
                && std::mem::take(&mut client.transaction.defines)
            {
                self.classifier.defined();
                if client.doubt.recodes {
                    self.classifier.catalogues.all.outdated(&client.database);
                }
            }
            queued_bytes = reactor.queued(client.token());
            if !server.reading.paused && queued_bytes > queued_max {
                server.reading.paused = true;
                reactor.pause(server.token());
            }
        }
        if queued_bytes > 0 {
            self.grew(reactor, bytes.len());
        }
        if received.queries > 0 {
            self.after_a_query(reactor, index, learnt.as_deref(), received.latencies[0]);
        }
        if let Some(why) = received.broken {
            return self.server_lost(reactor, index, why);
        }
        if let Some(task) = received.task {
            return self.task_done(reactor, index, task);
        }
        for after in received.after {
            match after {
                AfterReply::Learn(learn) => learn(&mut self.classifier),
                AfterReply::ServeAgain(request) => self.form_refused(index, request),
                AfterReply::RunAsItCame(sql) => return self.run_as_it_came(reactor, index, &sql),
                // It has struck what went ahead; it was meant for what follows.
                AfterReply::CancelAgain => {
                    let server = self.servers.get(index);
                    if server.is_some_and(|server| server.process.cancels.may_strike()) {
                        self.start_cancel(reactor, index);
                    }
                }
            }
        }
        let ended = received.queries > 0 || received.own || received.owes_less;
        let room = self
            .servers
            .get_mut(index)
            .is_some_and(|server| server.expects.has_room_again());
        if ended || room {
            self.look_again(index);
        }
        if ended {
            self.after_answer(reactor, index);
        }
    }

    /// What a server's client has held back for an earlier answer may go now.
    fn look_again(&mut self, index: usize) {
        if let Some(client_index) = self.servers.get(index).and_then(|server| server.user.client)
            && let Some(client) = self.clients.get_mut(client_index)
            && std::mem::take(&mut client.held)
        {
            self.serve_soon(client_index);
        }
    }

    /// Parts a server and its client if nothing keeps them together.
    pub(in crate::core) fn after_answer(&mut self, reactor: &mut R, index: usize) {
        let Some(client_index) = self.servers.get(index).and_then(|server| server.user.client) else {
            return;
        };
        let (Some(server), Some(client)) = (self.servers.get_mut(index), self.clients.get_mut(client_index))
        else {
            return;
        };
        if !server.is_between_transactions() || client.passing > 0 {
            return;
        }
        let mode = self
            .pools
            .get(server.pool)
            .map_or(PoolMode::Session, |pool| pool.effective.pool_mode);
        if mode != PoolMode::Session && self.asks_state(reactor, index) {
            return;
        }
        let (Some(server), Some(client)) = (self.servers.get_mut(index), self.clients.get_mut(client_index))
        else {
            return;
        };
        let stays = mode == PoolMode::Session || !client.pins.is_empty();
        if stays {
            if mode == PoolMode::Session
                && self.files.config.proxy.server_fast_close
                && let Some(why) = server.life.closing
            {
                return self.refuse_client(reactor, client_index, &replaced(why));
            }
            if self.stopping {
                return self.refuse_client(reactor, client_index, &goodbye());
            }
            return self.look_again(index);
        }
        if self.lingers(reactor, index) {
            return;
        }
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if !server.session.strays.is_empty() {
            // Closing what is not there is no error.
            let mut out = Vec::new();
            for name in std::mem::take(&mut server.session.strays) {
                build::close_statement(&mut out, name);
                server.expects.close(true, Change::Nothing);
            }
            build::bare(&mut out, frontend::SYNC);
            server.expects.own_sync();
            server.transport.send(reactor, &out);
            return;
        }
        self.part(reactor, index, client_index);
    }

    /// Ends what binds a server and its client.
    pub(in crate::core) fn part(&mut self, reactor: &mut R, index: usize, client_index: usize) {
        self.lingers_no_more(index);
        if let Some(server) = self.servers.get_mut(index) {
            server.leave(reactor, self.now);
            // A place in the queue ends with the query.
            let ticket = server.query.ticket.take();
            server.query.deadline = Deadline::None;
            let replica = server.host.replica;
            self.fleet_finished(reactor, client_index, replica);
            if ticket.is_some() {
                self.unplace(index);
            }
        }
        self.todo.push_back(Todo::Free(index));
        if let Some(client) = self.clients.get_mut(client_index) {
            client.server = None;
            client.parting = false;
            client.held = false;
            client.since = self.now;
            if !client.inbox.is_empty() || client.paused {
                self.serve_soon(client_index);
            }
            if self.stopping {
                self.refuse_client(reactor, client_index, &goodbye());
            }
        }
    }
}

/// Whether a text may ask for the last number of a sequence.
fn reads_sequences(understood: &Understood) -> bool {
    let names = |name: &str| understood.names.binary_search_by(|own| (**own).cmp(name)).is_ok();
    names("lastval") || names("currval")
}

/// What a client of session mode is told whose server must go before it.
pub(in crate::core) fn replaced(why: &str) -> Refusal {
    Refusal::new(
        code::ADMIN_SHUTDOWN,
        "terminating connection because its server connection is replaced",
    )
    .detail(format!("The reason: {why}. server_fast_close is on."))
}
