//! Whole event loops on the simulated reactor: what was sent is split at any byte, taken in parts, delayed and served in any order, by
//! luck from a seed, and every client still gets what a server of its own would have said.
//!
//! A failure prints the seed; `CORUN_TEST_SEED` runs one seed, `CORUN_TEST_ROUNDS` more of them.

mod actor;
mod answers;
mod cancels;
mod faults;
mod heavy_queue;
mod limits;
mod look_ups;
mod operations;
mod plan;
mod scene;
mod script;
mod server;
mod session;

use crate::common::{configuration, message, random};

/// Runs a test for some seeds. Returns whether these were enough to say what luck must have brought about.
#[allow(clippy::print_stdout)]
fn seeds(rounds: u64, run: impl Fn(u64)) -> bool {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let one = number("CORUN_TEST_SEED");
    let first = one.unwrap_or(1);
    let rounds = number("CORUN_TEST_ROUNDS").unwrap_or(if one.is_some() { 1 } else { rounds });
    for seed in first..first + rounds {
        // Shown where a test fails.
        println!("CORUN_TEST_SEED={seed}");
        run(seed);
    }
    one.is_none()
}
