//! A row read back from the JSON line that [`Row::to_json`] wrote.
//!
//! Order of calls: [`Row::parse`], line by line; files are [`lab_postgres::characterize::rows`]'s. Keys that are not one of the fixed ones are
//! parameters, in the order in which they stand. It is not a reader of any JSON: what no row can hold is an error that names the key.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value as Json;

use super::{FIXED_KEYS, Label, Row, Value};
use crate::stats::Spread;

/// Why a line is no row.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// Not a JSON object, or cut off.
    #[error("it is not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// A key that every row has is missing.
    #[error("the key \"{0}\" is missing")]
    Missing(&'static str),
    /// A key has a value that no row can have there.
    #[error("the key \"{key}\" must be {wanted}, and is {found}")]
    Wrong {
        /// The key.
        key: String,
        /// What it may be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
}

impl RowError {
    /// Whether the line ends before its object does, as the last line of a run that was killed.
    pub fn is_cut_off(&self) -> bool {
        matches!(self, RowError::Json(error) if error.is_eof())
    }
}

/// The keys of an object in the order in which they stand. `serde_json`'s own map sorts them.
struct Ordered(Vec<(String, Json)>);

impl<'de> serde::Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries: Vec<(String, Json)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    if entries.iter().any(|(name, _)| *name == key) {
                        return Err(A::Error::custom(format!("the key \"{key}\" stands twice")));
                    }
                    entries.push((key, value));
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

fn wrong(key: &str, wanted: &'static str, found: &Json) -> RowError {
    // A value may be as long as its line; an error is one line for people.
    let found: String = found.to_string().chars().take(60).collect();
    RowError::Wrong {
        key: key.to_owned(),
        wanted,
        found,
    }
}

impl Ordered {
    fn get(&self, key: &'static str) -> Result<&Json, RowError> {
        let entry = self.0.iter().find(|(name, _)| name == key);
        entry.map(|(_, value)| value).ok_or(RowError::Missing(key))
    }

    fn text(&self, key: &'static str) -> Result<String, RowError> {
        let value = self.get(key)?;
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| wrong(key, "text", value))
    }

    fn label(&self) -> Result<Label, RowError> {
        let value = self.get("label")?;
        match value.as_str() {
            Some("measured") => Ok(Label::Measured),
            Some("simulated") => Ok(Label::Simulated),
            Some("unavailable") => Ok(Label::Unavailable),
            _ => Err(wrong("label", "measured, simulated or unavailable", value)),
        }
    }

    /// The numbers, or none of them.
    fn spread(&self, label: Label) -> Result<Option<Spread>, RowError> {
        let n = self.get("n")?;
        let count = n.as_u64().and_then(|n| usize::try_from(n).ok());
        let count = count.ok_or_else(|| wrong("n", "a count", n))?;
        let numbers = ["min", "median", "max"].map(|key| (key, self.get(key)));
        let mut found = Vec::with_capacity(numbers.len());
        for (key, value) in numbers {
            let value = value?;
            match (label, value.as_f64()) {
                (Label::Unavailable, None) if value.is_null() => {}
                (Label::Unavailable, _) => return Err(wrong(key, "null in an unavailable row", value)),
                (_, Some(number)) => found.push(number),
                (_, None) => return Err(wrong(key, "a number", value)),
            }
        }
        match (found.as_slice(), count) {
            ([min, median, max], 1..) => Ok(Some(Spread {
                n: count,
                min: *min,
                median: *median,
                max: *max,
            })),
            ([], 0) => Ok(None),
            _ => Err(wrong("n", "0 exactly where nothing was measured", n)),
        }
    }
}

fn parameter(key: &str, value: &Json) -> Result<Value, RowError> {
    match value {
        Json::String(text) => Ok(Value::Text(text.clone())),
        Json::Bool(flag) => Ok(Value::Flag(*flag)),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Ok(Value::Integer(integer)),
            None => Ok(Value::Number(number.as_f64().unwrap_or(f64::NAN))),
        },
        // A number that is none, such as a share of nothing, is written so.
        Json::Null => Ok(Value::Number(f64::NAN)),
        Json::Array(_) | Json::Object(_) => Err(wrong(key, "text, a number, true or false", value)),
    }
}

impl Row {
    /// The row of a line that [`Row::to_json`] wrote; numbers come back as they were written, with six significant digits.
    ///
    /// ```
    /// use lab_core::row::Row;
    /// let line = r#"{"suite":"characterize","case":"mix","metric":"percent","unit":"%","n":1,"min":36.0,"median":36.0,"max":36.0,"answer_ok":true,"label":"simulated","kind":"load"}"#;
    /// let row = Row::parse(line).unwrap();
    /// assert_eq!((row.text("kind"), row.median()), ("load", Some(36.0)));
    /// assert_eq!(row.to_json(), line);
    /// ```
    ///
    /// # Errors
    /// When the line is no JSON object, a fixed key is missing, or a key has a value that no row can have there.
    pub fn parse(line: &str) -> Result<Row, RowError> {
        let keys: Ordered = serde_json::from_str(line)?;
        let label = keys.label()?;
        let answer = keys.get("answer_ok")?;
        let answer_ok = match answer {
            Json::Bool(ok) => Some(*ok),
            Json::Null => None,
            other => return Err(wrong("answer_ok", "true, false or null", other)),
        };
        let versus = match keys.get("versus") {
            Ok(Json::String(other)) => Some(other.clone()),
            Ok(other) => return Err(wrong("versus", "text", other)),
            Err(_) => None,
        };
        let parameters = keys
            .0
            .iter()
            .filter(|(key, _)| !FIXED_KEYS.contains(&key.as_str()))
            .map(|(key, value)| Ok((key.clone(), parameter(key, value)?)))
            .collect::<Result<_, RowError>>()?;
        Ok(Row {
            suite: keys.text("suite")?,
            case: keys.text("case")?,
            metric: keys.text("metric")?,
            unit: keys.text("unit")?,
            spread: keys.spread(label)?,
            answer_ok,
            label,
            versus,
            parameters,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line() -> String {
        let spread = Spread::of(&[1.5, 2.5, 3.25]).expect("three values");
        Row::measured("characterize", "speedup", "ratio", "x", spread, true)
            .versus("alone")
            .with("workload", "utpcc")
            .with("concurrency", 4usize)
            .with("scaled", false)
            .with("air", 2.0)
            .to_json()
    }

    #[test]
    fn what_was_written_is_read() {
        let row = Row::parse(&line()).expect("a row");
        assert_eq!(row.to_json(), line());
        let keys: Vec<&str> = row.parameters.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            ["workload", "concurrency", "scaled", "air"],
            "in the order written"
        );
        assert_eq!(
            row.parameter("air"),
            Some(&Value::Number(2.0)),
            "a real number stays one"
        );
        let gone =
            Row::unavailable("characterize", "misses", "l1d_load_miss_percent", "%", "no PMU").to_json();
        assert_eq!(Row::parse(&gone).expect("a row").to_json(), gone);
    }

    #[test]
    fn errors_name_the_key() {
        for (from, to, wanted) in [
            (
                r#""label":"measured""#,
                r#""label":"guessed""#,
                r#"the key "label" must be"#,
            ),
            (
                r#""median":2.5"#,
                r#""median":null"#,
                r#"the key "median" must be a number, and is null"#,
            ),
            (r#""n":3"#, r#""n":-1"#, r#"the key "n" must be a count"#),
            (r#""n":3"#, r#""n":0"#, r#"the key "n" must be 0 exactly"#),
            (r#","unit":"x""#, "", r#"the key "unit" is missing"#),
            (
                r#""answer_ok":true"#,
                r#""answer_ok":"yes""#,
                r#"the key "answer_ok""#,
            ),
            (
                r#""concurrency":4"#,
                r#""concurrency":[4]"#,
                r#"the key "concurrency" must be text, a number"#,
            ),
            (
                r#""concurrency":4"#,
                r#""workload":"uss""#,
                r#"the key "workload" stands twice"#,
            ),
            (
                r#""label":"measured""#,
                r#""label":"unavailable""#,
                r#"the key "min" must be null"#,
            ),
            (
                r#""versus":"alone""#,
                r#""versus":1"#,
                r#"the key "versus" must be text"#,
            ),
        ] {
            let damaged = line().replace(from, to);
            assert_ne!(damaged, line(), "{from}");
            let error = Row::parse(&damaged).expect_err(to).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        assert!(
            Row::parse("[1]")
                .expect_err("an array")
                .to_string()
                .contains("not a JSON object")
        );
    }

    #[test]
    fn only_a_line_without_its_end_is_cut_off() {
        let line = line();
        for end in 1..line.len() {
            let error = Row::parse(&line[..end]).expect_err("cut");
            assert!(error.is_cut_off(), "{end}: {error}");
        }
        assert!(!Row::parse("{\"suite\":}").expect_err("no value").is_cut_off());
    }

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            ".{0,12}".prop_map(Value::Text),
            any::<i64>().prop_map(Value::Integer),
            // Beyond 15 digits the JSON reader may be off by the last one.
            (-1e15f64..1e15).prop_map(Value::Number),
            any::<bool>().prop_map(Value::Flag),
        ]
    }

    proptest! {
        #[test]
        fn any_row_comes_back_as_it_was_written(
            names in prop::array::uniform4(".{0,10}"),
            numbers in prop::collection::vec(-1e15f64..1e15, 0..6),
            simulated in any::<bool>(),
            versus in proptest::option::of(".{0,6}"),
            parameters in prop::collection::vec(("p[a-z]{0,6}", values()), 0..5),
        ) {
            let [suite, case, metric, unit] = &names;
            let mut row = match Spread::of(&numbers) {
                Some(spread) if simulated => Row::simulated(suite, case, metric, unit, spread, false),
                Some(spread) => Row::measured(suite, case, metric, unit, spread, true),
                None => Row::unavailable(suite, case, metric, unit, "none"),
            };
            row = row.with_all(&parameters);
            row.versus = versus;
            let line = row.to_json();
            let read = Row::parse(&line).expect("what was written is a row");
            prop_assert_eq!(read.to_json(), line);
        }

        #[test]
        fn no_line_panics(line in ".{0,80}") {
            let _ = Row::parse(&line);
        }
    }
}
