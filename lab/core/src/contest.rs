//! [`Contest::run`]: sides take turns, one of each side in every round, and comparisons too near 1.0 to decide go on.
//!
//! ```text
//!   round 0    c  a  a' b      a' is the A/A control: one side once more
//!   round 1    a' b  a  c      each round has an order of its own, shuffled from the plan's seed
//!   near 1.0   the sides of undecided comparisons and their controls only, until the plan's largest number of pairs
//! ```
//!
//! What a turn is, and what it returns, is the caller's. Ratios are taken within a round, so slow drift of the machine cancels. The rows
//! of a contest are [`crate::metric`]'s.

use crate::error::BenchError;
use crate::metric::MetricSpec;
use crate::order;
use crate::run::Plan;
use crate::stats::{Verdict, not_slower};
use corun_model::progress::Progress;

/// Why a side has no numbers, or no more of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It is not here, or cannot do this, or failed and is not ours.
    Unavailable(String),
    /// It is ours and failed.
    Failed(String),
}

/// What a turn gave and the first wrong answer in it, or why there was none.
pub type Turn<M> = Result<(M, Option<String>), Gone>;

/// What a side gave.
#[derive(Clone, Debug, PartialEq)]
pub struct SideResult<M> {
    /// By round; `None` where it did not take part.
    pub rounds: Vec<Option<M>>,
    /// The first wrong answer, or what does not hold of its data.
    pub wrong: Option<String>,
    /// Why it could not be run, or no further.
    pub gone: Option<Gone>,
}

impl<M> Default for SideResult<M> {
    fn default() -> SideResult<M> {
        SideResult {
            rounds: Vec::new(),
            wrong: None,
            gone: None,
        }
    }
}

impl<M> SideResult<M> {
    /// One value of each round it took part in.
    pub fn values(&self, value: impl Fn(&M) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().flatten().filter_map(value).collect()
    }
}

/// What all sides gave.
#[derive(Clone, Debug, PartialEq)]
pub struct ContestResult<M> {
    /// One a side.
    pub sides: Vec<SideResult<M>>,
    /// The second runs of sides, with the places of these sides.
    pub controls: Vec<(usize, SideResult<M>)>,
}

impl<M> ContestResult<M> {
    /// The ratios of a control to its own side, which say what noise does to a comparison: of the control that is one of the pair, or of
    /// the first one. Empty where a contest has none.
    pub fn noise(&self, pair: (usize, usize), metric: &MetricSpec<M>) -> Vec<f64> {
        self.control(pair).map_or_else(Vec::new, |control| {
            let (side, again) = &self.controls[control];
            metric.ratios(&self.sides[*side], again)
        })
    }

    fn control(&self, (subject, other): (usize, usize)) -> Option<usize> {
        let of_pair = |(side, _): &(usize, SideResult<M>)| [subject, other].contains(side);
        let first = (!self.controls.is_empty()).then_some(0);
        self.controls.iter().position(of_pair).or(first)
    }

    /// All that was run: the sides, then the controls.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut SideResult<M>> {
        let controls = self.controls.iter_mut().map(|(_, control)| control);
        self.sides.iter_mut().chain(controls)
    }
}

/// Sides that are compared by a metric.
pub struct Contest<'c, M> {
    /// What the orders of its rounds are shuffled from, beside the plan's seed.
    pub name: &'c str,
    /// The comparisons that go on until they are decided: places of subject and other.
    pub pairs: &'c [(usize, usize)],
    /// Places of the sides that run twice a round.
    pub controls: &'c [usize],
    /// What decides.
    pub metric: &'c MetricSpec<M>,
    /// How many rounds; those that warm up come first, without controls, and only their wrong answers count.
    pub plan: Plan,
}

impl<M: Clone> Contest<'_, M> {
    /// Runs all rounds. `sides` has what is known against each side already; `turn` receives the place of a side and a round.
    pub fn run(
        &self,
        sides: Vec<SideResult<M>>,
        progress: &dyn Progress,
        mut turn: impl FnMut(usize, usize) -> Turn<M>,
    ) -> ContestResult<M> {
        let again = |&side: &usize| SideResult {
            rounds: Vec::new(),
            ..sides[side].clone()
        };
        let controls = self.controls.iter().map(|side| (*side, again(side))).collect();
        let mut result = ContestResult { sides, controls };
        for _ in 0..self.plan.warmups {
            self.round((0..result.sides.len()).collect(), None, &mut result, &mut turn);
            progress.advance(1);
        }
        let all = result.sides.len() + self.controls.len();
        for round in 0..self.plan.repetitions {
            self.round((0..all).collect(), Some(round), &mut result, &mut turn);
            progress.advance(1);
        }
        self.go_on(result, turn)
    }

    /// The rounds after those of the plan: of comparisons that are not decided yet.
    pub fn go_on(
        &self,
        mut result: ContestResult<M>,
        mut turn: impl FnMut(usize, usize) -> Turn<M>,
    ) -> ContestResult<M> {
        for round in self.plan.repetitions..self.plan.pairs_max {
            let near = self.undecided(&result);
            if near.is_empty() {
                break;
            }
            self.round(near, Some(round), &mut result, &mut turn);
        }
        result
    }

    /// [`Contest::run`] where every side has to work.
    ///
    /// # Errors
    /// The first error of a turn; there are no turns after it.
    pub fn run_all(
        &self,
        sides: usize,
        progress: &dyn Progress,
        mut turn: impl FnMut(usize, usize) -> Result<(M, Option<String>), BenchError>,
    ) -> Result<ContestResult<M>, BenchError> {
        let mut failure = None;
        let sides = (0..sides).map(|_| SideResult::default()).collect();
        let result = self.run(sides, progress, |side, round| {
            let none = Gone::Failed(String::new());
            if failure.is_some() {
                return Err(none);
            }
            turn(side, round).map_err(|error| {
                failure = Some(error);
                none
            })
        });
        failure.map_or(Ok(result), Err)
    }

    /// Lets these go, each once: places among the sides, then among the controls. A round that warms up has no number.
    fn round(
        &self,
        mut order: Vec<usize>,
        round: Option<usize>,
        result: &mut ContestResult<M>,
        turn: &mut impl FnMut(usize, usize) -> Turn<M>,
    ) {
        let number = round.map_or(0, |round| self.plan.warmups + round);
        order::shuffle(&mut order, self.plan.order_seed, self.name, number);
        if round.is_some() {
            result.all_mut().for_each(|side| side.rounds.push(None));
        }
        for index in order {
            let control = index.checked_sub(result.sides.len());
            let place = control.map_or(index, |control| self.controls[control]);
            let side = match control {
                Some(control) => &mut result.controls[control].1,
                None => &mut result.sides[place],
            };
            if side.gone.is_some() {
                continue;
            }
            match turn(place, round.unwrap_or(0)) {
                Ok((given, wrong)) => {
                    side.wrong = side.wrong.take().or(wrong);
                    if let Some(round) = round {
                        side.rounds[round] = Some(given);
                    }
                }
                Err(gone) => {
                    for (_, control) in result.controls.iter_mut().filter(|(side, _)| *side == place) {
                        control.gone = Some(gone.clone());
                    }
                    result.sides[place].gone = Some(gone);
                }
            }
        }
    }

    /// The sides of comparisons too near 1.0 to say who is faster, with the controls of these comparisons.
    fn undecided(&self, result: &ContestResult<M>) -> Vec<usize> {
        let mut near = Vec::new();
        for &(subject, other) in self.pairs {
            let Some(control) = result.control((subject, other)) else {
                continue;
            };
            let sides = [subject, other, result.controls[control].0];
            let gone = sides.iter().any(|&side| result.sides[side].gone.is_some());
            let (subject, other) = (&result.sides[subject], &result.sides[other]);
            let ratios = self.metric.ratios(subject, other);
            let noise = result.noise((sides[0], sides[1]), self.metric);
            if !gone && not_slower(&ratios, &noise) == Verdict::Undecided {
                near.extend(sides);
                near.push(result.sides.len() + control);
            }
        }
        near.sort_unstable();
        near.dedup();
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;

    const RATE: MetricSpec<f64> = MetricSpec::higher("rate", "1/s", |rate| Some(*rate));

    fn side(rates: &[Option<f64>]) -> SideResult<f64> {
        SideResult {
            rounds: rates.to_vec(),
            ..SideResult::default()
        }
    }

    fn contest<'c>(pairs: &'c [(usize, usize)], controls: &'c [usize]) -> Contest<'c, f64> {
        Contest {
            name: "two sides",
            pairs,
            controls,
            metric: &RATE,
            plan: Plan {
                warmups: 0,
                repetitions: 4,
                pairs_max: 4,
                ..Plan::quick()
            },
        }
    }

    #[test]
    fn only_near_comparisons_go_on() {
        let of = |rate: f64| side(&[Some(rate); 5]);
        // The first is far away, the second near, then the subject and its control.
        let near = side(&[99.0, 101.0, 100.0, 99.0, 101.0].map(Some));
        let mut result = ContestResult {
            sides: vec![of(200.0), near, of(100.0)],
            controls: vec![(2, of(100.0))],
        };
        let contest = contest(&[(2, 0), (2, 1)], &[2]);
        assert_eq!(contest.undecided(&result), [1, 2, 3]);
        result.sides[1].gone = Some(Gone::Unavailable("left".to_owned()));
        assert_eq!(contest.undecided(&result), [0; 0]);
    }

    #[test]
    fn a_comparison_is_judged_by_the_control_of_its_own_side() {
        let of = |rate: f64| side(&[Some(rate); 5]);
        let noisy = side(&[50.0, 200.0, 50.0, 200.0, 50.0].map(Some));
        let result = ContestResult {
            sides: vec![of(100.0), of(100.0), of(90.0)],
            controls: vec![(0, noisy), (1, of(101.0))],
        };
        let verdict = |other| {
            not_slower(
                &RATE.ratios(&result.sides[2], &result.sides[other]),
                &result.noise((2, other), &RATE),
            )
        };
        assert_eq!(verdict(0), Verdict::Undecided);
        assert_eq!(verdict(1), Verdict::Slower);
        assert_eq!(contest(&[(2, 0), (2, 1)], &[0, 1]).undecided(&result), [0, 2, 3]);
    }

    #[test]
    fn a_side_that_fails_leaves_and_its_control_with_it() {
        let sides = vec![SideResult::default(), SideResult::default()];
        let result = contest(&[(1, 0)], &[0]).run(sides, &Silent, |place, round| match (place, round) {
            (0, 2) => Err(Gone::Failed("it ended".to_owned())),
            (1, 1) => Ok((1.0, Some("wrong".to_owned()))),
            _ => Ok((1.0, None)),
        });
        assert_eq!(result.sides[1].values(|rate| Some(*rate)).len(), 4);
        assert_eq!(result.sides[1].wrong.as_deref(), Some("wrong"));
        assert!(result.sides[0].gone.is_some() && result.controls[0].1.gone.is_some());
        assert_eq!(result.sides[0].rounds.len(), 4);
    }

    #[test]
    fn the_first_error_ends_a_contest_whose_sides_must_all_work() {
        let mut turns = 0;
        let result = contest(&[], &[0]).run_all(2, &Silent, |_, _| {
            turns += 1;
            match turns {
                5 => Err(BenchError::Machine("it is gone".to_owned())),
                _ => Ok((1.0, None)),
            }
        });
        assert!(result.is_err_and(|error| error.to_string().contains("it is gone")));
        assert_eq!(turns, 5);
    }
}
