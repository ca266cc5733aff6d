//! The program `corun-sql` from outside.

#[path = "../../../distributed/tests/authority/mod.rs"]
mod authority;
mod clients;
mod manifests;
mod names;
mod operate;
#[path = "../../../corun/tests/program/mod.rs"]
mod program;
mod psql;
mod scratch;
mod serve;
mod serve_users;
mod shell;
#[path = "../../../store/tests/all/skipped.rs"]
mod skipped;
mod sql;
mod store;
mod terminal;
mod workers;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_corun-sql");
