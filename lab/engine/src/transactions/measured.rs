//! What one round and one load of a side gave, wherever the side runs.

use corun_workloads::driver::Outcome;

use super::case::Setup;
use super::{NEW_ORDERS, TPS};
use lab_core::metric::MetricSpec;

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

/// What is read from a round.
pub const METRICS: [MetricSpec<Measured>; 5] = [
    MetricSpec::higher(TPS, "1/s", |round| Some(round.tps)),
    MetricSpec::higher(NEW_ORDERS, "1/min", |round| Some(round.new_orders_per_min)),
    MetricSpec::lower("p50_us", "us", |round| round.p50_us),
    MetricSpec::lower("p99_us", "us", |round| round.p99_us),
    MetricSpec::lower("retries", "per_1000", |round| Some(round.retries)),
];

/// The metrics that a setup has.
pub fn metrics(setup: &Setup) -> Vec<MetricSpec<Measured>> {
    let has = |metric: &MetricSpec<Measured>| metric.name != NEW_ORDERS || setup.case.work.has_new_orders();
    METRICS.into_iter().filter(has).collect()
}

/// The throughput that engines are compared by.
pub fn compared(setup: &Setup) -> MetricSpec<Measured> {
    let [tps, new_orders, ..] = METRICS;
    match setup.case.work.compared_by() {
        NEW_ORDERS => new_orders,
        _ => tps,
    }
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
