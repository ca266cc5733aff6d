//! `--policy`: how concurrent queries are scheduled, for a server and for the clients of `sql --clients`.

use std::fmt;

use corun_datafusion::{CoordinatorOptions, EngineError};
use corun_model::cache::coschedule::PolicyName;
use corun_model::topology::Topology;

/// How queries are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// By this policy.
    By(PolicyName),
    /// Each runs at once.
    Off,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling::By(PolicyName::default())
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::By(policy) => policy.fmt(f),
            Scheduling::Off => f.pad("off"),
        }
    }
}

impl Scheduling {
    /// The name of a policy, or `off`.
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Scheduling, String> {
        if text == "off" {
            return Ok(Scheduling::Off);
        }
        let wrong = |_| format!("is none of {}, off", PolicyName::NAMES.join(", "));
        text.parse().map(Scheduling::By).map_err(wrong)
    }

    /// A coordinator of a machine's CPUs, as the policy says; `None` for off.
    ///
    /// # Errors
    /// No usable CPU.
    pub fn coordinator(self, topology: &Topology) -> Result<Option<CoordinatorOptions>, EngineError> {
        let Scheduling::By(policy) = self else {
            return Ok(None);
        };
        let machine = CoordinatorOptions::for_machine(topology, None)?;
        Ok(Some(CoordinatorOptions { policy, ..machine }))
    }
}
