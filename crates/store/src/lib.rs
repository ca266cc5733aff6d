//! An in-memory transactional row store to embed: multi-version rows, strict two-phase locking, a redo log.
//!
//! What it is not: it knows no SQL and no Arrow (`fusion` shows its tables to SQL), and it never looks for the machine's
//! topology; who waits, and on what kind of thread, is handed in through [`park`].

pub mod checkpoint;
pub mod log;
pub mod park;
pub mod storage;
pub mod ts;
