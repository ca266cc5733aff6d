//! Modes against each other: interleaved rounds, ratios versus serial, and whether `auto` chose well.
//!
//! Order of calls: [`Entrant`]s, the serial one first, then [`hold`]. Rounds are those of [`lab_core::contest`]: every entrant takes its
//! turn in each, in another order each time, and the serial one runs twice so that noise is measured beside the differences.
//!
//! ```text
//!   rounds        serial, modes ..., auto, auto, serial once more
//!   then, while a verdict on an auto is open:  autos, the best fixed modes, serial, serial once more, up to 30 pairs
//!   rows          ns_per_probe each | ratio versus serial each | auto versus best | serial versus itself | the winner
//! ```
//!
//! Not here: running a mode ([`super::subject`]), and the table of winners ([`super::report`]).

use corun_model::operators::mode::Mode;

use lab_core::contest::{Contest, ContestResult, Gone, SideResult};
use lab_core::metric::MetricSpec;
use lab_core::row::{Row, Value};
use lab_core::run::{Runner, Side, Taken};
use lab_core::stats::{Noise, Spread, Verdict, not_slower};

use super::keys::{ALL_THREADS, Keys, SUITE};
use super::subject::RIGHT;

/// What an entrant is measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A mode that could be chosen for the case, and how many threads it takes, a helper's included.
    Fixed {
        /// Threads.
        threads: usize,
    },
    /// The mode that was chosen by `corun_model::operators::technique` for so many threads.
    Auto {
        /// Threads.
        threads: usize,
    },
    /// Something nobody would choose: two independent operators do other work, and some experiments are to fail.
    Aside,
}

/// One side of a contest.
pub struct Entrant<'a> {
    /// Its parameters.
    pub keys: Keys,
    /// What it is measured for.
    pub standing: Standing,
    /// More parameters of its rows.
    pub extra: Vec<(String, Value)>,
    /// Its work.
    pub side: Side<'a>,
}

/// What a contest came to: for each entrant its mode's parts and its median ratio versus serial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// In the order of the entrants; without those that failed.
    pub gains: Vec<(Mode, f64)>,
}

impl Held {
    /// The gain of a mode that took part.
    pub fn gain(&self, mode: Mode) -> Option<f64> {
        self.gains
            .iter()
            .find(|(other, _)| *other == mode)
            .map(|(_, gain)| *gain)
    }
}

/// Holds a contest among entrants, of which the first is serial, each run over `probes` tuples; emits its rows.
pub fn hold(entrants: Vec<Entrant<'_>>, probes: usize, runner: &mut Runner<'_>) -> Held {
    let Some(first) = entrants.first() else {
        return Held::default();
    };
    let stand = first.keys.stand;
    let (plan, progress) = (runner.plan(), runner.progress());
    let mut standings = Vec::with_capacity(entrants.len());
    let mut sides = Vec::with_capacity(entrants.len());
    let mut labels = Vec::with_capacity(entrants.len());
    for Entrant {
        keys,
        standing,
        extra,
        side,
    } in entrants
    {
        standings.push(standing);
        labels.push((keys, extra));
        sides.push(side);
    }
    let name = format!("{SUITE} {}", stand.case);
    let per_probe = 1e9 / probes.max(1) as f64;
    let mut turn = |side: usize, _| sides[side].turn(RIGHT, per_probe);
    let first = Contest {
        name: &name,
        pairs: &[],
        controls: &[SERIAL],
        metric: &NS,
        plan,
    };
    progress.begin(&name, (plan.warmups + plan.repetitions) as u64);
    let known = standings.iter().map(|_| SideResult::default()).collect();
    let result = first.run(known, progress, &mut turn);
    let finals = Finals::of(&standings, &result);
    let judged = finals.pairs.iter();
    let pairs: Vec<(usize, usize)> = judged
        .flat_map(|pair| [(pair.auto, pair.best), (pair.auto, SERIAL)])
        .collect();
    let result = Contest {
        pairs: &pairs,
        ..first
    }
    .go_on(result, turn);
    progress.end();
    let results = Results {
        labels,
        result,
        probes,
        claims: plan.claims(),
    };
    results.emit(&finals, runner);
    results.held()
}

/// What entrants are compared by.
const NS: MetricSpec<Taken> = MetricSpec::lower(METRIC, "ns", |(ns, _)| Some(*ns));

/// The place of the serial entrant.
const SERIAL: usize = 0;

/// An auto and whom it is compared with.
#[derive(Clone, Copy)]
struct Final {
    /// The auto's place.
    auto: usize,
    /// The place of the best fixed mode of at most as many threads.
    best: usize,
    /// Threads the auto may use.
    threads: usize,
}

/// Who goes on after the first rounds.
struct Finals {
    pairs: Vec<Final>,
    /// The best mode of all.
    winner: Option<usize>,
}

impl Finals {
    fn of(standings: &[Standing], result: &ContestResult<Taken>) -> Finals {
        let median = |place: usize| {
            let spread = Spread::of(&result.sides[place].values(NS.read));
            spread.map_or(f64::INFINITY, |spread| spread.median)
        };
        let best = |threads_max: usize| {
            let fixed = (0..standings.len()).filter(|&place| {
                matches!(standings[place], Standing::Fixed { threads } if threads <= threads_max)
                    && result.sides[place].gone.is_none()
            });
            fixed.min_by(|&a, &b| median(a).total_cmp(&median(b)))
        };
        let autos = standings.iter().enumerate();
        let pairs = autos.filter_map(|(auto, standing)| match *standing {
            Standing::Auto { threads } => Some(Final {
                auto,
                best: best(threads)?,
                threads,
            }),
            _ => None,
        });
        Finals {
            pairs: pairs.collect(),
            winner: best(usize::MAX),
        }
    }
}

/// A contest that is over.
struct Results {
    labels: Vec<(Keys, Vec<(String, Value)>)>,
    result: ContestResult<Taken>,
    probes: usize,
    /// Whether there were rounds enough for verdicts.
    claims: bool,
}

impl Results {
    fn ratios(&self, subject: usize, other: usize) -> Vec<f64> {
        NS.ratios(&self.result.sides[subject], &self.result.sides[other])
    }

    /// Of the serial entrant to itself.
    fn noise(&self) -> Vec<f64> {
        self.result.noise((SERIAL, SERIAL), &NS)
    }

    fn verdict(&self, subject: usize, other: usize) -> Verdict {
        not_slower(&self.ratios(subject, other), &self.noise())
    }

    fn held(&self) -> Held {
        let gain = |place: usize| Spread::of(&self.ratios(place, SERIAL)).map(|spread| spread.median);
        let gains = self.labels.iter().enumerate();
        Held {
            gains: gains
                .filter_map(|(place, (keys, _))| Some((keys.parts, gain(place)?)))
                .collect(),
        }
    }

    fn emit(&self, finals: &Finals, runner: &mut Runner<'_>) {
        for place in 0..self.labels.len() {
            self.emit_times(place, runner);
        }
        for place in 1..self.labels.len() {
            self.emit_ratio(place, SERIAL, "serial", finals, runner);
        }
        for &Final { auto, best, .. } in &finals.pairs {
            self.emit_ratio(auto, best, "best", finals, runner);
        }
        let noise = self.noise();
        if let (Some(spread), Some(noise)) = (Spread::of(&noise), Noise::of(&noise)) {
            let again = self
                .result
                .controls
                .iter()
                .all(|(_, control)| control.wrong.is_none());
            let ok = self.is_right(SERIAL) && again;
            let row = self.row(SERIAL, "ratio", "x", spread, ok).versus("serial");
            let row = row.with("control", "a/a").with("noise_low", noise.low);
            runner.emit_checked(row.with("noise_high", noise.high));
        }
        self.emit_winner(finals, runner);
    }

    fn is_right(&self, place: usize) -> bool {
        self.result.sides[place].wrong.is_none() && self.result.sides[place].gone.is_none()
    }

    fn row(&self, place: usize, metric: &str, unit: &str, spread: Spread, ok: bool) -> Row {
        let (keys, extra) = &self.labels[place];
        let row = Row::measured(SUITE, keys.stand.case, metric, unit, spread, ok);
        keys.put(row, ALL_THREADS).with_all(extra)
    }

    fn emit_times(&self, place: usize, runner: &mut Runner<'_>) {
        let (keys, extra) = &self.labels[place];
        let (case, given) = (keys.stand.case, &self.result.sides[place]);
        if let Some(Gone::Failed(reason) | Gone::Unavailable(reason)) = &given.gone {
            let row = Row::unavailable(SUITE, case, METRIC, "ns", reason);
            runner.emit_checked(keys.put(row, ALL_THREADS).with_all(extra));
            runner.fail(format!("{SUITE} {case}: {} failed: {reason}", keys.mode));
            return;
        }
        if let Some(wrong) = &given.wrong {
            runner.fail(format!("{SUITE} {case}: {}: {wrong}", keys.mode));
        }
        if let Some(ns) = Spread::of(&given.values(NS.read)) {
            let row = self.row(place, METRIC, "ns", ns, self.is_right(place));
            runner.emit_checked(row.with("probes", self.probes));
        }
    }

    fn emit_ratio(&self, place: usize, other: usize, versus: &str, finals: &Finals, runner: &mut Runner<'_>) {
        let Some(spread) = Spread::of(&self.ratios(place, other)) else {
            return;
        };
        let ok = self.is_right(place) && self.is_right(other);
        let mut row = self.row(place, "ratio", "x", spread, ok).versus(versus);
        if versus == "best" {
            row = row.with("best_mode", self.labels[other].0.mode.as_str());
        }
        let is_auto = finals.pairs.iter().any(|pair| pair.auto == place);
        if is_auto && self.claims {
            let verdict = self.verdict(place, other);
            row = row.with("verdict", verdict.as_str());
        }
        runner.emit_checked(row);
    }

    /// One row a contest: the best mode, what it gained over serial, and what the autos chose.
    fn emit_winner(&self, finals: &Finals, runner: &mut Runner<'_>) {
        let Some(winner) = finals.winner.filter(|_| !finals.pairs.is_empty()) else {
            return;
        };
        let Some(spread) = Spread::of(&self.ratios(winner, SERIAL)) else {
            return;
        };
        let mut row = self
            .row(winner, "winner", "x", spread, self.is_right(winner))
            .versus("serial");
        for &Final { auto, best, threads } in &finals.pairs {
            let chosen = self.labels[auto].0.parts.to_string();
            row = row
                .with(&format!("auto{threads}"), chosen)
                .with(&format!("best{threads}"), self.labels[best].0.mode.as_str());
            if let Some(ratio) = Spread::of(&self.ratios(auto, best)) {
                row = row.with(&format!("auto{threads}_versus_best"), ratio.median);
            }
            if self.claims {
                let verdict = self.verdict(auto, best);
                row = row.with(&format!("auto{threads}_verdict"), verdict.as_str());
            }
        }
        runner.emit_checked(row);
    }
}

/// The metric of times.
pub const METRIC: &str = "ns_per_probe";

#[cfg(test)]
mod tests;
