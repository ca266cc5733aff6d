//! [`Priority`]: whether short statements of transactions or long queries go first where both want the same CPUs.
//!
//! | priority | nice value of the threads of queries | CPUs of queries while transactions run |
//! | --- | --- | --- |
//! | `transactions` | 19 more | all but a quarter, at least one less |
//! | `balanced` | 5 more | all |
//! | `analytics` | as it is | all |
//!
//! Two means, because a nice value alone does not do: the kernel lets a thread run beside others of any nice value, and two queries on the
//! hardware threads of one core leave half of that core to whoever else is there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// For so long after the last short statement transactions count as running. Unmeasured.
const RUNNING_NS: u64 = 1_000_000_000;
/// Of so many CPUs transactions get one. Unmeasured beyond two CPUs.
const CPUS_OF_ONE: usize = 4;

/// Who goes first. See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Queries take what transactions leave.
    Transactions,
    /// Both get on; a short statement that wakes up need not wait for a query.
    Balanced,
    /// Nobody gives way.
    #[default]
    Analytics,
}

/// There is no such priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no priority {0:?}; there are transactions, balanced and analytics")]
pub struct UnknownPriority(String);

impl Priority {
    /// The names accepted on a command line.
    pub const NAMES: [&'static str; 3] = ["transactions", "balanced", "analytics"];

    /// What is added to the nice value of the threads that queries run on.
    pub fn nice(self) -> i32 {
        match self {
            Priority::Transactions => 19,
            Priority::Balanced => 5,
            Priority::Analytics => 0,
        }
    }

    /// How many of these CPUs queries may hold together, if the last short statement ran so long ago; `None`: all of them.
    pub fn cpus_max(self, cpus: usize, since_last_ns: Option<u64>) -> Option<usize> {
        let transactions_run = since_last_ns.is_some_and(|since| since < RUNNING_NS);
        if self != Priority::Transactions || !transactions_run {
            return None;
        }
        let left = (cpus / CPUS_OF_ONE).max(1);
        Some(cpus.saturating_sub(left).max(1))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Priority::NAMES[*self as usize])
    }
}

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(name: &str) -> Result<Self, UnknownPriority> {
        match name {
            "transactions" => Ok(Priority::Transactions),
            "balanced" => Ok(Priority::Balanced),
            "analytics" => Ok(Priority::Analytics),
            other => Err(UnknownPriority(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in Priority::NAMES {
            let parsed: Priority = name.parse().expect("a listed name");
            assert_eq!(parsed.to_string(), name);
        }
        let wrong = "transaction".parse::<Priority>().expect_err("not listed");
        assert!(wrong.to_string().contains("transactions, balanced and analytics"));
    }

    #[test]
    fn queries_leave_cpus_only_while_transactions_run() {
        let of = |cpus| Priority::Transactions.cpus_max(cpus, Some(0));
        assert_eq!(
            [1, 2, 4, 7, 8, 64].map(of),
            [1, 1, 3, 6, 6, 48].map(Some),
            "a query always finds a CPU"
        );
        assert_eq!(Priority::Transactions.cpus_max(2, None), None);
        assert_eq!(Priority::Transactions.cpus_max(2, Some(RUNNING_NS - 1)), Some(1));
        assert_eq!(Priority::Transactions.cpus_max(2, Some(RUNNING_NS)), None);
        for other in [Priority::Balanced, Priority::Analytics] {
            assert_eq!(other.cpus_max(2, Some(0)), None);
        }
        assert!(Priority::Transactions.nice() > Priority::Balanced.nice());
        assert_eq!(Priority::default().nice(), 0);
    }
}
