//! [`Auto`]: whether the queue pays, for `lane = "auto"`: heavy queries in stretches with and without it, each run's time, waiting
//! included, against what its statement takes on average.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::auto_switch::AutoSwitch;
use parking_lot::Mutex;

/// Queries after which a stretch is judged. Unmeasured.
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

    /// A heavy query has ended that began with the queue on or off, `cost` times what its statement takes on average.
    pub(super) fn ended(&self, queued: bool, cost: f64) {
        if queued == self.on() && cost.is_finite() {
            let mut state = self.state.lock();
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
    use super::*;

    fn run(auto: &Auto, rounds: u64, with: f64, without: f64) -> u64 {
        let mut on = 0;
        let begin = auto.state.lock().since;
        for round in 1..=rounds {
            let now = auto.on();
            on += u64::from(now);
            for _ in 0..QUERIES_MIN {
                auto.ended(now, if now { with } else { without });
                // What began under the other way says nothing.
                auto.ended(!now, 1e9);
            }
            auto.tick(begin + STRETCH_MIN * u32::try_from(round).expect("few rounds"));
        }
        on
    }

    #[test]
    fn it_is_off_where_it_does_not_pay() {
        let auto = Auto::default();
        let on = run(&auto, 1000, 1.3, 1.0);
        assert!(on < 400, "{on}");
        let on = run(&auto, 2000, 0.7, 1.0);
        assert!(on > 1200, "{on}");
    }
}
