//! [`Auto`]: whether the queue pays, for `heavy_queue = "auto"`: heavy queries in stretches with and without it, each run's time, with all
//! that kept it (questions, the queue, the want of a server), against what its statement takes on average.
//!
//! A stretch is [`QUERIES_MIN`] queries that came within it, and at least [`STRETCH_MIN`]. A trial has 9 of them with the queue and 9
//! without, in turn; the queue stays on only if all pairs but one, and the middle one by a hundredth, speak for it. After a lost trial
//! it is off for 64 stretches, then for twice as many after each further one up to 1024: so where there is nothing to gain it is
//! on for a tenth of all stretches in the beginning, and for less than a hundredth in the long run. A queue that makes queries
//! `x` times slower there costs at most `x - 1` hundredths of the time. Which of both it is changes at most once in 64
//! stretches outside of trials.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_model::pooler::auto_switch::AutoSwitch;
use parking_lot::Mutex;

/// Queries after which a stretch is judged. In simulation with run times that scatter by a third, 16 tell a gain of a fifth.
const QUERIES_MIN: u64 = 16;
/// Shortest stretch: what began under the other way must have ended.
const STRETCH_MIN: Duration = Duration::from_secs(1);

/// Whether the queue is on where `auto` decides.
#[derive(Debug)]
pub(in crate::core) struct Auto {
    on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    switch: AutoSwitch,
    /// Of the stretch so far: its queries, and their times in units of what they take on average.
    queries: u64,
    cost: f64,
    since: Duration,
}

impl Default for Auto {
    fn default() -> Self {
        let switch = AutoSwitch::new();
        Self {
            on: AtomicBool::new(switch.on()),
            state: Mutex::new(State {
                switch,
                queries: 0,
                cost: 0.0,
                since: Duration::ZERO,
            }),
        }
    }
}

impl Auto {
    /// Whether heavy queries queue now.
    pub fn on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// A heavy query has ended that came at `began`, after `cost` times what its statement takes on average. One that came in an
    /// earlier stretch may have run under either way, and says nothing.
    pub(super) fn ended(&self, began: Duration, cost: f64) {
        let mut state = self.state.lock();
        if began >= state.since && cost.is_finite() {
            state.queries += 1;
            state.cost += cost.clamp(0.0, 1000.0);
        }
    }

    /// Judges the stretch, if it has lasted long enough.
    pub fn tick(&self, now: Duration) {
        let mut state = self.state.lock();
        if state.queries < QUERIES_MIN || now.saturating_sub(state.since) < STRETCH_MIN {
            return;
        }
        let (queries, cost, on) = (state.queries, state.cost, self.on());
        let next = state.switch.interval(on, queries, (cost * 1e6) as u64);
        (state.queries, state.cost, state.since) = (0, 0.0, now);
        self.on.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What went on in many stretches.
    #[derive(Debug, Default)]
    struct Seen {
        stretches: u32,
        stretches_on: u32,
        time: f64,
        time_on: f64,
        /// Stretches between two changes, those of trials left out.
        rests: Vec<u32>,
    }

    /// A machine whose heavy queries take `with` or `without` the queue, in units of what they take on average, and scatter; what
    /// is about drifts up and down by a half over hundreds of stretches.
    struct Machine {
        with: f64,
        without: f64,
        scatter: f64,
        random: u64,
        now: Duration,
    }

    impl Machine {
        fn uniform(&mut self) -> f64 {
            // SplitMix64.
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.random;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }

        fn run(&mut self, auto: &Auto, stretches: u32) -> Seen {
            let mut seen = Seen::default();
            let (mut before, mut since) = (auto.on(), 0);
            for stretch in 0..stretches {
                let on = auto.on();
                let drift = 1.0 + 0.5 * (f64::from(stretch) / 97.0).sin();
                let began = self.now;
                let mut took = 0.0;
                for _ in 0..QUERIES_MIN {
                    let noise = (self.scatter * (self.uniform() + self.uniform() - 1.0)).exp();
                    let cost = drift * noise * if on { self.with } else { self.without };
                    auto.ended(began, cost);
                    took += cost;
                    // What began in another stretch says nothing.
                    auto.ended(began.saturating_sub(Duration::from_nanos(1)), 1e9);
                }
                self.now += STRETCH_MIN.mul_f64(took.max(1.0));
                auto.tick(self.now);
                seen.stretches += 1;
                seen.stretches_on += u32::from(on);
                seen.time += took;
                seen.time_on += if on { took } else { 0.0 };
                since += 1;
                if auto.on() != before {
                    if since > 1 {
                        seen.rests.push(since);
                    }
                    (before, since) = (auto.on(), 0);
                }
            }
            seen
        }
    }

    fn machine(with: f64, without: f64, scatter: f64, random: u64) -> (Auto, Machine) {
        let machine = Machine {
            with,
            without,
            scatter,
            random,
            now: Duration::from_secs(1),
        };
        let auto = Auto::default();
        auto.state.lock().since = machine.now;
        (auto, machine)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Where it costs, it is off but for its trials, which take the part of stretches and time that was promised.
        #[test]
        fn where_it_costs_only_its_trials_do(seed: u64, slower in 1.25f64..4.0, scatter in 0.0f64..0.4) {
            let (auto, mut machine) = machine(slower, 1.0, scatter, seed);
            let first = machine.run(&auto, 100);
            prop_assert!(first.stretches_on <= 18, "{first:?}");
            machine.run(&auto, 3000);
            let later = machine.run(&auto, 10_000);
            prop_assert!(later.stretches_on * 100 <= later.stretches, "{later:?}");
            prop_assert!(later.time_on <= 0.011 * slower * later.time, "{later:?}");
        }

        /// Where it makes no difference, it may be taken for a gain by accident, but seldom, and never goes to and fro: outside of trials
        /// it stays what it is for 64 stretches.
        #[test]
        fn where_it_is_no_matter_it_stays_as_it_is(seed: u64, scatter in 0.0f64..0.8) {
            let (auto, mut machine) = machine(1.0, 1.0, scatter, seed);
            let seen = machine.run(&auto, 5000);
            prop_assert!(seen.stretches_on * 5 <= seen.stretches, "{seen:?}");
            // A change after two stretches is one of a trial's first.
            prop_assert!(seen.rests.iter().all(|&rest| rest <= 3 || rest >= 60), "{seen:?}");
        }

        /// Where it pays, it is on; and off again soon after that has ended.
        #[test]
        fn it_follows_what_pays(seed: u64, gain in 1.25f64..3.0, scatter in 0.0f64..0.3) {
            let (auto, mut machine) = machine(1.0, gain, scatter, seed);
            machine.run(&auto, 19);
            let paid = machine.run(&auto, 5000);
            prop_assert!(paid.stretches_on * 10 >= 9 * paid.stretches, "{paid:?}");
            (machine.with, machine.without) = (gain, 1.0);
            // The longest rest, and a trial.
            machine.run(&auto, 1024 + 20);
            let lost = machine.run(&auto, 1000);
            prop_assert!(lost.stretches_on * 8 <= lost.stretches, "{lost:?}");
        }
    }
}
