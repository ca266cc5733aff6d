//! Which rows are meant: keys of a row, and the values they must have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::row::{Row, Value};

/// Keys and the values they must have. A row of a control is found only by a filter that names the key `control`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Filter(BTreeMap<String, Wanted>);

/// A value, a list of values one of which will do, or a value that the key must not have.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Wanted {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    OneOf(Vec<Wanted>),
    Not { not: Box<Wanted> },
}

impl Wanted {
    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Wanted::Flag(wanted), Value::Flag(value)) => wanted == value,
            (Wanted::Integer(wanted), Value::Integer(value)) => wanted == value,
            (Wanted::Integer(wanted), Value::Number(value)) => *wanted as f64 == *value,
            (Wanted::Number(wanted), Value::Number(value)) => wanted == value,
            (Wanted::Text(wanted), Value::Text(value)) => wanted == value,
            (Wanted::OneOf(wanted), value) => wanted.iter().any(|wanted| wanted.is(value)),
            (Wanted::Not { not }, value) => !not.is(value),
            _ => false,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Flag(flag) => write!(f, "{flag}"),
            Wanted::Integer(integer) => write!(f, "{integer}"),
            Wanted::Number(number) => write!(f, "{number}"),
            Wanted::Text(text) => write!(f, "{text:?}"),
            Wanted::Not { not } => write!(f, "not {not}"),
            Wanted::OneOf(values) => {
                let values: Vec<String> = values.iter().map(Wanted::to_string).collect();
                write!(f, "one of [{}]", values.join(", "))
            }
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self
            .0
            .iter()
            .map(|(key, wanted)| format!("{key} = {wanted}"))
            .collect();
        f.write_str(&keys.join(", "))
    }
}

impl Filter {
    /// The filter with the keys of `other`, whose values win.
    pub(crate) fn and(&self, other: &Filter) -> Filter {
        let mut both = self.clone();
        both.0.extend(other.0.clone());
        both
    }

    /// The filter with a key that must be `value`, unless it has that key already.
    pub(crate) fn or_text(mut self, key: &str, value: &str) -> Filter {
        let wanted = || Wanted::Text(value.to_owned());
        self.0.entry(key.to_owned()).or_insert_with(wanted);
        self
    }

    /// The filter with nothing but one of its keys.
    pub(crate) fn only(&self, key: &str) -> Filter {
        let keys = self.0.iter().filter(|(name, _)| *name == key);
        Filter(
            keys.map(|(name, wanted)| (name.clone(), wanted.clone()))
                .collect(),
        )
    }

    /// Whether the row has every key with its value.
    pub(crate) fn finds(&self, row: &Row) -> bool {
        self.is_for_controls(row) && self.has(&|key| value(row, key))
    }

    /// Whether the row is of no control, or the filter names controls.
    pub(crate) fn is_for_controls(&self, row: &Row) -> bool {
        self.0.contains_key("control") || row.parameter("control").is_none()
    }

    /// Whether every key has its value among these.
    pub(crate) fn has(&self, value: &dyn Fn(&str) -> Option<Value>) -> bool {
        let mut keys = self.0.iter();
        keys.all(|(key, wanted)| value(key).is_some_and(|value| wanted.is(&value)))
    }

    /// Whether the filter names the key.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

/// The value of a key of a row, be it one that every row has or a parameter.
pub(crate) fn value(row: &Row, key: &str) -> Option<Value> {
    match key {
        "suite" => Some(Value::from(row.suite.as_str())),
        "case" => Some(Value::from(row.case.as_str())),
        "metric" => Some(Value::from(row.metric.as_str())),
        "unit" => Some(Value::from(row.unit.as_str())),
        "label" => Some(Value::from(row.label.as_str())),
        "versus" => row.versus.as_deref().map(Value::from),
        "answer_ok" => row.answer_ok.map(Value::from),
        _ => row.parameter(key).cloned(),
    }
}

/// The keys in which rows differ, for people: what a filter that finds several rows lacks.
pub(crate) fn differ(rows: &[&Row]) -> String {
    let fixed = ["suite", "case", "metric", "unit", "label", "versus"];
    let parameters = rows.iter().flat_map(|row| row.parameters.iter());
    let keys: BTreeSet<&str> = parameters
        .map(|(key, _)| key.as_str())
        .filter(|key| !key.starts_with("noise_"))
        .collect();
    let differs = |key: &&str| {
        rows.windows(2)
            .any(|pair| value(pair[0], key) != value(pair[1], key))
    };
    let found: Vec<&str> = fixed.into_iter().chain(keys).filter(differs).collect();
    if found.is_empty() {
        "nothing but their numbers".to_owned()
    } else {
        found.join(", ")
    }
}
