//! [`AutoSwitch`]: whether something that can be on or off pays, by measured gain, for work that comes from outside.
//!
//! Order of calls: again and again run an interval as [`AutoSwitch::on`] says, and hand what it did to [`AutoSwitch::interval`].
//! Statement cohorts and dispatch by range are switched so; each has its own.
//!
//! What it is not: a judge of what warms up slowly. An interval must be long beside the time after which the switch has its effect:
//! private caches fill in milliseconds, the memory of a replica in minutes, so which replica answers is not for it.

use crate::teams::{AutoTeams, TeamsMode};

/// Trials of intervals on and off, as [`AutoTeams::noisy`] makes them.
///
/// Intervals should be long beside a statement's life: a tenth of a second. Clients come and go as they like, so the trials are
/// judged pair by pair.
#[derive(Clone, Debug)]
pub struct AutoSwitch(AutoTeams);

impl Default for AutoSwitch {
    fn default() -> Self {
        AutoSwitch::new()
    }
}

impl AutoSwitch {
    /// Begins with a trial.
    pub fn new() -> Self {
        AutoSwitch(AutoTeams::noisy())
    }

    /// Whether the coming interval is to run with it.
    pub fn on(&self) -> bool {
        self.0.mode() == TeamsMode::Teams
    }

    /// Whether the last trial was won and it stays on until the next.
    pub fn won(&self) -> bool {
        self.0.teams_won()
    }

    /// Takes in an interval: whether it ran with it, the statements that ended, and how long servers were busy with them, in
    /// nanoseconds (or how long it lasted, if none of them was ever idle). Answers whether the next is to run with it.
    /// Intervals that say nothing must not be handed in: of cohorts, those in which nobody had to wait.
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
        let mut auto = AutoSwitch::new();
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
