//! Stores as schemas: [`OwnStore`], the store that a database is, and [`OpenedStore`], one in a sub-folder, which is only read. External tables
//! stand beside their tables.

use super::error::DataError;
use super::folder::{FolderSchema, is_path};
use super::view::StoreView;
use crate::write::declared_schema;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use corun_datafusion::store::{Moments, StoreTable};
use corun_store::{Sequence, Store, StoreError};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Before the name of a table: the same table with the numbers of its rows. No client writes a name like that by chance, and who does gets the
/// numbers.
pub(crate) const WITH_ROW_NUMBERS: char = '\u{1}';

/// A schema of the store that the database is, as the session sees it.
#[derive(Debug)]
pub(super) struct OwnStore {
    pub(super) view: Arc<StoreView>,
    pub(super) others: FolderSchema,
}

impl OwnStore {
    fn has(&self, name: &str) -> bool {
        let name = name.strip_prefix(WITH_ROW_NUMBERS).unwrap_or(name);
        matches!(self.view.table(self.others.name(), name), Ok(Some(_)))
    }
}

#[async_trait::async_trait]
impl SchemaProvider for OwnStore {
    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.view.tables(self.others.name()).into_iter().collect();
        names.extend(self.others.table_names());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (name, numbered) = match name.strip_prefix(WITH_ROW_NUMBERS) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let info = self.view.info(self.others.name(), name);
        let info = info.map_err(|refusal| DataFusionError::from(DataError::from(refusal)))?;
        let Some(info) = info else {
            let sequence = self.view.sequence(self.others.name(), name);
            return match sequence.map_err(|error| DataFusionError::External(Box::new(error)))? {
                Some(sequence) => sequence_as_table(&sequence).map(Some),
                None => self.others.table(name).await,
            };
        };
        let table = StoreTable::new(self.view.store(), &info.table)
            .with_schema(declared_schema(&info))
            .of_session(Arc::clone(&self.view) as Arc<dyn Moments>);
        Ok(Some(Arc::new(match numbered {
            true => table.with_row_numbers(),
            false => table,
        })))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.has(&name) {
            return Err(exists(&name));
        }
        self.others.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        // Tables of the store are dropped in the session's transaction.
        self.others.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.has(name) || self.others.table_exist(name)
    }
}

/// The one row that a sequence is, read as a table.
fn sequence_as_table(sequence: &Sequence) -> Result<Arc<dyn TableProvider>> {
    let (last, is_called) = sequence.last();
    let columns: [(&str, ArrayRef); 3] = [
        ("last_value", Arc::new(Int64Array::from(vec![last]))),
        ("log_cnt", Arc::new(Int64Array::from(vec![0]))),
        ("is_called", Arc::new(BooleanArray::from(vec![is_called]))),
    ];
    let row = RecordBatch::try_from_iter(columns)?;
    Ok(Arc::new(MemTable::try_new(row.schema(), vec![vec![row]])?))
}

fn exists(name: &str) -> DataFusionError {
    DataError::new("42P07", format!("relation \"{name}\" already exists")).into()
}

/// The tables of a store in a sub-folder, of which statements see what is on disk.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) store: std::result::Result<Store, DataError>,
    pub(super) others: FolderSchema,
}

#[async_trait::async_trait]
impl SchemaProvider for OpenedStore {
    fn table_names(&self) -> Vec<String> {
        let of_store = self.store.iter().flat_map(Store::tables);
        let mut names: BTreeSet<String> = of_store.map(|table| table.name().to_owned()).collect();
        names.extend(self.others.table_names());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if is_path(name) || self.others.table_exist(name) {
            return self.others.table(name).await;
        }
        let store = self.store.as_ref().map_err(DataError::clone)?;
        match store.table(name) {
            Ok(table) => Ok(Some(Arc::new(StoreTable::new(store, &table).durable()))),
            Err(StoreError::NoTable { .. }) => Ok(None),
            Err(error) => Err(DataFusionError::External(Box::new(error))),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.store.as_ref().is_ok_and(|store| store.table(&name).is_ok()) {
            return Err(exists(&name));
        }
        self.others.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.store.as_ref().is_ok_and(|store| store.table(name).is_ok()) {
            let error = format!("cannot drop the table \"{name}\" of a store");
            return Err(DataError::denied(error).into());
        }
        self.others.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.others.table_exist(name) || self.store.as_ref().is_ok_and(|store| store.table(name).is_ok())
    }
}
