//! Suites on the embedded engine, on tiny data: every case runs, answers are the oracle's, rows have the keys that scripts rely on.

mod demo_live;
mod join;
mod plan_estimates;
mod record_answers;
mod shared_cache;
mod shared_cache_simulated;
mod transactions;
mod workload_suites;
mod workloads;

/// The words of a line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
