//! Who may change tables while an index of one is made (nobody), and the schema in which a table is replaced in one step.

use crate::EngineError;
use async_trait::async_trait;
use datafusion::catalog::memory::MemorySchemaProvider;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::exec_err;
use datafusion::error::Result;
use futures::future::{Either, select};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

/// Held by statements that change tables, one index at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Definitions(Arc<tokio::sync::RwLock<()>>);

/// An index waits so long for statements that change tables.
const PATIENCE: Duration = Duration::from_secs(10);

impl Definitions {
    /// For a statement that changes tables or their rows, until it has ended.
    pub(crate) async fn changing(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.0).read_owned().await
    }

    /// For a statement that makes or drops an index: no other changes tables meanwhile.
    ///
    /// # Errors
    /// A statement that changes a table for longer than ten seconds.
    pub(crate) async fn alone(&self) -> Result<OwnedRwLockWriteGuard<()>, EngineError> {
        self.alone_within(PATIENCE).await
    }

    async fn alone_within(&self, patience: Duration) -> Result<OwnedRwLockWriteGuard<()>, EngineError> {
        if let Ok(alone) = Arc::clone(&self.0).try_write_owned() {
            return Ok(alone);
        }
        // A thread keeps the time: the caller's runtime may have no timers. It ends when the wait does.
        let (_waiting, waits) = std::sync::mpsc::channel::<()>();
        let (ring, rung) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("corun-patience".to_owned())
            .spawn(move || {
                let _over = waits.recv_timeout(patience);
                let _gone = ring.send(());
            })
            .map_err(|error| EngineError::new(format!("there is no thread that keeps the time: {error}")))?;
        let alone = std::pin::pin!(Arc::clone(&self.0).write_owned());
        match select(alone, rung).await {
            Either::Left((alone, _)) => Ok(alone),
            Either::Right(_) => {
                let seconds = patience.as_secs();
                let primary = format!("other statements have been changing tables for {seconds} seconds");
                Err(EngineError::new(primary).with_hint("make or drop the index when they have ended"))
            }
        }
    }
}

/// A schema in memory, as DataFusion's, whose tables can be replaced: there is no moment in which one is not found.
#[derive(Debug, Default)]
pub(crate) struct Tables(RwLock<BTreeMap<String, Arc<dyn TableProvider>>>);

impl Tables {
    /// Puts `new` in the place of the table `name`.
    pub(crate) fn replace(&self, name: &str, new: Arc<dyn TableProvider>) {
        self.0.write().insert(name.to_owned(), new);
    }

    /// The schema `name` of a catalog as one whose tables can be replaced. DataFusion's own kind is replaced by it.
    ///
    /// # Errors
    /// No such schema; one that keeps its tables elsewhere.
    pub(crate) async fn of(
        catalog: &dyn CatalogProvider,
        name: &str,
    ) -> Result<Arc<dyn SchemaProvider>, EngineError> {
        let Some(schema) = catalog.schema(name) else {
            return Err(EngineError::new(format!("there is no schema \"{name}\"")));
        };
        if schema.is::<Tables>() {
            return Ok(schema);
        }
        if !schema.is::<MemorySchemaProvider>() {
            let primary =
                format!("the tables of schema \"{name}\" are kept elsewhere, and have no indexes of corun's");
            return Err(
                EngineError::new(primary).with_hint("CREATE TABLE … AS SELECT makes a copy in memory")
            );
        }
        let mut tables = BTreeMap::new();
        for table in schema.table_names() {
            if let Some(provider) = schema.table(&table).await? {
                tables.insert(table, provider);
            }
        }
        let tables: Arc<dyn SchemaProvider> = Arc::new(Tables(RwLock::new(tables)));
        catalog.register_schema(name, Arc::clone(&tables))?;
        Ok(tables)
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.0.read().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.read().get(name).cloned())
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.0.write();
        if tables.contains_key(&name) {
            return exec_err!("The table {name} already exists");
        }
        Ok(tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.write().remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.read().contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_on_a_runtime_without_timers() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let definitions = Definitions::default();
            let changing = definitions.changing().await;
            let refused = definitions.alone_within(Duration::from_millis(1)).await;
            assert!(
                refused
                    .unwrap_err()
                    .to_string()
                    .contains("have been changing tables")
            );
            let patient = definitions.alone();
            drop(changing);
            patient.await.unwrap();
            let waiting = definitions.changing().await;
            let (alone, ()) = futures::join!(definitions.alone(), async { drop(waiting) });
            alone.unwrap();
        });
    }
}
