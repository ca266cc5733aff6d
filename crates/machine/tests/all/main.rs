//! Counters, samples and what the kernel says, on this machine and on made-up ones; the tracer on small programs, compiled here by the
//! system's C compiler.

mod activity;
mod counters;
mod monitor;
mod sampling;
mod skipped;
mod smt;
mod trace;
mod trace_against_callgrind;
