//! An in-memory transactional row store to embed: multi-version rows, strict two-phase locking, a redo log.
//!
//! Order of calls: [`Store::open`], [`Store::create_table_if_missing`], a [`Session`] for each client, and for each of its transactions
//! [`Session::begin`], any operations, [`Transaction::commit`]. Read-only work that must not wait and must not be waited for
//! takes a [`Snapshot`].
//!
//! ```
//! use corun_store::{Lock, Options, Store, TableDef, Type};
//!
//! let store = Store::in_memory(Options::default())?;
//! let account = store.create_table(
//!     TableDef::new("account")
//!         .column("id", Type::I64)
//!         .column("owner", Type::Text { max: 40 })
//!         .column("balance", Type::Decimal { precision: 12, scale: 2 })
//!         .primary_key(&["id"])
//!         .index("by_owner", &["owner"]),
//! )?;
//! let by_id = account.primary();
//!
//! let mut session = store.session_here()?;
//! let transaction = session.begin()?;
//! let mut row = account.new_row();
//! row.set("id", 1)?;
//! row.set("owner", "Ada")?;
//! row.set("balance", 100_00)?;
//! transaction.insert(&account, &row)?;
//! transaction.commit()?;
//!
//! let transaction = session.begin()?;
//! let found = transaction.fetch_for_update(&by_id, &[1_i64.into()])?.expect("it was inserted");
//! let balance: i64 = found.row.get("balance")?;
//! transaction.update(&account, found.rid, |row| row.set("balance", balance - 30_00))?;
//! let before = store.snapshot()?;
//! transaction.commit()?;
//!
//! assert_eq!(before.fetch(&by_id, &[1_i64.into()])?.unwrap().row.int("balance"), 100_00);
//! assert_eq!(store.snapshot()?.fetch(&by_id, &[1_i64.into()])?.unwrap().row.int("balance"), 70_00);
//! # Ok::<(), corun_store::StoreError>(())
//! ```
//!
//! What it is not: it knows no SQL and no Arrow (`corun-datafusion` shows its tables to SQL), and it never looks for the machine's
//! topology; who waits, and on what kind of thread, is handed in through [`park`].

mod ahead;
mod background;
mod backup;
mod by_key;
mod changed;
pub mod checkpoint;
mod checkpointer;
mod codec;
mod commit;
mod commit_handle;
mod constant;
mod constraints;
mod counts;
mod definition;
mod definition_set;
mod definitions;
mod error;
mod follower;
mod foreign_key;
mod garbage;
mod horizon;
mod image;
mod index;
mod index_build;
mod key;
mod known;
pub mod lock;
pub mod log;
mod memory;
mod namespace;
mod operations;
mod options;
mod own;
pub mod park;
mod pool;
mod recovery;
mod redo;
mod restore;
mod rewrite;
mod row;
mod schema;
mod sequence;
mod session;
mod slots;
mod snapshot;
pub mod storage;
mod store;
mod table;
mod table_scan;
mod transaction;
mod ts;
mod value;
mod version;
mod workers;
mod write;
mod write_set;

pub use corun_store_derive::Row;

pub use backup::{Verified, VerifiedTable, restore, verify, verify_on};
pub use commit_handle::CommitHandle;
pub use constant::Constant;
pub use counts::{CheckpointDone, Recovered, Stats};
pub use error::{Result, StoreError};
pub use follower::{Follower, Lag};
pub use foreign_key::{DeferredKeys, ForeignKeyViolation};
pub use index::Index;
pub use key::{KEY_BYTES_MAX, KeyError, KeyRange};
pub use log::Archive;
pub use operations::{OPERATIONS_MAX, STACK_BYTES_MIN, operation_name};
pub use options::{Durability, OnDamage, OnProgress, Options, Progress};
pub use restore::{Until, restore_to, restore_to_on};
pub use row::{FromField, Layout, Row, RowBuf, RowError, RowField, RowIndex, RowRef};
pub use schema::{
    CHECK_BYTES_MAX, COLUMNS_MAX, CONSTRAINTS_MAX, CheckDef, ColumnDef, ForeignKeyDef, INDEXES_MAX, IndexDef,
    PUBLIC, ROW_BYTES_MAX, ReferentialAction, SchemaError, TableDef,
};
pub use sequence::{Sequence, SequenceDef};
pub use session::{RUNS_MAX, Session};
pub use slots::Rid;
pub use snapshot::{ScanPlace, Snapshot, SnapshotScan};
pub use store::Store;
pub use table::Table;
pub use table_scan::TableScan;
pub use transaction::{Direction, Found, Lock, Savepoint, Scan, Transaction};
pub use ts::Ts;
pub use value::{Type, Value};
pub use workers::{OperationTeams, Pending, QueueFull, Teams, WorkerOptions, Workers};

// The Rust block of the manual's page runs as a doctest of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/store/README.md")]
mod manual_store {}

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
