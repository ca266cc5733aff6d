//! [`statements`]: what each statement shape gives through a side, compared with what it gives directly.

use std::time::Duration;

use super::shapes::SHAPES;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
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
                if let Some(difference) = wanted.difference(&found) {
                    return Ok(Some(format!("{} (simple): {difference}", shape.name)));
                }
            }
            let found = gives.extended("", &text, &[])?;
            if let Some(difference) = wanted.difference(&found) {
                return Ok(Some(format!("{} (extended): {difference}", shape.name)));
            }
        }
    }
    for text in FAILING {
        let (wanted, found) = (expects.simple(text)?, gives.simple(text)?);
        if let Some(difference) = wanted.difference(&found) {
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
        if let Some(difference) = wanted.difference(&found) {
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
        if let Some(difference) = wanted.difference(&found) {
            return Ok(Some(format!("prepared: {difference}")));
        }
    }
    Ok(None)
}
