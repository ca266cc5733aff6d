//! The rows a report, a figure or a plot is made of, and what they say under the names that figures use.

use std::collections::BTreeMap;

use super::spec::{Derive, Pick, Take};
use super::{expression, words};
use crate::filter::{self, Filter};
use crate::metric::RATIO;
use crate::row::{Row, Value};
use crate::stats::Spread;

/// Rows in the order in which they were run.
#[derive(Clone)]
pub(super) struct Rows<'r> {
    derive: &'r BTreeMap<String, Derive>,
    /// All rows of the run, among which counterparts are looked for.
    run: &'r [Row],
    pub(super) rows: Vec<&'r Row>,
}

/// A number of a row, with what it may as well be.
#[derive(Clone, Copy)]
pub(super) struct Picked<'r> {
    pub(super) row: &'r Row,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl<'r> Rows<'r> {
    pub(super) fn new(derive: &'r BTreeMap<String, Derive>, rows: &'r [Row]) -> Rows<'r> {
        Rows {
            derive,
            run: rows,
            rows: rows.iter().collect(),
        }
    }

    pub(super) fn only(&self, keep: impl Fn(&Row) -> bool) -> Rows<'r> {
        let rows = self.rows.iter().copied();
        Rows {
            rows: rows.filter(|row| keep(row)).collect(),
            ..*self
        }
    }

    /// One of the rows.
    pub(super) fn alone(&self, row: &'r Row) -> Rows<'r> {
        Rows {
            rows: vec![row],
            ..*self
        }
    }

    /// The rows a filter finds, controls and unavailable ones among them.
    pub(super) fn all(&self, filter: &Filter) -> Rows<'r> {
        self.only(|row| filter.has(&|key| self.value(row, key)))
    }

    /// The rows with numbers that a filter finds; those of controls only if it names them.
    pub(super) fn of(&self, filter: &Filter) -> Rows<'r> {
        self.all(filter)
            .only(|row| row.spread.is_some() && filter.is_for_controls(row))
    }

    /// The rows for each value of some keys, in the order in which the values come; all of them for no keys.
    pub(super) fn each(&self, keys: &[String]) -> Vec<Rows<'r>> {
        let mut found: Vec<(Vec<Option<Value>>, Rows<'r>)> = Vec::new();
        for &row in &self.rows {
            let values: Vec<_> = keys.iter().map(|key| self.value(row, key)).collect();
            match found.iter_mut().find(|(known, _)| *known == values) {
                Some((_, of)) => of.rows.push(row),
                None => found.push((values, self.alone(row))),
            }
        }
        found.into_iter().map(|(_, rows)| rows).collect()
    }

    /// The value of a key, be it the row's own or made of another.
    pub(super) fn value(&self, row: &Row, key: &str) -> Option<Value> {
        let Some(derive) = self.derive.get(key) else {
            return filter::value(row, key);
        };
        let mut text = match &derive.text {
            Some(text) => self.words(row, text)?,
            None => {
                let of = self
                    .value(row, &derive.of)
                    .or_else(|| self.value(row, &derive.or));
                of?.to_string()
            }
        };
        if !derive.before.is_empty() {
            text = text.split_once(&derive.before)?.0.to_owned();
        }
        if !derive.after.is_empty() {
            text = text.split_once(&derive.after)?.1.to_owned();
        }
        for (from, to) in &derive.replace {
            text = text.replace(from, to);
        }
        let words = derive.words.get(&text).or(derive.words.get("*"));
        let text = words.cloned().unwrap_or(text);
        (!text.is_empty()).then_some(Value::Text(text))
    }

    /// A key as a number, be it the row's own or made of another, or one of the row's own numbers.
    pub(super) fn number(&self, row: &Row, key: &str) -> Option<f64> {
        match (key, row.spread) {
            ("min", Some(spread)) => Some(spread.min),
            ("median", Some(spread)) => Some(spread.median),
            ("max", Some(spread)) => Some(spread.max),
            ("n", Some(spread)) => Some(spread.n as f64),
            _ => row
                .number(key)
                .or_else(|| self.value(row, key)?.to_string().parse().ok()),
        }
    }

    /// Whether the condition, if there is one, holds for the row.
    pub(super) fn holds(&self, row: &Row, when: Option<&str>) -> bool {
        when.is_none_or(|when| self.computed(row, when).is_some_and(|holds| holds != 0.0))
    }

    /// Words with a row's values in their gaps.
    pub(super) fn words(&self, row: &Row, text: &str) -> Option<String> {
        words::fill(text, &|key, format| self.word(row, key, format))
    }

    /// What a row has for a gap: its number with its range, a key, or a number that is computed.
    pub(super) fn word(&self, row: &Row, key: &str, format: &str) -> Option<String> {
        if key == "spread" {
            let spread = row.spread?;
            return Some(words::ranged((spread.min, spread.median, spread.max), format));
        }
        match self.value(row, key) {
            Some(value) if format.is_empty() && !matches!(value, Value::Number(_)) => Some(value.to_string()),
            _ => self
                .computed(row, key)
                .map(|number| words::number(number, format)),
        }
    }

    fn computed(&self, row: &Row, expression: &str) -> Option<f64> {
        expression::value(expression, &|name| self.number(row, name))
    }

    /// The row that a pick takes; of equals the first.
    pub(super) fn pick(&self, pick: &Pick) -> Option<Picked<'r>> {
        let found = self.of(&pick.filter);
        let candidates = found.rows.iter().filter_map(|row| {
            let picked = self.picked(row, pick)?;
            let by = match &pick.by {
                Some(by) => self.computed(row, by)?,
                None => picked.value,
            };
            Some((by, picked))
        });
        let candidates: Vec<(f64, Picked<'r>)> = candidates.collect();
        let count = candidates.len() as f64;
        let better = |best: (f64, Picked<'r>), other: (f64, Picked<'r>)| match pick.take {
            Take::Smallest if other.0 < best.0 => other,
            Take::Largest if other.0 > best.0 => other,
            _ => best,
        };
        let mean = |number: fn(&Picked<'r>) -> f64| {
            candidates.iter().map(|(_, picked)| number(picked)).sum::<f64>() / count
        };
        let picked = candidates.iter().copied().reduce(better)?.1;
        Some(match pick.take {
            Take::Mean => Picked {
                value: mean(|picked| picked.value),
                low: mean(|picked| picked.low),
                high: mean(|picked| picked.high),
                ..picked
            },
            _ => picked,
        })
    }

    fn picked(&self, row: &'r Row, pick: &Pick) -> Option<Picked<'r>> {
        self.value_of(row, (&pick.of, &pick.over), |row| self.range(row))
    }

    /// A number of a row, or of it and its counterpart, over what both range over.
    pub(super) fn value_of(
        &self,
        row: &'r Row,
        (of, over): (&Option<String>, &Option<Filter>),
        range: impl Fn(&Row) -> Option<Spread>,
    ) -> Option<Picked<'r>> {
        let own = range(row)?;
        let other = match over {
            Some(over) => Some(range(self.counterpart(row, over)?)?),
            None => None,
        };
        let value = |own: f64, other: Option<f64>| {
            let names = |name: &str| match name {
                "median" => Some(own),
                "other" => other,
                name => self.number(row, name),
            };
            expression::value(of.as_deref().unwrap_or("median"), &names)
        };
        let middle = value(own.median, other.map(|other| other.median))?;
        let ends = |spread: Spread| [spread.min, spread.max];
        let mut picked = Picked {
            row,
            value: middle,
            low: middle,
            high: middle,
        };
        for own in ends(own) {
            for other in other.map_or([None; 2], |other| ends(other).map(Some)) {
                // An end may have none: nothing is so many times zero.
                if let Some(value) = value(own, other) {
                    picked.low = picked.low.min(value);
                    picked.high = picked.high.max(value);
                }
            }
        }
        Some(picked)
    }

    /// The row with the same keys but for those of `over`.
    fn counterpart(&self, row: &Row, over: &Filter) -> Option<&'r Row> {
        let same = |other: &Row| {
            let mut parameters = row.parameters.iter().filter(|(key, _)| !over.names(key));
            (&other.case, &other.metric, other.label) == (&row.case, &row.metric, row.label)
                && parameters.all(|(key, value)| other.parameter(key) == Some(value))
        };
        let mut others = self.run.iter();
        others.find(|other| over.finds(other) && other.spread.is_some() && same(other))
    }

    /// What a row's number may as well be: its rounds, and for a ratio what a side against itself differs by, which the row says itself
    /// or a control.
    fn range(&self, row: &Row) -> Option<Spread> {
        let spread = row.spread?;
        let ends = |row: &Row| row.number("noise_low").zip(row.number("noise_high"));
        let is_control = |other: &&&Row| {
            other.case == row.case && other.metric == RATIO && other.parameter("control").is_some()
        };
        let control = (row.metric == RATIO)
            .then(|| self.rows.iter().find(is_control))
            .flatten();
        let of_control =
            |control: &&Row| ends(control).or(control.spread.map(|spread| (spread.min, spread.max)));
        let noise = ends(row).or_else(|| control.and_then(of_control));
        let (low, high) = noise.unwrap_or((1.0, 1.0));
        Some(Spread {
            min: spread.min.min(spread.median * low),
            max: spread.max.max(spread.median * high),
            ..spread
        })
    }
}
