//! [`Options`]: what a run is to look at.

use std::path::PathBuf;

use super::dbmbench::Query;
use super::smt;

/// Turns at each concurrency: the paper's (sections 4.1 and 5.1), and few.
const REPETITIONS_PAPER: usize = 10;
const REPETITIONS: usize = 3;

/// The server to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// One of our own on an empty data folder.
    Ours,
    /// One that runs, by connection string; whether DBmbench's tables may be made in it.
    Given {
        /// As libpq takes it.
        conninfo: String,
        /// Whether a schema may be made in it, and dropped afterwards.
        load: bool,
    },
    /// A process and all below it, which nobody of us asks anything.
    Attached {
        /// Its number: a server's postmaster.
        process: u32,
        /// How long it is looked at.
        seconds: usize,
    },
}

/// A workload of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// `sql` or `pgbench`.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Runs of each client in a turn.
    pub times: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// With whom.
    pub server: Which,
    /// DBmbench's queries to run.
    pub queries: Vec<Query>,
    /// Whether they run on the embedded engine, too.
    pub embedded: bool,
    /// The user's workloads to run.
    pub own: Vec<Own>,
    /// Rows of T1.
    pub rows: usize,
    /// Clients at once, growing.
    pub concurrency: Vec<usize>,
    /// The paper's repetitions.
    pub paper: bool,
    /// Turns at each concurrency, if others.
    pub repetitions: Option<usize>,
    /// Whether functions are sampled.
    pub sampling: bool,
    /// Whether the workloads run beside a polluter.
    pub interference: bool,
    /// Whether the server is simulated under valgrind.
    pub simulation: bool,
    /// Whether SMT is switched, and how.
    pub smt: smt::Choice,
}

impl Options {
    /// Turns at each concurrency.
    pub(super) fn repetitions(&self) -> usize {
        let usual = if self.paper {
            REPETITIONS_PAPER
        } else {
            REPETITIONS
        };
        self.repetitions.unwrap_or(usual)
    }
}
