//! How clients get servers and lose them again: the part of the event loop that the pool is about.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::classify::forward::{self, Stop};
use crate::core::classify::request::{self, Request};
use crate::core::client::start::pick;
use crate::core::console::queries::{Running, SLOW};
use crate::core::console::statistics::micros;
use crate::core::event_loop::{EventLoop, Todo, goodbye};
use crate::core::heavy_queue::{self, OnServer};
use crate::core::pool::Waiting;
use crate::core::ranges::dispatch::CorePool;
use crate::core::reply;
use crate::core::reply::change::Change;
use crate::core::reply::filter::AfterReply;
use crate::core::route::fleet::Way;
use crate::core::server::{Deadline, TaskKind};
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

    /// Goes through a client's messages. Answers how many bytes are done with; the rest is kept by the caller, if the client still is
    /// there.
    fn serve(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) -> usize {
        let mut at = 0;
        let queued_max = self.queued_max();
        if let Some(server) = self.clients.get(index).and_then(|client| client.server) {
            self.lingers_no_more(server);
            self.judge(index);
        }
        loop {
            let Some(client) = self.clients.get(index) else {
                return bytes.len();
            };
            let rules = self.rules(client);
            if (client.server.is_none() || client.passing == 0)
                && let Some(used) = self.explain(reactor, index, &bytes[at..])
            {
                at += used;
                continue;
            }
            let Some(client) = self.clients.get(index) else {
                return bytes.len();
            };
            let Some(server_index) = client.server else {
                // What is left of a message that needed no server.
                if client.passing > 0
                    && let Some(client) = self.clients.get_mut(index)
                {
                    let part = client.passing.min(bytes.len() - at);
                    client.passing -= part;
                    at += part;
                }
                if at == bytes.len() {
                    return at;
                }
                let Some(client) = self.clients.get(index) else {
                    return bytes.len();
                };
                match request::first(client, &mut self.classifier, &rules, &bytes[at..]) {
                    Request::Unknown => return at,
                    Request::Answered(total, out) => {
                        let used = total.min(bytes.len() - at);
                        at += used;
                        if let Some(client) = self.clients.get_mut(index) {
                            client.passing = total - used;
                            client.transport.send(reactor, &out);
                        }
                    }
                    Request::Goodbye => {
                        self.said_goodbye(reactor, index);
                        return bytes.len();
                    }
                    Request::Violation(refusal) => {
                        self.refuse_client(reactor, index, &refusal);
                        return bytes.len();
                    }
                    Request::Begin(used, understood) => {
                        self.begin_late(reactor, index, &bytes[at..at + used], understood);
                        at += used;
                    }
                    Request::Server(understood) => {
                        self.reads_sequences(index, understood.as_deref());
                        if !self.heavy_queue_lets(reactor, index, &bytes[at..], understood.as_ref()) {
                            return at;
                        }
                        if !self.attach(reactor, index, &bytes[at..], understood.as_ref()) {
                            return at;
                        }
                    }
                }
                continue;
            };
            let Some(server) = self.servers.get(server_index) else {
                return bytes.len();
            };
            if server.task.is_some() || server.is_taken() {
                return at;
            }
            let mut end = bytes.len();
            if client.turn.is_some() {
                match self.heavy_queue_on_server(reactor, index, server_index, &rules, &bytes[at..]) {
                    OnServer::Go => {}
                    OnServer::Only(used) => end = at + used,
                    OnServer::Wait(used) => return at + used,
                }
            }
            if !self.splits.rules.is_empty()
                && let Some(used) = self.split(reactor, index, server_index, &rules, &bytes[at..])
            {
                return at + used;
            }
            let (Some(client), Some(server)) =
                (self.clients.get_mut(index), self.servers.get_mut(server_index))
            else {
                return bytes.len();
            };
            let (used, stop) = forward::forward(
                client,
                server,
                &mut self.classifier,
                &rules,
                reactor,
                &bytes[at..end],
            );
            at += used;
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
                    return bytes.len();
                }
                Stop::Violation(refusal) => {
                    self.refuse_client(reactor, index, &refusal);
                    return bytes.len();
                }
            }
            // What was answered here, without the server, leaves nothing to wait for.
            self.after_answer(reactor, server_index);
            if let Some(client) = self.clients.get(index)
                && client.server.is_none()
                && at < bytes.len()
            {
                self.todo.push_back(Todo::Serve(index, client.id));
            }
            return at;
        }
    }

    /// Gives a client a server, or puts it in the queue. `true`: it has one and may go on at once.
    fn attach(
        &mut self,
        reactor: &mut R,
        index: usize,
        bytes: &[u8],
        understood: Option<&Arc<Understood>>,
    ) -> bool {
        let shape = understood.map_or(Shape::UNKNOWN, |understood| understood.shape);
        let key = self.key_of_request(index, bytes, understood);
        let host_pool = match self.way(reactor, index, bytes, key) {
            Way::Pool(pool) => pool,
            Way::Park => {
                self.park(index);
                return false;
            }
            Way::Refuse(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                return false;
            }
        };
        let in_turn = self.files.config.proxy.server_round_robin;
        let CorePool {
            pool: pool_index,
            domain,
        } = self.core_pool(host_pool, index, key);
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get_mut(pool_index)) else {
            return false;
        };
        if !pool.paused
            && !pool.gone
            && pool.waiting.is_empty()
            && let Some(server) = pick(&self.servers, pool, client, in_turn)
        {
            pool.waiting.ran(shape);
            return self.pair(reactor, index, server);
        }
        self.enqueue(reactor, index, pool_index, shape, domain);
        false
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
        client.waiting = Some(pool_index);
        client.waiting_since = client.waited_from.take().unwrap_or(self.now);
        client.told_to_wait = false;
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
        client.asked = false;
        client.began = false;
        client.held = false;
        server.user.client = Some(index);
        server.host.replica = replica;
        let unused = self.now.saturating_sub(server.life.since);
        server.life.since = self.now;
        server.query.transaction_since = self.now;
        server.query.since = self.now;
        server.reading.errors = 0;
        server.query.running = Running::Nothing;
        server.query.came = Some(match client.waiting {
            Some(_) => client.waiting_since,
            None => self.now,
        });
        if let Some(pool) = client.waiting.take().and_then(|pool| self.pools.get_mut(pool)) {
            let waited = self.now.saturating_sub(client.waiting_since);
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
            client.wrote |= begun.understood.access != Access::Read;
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
        let ticket = server.query.ticket.take_if(|_| received.queries > 0);
        let of_pool = server.pool;
        let (mut learnt, mut came) = (None, None);
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
                && let Some(rule) = server.query.timed.take()
                && let Some(rule) = self.splits.rules.get_mut(rule)
            {
                rule.history.record(1, micros(received.latencies[0]));
            }
            if received.queries > 0
                && let Some(understood) = server.query.running.ends(received.queries)
            {
                let database = &pool.key.database;
                if received.latencies[0] > SLOW {
                    self.queries.record(database, &understood, received.latencies[0]);
                }
                learnt = Some(understood);
            }
            if received.queries > 0 {
                came = server.query.came.take();
                server.query.deadline = Deadline::None;
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
                && std::mem::take(&mut client.defines)
            {
                self.classifier.defined();
                if client.recodes {
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
        let ran = heavy_queue::Ran {
            took: received.latencies[0],
            came,
        };
        if let Some(ticket) = ticket {
            self.heavy_queue_finished(reactor, index, ticket, ran);
            // What came behind it has waited for its end.
            if let Some(at) = self.servers.get(index).and_then(|server| server.user.client)
                && let Some(client) = self.clients.get(at).filter(|client| !client.inbox.is_empty())
            {
                self.todo.push_back(Todo::Serve(at, client.id));
            }
        } else if let Some(understood) = learnt {
            self.heavy_queue_learns(reactor, of_pool, &understood, ran);
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
            self.todo.push_back(Todo::Serve(client_index, client.id));
        }
    }

    /// Parts a server and its client if nothing keeps them together.
    pub(in crate::core) fn after_answer(&mut self, reactor: &mut R, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let Some(client_index) = server.user.client else {
            return;
        };
        let Some(client) = self.clients.get_mut(client_index) else {
            return;
        };
        let id = client.id;
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
            if std::mem::take(&mut client.held) {
                self.todo.push_back(Todo::Serve(client_index, id));
            }
            return;
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
                self.todo.push_back(Todo::Serve(client_index, client.id));
            }
            if self.stopping {
                self.refuse_client(reactor, client_index, &goodbye());
            }
        }
    }
}

/// What a client of session mode is told whose server must go before it.
pub(in crate::core) fn replaced(why: &str) -> Refusal {
    Refusal::new(
        code::ADMIN_SHUTDOWN,
        "terminating connection because its server connection is replaced",
    )
    .detail(format!("The reason: {why}. server_fast_close is on."))
}
