//! Every way a job ends.

use std::sync::atomic::Ordering;

use corun_net::reactor::Reactor;

use super::job::{After, Job, State, Step};
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::server::cancel::BY_USER;
use crate::core::server::{Task, TaskKind};
use crate::core::stages::StageTask;
use corun_wire::error::{Refusal, Reported, code};
use corun_wire::{HEADER_BYTES, TransactionStatus, backend, build};

impl<R: Reactor> EventLoop<R> {
    /// Ends a job: the client gets what is its own, servers go back, and those that still work are cancelled.
    pub(in crate::core) fn end_job(&mut self, reactor: &mut R, job: Job, after: After) {
        self.shared.jobs.fetch_sub(1, Ordering::Relaxed);
        let mut busy = Vec::new();
        let mut free = Vec::new();
        for member in &job.members {
            let found = self
                .servers
                .get_mut(member.server)
                .filter(|server| server.id == member.id);
            let Some(server) = found else { continue };
            server.stages.job = None;
            match server.task.is_some() {
                true => busy.push(member.server),
                false => free.push(member.server),
            }
        }
        let leader = job.leader();
        // The client first: what follows takes a while.
        if let (Some(leader), Some(client)) = (leader, self.clients.get_mut(job.client))
            && client.id == job.client_id
            && client.server == Some(leader)
        {
            match after {
                After::Answer(out) => client.transport.send(reactor, &out),
                After::Error(body) => {
                    let mut out = Vec::new();
                    build::message(&mut out, backend::ERROR, |out| out.extend(body));
                    build::ready(&mut out, TransactionStatus::Idle);
                    client.transport.send(reactor, &out);
                }
                After::Whole => {
                    client.whole = true;
                    client.put_back(job.asked.bytes);
                    if let Some(rule) = self.splits.rules.get_mut(job.rule) {
                        rule.did_not_run(job.wanted);
                    }
                }
                After::Nothing => {}
            }
            self.part(reactor, leader, job.client);
        }
        for server in busy {
            self.start_cancel(reactor, server);
        }
        for server in free {
            self.release(reactor, server);
        }
    }

    /// A server that works for no job any more goes back to its pool, its transaction ended.
    pub(super) fn release(&mut self, reactor: &mut R, index: usize) {
        self.bind_home(index);
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        server.stages.job = None;
        server.life.since = self.now;
        if server.session.status == TransactionStatus::Idle {
            // Where it was parted from its client it is on the list already; on it twice, two clients would get it.
            if !self.todo.contains(&Todo::Free(index)) {
                self.todo.push_back(Todo::Free(index));
            }
        } else {
            let kind = TaskKind::Stage(StageTask::Part {
                job: 0,
                step: Step::End,
            });
            // A failed one is rolled back by it.
            server.start(reactor, kind, "COMMIT");
        }
    }

    /// The end of a transaction was answered.
    pub(super) fn member_ended(&mut self, reactor: &mut R, index: usize, task: &Task) {
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let struck =
            |error: &Reported| server.process.cancels.may_strike() && error.code == code::QUERY_CANCELED;
        if task.error.as_ref().is_some_and(struck) {
            // The cancel request was meant for the part.
            return self.release(reactor, index);
        }
        if task.error.is_some() || server.session.status != TransactionStatus::Idle {
            return self.close_server(reactor, index, "a part of a query could not be ended");
        }
        self.todo.push_back(Todo::Free(index));
    }

    /// A server that worked for a job is gone.
    pub(in crate::core) fn member_lost(&mut self, reactor: &mut R, id: u64, server: usize) {
        let Some(job) = self.splits.jobs.get_mut(&id) else {
            return;
        };
        let leads = job.leader() == Some(server);
        if let (false, Some(member)) = (leads, job.member(server))
            && matches!(member.state, State::Done(_))
        {
            // Its part has been answered; nobody needs it any more.
            return;
        }
        let refusal = Refusal::new(
            code::CONNECTION_FAILURE,
            "a server connection was lost while it ran a part of the query",
        )
        .detail("The server ended abnormally before or while processing the request.")
        .hint("The session goes on. Run the query again, or turn the split off with split = \"off\".");
        self.refuse_job(reactor, id, &refusal);
    }

    /// A client cancels a query that runs in parts.
    pub(in crate::core) fn cancel_job(&mut self, reactor: &mut R, id: u64) {
        let refusal = Refusal::new(code::QUERY_CANCELED, BY_USER);
        self.refuse_job(reactor, id, &refusal);
    }

    fn refuse_job(&mut self, reactor: &mut R, id: u64, refusal: &Refusal) {
        let mut out = Vec::new();
        build::error(&mut out, refusal);
        *self.errors.entry(refusal.code).or_default() += 1;
        if let Some(job) = self.splits.jobs.remove(&id) {
            self.end_job(reactor, job, After::Error(out[HEADER_BYTES..].to_vec()));
        }
    }
}
