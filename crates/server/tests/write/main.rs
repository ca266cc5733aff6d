//! SQL that writes, through the protocol: a real server over a store in a folder of its own, real drivers.

mod backup;
mod constraints;
mod copy_in;
mod deferred;
mod define;
mod expressions;
mod harness;
mod insert;
mod isolation;
mod json;
mod locks;
mod merge;
mod orm;
mod planned;
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
