//! What is asked of a server before a heavy query runs for the first time: its plan, and what other joins would cost.
//!
//! ```text
//!  First ─► settings of the session, EXPLAIN ─► Facts ─► statistics, count(*) of build sides ─► Others ─► for each form: BEGIN; SET LOCAL ..;
//!    └ error: as if nothing had been asked         └ error: estimates as they are                  │       EXPLAIN; ROLLBACK ─► known
//!                                                       error: Undo (ROLLBACK); PostgreSQL's own plan is all that is known
//! ```
//!
//! The client's values go along as it sent them, so that the plan is the one they get. All questions of a step are one flight. Where the
//! session has pg_hint_plan, forms by hints are asked about before those by settings: without a transaction, with the comment at the head.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_model::cache::slowdown::StatementId;
use corun_net::reactor::Reactor;

use super::estimate::Estimate;
use super::hint::can_carry;
use super::known::StatementKey;
use crate::core::event_loop::EventLoop;
use crate::core::parts::{Asked, bound, plain, sync};
use crate::core::server::{Task, TaskKind};
use crate::core::stages::StageTask;
use crate::plans::{self, Corrections, Explained, Form, HINTS_SETTING, Key, Memory, QUESTION, Statistics};
use corun_wire::TransactionStatus;
use corun_wire::error::code;

/// Other forms that are asked about.
const FORMS_MAX: usize = 6;

/// Settings that decide what the answer means, in the order they are asked; the last says whether the session has pg_hint_plan, and need
/// not be there.
const SETTINGS: [&str; 3] = [
    "statement_timeout",
    "default_transaction_isolation",
    HINTS_SETTING,
];

/// A question under way.
#[derive(Debug)]
pub(in crate::core) struct Plan {
    step: Step,
    /// Statement and values.
    of: (StatementKey, u64),
    /// Whose time the answers cost, and when they were first asked for.
    statement: StatementId,
    began: Duration,
    asked: Asked,
    /// Whether other forms may be run.
    forms: bool,
    /// Whether they may be had by hints.
    hints: bool,
    /// PostgreSQL's own plan.
    explained: Option<Explained>,
    /// What is counted.
    counted: Vec<Key>,
    estimate: Option<Estimate>,
    /// The forms that were asked about, in order.
    forms_asked: Vec<Form>,
    /// Forms that followed from others' answers are asked about.
    refined: bool,
    /// The client has cancelled its query meanwhile.
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    First,
    Facts,
    Others,
    Undo,
}

/// A setting that is a time, as PostgreSQL shows it: milliseconds, or a number with a unit. `None`: there is no limit.
pub(super) fn timeout(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let limit = Duration::from_millis(number.checked_mul(unit)?);
    (!limit.is_zero()).then_some(limit)
}

impl<R: Reactor> EventLoop<R> {
    /// Asks a client's server for the plan of its request. The client goes on when it has answered.
    pub(super) fn ask_plan(
        &mut self,
        reactor: &mut R,
        server: usize,
        statement: StatementId,
        of: (StatementKey, u64),
        asked: Asked,
        forms: bool,
    ) {
        let mut out = Vec::new();
        let settings = SETTINGS.map(|name| format!("pg_catalog.current_setting('{name}', true)"));
        plain(&mut out, &format!("SELECT {}", settings.join(", ")));
        explain(&mut out, &asked);
        let plan = Plan {
            step: Step::First,
            of,
            statement,
            began: self.now,
            asked,
            forms,
            hints: false,
            explained: None,
            counted: Vec::new(),
            estimate: None,
            forms_asked: Vec::new(),
            refined: false,
            cancelled: false,
        };
        self.fly_plan(reactor, server, plan, out);
    }

    fn fly_plan(&mut self, reactor: &mut R, index: usize, plan: Plan, mut out: Vec<u8>) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        sync(&mut out);
        self.shared
            .heavy_queue
            .counts
            .questions
            .fetch_add(1, Ordering::Relaxed);
        server.query.since = self.now;
        server.start_message(reactor, TaskKind::Stage(StageTask::Plan(Box::new(plan))), &out);
        // An unnamed statement that is nobody's is left there.
        server.session.statements.unnamed = Some((u64::MAX, 0));
    }

    /// What the first answer says.
    fn first(&self, database: &Arc<str>, explained: &Explained, task: &Task) -> Estimate {
        let setting = |at: usize| task.rows.first()?.get(at)?.as_deref();
        Estimate {
            plans: self.own_plan(database, explained),
            statement_timeout: setting(0).and_then(timeout),
            // At its end a serializable transaction may fail for what others did, after its rows have gone out.
            may_change: setting(1) != Some("serializable"),
        }
    }

    fn own_plan(&self, database: &Arc<str>, explained: &Explained) -> plans::Estimate {
        let memory = memory(explained);
        let known = &self.shared.heavy_queue.known;
        known.corrected(database, |corrections| {
            plans::Estimate::new(explained, &memory, corrections)
        })
    }

    /// Asks what the estimates stand on, and counts rows where that is cheap and these were not counted yet.
    fn ask_facts(&mut self, reactor: &mut R, index: usize, mut plan: Plan, database: &Arc<str>) {
        let mut out = Vec::new();
        if let Some(explained) = &plan.explained {
            plain(&mut out, &Statistics::question(&explained.relations()));
            let mut questions = explained.questions();
            let known = &self.shared.heavy_queue.known;
            known.corrected(database, |corrections| {
                questions.retain(|(key, _)| !corrections.knows(key))
            });
            for (key, text) in questions {
                plain(&mut out, &text);
                plan.counted.push(key);
            }
        }
        plan.step = Step::Facts;
        self.fly_plan(reactor, index, plan, out);
    }

    /// Learns what was answered. An error among the questions leaves the answers before it.
    fn learn_facts(&self, plan: &Plan, database: &Arc<str>, task: &Task) {
        let first_count = task.rows.iter().position(|row| row.len() == 1);
        let (told, counts) = task.rows.split_at(first_count.unwrap_or(task.rows.len()));
        let statistics = Statistics::read(told);
        let known = &self.shared.heavy_queue.known;
        // What does not hold any more goes first.
        known.stands_on(plan.of.0, database, statistics.clone(), self.now);
        known.corrected(database, |corrections| {
            if let Some(statistics) = &statistics {
                corrections.set_tables(statistics);
            }
            for (key, count) in plan.counted.iter().zip(counts) {
                let rows = count
                    .first()
                    .and_then(|count| count.as_deref()?.parse::<f64>().ok());
                if let Some(rows) = rows {
                    corrections.learn(*key, rows);
                }
            }
        });
    }

    /// Asks for the plan under each of these forms.
    fn ask_forms(&mut self, reactor: &mut R, index: usize, mut plan: Plan, forms: Vec<Form>) {
        let mut out = Vec::new();
        for form in &forms {
            if let Some(hints) = form.hints() {
                explain_with(&mut out, hints, &plan.asked);
                continue;
            }
            plain(&mut out, "BEGIN");
            for (name, value) in form.settings() {
                plain(&mut out, &format!("SET LOCAL {name} = {value}"));
            }
            explain(&mut out, &plan.asked);
            plain(&mut out, "ROLLBACK");
        }
        plan.step = Step::Others;
        plan.forms_asked = forms;
        self.fly_plan(reactor, index, plan, out);
    }

    /// A server has answered.
    pub(in crate::core) fn plan_answered(
        &mut self,
        reactor: &mut R,
        index: usize,
        mut plan: Plan,
        task: &Task,
    ) {
        let failed = task.error.is_some();
        if failed {
            let counts = &self.shared.heavy_queue.counts;
            counts.questions_failed.fetch_add(1, Ordering::Relaxed);
        }
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let idle = server.session.status == TransactionStatus::Idle;
        plan.cancelled |= server.process.cancels.may_strike()
            && matches!(&task.error, Some(error) if error.code == code::QUERY_CANCELED);
        let cancelled = plan.cancelled;
        let Some(database) = self
            .pools
            .get(server.pool)
            .map(|pool| Arc::clone(&pool.key.database))
        else {
            return;
        };
        match plan.step {
            Step::First if idle && !failed => {
                plan.explained = explained(task, 1);
                let told = task.rows.first().and_then(|row| row.get(2)?.as_deref());
                plan.hints = can_carry(&plan.asked, told);
                if let Some(explained) = &plan.explained {
                    plan.estimate = Some(self.first(&database, explained, task));
                    return self.ask_facts(reactor, index, plan, &database);
                }
            }
            Step::Facts if idle && !cancelled => {
                self.learn_facts(&plan, &database, task);
                let mut forms = Vec::new();
                if let (Some(explained), Some(estimate)) = (&plan.explained, &mut plan.estimate) {
                    estimate.plans = self.own_plan(&database, explained);
                    if plan.forms && estimate.may_change {
                        if plan.hints {
                            forms = explained.hinted();
                        }
                        forms.extend(explained.alternatives());
                        forms.truncate(FORMS_MAX);
                    }
                }
                if !forms.is_empty() {
                    return self.ask_forms(reactor, index, plan, forms);
                }
            }
            Step::Others if failed && !idle => {
                plan.step = Step::Undo;
                let mut out = Vec::new();
                plain(&mut out, "ROLLBACK");
                return self.fly_plan(reactor, index, plan, out);
            }
            Step::Others if !failed => {
                let mut more = Vec::new();
                if let Some(estimate) = &mut plan.estimate {
                    let known = &self.shared.heavy_queue.known;
                    more = known.corrected(&database, |corrections| {
                        others(estimate, &plan.forms_asked, task, corrections)
                    });
                }
                if !more.is_empty() && !std::mem::replace(&mut plan.refined, true) {
                    return self.ask_forms(reactor, index, plan, more);
                }
            }
            _ => {}
        }
        let (key, values) = plan.of;
        let heavy_queue = &self.shared.heavy_queue;
        heavy_queue
            .heavy
            .asked(plan.statement, self.now.saturating_sub(plan.began));
        // The client has enough of its query, which says nothing about the question.
        if !cancelled {
            heavy_queue.known.keep(key, values, plan.estimate, self.now);
        }
        let client = self.servers.get(index).and_then(|server| server.user.client);
        if !idle {
            // The client has nothing there yet: it goes on with another.
            self.close_server(reactor, index, "a question about a plan could not be ended");
        }
        if let Some(client) = client {
            self.serve_soon(client);
        }
    }
}

/// Appends the question about a request.
fn explain(out: &mut Vec<u8>, asked: &Asked) {
    explain_with(out, "", asked);
}

/// The same with hints at the head of the text.
fn explain_with(out: &mut Vec<u8>, hints: &str, asked: &Asked) {
    let mut text = [hints, QUESTION].concat().into_bytes();
    text.extend(&*asked.sql);
    bound(out, &text, &asked.types, &asked.values, &[]);
}

/// The plan in a row.
fn explained(task: &Task, row: usize) -> Option<Explained> {
    plans::read(task.rows.get(row)?.first()?.as_deref()?).ok()
}

/// The memory of hash tables, as an answer says.
fn memory(explained: &Explained) -> Memory {
    explained.memory(&Memory::default())
}

/// What other forms would cost. Returns which more are worth a question.
fn others(estimate: &mut Estimate, forms: &[Form], task: &Task, corrections: &Corrections) -> Vec<Form> {
    let mut more = Vec::new();
    for (row, form) in forms.iter().enumerate() {
        if let Some(explained) = explained(task, row) {
            more.extend(explained.refined(form));
            let memory = memory(&explained);
            estimate.plans.add(form.clone(), &explained, &memory, corrections);
        }
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_postgresql_shows_them() {
        let millis = |text: &str| timeout(text).map(|limit| limit.as_millis());
        assert_eq!(millis("0"), None);
        assert_eq!(millis("250"), Some(250));
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("5s"), Some(5000));
        assert_eq!(millis("2min"), Some(120_000));
        assert_eq!(millis("1h"), Some(3_600_000));
        assert_eq!(millis("1d"), Some(86_400_000));
        for wrong in [
            "",
            "s",
            "5 parsecs",
            "99999999999999999999",
            "18446744073709551615d",
        ] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }
}
