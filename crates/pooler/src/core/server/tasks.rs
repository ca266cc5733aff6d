//! Queries of the proxy's own on a server connection, once they have been answered: what each was for goes on here.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::classify::request;
use crate::core::client::Begun;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::server::{Task, TaskKind, lost};
use crate::understand::Understood;
use corun_wire::error::{Refusal, Reported, code};
use corun_wire::{HEADER_BYTES, TransactionStatus, build, read};

impl<R: Reactor> EventLoop<R> {
    /// A query of the proxy's own has been answered.
    pub(in crate::core) fn task_done(&mut self, reactor: &mut R, index: usize, mut task: Task) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let client_index = server.user.client;
        let kind = std::mem::replace(&mut task.kind, TaskKind::Barrier);
        match kind {
            TaskKind::Replay(settings) => {
                let Some(client) = client_index else {
                    return self.close_server(reactor, index, "nobody waits for the connection's settings");
                };
                if let Some(error) = task.error {
                    return self.replay_refused(reactor, index, client, &error);
                }
                server.session.settings = settings;
                self.prepare_next(reactor, index, client);
            }
            TaskKind::Check => match client_index {
                Some(client) => self.prepare_next(reactor, index, client),
                None => self.todo.push_back(Todo::Free(index)),
            },
            TaskKind::Begin => {
                let Some(client) = client_index else {
                    return self.close_server(
                        reactor,
                        index,
                        "nobody waits for the connection's transaction",
                    );
                };
                if let Some(error) = task.error {
                    // The client was told that it has begun.
                    return self.lose_both(reactor, index, &lost(Some(&error)));
                }
                if let Some(client) = self.clients.get_mut(client) {
                    client.transaction.began = true;
                }
                self.prepare_next(reactor, index, client);
            }
            TaskKind::State { settings } => self.state_told(reactor, index, settings, &task),
            TaskKind::Catalogue(database) => {
                self.catalogue_told(reactor, index, &database, task.rows, task.error)
            }
            TaskKind::Rollback { reset } => {
                if task.error.is_some() || server.session.status != TransactionStatus::Idle {
                    return self.close_server(reactor, index, "the transaction could not be rolled back");
                }
                let text = self.files.config.proxy.server_reset_query.trim();
                if reset && !text.is_empty() {
                    server.start(reactor, TaskKind::Reset, text);
                } else {
                    self.todo.push_back(Todo::Free(index));
                }
            }
            TaskKind::Reset => {
                if task.error.is_some() || server.session.status != TransactionStatus::Idle {
                    return self.close_server(reactor, index, "the connection could not be reset");
                }
                if client_index.is_some() {
                    return self.close_server(reactor, index, "the connection was reset for nobody");
                }
                let text = self.files.config.proxy.server_reset_query.to_ascii_lowercase();
                if text.contains("discard all") {
                    server.session.discarded();
                }
                self.todo.push_back(Todo::Free(index));
            }
            TaskKind::Barrier => self.todo.push_back(Todo::Free(index)),
            TaskKind::Connect => {
                if let Some(error) = task.error {
                    tracing::warn!(code = error.code, "connect_query failed: {}", error.message);
                }
                self.server_ready(reactor, index);
            }
            TaskKind::Listen => match client_index {
                Some(_) => self.hand_over_told(reactor, index, &task),
                None => self.hub_told(reactor, index, task.error.is_none()),
            },
            TaskKind::Stage(of) => self.stage_task_done(reactor, index, of, task),
            TaskKind::Ask(question) => {
                self.todo.push_back(Todo::Free(index));
                self.question_answered(reactor, question, task.rows, task.error);
            }
        }
    }

    /// Tells a client that its transaction block has begun, and keeps the text until its first statement says where it belongs.
    pub(in crate::core) fn begin_late(
        &mut self,
        reactor: &mut R,
        index: usize,
        message: &[u8],
        understood: Arc<Understood>,
    ) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.begun = Some(Box::new(Begun {
            text: message.to_vec(),
            understood,
            since: self.now,
        }));
        let tag = read::query(&message[HEADER_BYTES..]).and_then(request::begin_tag);
        let mut out = Vec::with_capacity(32);
        build::command_complete(&mut out, tag.unwrap_or("BEGIN"));
        build::ready(&mut out, TransactionStatus::Open);
        client.transport.send(reactor, &out);
    }

    /// A client's server is prepared.
    fn prepare_next(&mut self, reactor: &mut R, index: usize, client: usize) {
        if self.prepare_pair(reactor, client, index) {
            self.serve_soon(client);
        }
    }

    /// A server did not take a client's settings.
    fn replay_refused(&mut self, reactor: &mut R, index: usize, client_index: usize, error: &Reported) {
        let entering = self
            .clients
            .get(client_index)
            .is_some_and(|client| !client.is_ready());
        let refusal = if entering {
            // As the server would have said to the start-up packet.
            Refusal::new(code::of(&error.code), error.message.clone())
        } else {
            Refusal::new(
                code::CONNECTION_FAILURE,
                "the session's settings could not be carried over to another server connection",
            )
            .detail(error.message.clone())
        };
        // Nothing was set: one simple query holds as a whole or not at all.
        self.separate(index);
        self.refuse_client(reactor, client_index, &refusal);
        self.todo.push_back(Todo::Free(index));
    }

    /// A server must not be used any more, and its client cannot go on without it.
    pub(in crate::core) fn lose_both(&mut self, reactor: &mut R, index: usize, refusal: &Refusal) {
        if let Some(client) = self.separate(index) {
            self.refuse_client(reactor, client, refusal);
        }
        self.close_server(reactor, index, "the client could not go on");
    }
}
