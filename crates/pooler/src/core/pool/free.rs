//! Servers that nobody has: to the next client, to another event loop, to the idle ones, or closed.

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::client::start::fits;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::server::TaskKind;

impl<R: Reactor> EventLoop<R> {
    /// A server that nobody has: to the next client, to the idle ones, or closed.
    pub(in crate::core) fn server_free(&mut self, reactor: &mut R, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if server.is_used() || server.task.is_some() || !server.is_ready() {
            return;
        }
        let Some(pool) = self.pools.get_mut(server.pool) else {
            return;
        };
        let lifetime = pool.effective.server_lifetime;
        let old = self.now.saturating_sub(server.life.created) >= lifetime && server.life.used;
        if let Some(why) = server.life.closing.or(old.then_some("server lifetime over")) {
            return self.close_server(reactor, index, why);
        }
        if server.process.cancels.under_way() > 0 {
            // `cancel_closed` comes back to it.
            return;
        }
        if server.process.cancels.wants_barrier() {
            return server.start(reactor, TaskKind::Barrier, ";");
        }
        if !server.is_between_transactions() {
            return self.close_server(
                reactor,
                index,
                "the connection is within something that nobody began",
            );
        }
        if pool.paused {
            return self.close_server(reactor, index, "PAUSE");
        }
        let of = server.pool;
        if !self.questions.is_empty() && self.becomes_hub(reactor, index, of) {
            return;
        }
        if self.goes_elsewhere(reactor, index, of) {
            return;
        }
        let (Some(server), Some(pool)) = (self.servers.get_mut(index), self.pools.get_mut(of)) else {
            return;
        };
        // Somebody may have left the queue without leaving its entry.
        while let Some(next) = match pool.effective.pool_mode {
            PoolMode::Session => pool.waiting.take(|waiting| {
                let client = self.clients.get(waiting.client);
                client.is_none_or(|client| fits(&pool.effective, server, client))
            }),
            _ => pool.waiting.pop(self.now, pool.totals.queries),
        } {
            if self.clients.get(next.client).is_some() {
                if pool.waiting.is_empty() {
                    self.sated(of);
                }
                return self.pair_waiting(reactor, next.client, index);
            }
        }
        if let Some(other) = self.take_from_others(of)
            && self.clients.get(other.client).is_some()
        {
            return self.pair_waiting(reactor, other.client, index);
        }
        let Some(pool) = self.pools.get_mut(of) else {
            return;
        };
        pool.idle.push(index);
        if !pool.waiting.is_empty() {
            // It may serve none of those that wait, and make room for one that does.
            self.todo.push_back(Todo::Connect(of));
        }
        self.offer_to_waiting(of);
        if self.questions.iter().any(|(pool, _, _)| *pool == of) {
            self.run_questions(reactor);
        }
    }

    /// A client that waited goes on with this server.
    fn pair_waiting(&mut self, reactor: &mut R, client: usize, index: usize) {
        if self.pair(reactor, client, index) {
            self.serve_soon(client);
        }
    }
}
