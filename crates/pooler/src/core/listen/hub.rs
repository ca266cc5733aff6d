//! [`Hub`]: the connection that listens for all clients of a database, on one event loop.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::event_loop::{EventLoop, Todo};
use crate::core::listen::{Asking, MARKERS, Message, PATIENCE, Said, notification, statement};
use crate::core::pool::process::ProcessPool;
use crate::core::server::{Question, TaskKind};
use crate::core::shared;
use corun_wire::HEADER_BYTES;

/// What a session needs to stay: the encoding of its database, and no end for being idle.
const PREPARE: &str = "SELECT pg_catalog.set_config('client_encoding', pg_catalog.current_setting('server_encoding'), false); \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name OPERATOR(pg_catalog.=) ANY (ARRAY['idle_session_timeout', 'statement_timeout']);";

/// A connection that listens, or is about to.
#[derive(Default)]
pub(in crate::core) struct Hub {
    /// `None`: it is not there yet.
    server: Option<usize>,
    /// Since when its connection is awaited, or an answer of its session.
    busy: Option<Duration>,
    /// Its pool, which has one connection more for it.
    pool: Option<Arc<ProcessPool>>,
    /// Who listens to a channel: numbers of clients, by their loops.
    channels: HashMap<Box<str>, HashMap<usize, HashSet<u64>>>,
    /// What the session listens to.
    listens: HashSet<Box<str>>,
    /// Who waits for LISTEN, and whose LISTEN is under way.
    waiting: Vec<Asking>,
    asked: Vec<Asking>,
}

impl Hub {
    /// Statements after which the session listens to what is wanted, and to nothing else. Empty: it does.
    fn change(&mut self) -> String {
        self.listens.insert(MARKERS.into());
        let mut sql = String::new();
        for channel in self
            .channels
            .keys()
            .filter(|&channel| !self.listens.contains(channel))
        {
            sql += &statement("LISTEN", channel);
        }
        let left = |channel: &str| !self.channels.contains_key(channel) && channel != MARKERS;
        for channel in self.listens.iter().filter(|channel| left(channel)) {
            sql += &statement("UNLISTEN", channel);
        }
        self.listens = self.channels.keys().cloned().chain([MARKERS.into()]).collect();
        sql
    }

    fn add(&mut self, channel: Box<str>, (event_loop, client): (usize, u64)) {
        let loops = self.channels.entry(channel).or_default();
        loops.entry(event_loop).or_default().insert(client);
    }

    fn remove(&mut self, channel: &str, (event_loop, client): (usize, u64)) {
        let Some(loops) = self.channels.get_mut(channel) else {
            return;
        };
        if let Some(clients) = loops.get_mut(&event_loop) {
            clients.remove(&client);
            if clients.is_empty() {
                loops.remove(&event_loop);
            }
        }
        if loops.is_empty() {
            self.channels.remove(channel);
        }
    }
}

impl<R: Reactor> EventLoop<R> {
    /// A client asks this loop's hub to listen.
    pub(super) fn hub_asked(
        &mut self,
        reactor: &mut R,
        database: &Arc<str>,
        user: &Arc<str>,
        channels: Vec<Box<str>>,
        asking: Asking,
    ) {
        let new = !self.listening.hubs.contains_key(database);
        let now = self.now;
        let hub = self.listening.hubs.entry(Arc::clone(database)).or_default();
        for channel in channels {
            hub.add(channel, (asking.event_loop, asking.id));
        }
        hub.waiting.push(asking);
        if !new {
            return self.hub_goes_on(reactor, database);
        }
        hub.busy = Some(now);
        let question = Question::Listen(Arc::clone(database));
        match self.pool_as(database, user, 0) {
            Ok(pool) => {
                self.questions.push_back((pool, question, String::new()));
                self.run_questions(reactor);
            }
            Err(_) => self.hub_lost(reactor, database),
        }
    }

    /// A client (loop and number) listens to these no more.
    pub(super) fn hub_left(
        &mut self,
        reactor: &mut R,
        database: &Arc<str>,
        client: (usize, u64),
        channels: &[Box<str>],
    ) {
        if let Some(hub) = self.listening.hubs.get_mut(database) {
            for channel in channels {
                hub.remove(channel, client);
            }
            self.hub_goes_on(reactor, database);
        }
    }

    /// A free server becomes the hub that a question waits for. `false`: none does.
    pub(in crate::core) fn becomes_hub(&mut self, reactor: &mut R, index: usize, of: usize) -> bool {
        let waits = |(pool, question, _): &(usize, Question, String)| {
            *pool == of && matches!(question, Question::Listen(_))
        };
        let Some(at) = self.questions.iter().position(waits) else {
            return false;
        };
        let (Some((_, Question::Listen(database), _)), Some(server), Some(pool)) = (
            self.questions.remove(at),
            self.servers.get_mut(index),
            self.pools.get_mut(of),
        ) else {
            return false;
        };
        server.life.used = true;
        server.stages.hub = Some(Arc::clone(&database));
        pool.beside += 1;
        let sql = format!("{PREPARE}{}", statement("LISTEN", MARKERS));
        server.start(reactor, TaskKind::Listen, &sql);
        if let Some(hub) = self.listening.hubs.get_mut(&database) {
            hub.server = Some(index);
            hub.busy = Some(self.now);
            hub.pool = Some(Arc::clone(&pool.all));
            // There is room for one more now, here or on another loop.
            if let Some(event_loop) = pool.all.one_more_beside() {
                self.shared
                    .tell(event_loop, shared::Message::Room(pool.key.servers()));
            }
        }
        self.todo.push_back(Todo::Connect(of));
        true
    }

    /// A hub has done what it was asked.
    pub(in crate::core) fn hub_told(&mut self, reactor: &mut R, index: usize, able: bool) {
        let server = self.servers.get(index);
        let Some(database) = server.and_then(|server| server.stages.hub.clone()) else {
            return;
        };
        if !able {
            return self.close_server(reactor, index, "the connection cannot listen");
        }
        let hub = self.listening.hubs.get_mut(&database);
        let asked = hub.map(|hub| {
            hub.busy = None;
            std::mem::take(&mut hub.asked)
        });
        for asking in asked.unwrap_or_default() {
            self.say(
                reactor,
                asking.event_loop,
                &database,
                Said::Listening { asking, able },
            );
        }
        self.hub_goes_on(reactor, &database);
    }

    fn hub_goes_on(&mut self, reactor: &mut R, database: &Arc<str>) {
        let Some(hub) = self.listening.hubs.get_mut(database) else {
            return;
        };
        let Some(index) = hub.server.filter(|_| hub.busy.is_none()) else {
            return;
        };
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if hub.channels.is_empty() {
            return self.close_server(reactor, index, "nobody listens");
        }
        let mut sql = hub.change();
        hub.asked.append(&mut hub.waiting);
        if sql.is_empty() && !hub.asked.is_empty() {
            // It listens to all of these; whether it is alive is seen by its answer.
            sql = statement("LISTEN", MARKERS);
        }
        if !sql.is_empty() {
            hub.busy = Some(self.now);
            server.start(reactor, TaskKind::Listen, &sql);
        }
    }

    /// Hubs that are not there or do not answer in time go.
    pub(super) fn hubs_tick(&mut self, reactor: &mut R) {
        let now = self.now;
        let late = |hub: &Hub| hub.busy.is_some_and(|since| now.saturating_sub(since) > PATIENCE);
        let late: Vec<(Arc<str>, Option<usize>)> = self
            .listening
            .hubs
            .iter()
            .filter(|(_, hub)| late(hub))
            .map(|(database, hub)| (Arc::clone(database), hub.server))
            .collect();
        for (database, server) in late {
            match server {
                Some(server) => {
                    self.close_server(reactor, server, "the connection that listens does not answer")
                }
                None => {
                    self.questions.retain(
                        |(_, question, _)| !matches!(question, Question::Listen(of) if *of == database),
                    );
                    self.hub_lost(reactor, &database);
                }
            }
        }
    }

    /// Hubs of databases whose primary is another now go: so do their clients, who may have missed something.
    pub(in crate::core) fn hubs_leave(&mut self) {
        for server in self.listening.hubs.values().filter_map(|hub| hub.server) {
            let Some(server) = self.servers.get_mut(server) else {
                continue;
            };
            if self
                .pools
                .get(server.pool)
                .is_some_and(|pool| !pool.effective.replicas.is_empty())
            {
                server.life.closing = Some("another host is primary");
            }
        }
    }

    /// What a hub's session was notified of.
    pub(in crate::core) fn hub_notified(&mut self, reactor: &mut R, index: usize, messages: Vec<Message>) {
        let server = self.servers.get(index);
        let Some(database) = server.and_then(|server| server.stages.hub.clone()) else {
            return;
        };
        for message in messages {
            let Some((channel, payload)) = notification(&message[HEADER_BYTES..]) else {
                continue;
            };
            if channel == MARKERS {
                if let Some(asking) = Asking::read(payload) {
                    self.say(reactor, asking.event_loop, &database, Said::Marked(asking));
                }
                continue;
            }
            let hub = self.listening.hubs.get(&database);
            let loops = hub.and_then(|hub| Some(hub.channels.get(channel)?.keys().copied().collect()));
            let loops: Vec<usize> = loops.unwrap_or_default();
            for event_loop in loops {
                let said = Said::Notified {
                    channel: channel.into(),
                    message: Arc::clone(&message),
                };
                self.say(reactor, event_loop, &database, said);
            }
        }
    }

    /// A hub's connection is gone, or cannot be made.
    pub(in crate::core) fn hub_lost(&mut self, reactor: &mut R, database: &Arc<str>) {
        let Some(hub) = self.listening.hubs.remove(database) else {
            return;
        };
        if let Some(pool) = hub.pool {
            pool.one_less_beside();
        }
        for asking in hub.asked.into_iter().chain(hub.waiting) {
            let able = false;
            self.say(
                reactor,
                asking.event_loop,
                database,
                Said::Listening { asking, able },
            );
        }
        for event_loop in 0..self.shared.mailboxes.len() {
            self.say(reactor, event_loop, database, Said::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_listened_to_while_somebody_does() {
        let mut hub = Hub::default();
        hub.add("a".into(), (0, 1));
        hub.add("a".into(), (1, 2));
        hub.add("a".into(), (1, 3));
        assert_eq!(hub.change(), "LISTEN \"a\";");
        assert_eq!(hub.change(), "");
        hub.remove("a", (0, 1));
        hub.remove("a", (0, 1));
        hub.remove("a", (1, 2));
        assert_eq!(hub.change(), "");
        hub.add("b".into(), (0, 1));
        hub.remove("a", (1, 3));
        hub.remove("unknown", (1, 3));
        assert_eq!(hub.change(), "LISTEN \"b\";UNLISTEN \"a\";");
        hub.remove("b", (0, 1));
        assert_eq!(hub.change(), "UNLISTEN \"b\";");
        assert!(hub.channels.is_empty());
    }
}
