//! [`Estimate`]: what the queue wants to know of a statement before it runs: its plans, and what else its session says.

use std::time::Duration;

use corun_model::cache::locality::Footprint;

use crate::plans::{self, Candidate, Form};

/// The plans of a statement with its values, and settings that bear on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub plans: plans::Estimate,
    /// What the server cancels the statement after, where the client has not said so itself.
    pub statement_timeout: Option<Duration>,
    /// Whether it may run within a transaction block all the same.
    pub may_change: bool,
}

impl Estimate {
    /// One of the plans, PostgreSQL's own being 0.
    pub fn candidate(&self, choice: usize) -> &Candidate {
        self.plans.candidates().get(choice).unwrap_or(self.plans.own())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.plans.candidates().len()
    }

    /// What a plan keeps touching.
    pub fn footprint(&self, choice: usize) -> Footprint {
        self.candidate(choice).footprint
    }
}

/// A form in words.
pub(super) fn words(form: &Form) -> String {
    if form.is_own() {
        return "as planned".to_owned();
    }
    if let Some(hints) = form.hints() {
        let inside = hints.trim().trim_start_matches("/*+").trim_end_matches("*/");
        return format!("hints {}", inside.trim());
    }
    let words = form
        .settings()
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}
