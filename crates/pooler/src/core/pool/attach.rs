//! How clients get servers: at once, or from the queue.

use std::ops::ControlFlow;
use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::classify::request::Request;
use crate::core::client::Client;
use crate::core::client::start::fits;
use crate::core::client::wait::WaitsIn;
use crate::core::console::queries::Running;
use crate::core::console::statistics::micros;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::pool::{Pool, Waiting};
use crate::core::server::{Server, TaskKind};
use crate::core::stages::Halt;
use crate::session::settings;
use crate::understand::{Access, Pins, Shape, Understood};

impl<R: Reactor> EventLoop<R> {
    /// Gives a client a server, or puts it in the queue.
    /// `Continue`: it has this one. `domain`: that of the request's key, where it waits for a server of just this core pool.
    pub(in crate::core) fn attach(
        &mut self,
        reactor: &mut R,
        request: &mut Request<'_>,
        pool_index: usize,
        domain: Option<usize>,
    ) -> ControlFlow<Halt, usize> {
        let index = request.client;
        let in_turn = self.files.config.proxy.server_round_robin;
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get_mut(pool_index)) else {
            return ControlFlow::Break(Halt::Wait(0));
        };
        let understood = request
            .first
            .understood(client, &mut self.classifier, request.bytes);
        let calls = |name| understood.is_some_and(|understood| calls(understood, name));
        client.sequences |= calls("lastval") || calls("currval");
        if let Some(listens) = &mut client.listens {
            listens.shows = calls("pg_listening_channels");
        }
        let shape = understood.map_or(Shape::UNKNOWN, |understood| understood.shape);
        if !pool.paused
            && !pool.gone
            && pool.waiting.is_empty()
            && let Some(server) = pick(&self.servers, pool, client, in_turn)
        {
            pool.waiting.ran(shape);
            if self.pair(reactor, index, server) {
                return ControlFlow::Continue(server);
            }
        } else {
            self.enqueue(reactor, index, pool_index, shape, domain);
        }
        ControlFlow::Break(Halt::Wait(0))
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
        if let Some(refusal) = pool.failing(self.now).cloned() {
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
        server.reading.begins_anew();
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
        if let Some(sql) = client.listens.as_mut().and_then(|listens| listens.shown_by()) {
            client.pins |= Pins::LISTEN;
            server.start(reactor, TaskKind::Check, &sql);
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
}

/// A free server for a client: one that has its settings, if it is among those used last; or, `in_turn`, the one used longest ago.
pub(in crate::core) fn pick(
    servers: &slab::Slab<Box<Server>>,
    pool: &mut Pool,
    client: &Client,
    in_turn: bool,
) -> Option<usize> {
    const LOOKED_AT: usize = 8;
    let idle = &mut pool.idle;
    if pool.effective.pool_mode == PoolMode::Session {
        let fit = |index: &usize| {
            servers
                .get(*index)
                .is_some_and(|server| fits(&pool.effective, server, client))
        };
        let at = match in_turn {
            true => idle.iter().position(fit),
            false => idle.iter().rposition(fit),
        };
        return at.map(|at| idle.remove(at));
    }
    if in_turn {
        return (!idle.is_empty()).then(|| idle.remove(0));
    }
    let settings = &client.settings;
    let has = |index: &usize| {
        servers.get(*index).is_some_and(|server| {
            Arc::ptr_eq(&server.session.settings, settings) || server.session.settings == *settings
        })
    };
    let from = idle.len().saturating_sub(LOOKED_AT);
    match idle[from..].iter().rposition(has) {
        Some(at) => Some(idle.remove(from + at)),
        None => idle.pop(),
    }
}

/// Whether a text may call this function.
fn calls(understood: &Understood, name: &str) -> bool {
    understood.names.binary_search_by(|own| (**own).cmp(name)).is_ok()
}
