//! What the turns say: rates and latencies per class, ratios per query, memory. Pure functions over finished turns.
//!
//! Ratios are taken within a round (its stock turn against its corun turn) and reported with their spread over rounds.
//! The control is stock against stock of the round before: what the machine's noise alone does to a ratio.

use super::drive::{ClientRun, Turn};
use super::mix::{Class, Mix};
use super::{DemoResult, Side};
use crate::report::box_plot::Quantiles;
use crate::stats::{Spread, geometric_mean, percentile};

/// One side of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct SideSummary {
    /// Executions a second, one value a round.
    pub rates: Vec<f64>,
    /// Their spread.
    pub rate: Option<Spread>,
    /// Latencies over all rounds, in milliseconds.
    pub latency: Option<Quantiles>,
    /// Executions over all rounds.
    pub executions: usize,
}

/// Both sides of a class of statements.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSummary {
    /// The class.
    pub class: Class,
    /// Stock's numbers.
    pub stock: SideSummary,
    /// Corun's numbers.
    pub corun: SideSummary,
    /// Rate of corun over rate of stock, round by round: above 1 corun did more.
    pub speed_up: Option<Spread>,
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
}

/// The whole demo in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Analytic, then short.
    pub classes: Vec<ClassSummary>,
    /// In the order of the mix.
    pub queries: Vec<QuerySummary>,
    /// Peak memory of a turn above what was live before it, in bytes: stock and corun; zero when not counted.
    pub peak_bytes: [Option<Spread>; 2],
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
        let classes = Class::ALL
            .iter()
            .map(|&class| class_summary(&result.turns, class))
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
            peak_bytes: Side::BOTH.map(|side| {
                let peaks = turns_of(&result.turns, side).map(|turn| turn.peak_bytes as f64);
                Spread::of(&peaks.collect::<Vec<_>>())
            }),
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
    let rates: Vec<f64> = turns_of(turns, side)
        .map(|turn| rate(&turn.clients, class))
        .collect();
    let latencies: Vec<f64> = turns_of(turns, side)
        .flat_map(|turn| &turn.clients)
        .filter(|run| run.class == class)
        .flat_map(|run| run.executions.iter().map(|execution| execution.milliseconds))
        .collect();
    SideSummary {
        rate: Spread::of(&rates),
        rates,
        latency: quantiles(&latencies),
        executions: latencies.len(),
    }
}

fn class_summary(turns: &[Turn], class: Class) -> ClassSummary {
    let stock = side_summary(turns, Side::Stock, class);
    let corun = side_summary(turns, Side::Corun, class);
    let ratio = |above: &[f64], below: &[f64]| {
        let ratios: Vec<f64> = above
            .iter()
            .zip(below)
            .map(|(above, below)| above / below)
            .collect();
        Spread::of(&ratios)
    };
    ClassSummary {
        class,
        speed_up: ratio(&corun.rates, &stock.rates),
        control: stock.rates.get(1..).and_then(|later| ratio(later, &stock.rates)),
        stock,
        corun,
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
    use crate::ssb::Sizes;

    /// Three rounds in which stock takes 20 ms an analytic statement and corun 10 ms, and both 1 ms a short one.
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
            for (side, milliseconds, peak_bytes) in
                [(Side::Stock, 20.0, 4 << 20), (Side::Corun, 10.0, 3 << 20)]
            {
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
        assert_eq!(analytic.stock.rates, [50.0, 50.0, 50.0]);
        assert_eq!(analytic.corun.rate.map(|rate| rate.median), Some(100.0));
        assert_eq!(
            analytic.speed_up,
            Some(Spread {
                n: 3,
                min: 2.0,
                median: 2.0,
                max: 2.0
            })
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
        assert_eq!(analytic.stock.latency.map(|latency| latency.p95), Some(20.0));
        assert_eq!(
            summary
                .class(Class::Short)
                .and_then(|short| short.speed_up)
                .map(|spread| spread.median),
            Some(1.0)
        );
        assert_eq!(summary.wrong, 0);
        assert_eq!(summary.executions, 3 * (50 + 100 + 2 * 1000));
        assert_eq!(
            summary.peak_bytes[0].map(|peak| peak.max),
            Some(f64::from(4 << 20))
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
    fn wrong_answers_are_counted() {
        let mut result = result();
        result.turns[1].clients[0].executions[0].correct = false;
        assert_eq!(Summary::of(&result).wrong, 1);
    }

    #[test]
    fn one_round_has_no_control() {
        let mut result = result();
        result.turns.truncate(2);
        let summary = Summary::of(&result);
        assert_eq!(
            summary.class(Class::Analytic).and_then(|class| class.control),
            None
        );
    }
}
