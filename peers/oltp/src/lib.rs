//! The peers of `corun-lab bench oltp` behind the traits of `corun-workloads`: SQLite, Turso, redb, fjall and,
//! with the feature `rocksdb`, RocksDB.
//!
//! What it is not: part of corun. It is built apart (`scripts/bootstrap --peers`) and run as a program of its own.

pub mod engines;
pub mod fjall;
pub mod redb;
pub mod report;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod sql;
pub mod sqlite;
pub mod syncer;
pub mod turso;
