//! From the hub to clients, across event loops.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::event_loop::EventLoop;
use crate::core::listen::{Message, Said, Step};
use crate::core::shared;
use crate::wire::error::{Refusal, code};

impl<R: Reactor> EventLoop<R> {
    /// Tells a loop, or this one, something about a database's notifications.
    pub(super) fn say(&mut self, reactor: &mut R, to: usize, database: &Arc<str>, said: Said) {
        if to == self.index {
            return self.said(reactor, database, said);
        }
        self.shared
            .tell(to, shared::Message::Listen(Arc::clone(database), said));
    }

    /// Another loop, or this one, has said something about a database's notifications.
    pub(in crate::core) fn said(&mut self, reactor: &mut R, database: &Arc<str>, said: Said) {
        match said {
            Said::Listen {
                user,
                channels,
                asking,
            } => self.hub_asked(reactor, database, &user, channels, asking),
            Said::Unlisten {
                event_loop,
                id,
                channels,
            } => self.hub_left(reactor, database, (event_loop, id), &channels),
            Said::Listening { asking, able } => self.hub_listens(reactor, &asking, able),
            Said::Marked(asking) => self.marked_at_hub(reactor, &asking),
            Said::Notified { channel, message } => self.notified(reactor, database, &channel, &message),
            Said::Lost => self.hub_gone(reactor, database),
        }
    }

    /// A notification for clients of this loop.
    fn notified(&mut self, reactor: &mut R, database: &Arc<str>, channel: &str, message: &Message) {
        let Some(clients) = self.listening.clients.get(database) else {
            return;
        };
        for slot in clients.iter().copied().collect::<Vec<_>>() {
            let Some(listens) = self.clients.get_mut(slot).and_then(|client| client.listens.as_mut()) else {
                continue;
            };
            let (gets, later) = listens.by_hub(channel);
            if gets {
                listens.hold(Arc::clone(message));
                if !later {
                    self.deliver(reactor, slot);
                }
                self.grew(reactor, message.len());
            }
        }
    }

    /// Sends a client the notifications that wait for it, if it is between transactions. One that reads too little goes: nothing is lost
    /// unsaid.
    pub(in crate::core) fn deliver(&mut self, reactor: &mut R, slot: usize) {
        let limit = self.files.config.corun.connection_buffer_max.0 as usize;
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let server = client.server.and_then(|server| self.servers.get(server));
        let between = client.begun.is_none() && server.is_none_or(|server| server.is_between_transactions());
        let Some(listens) = &mut client.listens else {
            return;
        };
        let later = listens.hand_over().is_some_and(|hand_over| !hand_over.by_server);
        if between && !later {
            for message in std::mem::take(&mut listens.held) {
                client.transport.send(reactor, &message);
            }
            listens.held_bytes = 0;
        }
        if listens.held_bytes.max(reactor.queued(client.token())) > limit {
            let refusal = Refusal::new(code::PROGRAM_LIMIT, "too many notifications wait for this client")
                .detail("They are more than connection_buffer_max.")
                .hint("Read notifications as they come, and keep transactions short.");
            self.refuse_client(reactor, slot, &refusal);
        }
    }

    /// A client's transaction has ended: what it listens to no more is told to the hub, and it gets what has waited.
    pub(in crate::core) fn listens_on(&mut self, reactor: &mut R, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let Some(listens) = &mut client.listens else {
            return;
        };
        let left = std::mem::take(&mut listens.left);
        let (database, id) = (Arc::clone(&client.database), client.id);
        self.leave_channels(reactor, &database, id, left);
        self.deliver(reactor, slot);
    }

    /// The hub of a database is gone: those it has delivered to are told, the others keep their servers.
    fn hub_gone(&mut self, reactor: &mut R, database: &Arc<str>) {
        for slot in self.listening.clients.remove(database).unwrap_or_default() {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            let Some(listens) = &mut client.listens else {
                continue;
            };
            if listens.channels.is_empty() && !matches!(listens.step, Step::Marking(_)) {
                // Its own server, if it has one, has said all so far.
                if listens.hand_over().is_some() {
                    listens.step = Step::None;
                }
                continue;
            }
            // Nobody is to be told what it leaves.
            client.listens = None;
            let refusal = Refusal::new(
                code::CONNECTION_FAILURE,
                "the server connection that listened for this client was lost",
            )
            .detail("Notifications may have been missed.")
            .hint("Connect and LISTEN again, as after a restart of the server.");
            self.refuse_client(reactor, slot, &refusal);
        }
    }
}
