//! What clients leave on their servers: what is known of it, when the server is asked, and what follows from its answer.
//!
//! ```text
//!  the transaction ends ─► its texts show a change: the server is asked at once ─► settings follow the client, other things pin it
//!                      ─► code that they do not show may have changed something: the client lingers on its server
//!                           └─ somebody else needs it, or a second has passed: asked, then as above
//!                      ─► it may have left what nobody can see: pinned, unless `doubtful = "trust"`
//! ```

use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::config::{Doubtful, PoolMode, Switch};
use crate::core::client::Client;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::route::fleet::PROBE;
use crate::core::server::{Lingering, Server, Task, TaskKind, lost, server_and_client};
use crate::session::catalogue::{self, Effects, Trusted};
use crate::session::settings::{self, Settings};
use crate::understand::{Pins, Understood};
use corun_wire::error::Reported;

/// How long a client lingers on its server at most, where nobody needs that.
const LINGERS_MAX: Duration = Duration::from_secs(1);
/// Texts kept until it is known what they do; after more the client keeps its server.
const UNJUDGED_MAX: usize = 256;

impl Client {
    /// Something with these effects runs for it.
    pub(in crate::core) fn suspect(&mut self, effects: &Effects, doubtful: Doubtful) {
        if effects.is_nothing() {
            return;
        }
        if effects.unreadable && doubtful == Doubtful::Pin {
            self.pins |= Pins::DOUBTFUL;
        }
        self.pins |= effects.pins.without(Pins::CAN_BE_ASKED);
        self.doubt.hidden.add(effects);
    }

    /// A text runs of which it is not known yet what it does.
    pub(in crate::core) fn keep_unjudged(&mut self, understood: &Arc<Understood>) {
        if self
            .doubt
            .unjudged
            .iter()
            .any(|known| Arc::ptr_eq(known, understood))
        {
            return;
        }
        if self.doubt.unjudged.len() < UNJUDGED_MAX {
            self.doubt.unjudged.push(Arc::clone(understood));
        } else {
            self.pins |= Pins::DOUBTFUL;
        }
    }

    /// Whether its session may be another than is known.
    pub(in crate::core) fn is_doubtful(&self) -> bool {
        self.doubt.read_back || !self.doubt.hidden.is_nothing() || !self.doubt.unjudged.is_empty()
    }
}

/// The question what a client has left on its server: the row of its pins, rows of settings, or both.
fn question(client: &Client, server: &Server, pins: bool, settings: bool) -> String {
    let mut sql = String::new();
    if pins {
        sql.push_str(Pins::QUESTION);
    }
    if settings {
        if pins {
            sql.push(';');
        }
        let touched = client.doubt.touched.iter().map(|name| &**name);
        let known = client
            .settings
            .unlisted()
            .chain(server.session.settings.unlisted());
        sql.push_str(&settings::read_back(touched.chain(known)));
    }
    sql
}

impl<R: Reactor> EventLoop<R> {
    /// Asks a server at the end of a transaction what its client has left there, where the client's texts show that it did. `true`: the
    /// answer is awaited.
    pub(in crate::core) fn asks_state(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return false;
        };
        let pins = std::mem::take(&mut client.doubt.ask_pins) && client.pins.can_be_asked();
        let settings = client.doubt.read_back && (pins || client.pins.is_empty());
        if !pins && !settings {
            return false;
        }
        client.doubt.read_back &= !settings;
        client.held = true;
        let sql = question(client, server, pins, settings);
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.totals.state_questions += 1;
        }
        server.start(reactor, TaskKind::State { settings }, &sql);
        true
    }

    /// A server has told what its client has left there.
    pub(in crate::core) fn state_told(&mut self, reactor: &mut R, index: usize, asked: bool, task: &Task) {
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return self.close_server(reactor, index, "the client left");
        };
        if task.error.is_some() && client.pins.is_empty() {
            return self.lose_both(reactor, index, &lost(task.error.as_ref()));
        }
        client.doubt.read_back |= asked && task.error.is_some();
        if task.error.is_none() {
            let mut settings = Settings::default();
            for row in &task.rows {
                match row.as_slice() {
                    [Some(name), value] => settings.read(name, value.as_deref()),
                    row => client.pins = client.pins.as_answered(row),
                }
            }
            if asked {
                // What is prepared may run again.
                if !client.pins.contains(Pins::SQL_PREPARE) {
                    client.doubt.touched.clear();
                }
                if settings.begins_with_temporary() {
                    // Whatever it creates from now on is temporary.
                    client.pins |= Pins::OTHER;
                }
                let settings = Arc::new(settings);
                server.session.settings = Arc::clone(&settings);
                // What was reset is again what the client asked for when it began.
                let mut own = Settings::clone(&settings);
                for (name, value) in &client.start.0 {
                    own.0.entry(name.clone()).or_insert_with(|| value.clone());
                }
                client.settings = if own == *settings { settings } else { Arc::new(own) };
            }
        }
        let pool = server.pool;
        self.go_on(reactor, index);
        // Where it is pinned, those that wait need another.
        self.todo.push_back(Todo::Connect(pool));
    }

    /// Lets a client stay on its server that is free to go but for what hidden code may have done. `true`: it stays for now.
    pub(in crate::core) fn lingers(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return false;
        };
        let recodes = std::mem::take(&mut client.doubt.recodes);
        let suspect = !client.doubt.hidden.is_nothing() || !client.doubt.unjudged.is_empty();
        if !suspect && !recodes {
            return false;
        }
        let database = Arc::clone(&client.database);
        let replica = server.host.replica;
        if !replica && self.asks_catalogue(reactor, index, &database) {
            if let Some((_, client)) = server_and_client(&mut self.servers, &mut self.clients, index) {
                client.held = true;
            }
            return true;
        }
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(server.pool).filter(|_| suspect) else {
            return false;
        };
        let since = server.user.lingering.since().unwrap_or(self.now);
        if !matches!(server.user.lingering, Lingering::Now(_)) {
            server.user.lingering = Lingering::Now(since);
            pool.lingering.push(index);
        }
        // Where its next request may belong on another server, it goes at once.
        let plain = pool.effective.replicas.is_empty()
            && pool.core_pools.is_empty()
            && self.files.config.corun.heavy_queue == Switch::Off;
        let needed = !plain
            || client.held
            || !client.inbox.is_empty()
            || self.stopping
            || self.now.saturating_sub(since) >= LINGERS_MAX
            || server.life.closing.is_some()
            || pool.paused
            || !pool.waiting.is_empty()
            || pool.all.hungriest(self.index, None, self.now).is_some();
        if needed {
            self.settle_server(reactor, index);
        }
        true
    }

    /// A client goes on on its server, or leaves it.
    #[inline]
    pub(in crate::core) fn lingers_no_more(&mut self, index: usize) {
        if let Some(server) = self.servers.get_mut(index)
            && let Lingering::Now(since) = server.user.lingering
        {
            server.user.lingering = Lingering::Before(since);
            if let Some(pool) = self.pools.get_mut(server.pool) {
                pool.lingering.forget(index);
            }
        }
    }

    /// Somebody else needs a server whose client lingers there: it is asked for what that has left.
    /// `false`: that cannot be yet.
    pub(in crate::core) fn settle_server(&mut self, reactor: &mut R, index: usize) -> bool {
        let server = self.servers.get(index);
        let lingers = server.filter(|server| matches!(server.user.lingering, Lingering::Now(_)));
        let client = lingers.and_then(|server| server.user.client);
        let Some(client_index) = client.filter(|&client| self.judge(client)) else {
            return false;
        };
        self.lingers_no_more(index);
        let doubtful = self.files.config.corun.doubtful;
        let Some(client) = self.clients.get_mut(client_index) else {
            return false;
        };
        let hidden = std::mem::take(&mut client.doubt.hidden);
        if !hidden.is_nothing() {
            let anything = hidden.unreadable && doubtful == Doubtful::Trust;
            let possible = if anything { Pins::CAN_BE_ASKED } else { hidden.pins };
            client.pins |= possible.among(Pins::CAN_BE_ASKED);
            client.doubt.ask_pins |= !possible.is_empty();
            client.doubt.read_back |= hidden.settings || anything;
            client.doubt.touched.extend(hidden.names);
        }
        self.go_on(reactor, index);
        true
    }

    /// Asks a connection that is new what its database's own code does, before it serves anybody. `true`: the answer is awaited.
    pub(in crate::core) fn asks_first(&mut self, reactor: &mut R, index: usize) -> bool {
        let of = self.servers.get(index).map_or(usize::MAX, |server| server.pool);
        let Some(pool) = self.pools.get(of) else {
            return false;
        };
        let database = Arc::clone(&pool.key.database);
        pool.effective.pool_mode != PoolMode::Session
            && pool.key.host & PROBE == 0
            // A replica may be behind.
            && !self.is_replica(of)
            && self.asks_catalogue(reactor, index, &database)
    }

    /// Asks a server what its database's own code does, where that is not known and nobody else asks. `true`: the answer is awaited.
    fn asks_catalogue(&mut self, reactor: &mut R, index: usize, database: &Arc<str>) -> bool {
        let Some(server) = self.servers.get_mut(index) else {
            return false;
        };
        let asks =
            self.classifier.catalogue(database).is_none() && self.shared.catalogues.wants(database, true);
        if asks {
            let kind = TaskKind::Catalogue(Arc::clone(database));
            server.start(reactor, kind, &catalogue::question());
        }
        asks
    }

    /// Finds out what the texts of a client may have done. `false`: that is not known yet.
    pub(in crate::core) fn judge(&mut self, index: usize) -> bool {
        let Some(client) = self.clients.get_mut(index) else {
            return false;
        };
        if client.doubt.unjudged.is_empty() {
            return true;
        }
        let Some(catalogue) = self.classifier.catalogue(&client.database) else {
            return false;
        };
        for understood in std::mem::take(&mut client.doubt.unjudged) {
            client.suspect(&catalogue.effects(&understood), self.files.config.corun.doubtful);
        }
        true
    }

    /// Clients wait for servers of a pool while others linger on some: those are asked. `true`: there are enough of them.
    pub(in crate::core) fn settle_for_waiting(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some(pool) = self.pools.get(index).filter(|pool| !pool.lingering.is_empty()) else {
            return false;
        };
        let wanted = pool.waiting.len() - pool.connecting.min(pool.waiting.len());
        let some: Vec<usize> = pool.lingering.iter().copied().take(wanted).collect();
        let mut settled = 0;
        for server in some {
            settled += usize::from(self.settle_server(reactor, server));
        }
        settled == wanted
    }

    /// Several times a second: nobody lingers for long, and definitions are looked at again.
    pub(in crate::core) fn lingering_tick(&mut self, reactor: &mut R) {
        let now = self.now;
        let mut over: Vec<usize> = Vec::new();
        for (_, pool) in &self.pools {
            let at_once = self.stopping || pool.paused || !pool.waiting.is_empty();
            over.extend(pool.lingering.iter().copied().filter(|&index| {
                let server = self.servers.get(index);
                server.is_some_and(|server| {
                    let since = server.user.lingering.since().unwrap_or(now);
                    at_once || server.life.closing.is_some() || now.saturating_sub(since) >= LINGERS_MAX
                })
            }));
        }
        for index in over {
            let Some(server) = self.servers.get(index).filter(|server| server.task.is_none()) else {
                continue;
            };
            let client = server.user.client.and_then(|client| self.clients.get(client));
            let database = client.map(|client| Arc::clone(&client.database));
            if !database.is_some_and(|database| self.asks_catalogue(reactor, index, &database)) {
                self.settle_server(reactor, index);
            }
        }
        self.look_at_catalogues(reactor);
    }

    /// Asks about databases whose definitions may have changed past the pooler, where a server is free.
    fn look_at_catalogues(&mut self, reactor: &mut R) {
        let mut free: Vec<(usize, Arc<str>)> = Vec::new();
        for (index, pool) in &self.pools {
            let behind = |server: &usize| self.servers.get(*server).is_none_or(|server| server.host.replica);
            if pool.clients > 0
                && pool.idle.last().is_some_and(|server| !behind(server))
                && !free.iter().any(|(_, database)| *database == pool.key.database)
                && self.classifier.catalogue(&pool.key.database).is_some()
                && self.shared.catalogues.wants(&pool.key.database, false)
            {
                free.push((index, Arc::clone(&pool.key.database)));
            }
        }
        for (index, database) in free {
            if let Some(server) = self.pools.get_mut(index).and_then(|pool| pool.idle.pop())
                && let Some(server) = self.servers.get_mut(server)
            {
                server.query.since = self.now;
                server.start(reactor, TaskKind::Catalogue(database), &catalogue::question());
            }
        }
    }

    /// A server has told what its database's own code looks like.
    pub(in crate::core) fn catalogue_told(
        &mut self,
        reactor: &mut R,
        index: usize,
        database: &Arc<str>,
        rows: Vec<Vec<Option<String>>>,
        error: Option<Reported>,
    ) {
        if let Some(error) = &error {
            tracing::warn!(
                database = &**database,
                code = error.code,
                "the pooler cannot see what the code of the database does: {}",
                error.message
            );
        }
        let corun = &self.files.config.corun;
        let trusted = Trusted {
            schemas: corun.trusted_schemas.clone(),
            functions: corun.trusted_functions.clone(),
        };
        let rows = error.is_none().then_some(rows);
        self.shared
            .catalogues
            .learn(&self.shared, database, rows, trusted);
        match server_and_client(&mut self.servers, &mut self.clients, index) {
            Some((_, client)) => {
                // It may have lingered, and sent something meanwhile.
                client.held = true;
                self.go_on(reactor, index);
            }
            None => self.todo.push_back(Todo::Free(index)),
        }
    }

    /// It is known what a database's own code does: clients that linger for that are judged.
    pub(in crate::core) fn catalogue_found(&mut self, reactor: &mut R, database: &Arc<str>) {
        let pools = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.key.database == *database);
        let lingering: Vec<usize> = pools
            .flat_map(|(_, pool)| pool.lingering.iter().copied())
            .collect();
        for index in lingering {
            let Some(client) = self.client_of(index).filter(|&client| self.judge(client)) else {
                continue;
            };
            let server = self.servers.get(index);
            let Some(server) = server.filter(|server| server.is_between_transactions()) else {
                continue;
            };
            let nothing = self
                .clients
                .get(client)
                .is_none_or(|client| client.doubt.hidden.is_nothing());
            let needed = self.pools.get(server.pool).is_none_or(|pool| {
                !pool.waiting.is_empty() || pool.all.hungriest(self.index, None, self.now).is_some()
            });
            if nothing || needed {
                self.settle_server(reactor, index);
            }
        }
    }
}
