//! The way of a request from its client to its server, stage by stage: all that may change it, in order. What leaves the pooler takes its
//! lines here along.
//!
//! ```text
//!  client ─► explain ─┬─ no server yet ─► needs one? ─► heavy queue ─► key, host, core pool ─► attach: its queue, or a server ─┐
//!                     └─ a server ◄────────────────────────────────────────────────────────────────────────────────────────────┘
//!                          └─► heavy queue ─► split ─► classify::forward ─► server ─► after_a_query
//! ```
//!
//! Each stage looks first whether it is on for this client, which costs one comparison; nothing is looked up before a stage asks for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::classify::forward::{self, Stop};
use crate::core::classify::request::{self, Needs, Request};
use crate::core::event_loop::EventLoop;
use crate::core::heavy_queue;
use crate::core::parts;
use crate::core::ranges::dispatch::CorePool;
use crate::core::server::Task;
use crate::understand::Understood;

/// Why a request goes no further now. A stage that lets it go on says `Continue`, after it has shortened the request perhaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// So many bytes are done with; the client goes on with what is behind them.
    Done(usize),
    /// So many bytes are done with; what is behind them waits.
    Wait(usize),
    /// The same, and the client leaves the server it has.
    Leave(usize),
    /// The client is gone.
    Gone,
}

/// What stages keep with a server that works for them.
#[derive(Default)]
pub(super) struct OnServer {
    /// It runs a part of this query.
    pub job: Option<u64>,
    /// It runs whole though it may run in parts by this rule, and what it takes is to be known.
    pub timed: Option<usize>,
    /// Its query's place in the queue of heavy ones.
    pub ticket: Option<heavy_queue::Ticket>,
    /// It listens for the clients of this database.
    pub hub: Option<Arc<str>>,
}

/// What a stage asks a server.
#[derive(Debug)]
pub(super) enum StageTask {
    /// A query in parts, by its number; 0 for what comes after it.
    Part { job: u64, step: parts::Step },
    /// The plan of a heavy query, for the client that has this server.
    Plan(Box<heavy_queue::Plan>),
}

impl OnServer {
    /// Whether its client's next messages wait for what a stage does on it.
    pub fn are_busy(&self) -> bool {
        self.job.is_some() || self.ticket.is_some()
    }

    /// What it runs has failed.
    pub fn failed(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            ticket.failed = true;
        }
    }
}

/// What a stage says about a request.
pub(super) type Verdict = ControlFlow<Halt>;

impl<R: Reactor> EventLoop<R> {
    /// Takes the next request of a client its way, as far as it goes now.
    pub(super) fn go(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Halt {
        match self.all_stages(reactor, request) {
            ControlFlow::Continue(halt) | ControlFlow::Break(halt) => halt,
        }
    }

    fn all_stages(&mut self, reactor: &mut R, request: &mut Request<'_>) -> ControlFlow<Halt, Halt> {
        let Some(client) = self.clients.get_mut(request.client) else {
            return ControlFlow::Break(Halt::Gone);
        };
        let server = client.server;
        if client.passing == 0 {
            self.explain(reactor, request)?;
        }
        let server = match server {
            Some(server) => server,
            None => {
                self.without_server(reactor, request)?;
                self.heavy_queue_lets(reactor, request)?;
                let key = self.key_of_request(request);
                let host_pool = self.pool_of_host(reactor, request, key)?;
                let CorePool { pool, domain } = self.core_pool(host_pool, request.client, key);
                self.attach(reactor, request, pool, domain)?
            }
        };
        match self.servers.get(server) {
            None => return ControlFlow::Break(Halt::Gone),
            Some(server) if server.task.is_some() || server.is_taken() => {
                return ControlFlow::Break(Halt::Wait(0));
            }
            Some(_) => {}
        }
        self.heavy_queue_on_server(reactor, server, request)?;
        self.split(reactor, server, request)?;
        ControlFlow::Continue(self.send(reactor, server, request))
    }

    /// The client has no server: what is left of a message that needed none, or what needs none now. `Continue`: a server is needed.
    fn without_server(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        let index = request.client;
        let Some(client) = self.clients.get_mut(index) else {
            return ControlFlow::Break(Halt::Gone);
        };
        if client.passing > 0 {
            let part = client.passing.min(request.bytes.len());
            client.passing -= part;
            return ControlFlow::Break(match client.passing {
                0 => Halt::Done(part),
                _ => Halt::Wait(part),
            });
        }
        ControlFlow::Break(match request::needs(client, &mut self.classifier, request) {
            Needs::Server => return ControlFlow::Continue(()),
            Needs::More => Halt::Wait(0),
            Needs::Answer(total, out) => {
                let used = total.min(request.bytes.len());
                client.passing = total - used;
                client.transport.send(reactor, &out);
                Halt::Done(used)
            }
            Needs::Goodbye => {
                self.said_goodbye(reactor, index);
                Halt::Gone
            }
            Needs::Refusal(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                Halt::Gone
            }
            Needs::Begin(used, understood) => {
                self.begin_late(reactor, index, &request.bytes[..used], understood);
                Halt::Done(used)
            }
        })
    }

    /// The client has this server, and nothing stands in the way: the request goes there.
    fn send(&mut self, reactor: &mut R, server_index: usize, request: &mut Request<'_>) -> Halt {
        let queued_max = self.queued_max();
        let index = request.client;
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return Halt::Gone;
        };
        let (used, stop) = forward::forward(client, server, &mut self.classifier, reactor, request);
        let counts = std::mem::take(&mut server.query.counts);
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.totals.counts.add(counts);
        }
        match stop {
            Stop::Unfinished => {
                let queued = reactor.queued(server.token());
                if !client.paused && queued > queued_max {
                    client.paused = true;
                    reactor.pause(client.token());
                }
                if client.cancel_wanted && server.expects.outstanding() > 0 {
                    client.cancel_wanted = false;
                    self.start_cancel(reactor, server_index);
                }
                if queued > 0 {
                    self.grew(reactor, used);
                }
            }
            Stop::Held => client.held = true,
            Stop::Goodbye => {
                self.said_goodbye(reactor, index);
                return Halt::Gone;
            }
            Stop::Violation(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                return Halt::Gone;
            }
        }
        // What was answered here, without the server, leaves nothing to wait for.
        let server = self.servers.get(server_index);
        if server.is_some_and(|server| server.is_between_transactions()) {
            self.go_on(reactor, server_index);
            let client = self.clients.get(index);
            if client.is_some_and(|client| client.server.is_none()) {
                self.serve_soon(index);
            }
        }
        Halt::Wait(used)
    }

    /// A server has answered queries, the first after this time; `learnt`: it was one that ran alone.
    pub(super) fn after_a_query(
        &mut self,
        reactor: &mut R,
        server: usize,
        learnt: Option<&Understood>,
        took: Duration,
    ) {
        self.split_timed(server, took);
        self.heavy_queue_ran(reactor, server, learnt, took);
    }

    /// A server has answered what a stage asked.
    pub(super) fn stage_task_done(&mut self, reactor: &mut R, server: usize, of: StageTask, task: Task) {
        match of {
            StageTask::Part { job, step } => self.part_done(reactor, server, job, step, task),
            StageTask::Plan(plan) => self.plan_answered(reactor, server, *plan, &task),
        }
    }

    /// A client has left its server: a place in the queue ends with the query.
    pub(super) fn stages_parted(&mut self, server: usize) {
        let ticket = self
            .servers
            .get_mut(server)
            .and_then(|server| server.stages.ticket.take());
        if ticket.is_some() {
            self.unplace(server);
        }
    }

    /// A client went away while it had this server. `true`: a stage has seen to both.
    pub(super) fn stages_deserted(&mut self, reactor: &mut R, server: usize) -> bool {
        let job = self.servers.get(server).and_then(|server| server.stages.job);
        if let Some(job) = job.and_then(|id| self.splits.jobs.remove(&id)) {
            self.end_job(reactor, job, parts::After::Nothing);
        }
        job.is_some()
    }

    /// A server is gone that had this to do.
    pub(super) fn stages_lost(&mut self, reactor: &mut R, server: usize, stages: &OnServer) {
        if let Some(job) = stages.job {
            self.member_lost(reactor, job, server);
        }
        if let Some(database) = &stages.hub {
            self.hub_lost(reactor, database);
        }
    }

    /// What `EXPLAIN (CORUN)` says of the stages.
    pub(super) fn explanation(
        &mut self,
        client: usize,
        text: &str,
        understood: &Arc<Understood>,
    ) -> Vec<String> {
        let mut lines = self.explain_key(client, text, understood);
        lines.push(self.explain_split(client, text, understood));
        lines.push(self.explain_heavy_queue(client, text, understood));
        lines
    }
}
