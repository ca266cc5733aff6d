//! [`take`]: sides take turns, a turn of each in every round, and those too near each other go on.
//!
//! ```text
//!   round 0    c  a  a' b      a' is the A/A control: one side once more
//!   round 1    a' b  a  c      each round has an order of its own, shuffled from the plan's seed
//!   near 1.0   the sides of undecided comparisons and the control only, until 30 pairs
//! ```
//!
//! What a turn is, and what it gives, is the caller's; only its rate decides who is near whom.

use super::sides::Gone;
use corun_model::progress::Progress;
use lab_core::order;
use lab_core::run::Plan;
use lab_core::stats::{Verdict, not_slower, pair_ratios};

/// What a side gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Track<M> {
    /// By round; `None` where it did not take part.
    pub rounds: Vec<Option<M>>,
    /// The first wrong answer, or what does not hold of the data.
    pub wrong: Option<String>,
    /// Why it could not be run, or no further.
    pub gone: Option<Gone>,
}

impl<M> Default for Track<M> {
    fn default() -> Track<M> {
        Track {
            rounds: Vec::new(),
            wrong: None,
            gone: None,
        }
    }
}

impl<M> Track<M> {
    /// One metric of all rounds it took part in.
    pub fn values(&self, metric: impl Fn(&M) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().flatten().filter_map(metric).collect()
    }
}

/// What all sides gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracks<M> {
    /// One a side.
    pub sides: Vec<Track<M>>,
    /// The second run of the side [`Compared::control`].
    pub control: Track<M>,
}

/// What is compared with what, by places among the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Subject and other.
    pub pairs: Vec<(usize, usize)>,
    /// The side that runs twice a round.
    pub control: usize,
}

/// `subject / other` of a metric that is better when higher, for each round both took part in: above 1 the subject was better.
pub fn ratios<M>(subject: &Track<M>, other: &Track<M>, metric: impl Fn(&M) -> Option<f64>) -> Vec<f64> {
    let both = subject.rounds.iter().zip(&other.rounds);
    let (other, subject): (Vec<f64>, Vec<f64>) = both
        .filter_map(|(subject, other)| Some((metric(other.as_ref()?)?, metric(subject.as_ref()?)?)))
        .unzip();
    pair_ratios(&other, &subject)
}

/// What a turn gave and the first wrong answer in it, or why there was none.
pub type Turn<M> = Result<(M, Option<String>), Gone>;

/// Runs all rounds of the contest of this name. `tracks` has one track a side, with what is known against it already; `turn` is given a side and a round.
pub fn take<M: Clone>(
    contest: &str,
    mut tracks: Vec<Track<M>>,
    compared: &Compared,
    plan: Plan,
    progress: &dyn Progress,
    rate: impl Fn(&M) -> Option<f64>,
    mut turn: impl FnMut(usize, usize) -> Turn<M>,
) -> Tracks<M> {
    tracks.push(Track {
        rounds: Vec::new(),
        ..tracks[compared.control].clone()
    });
    let shuffled = |mut sides: Vec<usize>, round| {
        order::shuffle(&mut sides, plan.order_seed, contest, round);
        sides
    };
    for round in 0..plan.repetitions {
        let all = (0..tracks.len()).collect();
        one_round(&mut tracks, compared, shuffled(all, round), round, &mut turn);
        progress.advance(1);
    }
    loop {
        let near = undecided(&tracks, compared, &rate);
        let round = tracks[compared.control].rounds.len();
        if near.is_empty() || round >= plan.pairs_max {
            break;
        }
        one_round(&mut tracks, compared, shuffled(near, round), round, &mut turn);
    }
    let control = tracks.pop().unwrap_or_default();
    Tracks {
        sides: tracks,
        control,
    }
}

fn one_round<M: Clone>(
    tracks: &mut [Track<M>],
    compared: &Compared,
    order: Vec<usize>,
    round: usize,
    turn: &mut impl FnMut(usize, usize) -> Turn<M>,
) {
    let control = tracks.len() - 1;
    let mut measured = vec![None; tracks.len()];
    for index in order {
        if tracks[index].gone.is_some() {
            continue;
        }
        let place = if index == control { compared.control } else { index };
        match turn(place, round) {
            Ok((found, wrong)) => {
                let track = &mut tracks[index];
                track.wrong = track.wrong.take().or(wrong);
                measured[index] = Some(found);
            }
            Err(gone) => {
                if place == compared.control {
                    tracks[control].gone = Some(gone.clone());
                }
                tracks[place].gone = Some(gone);
            }
        }
    }
    for (track, measured) in tracks.iter_mut().zip(measured) {
        track.rounds.push(measured);
    }
}

/// Places of the sides, and the control's, of comparisons too near 1.0 to say who is faster.
fn undecided<M>(tracks: &[Track<M>], compared: &Compared, rate: &impl Fn(&M) -> Option<f64>) -> Vec<usize> {
    let control = tracks.len() - 1;
    if tracks[control].gone.is_some() {
        return Vec::new();
    }
    let noise = ratios(&tracks[compared.control], &tracks[control], rate);
    let mut near: Vec<usize> = compared
        .pairs
        .iter()
        .filter(|&&(subject, other)| {
            let (subject, other) = (&tracks[subject], &tracks[other]);
            let both = subject.gone.is_none() && other.gone.is_none();
            both && not_slower(&ratios(subject, other, rate), &noise) == Verdict::Undecided
        })
        .flat_map(|&(subject, other)| [subject, other, compared.control, control])
        .collect();
    near.sort_unstable();
    near.dedup();
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;

    fn track(rates: &[Option<f64>]) -> Track<f64> {
        Track {
            rounds: rates.to_vec(),
            ..Track::default()
        }
    }

    #[test]
    fn ratios_are_of_rounds_both_took_part_in() {
        let subject = track(&[Some(10.0), None, Some(30.0), Some(40.0)]);
        let other = track(&[Some(5.0), Some(1.0), Some(10.0), None]);
        assert_eq!(ratios(&subject, &other, |rate| Some(*rate)), [2.0, 3.0]);
        assert_eq!(ratios(&subject, &other, |_| None), [0.0; 0]);
    }

    #[test]
    fn only_near_comparisons_go_on() {
        let of = |tps: f64| track(&[Some(tps); 5]);
        let compared = Compared {
            pairs: vec![(2, 0), (2, 1)],
            control: 2,
        };
        // The first is far away, the second near, then the subject and its control.
        let near = track(&[99.0, 101.0, 100.0, 99.0, 101.0].map(Some));
        let mut tracks = vec![of(200.0), near, of(100.0), of(100.0)];
        let rate = |rate: &f64| Some(*rate);
        assert_eq!(undecided(&tracks, &compared, &rate), [1, 2, 3]);
        tracks[1].gone = Some(Gone::Unavailable("left".to_owned()));
        assert_eq!(undecided(&tracks, &compared, &rate), [0; 0]);
    }

    #[test]
    fn a_side_that_fails_leaves_and_its_control_with_it() {
        let compared = Compared {
            pairs: vec![(1, 0)],
            control: 0,
        };
        let plan = Plan {
            warmups: 0,
            repetitions: 4,
            pairs_max: 4,
            ..Plan::quick()
        };
        let tracks = take(
            "two sides",
            vec![Track::default(), Track::default()],
            &compared,
            plan,
            &Silent,
            |rate| Some(*rate),
            |place, round| match (place, round) {
                (0, 2) => Err(Gone::Failed("it ended".to_owned())),
                (1, 1) => Ok((1.0, Some("wrong".to_owned()))),
                _ => Ok((1.0, None)),
            },
        );
        assert_eq!(tracks.sides[1].values(|rate| Some(*rate)).len(), 4);
        assert_eq!(tracks.sides[1].wrong.as_deref(), Some("wrong"));
        assert!(tracks.sides[0].gone.is_some() && tracks.control.gone.is_some());
        assert_eq!(tracks.sides[0].rounds.len(), 4);
    }
}
