//! YCSB, workloads A to F: one table of records of 10 fields of 100 bytes under a key of 8 bytes.

mod record;

pub use record::{FIELD_BYTES, FIELDS, RECORD_BYTES, ScanAnswer};

/// The tables of YCSB in a key-value store, by their numbers.
pub const KV_TABLES: [&str; 1] = ["usertable"];
