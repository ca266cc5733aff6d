//! The program `corun-lab` from outside, and the documents, whose commands need every program: those lie beside this one.

mod arguments;
mod autosteps;
mod autosteps_candidates;
mod autosteps_programs;
mod bench;
mod bench_postgres;
mod bench_records;
mod characterize;
mod characterize_broken;
mod client;
#[path = "../../../../crates/corun/tests/repository/common.rs"]
mod common;
mod demo;
mod documents;
mod private_caches;
#[path = "../../../../crates/corun/tests/program/mod.rs"]
mod program;
mod simulate;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_corun-lab");

/// The words of a line: arguments as they are typed.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
