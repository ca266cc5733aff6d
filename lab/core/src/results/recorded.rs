//! The records the list names, as rows, whatever wrote them.
//!
//! ```text
//!   a line of        key it is known by     becomes
//!   a suite          "suite"                the row itself
//!   turns by hand    "tps", a list          one row a side; for two sides of a case their ratio, round by round
//!   the teams        "example"              one row a side: its ratio to the first side, which is no row
//! ```
//!
//! A ratio of rates is the subject's over the other's, so above 1 the subject is faster, as in every row. Files that are no JSON lines,
//! such as a printed table, have no rows: the list quotes them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value as Json;

use super::ResultsError;
use crate::row::{Label, Row};
use crate::stats::{Spread, pair_ratios};

/// The records, by their names.
pub(super) struct Records(BTreeMap<String, Record>);

/// One file.
#[derive(Default)]
pub(super) struct Record {
    /// Empty where the file is no JSON lines.
    pub(super) rows: Vec<Row>,
    text: String,
}

impl Records {
    /// Reads the files of these names.
    pub(super) fn read(
        names: BTreeSet<&str>,
        read: &dyn Fn(&str) -> Result<String, ResultsError>,
    ) -> Result<Records, ResultsError> {
        let file = |name: &str| Ok((name.to_owned(), Record::parse(name, read(name)?)?));
        names.into_iter().map(file).collect::<Result<_, _>>().map(Records)
    }

    /// The record of that name.
    ///
    /// # Panics
    /// If the name was not among those that were read.
    pub(super) fn get(&self, name: &str) -> &Record {
        &self.0[name]
    }
}

impl Record {
    fn parse(name: &str, text: String) -> Result<Record, ResultsError> {
        let mut rows = Vec::new();
        let mut turns: Vec<Turns> = Vec::new();
        let mut baseline: Option<Side> = None;
        let lines = if name.ends_with(".jsonl") {
            text.as_str()
        } else {
            ""
        };
        for (index, line) in lines.lines().enumerate() {
            let damaged = |source| ResultsError::Line {
                file: name.to_owned(),
                line: index + 1,
                source,
            };
            let keys: Json = serde_json::from_str(line).map_err(|error| damaged(error.into()))?;
            if keys.get("tps").is_some_and(Json::is_array) {
                turns.push(serde_json::from_value(keys).map_err(|error| damaged(error.into()))?);
            } else if keys.get("example").is_some() {
                let side: Side = serde_json::from_value(keys).map_err(|error| damaged(error.into()))?;
                match &baseline {
                    Some(first) if first.arguments == side.arguments => rows.push(side.row(first)),
                    _ => baseline = Some(side),
                }
            } else {
                rows.push(Row::parse(line).map_err(damaged)?);
            }
        }
        rows.extend(turns.iter().filter_map(Turns::rate));
        for subject in &turns {
            rows.extend(turns.iter().filter_map(|other| subject.ratio(other)));
        }
        Ok(Record { rows, text })
    }

    /// How often these words stand in the file; any blank is as good as another.
    pub(super) fn count(&self, words: &str) -> usize {
        fn plain(text: &str) -> String {
            format!(" {} ", text.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        plain(&self.text).matches(&plain(words)).count()
    }
}

/// Rates of one side in a case, round by round, taken by hand.
#[derive(Deserialize)]
struct Turns {
    case: String,
    side: String,
    tps: Vec<f64>,
}

impl Turns {
    /// The rates as a row.
    fn rate(&self) -> Option<Row> {
        let spread = Spread::of(&self.tps)?;
        Some(self.row("tps", "1/s", spread))
    }

    /// The ratio to another side of the case, a pair a round. "x_again" is x once more: their ratio is the control.
    fn ratio(&self, other: &Turns) -> Option<Row> {
        if self.case != other.case || self.side == other.side || self.tps.len() != other.tps.len() {
            return None;
        }
        let spread = Spread::of(&pair_ratios(&other.tps, &self.tps))?;
        let row = self.row("ratio", "x", spread).versus(&other.side);
        Some(if self.side.strip_suffix("_again") == Some(&other.side) {
            row.with("control", "a/a")
        } else {
            row
        })
    }

    /// Nobody checked answers by hand.
    fn row(&self, metric: &str, unit: &str, spread: Spread) -> Row {
        let row =
            Row::measured("by_hand", &self.case, metric, unit, spread, true).with("side", self.side.as_str());
        Row {
            answer_ok: None,
            ..row
        }
    }
}

/// A side of the teams example: its ratio to the first side of the same arguments.
#[derive(Deserialize)]
struct Side {
    arguments: String,
    side: String,
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

impl Side {
    /// The first side once more is the control. The fourth argument is the number of rounds.
    fn row(&self, first: &Side) -> Row {
        let rounds = self.arguments.split(' ').nth(3);
        let row = Row {
            suite: "teams".to_owned(),
            case: self.arguments.clone(),
            metric: "ratio".to_owned(),
            unit: "x".to_owned(),
            spread: Some(Spread {
                n: rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1),
                min: self.ratio_min,
                median: self.ratio,
                max: self.ratio_max,
            }),
            answer_ok: None,
            label: Label::Measured,
            versus: Some(first.side.clone()),
            parameters: Vec::new(),
        };
        let row = row.with("side", self.side.as_str());
        if self.side == first.side {
            row.with("control", "a/a")
        } else {
            row
        }
    }
}
