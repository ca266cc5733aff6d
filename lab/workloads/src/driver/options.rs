//! [`RunOptions`]: how a workload is run, and [`RunError`]: why a run ended early.

use std::time::Duration;

use corun_model::units::CpuId;
use corun_topology::affinity::AffinityError;
use thiserror::Error;

use super::teams::{TeamOptions, Teams};
use crate::engine::TxError;

/// How long a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// So long.
    Time(Duration),
    /// Until all clients together have run so many transactions.
    Transactions(u64),
}

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Clients at once; 10 a warehouse in TPC-C. At least 1.
    pub clients: usize,
    /// Terminals of TPC-C, which the clients share out evenly: a client sends the transactions of its terminals in turns. With as many
    /// clients as terminals or more, a client is one terminal. Runs with different numbers of clients do the same work only if they name
    /// the same terminals: a terminal has one home warehouse, so one client that is one terminal leaves all other warehouses alone. YCSB
    /// draws from all records for each client and does not look at this.
    pub terminals: usize,
    /// Workers the clients belong to in turns. At least 1. In TPC-C the clients of a warehouse share a worker if the number
    /// of warehouses is a multiple of it.
    pub workers: usize,
    /// The CPU of each worker, taken again from the front if there are fewer. None: threads are not pinned.
    pub cpus: Vec<CpuId>,
    /// How long clients run before they are counted.
    pub warmup: Duration,
    /// How long they are counted.
    pub measure: Measure,
    /// What the inputs are drawn from.
    pub seed: u64,
    /// How often one transaction is run again because of others before the run fails.
    pub retries_max: u32,
    /// How the clients of a worker share its CPU.
    pub teams: Teams,
    /// How they form teams, if they do.
    pub team: TeamOptions,
}

impl Default for RunOptions {
    /// One client that is one terminal, one worker, not pinned, a thousand transactions.
    fn default() -> Self {
        Self {
            clients: 1,
            terminals: 1,
            workers: 1,
            cpus: Vec::new(),
            warmup: Duration::ZERO,
            measure: Measure::Transactions(1000),
            seed: 1,
            retries_max: 1000,
            teams: Teams::Off,
            team: TeamOptions::default(),
        }
    }
}

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum RunError {
    /// A client could not be made.
    #[error("client {client}: cannot start: {error}")]
    Client {
        /// Its number.
        client: usize,
        /// What the engine said.
        error: TxError,
    },
    /// A transaction failed.
    #[error("client {client}: {transaction}: {reason}")]
    Transaction {
        /// The client's number.
        client: usize,
        /// Its type.
        transaction: &'static str,
        /// What the engine or the check of its answer said.
        reason: String,
    },
    /// A transaction was run again too often.
    #[error("client {client}: {transaction}: gave up after {retries} retries; the last time: {reason}")]
    Retries {
        /// The client's number.
        client: usize,
        /// Its type.
        transaction: &'static str,
        /// How often it was run again.
        retries: u32,
        /// What kept failing.
        reason: String,
    },
    /// A client's thread could not be put on its CPU.
    #[error("client {client}: {error}")]
    Pin {
        /// Its number.
        client: usize,
        /// What the kernel said.
        error: AffinityError,
    },
    /// The engine's clients cannot share a thread.
    #[error("{engine}: its clients need a thread each: run it with teams off, not {teams}")]
    NoTeams {
        /// Its name.
        engine: String,
        /// What was asked for.
        teams: Teams,
    },
    /// The clients of a worker could not be put on one thread.
    #[error("worker {worker}: cannot run clients in teams: {reason}")]
    Scheduler {
        /// Its number.
        worker: usize,
        /// What is in the way.
        reason: String,
    },
    /// A client ended without coming to its end.
    #[error("client {client}: lost: {reason}")]
    Lost {
        /// Its number.
        client: usize,
        /// What became of it.
        reason: String,
    },
}
