//! The store from outside: rows, keys and transactions, locks, log and checkpoints, crashes.
//!
//! Three programs stand beside this one, and each says why: `examples`, `limits` (an allocator) and `workers` (CTX points).

mod add_column;
mod archive;
mod backup;
mod batches;
mod by_key;
mod checker;
mod checkpoint;
mod churn;
mod clients;
mod closing;
mod commit_handle;
mod crash_twin;
mod definitions;
mod faults;
mod findings;
mod follower;
mod history;
mod incremental;
mod index_build;
mod keys;
mod lock;
mod log_clients;
mod log_crash;
mod log_damage;
mod log_faults;
mod log_support;
mod long_keys;
mod model;
mod no_primary_key;
mod own_writes;
mod refusal_support;
mod refusals;
mod rows;
mod same_thread;
mod savepoints;
mod scan_after;
mod sequence;
mod serializable;
mod skipped;
mod small;
mod storm;
mod suspend;
mod truncate;
mod typed;
