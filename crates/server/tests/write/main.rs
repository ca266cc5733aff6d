//! SQL that writes, through the protocol: a real server over a store in a folder of its own, real drivers.

mod constraints;
mod copy_in;
mod define;
mod harness;
mod insert;
mod isolation;
mod locks;
mod merge;
#[path = "../oracle/postgres.rs"]
#[allow(dead_code, reason = "it has more than these tests need")]
mod postgres;
mod sequences;
mod short;
#[path = "../../../store/tests/all/skipped.rs"]
mod skipped;
mod system;
mod transactions;
mod types;
mod update;
