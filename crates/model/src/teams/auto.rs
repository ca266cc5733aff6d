//! [`AutoTeams`]: whether teams pay, found out by short trials.
//!
//! Order of calls: [`AutoTeams::new`]; then again and again run an interval in [`AutoTeams::mode`] and hand what it did to
//! [`AutoTeams::interval`], which answers the mode of the next one.
//!
//! ```text
//!            trial: S T S T ... (TRIAL_PAIRS pairs)
//!   Serial ───────────────────────────────────────▶ Teams if faster beyond the spread of the pairs
//!      ▲ │  rest: Serial, REST_FIRST intervals,       │  rest: Teams, likewise, so that a trial that was won by
//!      │ │  doubled with every lost trial up to MAX   │  accident, on a busy machine, is not believed for long
//!      └─┴──────────────────────────────────────────┘ else Serial
//! ```
//!
//! A lost trial costs its [`TRIAL_PAIRS`] team intervals; the rest after it grows to [`REST_MAX`], so that in the long run less
//! than 1 % of all intervals are team intervals that did not pay even if such an interval did no work at all. Intervals should be
//! long beside a team's life, some milliseconds, so that the change of mode does not count. What it is not: it reads no clock;
//! whoever runs the intervals does.

/// How a scheduler runs its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TeamsMode {
    /// One member goes on until it must wait.
    #[default]
    Serial,
    /// Members form teams and switch at CTX points.
    Teams,
}

/// Pairs of intervals (serial, teams) of a trial.
pub const TRIAL_PAIRS: usize = 5;
/// Pairs of a trial that is judged pair by pair.
pub const TRIAL_PAIRS_NOISY: usize = 9;
/// Intervals between the first lost trial and the next. Unmeasured.
pub const REST_FIRST: u32 = 64;
/// Intervals between lost trials at most: `TRIAL_PAIRS` of them and a trial are below 1 %.
pub const REST_MAX: u32 = 1024;
/// Intervals between won trials at most: a serial interval in a hundred.
pub const REST_TEAMS: u32 = 1024;

/// What a trial must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    /// Teams are faster beyond the spread of the intervals. For work that is the same in every interval.
    Spread,
    /// Teams are faster in all pairs but one, and by a hundredth in the middle. For work that comes from outside and drifts:
    /// intervals of a pair are next to each other, so what drifts slowly is the same for both. Equal sides win so in one trial of
    /// fifty.
    Pairs,
}

/// The state machine. One for each scheduler, as its members' work is what it compares.
#[derive(Clone, Debug)]
pub struct AutoTeams {
    judge: Judge,
    state: State,
    /// Length of the next rest after a lost trial.
    rest: u32,
    /// Length of the next rest after a won one.
    rest_teams: u32,
    /// Nanoseconds a unit of work of the current trial's intervals, in turn serial and teams.
    trial: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// An interval that nothing is concluded from: caches and branch predictors settle, and what began under the mode before
    /// ends. Then the trial's first.
    Settle,
    Trial,
    Rest {
        mode: TeamsMode,
        left: u32,
    },
}

impl Default for AutoTeams {
    fn default() -> Self {
        AutoTeams::new()
    }
}

impl AutoTeams {
    /// Begins with a trial.
    pub fn new() -> Self {
        AutoTeams::judged(Judge::Spread)
    }

    /// Begins with a trial; each is longer and judged pair by pair, for work that comes from outside and drifts.
    pub fn noisy() -> Self {
        AutoTeams::judged(Judge::Pairs)
    }

    fn judged(judge: Judge) -> Self {
        AutoTeams {
            judge,
            state: State::Settle,
            rest: REST_FIRST,
            rest_teams: REST_FIRST,
            trial: Vec::with_capacity(2 * TRIAL_PAIRS_NOISY),
        }
    }

    fn pairs(&self) -> usize {
        match self.judge {
            Judge::Spread => TRIAL_PAIRS,
            Judge::Pairs => TRIAL_PAIRS_NOISY,
        }
    }

    /// The mode the next interval runs in.
    pub fn mode(&self) -> TeamsMode {
        match self.state {
            State::Settle => TeamsMode::Serial,
            State::Trial if self.trial.len().is_multiple_of(2) => TeamsMode::Serial,
            State::Trial => TeamsMode::Teams,
            State::Rest { mode, .. } => mode,
        }
    }

    /// Whether the last trial was won and teams stay on until the next.
    pub fn teams_won(&self) -> bool {
        matches!(
            self.state,
            State::Rest {
                mode: TeamsMode::Teams,
                ..
            }
        )
    }

    /// Takes in an interval: the mode it ran in, the units of work done (transactions), and how long it took. Answers the mode of
    /// the next one. An interval of another mode than asked for, or in which nothing was done, says nothing.
    pub fn interval(&mut self, mode: TeamsMode, work: u64, nanoseconds: u64) -> TeamsMode {
        match &mut self.state {
            State::Settle => self.state = State::Trial,
            State::Trial => {
                if mode == self.mode() && work > 0 && nanoseconds > 0 {
                    self.trial.push(nanoseconds as f64 / work as f64);
                    if self.trial.len() == 2 * self.pairs() {
                        self.conclude();
                    }
                }
            }
            State::Rest { left, .. } => {
                *left -= 1;
                if *left == 0 {
                    self.trial.clear();
                    self.state = State::Settle;
                }
            }
        }
        self.mode()
    }

    /// Ends a trial.
    fn conclude(&mut self) {
        let pairs = self.trial.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let won = match self.judge {
            Judge::Spread => {
                let (mut serial, mut teams): (Vec<f64>, Vec<f64>) = pairs.unzip();
                serial.sort_by(f64::total_cmp);
                teams.sort_by(f64::total_cmp);
                // Beyond the spread: the slowest team interval but one is faster than the fastest serial interval but one. By
                // chance alone that happens to sides that are equal in less than one trial of twenty.
                teams[TRIAL_PAIRS - 2] < serial[1]
            }
            Judge::Pairs => {
                let mut gains: Vec<f64> = pairs.map(|(serial, teams)| serial / teams).collect();
                gains.sort_by(f64::total_cmp);
                gains[1] > 1.0 && gains[TRIAL_PAIRS_NOISY / 2] > 1.01
            }
        };
        let (mode, left) = if won {
            self.rest = REST_FIRST;
            let left = self.rest_teams;
            self.rest_teams = (self.rest_teams * 2).min(REST_TEAMS);
            (TeamsMode::Teams, left)
        } else {
            self.rest_teams = REST_FIRST;
            let left = self.rest;
            self.rest = (self.rest * 2).min(REST_MAX);
            (TeamsMode::Serial, left)
        };
        self.state = State::Rest { mode, left };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs intervals with a cost for each mode and returns how many ran as teams.
    fn run(auto: &mut AutoTeams, intervals: usize, mut cost: impl FnMut(TeamsMode) -> u64) -> usize {
        let mut teams = 0;
        let mut mode = auto.mode();
        for _ in 0..intervals {
            teams += usize::from(mode == TeamsMode::Teams);
            mode = auto.interval(mode, 100, cost(mode));
            assert_eq!(mode, auto.mode());
        }
        teams
    }

    #[test]
    fn teams_that_pay_stay_on() {
        let mut auto = AutoTeams::new();
        let cost = |mode| if mode == TeamsMode::Teams { 700 } else { 1000 };
        let teams = run(&mut auto, 100_000, cost);
        assert!(auto.teams_won());
        assert!(teams > 99_000, "{teams}");
    }

    #[test]
    fn teams_that_do_not_pay_cost_little_and_are_tried_again() {
        let mut auto = AutoTeams::new();
        let cost = |mode| if mode == TeamsMode::Teams { 1000 } else { 900 };
        let teams = run(&mut auto, 100_000, cost);
        assert!(!auto.teams_won());
        assert!((TRIAL_PAIRS * 2..1000).contains(&teams), "{teams}");
        // The world changes.
        let faster = |mode| if mode == TeamsMode::Teams { 500 } else { 900 };
        let teams = run(&mut auto, 10_000, faster);
        assert!(auto.teams_won());
        assert!(teams > 8_000, "{teams}");
        let slower = |mode| if mode == TeamsMode::Teams { 1000 } else { 900 };
        run(&mut auto, 3_000, slower);
        assert!(!auto.teams_won());
    }

    #[test]
    fn a_trial_won_by_accident_is_not_believed_for_long() {
        let mut auto = AutoTeams::new();
        let lucky = |mode| if mode == TeamsMode::Teams { 500 } else { 900 };
        run(&mut auto, 1 + 2 * TRIAL_PAIRS, lucky);
        assert!(auto.teams_won());
        let cost = |mode| if mode == TeamsMode::Teams { 1000 } else { 900 };
        let teams = run(&mut auto, 10_000, cost);
        assert!(!auto.teams_won());
        assert!(
            (REST_FIRST as usize..REST_FIRST as usize + 100).contains(&teams),
            "{teams}"
        );
    }

    #[test]
    fn pairs_see_through_drift() {
        // The work gets three times as heavy and lighter again; teams are 5 % faster all the time.
        let mut tick = 0_u64;
        let drift = |gain: u64| {
            move |mode| {
                tick += 1;
                let phase = tick % 200;
                let base = 10_000 + 200 * phase.min(200 - phase);
                if mode == TeamsMode::Teams {
                    base * (100 - gain) / 100
                } else {
                    base
                }
            }
        };
        let mut auto = AutoTeams::noisy();
        let teams = run(&mut auto, 20_000, drift(5));
        assert!(teams > 15_000, "{teams}");
        let mut auto = AutoTeams::noisy();
        let teams = run(&mut auto, 20_000, drift(0));
        assert!(teams < 1_000, "{teams}");
    }

    #[test]
    fn an_interval_of_the_other_mode_or_without_work_says_nothing() {
        let mut auto = AutoTeams::new();
        assert_eq!(auto.interval(TeamsMode::Serial, 1, 1), TeamsMode::Serial);
        for _ in 0..100 {
            assert_eq!(auto.interval(TeamsMode::Teams, 100, 1), TeamsMode::Serial);
            assert_eq!(auto.interval(TeamsMode::Serial, 0, 1), TeamsMode::Serial);
        }
        assert_eq!(auto.interval(TeamsMode::Serial, 1, 1), TeamsMode::Teams);
    }

    /// Equal sides with noise: teams are won by chance only rarely, so that the cost stays small. The rate over many trials is what is
    /// promised, so it is one long run of numbers that are always the same.
    #[test]
    fn equal_sides_with_noise_rarely_win() {
        for (noisy, percent_max) in [(false, 12), (true, 3)] {
            let mut auto = if noisy {
                AutoTeams::noisy()
            } else {
                AutoTeams::new()
            };
            let (mut won, mut trials, mut before) = (0, 0, false);
            let mut noise = 88_172_645_463_325_252_u64;
            for _ in 0..2_000_000 {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                let mode = auto.mode();
                auto.interval(mode, 100, 900 + noise % 200);
                let resting = matches!(auto.state, State::Rest { .. });
                if resting && !before {
                    trials += 1;
                    won += usize::from(auto.teams_won());
                }
                before = resting;
            }
            assert!(trials >= 1_000, "{trials}");
            assert!(
                won * 100 <= trials * percent_max,
                "noisy: {noisy}, {won} of {trials}"
            );
        }
    }
}
