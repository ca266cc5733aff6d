//! What has to be known before a text runs in parts for the first time: questions to the catalog, descriptions, the proof.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use super::flight;
use super::job::{After, Job, Step};
use super::rules::{How, Known};
use crate::core::event_loop::EventLoop;
use crate::core::server::raw_reply::Reply;
use crate::core::server::{Task, TaskKind};
use crate::core::stages::StageTask;
use crate::split::{Refusal, plan};
use corun_wire::{backend, build};

/// Memory for answers to questions.
const ANSWER_MAX: usize = 1 << 20;

impl<R: Reactor> EventLoop<R> {
    /// Begins to find out how a text is split. `false`: the text alone says that it is not.
    pub(super) fn ask_about(&mut self, reactor: &mut R, mut job: Job) -> bool {
        let Some(leader) = job.leader() else {
            return false;
        };
        let Some(rule) = self.splits.rules.get(job.rule) else {
            return false;
        };
        let text = String::from_utf8_lossy(&job.asked.sql).into_owned();
        match plan(&text, &rule.key) {
            Err(refusal) => {
                self.know(&job, Err(refusal.to_string()));
                false
            }
            Ok(plan) => {
                let mut out = Vec::new();
                build::query(&mut out, &plan.questions());
                job.plan = Some(plan);
                let id = job.id;
                self.splits.jobs.insert(id, job);
                let kind = TaskKind::Stage(StageTask::Part {
                    job: id,
                    step: Step::Questions,
                });
                if let Some(server) = self.servers.get_mut(leader) {
                    server.start_message(reactor, kind, &out);
                }
                true
            }
        }
    }

    /// Remembers how a text is split, or why it is not.
    fn know(&mut self, job: &Job, how: Result<Arc<How>, String>) {
        let Some(rule) = self.splits.rules.get_mut(job.rule) else {
            // Another configuration: another key, perhaps.
            return;
        };
        if let Err(why) = &how {
            rule.why.clone_from(why);
        }
        let stamp = job.stamp;
        self.splits.known.put(job.key.clone(), Known { stamp, how });
    }

    /// The catalog has answered.
    pub(super) fn questions_answered(&mut self, reactor: &mut R, mut job: Job, task: &Task) {
        let resolved = match (&task.error, job.plan.take()) {
            (None, Some(plan)) => plan.resolve(&task.rows),
            _ => Err(Refusal::CatalogAnswer),
        };
        match resolved {
            Err(refusal) => self.refused(reactor, job, refusal),
            Ok(resolved) => {
                job.resolved = Some(resolved);
                let mut out = Vec::new();
                flight::described(&mut out, &job.asked.sql, &job.asked.types);
                flight::sync(&mut out);
                self.fly(reactor, job, Step::Original, &out, ANSWER_MAX);
            }
        }
    }

    /// The original is described.
    pub(super) fn original_described(&mut self, reactor: &mut R, mut job: Job, task: &Task) {
        let described = |tag: u8| {
            let reply = task.reply.as_ref()?;
            reply
                .descriptions
                .iter()
                .find(|(found, _)| *found == tag)
                .map(|(_, body)| body)
        };
        let (parameters, columns) = (
            described(backend::PARAMETER_DESCRIPTION),
            described(backend::ROW_DESCRIPTION),
        );
        let types = parameters.and_then(|body| flight::parameter_types(body));
        let (Some(types), Some(columns), Some(resolved), None) = (types, columns, &job.resolved, &task.error)
        else {
            // The server has an error for the whole; it shall say so itself.
            return self.end_job(reactor, job, After::Whole);
        };
        let mut out = Vec::new();
        flight::described(&mut out, resolved.describe().as_bytes(), &types);
        flight::described(&mut out, resolved.leader().as_bytes(), &types);
        flight::sync(&mut out);
        job.types = types;
        job.description.clone_from(columns);
        self.fly(reactor, job, Step::Described, &out, ANSWER_MAX);
    }

    /// The parts are described: the proof is complete, or there is none.
    pub(super) fn parts_described(&mut self, reactor: &mut R, mut job: Job, task: &Task) {
        let columns: Vec<Vec<u32>> = task
            .reply
            .iter()
            .flat_map(|reply| &reply.descriptions)
            .filter(|(tag, _)| *tag == backend::ROW_DESCRIPTION)
            .filter_map(|(_, body)| flight::column_types(body))
            .collect();
        let original = flight::column_types(&job.description);
        let confirmed = match (job.resolved.take(), original, columns.as_slice(), &task.error) {
            (Some(resolved), Some(original), [part, leader], None) => resolved
                .confirm(&original, part, leader)
                .map(|confirmed| (confirmed, part)),
            _ => Err(Refusal::Rewrite),
        };
        match confirmed {
            Err(refusal) => self.refused(reactor, job, refusal),
            Ok((confirmed, part)) => {
                let how = Arc::new(How {
                    confirmed,
                    part_types: part.clone(),
                    description: std::mem::take(&mut job.description),
                    types: std::mem::take(&mut job.types),
                });
                job.how = Some(Arc::clone(&how));
                self.know(&job, Ok(how));
                self.lead(reactor, job);
            }
        }
    }

    /// A text runs whole from now on, until what is known is asked anew.
    pub(super) fn refused(&mut self, reactor: &mut R, job: Job, why: impl ToString) {
        self.know(&job, Err(why.to_string()));
        self.end_job(reactor, job, After::Whole);
    }

    /// The leader sends messages of its job.
    pub(super) fn fly(&mut self, reactor: &mut R, mut job: Job, step: Step, out: &[u8], limit: usize) {
        if let Some(leader) = job.leader() {
            self.member_flies(reactor, &mut job, leader, step, out, limit);
        }
        self.splits.jobs.insert(job.id, job);
    }

    /// A member sends messages of its job, and keeps rows of the answer up to `limit` bytes.
    pub(super) fn member_flies(
        &mut self,
        reactor: &mut R,
        job: &mut Job,
        server: usize,
        step: Step,
        out: &[u8],
        limit: usize,
    ) {
        if let Some(member) = job.member(server) {
            member.state = super::job::State::Busy;
        }
        if let Some(server) = self.servers.get_mut(server) {
            let job = job.id;
            server.start_message(reactor, TaskKind::Stage(StageTask::Part { job, step }), out);
            // An unnamed statement that is nobody's is left there.
            server.session.statements.unnamed = Some((u64::MAX, 0));
            if let Some(task) = &mut server.task {
                task.reply = Some(Box::new(Reply::new(limit)));
            }
        }
    }
}
