//! The workloads on our own store, [`corun_store`], by its calls.
//!
//! Order of calls: [`open`] (or any way to a [`Store`]), [`CorunTpcc::new`] or [`CorunYcsb::new`], which make the tables unless
//! they are there, then as with every engine. Transactions that only read, and more than one row, use a snapshot, which waits
//! for nobody; all others take locks (strict two-phase locking). Where commits are durable, it is a snapshot of durable ones.

mod new_order;
mod rows;
mod schema;
mod tpcc;
mod transactions;
mod ycsb;

use std::path::Path;

use corun_exec::teams::Operation;
use corun_store::{Options, RowError, Snapshot, Store, StoreError};

use crate::engine::{Durability, TxError};

pub use tpcc::CorunTpcc;
pub use ycsb::CorunYcsb;

/// Log after which a checkpoint is made, in bytes: what engines with tables in memory get for those.
const CHECKPOINT_LOG_BYTES: u64 = 1 << 30;

/// Rows of one transaction of a load.
const LOAD_ROWS: usize = 1000;

/// Opens the store in `folder` so that its commits promise `durability`; without a log, `folder` is not touched.
///
/// # Errors
/// [`TxError::Failed`] with what the store says.
pub fn open(durability: Durability, folder: &Path, workers: usize) -> Result<Store, TxError> {
    let mut options = Options {
        workers: workers.max(1),
        // As long as other engines can do without writing their data to files.
        checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
        ..Options::default()
    };
    options.durability = match durability {
        Durability::Durable => corun_store::Durability::Durable,
        Durability::None | Durability::Asynchronous => corun_store::Durability::Asynchronous,
    };
    match durability {
        Durability::None => Store::in_memory(options),
        _ => Store::open(folder, options),
    }
    .map_err(Into::into)
}

/// What a transaction that only reads looks at: the newest commits, or, where commits promise to be durable, the newest that are.
fn snapshot(store: &Store) -> Result<Snapshot, StoreError> {
    match store.durability() {
        corun_store::Durability::Durable => store.durable_snapshot(),
        corun_store::Durability::Asynchronous => store.snapshot(),
    }
}

fn operation_name(operation: Operation) -> String {
    corun_store::operation_name(operation).unwrap_or_else(|| format!("operation {}", operation.0))
}

impl From<StoreError> for TxError {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            TxError::Retry(error.to_string())
        } else {
            TxError::Failed(error.to_string())
        }
    }
}

impl From<RowError> for TxError {
    fn from(error: RowError) -> Self {
        TxError::Failed(error.to_string())
    }
}

impl From<corun_store::KeyError> for TxError {
    fn from(error: corun_store::KeyError) -> Self {
        TxError::Failed(error.to_string())
    }
}
