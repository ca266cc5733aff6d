//! SQL that writes beside what it is measured by: PostgreSQL on the same statements, its own programs as clients, a checker of histories, and
//! kills while transactions run.
//!
//! Each suite runs for seconds here; variables of the environment make it longer: `CORUN_TEST_ROUNDS`, `CORUN_TEST_STEPS` and `CORUN_TEST_STRICT`
//! (differential), `CORUN_TEST_SECONDS` (anomalies), `CORUN_TEST_KILLS` (crash), `CORUN_TEST_SEED` (all).

#![allow(clippy::print_stderr, reason = "seeds, and what long runs have found")]

mod anomalies;
mod crash;
mod differential;
mod drivers;
mod dumps;
#[path = "../write/harness.rs"]
mod harness;
mod history;
mod pgbench;
mod postgres;
#[path = "../../../pooler/tests/all/common/random.rs"]
#[allow(dead_code, reason = "it has more than these tests need")]
mod random;
#[path = "../../../store/tests/all/skipped.rs"]
mod skipped;
mod statements;
