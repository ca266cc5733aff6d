//! The names of the co-scheduling policies, and which one `auto` means.
//!
//! | policy | of the queries that wait, starts beside those that run |
//! | --- | --- |
//! | `fifo` | the oldest: what a host does that knows nothing of the cache |
//! | `sls` | one of the same queue as they (paper 002, section 5.2) |
//! | `mls` | one of the other queue, in a cache that is partitioned between them (section 6.3) |
//! | `learned` | the one the learnt slow-downs say costs least there, compared with what it would cost elsewhere |

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    /// Arrival order.
    Fifo,
    /// Same locality strength.
    Sls,
    /// Mixed locality strength.
    Mls,
    /// By learnt slow-downs.
    Learned,
    /// `mls` with a partitioner; without one `sls`, and `learned` once run times show that keeping the kinds apart costs more than
    /// it saves ([`SlowdownModel::separation_pays`](crate::cache::slowdown::SlowdownModel::separation_pays)).
    #[default]
    Auto,
}

impl PolicyName {
    /// The names accepted on a command line.
    pub const NAMES: [&'static str; 5] = ["fifo", "sls", "mls", "learned", "auto"];

    /// The policy this name means on a machine that can partition its last-level cache, or cannot.
    ///
    /// # Errors
    /// [`PolicyError::NoPartitioner`] for `mls` where the cache cannot be partitioned: it would put each vulnerable query
    /// beside a harmful one and protect neither.
    pub fn resolve(self, partitioner: bool) -> Result<Policy, PolicyError> {
        match (self, partitioner) {
            (PolicyName::Fifo, _) => Ok(Policy::Fifo),
            (PolicyName::Learned, _) => Ok(Policy::Learned),
            (PolicyName::Sls, _) | (PolicyName::Auto, false) => Ok(Policy::Sls),
            (PolicyName::Mls | PolicyName::Auto, true) => Ok(Policy::Mls),
            (PolicyName::Mls, false) => Err(PolicyError::NoPartitioner),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(PolicyName::NAMES[*self as usize])
    }
}

impl FromStr for PolicyName {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        match name {
            "fifo" => Ok(PolicyName::Fifo),
            "sls" => Ok(PolicyName::Sls),
            "mls" => Ok(PolicyName::Mls),
            "learned" => Ok(PolicyName::Learned),
            "auto" => Ok(PolicyName::Auto),
            other => Err(PolicyError::UnknownName(other.to_owned())),
        }
    }
}

/// A policy that can be followed; only [`PolicyName::resolve`] makes [`Policy::Mls`] sensible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Arrival order.
    Fifo,
    /// Same locality strength.
    Sls,
    /// Mixed locality strength.
    Mls,
    /// By learnt slow-downs.
    Learned,
}

/// Why there is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No such policy.
    #[error("there is no policy {0:?}; there are fifo, sls, mls, learned and auto")]
    UnknownName(String),
    /// `mls` without a partitioner.
    #[error(
        "policy mls needs a partitioned last-level cache, which this machine does not offer; use sls, learned or auto"
    )]
    NoPartitioner,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_auto_follows_the_machine() {
        for name in PolicyName::NAMES {
            let parsed: PolicyName = name.parse().expect("a listed name");
            assert_eq!(parsed.to_string(), name);
        }
        assert!("slx".parse::<PolicyName>().is_err());
        assert_eq!(PolicyName::Auto.resolve(false), Ok(Policy::Sls));
        assert_eq!(PolicyName::Auto.resolve(true), Ok(Policy::Mls));
        assert_eq!(PolicyName::Mls.resolve(true), Ok(Policy::Mls));
        assert_eq!(PolicyName::Mls.resolve(false), Err(PolicyError::NoPartitioner));
        assert_eq!(PolicyName::Sls.resolve(true), Ok(Policy::Sls));
    }
}
