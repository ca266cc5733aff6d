//! [`AutoCohorts`]: whether cohorts pay, by measured gain.

use crate::steps::{AutoTeams, TeamsMode};

/// Trials of intervals with and without cohorts, as [`AutoTeams::noisy`] makes them.
///
/// Intervals should be long beside a statement's life: a tenth of a second. Clients come and go as they like, so the trials are
/// judged pair by pair.
#[derive(Clone, Debug)]
pub struct AutoCohorts(AutoTeams);

impl Default for AutoCohorts {
    fn default() -> Self {
        AutoCohorts::new()
    }
}

impl AutoCohorts {
    /// Begins with a trial.
    pub fn new() -> Self {
        AutoCohorts(AutoTeams::noisy())
    }

    /// Whether cohorts are to be formed in the coming interval.
    pub fn on(&self) -> bool {
        self.0.mode() == TeamsMode::Teams
    }

    /// Whether the last trial was won and cohorts stay on until the next.
    pub fn won(&self) -> bool {
        self.0.teams_won()
    }

    /// Takes in an interval: whether cohorts were formed in it, the statements that ended, and how long servers were busy with
    /// them, in nanoseconds (or how long it lasted, if none of them was ever idle). Answers whether cohorts are to be formed in
    /// the next. Intervals in which nobody had to wait say nothing and must not be handed in.
    pub fn interval(&mut self, on: bool, statements: u64, nanoseconds: u64) -> bool {
        let mode = if on { TeamsMode::Teams } else { TeamsMode::Serial };
        self.0.interval(mode, statements, nanoseconds) == TeamsMode::Teams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_while_it_pays_and_off_otherwise() {
        let mut auto = AutoCohorts::new();
        let mut run = |gain: u64| {
            let mut intervals_on = 0;
            for _ in 0..10_000 {
                let on = auto.on();
                intervals_on += u64::from(on);
                auto.interval(on, 1_000, if on { 1_000_000 - gain } else { 1_000_000 });
            }
            (auto.won(), intervals_on)
        };
        let (won, intervals_on) = run(80_000);
        assert!(won && intervals_on > 9_500, "{intervals_on}");
        let (won, intervals_on) = run(0);
        assert!(!won && intervals_on < 1_500, "{intervals_on}");
    }
}
