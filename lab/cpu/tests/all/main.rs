//! Suites on a core, on tiny data: every case runs, answers are the oracle's, rows have the keys that scripts rely on.

mod floor;
mod memory_latency;

/// The words of a line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
