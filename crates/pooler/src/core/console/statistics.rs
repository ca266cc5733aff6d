//! [`Totals`]: what a pool has done, counted up.

use std::time::Duration;

use corun_net::metrics::Histogram;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transactions.
    pub transactions: u64,
    /// Queries.
    pub queries: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Time transactions took.
    pub transaction_time: Duration,
    /// Time queries took.
    pub query_time: Duration,
    /// Time clients waited for a server.
    pub wait_time: Duration,
    /// How often a client was given a server.
    pub attached: u64,
    /// How often its settings had to be set there first.
    pub settings_carried: u64,
    /// How often a server was asked what its client had left there.
    pub state_questions: u64,
    /// Messages about prepared statements.
    pub counts: Counts,
}

/// Messages about prepared statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Statements prepared by clients.
    pub client_parses: u64,
    /// Statements prepared on servers, for a client or again on another server.
    pub server_parses: u64,
    /// Statements bound.
    pub binds: u64,
}

impl Counts {
    /// Adds those.
    pub fn add(&mut self, other: Self) {
        self.client_parses += other.client_parses;
        self.server_parses += other.server_parses;
        self.binds += other.binds;
    }
}

/// How long things took, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Queries.
    pub query: Histogram,
    /// Transactions.
    pub transaction: Histogram,
    /// Waiting for a server.
    pub wait: Histogram,
}

impl Times {
    /// These and those.
    pub fn merge(&mut self, other: &Self) {
        self.query.merge(&other.query);
        self.transaction.merge(&other.transaction);
        self.wait.merge(&other.wait);
    }
}

/// A time as histograms count it.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
