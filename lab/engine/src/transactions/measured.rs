//! What one round and one load of a side gave, wherever the side runs.

use corun_workloads::driver::Outcome;

/// One round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Transactions a second.
    pub tps: f64,
    /// Committed New Orders a minute.
    pub new_orders_per_min: f64,
    /// Half of the main transactions took at most so long, in microseconds; `None` where none ended.
    pub p50_us: Option<f64>,
    /// 99 of 100 main transactions.
    pub p99_us: Option<f64>,
    /// How often a transaction was run again because of others, in a thousand.
    pub retries: f64,
}

impl Measured {
    /// Of the driver's account; `main` names the transaction whose latency is meant.
    pub fn of(outcome: &Outcome, main: &str) -> Measured {
        let kind = outcome.kinds.iter().find(|kind| kind.kind == main);
        let done = outcome.committed() + outcome.rolled_back();
        Measured {
            tps: outcome.tps,
            new_orders_per_min: outcome.new_orders_per_min,
            p50_us: kind.map(|kind| kind.p50_us),
            p99_us: kind.map(|kind| kind.p99_us),
            retries: per_thousand(outcome.retried(), done),
        }
    }
}

/// `part` of `all`, in a thousand; zero of nothing.
pub fn per_thousand(part: u64, all: u64) -> f64 {
    if all == 0 {
        return 0.0;
    }
    part as f64 * 1000.0 / all as f64
}

/// How the data came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Seconds.
    pub seconds: f64,
    /// What the engine says its data take, in bytes; not all tell.
    pub engine_bytes: Option<u64>,
    /// By how much its process has grown, in bytes; `None` where that cannot be told.
    pub process_bytes: Option<u64>,
    /// The library's version.
    pub version: String,
    /// The engine's name with what distinguishes its configuration.
    pub configuration: String,
}
