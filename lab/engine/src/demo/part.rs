//! The rows of a part of the demo: what both parts say of clients and statements, and what only figures need.

use lab_core::row::{Row, Value};
use lab_core::stats::{Spread, percentile};

use super::mix::Class;
use super::turns::Turns;

/// The suite of the rows.
pub const SUITE: &str = "demo";

/// Most texts about wrong answers that figures show.
const WRONG_SHOWN_MAX: usize = 20;

/// The rows of a part, and what was wrong.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Rows that `--json` prints.
    pub rows: Vec<Row>,
    /// Rows that only figures show: what ran, single rounds, quantiles.
    pub shown: Vec<Row>,
    /// Answers that were checked.
    pub answers: usize,
    /// What was wrong, one text each.
    pub wrong: Vec<String>,
    /// The last parameters of every row.
    options: Vec<(String, Value)>,
}

/// Whom rows are about: their case and first parameters.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The case.
    pub case: String,
    /// The parameters.
    pub keys: Vec<(String, Value)>,
}

impl Subject {
    /// A case with parameters.
    pub fn new(case: &str, keys: &[(&str, &str)]) -> Subject {
        Subject {
            case: case.to_owned(),
            keys: keys
                .iter()
                .map(|&(key, value)| (key.to_owned(), Value::from(value)))
                .collect(),
        }
    }

    /// The same with one more parameter.
    pub fn with(mut self, key: &str, value: &str) -> Subject {
        self.keys.push((key.to_owned(), Value::from(value)));
        self
    }
}

impl Part {
    /// A part without rows. `ran` says what ran, for figures.
    pub fn new(
        answers: usize,
        wrong: Vec<String>,
        options: Vec<(String, Value)>,
        case: &str,
        ran: &[(&str, Value)],
    ) -> Part {
        let mut part = Part {
            answers,
            wrong,
            options,
            ..Part::default()
        };
        let row = part.row(
            &Subject::new(case, &[]),
            "answers",
            "count",
            Spread::one(answers as f64),
        );
        let row = row.with("wrong", part.wrong.len());
        let ran = ran.iter().cloned();
        part.shown
            .push(ran.fold(row, |row, (key, value)| row.with(key, value)));
        for text in part.wrong.iter().take(WRONG_SHOWN_MAX) {
            let row = part.row(&Subject::new(case, &[]), "wrong", "count", Spread::one(1.0));
            part.shown.push(row.with("text", text.as_str()));
        }
        part
    }

    /// All rows, for figures. Those that only figures show stand first: they know every statement.
    pub fn figure_rows(&self) -> impl Iterator<Item = Row> {
        self.shown.iter().chain(&self.rows).cloned()
    }

    fn row(&self, subject: &Subject, metric: &str, unit: &str, spread: Spread) -> Row {
        Row::measured(SUITE, &subject.case, metric, unit, spread, self.wrong.is_empty())
            .with_all(&subject.keys)
            .with_all(&self.options)
    }

    /// A number, if there is one.
    pub fn push(&mut self, subject: &Subject, metric: &str, unit: &str, spread: Option<Spread>) {
        let row = spread.map(|spread| self.row(subject, metric, unit, spread));
        self.rows.extend(row);
    }

    /// A ratio to another side, if there is one.
    pub fn push_ratio(&mut self, subject: &Subject, spread: Option<Spread>, versus: &str) {
        let row = spread.map(|spread| self.row(subject, "ratio", "x", spread).versus(versus));
        self.rows.extend(row);
    }

    /// A number that only figures show, with further parameters.
    pub fn show(
        &mut self,
        subject: &Subject,
        (metric, unit): (&str, &str),
        spread: Spread,
        keys: &[(&str, Value)],
    ) {
        let row = self.row(subject, metric, unit, spread);
        let row = keys
            .iter()
            .cloned()
            .fold(row, |row, (key, value)| row.with(key, value));
        self.shown.push(row);
    }

    /// A number of each round, for figures.
    pub fn show_rounds(&mut self, subject: &Subject, unit: &str, numbers: &[f64]) {
        for (round, &number) in (1_usize..).zip(numbers) {
            let round = [("round", Value::from(round))];
            self.show(subject, ("by_round", unit), Spread::one(number), &round);
        }
    }

    /// Rate and latencies of the clients of a class on a side.
    pub fn push_clients<S: Copy + PartialEq, M>(
        &mut self,
        subject: &Subject,
        turns: &Turns<'_, S, M>,
        side: S,
        class: Class,
    ) {
        let (rates, latencies) = (turns.rates(side, class), turns.latencies(side, class));
        self.push(subject, "queries_per_s", "1/s", Spread::of(&rates));
        let Some(spread) = Spread::of(&latencies) else {
            return;
        };
        let at = |percent| percentile(&latencies, percent).unwrap_or(f64::NAN);
        // One quantile over all rounds is one number, a spread of itself.
        let single = |percent| of_many(at(percent), latencies.len());
        self.push(subject, "p50_ms", "ms", Some(single(50.0)));
        self.push(subject, "p95_ms", "ms", Some(single(95.0)));
        self.show_rounds(subject, "1/s", &rates);
        let quantiles = [("p05", 5.0), ("p25", 25.0), ("p75", 75.0), ("p95", 95.0)];
        let quantiles = quantiles.map(|(key, percent)| (key, Value::from(at(percent))));
        let spread = Spread {
            median: at(50.0),
            ..spread
        };
        self.show(subject, ("latency", "ms"), spread, &quantiles);
    }

    /// How long statements took on two sides; returns the speed-up. Figures get a row even if they never ran, with the parameters `known`.
    pub fn push_statement<S: Copy + PartialEq, M>(
        &mut self,
        subjects: [&Subject; 2],
        versus: &str,
        turns: &Turns<'_, S, M>,
        sides: [S; 2],
        is_meant: impl Fn(usize) -> bool,
        known: &[(&str, Value)],
    ) -> Option<f64> {
        let times = turns.statement(sides, is_meant);
        for (subject, ms) in subjects.into_iter().zip(times.ms) {
            self.push(subject, "ms", "ms", ms.map(Spread::one));
        }
        let [_, corun] = subjects;
        self.push_ratio(corun, times.speed_up, versus);
        match times.speed_up {
            Some(speed_up) => self.show(corun, ("speed_up", "x"), speed_up, known),
            None => {
                let row = Row::unavailable(SUITE, &corun.case, "speed_up", "x", "it never ran on both sides");
                self.shown.push(row.with_all(&corun.keys));
            }
        }
        times.speed_up.map(|spread| spread.median)
    }
}

/// A number made of `n` values, as a spread of itself.
pub fn of_many(value: f64, n: usize) -> Spread {
    Spread {
        n,
        ..Spread::one(value)
    }
}
