//! [`statements`]: what each statement shape gives through a side, compared with what it gives directly.

use std::time::Duration;

use super::address::Address;
use super::client::{Answer, Client};
use super::shapes::SHAPES;
use lab_core::error::BenchError;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often each text is sent: a proxy may treat a text otherwise when it has seen it.
const TIMES: usize = 3;
/// A statement with a value bound to it.
const BOUND: &str = "select aid, abalance, $2::text from pgbench_accounts where aid = $1::int";
/// Statements that fail, each in its own way.
const FAILING: [&str; 3] = [
    "select 1 / (bid - bid) from pgbench_branches where bid = 1",
    "select nothing from pgbench_accounts",
    "selekt 1",
];

/// How much is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Sets of values for each shape.
    pub values: usize,
    /// Whether statements prepared under a name are compared as well.
    pub prepared: bool,
}

/// Asks every shape directly and through a side, with both protocols. `None` if all columns, rows, tags and errors are the same, or else
/// the first difference.
///
/// # Errors
/// When a connection breaks.
pub fn statements(direct: &Address, through: &Address, extent: Extent) -> Result<Option<String>, BenchError> {
    let mut expects = Client::connect(direct, PATIENCE)?;
    let mut gives = Client::connect(through, PATIENCE)?;
    for number in 0..extent.values {
        for shape in SHAPES {
            let text = shape.with(&shape.values(number));
            let wanted = expects.simple(&text)?;
            if let Some((state, words)) = &wanted.error {
                return Ok(Some(format!("{}: PostgreSQL says {words} ({state})", shape.name)));
            }
            for _ in 0..TIMES {
                let found = gives.simple(&text)?;
                if let Some(difference) = difference(&wanted, &found) {
                    return Ok(Some(format!("{} (simple): {difference}", shape.name)));
                }
            }
            let found = gives.extended("", &text, &[])?;
            if let Some(difference) = difference(&wanted, &found) {
                return Ok(Some(format!("{} (extended): {difference}", shape.name)));
            }
        }
    }
    for text in FAILING {
        let (wanted, found) = (expects.simple(text)?, gives.simple(text)?);
        if let Some(difference) = difference(&wanted, &found) {
            return Ok(Some(format!("{text}: {difference}")));
        }
    }
    bound(&mut expects, &mut gives, extent)
}

/// The same statement with values bound to it, unnamed and, if asked for, prepared once and run again.
fn bound(expects: &mut Client, gives: &mut Client, extent: Extent) -> Result<Option<String>, BenchError> {
    for number in 0..extent.values {
        let values = [(number * 37 + 1).to_string(), format!("text {number}")];
        let values = [values[0].as_str(), values[1].as_str()];
        let (wanted, found) = (
            expects.extended("", BOUND, &values)?,
            gives.extended("", BOUND, &values)?,
        );
        if let Some(difference) = difference(&wanted, &found) {
            return Ok(Some(format!("bound values: {difference}")));
        }
        if !extent.prepared {
            continue;
        }
        let first = number == 0;
        let prepared = |client: &mut Client| match first {
            true => client.extended("kept", BOUND, &values),
            false => client.again("kept", &values),
        };
        let (wanted, found) = (prepared(expects)?, prepared(gives)?);
        if let Some(difference) = difference(&wanted, &found) {
            return Ok(Some(format!("prepared: {difference}")));
        }
    }
    Ok(None)
}

/// What differs between two answers, for people; `None` if nothing does.
pub fn difference(wanted: &Answer, found: &Answer) -> Option<String> {
    let cut = |text: String| text.chars().take(200).collect::<String>();
    let pair = |what: &str, wanted: String, found: String| {
        Some(format!("{what} {} instead of {}", cut(found), cut(wanted)))
    };
    if wanted.error != found.error {
        return pair(
            "error",
            format!("{:?}", wanted.error),
            format!("{:?}", found.error),
        );
    }
    if wanted.columns != found.columns {
        return pair(
            "columns",
            format!("{:?}", wanted.columns),
            format!("{:?}", found.columns),
        );
    }
    if wanted.rows != found.rows {
        return pair("rows", format!("{:?}", wanted.rows), format!("{:?}", found.rows));
    }
    if wanted.tags != found.tags {
        return pair("tags", format!("{:?}", wanted.tags), format!("{:?}", found.tags));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer {
            columns: vec![vec![("a".to_owned(), 23)]],
            rows: vec![vec![Some("1".to_owned())], vec![None]],
            tags: vec!["SELECT 2".to_owned()],
            error: None,
        }
    }

    #[test]
    fn every_part_of_an_answer_counts() {
        assert_eq!(difference(&answer(), &answer()), None);
        let differs = |change: fn(&mut Answer), word: &str| {
            let mut other = answer();
            change(&mut other);
            let found = difference(&answer(), &other).unwrap_or_default();
            assert!(found.starts_with(word), "{found}");
        };
        differs(|other| other.rows[1][0] = Some(String::new()), "rows");
        differs(|other| other.rows.truncate(1), "rows");
        differs(|other| other.columns[0][0].1 = 25, "columns");
        differs(|other| other.tags.clear(), "tags");
        differs(
            |other| other.error = Some(("22012".to_owned(), "zero".to_owned())),
            "error",
        );
    }
}
