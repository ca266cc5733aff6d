//! Questions of the pooler's own: for secrets, whether a host is well, and the connection that listens for all.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::event_loop::{EventLoop, Todo};
use crate::core::server::connect::Attempt;
use crate::core::server::{Question, TaskKind};
use corun_wire::error::{Reported, code};

impl<R: Reactor> EventLoop<R> {
    /// Asks something on a connection of the proxy's own to a database. `false`: there can be none.
    pub(in crate::core) fn ask_server(
        &mut self,
        reactor: &mut R,
        database: &Arc<str>,
        user: &Arc<str>,
        host: usize,
        question: Question,
        sql: String,
    ) -> bool {
        let Ok(pool_index) = self.pool_as(database, user, host) else {
            return false;
        };
        self.questions.push_back((pool_index, question, sql));
        self.run_questions(reactor);
        true
    }

    /// Asks what can be asked now.
    pub(in crate::core) fn run_questions(&mut self, reactor: &mut R) {
        for _ in 0..self.questions.len() {
            let Some((pool_index, question, sql)) = self.questions.pop_front() else {
                return;
            };
            let Some(pool) = self.pools.get_mut(pool_index) else {
                continue;
            };
            let listens = matches!(question, Question::Listen(_));
            if listens && pool.paused {
                self.questions.push_back((pool_index, question, sql));
                continue;
            }
            if listens && pool.failed.as_ref().is_some_and(|(_, until)| self.now < *until) {
                self.question_failed(reactor, pool_index, question);
                continue;
            }
            if let Some(index) = pool.idle.pop() {
                if listens {
                    self.questions.push_front((pool_index, question, sql));
                    self.becomes_hub(reactor, index, pool_index);
                    continue;
                }
                if let Some(server) = self.servers.get_mut(index) {
                    server.life.used = true;
                    server.query.since = self.now;
                    if server.session.settings.is_empty() {
                        server.start(reactor, TaskKind::Ask(question), &sql);
                        continue;
                    }
                    // Another client's search_path must not decide what the question means.
                    server.life.closing = Some("the connection is needed with default settings");
                    self.todo.push_back(Todo::Free(index));
                }
            } else if pool.connecting == 0 {
                // A hub is one connection more.
                let most = pool.size.max(1) + usize::from(listens);
                match self.connect(reactor, pool_index, most) {
                    Attempt::Begun => {}
                    Attempt::Full => self.hungry(pool_index),
                    Attempt::Later => {
                        let failed = self
                            .pools
                            .get(pool_index)
                            .is_some_and(|pool| pool.failed.is_some() && pool.all.servers() == 0);
                        if failed {
                            self.question_failed(reactor, pool_index, question);
                            continue;
                        }
                    }
                }
            }
            self.questions.push_back((pool_index, question, sql));
        }
    }

    /// No connection for a pool's questions.
    pub(super) fn questions_failed(
        &mut self,
        reactor: &mut R,
        pool: usize,
        which: impl Fn(&Question) -> bool,
    ) {
        let (failed, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.questions)
            .into_iter()
            .partition(|(index, question, _)| *index == pool && which(question));
        self.questions = kept.into();
        for (_, question, _) in failed {
            self.question_failed(reactor, pool, question);
        }
    }

    /// Who waits to be looked up is told in the server's words, if it has refused the pool with some.
    pub(super) fn question_failed(&mut self, reactor: &mut R, pool: usize, question: Question) {
        let failed = self.pools.get(pool).and_then(|pool| pool.failed.as_ref());
        if let (Question::Secret { client, id }, Some((refusal, _))) = (&question, failed)
            && refusal.code != code::CANNOT_CONNECT
            && self.clients.get(*client).is_some_and(|found| found.id == *id)
        {
            let refusal = refusal.clone();
            return self.refuse_client(reactor, *client, &refusal);
        }
        self.question_answered(reactor, question, Vec::new(), Some(Reported::default()));
    }

    /// A question has its answer.
    pub(in crate::core) fn question_answered(
        &mut self,
        reactor: &mut R,
        question: Question,
        rows: Vec<Vec<Option<String>>>,
        error: Option<Reported>,
    ) {
        match question {
            Question::Secret { client, id } => {
                if let Some(error) = &error {
                    tracing::warn!(code = error.code, "auth_query failed: {}", error.message);
                }
                self.secret_found(reactor, client, id, &rows, error.is_some());
            }
            Question::Listen(database) => self.hub_lost(reactor, &database),
            Question::Health { database, order } => self.probed(reactor, &database, order, &rows, error),
        }
    }
}
