//! From the hub to clients, across event loops.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::event_loop::{EventLoop, Todo};
use crate::core::listen::{Message, Said, Step};
use crate::core::shared;
use corun_wire::HEADER_BYTES;
use corun_wire::error::{Refusal, code};

/// The setting that says what bytes a client's text is.
const ENCODING: &str = "client_encoding";
/// The process number in a notification.
const PID_BYTES: usize = 4;

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
            let Some(listens) = self
                .clients
                .get_mut(slot)
                .and_then(|client| client.listens.as_mut())
            else {
                continue;
            };
            if listens.by_hub(channel) {
                listens.hold(Arc::clone(message));
                self.deliver(reactor, slot);
                self.grew(reactor, message.len());
            }
        }
    }

    /// Sends a client the notifications that wait for it, if it is between transactions and reads what it gets. One for which too many
    /// wait goes: nothing is lost unsaid.
    pub(in crate::core) fn deliver(&mut self, reactor: &mut R, slot: usize) {
        let limit = self.files.config.corun.connection_buffer_max.0 as usize;
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let server = client.server.and_then(|server| self.servers.get(server));
        let between = client.begun.is_none() && server.is_none_or(|server| server.is_between_transactions());
        let token = client.token();
        let Some(listens) = &mut client.listens else {
            return;
        };
        // A hub's notification may come before what its own server has yet to say.
        let later = listens.hand_over().is_some_and(|hand_over| !hand_over.by_server);
        let mut sent = 0;
        let mut refusal = None;
        if between && !later && !listens.held.is_empty() {
            let ascii = listens.encoding.as_deref() != client.settings.text(ENCODING);
            for message in &listens.held {
                if reactor.queued(token) > limit {
                    break;
                }
                if ascii && !message[HEADER_BYTES + PID_BYTES..].is_ascii() {
                    let what = format!("a notification is not in this client's {ENCODING}");
                    let hint =
                        "Set it before LISTEN, or set share_listen = false in the pooler's configuration.";
                    refusal = Some(Refusal::new(code::UNTRANSLATABLE, what).hint(hint));
                    break;
                }
                client.transport.send(reactor, message);
                listens.held_bytes -= message.len();
                sent += 1;
            }
            listens.held.drain(..sent);
        }
        if listens.held_bytes > limit {
            let what = "too many notifications wait for this client";
            let hint = "Read notifications as they come, and keep transactions short.";
            let detail = "They are more than connection_buffer_max.";
            refusal = Some(Refusal::new(code::PROGRAM_LIMIT, what).detail(detail).hint(hint));
        }
        if let Some(refusal) = refusal {
            self.listens_no_more(reactor, slot);
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
        let slots = self.listening.clients.get(database);
        for slot in slots.into_iter().flatten().copied().collect::<Vec<_>>() {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            let Some(listens) = &mut client.listens else {
                continue;
            };
            if listens.depends_on_hub() {
                self.listened_in_vain(reactor, slot);
            } else if listens.hand_over().is_some() {
                // Its own server, if it has one, has said all so far. Not at once: it may be this client that has made the hub go.
                listens.step = Step::None;
                self.todo.push_back(Todo::GoOn(slot, client.id));
            }
        }
    }

    /// A client's notifications may have been lost: it is told.
    pub(super) fn listened_in_vain(&mut self, reactor: &mut R, slot: usize) {
        let refusal = Refusal::new(
            code::CONNECTION_FAILURE,
            "the server connection that listened for this client was lost",
        )
        .detail("Notifications may have been missed.")
        .hint("Connect and LISTEN again, as after a restart of the server.");
        self.listens_no_more(reactor, slot);
        self.refuse_client(reactor, slot, &refusal);
    }
}
