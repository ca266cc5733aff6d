//! What the suite `memory-latency` runs: paper 000's operators over inputs with known answers, in every mode, timed, traced and simulated.
//!
//! ```text
//!   sizes ─▶ data (inputs, oracles) ─▶ subject (joins, index) ─▶ contest   interleaved rounds, ratios, verdicts
//!                                                             ├▶ misses    traces into simulated caches
//!                                                             ├▶ counted   hardware events, where the machine counts them
//!                                      interference ──────────┤            the shared array of a work-ahead set, simulated
//!                                                             └▶ rows ─▶ lab_core::figures draws them
//! ```
//!
//! Start at [`crate::suites::memory_latency::run`], which names the cases. Nothing here prints.

pub mod contest;
pub mod counted;
pub mod data;
pub mod expected;
pub mod index;
pub mod interference;
pub mod joins;
pub mod keys;
pub mod misses;
pub mod sizes;
pub mod subject;
pub mod threads;
