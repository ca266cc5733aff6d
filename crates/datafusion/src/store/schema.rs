//! [`StoreSchema`]: a schema of the catalog in which the tables of a store stand beside others.
//!
//! Names are looked up when a statement names them, so tables made or dropped later need no registration. What it is not: a
//! place for two tables of one name; such a name is refused until one of them has another.

use super::table::StoreTable;
use corun_store::{PUBLIC, Store, StoreError};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tables of a store, and those of another schema.
#[derive(Debug)]
pub struct StoreSchema {
    store: Store,
    others: Arc<dyn SchemaProvider>,
}

impl StoreSchema {
    /// The tables of `store` beside those of `others`, where new ones are registered, too.
    ///
    /// # Errors
    /// A name that both have.
    pub fn try_new(store: Store, others: Arc<dyn SchemaProvider>) -> Result<Self> {
        let schema = StoreSchema { store, others };
        for name in schema.names() {
            schema.check(&name)?;
        }
        Ok(schema)
    }

    /// The names of the store's tables. Those of other schemas than `public` are not shown.
    fn names(&self) -> Vec<String> {
        let tables = self.store.tables();
        let public = tables.iter().filter(|table| table.schema() == PUBLIC);
        public.map(|table| table.name().to_owned()).collect()
    }

    /// Whether a name of the store is only the store's.
    fn check(&self, name: &str) -> Result<()> {
        if self.others.table_exist(name) {
            return plan_err!(
                "there are two tables named \"{name}\": one is in the store at {}, the other was registered; drop the store's (Store::drop_table), or register the other under another name",
                self.store.place()
            );
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Option<StoreTable>> {
        match self.store.table(name) {
            Ok(table) => Ok(Some(StoreTable::new(&self.store, &table))),
            Err(StoreError::NoTable { .. }) => Ok(None),
            Err(error) => Err(super::external(error)),
        }
    }
}

#[async_trait::async_trait]
impl SchemaProvider for StoreSchema {
    fn owner_name(&self) -> Option<&str> {
        self.others.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.others.table_names().into_iter().collect();
        names.extend(self.names());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.find(name)? else {
            return self.others.table(name).await;
        };
        self.check(name)?;
        Ok(Some(Arc::new(table)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.find(&name)?.is_some() {
            return exec_err!(
                "the store at {} has a table \"{name}\" already",
                self.store.place()
            );
        }
        self.others.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.find(name)?.is_some() && !self.others.table_exist(name) {
            return exec_err!(
                "cannot drop table \"{name}\" of a store by SQL; use Store::drop_table (the Rust API)"
            );
        }
        self.others.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.others.table_exist(name) || self.store.table(name).is_ok()
    }
}
