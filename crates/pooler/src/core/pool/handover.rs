//! Server connections that go from one event loop to another: what [`crate::core::pool::process`] decides is done here.

use std::sync::Arc;
use std::time::Duration;

use corun_model::pooler::hunger::Hunger;
use corun_net::reactor::Reactor;

use crate::core::event_loop::{EventLoop, TICK, Todo, server_token};
use crate::core::pool::process::{Given, ServerKey};
use crate::core::pool::{Pool, PoolKey};
use crate::core::shared::{Full, Message};

impl<R: Reactor> EventLoop<R> {
    /// The pools of this loop behind a key: one, or its core pools.
    pub(in crate::core) fn pools_of(&self, key: &ServerKey) -> Vec<usize> {
        let key = PoolKey {
            database: Arc::clone(&key.database),
            user: Arc::clone(&key.user),
            host: key.host,
            core_pool: 0,
        };
        let Some(&first) = self.pool_of.get(&key) else {
            return Vec::new();
        };
        match self.core_pools_beside(first) {
            [] => vec![first],
            several => several.to_vec(),
        }
    }

    /// Whether clients wait for servers of a pool.
    pub(in crate::core) fn has_waiting(&self, index: usize) -> bool {
        let pool = self.pools.get(index);
        pool.is_some_and(|pool| !pool.waiting.is_empty())
    }

    fn is_alone(&self) -> bool {
        self.shared.mailboxes.len() == 1
    }

    /// What a pool's clients wait for, if any do.
    fn hunger_of(&self, pool: &Pool) -> Option<Hunger> {
        let oldest = pool.waiting.iter().next()?;
        Some(Hunger {
            since: oldest.since + self.hosts.clock_ahead,
            waiting: pool.waiting.len(),
            servers: pool.servers,
        })
    }

    /// Clients of a pool, or questions to its servers, wait for a connection that there is no room for: another loop's free one will do.
    pub(in crate::core) fn hungry(&mut self, index: usize) {
        let Some(pool) = self.pools.get(index).filter(|_| !self.is_alone()) else {
            return;
        };
        let hunger = self.hunger_of(pool).unwrap_or(Hunger {
            since: self.now + self.hosts.clock_ahead,
            waiting: 1,
            servers: pool.servers,
        });
        if let Some(other) = pool.all.hunger(self.index, Some(hunger)) {
            let key = pool.key.servers();
            self.shared.tell(other, Message::Give { key, to: self.index });
        }
    }

    /// A pool's clients wait no more for want of room.
    pub(in crate::core) fn sated(&mut self, index: usize) {
        let Some(pool) = self
            .pools
            .get(index)
            .filter(|pool| pool.all.is_hungry(self.index))
        else {
            return;
        };
        let pools = self.pools_of(&pool.key.servers());
        if !pools.into_iter().any(|index| self.has_waiting(index)) {
            pool.all.hunger(self.index, None);
        }
    }

    /// There may be room for connections that clients wait for.
    pub(in crate::core) fn look_for_room(&mut self, key: &ServerKey) {
        let pools = self.pools_of(key);
        self.todo.extend(pools.into_iter().map(Todo::Connect));
    }

    /// Another loop asks for a free connection.
    pub(in crate::core) fn give_free(&mut self, reactor: &mut R, key: &ServerKey, to: usize) {
        for index in self.pools_of(key) {
            let Some(pool) = self.pools.get_mut(index).filter(|pool| pool.all.is_hungry(to)) else {
                continue;
            };
            if let Some(server) = pool.idle.pop() {
                // One that cannot go now is free again.
                if self.give(reactor, server, to) {
                    return;
                }
                self.todo.push_back(Todo::Free(server));
            } else if let Some(&server) = pool.lingering.first() {
                // It goes there once it is free.
                self.settle_server(reactor, server);
                return;
            }
        }
    }

    /// Gives a free connection to another loop whose clients have waited longer than this one's. `false`: there is none.
    pub(in crate::core) fn goes_elsewhere(&mut self, reactor: &mut R, server: usize, of: usize) -> bool {
        let Some(pool) = self.pools.get(of) else {
            return false;
        };
        let own = self.hunger_of(pool);
        let now = self.now + self.hosts.clock_ahead;
        let Some(other) = pool.all.hungriest(self.index, own, now) else {
            return false;
        };
        let given = self.give(reactor, server, other);
        if given && own.is_some() {
            // Those that wait here are hungry from now on.
            self.todo.push_back(Todo::Connect(of));
        }
        given
    }

    /// Gives a connection that nobody has to another loop. `false`: it cannot go now.
    pub(in crate::core) fn give(&mut self, reactor: &mut R, index: usize, to: usize) -> bool {
        let Some(server) = self.servers.get(index).filter(|server| server.is_free()) else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(server.pool) else {
            return false;
        };
        let Some(stream) = reactor.take(server.token()) else {
            return false;
        };
        let server = self.servers.remove(index);
        pool.servers -= 1;
        pool.idle.forget(index);
        pool.all.fed(to);
        let given = Given {
            key: pool.key.servers(),
            effective: Arc::clone(&pool.effective),
            stream,
            age: self.now.saturating_sub(server.life.created),
            unused: self.now.saturating_sub(server.life.since),
            reconnects: self.reconnects,
            server,
        };
        self.shared.tell(to, Message::Server(Box::new(given)));
        true
    }

    /// Takes over a connection that another loop had free.
    pub(in crate::core) fn take_over(&mut self, reactor: &mut R, given: Given) {
        let Given {
            key,
            mut server,
            stream,
            effective,
            age,
            unused,
            reconnects,
        } = given;
        let waiting = |index: usize| self.pools.get(index).map_or(0, |pool| pool.waiting.len());
        let pools = self.pools_of(&key);
        let Some(index) = pools.into_iter().max_by_key(|&index| waiting(index)) else {
            return self.lose_given(&key);
        };
        let entry = self.servers.vacant_entry();
        let token = server_token(entry.key());
        if let Err(error) = reactor.add(token, stream) {
            tracing::warn!(%error, "a connection from another event loop could not be served");
            return self.lose_given(&key);
        }
        server.transport.token = token;
        server.pool = index;
        let statements_max = self.files.config.proxy.max_prepared_statements as usize;
        server.session.statements.keep_at_most(statements_max);
        server.life.created = self.now.saturating_sub(age);
        server.life.since = self.now.saturating_sub(unused);
        let slot = entry.key();
        let pool = &mut self.pools[index];
        pool.servers += 1;
        if effective.moves(&pool.effective) {
            server.life.closing = Some("database configuration changed");
        } else if reconnects < self.reconnects {
            server.life.closing = Some("RECONNECT");
        }
        // `bind_tick` moves its process to this loop's cores.
        entry.insert(server);
        // Those that still wait after this one say so again: a loop that only seems to wait would get every connection.
        pool.all.hunger(self.index, None);
        self.todo.push_back(Todo::Free(slot));
        self.look_for_room(&key);
    }

    /// A connection has ended between two loops.
    fn lose_given(&mut self, key: &ServerKey) {
        let all = self.shared.pools.of(key.clone());
        self.shared.server_counts.uncount(&key.database, &key.user);
        if let Some(hungry) = all.closed(false) {
            self.shared.tell(hungry, Message::Room(key.clone()));
        }
        self.look_for_room(key);
    }

    /// A limit of the database or the user keeps a pool from connecting: a free connection of another pool makes room, here or in
    /// another loop.
    pub(in crate::core) fn make_room(&mut self, reactor: &mut R, index: usize, full: Full) {
        let now = self.now;
        let Some(pool) = self.pools.get_mut(index) else {
            return;
        };
        let key = pool.key.servers();
        let asks = now >= pool.evicts_after;
        if asks {
            pool.evicts_after = now + TICK;
        }
        if self.evict(reactor, full, &key) {
            self.todo.push_back(Todo::Connect(index));
        } else if asks {
            self.shared.tell_others(self.index, || Message::Evict {
                of: full,
                key: key.clone(),
                to: self.index,
            });
        }
    }

    /// Another loop needs room.
    pub(in crate::core) fn evict_for(&mut self, reactor: &mut R, full: Full, key: &ServerKey, to: usize) {
        if self.evict(reactor, full, key) {
            self.shared.tell(to, Message::Room(key.clone()));
        }
    }

    /// Closes the free connection that was used longest ago, of the other pools that share the limit.
    fn evict(&mut self, reactor: &mut R, full: Full, key: &ServerKey) -> bool {
        let shares = |of: &PoolKey| match full {
            Full::Database => of.database == key.database && of.servers() != *key,
            Full::User => of.user == key.user && of.servers() != *key,
        };
        let others = self.pools.iter().filter(|(_, pool)| shares(&pool.key));
        let free = others.flat_map(|(_, pool)| pool.idle.iter().copied());
        let since = |&index: &usize| {
            self.servers
                .get(index)
                .map_or(Duration::MAX, |server| server.life.since)
        };
        if let Some(oldest) = free.min_by_key(since) {
            self.close_server(reactor, oldest, "evicted");
            return true;
        }
        // One on which a client only lingers is free soon.
        let others = self.pools.iter().filter(|(_, pool)| shares(&pool.key));
        let lingering = others.flat_map(|(_, pool)| pool.lingering.iter().copied());
        if let Some(oldest) = lingering.min_by_key(since) {
            self.settle_server(reactor, oldest);
        }
        false
    }
}
