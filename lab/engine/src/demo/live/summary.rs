//! What the turns of the live part say: rates, latencies, and ratios within a round. Pure functions over finished turns.
//!
//! The control is, as in [`crate::demo::summary`], a side against itself in the round before.

use std::sync::Arc;

use corun_workloads::driver::{Histogram, KindOutcome, Outcome};

use super::drive::{Analyst, Turn};
use super::statements::Statement;
use super::{LiveResult, Side};
use crate::demo::summary::quantiles;
use lab_core::report::box_plot::Quantiles;
use lab_core::stats::Spread;

/// The kind of transaction whose latency is shown.
const NEW_ORDER: &str = "new_order";

/// The transactions of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct Transactions {
    /// The side.
    pub side: Side,
    /// Committed New Orders a minute, one value a round.
    pub new_orders: Vec<f64>,
    /// Their spread.
    pub new_orders_per_min: Option<Spread>,
    /// Transactions of all kinds a second.
    pub tps: Option<Spread>,
    /// New Order over all rounds, in microseconds: half took at most so long.
    pub p50_us: Option<f64>,
    /// The same, 99 of 100.
    pub p99_us: Option<f64>,
    /// New Orders that were timed, over all rounds.
    pub timed: u64,
    /// How often a transaction was run again because of others, a round.
    pub retries: Option<Spread>,
    /// New Orders a minute over those of the transactions alone (threads), round by round. `None` for those.
    pub over_alone: Option<Spread>,
    /// New Orders a minute over those beside stock; `None` but for corun.
    pub over_stock: Option<Spread>,
    /// New Orders a minute over those of the same side in the round before; `None` with one round.
    pub control: Option<Spread>,
}

/// The analytic clients of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct Analytics {
    /// The side.
    pub side: Side,
    /// Queries a second, one value a round.
    pub rates: Vec<f64>,
    /// Their spread.
    pub rate: Option<Spread>,
    /// Latencies over all rounds, in milliseconds.
    pub latency: Option<Quantiles>,
    /// Executions over all rounds.
    pub executions: usize,
    /// Its rate over stock's, round by round; `None` for stock.
    pub over_stock: Option<Spread>,
    /// Its rate over its own in the round before; `None` with one round.
    pub control: Option<Spread>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementSummary {
    /// Its name.
    pub name: &'static str,
    /// Median milliseconds over all rounds; `None` when it never ran.
    pub stock_ms: Option<f64>,
    /// The same on corun.
    pub corun_ms: Option<f64>,
    /// Median of stock over median of corun, over the rounds in which both ran it.
    pub speed_up: Option<Spread>,
}

/// The live part in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSummary {
    /// One for each side.
    pub transactions: Vec<Transactions>,
    /// Stock, then corun.
    pub analytics: Vec<Analytics>,
    /// In the order of the statements.
    pub statements: Vec<StatementSummary>,
    /// Answers that were judged.
    pub answers: usize,
    /// What was wrong: answers, then consistency conditions.
    pub wrong: Vec<String>,
}

impl LiveSummary {
    /// Summarises the live part.
    pub fn of(result: &LiveResult) -> LiveSummary {
        let turns = &result.turns;
        let analysts = || turns.iter().flat_map(|turn| &turn.analysts);
        let executions: usize = analysts().map(|analyst| analyst.executions.len()).sum();
        let mut wrong: Vec<String> = analysts().flat_map(|analyst| analyst.wrong.clone()).collect();
        wrong.extend(result.closing.wrong.iter().cloned());
        wrong.extend(turns.iter().flat_map(|turn| turn.violations.clone()));
        LiveSummary {
            transactions: Side::ALL.map(|side| transactions(turns, side)).to_vec(),
            analytics: [Side::Stock, Side::Corun]
                .map(|side| analytics(turns, side))
                .to_vec(),
            statements: statements(turns, &result.statements),
            answers: executions + result.closing.answers,
            wrong,
        }
    }

    /// The transactions of a side.
    pub fn transactions_of(&self, side: Side) -> Option<&Transactions> {
        self.transactions.iter().find(|numbers| numbers.side == side)
    }

    /// The analytic clients of a side; `None` for the transactions alone.
    pub fn analytics_of(&self, side: Side) -> Option<&Analytics> {
        self.analytics.iter().find(|numbers| numbers.side == side)
    }
}

fn turns_of(turns: &[Turn], side: Side) -> impl Iterator<Item = &Turn> {
    turns.iter().filter(move |turn| turn.side == side)
}

/// A number of each turn of a side, by round.
fn by_round(turns: &[Turn], side: Side, number: impl Fn(&Turn) -> f64) -> Vec<f64> {
    let mut numbers: Vec<(usize, f64)> = turns_of(turns, side)
        .map(|turn| (turn.round, number(turn)))
        .collect();
    numbers.sort_by_key(|(round, _)| *round);
    numbers.into_iter().map(|(_, number)| number).collect()
}

/// Ratios round by round.
fn ratios(above: &[f64], below: &[f64]) -> Option<Spread> {
    let pairs = above.iter().zip(below);
    Spread::of(&pairs.map(|(above, below)| above / below).collect::<Vec<_>>())
}

/// Each round over the one before.
fn control(rates: &[f64]) -> Option<Spread> {
    rates.get(1..).and_then(|later| ratios(later, rates))
}

fn new_orders(turns: &[Turn], side: Side) -> Vec<f64> {
    by_round(turns, side, |turn| turn.transactions.new_orders_per_min)
}

fn new_order_latencies(outcome: &Outcome) -> Option<&KindOutcome> {
    outcome.kinds.iter().find(|kind| kind.kind == NEW_ORDER)
}

fn transactions(turns: &[Turn], side: Side) -> Transactions {
    let mine = new_orders(turns, side);
    let mut latencies = Histogram::default();
    for kind in turns_of(turns, side).filter_map(|turn| new_order_latencies(&turn.transactions)) {
        latencies.merge(&kind.latencies);
    }
    let percentile = |percent| (latencies.count() > 0).then(|| latencies.percentile_us(percent));
    let over = |other| ratios(&mine, &new_orders(turns, other));
    Transactions {
        side,
        new_orders_per_min: Spread::of(&mine),
        tps: Spread::of(&by_round(turns, side, |turn| turn.transactions.tps)),
        p50_us: percentile(50.0),
        p99_us: percentile(99.0),
        timed: latencies.count(),
        retries: Spread::of(&by_round(turns, side, |turn| turn.transactions.retried() as f64)),
        over_alone: (side != Side::Alone).then(|| over(Side::Alone)).flatten(),
        over_stock: (side == Side::Corun).then(|| over(Side::Stock)).flatten(),
        control: control(&mine),
        new_orders: mine,
    }
}

/// Queries a second: the sum of the clients' own rates.
fn rate(analysts: &[Analyst]) -> f64 {
    analysts
        .iter()
        .filter(|analyst| analyst.seconds > 0.0)
        .map(|analyst| analyst.executions.len() as f64 / analyst.seconds)
        .sum()
}

fn analytics(turns: &[Turn], side: Side) -> Analytics {
    let rates = |side| by_round(turns, side, |turn| rate(&turn.analysts));
    let mine = rates(side);
    let latencies: Vec<f64> = turns_of(turns, side)
        .flat_map(|turn| &turn.analysts)
        .flat_map(|analyst| analyst.executions.iter().map(|execution| execution.milliseconds))
        .collect();
    Analytics {
        side,
        rate: Spread::of(&mine),
        latency: quantiles(&latencies),
        executions: latencies.len(),
        over_stock: (side == Side::Corun)
            .then(|| ratios(&mine, &rates(Side::Stock)))
            .flatten(),
        control: control(&mine),
        rates: mine,
    }
}

fn statements(turns: &[Turn], statements: &Arc<Vec<Statement>>) -> Vec<StatementSummary> {
    let median = |times: &[f64]| Spread::of(times).map(|spread| spread.median);
    let summary = |number: usize, name| {
        let times = |turn: &Turn| -> Vec<f64> {
            let executions = turn.analysts.iter().flat_map(|analyst| &analyst.executions);
            executions
                .filter(|execution| execution.statement == number)
                .map(|execution| execution.milliseconds)
                .collect()
        };
        let overall = |side| median(&turns_of(turns, side).flat_map(times).collect::<Vec<_>>());
        let ratios: Vec<f64> = turns_of(turns, Side::Stock)
            .filter_map(|stock| {
                let corun = turns_of(turns, Side::Corun).find(|turn| turn.round == stock.round)?;
                Some(median(&times(stock))? / median(&times(corun))?)
            })
            .collect();
        StatementSummary {
            name,
            stock_ms: overall(Side::Stock),
            corun_ms: overall(Side::Corun),
            speed_up: Spread::of(&ratios),
        }
    };
    statements
        .iter()
        .enumerate()
        .map(|(number, statement)| summary(number, statement.name))
        .collect()
}

#[cfg(test)]
pub(in crate::demo) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::live::drive::Execution;
    use crate::demo::live::statements::statements;
    use crate::demo::live::{Closing, LiveOptions};

    fn outcome(new_orders: u64, us: u64) -> Outcome {
        let mut latencies = Histogram::default();
        for _ in 0..new_orders {
            latencies.add(Duration::from_micros(us));
        }
        Outcome {
            engine: "corun".to_owned(),
            workload: "tpcc standard".to_owned(),
            clients: 10,
            workers: 2,
            wall_s: 1.0,
            tps: new_orders as f64 * 2.0,
            new_orders_per_min: new_orders as f64 * 60.0,
            kinds: vec![KindOutcome {
                kind: NEW_ORDER,
                committed: new_orders,
                rolled_back: 0,
                retried: 3,
                p50_us: us as f64,
                p95_us: us as f64,
                p99_us: us as f64,
                max_us: us as f64,
                latencies,
            }],
            teams: None,
        }
    }

    /// Three rounds: 100 New Orders a second alone, 150 in teams, 80 beside two clients of stock that take 50 ms a query, 90 beside corun's
    /// that take 25 ms.
    pub(in crate::demo) fn result() -> LiveResult {
        let analysts = |milliseconds: f64| {
            let count = (1000.0 / milliseconds) as usize;
            let executions = vec![
                Execution {
                    statement: 0,
                    milliseconds
                };
                count
            ];
            let analyst = Analyst {
                seconds: 1.0,
                executions,
                wrong: Vec::new(),
            };
            vec![analyst.clone(), analyst]
        };
        let mut turns = Vec::new();
        for round in 0..3 {
            for (side, transactions, analysts) in [
                (Side::Alone, outcome(100, 200), Vec::new()),
                (Side::Teams, outcome(150, 100), Vec::new()),
                (Side::Stock, outcome(80, 400), analysts(50.0)),
                (Side::Corun, outcome(90, 300), analysts(25.0)),
            ] {
                turns.push(Turn {
                    side,
                    round,
                    transactions,
                    analysts,
                    violations: Vec::new(),
                });
            }
        }
        LiveResult {
            options: LiveOptions {
                warehouses: 2,
                divisor: 1,
                seconds: 1.0,
                warmup_seconds: 0.1,
                rounds: 3,
                terminals: 10,
                workers: 2,
                clients: 2,
                partitions: 2,
                seed: 1,
            },
            statements: Arc::new(statements(3000)),
            rows: 1_098_000,
            turns,
            closing: Closing {
                answers: 16,
                wrong: Vec::new(),
            },
        }
    }

    fn median(spread: Option<Spread>) -> Option<f64> {
        spread.map(|spread| spread.median)
    }

    #[test]
    fn transactions_are_compared_within_a_round() {
        let summary = LiveSummary::of(&result());
        let of = |side| summary.transactions_of(side).expect("ran");
        let (alone, stock, corun) = (of(Side::Alone), of(Side::Stock), of(Side::Corun));
        assert_eq!(median(alone.new_orders_per_min), Some(6000.0));
        assert_eq!(median(alone.tps), Some(200.0));
        assert_eq!((alone.over_alone, alone.over_stock), (None, None));
        let teams = of(Side::Teams);
        assert_eq!((median(teams.over_alone), teams.over_stock), (Some(1.5), None));
        assert_eq!((median(stock.over_alone), stock.over_stock), (Some(0.8), None));
        assert_eq!(
            (median(corun.over_alone), median(corun.over_stock)),
            (Some(0.9), Some(1.125))
        );
        assert_eq!(
            stock.control.map(|control| (control.n, control.median)),
            Some((2, 1.0))
        );
        assert_eq!(median(stock.retries), Some(3.0));
        assert_eq!(stock.timed, 240);
        let p50 = stock.p50_us.expect("ran");
        assert!((400.0..=407.0).contains(&p50), "{p50}");
        assert_eq!(stock.p50_us, stock.p99_us);
    }

    #[test]
    fn analytic_clients_are_compared_within_a_round() {
        let summary = LiveSummary::of(&result());
        let of = |side| summary.analytics_of(side).expect("ran");
        let (stock, corun) = (of(Side::Stock), of(Side::Corun));
        assert_eq!((median(stock.rate), median(corun.rate)), (Some(40.0), Some(80.0)));
        assert_eq!((stock.over_stock, median(corun.over_stock)), (None, Some(2.0)));
        assert_eq!(stock.latency.map(|latency| latency.p95), Some(50.0));
        assert_eq!(corun.executions, 3 * 80);
        assert!(summary.analytics_of(Side::Alone).is_none());
        assert_eq!(median(summary.statements[0].speed_up), Some(2.0));
        assert_eq!(
            (summary.statements[1].stock_ms, summary.statements[1].speed_up),
            (None, None),
            "never ran"
        );
        assert_eq!((summary.answers, summary.wrong.len()), (3 * 40 + 3 * 80 + 16, 0));
    }

    #[test]
    fn whatever_is_wrong_is_kept() {
        let mut result = result();
        result.turns[2].analysts[0].wrong.push("an answer".to_owned());
        result.turns[3].violations.push("a condition".to_owned());
        result.closing.wrong.push("a closing answer".to_owned());
        assert_eq!(
            LiveSummary::of(&result).wrong,
            ["an answer", "a closing answer", "a condition"]
        );
    }

    #[test]
    fn one_round_has_no_control() {
        let mut result = result();
        result.turns.truncate(Side::ALL.len());
        let summary = LiveSummary::of(&result);
        assert!(
            summary
                .transactions
                .iter()
                .all(|numbers| numbers.control.is_none())
        );
        assert!(summary.analytics.iter().all(|numbers| numbers.control.is_none()));
    }
}
