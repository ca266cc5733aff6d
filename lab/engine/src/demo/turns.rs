//! What turns say, for both parts of the demo: numbers by round, ratios within a round, latencies. Pure functions over finished turns.
//!
//! Ratios are taken within a round, and reported with their spread over rounds. The control is a side against itself in the round before:
//! what the machine's noise alone does to a ratio.

use lab_core::stats::{Spread, pair_ratios};

use super::drive::ClientRun;
use super::mix::Class;

/// What one side (of the sides `S`) did in one round, and what its part of the demo knows besides (`M`).
#[derive(Debug, Clone)]
pub struct Turn<S, M> {
    /// The side.
    pub side: S,
    /// The round, from 0.
    pub round: usize,
    /// Its analytic and short clients.
    pub clients: Vec<ClientRun>,
    /// The rest.
    pub more: M,
}

/// The turns of a part, in the order they ran.
pub struct Turns<'t, S, M>(pub &'t [Turn<S, M>]);

/// How long one statement took on two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatementTimes {
    /// Median milliseconds over all rounds, on each side; `None` where it never ran.
    pub ms: [Option<f64>; 2],
    /// Median of the first side over median of the second, over the rounds in which both ran it.
    pub speed_up: Option<Spread>,
}

impl<'t, S: Copy + PartialEq, M> Turns<'t, S, M> {
    /// The turns of a side.
    pub fn of(&self, side: S) -> impl Iterator<Item = &'t Turn<S, M>> {
        self.0.iter().filter(move |turn| turn.side == side)
    }

    /// A number of each turn of a side, by round.
    pub fn by_round(&self, side: S, number: impl Fn(&Turn<S, M>) -> f64) -> Vec<f64> {
        let mut numbers: Vec<(usize, f64)> = self.of(side).map(|turn| (turn.round, number(turn))).collect();
        numbers.sort_by_key(|(round, _)| *round);
        numbers.into_iter().map(|(_, number)| number).collect()
    }

    /// Executions a second of a class on a side, by round: the sum of its clients' own rates.
    pub fn rates(&self, side: S, class: Class) -> Vec<f64> {
        let rate = |run: &ClientRun| run.executions.len() as f64 / run.seconds;
        self.by_round(side, |turn| {
            let runs = turn.clients.iter();
            runs.filter(|run| run.class == class && run.seconds > 0.0)
                .map(rate)
                .sum()
        })
    }

    /// Milliseconds of each execution of a class on a side.
    pub fn latencies(&self, side: S, class: Class) -> Vec<f64> {
        let runs = self.of(side).flat_map(|turn| &turn.clients);
        runs.filter(|run| run.class == class)
            .flat_map(|run| run.executions.iter().map(|execution| execution.milliseconds))
            .collect()
    }

    /// How long the statements took whose number is meant.
    pub fn statement(&self, sides: [S; 2], is_meant: impl Fn(usize) -> bool) -> StatementTimes {
        let times = |turn: &Turn<S, M>| -> Vec<f64> {
            let executions = turn.clients.iter().flat_map(|run| &run.executions);
            executions
                .filter(|execution| is_meant(execution.statement))
                .map(|execution| execution.milliseconds)
                .collect()
        };
        let median = |times: &[f64]| Spread::of(times).map(|spread| spread.median);
        let [stock, corun] = sides;
        let ratios = self.of(stock).filter_map(|turn| {
            let other = self.of(corun).find(|other| other.round == turn.round)?;
            Some(median(&times(turn))? / median(&times(other))?)
        });
        StatementTimes {
            ms: sides.map(|side| median(&self.of(side).flat_map(times).collect::<Vec<_>>())),
            speed_up: Spread::of(&ratios.collect::<Vec<_>>()),
        }
    }

    /// Executions of all clients.
    pub fn executions(&self) -> usize {
        let runs = self.0.iter().flat_map(|turn| &turn.clients);
        runs.map(|run| run.executions.len()).sum()
    }

    /// What was wrong with answers, one text each.
    pub fn wrong(&self) -> Vec<String> {
        let runs = self.0.iter().flat_map(|turn| &turn.clients);
        runs.flat_map(|run| run.wrong.clone()).collect()
    }
}

/// Ratios round by round.
pub fn ratios(above: &[f64], below: &[f64]) -> Option<Spread> {
    Spread::of(&pair_ratios(below, above))
}

/// Each round over the one before; `None` with one round.
pub fn control(rates: &[f64]) -> Option<Spread> {
    ratios(rates.get(1..)?, rates)
}
