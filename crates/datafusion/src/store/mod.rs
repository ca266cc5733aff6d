//! The tables of a [`corun_store::Store`](corun_store::Store) in SQL: live data beside files and in-memory batches.
//!
//! ```text
//!   Engine::attach_store ──▶ StoreSchema: names, as they are now
//!                                │ a statement names tables
//!                                ▼
//!                            StoreTable ──▶ OneMoment: one snapshot for all tables of the statement
//!                                                │ scan
//!                                                ▼
//!                       Access: whole table, or ranges of an index ──▶ StoreScanExec ──▶ batches
//! ```
//!
//! Order of calls: [`crate::Engine::open_store`] or [`crate::Engine::attach_store`], then queries; [`load`] or
//! [`crate::Engine::load_path`] to fill tables. Programs with a DataFusion session of their own call [`crate::install`] and
//! register [`StoreTable`]s. What it is not: a way to write. SQL reads; transactions of the store and bulk loads write.

mod access;
mod columns;
mod conditions;
mod engine;
mod estimate;
mod fields;
mod load;
mod moment;
mod scan;
mod schema;
mod shown;
mod statistics;
mod table;
mod types;

pub use columns::batch_of;
pub use load::{LoadError, LoadOptions, load, table_definition};
pub use moment::{Moments, OneMoment, install};
pub use scan::StoreScanExec;
pub use schema::StoreSchema;
pub use shown::shown_as;
pub use table::StoreTable;
pub use types::{ROW_NUMBER, arrow_schema, arrow_type, scalar};

use crate::EngineError;
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;

/// A store's error as DataFusion's.
fn external(error: impl Into<corun_store::StoreError>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

/// Refuses `DROP TABLE` of a store's table.
///
/// # Errors
/// It is one.
pub(crate) async fn refuse_drop(context: &SessionContext, table: &TableReference) -> Result<(), EngineError> {
    let provider = context.table_provider(table.clone()).await;
    if provider.is_ok_and(|provider| provider.is::<StoreTable>()) {
        let primary = format!("cannot drop table \"{}\" of a store by SQL", table.table());
        return Err(EngineError::new(primary).with_hint("use Store::drop_table (the Rust API)"));
    }
    Ok(())
}
