//! Slow-downs of queries beside each other, by pinned backends: each alone, alone again, and each pair side by side.
//!
//! ```text
//!   CPU 0   a alone | a alone again | a a a a |            every pair of kinds, one with itself too; both loop until both have
//!   CPU 1                           | b  b  b |            their runs, and a run that ends later counts for nobody
//! ```
//!
//! Both sides of a pair are measured at once, so a pair costs one turn. Rounds are shuffled; a slow-down is of one round. Times are the
//! clock's and the processes' own ([`Took`]).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::backend::{Backend, Took};
use super::query::Query;
use crate::fixture::joined;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::order;

/// Most runs of one side of a pair: beside a long query a short one runs often.
const RUNS_MAX: usize = 256;
/// Which time is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// By the clock.
    Clock,
    /// On the processor.
    Cpu,
}

impl Time {
    /// Both.
    pub const ALL: [Time; 2] = [Time::Clock, Time::Cpu];

    /// The word in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Time::Clock => "clock",
            Time::Cpu => "cpu",
        }
    }

    fn of(self, took: Took) -> f64 {
        match self {
            Time::Clock => took.clock,
            Time::Cpu => took.cpu,
        }
    }
}

/// One round: seconds a run took on average, by kind.
#[derive(Clone, Debug, PartialEq)]
struct Round {
    alone: Vec<Took>,
    control: Vec<Took>,
    /// `beside[a][b]`: `a` while `b` ran.
    beside: Vec<Vec<Took>>,
}

/// What all rounds gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    rounds: Vec<Round>,
    /// Wrong answers, one sentence each.
    pub wrong: Vec<String>,
}

impl Measured {
    fn each(&self, value: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(value).collect()
    }

    /// Seconds alone, by round.
    pub fn alone(&self, kind: usize, time: Time) -> Vec<f64> {
        self.each(|round| time.of(round.alone[kind]))
    }

    /// Time of `kind` beside `other` over its time alone, by round: above 1 it was slowed down.
    pub fn slowdowns(&self, kind: usize, other: usize, time: Time) -> Vec<f64> {
        self.each(|round| time.of(round.beside[kind][other]) / time.of(round.alone[kind]))
    }

    /// Alone over alone: what noise does to a slow-down.
    pub fn noise(&self, kind: usize, time: Time) -> Vec<f64> {
        self.each(|round| time.of(round.control[kind]) / time.of(round.alone[kind]))
    }
}

/// What a measurement is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Alone(usize),
    Control(usize),
    Pair(usize, usize),
}

/// The steps of a round, in another order each time and the same in every run.
fn steps(kinds: usize, seed: u64, round: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..kinds)
        .flat_map(|kind| [Step::Alone(kind), Step::Control(kind)])
        .collect();
    for first in 0..kinds {
        steps.extend((first..kinds).map(|second| match (round + first + second) % 2 {
            // Who is on which CPU alternates, so that neither is always on the better one.
            0 => Step::Pair(first, second),
            _ => Step::Pair(second, first),
        }));
    }
    order::shuffle(&mut steps, seed, "mcc", round);
    steps
}

/// Mean of some runs.
fn mean(runs: &[Took]) -> Took {
    let count = runs.len().max(1) as f64;
    Took {
        clock: runs.iter().map(|took| took.clock).sum::<f64>() / count,
        cpu: runs.iter().map(|took| took.cpu).sum::<f64>() / count,
    }
}

type Side = Result<(Vec<Took>, Option<String>), BenchError>;

fn several(backend: &mut Backend, query: &Query, runs: usize) -> Side {
    let (mut all, mut first_wrong) = (Vec::new(), None);
    for _ in 0..runs {
        let (took, wrong) = backend.time(query)?;
        all.push(took);
        first_wrong = first_wrong.or(wrong);
    }
    Ok((all, first_wrong))
}

/// Runs both queries in loops until each has `runs` runs that were beside the other from the begin to the end.
fn together(backends: &mut [Backend; 2], queries: [&Query; 2], runs: usize) -> [Side; 2] {
    let over = AtomicBool::new(false);
    let lacking = AtomicUsize::new(2);
    let barrier = std::sync::Barrier::new(2);
    let side = |backend: &mut Backend, query: &Query| -> Side {
        let (mut all, mut first_wrong) = (Vec::new(), None);
        let prepared = backend.prefer(query.form);
        barrier.wait();
        let looped = prepared.and_then(|()| {
            while !over.load(Ordering::SeqCst) {
                let (took, wrong) = backend.time(query)?;
                first_wrong = first_wrong.take().or(wrong);
                // The other may have stopped in the middle of this one.
                if over.load(Ordering::SeqCst) {
                    break;
                }
                // It goes on beside a slow one, however many runs it has.
                if all.len() < RUNS_MAX {
                    all.push(took);
                    if all.len() == runs && lacking.fetch_sub(1, Ordering::SeqCst) == 1 {
                        break;
                    }
                }
            }
            Ok(())
        });
        // Also where it failed: the other must not wait for it.
        over.store(true, Ordering::SeqCst);
        looped.map(|()| (all, first_wrong))
    };
    let [first, second] = backends;
    std::thread::scope(|scope| {
        let side = &side;
        let other = scope.spawn(move || side(second, queries[1]));
        let own = side(first, queries[0]);
        [own, joined(other)]
    })
}

/// Measures all pairs, in orders that are shuffled from `seed`. Each backend is pinned to a CPU of its own, and both share a last-level cache.
///
/// # Errors
/// When a connection breaks, or a query never ran beside another from its begin to its end.
pub fn measure(
    backends: &mut [Backend; 2],
    queries: &[Query],
    (rounds, seed): (usize, u64),
    runs: usize,
    progress: &dyn Progress,
) -> Result<Measured, BenchError> {
    let kinds = queries.len();
    let mut measured = Measured::default();
    // Once everywhere, so that pages are there and both have what they know of the tables.
    for backend in backends.iter_mut() {
        for query in queries {
            measured.wrong.extend(several(backend, query, 1)?.1);
        }
    }
    progress.begin(
        "heavy-queue: queries side by side",
        (rounds * steps(kinds, seed, 0).len()) as u64,
    );
    for number in 0..rounds {
        let none = Took::default();
        let mut round = Round {
            alone: vec![none; kinds],
            control: vec![none; kinds],
            beside: vec![vec![none; kinds]; kinds],
        };
        for step in steps(kinds, seed, number) {
            match step {
                Step::Alone(kind) | Step::Control(kind) => {
                    let (all, wrong) = several(&mut backends[number % 2], &queries[kind], runs)?;
                    let into = match step {
                        Step::Alone(_) => &mut round.alone,
                        _ => &mut round.control,
                    };
                    into[kind] = mean(&all);
                    measured.wrong.extend(wrong);
                }
                Step::Pair(first, second) => {
                    let [own, other] = together(backends, [&queries[first], &queries[second]], runs);
                    let ((own, own_wrong), (other, other_wrong)) = (own?, other?);
                    measured.wrong.extend(own_wrong.into_iter().chain(other_wrong));
                    if own.is_empty() || other.is_empty() {
                        let names = [first, second]
                            .map(|kind| queries[kind].name.as_str())
                            .join(" and ");
                        return Err(BenchError::Machine(format!(
                            "{names} were never beside each other"
                        )));
                    }
                    if first == second {
                        round.beside[first][first] = mean(&[own, other].concat());
                    } else {
                        round.beside[first][second] = mean(&own);
                        round.beside[second][first] = mean(&other);
                    }
                }
            }
            progress.advance(1);
        }
        measured.rounds.push(round);
    }
    progress.end();
    measured.wrong.sort();
    measured.wrong.dedup();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_pair_once_in_an_order_of_its_own() {
        let key = |step: &Step| match *step {
            Step::Alone(kind) => (0, kind, kind),
            Step::Control(kind) => (1, kind, kind),
            Step::Pair(a, b) => (2, a.min(b), a.max(b)),
        };
        let mut all = Vec::new();
        for round in 0..3 {
            let mut keys: Vec<_> = steps(4, order::SEED, round).iter().map(key).collect();
            assert_eq!(keys.len(), 4 + 4 + 10);
            all.push(keys.clone());
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 18);
        }
        assert!(all[0] != all[1] && all[1] != all[2]);
    }

    #[test]
    fn slowdowns_are_of_one_round() {
        let took = |clock: f64| Took {
            clock,
            cpu: clock / 2.0,
        };
        let round = |alone: f64, beside: f64| Round {
            alone: vec![took(alone)],
            control: vec![took(alone * 1.1)],
            beside: vec![vec![took(beside)]],
        };
        let measured = Measured {
            rounds: vec![round(1.0, 1.5), round(2.0, 2.0)],
            wrong: Vec::new(),
        };
        assert_eq!(measured.slowdowns(0, 0, Time::Clock), [1.5, 1.0]);
        assert_eq!(measured.slowdowns(0, 0, Time::Cpu), [1.5, 1.0]);
        assert_eq!(measured.alone(0, Time::Cpu), [0.5, 1.0]);
        assert!(
            measured
                .noise(0, Time::Clock)
                .iter()
                .all(|noise| (noise - 1.1).abs() < 1e-9)
        );
    }
}
