//! YCSB, workloads A to F: one table of records of 10 fields of 100 bytes under a key of 8 bytes.
//!
//! A record's content follows from its key and the version of each field, so any read can be verified. Records are numbered
//! in the order of their insertion; the key is a bijection of the number, so that new keys fall anywhere in the key space.

mod check;
mod database;
mod kv;
pub mod record;
mod requests;
mod zipf;

pub use check::{Finding, check};
pub use database::{Database, load};
pub use kv::KvYcsb;
pub use record::{FIELD_BYTES, FIELDS, RECORD_BYTES, ScanAnswer};
pub use requests::{Input, Kind, Requests, UnknownWorkload, Workload};

/// The tables of YCSB in a key-value store, by their numbers.
pub const KV_TABLES: [&str; 1] = ["usertable"];
