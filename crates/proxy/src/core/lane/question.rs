//! What is asked of a server before a heavy query runs for the first time: its plan, and what other joins would cost.
//!
//! ```text
//!  Plan::First ─► settings of the session, EXPLAIN ─► Plan::Others ─► for each form: BEGIN; SET LOCAL ..; EXPLAIN; ROLLBACK ─► known
//!       └ error: as if nothing had been asked               └ error: Plan::Undo (ROLLBACK); PostgreSQL's own plan is all that is known
//! ```
//!
//! The client's values go along as it sent them, so that the plan is the one they get. All questions of a step are one flight.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use machine::reactor::Reactor;
use model::slowdown::StatementId;

use super::estimate::{Candidate, Estimate, Explained, QUESTION, words};
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::parts::{Asked, bound, plain, sync};
use crate::core::server::{Task, TaskKind};
use crate::wire::TransactionStatus;

/// Other forms that are asked about.
const FORMS_MAX: usize = 6;

/// Settings that decide what the answer means.
const SETTINGS: &str = "SELECT pg_catalog.current_setting('statement_timeout'), \
                        pg_catalog.current_setting('default_transaction_isolation'), \
                        pg_catalog.current_setting('work_mem'), \
                        pg_catalog.current_setting('hash_mem_multiplier', true)";

/// A question under way.
#[derive(Debug)]
pub(in crate::core) struct Plan {
    step: Step,
    statement: StatementId,
    values: u64,
    asked: Asked,
    /// Whether other forms may be run.
    forms: bool,
    estimate: Option<Estimate>,
    /// Settings of the forms that were asked about, in order.
    settings: Vec<Vec<(&'static str, &'static str)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    First,
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
        values: u64,
        asked: Asked,
        forms: bool,
    ) {
        let mut out = Vec::new();
        plain(&mut out, SETTINGS);
        explain(&mut out, &asked);
        let plan = Plan {
            step: Step::First,
            statement,
            values,
            asked,
            forms,
            estimate: None,
            settings: Vec::new(),
        };
        self.fly_plan(reactor, server, plan, out);
    }

    fn fly_plan(&mut self, reactor: &mut R, index: usize, plan: Plan, mut out: Vec<u8>) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        sync(&mut out);
        self.shared.lane.counts.questions.fetch_add(1, Ordering::Relaxed);
        server.query_since = self.now;
        server.start_message(reactor, TaskKind::Plan(Box::new(plan)), &out);
        // An unnamed statement that is nobody's is left there.
        server.statements.unnamed = Some((u64::MAX, 0));
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
            let counts = &self.shared.lane.counts;
            counts.questions_failed.fetch_add(1, Ordering::Relaxed);
        }
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let idle = server.status == TransactionStatus::Idle;
        match plan.step {
            Step::First if idle => {
                plan.estimate = first(task);
                let wanted = plan.forms && plan.estimate.as_ref().is_some_and(|estimate| estimate.may_change);
                let explained = explained(task).filter(|_| wanted);
                plan.settings = explained
                    .map(|explained| explained.alternatives())
                    .unwrap_or_default();
                plan.settings.truncate(FORMS_MAX);
                if !plan.settings.is_empty() {
                    plan.step = Step::Others;
                    let mut out = Vec::new();
                    for settings in &plan.settings {
                        plain(&mut out, "BEGIN");
                        for (name, value) in settings {
                            plain(&mut out, &format!("SET LOCAL {name} = {value}"));
                        }
                        explain(&mut out, &plan.asked);
                        plain(&mut out, "ROLLBACK");
                    }
                    return self.fly_plan(reactor, index, plan, out);
                }
            }
            Step::Others if failed && !idle => {
                plan.step = Step::Undo;
                let mut out = Vec::new();
                plain(&mut out, "ROLLBACK");
                return self.fly_plan(reactor, index, plan, out);
            }
            Step::Others if !failed => {
                if let Some(estimate) = &mut plan.estimate {
                    others(estimate, &plan.settings, task);
                }
            }
            _ => {}
        }
        let estimate = plan.estimate.map(Arc::new);
        let known = &self.shared.lane.known;
        known.keep(plan.statement, plan.values, estimate, self.now);
        let client = self.servers.get(index).and_then(|server| server.client);
        if !idle {
            // The client has nothing there yet: it goes on with another.
            self.close_server(reactor, index, "a question about a plan could not be ended");
        }
        if let Some(client) = client
            && let Some(id) = self.clients.get(client).map(|client| client.id)
        {
            self.todo.push_back(Todo::Serve(client, id));
        }
    }
}

/// Appends the question about a request.
fn explain(out: &mut Vec<u8>, asked: &Asked) {
    let mut text = QUESTION.as_bytes().to_vec();
    text.extend(&*asked.sql);
    bound(out, &text, &asked.types, &asked.values, &[]);
}

/// The plan in the last row.
fn explained(task: &Task) -> Option<Explained> {
    let row = task.rows.get(1)?;
    Explained::read(row.first()?.as_deref()?)
}

/// What is known after the first step.
fn first(task: &Task) -> Option<Estimate> {
    if task.error.is_some() {
        return None;
    }
    let explained = explained(task)?;
    let setting = |at: usize| task.rows.first()?.get(at)?.as_deref();
    Some(Estimate {
        fingerprint: explained.fingerprint,
        statement_timeout: setting(0).and_then(timeout),
        // At its end a serializable transaction may fail for what others did, after its rows have gone out.
        may_change: setting(1) != Some("serializable"),
        candidates: vec![Candidate {
            settings: Vec::new(),
            form: "as planned".to_owned(),
            cost: explained.cost,
            footprint: explained.footprint,
        }],
    })
}

/// What other forms would cost.
fn others(estimate: &mut Estimate, settings: &[Vec<(&'static str, &'static str)>], task: &Task) {
    for (settings, row) in settings.iter().zip(&task.rows) {
        let explained = row.first().and_then(|json| Explained::read(json.as_deref()?));
        let Some(explained) = explained else { continue };
        if explained.fingerprint == estimate.fingerprint {
            // The same plan: PostgreSQL has no other, or the settings did not matter.
            continue;
        }
        estimate.candidates.push(Candidate {
            settings: settings.clone(),
            form: words(settings),
            cost: explained.cost,
            footprint: explained.footprint,
        });
    }
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
