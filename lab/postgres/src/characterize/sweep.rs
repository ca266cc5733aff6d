//! [`sweep`]: a workload at growing concurrency, and the rows of its times (Figs. 3a and 8).
//!
//! Each round takes every concurrency once, so that whatever changes on the machine meanwhile changes all of them. A turn is one run of
//! `pgbench`: so many clients, each with so many queries one after the other. Around each turn [`Watch`]es look at the server.
//!
//! Not here: what watches see.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::SUITE;
use super::dbmbench::Summary;
use super::rows::SPEEDUP;
use super::server::Server;
use super::workload::Workload;
use crate::fixture::pgbench::{self, Duty, Goal, Load, Protocol, Script};
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::{Spread, percentile};

/// Longest a turn may take.
const GRACE: Duration = Duration::from_secs(3_600);
/// A query is an outlier if it took longer than the third quartile by so many distances between the quartiles (Tukey's far-out fence).
const FAR_OUT: f64 = 3.0;

/// What is swept over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Clients at once, growing.
    pub concurrency: Vec<usize>,
    /// Turns at each.
    pub repetitions: usize,
    /// `on`, `off` or `none`.
    pub smt: &'static str,
}

/// What one turn gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Queries of all clients.
    pub queries: u64,
    /// Queries a second, clients being connected.
    pub rate: f64,
    /// Milliseconds of each.
    pub times_ms: Vec<f64>,
}

/// Looks at the server during turns.
pub trait Watch {
    /// A turn begins.
    fn begin(&mut self) -> Result<(), BenchError>;

    /// It has ended. What was seen: metric, unit, value, and what tells several values of a metric apart.
    fn end(&mut self, turn: &Turn) -> Result<Vec<Seen>, BenchError>;
}

/// A value that a watch has seen in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The row's case.
    pub case: &'static str,
    /// The row's metric.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
    /// How it came about.
    pub how: &'static str,
    /// Another parameter, such as a logical CPU.
    pub of: Option<(&'static str, String)>,
}

impl Seen {
    /// A value that is the only one of its metric.
    pub fn new(
        case: &'static str,
        metric: &'static str,
        unit: &'static str,
        value: f64,
        how: &'static str,
    ) -> Seen {
        Seen {
            case,
            metric,
            unit,
            value,
            how,
            of: None,
        }
    }

    /// One of several, told apart by a parameter.
    pub fn of(self, parameter: &'static str, value: impl ToString) -> Seen {
        Seen {
            of: Some((parameter, value.to_string())),
            ..self
        }
    }

    fn is_like(&self, other: &Seen) -> bool {
        (self.case, self.metric, &self.of) == (other.case, other.metric, &other.of)
    }

    /// The row of this value, or of several like it.
    pub fn row(&self, spread: Spread) -> Row {
        let row = Row::measured(SUITE, self.case, self.metric, self.unit, spread, true);
        let row = row.with("how", self.how);
        match &self.of {
            Some((name, value)) => row.with(name, value.as_str()),
            None => row,
        }
    }
}

/// What all turns share.
#[derive(Clone, Copy)]
pub struct Stand<'s> {
    /// Who is asked.
    pub server: &'s Server,
    /// An empty folder for pgbench.
    pub folder: &'s Path,
    /// Who is told.
    pub progress: &'s dyn Progress,
    /// Whether somebody has asked to stop.
    pub stop: &'s AtomicBool,
}

impl Stand<'_> {
    /// Whether to go on.
    ///
    /// # Errors
    /// When somebody has asked to stop.
    pub fn go_on(&self) -> Result<(), BenchError> {
        // Relaxed: the flag says all there is to say.
        match self.stop.load(Ordering::Relaxed) {
            true => Err(BenchError::Interrupted),
            false => Ok(()),
        }
    }
}

/// One turn of a workload: so many clients with so many queries each.
pub fn turn(
    stand: &Stand<'_>,
    workload: &Workload,
    clients: usize,
    times: usize,
    seed: usize,
) -> Result<Turn, BenchError> {
    let script = Script::Weighted {
        files: vec![(workload.script.clone(), 1)],
        variables: Vec::new(),
    };
    let load = Load {
        options: workload.options(),
        grace: GRACE,
        ..Load::new(script, Protocol::Simple, clients, Duty::Transactions(times))
    };
    let program = stand.server.programs.path("pgbench");
    let goal = Goal::Conninfo(&stand.server.conninfo);
    let (found, logged) = pgbench::run_logged(&program, &load, goal, seed, stand.folder)?;
    Ok(Turn {
        queries: found.transactions,
        rate: found.tps,
        times_ms: logged.iter().map(|one| one.us / 1e3).collect(),
    })
}

/// Sweeps. Rows come at the end, of all turns there were until then, whatever ended them. Answers the rates of all turns of each concurrency.
///
/// # Errors
/// When the server fails, an answer is wrong, or somebody has asked to stop.
pub fn sweep(
    stand: &Stand<'_>,
    workload: &Workload,
    how: &Sweep,
    summary: Option<&Summary>,
    watches: &mut [&mut dyn Watch],
    emit: &mut dyn FnMut(Row),
) -> Result<Vec<Vec<f64>>, BenchError> {
    stand.progress.begin(
        &format!("characterize: {} at growing concurrency", workload.name),
        (how.repetitions * how.concurrency.len()) as u64 + 1,
    );
    let mut levels = vec![Level::default(); how.concurrency.len()];
    let mut wrong = None;
    let ended = rounds(stand, workload, how, summary, watches, &mut levels, &mut wrong);
    stand.progress.end();
    let answer_ok = summary.map(|_| wrong.is_none());
    emit_levels(
        &workload.name,
        how.smt,
        &how.concurrency,
        &levels,
        answer_ok,
        emit,
    );
    ended?;
    match wrong {
        Some(wrong) => Err(BenchError::Data(format!("wrong answer: {wrong}"))),
        None => Ok(levels.iter().map(Level::rates).collect()),
    }
}

/// The rows of all concurrencies, and how they compare with one client.
pub(super) fn emit_levels(
    workload: &str,
    smt: &str,
    concurrency: &[usize],
    levels: &[Level],
    answer_ok: Option<bool>,
    emit: &mut dyn FnMut(Row),
) {
    let identified = |row: Row| row.with("workload", workload).with("smt", smt);
    for (clients, level) in concurrency.iter().zip(levels) {
        for row in level.rows() {
            let mut row = identified(row).with("concurrency", *clients);
            row.answer_ok = answer_ok;
            emit(row);
        }
    }
    for row in scaling(concurrency, levels) {
        emit(identified(row));
    }
}

fn rounds(
    stand: &Stand<'_>,
    workload: &Workload,
    how: &Sweep,
    summary: Option<&Summary>,
    watches: &mut [&mut dyn Watch],
    levels: &mut [Level],
    wrong: &mut Option<String>,
) -> Result<(), BenchError> {
    let server = stand.server;
    if let Some(summary) = summary {
        *wrong = workload.compare(server, summary)?;
    }
    // Warm-up: what it reads comes into memory, as in the paper's section 3.2.
    turn(stand, workload, 1, workload.times.min(10), 1)?;
    stand.progress.advance(1);
    for round in 0..how.repetitions {
        for (level, &clients) in levels.iter_mut().zip(&how.concurrency) {
            stand.go_on()?;
            workload.clear(server)?;
            for watch in watches.iter_mut() {
                watch.begin()?;
            }
            let turn = turn(stand, workload, clients, workload.times, 2 + round)?;
            for watch in watches.iter_mut() {
                level.seen.extend(watch.end(&turn)?);
            }
            if let Some(summary) = summary {
                let found = workload.check(server, summary, turn.queries)?;
                *wrong = wrong.take().or(found);
            }
            level.turns.push(turn);
            stand.progress.advance(1);
        }
    }
    workload.clear(server)
}

/// All turns at one concurrency.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub turns: Vec<Turn>,
    pub seen: Vec<Seen>,
}

impl Level {
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.rate).collect()
    }

    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let means: Vec<f64> = self
            .turns
            .iter()
            .filter_map(|turn| mean(&turn.times_ms))
            .collect();
        let all: Vec<f64> = self.turns.iter().flat_map(|turn| turn.times_ms.clone()).collect();
        let timed = |metric, unit, values: &[f64]| {
            let row = Row::measured(SUITE, SPEEDUP, metric, unit, Spread::of(values)?, true);
            Some(row.with("how", "clock"))
        };
        rows.extend(timed("ms_per_query", "ms", &means).map(|row| row.with("outliers", outliers(&all))));
        rows.extend(timed("queries_per_s", "1/s", &self.rates()));
        let mut left: Vec<&Seen> = self.seen.iter().collect();
        while let Some(&first) = left.first() {
            let values: Vec<f64> = left
                .iter()
                .filter(|seen| seen.is_like(first))
                .map(|seen| seen.value)
                .collect();
            left.retain(|seen| !seen.is_like(first));
            rows.extend(Spread::of(&values).map(|spread| first.row(spread)));
        }
        rows
    }
}

/// The rate of each concurrency over that of one client alone.
fn scaling(concurrency: &[usize], levels: &[Level]) -> Vec<Row> {
    let Some(alone) = concurrency.iter().position(|&clients| clients == 1) else {
        return Vec::new();
    };
    let row = |(clients, level): (&usize, &Level)| {
        // Of the rounds that both were in.
        let pairs = level.turns.iter().zip(&levels[alone].turns);
        let ratios: Vec<f64> = pairs.map(|(turn, one)| turn.rate / one.rate).collect();
        let row = Row::measured(SUITE, SPEEDUP, "ratio", "x", Spread::of(&ratios)?, true);
        Some(
            row.with("how", "clock")
                .versus("alone")
                .with("concurrency", *clients),
        )
    };
    concurrency.iter().zip(levels).filter_map(row).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// How many of these are far out.
fn outliers(times: &[f64]) -> usize {
    let (Some(first), Some(third)) = (percentile(times, 25.0), percentile(times, 75.0)) else {
        return 0;
    };
    let fence = third + FAR_OUT * (third - first);
    times.iter().filter(|&&time| time > fence).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(rate: f64) -> Turn {
        Turn {
            queries: 4,
            rate,
            times_ms: vec![1.0, 1.0, 1.1, 9.0],
        }
    }

    #[test]
    fn a_level_says_times_rates_and_what_was_seen() {
        let seen = |value: f64, cpu: &str| {
            Seen::new("distribution", "busy_ms", "ms", value, "kernel").of("cpu", cpu)
        };
        let level = Level {
            turns: vec![turn(100.0), turn(120.0), turn(110.0)],
            seen: vec![seen(1.0, "0"), seen(5.0, "1"), seen(3.0, "0")],
        };
        let rows = level.rows();
        let of = |metric: &str| rows.iter().filter(|row| row.metric == metric).collect::<Vec<_>>();
        assert_eq!(of("ms_per_query")[0].number("outliers"), Some(3.0));
        assert_eq!(of("queries_per_s")[0].median(), Some(110.0));
        let busy = of("busy_ms");
        assert_eq!(busy.len(), 2);
        assert_eq!((busy[0].median(), busy[0].text("cpu")), (Some(2.0), "0"));
    }

    #[test]
    fn scaling_is_to_one_client_of_the_same_round() {
        let level = |rates: [f64; 2]| Level {
            turns: rates.map(turn).to_vec(),
            seen: Vec::new(),
        };
        let levels = [level([100.0, 50.0]), level([150.0, 100.0])];
        let rows = scaling(&[1, 4], &levels);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].median(), Some(1.75));
        assert!(scaling(&[2, 4], &levels).is_empty());
    }
}
