//! [`History`]: what the runs of one query shape took, whole and in parts, and what that says of other numbers of parts.
//!
//! Order of calls: [`super::Parts::choose`] before each run, [`History::record`] after each that succeeded.
//!
//! The model: `T(n) = work / n + overhead * n` for a query in `n` parts, whole being one. The overhead is what each part costs anew:
//! it is parsed and planned, begins on a shared snapshot, and its rows are merged (paper 004, section 5, on why ten parts lost).
//!
//! ```text
//!   whole ──(seen, long enough)──► trial of 2 ──► the model is fitted ──► trial of the best number, at most twice the
//!                                                                          largest tried ──► fitted again … ──► settled
//!   settled: the best number runs. Others are tried again: whole every 64 runs, losers after pauses that double; what
//!            those trials cost more than the best is kept below 1 % of all time.
//! ```

use fit::fit;

mod fit;

/// Parts of a query at most.
pub const PARTS_MAX: usize = 128;

/// Runs of a trial.
const TRIAL_RUNS: usize = 3;
/// A trial ends early when a run took so many times what the best takes.
const TRIAL_HOPELESS: f64 = 1.5;
/// Calls of `choose` after which a trial whose runs never came back (they failed) is over.
const TRIAL_CALLS_MAX: u64 = 256;
/// Pause before a loser's first retry, in runs; whole is retried so often always.
const PAUSE_FIRST: u64 = 64;
/// Pause between a loser's retries at most.
const PAUSE_MAX: u64 = 64 * 1024;
/// A mean follows the last so many runs. Unmeasured.
const RUNS_REMEMBERED: f64 = 16.0;
/// How many runs the model's word counts for, beside what was measured.
const MODEL_RUNS: f64 = 3.0;
/// Another number of parts must be faster by this much to take over.
const HYSTERESIS: f64 = 0.04;
/// The part of all time that trials may cost.
const TRIAL_COST_MAX: f64 = 0.01;
/// A run counts as so many times the mean at most: one that waited for a lock says little of the next.
const OUTLIER: f64 = 4.0;

/// How the history is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistorySettings {
    /// A query that takes less, in microseconds, always runs whole.
    pub worth_us: f64,
    /// Splitting must be faster than whole by this part of it; a split that runs already stays until it is half of that.
    pub gain_min: f64,
    /// First guess of what a part costs anew, in microseconds, until it is learnt.
    pub overhead_us: f64,
}

impl Default for HistorySettings {
    /// 2 ms, a tenth, 300 microseconds. Unmeasured.
    fn default() -> Self {
        HistorySettings {
            worth_us: 2_000.0,
            gain_min: 0.10,
            overhead_us: 300.0,
        }
    }
}

/// What is known of one number of parts.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    mean_us: f64,
    /// Runs the mean stands for, at most [`RUNS_REMEMBERED`]; 0: never tried.
    runs: f64,
    /// The run, counted from the first of the shape, at which it may be tried again.
    retry_at: u64,
    /// The next pause.
    pause: u64,
}

/// A few runs with another number of parts than the best.
#[derive(Clone, Copy, Debug)]
struct Trial {
    parts: usize,
    /// Runs asked for and runs that came back.
    asked: usize,
    times_us: [f64; TRIAL_RUNS],
    done: usize,
    began_at: u64,
}

/// The history of one query shape.
#[derive(Clone, Debug)]
pub struct History {
    settings: HistorySettings,
    /// By the number of parts less 1; as long as the largest tried.
    tried: Vec<Tried>,
    /// The number of parts that runs while nothing is tried.
    settled: usize,
    trial: Option<Trial>,
    /// Calls of `choose`.
    runs: u64,
    /// Fitted: work and overhead, in microseconds.
    work_us: f64,
    overhead_us: f64,
    /// Time of all runs, and what trials cost more than the best would have; both fade together.
    total_us: f64,
    trials_us: f64,
}

impl History {
    /// Nothing seen yet.
    pub fn new(settings: HistorySettings) -> History {
        History {
            settings,
            tried: Vec::new(),
            settled: 1,
            trial: None,
            runs: 0,
            work_us: 0.0,
            overhead_us: settings.overhead_us.max(0.0),
            total_us: 0.0,
            trials_us: 0.0,
        }
    }

    /// The number of parts that runs while nothing else is tried and cores are free.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// What a run in so many parts took, in microseconds, as a mean of the last ones; `None` if it was never tried.
    pub fn time_us(&self, parts: usize) -> Option<f64> {
        self.tried_in(parts).map(|tried| tried.mean_us)
    }

    /// What a run in so many parts should take, in microseconds, by what was measured and the model; `None` before the first run.
    pub fn predicted_us(&self, parts: usize) -> Option<f64> {
        let parts = parts.max(1);
        self.tried_in(1)?;
        let model_us = self.work_us / parts as f64 + self.overhead_us * parts as f64;
        Some(match self.tried_in(parts) {
            Some(tried) => (tried.mean_us * tried.runs + model_us * MODEL_RUNS) / (tried.runs + MODEL_RUNS),
            None => model_us,
        })
    }

    /// The work that parts share, in microseconds, as learnt.
    pub fn work_us(&self) -> f64 {
        self.work_us
    }

    /// What each part costs anew, in microseconds, as learnt; before that the first guess.
    pub fn overhead_us(&self) -> f64 {
        self.overhead_us
    }

    fn tried_in(&self, parts: usize) -> Option<&Tried> {
        self.tried
            .get(parts.checked_sub(1)?)
            .filter(|tried| tried.runs > 0.0)
    }

    fn predicted(&self, parts: usize) -> f64 {
        self.predicted_us(parts).unwrap_or(f64::INFINITY)
    }

    /// See [`super::Parts::choose`].
    pub(super) fn choose(&mut self, parts_max: usize) -> usize {
        self.runs += 1;
        let parts_max = parts_max.clamp(1, PARTS_MAX);
        let whole = self.tried_in(1).copied().unwrap_or_default();
        if parts_max < 2 || whole.runs < TRIAL_RUNS as f64 || whole.mean_us < self.settings.worth_us {
            return 1;
        }
        if let Some(trial) = &mut self.trial {
            if self.runs - trial.began_at > TRIAL_CALLS_MAX {
                self.conclude();
            } else if trial.parts <= parts_max && trial.asked < TRIAL_RUNS {
                trial.asked += 1;
                return trial.parts;
            } else {
                return self.best(parts_max, |history, parts| history.tried_in(parts).is_some());
            }
        }
        let largest = self
            .tried
            .iter()
            .rposition(|tried| tried.runs > 0.0)
            .map_or(1, |place| place + 1);
        let reach = parts_max.min(largest * 2);
        let best = self.best(reach, |_, _| true);
        let unknown = if largest == 1 {
            Some(2)
        } else {
            Some(best).filter(|&best| self.tried_in(best).is_none())
        };
        let to_try = unknown
            .filter(|&parts| self.may_try(parts))
            .or_else(|| self.due(reach));
        if let Some(parts) = to_try {
            self.begin_trial(parts);
            return parts;
        }
        let best = self.best(reach, |history, parts| history.tried_in(parts).is_some());
        if self.settled <= parts_max {
            self.settled = best;
        }
        best
    }

    /// The number of parts with the least time, of those that are allowed, as long as it beats whole and what runs now by enough.
    fn best(&self, parts_max: usize, allowed: impl Fn(&History, usize) -> bool) -> usize {
        let whole = self.predicted(1);
        let fastest = (2..=parts_max)
            .filter(|&parts| allowed(self, parts))
            .map(|parts| (self.predicted(parts), parts))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((time, parts)) = fastest else { return 1 };
        let running = self.settled;
        let gain = self.settings.gain_min;
        if running >= 2 && running <= parts_max && allowed(self, running) {
            let now = self.predicted(running);
            if time < now * (1.0 - HYSTERESIS) && time <= whole * (1.0 - gain) {
                return parts;
            }
            return if now <= whole * (1.0 - gain / 2.0) {
                running
            } else {
                1
            };
        }
        if time <= whole * (1.0 - gain) { parts } else { 1 }
    }

    /// Whether a number of parts that was never measured may be tried: its trial may have failed a while ago.
    fn may_try(&self, parts: usize) -> bool {
        self.tried
            .get(parts - 1)
            .is_none_or(|tried| self.runs >= tried.retry_at)
    }

    /// A loser to try again: of those whose pause is over and whose trial is paid for, the most promising.
    fn due(&self, parts_max: usize) -> Option<usize> {
        let best = self.predicted(self.settled);
        (1..=parts_max)
            .filter(|&parts| parts != self.settled)
            .filter(|&parts| {
                self.tried_in(parts)
                    .is_some_and(|tried| self.runs >= tried.retry_at)
            })
            .map(|parts| (self.predicted(parts), parts))
            .filter(|&(time, _)| self.trials_us + (time - best).max(0.0) <= TRIAL_COST_MAX * self.total_us)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, parts)| parts)
    }

    fn begin_trial(&mut self, parts: usize) {
        if self.tried.len() < parts {
            self.tried.resize(parts, Tried::default());
        }
        self.trial = Some(Trial {
            parts,
            asked: 1,
            times_us: [0.0; TRIAL_RUNS],
            done: 0,
            began_at: self.runs,
        });
    }

    /// Takes in a run that succeeded: in how many parts it really ran, and how long it took, in microseconds, from the first part's begin to the
    /// last merged row.
    pub fn record(&mut self, parts: usize, time_us: u64) {
        let (parts, time_us) = (parts.clamp(1, PARTS_MAX), time_us.max(1) as f64);
        self.total_us += time_us;
        if self.tried.len() < parts {
            self.tried.resize(parts, Tried::default());
        }
        let best_us = self.predicted_us(self.settled);
        match &mut self.trial {
            Some(trial) if trial.parts == parts && trial.done < TRIAL_RUNS => {
                trial.times_us[trial.done] = time_us;
                trial.done += 1;
                let mean = trial.times_us[..trial.done].iter().sum::<f64>() / trial.done as f64;
                let first = self.tried[parts - 1].runs == 0.0;
                let best_us = best_us.unwrap_or(time_us);
                self.trials_us += (time_us - best_us).max(0.0);
                // What was never tried gets all its runs unless it is hopeless; a loser only while it looks like winning.
                let hopeless = if first { TRIAL_HOPELESS } else { 1.0 };
                if trial.done == TRIAL_RUNS || mean > best_us * hopeless {
                    self.conclude();
                }
            }
            _ => self.tried[parts - 1].add(time_us),
        }
        if self.total_us > 1e3 * self.tried[0].mean_us.max(1.0) * RUNS_REMEMBERED {
            self.total_us /= 2.0;
            self.trials_us /= 2.0;
        }
        self.fit();
    }

    /// Takes back a choice of [`super::Parts::choose`] that was not followed: there was no free connection for a part, say. A trial does not
    /// wait for that run.
    pub fn did_not_run(&mut self, parts: usize) {
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.parts == parts) {
            trial.asked = trial.asked.saturating_sub(1).max(trial.done);
        }
    }

    /// Ends the trial with the runs that came back.
    fn conclude(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let Some(tried) = self.tried.get_mut(trial.parts - 1) else {
            return;
        };
        tried.tried(&trial.times_us[..trial.done]);
        if trial.parts > 1 {
            tried.pause = (tried.pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX);
        } else {
            tried.pause = PAUSE_FIRST;
        }
        tried.retry_at = self.runs + tried.pause;
        self.fit();
    }

    fn fit(&mut self) {
        let seen = self
            .tried
            .iter()
            .enumerate()
            .filter(|(_, tried)| tried.runs > 0.0);
        let points = seen.map(|(place, tried)| ((place + 1) as f64, tried.mean_us, tried.runs));
        (self.work_us, self.overhead_us) = fit(points, self.settings.overhead_us.max(0.0));
    }
}

impl Tried {
    /// A run as any other.
    fn add(&mut self, time_us: f64) {
        let time_us = if self.runs >= TRIAL_RUNS as f64 {
            time_us.min(self.mean_us * OUTLIER)
        } else {
            time_us
        };
        self.runs = (self.runs + 1.0).min(RUNS_REMEMBERED);
        self.mean_us += (time_us - self.mean_us) / self.runs;
    }

    /// The runs of a trial. What was known before is old: it counts half, and nothing if it is contradicted.
    fn tried(&mut self, times_us: &[f64]) {
        if times_us.is_empty() {
            return;
        }
        let mut sorted = [0.0; TRIAL_RUNS];
        let sorted = &mut sorted[..times_us.len()];
        sorted.copy_from_slice(times_us);
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[sorted.len() / 2];
        let ratio = middle / self.mean_us.max(1.0);
        self.runs = if (1.0 / 1.5..1.5).contains(&ratio) || times_us.len() < TRIAL_RUNS {
            self.runs / 2.0
        } else {
            0.0
        };
        let new = times_us.len() as f64;
        // The median of a trial stands for all of it: one run may have waited for something.
        self.mean_us = (self.mean_us * self.runs + middle * new) / (self.runs + new);
        self.runs += new;
    }
}

#[cfg(test)]
mod tests;
