//! A client that listens on its own server hands that over to its database's hub.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::event_loop::EventLoop;
use crate::core::listen::{
    Asking, CHANNELS_MAX, HandOver, Listens, MARKERS, PATIENCE, Said, Step, loop_of, statement,
};
use crate::core::server::{Server, Task, TaskKind, server_and_client};
use crate::understand::Pins;

/// What a session listens to.
const QUESTION: &str = "SELECT pg_catalog.pg_listening_channels()";

impl<R: Reactor> EventLoop<R> {
    /// A client's transaction has ended, and nothing pins it to its server but that it listens there. `true`: an answer is awaited.
    pub(in crate::core) fn hands_over_listening(&mut self, reactor: &mut R, index: usize) -> bool {
        let on = self.files.config.corun.share_listen;
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return false;
        };
        let here = self.pools.get(server.pool).is_some_and(|pool| {
            // Several hosts without roles are several queues of notifications.
            let effective = &pool.effective;
            pool.key.host == 0 && (effective.hosts.len() == 1 || !effective.replicas.is_empty())
        });
        if !on || !here || !speaks_as_its_database(server) {
            return false;
        }
        let asking = |marker| Asking {
            event_loop: self.index,
            client: server.user.client.unwrap_or(usize::MAX),
            id: client.id,
            marker,
        };
        let listens = client.listens.get_or_insert_default();
        listens.settle();
        let (next, sql) = match std::mem::take(&mut listens.step) {
            Step::Unable(until) if self.now < until => {
                listens.step = Step::Unable(until);
                return false;
            }
            Step::None | Step::Unable(_) => (Step::Asking, QUESTION.to_owned()),
            Step::Listening(hand_over) => {
                let payload = asking(hand_over.marker).payload();
                let sql = format!("LISTEN {MARKERS}; NOTIFY {MARKERS}, '{payload}'");
                (Step::Marking(hand_over, self.now + PATIENCE), sql)
            }
            Step::HandedOver(channels) => {
                let channels = channels.iter().map(|channel| &**channel).chain([MARKERS]);
                let sql: String = channels.map(|channel| statement("UNLISTEN", channel)).collect();
                (Step::Asking, sql + QUESTION)
            }
            step => {
                listens.step = step;
                return false;
            }
        };
        listens.step = next;
        client.held = true;
        server.start(reactor, TaskKind::Listen, &sql);
        true
    }

    /// A client's server has answered a step of the hand-over.
    pub(in crate::core) fn hand_over_told(&mut self, reactor: &mut R, index: usize, task: &Task) {
        let marker = self.shared.marker();
        let unable = Step::Unable(self.now + self.files.config.proxy.server_login_retry);
        let Some((server, client)) = server_and_client(&mut self.servers, &mut self.clients, index) else {
            return self.close_server(reactor, index, "the client left");
        };
        let (Some(slot), Some(listens)) = (server.user.client, &mut client.listens) else {
            return self.go_on(reactor, index);
        };
        let listening = self
            .listening
            .clients
            .entry(Arc::clone(&client.database))
            .or_default();
        listening.insert(slot);
        match std::mem::take(&mut listens.step) {
            Step::Marking(hand_over, _) if task.error.is_some() || !hand_over.by_server => {
                listens.step = unable;
                let (database, id) = (Arc::clone(&client.database), client.id);
                self.leave_channels(reactor, &database, id, hand_over.channels.into_iter().collect());
            }
            _ if task.error.is_some() => listens.step = unable,
            Step::Asking => {
                let rows = task.rows.iter().filter_map(|row| row.first()?.as_deref());
                let channels: Vec<Box<str>> = rows.filter(|&row| row != MARKERS).map(Into::into).collect();
                let new = channels
                    .iter()
                    .filter(|&channel| !listens.channels.contains(channel));
                let new: Vec<Box<str>> = new.cloned().collect();
                let all = listens.channels.len() + new.len();
                let unreadable = |channel: &str| channel.contains(char::REPLACEMENT_CHARACTER);
                if all > CHANNELS_MAX || channels.iter().any(|channel| unreadable(channel)) {
                    listens.step = unable;
                } else if task.rows.is_empty() {
                    client.pins = client.pins.without(Pins::LISTEN);
                } else if new.is_empty() {
                    listens.step = Step::HandedOver(channels);
                } else if let Some(pool) = self.pools.get(server.pool) {
                    listens.step = Step::AtHub(HandOver {
                        marker,
                        channels: new.iter().cloned().collect(),
                        ..HandOver::default()
                    });
                    let asking = Asking {
                        event_loop: self.index,
                        client: slot,
                        id: client.id,
                        marker,
                    };
                    let user = Arc::clone(&pool.key.user);
                    let database = Arc::clone(&client.database);
                    listens.encoding = client.settings.text("client_encoding").map(str::to_owned);
                    let channels = new;
                    self.tell_hub(
                        reactor,
                        &database,
                        Said::Listen {
                            user,
                            channels,
                            asking,
                        },
                    );
                }
            }
            step => listens.step = step,
        }
        self.go_on(reactor, index);
    }

    /// The hub listens for a client, or cannot.
    pub(super) fn hub_listens(&mut self, reactor: &mut R, asking: &Asking, able: bool) {
        let unable = Step::Unable(self.now + self.files.config.proxy.server_login_retry);
        let Some((listens, server)) = self.asking(asking) else {
            return;
        };
        listens.step = match std::mem::take(&mut listens.step) {
            Step::AtHub(hand_over) if able => Step::Listening(hand_over),
            _ => unable,
        };
        if let Some(server) = server {
            self.go_on(reactor, server);
        }
    }

    /// The marker of a client's hand-over has come to the hub.
    pub(super) fn marked_at_hub(&mut self, reactor: &mut R, asking: &Asking) {
        let Some((listens, server)) = self.asking(asking) else {
            return;
        };
        if let Some(hand_over) = listens.hand_over() {
            hand_over.by_hub = true;
        }
        if let Some(server) = server {
            self.go_on(reactor, server);
        }
    }

    /// What the client listens to that asked, if its hand-over is still that one, and its server.
    fn asking(&mut self, asking: &Asking) -> Option<(&mut Listens, Option<usize>)> {
        let client = self.clients.get_mut(asking.client)?;
        let server = client.server;
        let listens = Some(client)
            .filter(|client| client.id == asking.id)?
            .listens
            .as_mut()?;
        let same = listens
            .hand_over()
            .is_some_and(|hand_over| hand_over.marker == asking.marker);
        same.then_some((listens, server))
    }

    /// What was tried in vain is tried again, and hubs that do not answer go.
    pub(in crate::core) fn listening_tick(&mut self, reactor: &mut R) {
        self.hubs_tick(reactor);
        let (mut again, mut lost) = (Vec::new(), Vec::new());
        for &slot in self.listening.clients.values().flatten() {
            let Some(client) = self.clients.get(slot) else {
                continue;
            };
            match client.listens.as_ref().map(|listens| &listens.step) {
                Some(Step::Unable(until)) if self.now >= *until => again.extend(client.server),
                Some(Step::Marking(_, until)) if self.now >= *until => lost.push(slot),
                _ => {}
            }
        }
        for server in again {
            self.go_on(reactor, server);
        }
        for slot in lost {
            self.listened_in_vain(reactor, slot);
        }
    }

    /// A client goes: the hub listens for it no more.
    pub(in crate::core) fn listens_no_more(&mut self, reactor: &mut R, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let Some(mut listens) = client.listens.take() else {
            return;
        };
        let (database, id) = (Arc::clone(&client.database), client.id);
        if let Some(clients) = self.listening.clients.get_mut(&database) {
            clients.remove(&slot);
        }
        self.leave_channels(reactor, &database, id, listens.all());
    }

    /// A client of this loop listens to these no more.
    pub(super) fn leave_channels(
        &mut self,
        reactor: &mut R,
        database: &Arc<str>,
        id: u64,
        channels: Vec<Box<str>>,
    ) {
        let event_loop = self.index;
        if !channels.is_empty() {
            let said = Said::Unlisten {
                event_loop,
                id,
                channels,
            };
            self.tell_hub(reactor, database, said);
        }
    }

    fn tell_hub(&mut self, reactor: &mut R, database: &Arc<str>, said: Said) {
        let to = loop_of(database, self.shared.mailboxes.len());
        self.say(reactor, to, database, said);
    }
}

/// Whether a session has the encoding of its database, as the hub has it.
fn speaks_as_its_database(server: &Server) -> bool {
    let reported = |name| server.session.reported(name);
    reported("client_encoding").is_some_and(|encoding| reported("server_encoding") == Some(encoding))
}
