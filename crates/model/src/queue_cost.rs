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
//! [`crate::auto_switch`]: here is only what it may cost at most.

/// Part of a statement's run time that questions about it may take. With the idle cores it stays below a tenth.
pub const QUESTION_PART: f64 = 0.05;
/// A statement is worth queueing if it takes so many hand-overs: one fortieth of its time is lost, and a twentieth where it just
/// remains heavy.
pub const HANDOVERS: f64 = 40.0;
/// What a question is taken to cost before the first was answered: of a join of two to five tables, with its alternatives, on
/// a small machine.
const QUESTION_NS: f64 = 2e6;
/// Questions a statement may save up for at most, so that a long past is no reason for a burst of them.
const QUESTIONS_SAVED: f64 = 8.0;
/// What a single hand-over counts at most: one that takes longer waits for something else than the queue.
const HANDOVER_NS_MAX: f64 = 500e3;
/// A hand-over counts one part in so many of the mean.
const HANDOVER_MEMORY: f64 = 16.0;
/// A question, likewise.
const QUESTION_MEMORY: f64 = 4.0;
/// A run, likewise. Unmeasured.
const RUN_MEMORY: f64 = 4.0;

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

    /// Run time in nanoseconds from which a statement is worth queueing, where `limit_ns` is configured; at most
    /// 20 ms more than that.
    pub fn heavy_from_ns(&self, limit_ns: u64) -> u64 {
        limit_ns.max((self.handover_ns * HANDOVERS) as u64)
    }
}

/// What is known of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    mean_ns: Option<f64>,
    heavy: bool,
    /// What questions may still cost; below zero: more than they were expected to cost was spent.
    credit_ns: f64,
    question_ns: Option<f64>,
}

impl Seen {
    /// It ran for so many nanoseconds; statements are heavy from [`QueueCost::heavy_from_ns`] on. Answers whether it is.
    pub fn ran(&mut self, took_ns: u64, heavy_from_ns: u64, cost: &QueueCost) -> bool {
        let took = took_ns as f64;
        let mean = self
            .mean_ns
            .map_or(took, |before| before + (took - before) / RUN_MEMORY);
        self.mean_ns = Some(mean);
        let from = heavy_from_ns as f64;
        self.heavy = mean >= if self.heavy { from / 2.0 } else { from };
        let saved = QUESTIONS_SAVED * self.question_expected_ns(cost);
        // Whoever has saved more before questions became cheaper keeps it.
        self.credit_ns = (self.credit_ns + took * QUESTION_PART).min(saved.max(self.credit_ns));
        self.heavy
    }

    /// Nanoseconds it takes on average, the last runs counting most.
    pub fn mean_ns(&self) -> Option<f64> {
        self.mean_ns
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
        self.question_ns = Some(
            self.question_ns
                .map_or(took, |before| before + (took - before) / QUESTION_MEMORY),
        );
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
        assert!(long.ran(60 * MS, 50 * MS, &cost) && long.may_be_asked_about(&cost));
        let mut short = Seen::default();
        let mut questions = 0;
        for _ in 0..10_000 {
            short.ran(MS / 10, 0, &cost);
            if short.may_be_asked_about(&cost) {
                questions += 1;
                short.asked(3 * MS);
            }
        }
        assert!((15..=17).contains(&questions), "{questions} questions in a second");
    }

    #[test]
    fn what_a_hand_over_takes_says_what_is_worth_queueing() {
        let mut cost = QueueCost::default();
        assert_eq!(cost.heavy_from_ns(50 * MS), 50 * MS);
        for _ in 0..200 {
            cost.handed_over(MS / 10);
        }
        assert!((39 * MS / 10..=4 * MS).contains(&cost.heavy_from_ns(0)), "{cost:?}");
        for _ in 0..200 {
            cost.handed_over(u64::MAX);
        }
        assert!(cost.heavy_from_ns(0) <= 20 * MS, "{cost:?}");
        for _ in 0..40 {
            cost.rested();
        }
        assert_eq!(cost.heavy_from_ns(7), 7);
    }

    #[test]
    fn one_near_the_limit_does_not_go_to_and_fro() {
        let (cost, mut seen) = (QueueCost::default(), Seen::default());
        assert!(!seen.ran(49 * MS, 50 * MS, &cost));
        assert!(seen.ran(100 * MS, 50 * MS, &cost) && seen.is_heavy());
        assert_eq!(seen.mean_ns(), Some(61.75e6));
        assert!(seen.ran(10 * MS, 50 * MS, &cost), "not below half of it yet");
        assert!(!(0..4).map(|_| seen.ran(MS, 50 * MS, &cost)).last().unwrap_or(true));
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
                seen.ran(run, 0, &cost);
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

        /// It becomes heavy only from the limit on, remains so down to half of it, and what no run says is never so.
        #[test]
        fn heavy_is_as_its_mean_says(runs in proptest::collection::vec(0u64..100 * MS, 1..100), from in 1u64..80 * MS) {
            let cost = QueueCost::default();
            let mut seen = Seen::default();
            for run in runs {
                let before = seen.is_heavy();
                let now = seen.ran(run, from, &cost);
                let mean = seen.mean_ns().unwrap_or(0.0);
                prop_assert!(!now || mean >= from as f64 / 2.0);
                prop_assert!(now || mean < from as f64);
                prop_assert!(before || !now || mean >= from as f64);
            }
        }
    }
}
