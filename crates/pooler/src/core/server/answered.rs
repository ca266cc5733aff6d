//! What a server sent, once it is logged in, and what follows for its client: it goes on, or leaves the server.

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::console::queries::SLOW;
use crate::core::console::statistics::micros;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::reply;
use crate::core::reply::change::Change;
use crate::core::reply::filter::AfterReply;
use crate::core::server::connect::TLS_FAILED;
use crate::core::server::{Deadline, server_and_client};
use crate::understand::Pins;
use corun_wire::error::{Refusal, code};
use corun_wire::transport::Opened;
use corun_wire::{TransactionStatus, build, frontend};

impl<R: Reactor> EventLoop<R> {
    /// What a server's socket has brought.
    pub(in crate::core) fn server_data(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if server.transport.tls.is_none() {
            return self.server_bytes(reactor, index, bytes);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let opened = server.transport.open(reactor, bytes, &mut plain);
        match opened {
            Ok(opened) => {
                self.tls_progress(reactor, index);
                if !plain.is_empty() {
                    self.server_bytes(reactor, index, &plain);
                }
                if opened == Opened::Ended {
                    self.server_lost(reactor, index, "server conn crashed?");
                }
            }
            Err(error) => self.server_failed(
                reactor,
                index,
                Refusal::new(code::CANNOT_CONNECT, TLS_FAILED).detail(error.to_string()),
            ),
        }
        self.plain = plain;
    }

    fn server_bytes(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        match self.servers.get(index) {
            Some(server) if server.is_ready() => self.answer(reactor, index, bytes),
            Some(_) => self.login_bytes(reactor, index, bytes),
            None => {}
        }
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
        if !received.notifications.is_empty() {
            self.hub_notified(reactor, index, received.notifications);
        }
        if let Some(why) = received.broken {
            return self.server_lost(reactor, index, why);
        }
        if received.stale.is_some() || received.again.is_some() {
            self.parse_anew(index, received.stale, received.again);
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
            self.go_on(reactor, index);
        }
    }

    /// The result of a client's statement has changed: the next use parses it anew, and the refused one comes again if it can.
    fn parse_anew(&mut self, index: usize, stale: Option<u64>, again: Option<Vec<u8>>) {
        let new = self.classifier.statements.stamp();
        let Some(client_index) = self.client_of(index) else {
            return;
        };
        let Some(client) = self.clients.get_mut(client_index) else {
            return;
        };
        if let Some(stamp) = stale {
            client.statements.parse_anew(stamp, new);
        }
        if let Some(batch) = again {
            client.put_back(batch);
            client.statements.comes_again = true;
            self.serve_soon(client_index);
        }
    }

    /// The client of a server goes on: what it has held back may go now, or it leaves the server that it needs no more. Whatever ends on a
    /// server that a client has ends here.
    pub(in crate::core) fn go_on(&mut self, reactor: &mut R, index: usize) {
        let Some(client_index) = self.client_of(index) else {
            return;
        };
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return;
        };
        if std::mem::take(&mut client.held) {
            self.todo.push_back(Todo::Serve(client_index, client.id));
        }
        if !server.is_between_transactions() || client.passing > 0 {
            return;
        }
        if client.listens.is_some() {
            self.listens_on(reactor, client_index);
        }
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let mode = self
            .pools
            .get(server.pool)
            .map_or(PoolMode::Session, |pool| pool.effective.pool_mode);
        if mode != PoolMode::Session && self.asks_state(reactor, index) {
            return;
        }
        let Some((_, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return;
        };
        let listens_only = mode != PoolMode::Session && client.pins == Pins::LISTEN;
        if listens_only && self.hands_over_listening(reactor, index) {
            return;
        }
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return;
        };
        if mode == PoolMode::Session || !client.pins.is_empty() {
            if mode == PoolMode::Session
                && self.files.config.proxy.server_fast_close
                && let Some(why) = server.life.closing
            {
                self.refuse_client(reactor, client_index, &replaced(why));
            } else if self.stopping {
                self.dismiss_client(reactor, client_index);
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
            server.query.deadline = Deadline::None;
            let replica = server.host.replica;
            self.fleet_finished(reactor, client_index, replica);
            self.stages_parted(index);
        }
        self.todo.push_back(Todo::Free(index));
        if let Some(client) = self.clients.get_mut(client_index) {
            client.server = None;
            client.held = false;
            client.since = self.now;
            if !client.inbox.is_empty() || client.paused {
                self.serve_soon(client_index);
            }
            if self.stopping {
                self.dismiss_client(reactor, client_index);
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
