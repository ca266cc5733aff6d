//! What the queue has done, counted up.

use std::sync::atomic::{AtomicU64, Ordering};

use corun_model::cache::coschedule::Why;

use crate::admin::HeavyQueueTotals;

/// Reasons to start, in the order they are counted, with their names for metrics. Servers share no work between queries.
const REASONS: [(Why, &str); 7] = [
    (Why::Oldest, "oldest"),
    (Why::Aged, "aged"),
    (Why::Alone, "alone"),
    (Why::SameQueue, "same_queue"),
    (Why::OtherQueue, "other_queue"),
    (Why::Learned, "learned"),
    (Why::Trial, "trial"),
];

/// Counts since the start, of all event loops.
#[derive(Debug, Default)]
pub(super) struct Counts {
    starts: [AtomicU64; REASONS.len()],
    /// Queries that had to wait.
    pub waits: AtomicU64,
    /// Queries that found the queue full.
    pub full: AtomicU64,
    /// Queries that would have waited, or did wait, longer than they are worth.
    pub impatient: AtomicU64,
    /// Queries that ran past the queue because a question about them would have cost too much.
    pub unasked: AtomicU64,
    /// Places given up for want of a server connection.
    pub given_up: AtomicU64,
    /// Queries run with other joins.
    pub forms: AtomicU64,
    /// Questions about plans.
    pub questions: AtomicU64,
    /// Of these, without an answer.
    pub questions_failed: AtomicU64,
}

impl Counts {
    /// A query was started.
    pub fn started(&self, why: Why) {
        if let Some(at) = REASONS.iter().position(|(reason, _)| *reason == why) {
            self.starts[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl super::HeavyQueue {
    /// What it has done: starts by reason, and other events.
    pub fn counted(&self) -> HeavyQueueTotals {
        let counts = &self.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let starts = REASONS.iter().zip(&counts.starts);
        HeavyQueueTotals {
            starts: starts.map(|((_, name), count)| (*name, load(count))).collect(),
            events: vec![
                ("waited", load(&counts.waits)),
                ("full", load(&counts.full)),
                ("impatient", load(&counts.impatient)),
                ("unasked", load(&counts.unasked)),
                ("given_up", load(&counts.given_up)),
                ("form", load(&counts.forms)),
                ("question", load(&counts.questions)),
                ("question_failed", load(&counts.questions_failed)),
            ],
        }
    }
}
