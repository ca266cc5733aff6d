//! The workloads on our own [`store`], by its calls.
//!
//! Order of calls: [`open`] (or any way to a [`Store`]), [`CorunTpcc::new`] or [`CorunYcsb::new`], which make the tables unless
//! they are there, then as with every engine. Transactions that only read, and more than one row, use a snapshot, which waits
//! for nobody; all others take locks (strict two-phase locking). A snapshot shows commits as soon as they are made, also those
//! that a durable session still waits for.

mod rows;
mod schema;
mod tpcc;
mod transactions;
mod ycsb;

use std::path::Path;

use store::{Options, RowError, Store, StoreError};

use crate::engine::{Durability, TxError};

pub use tpcc::CorunTpcc;
pub use ycsb::CorunYcsb;

/// Rows of one transaction of a load.
const LOAD_ROWS: usize = 1000;

/// Opens the store in `folder` so that its commits promise `durability`; without a log, `folder` is not touched.
///
/// # Errors
/// [`TxError::Failed`] with what the store says.
pub fn open(durability: Durability, folder: &Path, workers: usize) -> Result<Store, TxError> {
    let mut options = Options {
        workers: workers.max(1),
        ..Options::default()
    };
    options.durability = match durability {
        Durability::Durable => store::Durability::Durable,
        Durability::None | Durability::Asynchronous => store::Durability::Asynchronous,
    };
    match durability {
        Durability::None => Store::in_memory(options),
        _ => Store::open(folder, options),
    }
    .map_err(Into::into)
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

impl From<store::KeyError> for TxError {
    fn from(error: store::KeyError) -> Self {
        TxError::Failed(error.to_string())
    }
}
