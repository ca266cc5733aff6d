//! Cancel requests: from a client's request to its server, and never to anybody else.
//!
//! ```text
//!  request (pid, secret) ─► the loop of that client ─► its server is busy for it ─► connection of its own to the server
//!                                                                                      │ the request, then wait for the end
//!      server is held back until then, and a barrier is answered  ◄────────────────────┘
//! ```
//!
//! With peering, the key says whether the client is one of this process at all; `peers` forwards the request otherwise.
//!
//! A server reads a cancel request at any time, also after the query it was meant for. So a server for which one is under way is given to
//! nobody until the connection of the request has ended, and until it has answered an empty query, which the late signal may strike.

use std::time::Duration;

use corun_net::reactor::{Reactor, Token};
use ring::rand::SecureRandom;

use crate::core::event_loop::{EventLoop, Todo, cancel_token};
use crate::core::parts::Step;
use crate::core::peers;
use crate::core::peers::key::Destination;
use crate::core::server::{Server, Task, TaskKind};
use crate::core::shared::Message;
use crate::core::stages::StageTask;
use corun_wire::auth::scram::same;
use corun_wire::error::{Refusal, code};
use corun_wire::{TransactionStatus, build, frontend, header};

/// What PostgreSQL says of a statement that somebody has cancelled, and of one that took too long.
pub(in crate::core) const BY_USER: &str = "canceling statement due to user request";
pub(in crate::core) const BY_TIMEOUT: &str = "canceling statement due to statement timeout";

/// Cancel requests on their way at most; more are dropped, as a server with too many connections would.
pub(in crate::core) const CANCELS_MAX: usize = 1024;

/// How long after a cancel request what still runs for nobody is cancelled again.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

/// A cancel request on its way.
pub(in crate::core) struct Cancel {
    pub token: Token,
    pub target: Target,
    pub request: Vec<u8>,
    /// The connection was made, and the request sent.
    pub sent: bool,
    pub since: Duration,
}

/// Where a cancel request is on its way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Target {
    /// A server (slot, number).
    Server(usize, u64),
    /// Another process, whose client it is for.
    Peer(u16),
}

/// How far cancel requests for a server are: one that has ended may still strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum Cancels {
    /// There are none.
    #[default]
    None,
    /// So many have not ended.
    UnderWay(u32),
    /// All have ended: a barrier comes before the next client.
    Ended,
}

impl Cancels {
    fn begins(&mut self) {
        *self = Self::UnderWay(self.under_way() + 1);
    }

    fn ends(&mut self) {
        *self = match self.under_way() {
            0 | 1 => Self::Ended,
            count => Self::UnderWay(count - 1),
        };
    }

    /// How many have not ended.
    pub fn under_way(self) -> u32 {
        match self {
            Self::UnderWay(count) => count,
            Self::None | Self::Ended => 0,
        }
    }

    /// Whether one may strike, or has.
    pub fn may_strike(self) -> bool {
        self != Self::None
    }

    /// Whether the server goes to nobody before a barrier; told once.
    pub fn wants_barrier(&mut self) -> bool {
        let wants = *self == Self::Ended;
        if wants {
            *self = Self::None;
        }
        wants
    }
}

impl<R: Reactor> EventLoop<R> {
    /// A request came in here; its client may be another loop's, or another process's.
    pub(in crate::core) fn cancel_requested(&mut self, reactor: &mut R, pid: u32, mut secret: Vec<u8>) {
        match self.shared.keys_of_clients.destination(pid, &mut secret) {
            Destination::Here => {}
            Destination::Peer(peer) => return self.tell_forwarder(peer, pid, &secret),
            Destination::Nowhere => {
                return tracing::info!("a cancel request was dropped: it was forwarded too often");
            }
        }
        if self.cancel_client(reactor, pid, &secret) {
            return;
        }
        self.shared.tell_others(self.index, || Message::Cancel {
            pid,
            secret: secret.clone(),
        });
    }

    /// The secret of a client that is told this process number. With peers, where clients of a loop may share a number, no other has
    /// both. Empty where there are no random numbers: such a client cannot cancel.
    pub(in crate::core) fn new_secret(&self, pid: u32, bytes: usize) -> Vec<u8> {
        let mut secret = vec![0; bytes];
        // One draw is enough, but for one time in a thousand million.
        for _ in 0..8 {
            if self.shared.random.fill(&mut secret).is_err() {
                break;
            }
            self.shared.keys_of_clients.finish(&mut secret);
            if self.shared.keys_of_clients.peer_id == 0 || self.client_told(pid, &secret).is_none() {
                return secret;
            }
        }
        Vec::new()
    }

    /// The client of this loop that was told this process number and secret.
    fn client_told(&self, pid: u32, secret: &[u8]) -> Option<usize> {
        let (first, apart) = self.shared.keys_of_clients.slots(pid);
        let slots = (first..self.clients.capacity()).step_by(apart);
        // In session mode without peers the number is its server's own.
        let servers = (self.shared.keys_of_clients.peer_id == 0).then(|| self.servers.iter());
        let sessions = servers
            .into_iter()
            .flatten()
            .filter(|(_, server)| server.process.pid == pid)
            .filter_map(|(_, server)| server.user.client);
        slots.chain(sessions).find(|slot| {
            self.clients.get(*slot).is_some_and(|client| {
                client.pid == pid && !client.secret.is_empty() && same(&client.secret, secret)
            })
        })
    }

    /// Cancels what a client of this loop does, if the secret is right. Returns whether it was one of this loop's.
    pub(in crate::core) fn cancel_client(&mut self, reactor: &mut R, pid: u32, secret: &[u8]) -> bool {
        let Some(slot) = self.client_told(pid, secret) else {
            return false;
        };
        let Some(client) = self.clients.get_mut(slot) else {
            return false;
        };
        let Some(index) = client.server else {
            let waits = client.wait.pool().is_some() || client.queues() || client.was_started();
            if waits && client.is_ready() {
                self.cancel_waiting(reactor, slot, BY_USER);
            }
            return true;
        };
        let Some(server) = self.servers.get(index) else {
            return true;
        };
        match (server.stages.job, &server.task) {
            (Some(job), _) => self.cancel_job(reactor, job),
            (None, None) if server.expects.outstanding() > 0 => self.start_cancel(reactor, index),
            (None, None) => {}
            (None, Some(task)) => {
                client.cancel_wanted = !client.inbox.is_empty();
                if matches!(task.kind, TaskKind::Stage(StageTask::Plan(_))) {
                    // A question about a plan may wait for a lock as long as the query would.
                    self.start_cancel(reactor, index);
                }
            }
        }
        true
    }

    /// Cancels the request of a client that has no server yet: it is dropped and answered here.
    pub(in crate::core) fn cancel_waiting(&mut self, reactor: &mut R, slot: usize, why: &str) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let Some(request) = request_bytes(&client.inbox).filter(|_| client.begun.is_none()) else {
            // The end of the request has not come, or its transaction must fail with it: it is cancelled once a server has it.
            client.cancel_wanted = true;
            return;
        };
        client.inbox.drain(..request);
        client.first = None;
        if let Some(pool) = client.wait.leave().and_then(|pool| self.pools.get_mut(pool)) {
            pool.unqueue(slot);
        }
        self.answer_cancelled(reactor, slot, why);
    }

    /// Answers a request in the server's place, which nothing of it has gone to. What follows it is served next.
    pub(in crate::core) fn answer_cancelled(&mut self, reactor: &mut R, slot: usize, why: &str) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        *self.errors.entry(code::QUERY_CANCELED).or_default() += 1;
        let mut out = Vec::new();
        build::error(&mut out, &Refusal::new(code::QUERY_CANCELED, why));
        build::ready(&mut out, TransactionStatus::Idle);
        client.turn = None;
        client.transport.send(reactor, &out);
        self.serve_soon(slot);
    }

    /// Sends a cancel request to a server.
    pub(in crate::core) fn start_cancel(&mut self, reactor: &mut R, index: usize) {
        // Those for peers have limits of their own.
        let own = |cancel: &Cancel| matches!(cancel.target, Target::Server(..));
        if self.cancels.iter().filter(|(_, cancel)| own(cancel)).count() >= CANCELS_MAX {
            tracing::warn!("a cancel request was dropped: {CANCELS_MAX} are on their way");
            return;
        }
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let Some(address) = server.host.address.clone() else {
            return;
        };
        let entry = self.cancels.vacant_entry();
        let token = cancel_token(entry.key());
        let mut request = Vec::new();
        build::cancel(&mut request, server.process.pid, &server.process.secret);
        if let Err(error) = reactor.connect(token, &address) {
            tracing::warn!(%error, "a cancel request could not be sent");
            return;
        }
        server.process.cancels.begins();
        server.process.cancel_since = self.now;
        entry.insert(Cancel {
            token,
            target: Target::Server(index, server.id),
            request,
            sent: false,
            since: self.now,
        });
    }

    pub(in crate::core) fn cancel_connected(&mut self, reactor: &mut R, index: usize) {
        if let Some(cancel) = self.cancels.get_mut(index) {
            cancel.sent = true;
            reactor.send(cancel.token, &cancel.request);
        }
    }

    /// The server has closed the connection: the signal has been sent. It says nothing before that; whatever comes is ignored. So does a
    /// peer.
    pub(in crate::core) fn cancel_closed(
        &mut self,
        reactor: &mut R,
        index: usize,
        error: Option<std::io::Error>,
    ) {
        let Some(cancel) = self.cancels.try_remove(index) else {
            return;
        };
        let (slot, id) = match cancel.target {
            Target::Server(slot, id) => (slot, id),
            Target::Peer(peer) => return self.forward_ended(reactor, peer, cancel, error),
        };
        if let Some(error) = error.filter(|_| !cancel.sent) {
            tracing::warn!(%error, "a cancel request did not reach the server");
        }
        if let Some(server) = self.servers.get_mut(slot).filter(|server| server.id == id) {
            server.process.cancels.ends();
            if server.process.cancels.under_way() == 0 && server.user.client.is_none() {
                self.todo.push_back(Todo::Free(slot));
            }
        }
    }

    /// Gives up requests that take too long. Their servers are closed when they come free: the signal may come at any time.
    pub(in crate::core) fn cancels_tick(&mut self, reactor: &mut R) {
        let or = |limit: Duration, without: Duration| if limit.is_zero() { without } else { limit };
        let limit = self.files.config.proxy.cancel_wait_timeout;
        let (own, of_peers) = (or(limit, Duration::MAX), or(limit, peers::PATIENCE));
        self.forwards_expire(of_peers);
        let limit = |cancel: &Cancel| match cancel.target {
            Target::Server(..) => own,
            Target::Peer(_) => of_peers,
        };
        let late: Vec<usize> = self
            .cancels
            .iter()
            .filter(|(_, cancel)| self.now.saturating_sub(cancel.since) > limit(cancel))
            .map(|(index, _)| index)
            .collect();
        for index in late {
            let (token, target) = (self.cancels[index].token, self.cancels[index].target);
            reactor.close(token);
            if let Target::Server(slot, id) = target
                && let Some(server) = self.servers.get_mut(slot).filter(|server| server.id == id)
            {
                server.life.closing =
                    Some("the server did not take a cancel request for the connection in time");
            }
            self.cancel_closed(reactor, index, None);
        }
        self.cancel_again(reactor);
        self.forward_waiting(reactor);
    }

    /// A part of a query that nobody waits for any more runs until it is cancelled, which a request that was lost or came between two
    /// messages did not do.
    fn cancel_again(&mut self, reactor: &mut R) {
        let runs_for_nobody = |server: &Server| {
            let part = |task: &Task| match &task.kind {
                TaskKind::Stage(StageTask::Part { step, .. }) => !matches!(step, Step::End),
                _ => false,
            };
            server.stages.job.is_none() && server.task.as_ref().is_some_and(part)
        };
        let missed = |server: &Server| {
            runs_for_nobody(server)
                && server.process.cancels.under_way() == 0
                && self.now.saturating_sub(server.process.cancel_since) >= CANCEL_AGAIN
        };
        let servers = self.servers.iter().filter(|(_, server)| missed(server));
        let missed: Vec<usize> = servers.map(|(index, _)| index).collect();
        for index in missed {
            self.start_cancel(reactor, index);
        }
    }
}

/// Bytes of the first request in `bytes`: a Query, or what goes up to a Sync. `None`: it is not whole.
fn request_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let head = header(&bytes[at..]).ok()??;
        at += head.total;
        if at > bytes.len() {
            return None;
        }
        if matches!(
            head.tag,
            frontend::QUERY | frontend::SYNC | frontend::FUNCTION_CALL
        ) {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_comes_once_behind_the_last_request() {
        let mut cancels = Cancels::default();
        assert!(!cancels.may_strike() && !cancels.wants_barrier());
        cancels.begins();
        cancels.begins();
        cancels.ends();
        assert_eq!(cancels.under_way(), 1);
        assert!(!cancels.wants_barrier() && cancels.may_strike());
        cancels.ends();
        assert!(cancels.may_strike() && cancels.under_way() == 0);
        assert!(cancels.wants_barrier() && !cancels.wants_barrier() && !cancels.may_strike());
    }
}
