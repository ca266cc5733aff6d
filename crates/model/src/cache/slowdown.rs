//! What running beside another statement costs: a matrix of slow-downs, learnt from run times (paper 002, Table 1, as prior).
//!
//! Who harms whom differs between machines and engines, so the paper's table is only where this begins. Statements belong to
//! *classes*; the model holds, for each ordered pair of classes, how much longer the first takes for each co-runner of the
//! second, and for each statement how long it takes alone:
//!
//! ```text
//!   time alone = Σ over the stretches of a run:  length / slow-down in it
//!   slow-down  = 1 + Σ over the co-runners in the stretch:  excess(own class, co-runner's class)
//! ```
//!
//! `time alone` of each statement and `excess` of each pair are learnt from whole runs. Each has a value and a variance, and a
//! run corrects all it depends on by the shares an extended Kalman filter with a diagonal covariance gives them. So a
//! statement first seen alone has a sure base line and teaches the matrix; one first seen in company leaves open which
//! of the two explains its time, and teaches little until its company changes. Where statements are never alone, that stays
//! open: the run times predicted are right then, and the order of the pairs of one class, but not what a class loses in all.
//! Old evidence fades: each run divides the variances of its class's row by the decay factor, up to those of the prior.
//! A run on several CPUs at once says neither: what a statement takes *wide* is remembered by itself, and
//! [`SlowdownModel::observe_wide`] touches nothing else.
//! Decisions look at the hopeful end of what is likely ([`SlowdownModel::slowdown_hoped`]); otherwise a pair that the prior
//! calls bad would never be tried.
//!
//! Call order: [`SlowdownModel::new`], [`SlowdownModel::add_class`] for classes finer than locality; then for each run
//! [`Run::new`], [`Run::pass`] whenever its company changes, and [`SlowdownModel::observe`] at its end. The same runs in the
//! same order give the same matrix.
//!
//! Not here: watching who runs beside whom, and using the matrix; see [`crate::cache::coschedule`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cache::locality::Locality;

/// Most classes a model holds; the matrix has the square of it.
pub const CLASSES_MAX: usize = 64;

/// Most statements whose time alone is remembered; beyond, the one seen longest ago is forgotten.
pub const STATEMENTS_MAX: usize = 4096;

/// Share of the evidence that remains after each run of its class: the memory is some 50 runs. Unmeasured.
pub const DECAY: f64 = 0.98;

/// Standard deviation of a run's time that nothing explains, relative. Unmeasured.
const NOISE: f64 = 0.1;

/// Standard deviation of the prior's slow-downs: they may be wrong by this much, and by twice as much now and then. On one
/// later machine the cell "moderate beside weak" lay between 1.0 and 5.6, depending on the operators.
const PRIOR_DEVIATION: f64 = 0.5;

/// Bounds of the excess a co-runner causes. Below 0 it helps, by loading what both read (paper 002, section 1.1).
const EXCESS: std::ops::RangeInclusive<f64> = -0.5..=15.0;

/// Bounds of a whole slow-down, predicted or observed: beyond, something else was the matter.
const FACTOR: std::ops::RangeInclusive<f64> = 0.25..=64.0;

/// Slow-down of a statement of the first class beside one of the second, before anything was observed.
///
/// The words are Table 1 of paper 002, the numbers this project's, after what the text reports for the cell:
///
/// | | strong | moderate | weak |
/// | --- | --- | --- | --- |
/// | strong | low, 1.05 (5.2) | moderate, 1.15 (none reported) | high, 1.3 (5.2) |
/// | moderate | moderate, 1.15 (none reported) | high, 1.33 (7.3) | high, 1.42 (mean of 7.1) |
/// | weak | low, 1.08 (5.2: 1.06, 7.3: 1.11) | low, 1.08 | low, 1.08 |
pub fn prior(victim: Locality, corunner: Locality) -> f64 {
    use Locality::{Moderate, Strong, Weak};
    match (victim, corunner) {
        (Strong, Strong) => 1.05,
        (Strong, Moderate) | (Moderate, Strong) => 1.15,
        (Strong, Weak) => 1.3,
        (Moderate, Moderate) => 1.33,
        (Moderate, Weak) => 1.42,
        (Weak, _) => 1.08,
    }
}

/// A class of statements that harm and suffer alike. Made by a [`SlowdownModel`], and known to that one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementClass(usize);

/// A statement that is run again and again, whatever its parameters: a fingerprint of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StatementId(pub u64);

/// One run of a statement, followed from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    statement: StatementId,
    class: StatementClass,
    elapsed_ns: f64,
    /// What it would have taken alone, going by the slow-downs known at the time.
    alone_ns: f64,
    /// By class of co-runners, how much `alone_ns` falls for each unit that its excess rises.
    pull_ns: BTreeMap<StatementClass, f64>,
}

impl Run {
    /// A run that starts now.
    pub fn new(statement: StatementId, class: StatementClass) -> Self {
        Self {
            statement,
            class,
            elapsed_ns: 0.0,
            alone_ns: 0.0,
            pull_ns: BTreeMap::new(),
        }
    }

    /// It ran `ns` nanoseconds more, all of them beside one statement of each class in `beside`; a class may come several
    /// times.
    ///
    /// # Errors
    /// [`SlowdownError::UnknownClass`]; the run is then unchanged.
    pub fn pass(
        &mut self,
        ns: u64,
        beside: &[StatementClass],
        model: &SlowdownModel,
    ) -> Result<(), SlowdownError> {
        model.check(self.class)?;
        let mut excess = 0.0;
        for &class in beside {
            model.check(class)?;
            excess += model.excess[self.class.0][class.0].value;
        }
        let slowdown = (1.0 + excess).clamp(*FACTOR.start(), *FACTOR.end());
        let ns = ns as f64;
        self.elapsed_ns += ns;
        self.alone_ns += ns / slowdown;
        for &class in beside {
            *self.pull_ns.entry(class).or_insert(0.0) += ns / (slowdown * slowdown);
        }
        Ok(())
    }
}

/// Why a model refused something.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SlowdownError {
    /// Too many classes.
    #[error("there are {CLASSES_MAX} classes of statements already; merge similar ones")]
    Classes,
    /// A class another model made.
    #[error("class {} of statements is unknown to this model", .0.0)]
    UnknownClass(StatementClass),
    /// A run without a duration.
    #[error("a run that took no time teaches nothing")]
    NoTime,
    /// A decay that forgets everything or grows.
    #[error("the decay factor must be above 0 and at most 1, not {0}")]
    Decay(f64),
}

/// A number not known exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    value: f64,
    variance: f64,
}

impl Estimate {
    /// Corrects a time, whose variance is relative, by a run that took `elapsed_ns` when `predicted` times this time were
    /// expected, `unsure` being the variance of that factor. Answers how far off the factor was, and the variance expected of
    /// that.
    fn correct(&mut self, elapsed_ns: f64, predicted: f64, unsure: f64, decay: f64) -> (f64, f64) {
        self.variance = (self.variance / decay).min(1.0);
        let observed = (elapsed_ns / self.value).clamp(*FACTOR.start(), *FACTOR.end());
        let surprise = observed - predicted;
        let total = predicted * predicted * (self.variance + NOISE * NOISE) + unsure;
        let gain = predicted * self.variance / total;
        self.value *= (1.0 + gain * surprise).max(0.5);
        self.variance *= 1.0 - gain * predicted;
        (surprise, total)
    }
}

/// What a statement takes by itself; the variances are those of the relative errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    /// On one CPU, nobody beside it.
    alone_ns: Option<Estimate>,
    /// On all CPUs of a domain.
    wide_ns: Option<Estimate>,
    /// Number of the run that last used it.
    used: u64,
}

/// The learnt matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowdownModel {
    decay: f64,
    localities: Vec<Locality>,
    /// Row by row: `excess[victim][co-runner]`, the slow-down less one.
    excess: Vec<Vec<Estimate>>,
    times: BTreeMap<StatementId, Times>,
    runs: u64,
}

impl Default for SlowdownModel {
    fn default() -> Self {
        Self::new(DECAY).expect("a decay in range")
    }
}

impl SlowdownModel {
    /// A model of one class for each locality, all slow-downs as in [`prior`]. `decay` is the share of the evidence that remains
    /// after each run of its class ([`DECAY`]); 1 never forgets.
    ///
    /// # Errors
    /// [`SlowdownError::Decay`] outside 0 to 1, or for 0.
    pub fn new(decay: f64) -> Result<Self, SlowdownError> {
        if !(decay > 0.0 && decay <= 1.0) {
            return Err(SlowdownError::Decay(decay));
        }
        let mut model = Self {
            decay,
            localities: Vec::new(),
            excess: Vec::new(),
            times: BTreeMap::new(),
            runs: 0,
        };
        for locality in [Locality::Strong, Locality::Moderate, Locality::Weak] {
            model.add_class(locality)?;
        }
        Ok(model)
    }

    /// The class for statements of this locality of which nothing else is known.
    pub fn class_of(&self, locality: Locality) -> StatementClass {
        StatementClass(match locality {
            Locality::Strong => 0,
            Locality::Moderate => 1,
            Locality::Weak => 2,
        })
    }

    /// A new class that begins with the prior of its locality, for statements that may behave unlike others of it: scans and
    /// index joins are both weak, and harm differently.
    ///
    /// # Errors
    /// [`SlowdownError::Classes`] beyond [`CLASSES_MAX`].
    pub fn add_class(&mut self, locality: Locality) -> Result<StatementClass, SlowdownError> {
        if self.localities.len() >= CLASSES_MAX {
            return Err(SlowdownError::Classes);
        }
        let begin = |victim, corunner| Estimate {
            value: prior(victim, corunner) - 1.0,
            variance: PRIOR_DEVIATION * PRIOR_DEVIATION,
        };
        for (row, &victim) in self.excess.iter_mut().zip(&self.localities) {
            row.push(begin(victim, locality));
        }
        self.localities.push(locality);
        self.excess.push(
            self.localities
                .iter()
                .map(|&corunner| begin(locality, corunner))
                .collect(),
        );
        Ok(StatementClass(self.localities.len() - 1))
    }

    /// Whether this model made the class.
    ///
    /// # Errors
    /// [`SlowdownError::UnknownClass`] if not.
    pub fn check(&self, class: StatementClass) -> Result<(), SlowdownError> {
        if class.0 < self.localities.len() {
            Ok(())
        } else {
            Err(SlowdownError::UnknownClass(class))
        }
    }

    /// Factor by which a statement of class `victim` takes longer beside one of class `corunner`.
    ///
    /// # Errors
    /// [`SlowdownError::UnknownClass`].
    pub fn slowdown(&self, victim: StatementClass, corunner: StatementClass) -> Result<f64, SlowdownError> {
        self.check(victim)?;
        self.check(corunner)?;
        Ok(1.0 + self.excess[victim.0][corunner.0].value)
    }

    /// As [`SlowdownModel::slowdown`], but what it may well turn out to be if it is tried: one standard deviation less.
    ///
    /// # Errors
    /// [`SlowdownError::UnknownClass`].
    pub fn slowdown_hoped(
        &self,
        victim: StatementClass,
        corunner: StatementClass,
    ) -> Result<f64, SlowdownError> {
        let deviation = |estimate: Estimate| estimate.variance.sqrt();
        self.slowdown(victim, corunner)
            .map(|likely| likely - deviation(self.excess[victim.0][corunner.0]))
    }

    /// Whether it is still likely that queries that come back to tables and weak ones do better each beside its like, as in
    /// the prior, than mixed. It is no longer where the four slow-downs of two such pairs, of strong or of moderate locality, say
    /// otherwise by more than they are unsure.
    pub fn separation_pays(&self) -> bool {
        let weak = self.class_of(Locality::Weak);
        [Locality::Strong, Locality::Moderate]
            .into_iter()
            .all(|locality| {
                let reusing = self.class_of(locality);
                let cell =
                    |victim: StatementClass, corunner: StatementClass| self.excess[victim.0][corunner.0];
                let apart = [cell(reusing, reusing), cell(weak, weak)];
                let mixed = [cell(reusing, weak), cell(weak, reusing)];
                let cost = |pair: [Estimate; 2]| pair[0].value + pair[1].value;
                let variance: f64 = apart.iter().chain(&mixed).map(|cell| cell.variance).sum();
                cost(apart) - cost(mixed) <= variance.sqrt()
            })
    }

    /// Nanoseconds the statement takes alone, as far as its runs tell; `None` before the first.
    pub fn alone_ns(&self, statement: StatementId) -> Option<f64> {
        let alone = self.times.get(&statement)?.alone_ns?;
        Some(alone.value)
    }

    /// Nanoseconds the statement takes on all CPUs of a domain; `None` before its first such run.
    pub fn wide_ns(&self, statement: StatementId) -> Option<f64> {
        let wide = self.times.get(&statement)?.wide_ns?;
        Some(wide.value)
    }

    /// Learns from a run that came to its end.
    ///
    /// # Errors
    /// [`SlowdownError`] for a run that took no time, and one with classes of another model; the model is then unchanged.
    pub fn observe(&mut self, run: &Run) -> Result<(), SlowdownError> {
        if run.elapsed_ns <= 0.0 {
            return Err(SlowdownError::NoTime);
        }
        for &class in std::iter::once(&run.class).chain(run.pull_ns.keys()) {
            self.check(class)?;
        }
        let times = self.times_of(run.statement);
        let row = &mut self.excess[run.class.0];
        for excess in row.iter_mut() {
            excess.variance = (excess.variance / self.decay).min(PRIOR_DEVIATION * PRIOR_DEVIATION);
        }
        // The mean slow-down of the run, and its derivative by the excess of each class it met.
        let predicted = run.elapsed_ns / run.alone_ns;
        let met: Vec<(usize, f64)> = run
            .pull_ns
            .iter()
            .map(|(&class, pull_ns)| (class.0, predicted * predicted * pull_ns / run.elapsed_ns))
            .collect();
        // How far the matrix may be off for this run.
        let unsure = met
            .iter()
            .map(|&(class, slope)| slope * slope * row[class].variance)
            .sum::<f64>();
        let noise = NOISE * NOISE;

        let Some(mut alone) = times.alone_ns else {
            let alone_ns = Estimate {
                value: run.alone_ns,
                variance: noise + unsure / (predicted * predicted),
            };
            self.remember(run.statement, |times| times.alone_ns = Some(alone_ns));
            return Ok(());
        };
        // Observation: elapsed / alone = (1 + relative error of `alone`) × mean slow-down × (1 + noise).
        let (surprise, total) = alone.correct(run.elapsed_ns, predicted, unsure, self.decay);
        for (class, slope) in met {
            let excess = &mut row[class];
            let gain = slope * excess.variance / total;
            excess.value = (excess.value + gain * surprise).clamp(*EXCESS.start(), *EXCESS.end());
            excess.variance *= 1.0 - gain * slope;
        }
        self.remember(run.statement, |times| times.alone_ns = Some(alone));
        Ok(())
    }

    /// Learns from a run on all CPUs of a domain that came to its end: how long its statement takes so, and nothing of the time
    /// alone or the slow-downs, which are of runs on one CPU.
    ///
    /// # Errors
    /// As [`SlowdownModel::observe`].
    pub fn observe_wide(&mut self, run: &Run) -> Result<(), SlowdownError> {
        if run.elapsed_ns <= 0.0 {
            return Err(SlowdownError::NoTime);
        }
        self.check(run.class)?;
        let wide_ns = match self.times_of(run.statement).wide_ns {
            Some(mut wide) => {
                wide.correct(run.elapsed_ns, 1.0, 0.0, self.decay);
                wide
            }
            None => Estimate {
                value: run.elapsed_ns,
                variance: NOISE * NOISE,
            },
        };
        self.remember(run.statement, |times| times.wide_ns = Some(wide_ns));
        Ok(())
    }

    fn times_of(&self, statement: StatementId) -> Times {
        self.times.get(&statement).copied().unwrap_or_default()
    }

    /// Notes what a run told of its statement's times; if there are too many statements, in place of the one seen longest ago.
    fn remember(&mut self, statement: StatementId, note: impl FnOnce(&mut Times)) {
        self.runs += 1;
        if self.times.len() >= STATEMENTS_MAX && !self.times.contains_key(&statement) {
            let oldest = self.times.iter().min_by_key(|(_, times)| times.used);
            if let Some(oldest) = oldest.map(|(&oldest, _)| oldest) {
                self.times.remove(&oldest);
            }
        }
        let times = self.times.entry(statement).or_default();
        note(times);
        times.used = self.runs;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Locality::{Moderate, Strong, Weak};

    const MS: u64 = 1_000_000;

    /// A run beside each of these localities for so long.
    fn run(model: &SlowdownModel, statement: u64, class: Locality, stretches: &[(u64, &[Locality])]) -> Run {
        let mut run = Run::new(StatementId(statement), model.class_of(class));
        for &(ns, beside) in stretches {
            let beside: Vec<_> = beside.iter().map(|&locality| model.class_of(locality)).collect();
            run.pass(ns, &beside, model).expect("known classes");
        }
        run
    }

    /// Learns from such a run.
    fn observe(model: &mut SlowdownModel, class: Locality, stretches: &[(u64, &[Locality])]) {
        let run = run(model, 1, class, stretches);
        model.observe(&run).expect("good");
    }

    fn slowdown(model: &SlowdownModel, victim: Locality, corunner: Locality) -> f64 {
        let (victim, corunner) = (model.class_of(victim), model.class_of(corunner));
        model.slowdown(victim, corunner).expect("known classes")
    }

    /// Low, moderate and high of Table 1, as ranks.
    #[test]
    fn the_prior_keeps_the_order_of_table_1() {
        let table = [(Strong, [0, 1, 2]), (Moderate, [1, 2, 2]), (Weak, [0, 0, 0])];
        let mut by_rank: [Vec<f64>; 3] = Default::default();
        for (victim, ranks) in table {
            for (corunner, rank) in [Strong, Moderate, Weak].into_iter().zip(ranks) {
                by_rank[rank].push(prior(victim, corunner));
            }
        }
        let max = |rank: usize| by_rank[rank].iter().copied().fold(f64::MIN, f64::max);
        let min = |rank: usize| by_rank[rank].iter().copied().fold(f64::MAX, f64::min);
        assert!(max(0) < min(1) && max(1) < min(2));
        let model = SlowdownModel::default();
        assert!((slowdown(&model, Moderate, Weak) - prior(Moderate, Weak)).abs() < 1e-12);
    }

    #[test]
    fn runs_that_follow_the_prior_confirm_it() {
        let mut model = SlowdownModel::default();
        let hoped = |model: &SlowdownModel| {
            let (victim, corunner) = (model.class_of(Moderate), model.class_of(Weak));
            model.slowdown_hoped(victim, corunner).expect("known")
        };
        assert!((hoped(&model) - (prior(Moderate, Weak) - PRIOR_DEVIATION)).abs() < 1e-12);
        for _ in 0..100 {
            observe(&mut model, Moderate, &[(MS, &[])]);
            let slowed = (MS as f64 * prior(Moderate, Weak)).round() as u64;
            observe(&mut model, Moderate, &[(slowed, &[Weak])]);
        }
        assert!((slowdown(&model, Moderate, Weak) - prior(Moderate, Weak)).abs() < 1e-6);
        assert!((model.alone_ns(StatementId(1)).expect("seen") - MS as f64).abs() < 1.0);
        // What has been tried often needs no hope.
        assert!(prior(Moderate, Weak) - hoped(&model) < 0.1);
    }

    #[test]
    fn another_machines_truth_is_learnt_and_only_where_it_was_seen() {
        let mut model = SlowdownModel::default();
        for round in 0..60 {
            observe(&mut model, Moderate, &[(MS, &[])]);
            // Here scans harm five-fold. One meets the query for all its time, for half its work, or together with another.
            let stretches: &[(u64, &[Locality])] = match round % 3 {
                0 => &[(5 * MS, &[Weak])],
                1 => &[(MS / 2, &[]), (5 * MS / 2, &[Weak])],
                _ => &[(9 * MS, &[Weak, Weak])],
            };
            observe(&mut model, Moderate, stretches);
        }
        assert!((slowdown(&model, Moderate, Weak) - 5.0).abs() < 0.25);
        assert!((slowdown(&model, Moderate, Moderate) - prior(Moderate, Moderate)).abs() < 1e-12);
        assert!((slowdown(&model, Weak, Moderate) - prior(Weak, Moderate)).abs() < 1e-12);
    }

    #[test]
    fn old_evidence_fades() {
        let learnt = |decay| {
            let mut model = SlowdownModel::new(decay).expect("in range");
            for round in 0..400 {
                let slowed = if round < 200 { MS * 11 / 10 } else { MS * 2 };
                observe(&mut model, Moderate, &[(MS, &[])]);
                observe(&mut model, Moderate, &[(slowed, &[Weak])]);
            }
            slowdown(&model, Moderate, Weak)
        };
        assert!((learnt(0.9) - 2.0).abs() < 0.01);
        assert!(learnt(1.0) < 1.8);
    }

    #[test]
    fn classes_of_one_locality_learn_apart() {
        let mut model = SlowdownModel::default();
        let scan = model.add_class(Weak).expect("room");
        let victim = model.class_of(Moderate);
        for _ in 0..50 {
            observe(&mut model, Moderate, &[(MS, &[])]);
            let mut beside = Run::new(StatementId(1), victim);
            beside.pass(3 * MS, &[scan], &model).expect("known");
            model.observe(&beside).expect("good");
        }
        assert!((model.slowdown(victim, scan).expect("known") - 3.0).abs() < 0.1);
        assert!((slowdown(&model, Moderate, Weak) - prior(Moderate, Weak)).abs() < 1e-12);
    }

    #[test]
    fn classes_and_statements_are_bounded() {
        let mut model = SlowdownModel::default();
        while model.localities.len() < CLASSES_MAX {
            model.add_class(Weak).expect("room");
        }
        assert_eq!(model.add_class(Weak), Err(SlowdownError::Classes));

        for statement in 0..STATEMENTS_MAX as u64 + 10 {
            let alone = run(&model, statement, Strong, &[(MS, &[])]);
            model.observe(&alone).expect("good");
            // The first is seen again and again, and so is kept.
            let first = run(&model, 0, Strong, &[(MS, &[])]);
            model.observe(&first).expect("good");
        }
        assert_eq!(model.times.len(), STATEMENTS_MAX);
        assert!(model.alone_ns(StatementId(0)).is_some());
        assert!(model.alone_ns(StatementId(1)).is_none());
        assert!(model.alone_ns(StatementId(STATEMENTS_MAX as u64 + 9)).is_some());
    }

    #[test]
    fn wide_runs_teach_their_own_time_and_nothing_else() {
        let mut model = SlowdownModel::default();
        observe(&mut model, Moderate, &[(3 * MS, &[])]);
        let excess = model.excess.clone();
        for _ in 0..50 {
            let wide = run(&model, 1, Moderate, &[(MS, &[])]);
            model.observe_wide(&wide).expect("good");
        }
        assert_eq!(model.excess, excess);
        let (alone_ns, wide_ns) = (model.alone_ns(StatementId(1)), model.wide_ns(StatementId(1)));
        assert_eq!((alone_ns, wide_ns), (Some(3e6), Some(1e6)));
        // It follows a change, and leaves statements it has not seen alone.
        for _ in 0..400 {
            let wide = run(&model, 1, Moderate, &[(2 * MS, &[])]);
            model.observe_wide(&wide).expect("good");
        }
        assert!((model.wide_ns(StatementId(1)).expect("seen") - 2e6).abs() < 1e4);
        assert_eq!(model.wide_ns(StatementId(2)), None);
        let nothing = run(&model, 2, Moderate, &[(0, &[])]);
        assert_eq!(model.observe_wide(&nothing), Err(SlowdownError::NoTime));
        let seen_wide_only = run(&model, 3, Moderate, &[(MS, &[])]);
        model.observe_wide(&seen_wide_only).expect("good");
        assert_eq!(model.alone_ns(StatementId(3)), None);
    }

    #[test]
    fn senseless_runs_change_nothing() {
        let mut model = SlowdownModel::default();
        observe(&mut model, Strong, &[(MS, &[])]);
        let before = model.clone();
        let nothing = run(&model, 1, Strong, &[(0, &[Weak])]);
        assert_eq!(model.observe(&nothing), Err(SlowdownError::NoTime));

        let mut larger = model.clone();
        let foreign = larger.add_class(Weak).expect("room");
        let refused = Err(SlowdownError::UnknownClass(foreign));
        let mut beside = Run::new(StatementId(1), model.class_of(Weak));
        let untouched = beside.clone();
        assert_eq!(beside.pass(MS, &[model.class_of(Weak), foreign], &model), refused);
        assert_eq!(beside, untouched);
        beside.pass(MS, &[foreign], &larger).expect("known there");
        assert_eq!(model.observe(&beside), refused);
        let mut of_it = Run::new(StatementId(1), foreign);
        assert_eq!(of_it.pass(MS, &[], &model), refused);
        of_it.pass(MS, &[], &larger).expect("known there");
        assert_eq!(model.observe(&of_it), refused);
        let weak = model.class_of(Weak);
        assert_eq!(
            model.slowdown(foreign, weak),
            Err(SlowdownError::UnknownClass(foreign))
        );
        assert_eq!(
            model.slowdown_hoped(weak, foreign),
            Err(SlowdownError::UnknownClass(foreign))
        );
        assert_eq!(model, before);
        for bad in [0.0, -0.5, 1.01, f64::NAN] {
            assert!(matches!(SlowdownModel::new(bad), Err(SlowdownError::Decay(_))));
        }
    }

    proptest! {
        #[test]
        fn any_history_keeps_every_estimate_in_bounds_and_repeats(
            history in prop::collection::vec(
                (0u64..4, 0usize..3, prop::collection::vec((1u64..1 << 60, prop::collection::vec(0usize..3, 0..5)), 1..4)),
                0..60,
            )
        ) {
            let mut models = [SlowdownModel::default(), SlowdownModel::default()];
            for model in &mut models {
                for (statement, class, stretches) in &history {
                    let mut run = Run::new(StatementId(*statement), StatementClass(*class));
                    for (ns, beside) in stretches {
                        let beside: Vec<_> = beside.iter().copied().map(StatementClass).collect();
                        run.pass(*ns, &beside, model).expect("known classes");
                    }
                    model.observe(&run).expect("good");
                    model.observe_wide(&run).expect("good");
                }
            }
            for estimate in models[0].excess.iter().flatten() {
                prop_assert!(EXCESS.contains(&estimate.value));
                prop_assert!(estimate.variance >= 0.0 && estimate.variance <= PRIOR_DEVIATION * PRIOR_DEVIATION + 1e-12);
            }
            for ns in models[0].times.values().flat_map(|times| [times.alone_ns, times.wide_ns]) {
                let ns = ns.expect("seen both ways");
                prop_assert!(ns.value.is_finite() && ns.value > 0.0);
                prop_assert!(ns.variance >= 0.0);
            }
            prop_assert_eq!(&models[0], &models[1]);
        }
    }
}
