//! What the turns say: rates and latencies per class, ratios per query, memory. Pure functions over finished turns.
//!
//! Ratios are taken within a round (its stock turn against its corun turn) and reported with their spread over rounds.
//! The control is stock against stock of the round before: what the machine's noise alone does to a ratio.

use corun_model::cache::coschedule::PolicyName;

use super::drive::{ClientRun, Turn};
use super::mix::{Class, Mix};
use super::{DemoResult, Side};
use lab_core::report::box_plot::Quantiles;
use lab_core::stats::{Spread, geometric_mean, percentile};

/// One side of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct SideSummary {
    /// The side.
    pub side: Side,
    /// Executions a second, one value a round.
    pub rates: Vec<f64>,
    /// Their spread.
    pub rate: Option<Spread>,
    /// Latencies over all rounds, in milliseconds.
    pub latency: Option<Quantiles>,
    /// Executions over all rounds.
    pub executions: usize,
    /// Its rate over stock's, round by round: above 1 it did more. `None` for stock.
    pub speed_up: Option<Spread>,
    /// Its rate over that of the coordinator that starts queries in order of arrival; `None` without coordinator.
    pub over_fifo: Option<Spread>,
}

/// All sides of a class of statements.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSummary {
    /// The class.
    pub class: Class,
    /// The sides that ran, stock first.
    pub sides: Vec<SideSummary>,
    /// Rate of stock over rate of stock in the round before; `None` with one round.
    pub control: Option<Spread>,
}

/// One name of the mix.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySummary {
    /// The name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Median milliseconds over all rounds; `None` when it never ran.
    pub stock_ms: Option<f64>,
    /// The same on corun.
    pub corun_ms: Option<f64>,
    /// Median of stock over median of corun, over the rounds in which both ran it.
    pub speed_up: Option<Spread>,
    /// Joins of corun's in its plan, if known.
    pub corun_joins: Option<usize>,
}

impl QuerySummary {
    /// Why it is below 1, as far as that is known; `None` if it is not.
    pub fn loss(&self) -> Option<String> {
        let ratio = self.speed_up.filter(|ratio| ratio.median < 1.0)?;
        let why = match self.corun_joins {
            _ if ratio.max >= 1.0 => "undecided, other rounds are on the other side of 1".to_owned(),
            Some(0) => "its plan is the same on both sides, so it lost to what ran beside it: queries that end sooner are \
                        followed by others that use caches and memory"
                .to_owned(),
            Some(1) => "slower in every round, with one of corun's joins in its plan".to_owned(),
            Some(joins) => format!("slower in every round, with {joins} of corun's joins in its plan"),
            None => "slower in every round".to_owned(),
        };
        Some(format!(
            "{}, {:.2}x ({:.2} to {:.2}): {why}.",
            self.name, ratio.median, ratio.min, ratio.max
        ))
    }
}

/// The whole demo in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Analytic, then short.
    pub classes: Vec<ClassSummary>,
    /// In the order of the mix.
    pub queries: Vec<QuerySummary>,
    /// Peak memory of each side's turns above what was live before them, in bytes; zero when not counted.
    pub peak_bytes: Vec<(Side, Spread)>,
    /// Executions whose answer was wrong.
    pub wrong: usize,
    /// All executions.
    pub executions: usize,
    /// Geometric mean of the analytic queries' median speed-ups.
    pub analytic_mean: Option<f64>,
}

impl Summary {
    /// Summarises a demo.
    pub fn of(result: &DemoResult) -> Summary {
        let sides = result.options.sides();
        let classes = Class::ALL
            .iter()
            .map(|&class| class_summary(&result.turns, &sides, class))
            .collect();
        let queries: Vec<QuerySummary> = Class::ALL
            .iter()
            .flat_map(|&class| result.mix.names(class).into_iter().map(move |name| (class, name)))
            .map(|(class, name)| query_summary(&result.turns, &result.mix, class, name))
            .collect();
        let analytic: Vec<f64> = queries
            .iter()
            .filter(|query| query.class == Class::Analytic)
            .filter_map(|query| query.speed_up.map(|spread| spread.median))
            .collect();
        let executions = || {
            result
                .turns
                .iter()
                .flat_map(|turn| &turn.clients)
                .flat_map(|run| &run.executions)
        };
        Summary {
            classes,
            peak_bytes: sides
                .iter()
                .filter_map(|&side| {
                    let peaks = turns_of(&result.turns, side).map(|turn| turn.peak_bytes as f64);
                    Some((side, Spread::of(&peaks.collect::<Vec<_>>())?))
                })
                .collect(),
            wrong: executions().filter(|execution| !execution.correct).count(),
            executions: executions().count(),
            analytic_mean: geometric_mean(&analytic),
            queries,
        }
    }

    /// The summary of a class.
    pub fn class(&self, class: Class) -> Option<&ClassSummary> {
        self.classes.iter().find(|summary| summary.class == class)
    }
}

impl ClassSummary {
    /// The numbers of one side; `None` if it did not run.
    pub fn side(&self, side: Side) -> Option<&SideSummary> {
        self.sides.iter().find(|numbers| numbers.side == side)
    }

    /// Whether any of its statements ran.
    pub fn ran(&self) -> bool {
        self.sides.iter().any(|numbers| numbers.executions > 0)
    }
}

fn turns_of(turns: &[Turn], side: Side) -> impl Iterator<Item = &Turn> {
    turns.iter().filter(move |turn| turn.side == side)
}

/// Executions a second of a class: the sum of its clients' own rates.
fn rate(clients: &[ClientRun], class: Class) -> f64 {
    clients
        .iter()
        .filter(|run| run.class == class && run.seconds > 0.0)
        .map(|run| run.executions.len() as f64 / run.seconds)
        .sum()
}

fn side_summary(turns: &[Turn], side: Side, class: Class) -> SideSummary {
    let rates = rates(turns, side, class);
    let latencies: Vec<f64> = turns_of(turns, side)
        .flat_map(|turn| &turn.clients)
        .filter(|run| run.class == class)
        .flat_map(|run| run.executions.iter().map(|execution| execution.milliseconds))
        .collect();
    let over = |other: Side| ratios(&rates, &self::rates(turns, other, class));
    let fifo = Side::Policy(PolicyName::Fifo);
    SideSummary {
        side,
        rate: Spread::of(&rates),
        latency: quantiles(&latencies),
        executions: latencies.len(),
        speed_up: (side != Side::Stock).then(|| over(Side::Stock)).flatten(),
        over_fifo: matches!(side, Side::Policy(_)).then(|| over(fifo)).flatten(),
        rates,
    }
}

/// Rates of a side by round.
fn rates(turns: &[Turn], side: Side, class: Class) -> Vec<f64> {
    let mut rates: Vec<(usize, f64)> = turns_of(turns, side)
        .map(|turn| (turn.round, rate(&turn.clients, class)))
        .collect();
    rates.sort_by_key(|(round, _)| *round);
    rates.into_iter().map(|(_, rate)| rate).collect()
}

/// Ratios round by round.
fn ratios(above: &[f64], below: &[f64]) -> Option<Spread> {
    let pairs = above.iter().zip(below);
    Spread::of(&pairs.map(|(above, below)| above / below).collect::<Vec<_>>())
}

fn class_summary(turns: &[Turn], sides: &[Side], class: Class) -> ClassSummary {
    let stock = rates(turns, Side::Stock, class);
    ClassSummary {
        class,
        control: stock.get(1..).and_then(|later| ratios(later, &stock)),
        sides: sides
            .iter()
            .map(|&side| side_summary(turns, side, class))
            .collect(),
    }
}

fn query_summary(turns: &[Turn], mix: &Mix, class: Class, name: &str) -> QuerySummary {
    let times = |turn: &Turn| -> Vec<f64> {
        turn.clients
            .iter()
            .flat_map(|run| &run.executions)
            .filter(|execution| mix.statements[execution.statement].name == name)
            .map(|execution| execution.milliseconds)
            .collect()
    };
    let median = |times: &[f64]| Spread::of(times).map(|spread| spread.median);
    let overall = |side: Side| median(&turns_of(turns, side).flat_map(times).collect::<Vec<_>>());
    let ratios: Vec<f64> = turns_of(turns, Side::Stock)
        .filter_map(|stock| {
            let corun = turns_of(turns, Side::Corun).find(|turn| turn.round == stock.round)?;
            Some(median(&times(stock))? / median(&times(corun))?)
        })
        .collect();
    QuerySummary {
        name: name.to_owned(),
        class,
        stock_ms: overall(Side::Stock),
        corun_ms: overall(Side::Corun),
        speed_up: Spread::of(&ratios),
        corun_joins: mix.corun_joins.get(name).copied(),
    }
}

/// The quantiles a box is drawn from; `None` for no values.
pub fn quantiles(values: &[f64]) -> Option<Quantiles> {
    let at = |percent: f64| percentile(values, percent);
    Some(Quantiles {
        p05: at(5.0)?,
        p25: at(25.0)?,
        p50: at(50.0)?,
        p75: at(75.0)?,
        p95: at(95.0)?,
        max: at(100.0)?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::demo::DemoOptions;
    use crate::demo::drive::Execution;
    use corun_workloads::ssb::Sizes;

    /// Three rounds in which stock takes 20 ms an analytic statement, corun 10 ms, with a coordinator 8 (`fifo`) and 5 ms
    /// (`learned`), and all 1 ms a short one.
    pub(in crate::demo) fn result() -> DemoResult {
        let mix = Arc::new(Mix::new(1, &Sizes::at(0.01).expect("valid")));
        let run = |class: Class, milliseconds: f64| {
            let statement = mix.of_class(class)[0];
            let count = (1000.0 / milliseconds) as usize;
            ClientRun {
                class,
                seconds: 1.0,
                executions: vec![
                    Execution {
                        statement,
                        milliseconds,
                        correct: true
                    };
                    count
                ],
            }
        };
        let mut turns = Vec::new();
        for round in 0..3 {
            for (side, milliseconds, peak_bytes) in [
                (Side::Stock, 20.0, 4 << 20),
                (Side::Corun, 10.0, 3 << 20),
                (Side::Policy(PolicyName::Fifo), 8.0, 3 << 20),
                (Side::Policy(PolicyName::Learned), 5.0, 3 << 20),
            ] {
                let clients = vec![run(Class::Analytic, milliseconds), run(Class::Short, 1.0)];
                turns.push(Turn {
                    side,
                    round,
                    clients,
                    peak_bytes,
                });
            }
        }
        let options = DemoOptions {
            scale: 0.01,
            seconds: 1.0,
            rounds: 3,
            clients: 1,
            short_clients: 1,
            seed: 1,
            partitions: 2,
            policies: vec![PolicyName::Fifo, PolicyName::Learned],
        };
        DemoResult {
            options,
            mix,
            data_rows: 60_000,
            data_bytes: 4 << 20,
            turns,
        }
    }

    #[test]
    fn rates_ratios_and_latencies() {
        let summary = Summary::of(&result());
        let analytic = summary.class(Class::Analytic).expect("ran");
        let side = |side| analytic.side(side).expect("ran");
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        assert_eq!(side(Side::Stock).rates, [50.0, 50.0, 50.0]);
        assert_eq!(side(Side::Stock).speed_up, None);
        assert_eq!(median(side(Side::Corun).rate), Some(100.0));
        assert_eq!(
            side(Side::Corun).speed_up,
            Some(Spread {
                n: 3,
                min: 2.0,
                median: 2.0,
                max: 2.0
            })
        );
        assert_eq!(side(Side::Corun).over_fifo, None);
        let learned = side(Side::Policy(PolicyName::Learned));
        assert_eq!(
            (median(learned.speed_up), median(learned.over_fifo)),
            (Some(4.0), Some(1.6))
        );
        assert_eq!(
            analytic.control,
            Some(Spread {
                n: 2,
                min: 1.0,
                median: 1.0,
                max: 1.0
            })
        );
        assert_eq!(side(Side::Stock).latency.map(|latency| latency.p95), Some(20.0));
        let short = summary
            .class(Class::Short)
            .and_then(|short| short.side(Side::Corun)?.speed_up);
        assert_eq!(median(short), Some(1.0));
        assert_eq!(summary.wrong, 0);
        assert_eq!(summary.executions, 3 * (50 + 100 + 125 + 200 + 4 * 1000));
        assert_eq!(
            summary.peak_bytes.first().map(|(side, peak)| (*side, peak.max)),
            Some((Side::Stock, f64::from(4 << 20)))
        );
    }

    #[test]
    fn queries_that_never_ran_have_no_numbers() {
        let summary = Summary::of(&result());
        assert_eq!(summary.queries[0].speed_up.map(|spread| spread.median), Some(2.0));
        assert_eq!(
            (summary.queries[1].stock_ms, summary.queries[1].speed_up),
            (None, None)
        );
        assert_eq!(summary.analytic_mean, Some(2.0), "over the queries that ran");
    }

    #[test]
    fn a_query_below_1_says_why_as_far_as_that_is_known() {
        let mut query = Summary::of(&result()).queries.swap_remove(0);
        assert_eq!(query.loss(), None);
        let spread = |min, median, max| {
            Some(Spread {
                n: 3,
                min,
                median,
                max,
            })
        };
        query.speed_up = spread(0.8, 0.9, 1.1);
        query.corun_joins = Some(0);
        assert!(
            query
                .loss()
                .expect("below 1")
                .contains("0.90x (0.80 to 1.10): undecided")
        );
        query.speed_up = spread(0.8, 0.9, 0.95);
        assert!(query.loss().expect("below 1").contains("beside it"));
        query.corun_joins = Some(2);
        assert!(
            query
                .loss()
                .expect("below 1")
                .ends_with("with 2 of corun's joins in its plan.")
        );
    }

    #[test]
    fn wrong_answers_are_counted() {
        let mut result = result();
        result.turns[1].clients[0].executions[0].correct = false;
        assert_eq!(Summary::of(&result).wrong, 1);
    }

    #[test]
    fn one_round_has_no_control() {
        let mut result = result();
        result.turns.truncate(4);
        let summary = Summary::of(&result);
        assert_eq!(
            summary.class(Class::Analytic).and_then(|class| class.control),
            None
        );
    }
}
