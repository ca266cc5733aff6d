//! The program `corun` from outside: arguments, the cache's partitions, the pooler as a process.

mod arguments;
mod partition;
mod partition_killed;
mod partitioned;
#[path = "../program/mod.rs"]
mod program;
mod proxy;
mod restart;
#[path = "../../../resctrl/tests/twin_mount/mod.rs"]
mod twin_mount;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_corun");
