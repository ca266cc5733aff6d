//! One row of a benchmark: the stable keys of every `corun-lab bench` suite, and how they become a JSON line or table cells.
//!
//! Suites build rows with [`Row::measured`] or [`Row::unavailable`], add parameters with [`Row::with`] and hand them to
//! an `emit` callback; the program prints them and [`crate::record`] keeps them; [`Row::parse`] reads them back. This module prints
//! nothing and measures nothing.

pub mod file;
mod parse;

pub use parse::RowError;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::stats::Spread;

/// How a number came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Timed or counted on this machine in this run.
    Measured,
    /// Computed by a model of a machine.
    Simulated,
    /// Not obtainable here; the row's `reason` parameter says why.
    Unavailable,
}

impl Label {
    /// The word used in JSON, tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Label::Measured => "measured",
            Label::Simulated => "simulated",
            Label::Unavailable => "unavailable",
        }
    }
}

/// The value of one parameter of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name, such as an engine's.
    Text(String),
    /// A count, such as rows or threads.
    Integer(i64),
    /// A real number, such as a scale factor.
    Number(f64),
    /// A yes or no, such as a verdict.
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Integer(integer) => write!(f, "{integer}"),
            Value::Number(number) => write!(f, "{}", round_significant(*number)),
            Value::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Integer(integer) => serializer.serialize_i64(*integer),
            Value::Number(number) => serializer.serialize_f64(round_significant(*number)),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Value::Integer(integer)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

/// Keys every row has; a parameter may not take one of these names.
const FIXED_KEYS: [&str; 11] = [
    "suite",
    "case",
    "metric",
    "unit",
    "n",
    "min",
    "median",
    "max",
    "answer_ok",
    "label",
    "versus",
];

/// One benchmark row.
///
/// ```
/// use lab_core::row::Row;
/// use lab_core::stats::Spread;
/// let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
/// let row = Row::measured("join", "dense_10k", "ns_per_probe_row", "ns", spread, true).with("threads", 2usize);
/// assert_eq!(
///     row.to_json(),
///     r#"{"suite":"join","case":"dense_10k","metric":"ns_per_probe_row","unit":"ns","n":3,"min":1.0,"median":2.0,"max":3.0,"answer_ok":true,"label":"measured","threads":2}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The suite: `floor`, `join`, `aggregate`, `ssb`, `tpch`, `tpcds`, `h2o`, `smt`, `llc`, `oltp`, `steps`, `proxy`, `caric`, `mcc`, `characterize`.
    pub suite: String,
    /// The case within the suite; `--case` selects by it.
    pub case: String,
    /// What was measured, a name with its unit inside where it has one (`ns_per_line`, `ratio`).
    pub metric: String,
    /// Unit of `min`, `median`, `max`.
    pub unit: String,
    /// Repetitions (or pairs, for a ratio) and their spread; `None` where the label is unavailable.
    pub spread: Option<Spread>,
    /// Whether every repetition's answer equalled the oracle's; `None` where nothing ran.
    pub answer_ok: Option<bool>,
    /// How the number came about.
    pub label: Label,
    /// The other side of a comparison: a ratio above 1 means that corun was faster than it.
    pub versus: Option<String>,
    /// The suite's parameters in the order they are written; flattened into the JSON object.
    pub parameters: Vec<(String, Value)>,
}

impl Row {
    /// A row of numbers measured here.
    pub fn measured(
        suite: &str,
        case: &str,
        metric: &str,
        unit: &str,
        spread: Spread,
        answer_ok: bool,
    ) -> Row {
        Row {
            suite: suite.to_string(),
            case: case.to_string(),
            metric: metric.to_string(),
            unit: unit.to_string(),
            spread: Some(spread),
            answer_ok: Some(answer_ok),
            label: Label::Measured,
            versus: None,
            parameters: Vec::new(),
        }
    }

    /// A row of numbers that a model of a machine gave.
    pub fn simulated(
        suite: &str,
        case: &str,
        metric: &str,
        unit: &str,
        spread: Spread,
        answer_ok: bool,
    ) -> Row {
        Row {
            label: Label::Simulated,
            ..Row::measured(suite, case, metric, unit, spread, answer_ok)
        }
    }

    /// A row that says that a number cannot be had here, with the reason.
    pub fn unavailable(suite: &str, case: &str, metric: &str, unit: &str, reason: &str) -> Row {
        Row {
            suite: suite.to_string(),
            case: case.to_string(),
            metric: metric.to_string(),
            unit: unit.to_string(),
            spread: None,
            answer_ok: None,
            label: Label::Unavailable,
            versus: None,
            parameters: vec![("reason".to_string(), Value::from(reason))],
        }
    }

    /// Adds a parameter, or replaces one of the same name.
    ///
    /// # Panics
    /// If `key` is one of the keys every row has: the JSON object would have it twice.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Row {
        assert!(!FIXED_KEYS.contains(&key), "{key} is a key of every row");
        let value = value.into();
        match self.parameters.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.parameters.push((key.to_string(), value)),
        }
        self
    }

    /// Adds several parameters; see [`Row::with`].
    pub fn with_all(self, parameters: &[(String, Value)]) -> Row {
        parameters
            .iter()
            .fold(self, |row, (key, value)| row.with(key, value.clone()))
    }

    /// Names the other side of a comparison.
    pub fn versus(mut self, other: &str) -> Row {
        self.versus = Some(other.to_string());
        self
    }

    /// The value of a parameter.
    pub fn parameter(&self, key: &str) -> Option<&Value> {
        self.parameters
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The text of a parameter; empty if it is missing or no text.
    pub fn text(&self, key: &str) -> &str {
        match self.parameter(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A parameter as a number; `None` if it is missing or no number.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.parameter(key)? {
            Value::Number(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            Value::Text(_) | Value::Flag(_) => None,
        }
    }

    /// The parameter `engine`, empty where a row has none.
    pub fn engine(&self) -> &str {
        self.text("engine")
    }

    /// The median; `None` where the label is unavailable.
    pub fn median(&self) -> Option<f64> {
        self.spread.map(|spread| spread.median)
    }

    /// One JSON object on one line, without the line feed.
    ///
    /// # Panics
    /// Never: a row holds only text and numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a row is plain text and numbers")
    }

    /// Headings of [`Row::cells`].
    pub const CELL_HEADINGS: [&'static str; 10] = [
        "case", "engine", "metric", "versus", "n", "min", "median", "max", "answer", "label",
    ];

    /// The row as cells of a table for people. Parameters other than `engine` are left out: the case's name says them. Suites that
    /// compare modes of one engine have the mode in its place, those that compare ways to a server the side, and those that run queries side by side say who beside whom.
    pub fn cells(&self) -> [String; 10] {
        let names = ["engine", "mode", "side"];
        let engine = names.into_iter().find_map(|name| self.parameter(name));
        let who = match (engine, self.parameter("query"), self.parameter("corunner")) {
            (Some(engine), Some(query), Some(corunner)) => self.side_by_side(engine, query, corunner),
            (engine, ..) => engine.map_or_else(String::new, Value::to_string),
        };
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_string(), format_number);
        let answer = match self.answer_ok {
            Some(true) => "ok",
            Some(false) => "WRONG",
            None => "-",
        };
        [
            self.case.clone(),
            who,
            self.metric.clone(),
            self.versus.clone().unwrap_or_default(),
            self.spread
                .map_or_else(|| "-".to_string(), |spread| spread.n.to_string()),
            number(self.spread.map(|spread| spread.min)),
            number(self.median()),
            number(self.spread.map(|spread| spread.max)),
            answer.to_string(),
            self.label.as_str().to_string(),
        ]
    }
}

impl Row {
    /// `corun hash_plq5 | scan`, and the policy and partition where there are any.
    fn side_by_side(&self, engine: &Value, query: &Value, corunner: &Value) -> String {
        let mut text = format!("{engine} {query} | {corunner}");
        for (key, usual) in [("policy", "pinned"), ("partition", "none")] {
            match self.parameter(key) {
                Some(Value::Text(word)) if word != usual => text.push_str(&format!(", {word}")),
                _ => {}
            }
        }
        text
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("suite", &self.suite)?;
        map.serialize_entry("case", &self.case)?;
        map.serialize_entry("metric", &self.metric)?;
        map.serialize_entry("unit", &self.unit)?;
        map.serialize_entry("n", &self.spread.map_or(0, |spread| spread.n))?;
        map.serialize_entry("min", &self.spread.map(|spread| round_significant(spread.min)))?;
        map.serialize_entry(
            "median",
            &self.spread.map(|spread| round_significant(spread.median)),
        )?;
        map.serialize_entry("max", &self.spread.map(|spread| round_significant(spread.max)))?;
        map.serialize_entry("answer_ok", &self.answer_ok)?;
        map.serialize_entry("label", self.label.as_str())?;
        if let Some(versus) = &self.versus {
            map.serialize_entry("versus", versus)?;
        }
        for (key, value) in &self.parameters {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Rounds to six significant digits: more would pretend a precision no timing has.
fn round_significant(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() || number.fract() == 0.0 {
        return number;
    }
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// Three to four digits for people: `0.123`, `4.56`, `12.3`, `1234`, and thousands grouped with `_` above 99,999.
pub fn format_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude >= 99_999.5 {
        let digits = format!("{number:.0}");
        let (sign, digits) = digits
            .strip_prefix('-')
            .map_or(("", digits.as_str()), |rest| ("-", rest));
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| std::str::from_utf8(group).unwrap_or_default())
            .collect();
        return format!("{sign}{}", groups.join("_"));
    }
    if magnitude >= 100.0 {
        format!("{number:.0}")
    } else if magnitude >= 10.0 {
        format!("{number:.1}")
    } else if magnitude >= 1.0 {
        format!("{number:.2}")
    } else {
        format!("{number:.3}")
    }
}

#[cfg(test)]
mod tests;
