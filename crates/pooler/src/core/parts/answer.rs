//! From the answers of parts to the client's.

use corun_net::reactor::Reactor;

use super::asked::{Asked, Form};
use super::flight;
use super::job::{After, Job, Member, State, Step};
use super::rules::How;
use crate::core::console::queries::SLOW;
use crate::core::console::statistics::micros;
use crate::core::event_loop::EventLoop;
use crate::core::server::Task;
use crate::core::server::raw_reply::Reply;
use crate::split::{MergeKind, Merger};
use corun_wire::error::Reported;
use corun_wire::{TransactionStatus, backend, build};

impl<R: Reactor> EventLoop<R> {
    /// A part has answered.
    pub(super) fn part_answered(&mut self, reactor: &mut R, server: usize, mut job: Job, task: Task) {
        let reply = match (task.reply, task.error) {
            (Some(reply), None) if reply.overflowed => {
                return self.refused(reactor, job, "the parts return more than split_memory_max");
            }
            (Some(reply), None) => reply,
            // The whole may fail as well, or not; the client gets what it says.
            (_, error) => return self.failed(reactor, job, error.as_ref()),
        };
        if job.how.as_ref().map(|how| &how.part_types) != described(&reply).as_ref() {
            // Somebody has changed a table.
            return self.outdated(reactor, job);
        }
        if let Some(member) = job.member(server) {
            member.state = State::Done(reply);
        }
        let done = |member: &Member| matches!(member.state, State::Done(_));
        if job.members.iter().all(done) {
            self.merge(reactor, job);
        } else {
            self.splits.jobs.insert(job.id, job);
        }
    }

    /// All parts have answered.
    fn merge(&mut self, reactor: &mut R, job: Job) {
        let (Some(how), Some(lead)) = (&job.how, &job.lead) else {
            return self.end_job(reactor, job, After::Whole);
        };
        let mut merger = Merger::new(&how.confirmed, lead, job.members.len());
        let pushed = job.members.iter().enumerate().try_for_each(|(number, member)| {
            if let State::Done(reply) = &member.state {
                reply.rows().try_for_each(|row| merger.push(number, row))?;
            }
            merger.end(number)
        });
        if let Err(error) = pushed {
            return self.refused(reactor, job, error);
        }
        if how.confirmed.merge() == MergeKind::Final {
            let Ok(sql) = merger.final_sql() else {
                return self.end_job(reactor, job, After::Whole);
            };
            let mut out = Vec::new();
            flight::bound_described(&mut out, &sql, &how.types, &job.asked.values, &job.asked.formats);
            flight::sync(&mut out);
            let memory = self.files.config.corun.split_memory_max.0 as usize;
            return self.fly(reactor, job, Step::Final, &out, memory);
        }
        let mut rows = Vec::new();
        merger.drain(&mut rows);
        let tag = merger.command_tag();
        self.answered_in_parts(reactor, job, &rows, &tag);
    }

    /// A server refused a text of a job.
    pub(super) fn failed(&mut self, reactor: &mut R, job: Job, error: Option<&Reported>) {
        if let Some(error) = error {
            tracing::debug!(
                code = error.code,
                "a part failed, so the query runs whole: {}",
                error.message
            );
        }
        match error {
            Some(error) if error.code.starts_with("42") || error.code.starts_with("0A") => {
                self.outdated(reactor, job);
            }
            _ => self.end_job(reactor, job, After::Whole),
        }
    }

    /// What is known of a text does not hold any more: it is asked anew next time.
    fn outdated(&mut self, reactor: &mut R, job: Job) {
        tracing::debug!("what is known of a query in parts does not hold any more");
        self.splits.known.pop(&job.key);
        self.end_job(reactor, job, After::Whole);
    }

    /// The statement over what the parts answered has answered.
    pub(super) fn final_answered(&mut self, reactor: &mut R, job: Job, task: Task) {
        let rows = match (&task.reply, &task.error) {
            (Some(reply), None) if !reply.overflowed => reply,
            (_, error) => return self.failed(reactor, job, error.as_ref()),
        };
        let columns = rows
            .descriptions
            .first()
            .and_then(|(_, body)| flight::column_types(body));
        let expected = job.how.as_ref().map(|how| how.confirmed.columns());
        if columns.is_none() || columns.as_deref() != expected {
            let why = "the statement over the parts has other columns than the whole";
            return self.refused(reactor, job, why);
        }
        let mut out = Vec::new();
        for row in rows.rows() {
            build::message(&mut out, backend::DATA_ROW, |out| out.extend(row));
        }
        let tag = format!("SELECT {}", rows.rows().len());
        self.answered_in_parts(reactor, job, &out, &tag);
    }

    /// The rows of the whole are there, and what CommandComplete says of them.
    fn answered_in_parts(&mut self, reactor: &mut R, job: Job, rows: &[u8], tag: &str) {
        let answer = job
            .how
            .as_ref()
            .and_then(|how| answer(&job.asked, how, rows, tag));
        let Some(out) = answer else {
            return self.end_job(reactor, job, After::Whole);
        };
        let took = self.now.saturating_sub(job.began);
        if let Some(rule) = self.splits.rules.get_mut(job.rule) {
            rule.split += 1;
            // The first time it was asked about; with fewer servers than wanted it says nothing of the number chosen.
            if job.new || job.members.len() != job.wanted {
                rule.history.did_not_run(job.wanted);
            }
            if !job.new {
                rule.history.record(job.members.len(), micros(took));
            }
        }
        let pool = job
            .leader()
            .and_then(|leader| self.servers.get(leader))
            .map(|server| server.pool);
        if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool)) {
            pool.totals.queries += 1;
            pool.totals.transactions += 1;
            pool.totals.query_time += took;
            pool.totals.transaction_time += took;
            pool.totals.sent += out.len() as u64;
            pool.times.query.record(micros(took));
            pool.times.transaction.record(micros(took));
            if took > SLOW {
                self.queries.record(&pool.key.database, &job.understood, took);
            }
        }
        self.end_job(reactor, job, After::Answer(out));
    }
}

/// Types of the columns a server answered with.
fn described(reply: &Reply) -> Option<Vec<u32>> {
    let mut descriptions = reply.descriptions.iter();
    let (_, body) = descriptions.find(|(tag, _)| *tag == backend::ROW_DESCRIPTION)?;
    flight::column_types(body)
}

/// The messages a client gets.
fn answer(asked: &Asked, how: &How, rows: &[u8], tag: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(rows.len() + how.description.len() + 64);
    let describes = match asked.form {
        Form::Simple => true,
        Form::Extended {
            parses, describes, ..
        } => {
            if parses {
                build::bare(&mut out, backend::PARSE_COMPLETE);
            }
            build::bare(&mut out, backend::BIND_COMPLETE);
            describes
        }
    };
    if describes {
        let description = flight::with_formats(&how.description, &asked.formats)?;
        build::message(&mut out, backend::ROW_DESCRIPTION, |out| out.extend(description));
    }
    out.extend(rows);
    build::command_complete(&mut out, tag);
    build::ready(&mut out, TransactionStatus::Idle);
    Some(out)
}
