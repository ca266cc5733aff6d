//! The lines this program prints: one JSON object each, with an `event`.

use std::io::{self, Write};

use corun_workloads::driver::{Histogram, Outcome};
use serde::Serialize;

/// One line.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Line<'a> {
    /// The data is in.
    Loaded {
        /// The engine's name with its configuration.
        engine: &'a str,
        /// Its library.
        version: &'a str,
        /// The workload's name.
        workload: &'a str,
        /// The durability of its commits.
        durability: &'a str,
        /// Rows or records.
        rows: u64,
        /// How long that took.
        load_s: f64,
        /// What the engine says its data takes; null if it does not.
        memory_bytes: Option<u64>,
        /// By how much the process has grown.
        rss_bytes: u64,
    },
    /// A round is over.
    Outcome {
        /// From 1.
        round: u64,
        /// Half of all transactions took at most so long, in microseconds.
        p50_us: f64,
        /// As `p50_us`, 99 of 100.
        p99_us: f64,
        /// Of all types.
        retried: u64,
        /// The driver's account.
        #[serde(flatten)]
        outcome: &'a Outcome,
    },
    /// The engine has been compared with the oracle.
    Compared {
        /// Whether all answers and rows are the same.
        ok: bool,
        /// Transactions they were given.
        transactions: u64,
        /// The first difference.
        difference: Option<String>,
    },
    /// What must hold afterwards has been checked.
    Checked {
        /// Whether all of it holds.
        ok: bool,
        /// What does not.
        failed: Vec<String>,
    },
}

impl<'a> Line<'a> {
    /// The line of a round.
    pub fn outcome(round: u64, outcome: &'a Outcome) -> Self {
        let mut all = Histogram::default();
        for kind in &outcome.kinds {
            all.merge(&kind.latencies);
        }
        Line::Outcome {
            round,
            p50_us: all.percentile_us(50.0),
            p99_us: all.percentile_us(99.0),
            retried: outcome.retried(),
            outcome,
        }
    }

    /// Prints it, at once: somebody waits for it.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

/// Bytes of this process in memory now; zero where the kernel does not tell.
pub fn rss_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * 4096
}
