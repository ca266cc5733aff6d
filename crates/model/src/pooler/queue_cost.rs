//! What a queue of heavy statements costs itself, and for which statements it is worth that.
//!
//! A host that lets statements wait for their company pays in three coins, and none may cost more than a small part of what the
//! statement takes anyway:
//!
//! ```text
//!   a question about its plan      ─► asked while the statement's credit lasts: QUESTION_PART of the time it has used
//!   a core that lies idle between  ─► a statement is heavy from HANDOVERS hand-overs on, whatever limit was configured,
//!     one query and the next            until half of that: so one near the limit does not go to and fro
//!   waiting                        ─► nobody waits longer than beside all others it would have taken
//!                                       (`Scheduler::patience_ns`)
//! ```
//!
//! Order of calls: [`Seen::ran`] after each run of a statement, [`Seen::may_be_asked_about`] before a question and [`Seen::asked`] after
//! it; [`QueueCost::handed_over`] with each start. What it is not: a judge of whether the queue pays, which is
//! [`crate::pooler::auto_switch`]: here is only what it may cost at most.

/// Part of a statement's run time that questions about it may take. With the idle cores it stays below a tenth.
pub const QUESTION_PART: f64 = 0.05;
/// A statement is worth queueing if it takes so many hand-overs: a twentieth of its time is lost, and a tenth where it just
/// remains heavy. Without this, statements of 0.1 ms ran at 0.22 of the rate they have without a queue, and such of 1 to 2 ms at 0.4 to
/// 0.5 (2-core VM, 8 clients, PostgreSQL 15 behind `corun proxy`, `heavy_queue_min = "100us"`).
pub const HANDOVERS: f64 = 20.0;
/// What a hand-over costs besides what the host can see of it: the host's thread is woken to hear that a query has ended, and the server's
/// process to begin with the next, each perhaps behind somebody else on its core. On that machine 0.5 to 2 ms were lost for each
/// statement, of which the host saw a tenth to a half.
const HANDOVER_NS_UNSEEN: f64 = 500e3;
/// What a question is taken to cost before the first was answered: of a join of two to five tables, with its alternatives, on
/// a small machine.
const QUESTION_NS: f64 = 2e6;
/// Questions a statement may save up for at most, so that a long past is no reason for a burst of them.
const QUESTIONS_SAVED: f64 = 8.0;
/// What a single hand-over counts at most: one that takes longer waits for something else than the queue. Where a loop's thread has to wait
/// for the core of a busy server process it takes 2 ms.
const HANDOVER_NS_MAX: f64 = 2e6;
/// A hand-over counts one part in so many of the mean.
const HANDOVER_MEMORY: f64 = 16.0;
/// A question, likewise.
const QUESTION_MEMORY: f64 = 4.0;
/// A run, likewise. Unmeasured.
const RUN_MEMORY: f64 = 4.0;
/// By so much what is known of a statement's runs in the queue grows with each run past it, so that after 140 it is tried again whether it has
/// become worth a place. Unmeasured.
const AGES: f64 = 1.005;

/// What the queue of a host costs on average.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueCost {
    question_ns: f64,
    handover_ns: f64,
}

impl Default for QueueCost {
    fn default() -> Self {
        Self {
            question_ns: QUESTION_NS,
            handover_ns: 0.0,
        }
    }
}

impl QueueCost {
    /// Nanoseconds between the moment a query might have started on a core and the moment it was sent there.
    pub fn handed_over(&mut self, took_ns: u64) {
        let took = (took_ns as f64).min(HANDOVER_NS_MAX);
        self.handover_ns += (took - self.handover_ns) / HANDOVER_MEMORY;
    }

    /// For a long while nothing was handed over. What is known grows old, so that a bad moment does not keep everybody out for good.
    pub fn rested(&mut self) {
        self.handover_ns /= 2.0;
    }

    /// A question took so long.
    pub fn asked(&mut self, took_ns: u64) {
        self.question_ns += (took_ns as f64 - self.question_ns) / QUESTION_MEMORY;
    }

    /// Run time in nanoseconds from which a statement is worth queueing, where `limit_ns` is configured: that, but at least
    /// 10 to 50 ms, as hand-overs take.
    pub fn heavy_from_ns(&self, limit_ns: u64) -> u64 {
        limit_ns.max(((HANDOVER_NS_UNSEEN + self.handover_ns) * HANDOVERS) as u64)
    }
}

/// What is known of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// What it takes past the queue, beside whatever is about, and what it takes in it. Many at a time take several times as long as
    /// one on a core of its own: taken together they would call the same statement heavy and not, in turn.
    past_ns: Option<f64>,
    queued_ns: Option<f64>,
    heavy: bool,
    /// What questions may still cost; below zero: more than they were expected to cost was spent.
    credit_ns: f64,
    question_ns: Option<f64>,
}

/// The next mean.
fn mean(before: Option<f64>, took: f64, memory: f64) -> f64 {
    before.map_or(took, |before| before + (took - before) / memory)
}

impl Seen {
    /// It ran for so many nanoseconds, in the queue or past it; statements are heavy from [`QueueCost::heavy_from_ns`] on. Answers
    /// whether it is.
    pub fn ran(&mut self, took_ns: u64, queued: bool, heavy_from_ns: u64, cost: &QueueCost) -> bool {
        let took = took_ns as f64;
        if queued {
            self.queued_ns = Some(mean(self.queued_ns, took, RUN_MEMORY));
        } else {
            self.past_ns = Some(mean(self.past_ns, took, RUN_MEMORY));
            self.queued_ns = self.queued_ns.map(|queued| queued * AGES);
        }
        let all = [self.past_ns, self.queued_ns].into_iter().flatten();
        let takes = all.fold(f64::INFINITY, f64::min);
        let from = heavy_from_ns as f64;
        self.heavy = takes >= if self.heavy { from / 2.0 } else { from };
        let saved = QUESTIONS_SAVED * self.question_expected_ns(cost);
        // Whoever has saved more before questions became cheaper keeps it.
        self.credit_ns = (self.credit_ns + took * QUESTION_PART).min(saved.max(self.credit_ns));
        self.heavy
    }

    /// Nanoseconds it is expected to take in the queue: what it has taken there, otherwise past it.
    pub fn expected_ns(&self) -> Option<f64> {
        self.queued_ns.or(self.past_ns)
    }

    /// Nanoseconds by which its runs are compared, in the queue and past it: what it has taken past it, otherwise there.
    pub fn reference_ns(&self) -> Option<f64> {
        self.past_ns.or(self.queued_ns)
    }

    /// Whether it is worth queueing.
    pub fn is_heavy(&self) -> bool {
        self.heavy
    }

    /// Whether another question about it would cost no more than it may.
    pub fn may_be_asked_about(&self, cost: &QueueCost) -> bool {
        self.credit_ns >= self.question_expected_ns(cost)
    }

    /// A question about it took so long.
    pub fn asked(&mut self, took_ns: u64) {
        let took = took_ns as f64;
        self.credit_ns -= took;
        self.question_ns = Some(mean(self.question_ns, took, QUESTION_MEMORY));
    }

    fn question_expected_ns(&self, cost: &QueueCost) -> f64 {
        self.question_ns.unwrap_or(cost.question_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_statement_is_asked_about_at_once_and_a_short_one_seldom() {
        let cost = QueueCost::default();
        let mut long = Seen::default();
        assert!(!long.may_be_asked_about(&cost), "nothing is known of it");
        assert!(long.ran(60 * MS, false, 50 * MS, &cost) && long.may_be_asked_about(&cost));
        let mut short = Seen::default();
        let mut questions = 0;
        for _ in 0..10_000 {
            short.ran(MS / 10, false, 0, &cost);
            if short.may_be_asked_about(&cost) {
                questions += 1;
                short.asked(3 * MS);
            }
        }
        assert!(
            (15..=17).contains(&questions),
            "{questions} questions in a second"
        );
    }

    #[test]
    fn what_a_hand_over_takes_says_what_is_worth_queueing() {
        let mut cost = QueueCost::default();
        assert_eq!(cost.heavy_from_ns(50 * MS), 50 * MS);
        for _ in 0..200 {
            cost.handed_over(MS / 10);
        }
        assert!(
            (119 * MS / 10..=12 * MS).contains(&cost.heavy_from_ns(0)),
            "{cost:?}"
        );
        for _ in 0..200 {
            cost.handed_over(u64::MAX);
        }
        assert!(cost.heavy_from_ns(0) <= 50 * MS, "{cost:?}");
        for _ in 0..40 {
            cost.rested();
        }
        assert_eq!(cost.heavy_from_ns(7), 10 * MS);
    }

    #[test]
    fn one_near_the_limit_does_not_go_to_and_fro() {
        let (cost, mut seen) = (QueueCost::default(), Seen::default());
        assert!(!seen.ran(49 * MS, false, 50 * MS, &cost));
        assert!(seen.ran(100 * MS, false, 50 * MS, &cost) && seen.is_heavy());
        assert_eq!(seen.reference_ns(), Some(61.75e6));
        assert!(
            seen.ran(30 * MS, true, 50 * MS, &cost),
            "not below half of it yet"
        );
        assert_eq!(
            (seen.expected_ns(), seen.reference_ns()),
            (Some(30e6), Some(61.75e6))
        );
        assert!(
            !(0..4)
                .map(|_| seen.ran(MS, true, 50 * MS, &cost))
                .last()
                .unwrap_or(true)
        );
        // What it takes among many does not call it heavy again, until long after.
        let again = (1..1000).find(|_| seen.ran(100 * MS, false, 50 * MS, &cost));
        assert!(again.is_some_and(|runs| runs > 300), "{again:?}");
    }

    proptest! {
        /// Whatever runs and questions take: all questions together are at most their part of all runs, but for what the last ones took
        /// beyond what was expected.
        #[test]
        fn questions_stay_a_small_part(
            events in proptest::collection::vec((0u64..200 * MS, 0u64..50 * MS), 1..300),
        ) {
            let mut cost = QueueCost::default();
            let mut seen = Seen::default();
            let (mut ran, mut asked, mut beyond) = (0.0, 0.0, 0.0f64);
            for (run, question) in events {
                seen.ran(run, question % 2 == 0, 0, &cost);
                ran += run as f64;
                if seen.may_be_asked_about(&cost) {
                    let expected = seen.question_expected_ns(&cost);
                    seen.asked(question);
                    cost.asked(question);
                    asked += question as f64;
                    beyond = beyond.max(question as f64 - expected);
                }
                prop_assert!(asked <= ran * QUESTION_PART + beyond.max(0.0) + 1.0, "{asked} of {ran}");
            }
        }

        /// It becomes heavy only from the limit on, and remains so down to half of it.
        #[test]
        fn heavy_is_as_its_mean_says(runs in proptest::collection::vec(0u64..100 * MS, 1..100), from in 1u64..80 * MS) {
            let cost = QueueCost::default();
            let mut seen = Seen::default();
            for run in runs {
                let before = seen.is_heavy();
                let now = seen.ran(run, false, from, &cost);
                let mean = seen.expected_ns().unwrap_or(0.0);
                prop_assert!(!now || mean >= from as f64 / 2.0);
                prop_assert!(now || mean < from as f64);
                prop_assert!(before || !now || mean >= from as f64);
            }
        }
    }
}
