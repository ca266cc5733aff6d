//! One side of a pair is gone: what becomes of the other.

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::client::Client;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::pool::Pool;
use crate::core::server::{TaskKind, lost};
use crate::hosts::Report;
use crate::understand::Pins;
use corun_wire::TransactionStatus;
use corun_wire::error::Reported;

impl<R: Reactor> EventLoop<R> {
    /// A client went away while it had this server.
    pub(in crate::core) fn deserted(&mut self, reactor: &mut R, index: usize, client: &Client) {
        self.lingers_no_more(index);
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        server.leave(reactor, self.now);
        if self.stages_deserted(reactor, index) {
            return;
        }
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if self.pools.get(server.pool).is_some_and(Pool::replicates) {
            return self.close_server(reactor, index, "the client that replicated left");
        }
        if server.task.is_some() {
            // Its settings may be half there: nobody else gets it.
            return self.close_server(
                reactor,
                index,
                "the client left while the connection was being prepared",
            );
        }
        if client.passing > 0 || server.reading.passing > 0 || !server.expects.settled() {
            if server.expects.outstanding() > 0 {
                self.start_cancel(reactor, index);
            }
            return self.close_server(reactor, index, "the client left within a query");
        }
        let session = self
            .pools
            .get(server.pool)
            .is_some_and(|pool| pool.effective.pool_mode == PoolMode::Session);
        let touched =
            session || client.is_doubtful() || !client.pins.is_empty() || !server.session.strays.is_empty();
        let always = self.files.config.proxy.server_reset_query_always;
        let rollback = server.session.status != TransactionStatus::Idle;
        if !touched && !always && !rollback {
            self.todo.push_back(Todo::Free(index));
            return;
        }
        let reset = self.files.config.proxy.server_reset_query.trim();
        let unseen = client.pins.without(Pins::CAN_BE_ASKED);
        if !unseen.is_empty() || !client.doubt.unjudged.is_empty() {
            return self.close_server(reactor, index, "the client left something that cannot be undone");
        }
        if touched && !session && !reset.to_ascii_lowercase().starts_with("discard all") {
            return self.close_server(reactor, index, "the client left a changed session");
        }
        server.session.strays.clear();
        if rollback {
            server.start(
                reactor,
                TaskKind::Rollback {
                    reset: touched || always,
                },
                "ROLLBACK",
            );
        } else if reset.is_empty() {
            self.todo.push_back(Todo::Free(index));
        } else {
            server.start(reactor, TaskKind::Reset, reset);
        }
    }

    /// A server's connection ended or cannot be understood; its client is told.
    pub(in crate::core) fn server_lost(&mut self, reactor: &mut R, index: usize, why: &'static str) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let reported = server
            .reading
            .last_error
            .as_deref()
            .map(|message| Reported::read(&message[5..]));
        let told = reported.as_ref().is_some_and(Reported::is_fatal) && server.task.is_none();
        let reported = reported.or_else(|| server.task.as_ref().and_then(|task| task.error.clone()));
        let (within, pool) = (server.reading.passing > 0, server.pool);
        match self.separate(index) {
            // The server's own last words have gone to the client, or a part of a message that ours would be taken for.
            Some(client) if told || within => {
                self.close_client(reactor, client, "the server connection ended")
            }
            Some(client) => self.refuse_client(reactor, client, &lost(reported.as_ref())),
            None => {}
        }
        self.report(reactor, pool, Report::Suspect);
        self.close_server(reactor, index, why);
    }
}
