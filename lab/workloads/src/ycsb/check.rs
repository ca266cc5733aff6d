//! [`check`]: what must hold of all records after any number of runs.

use std::collections::BTreeSet;
use std::fmt;

use super::database::Database;
use super::record;
use crate::engine::{TxError, YcsbEngine};

/// After so many the search ends.
const FINDINGS_MAX: usize = 20;

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A record that was inserted is not there.
    Missing {
        /// Its number.
        number: u64,
    },
    /// A record is there that was never inserted, or twice.
    Unknown {
        /// Its key.
        key: u64,
    },
    /// A record does not hold what was written.
    Content(String),
    /// Read-modify-writes were lost, or done twice: the sum of all versions against the number of them.
    Modifications {
        /// The sum.
        found: u64,
        /// The number.
        expected: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Missing { number } => write!(f, "record {number} is missing"),
            Finding::Unknown { key } => write!(f, "key {key} was never inserted, or is there twice"),
            Finding::Content(what) => f.write_str(what),
            Finding::Modifications { found, expected } => {
                write!(
                    f,
                    "the versions add up to {found} after {expected} read-modify-writes"
                )
            }
        }
    }
}

/// Reads all records and returns what is not as it must be, at most 20 findings. The sum of versions is compared only while no
/// blind update has replaced one.
///
/// # Errors
/// When the engine cannot show its records.
pub fn check(engine: &dyn YcsbEngine, database: &Database) -> Result<Vec<Finding>, TxError> {
    let mut expected: BTreeSet<u64> = (0..database.records()).map(record::key).collect();
    let mut findings = Vec::new();
    let mut versions = 0u64;
    engine.visit(&mut |key, content| {
        let finding = if expected.remove(&key) {
            match record::verify(key, content) {
                Ok(sum) => {
                    versions = versions.wrapping_add(sum);
                    return;
                }
                Err(what) => Finding::Content(what),
            }
        } else {
            Finding::Unknown { key }
        };
        if findings.len() < FINDINGS_MAX {
            findings.push(finding);
        }
    })?;
    if !expected.is_empty() {
        let missing = (0..database.records()).filter(|&number| expected.contains(&record::key(number)));
        let room = FINDINGS_MAX.saturating_sub(findings.len());
        findings.extend(missing.take(room).map(|number| Finding::Missing { number }));
    }
    if findings.is_empty() && database.updates() == 0 && versions != database.modifications() {
        findings.push(Finding::Modifications {
            found: versions,
            expected: database.modifications(),
        });
    }
    Ok(findings)
}
