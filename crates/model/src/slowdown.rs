//! What running beside another statement costs: a matrix of slow-downs, learnt from run times (paper 002, Table 1, as prior).
//!
//! Who harms whom differs between machines and engines, so the paper's table is only where this begins. Statements belong to
//! *classes*; the model holds, for each ordered pair of classes, how much longer the first takes for each co-runner of the
//! second, and for each statement how long it takes alone:
//!
//! ```text
//!   run time = alone(statement) × (1 + Σ over classes c:  co-runners of class c, averaged over the run × excess(own class, c))
//!              └── learnt ──┘                                                                           └─── learnt ───┘
//! ```
//!
//! Each unknown has a value and a variance, and a run corrects all the unknowns it depends on by the shares a Kalman filter with
//! a diagonal covariance gives them. So a statement first seen alone has a sure base line and teaches the matrix; one first seen in
//! company leaves open which of the two explains its time, and teaches little until its company changes. Old evidence
//! fades: each use divides a variance by the decay factor, never beyond that of the prior.
//!
//! Call order: [`SlowdownModel::new`], [`SlowdownModel::add_class`] for classes finer than locality, then
//! [`SlowdownModel::observe`] after each run. The same runs in the same order give the same matrix.
//!
//! Not here: collecting who ran beside whom, and using the matrix; see [`crate::coschedule`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::locality::Locality;

/// Most classes a model holds; the matrix has the square of it.
pub const CLASSES_MAX: usize = 64;

/// Most statements whose time alone is remembered; beyond, the one seen longest ago is forgotten.
pub const STATEMENTS_MAX: usize = 4096;

/// Share of the evidence that remains after each use: the memory is some 50 runs. Unmeasured.
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

/// One run that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What ran.
    pub statement: StatementId,
    /// Its class.
    pub class: StatementClass,
    /// From its start to its end, without waiting.
    pub elapsed_ns: f64,
    /// How many of which class ran beside it, averaged over its time: 0.5 for one during half of it. A class may be named
    /// more than once.
    pub corunners: Vec<(StatementClass, f64)>,
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
    #[error("a run takes a positive, finite number of nanoseconds, not {0}")]
    Elapsed(f64),
    /// A share of company that is none.
    #[error("co-runners are counted by a finite number not below 0, not {0}")]
    Corunners(f64),
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

/// What a statement takes alone; the variance is that of the relative error.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Alone {
    ns: Estimate,
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
    alone: BTreeMap<StatementId, Alone>,
    runs: u64,
}

impl Default for SlowdownModel {
    fn default() -> Self {
        Self::new(DECAY).expect("a decay in range")
    }
}

impl SlowdownModel {
    /// A model of one class for each locality, all slow-downs as in [`prior`]. `decay` is the share of the evidence that remains
    /// after each use ([`DECAY`]); 1 never forgets.
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
            alone: BTreeMap::new(),
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
    pub fn knows(&self, class: StatementClass) -> bool {
        class.0 < self.localities.len()
    }

    /// Factor by which a statement of class `victim` takes longer beside one of class `corunner`.
    ///
    /// # Errors
    /// [`SlowdownError::UnknownClass`].
    pub fn slowdown(&self, victim: StatementClass, corunner: StatementClass) -> Result<f64, SlowdownError> {
        for class in [victim, corunner] {
            if !self.knows(class) {
                return Err(SlowdownError::UnknownClass(class));
            }
        }
        Ok(1.0 + self.excess[victim.0][corunner.0].value)
    }

    /// What two statements of these classes cost each other: the sum of both slow-downs less one each.
    pub(crate) fn conflict(&self, a: StatementClass, b: StatementClass) -> f64 {
        self.excess[a.0][b.0].value + self.excess[b.0][a.0].value
    }

    /// Nanoseconds the statement takes alone, as far as its runs tell; `None` before the first.
    pub fn alone_ns(&self, statement: StatementId) -> Option<f64> {
        self.alone.get(&statement).map(|alone| alone.ns.value)
    }

    /// Learns from a run.
    ///
    /// # Errors
    /// [`SlowdownError`] for unknown classes and numbers that make no sense; the model is then unchanged.
    pub fn observe(&mut self, run: &Run) -> Result<(), SlowdownError> {
        if !(run.elapsed_ns.is_finite() && run.elapsed_ns > 0.0) {
            return Err(SlowdownError::Elapsed(run.elapsed_ns));
        }
        let classes = std::iter::once(run.class).chain(run.corunners.iter().map(|&(class, _)| class));
        if let Some(class) = classes.into_iter().find(|&class| !self.knows(class)) {
            return Err(SlowdownError::UnknownClass(class));
        }
        let mut company: BTreeMap<usize, f64> = BTreeMap::new();
        for &(class, count) in &run.corunners {
            if !(count.is_finite() && count >= 0.0) {
                return Err(SlowdownError::Corunners(count));
            }
            *company.entry(class.0).or_insert(0.0) += count;
        }
        company.retain(|_, count| *count > 0.0);

        self.runs += 1;
        let row = &mut self.excess[run.class.0];
        let predicted = 1.0
            + company
                .iter()
                .map(|(&c, count)| count * row[c].value)
                .sum::<f64>();
        let predicted = predicted.clamp(*FACTOR.start(), *FACTOR.end());
        for &c in company.keys() {
            let faded = row[c].variance / self.decay;
            row[c].variance = faded.min(PRIOR_DEVIATION * PRIOR_DEVIATION);
        }
        // How far the matrix may be off for this run.
        let unsure = company
            .iter()
            .map(|(&c, count)| count * count * row[c].variance)
            .sum::<f64>();
        let noise = NOISE * NOISE;

        let Some(alone) = self.alone.get_mut(&run.statement) else {
            self.forget_one_statement();
            let ns = Estimate {
                value: run.elapsed_ns / predicted,
                variance: noise + unsure / (predicted * predicted),
            };
            self.alone.insert(run.statement, Alone { ns, used: self.runs });
            return Ok(());
        };
        alone.used = self.runs;
        alone.ns.variance = (alone.ns.variance / self.decay).min(1.0);

        // Observation: elapsed / alone = (1 + relative error of `alone`) × (1 + Σ count × excess) + noise. Its derivative by the
        // relative error is `predicted`, by an excess the count.
        let observed = (run.elapsed_ns / alone.ns.value).clamp(*FACTOR.start(), *FACTOR.end());
        let surprise = observed - predicted;
        // A slower run scatters more.
        let total = predicted * predicted * (alone.ns.variance + noise) + unsure;
        let gain = predicted * alone.ns.variance / total;
        alone.ns.value *= (1.0 + gain * surprise).max(0.5);
        alone.ns.variance *= 1.0 - gain * predicted;
        for (&c, count) in &company {
            let gain = count * row[c].variance / total;
            row[c].value = (row[c].value + gain * surprise).clamp(*EXCESS.start(), *EXCESS.end());
            row[c].variance *= 1.0 - gain * count;
        }
        Ok(())
    }

    /// Makes room for one more statement.
    fn forget_one_statement(&mut self) {
        if self.alone.len() < STATEMENTS_MAX {
            return;
        }
        let oldest = self.alone.iter().min_by_key(|(_, alone)| alone.used);
        if let Some(statement) = oldest.map(|(&statement, _)| statement) {
            self.alone.remove(&statement);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Locality::{Moderate, Strong, Weak};

    fn run(
        model: &SlowdownModel,
        statement: u64,
        class: Locality,
        elapsed_ns: f64,
        company: &[(Locality, f64)],
    ) -> Run {
        Run {
            statement: StatementId(statement),
            class: model.class_of(class),
            elapsed_ns,
            corunners: company
                .iter()
                .map(|&(locality, count)| (model.class_of(locality), count))
                .collect(),
        }
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
        for _ in 0..100 {
            let alone = run(&model, 1, Moderate, 1e9, &[]);
            model.observe(&alone).expect("good");
            let beside = run(&model, 1, Moderate, 1e9 * prior(Moderate, Weak), &[(Weak, 1.0)]);
            model.observe(&beside).expect("good");
        }
        assert!((slowdown(&model, Moderate, Weak) - prior(Moderate, Weak)).abs() < 1e-6);
        assert!((model.alone_ns(StatementId(1)).expect("seen") - 1e9).abs() < 1.0);
    }

    #[test]
    fn another_machines_truth_is_learnt_and_only_where_it_was_seen() {
        let mut model = SlowdownModel::default();
        for round in 0..60 {
            let alone = run(&model, 7, Moderate, 2e9, &[]);
            model.observe(&alone).expect("good");
            // Here scans harm five-fold, and half of the time half as long.
            let share = if round % 2 == 0 { 1.0 } else { 0.5 };
            let beside = run(&model, 7, Moderate, 2e9 * (1.0 + 4.0 * share), &[(Weak, share)]);
            model.observe(&beside).expect("good");
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
                let factor = if round < 200 { 1.1 } else { 2.0 };
                let alone = run(&model, 1, Moderate, 1e6, &[]);
                model.observe(&alone).expect("good");
                let beside = run(&model, 1, Moderate, 1e6 * factor, &[(Weak, 1.0)]);
                model.observe(&beside).expect("good");
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
            for (corunners, elapsed_ns) in [(vec![], 1e6), (vec![(scan, 1.0)], 3e6)] {
                model
                    .observe(&Run {
                        statement: StatementId(1),
                        class: victim,
                        elapsed_ns,
                        corunners,
                    })
                    .expect("good");
            }
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
            let alone = run(&model, statement, Strong, 1e6, &[]);
            model.observe(&alone).expect("good");
            // The first is seen again and again, and so is kept.
            let first = run(&model, 0, Strong, 1e6, &[]);
            model.observe(&first).expect("good");
        }
        assert_eq!(model.alone.len(), STATEMENTS_MAX);
        assert!(model.alone_ns(StatementId(0)).is_some());
        assert!(model.alone_ns(StatementId(1)).is_none());
        assert!(model.alone_ns(StatementId(STATEMENTS_MAX as u64 + 9)).is_some());
    }

    #[test]
    fn senseless_runs_change_nothing() {
        let mut model = SlowdownModel::default();
        let alone = run(&model, 1, Strong, 1e6, &[]);
        model.observe(&alone).expect("good");
        let before = model.clone();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = run(&model, 1, Strong, bad, &[]);
            assert!(matches!(model.observe(&refused), Err(SlowdownError::Elapsed(_))));
        }
        for bad in [-0.1, f64::NAN, f64::INFINITY] {
            let refused = run(&model, 1, Strong, 1e6, &[(Weak, bad)]);
            assert!(matches!(
                model.observe(&refused),
                Err(SlowdownError::Corunners(_))
            ));
        }
        let foreign = StatementClass(9);
        let refused = Run {
            corunners: vec![(foreign, 1.0)],
            ..alone
        };
        assert_eq!(model.observe(&refused), Err(SlowdownError::UnknownClass(foreign)));
        assert_eq!(
            model.slowdown(foreign, model.class_of(Weak)),
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
                (0u64..4, 0usize..3, 1e-3f64..1e15, prop::collection::vec((0usize..3, 0.0f64..1e6), 0..4)),
                0..60,
            )
        ) {
            let mut models = [SlowdownModel::default(), SlowdownModel::default()];
            for model in &mut models {
                for (statement, class, elapsed_ns, company) in &history {
                    model.observe(&Run {
                        statement: StatementId(*statement),
                        class: StatementClass(*class),
                        elapsed_ns: *elapsed_ns,
                        corunners: company.iter().map(|&(c, n)| (StatementClass(c), n)).collect(),
                    }).expect("good");
                }
            }
            for estimate in models[0].excess.iter().flatten() {
                prop_assert!(EXCESS.contains(&estimate.value));
                prop_assert!(estimate.variance >= 0.0 && estimate.variance <= PRIOR_DEVIATION * PRIOR_DEVIATION + 1e-12);
            }
            for alone in models[0].alone.values() {
                prop_assert!(alone.ns.value.is_finite() && alone.ns.value > 0.0);
                prop_assert!(alone.ns.variance >= 0.0);
            }
            prop_assert_eq!(&models[0], &models[1]);
        }
    }
}
