//! What [`Engine`] does with stores: tables in SQL, and files into tables.

use super::external;
use super::load::{LoadOptions, load};
use super::schema::StoreSchema;
use crate::{Engine, EngineError, EngineOptions};
use corun_store::{Options, Store};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use std::path::Path;
use std::sync::Arc;

/// Batches read ahead of the load.
const BATCHES_AHEAD: usize = 4;

impl Engine {
    /// Opens the store in a folder, or makes one, and shows its tables to SQL. Blocks while it recovers.
    ///
    /// # Errors
    /// What [`Store::open`] reports; a table of the store named as one that is registered.
    pub fn open_store(&self, folder: &Path, options: Options) -> Result<Store, EngineError> {
        let store = Store::open(folder, options).map_err(|error| {
            let failed = EngineError::new(format!("cannot open the store in {}", folder.display()));
            failed.with_detail(error.to_string())
        })?;
        self.attach_store(&store)?;
        Ok(store)
    }

    /// Shows the tables of a store to SQL under their names, those made later included. Every statement reads all of them as of
    /// one moment.
    ///
    /// # Errors
    /// A table of the store named as one that is registered.
    pub fn attach_store(&self, store: &Store) -> Result<(), EngineError> {
        let config = self.context().copied_config();
        let defaults = &config.options().catalog;
        let found = self
            .context()
            .catalog(&defaults.default_catalog)
            .and_then(|catalog| {
                let schema = catalog.schema(&defaults.default_schema)?;
                Some((catalog, schema))
            });
        let Some((catalog, others)) = found else {
            return Err(EngineError::new(format!(
                "there is no schema {}.{} to show the store's tables in",
                defaults.default_catalog, defaults.default_schema
            )));
        };
        let schema = StoreSchema::try_new(store.clone(), others)?;
        catalog.register_schema(&defaults.default_schema, Arc::new(schema))?;
        Ok(())
    }

    /// Loads a Parquet or CSV file, or a folder of either, into a table of a store, in the order of its rows. See
    /// [`super::load()`].
    ///
    /// # Errors
    /// A file that cannot be read; [`super::LoadError`].
    pub fn load_path<'a>(
        &'a self,
        store: &'a Store,
        table: &'a str,
        path: &'a Path,
        options: &'a LoadOptions,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        async move {
            // A session of its own: the file gets no name in this one. One partition keeps the rows in order.
            let reader = Engine::new(&EngineOptions {
                partitions: 1,
                ..EngineOptions::default()
            })?;
            reader.register_path("source", path).await?;
            let (schema, mut rows) = reader.stream("select * from source").await?;
            let (sender, mut receiver) = tokio::sync::mpsc::channel(BATCHES_AHEAD);
            let (store, table, options) = (store.clone(), table.to_owned(), options.clone());
            let loading = tokio::task::spawn_blocking(move || {
                let batches = std::iter::from_fn(|| receiver.blocking_recv());
                load(&store, &table, &schema, batches, &options)
            });
            while let Some(batch) = rows.next().await {
                if sender.send(batch).await.is_err() {
                    // The load has failed, and says why.
                    break;
                }
            }
            drop(sender);
            match loading.await {
                Ok(loaded) => Ok(loaded?),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        .boxed()
    }
}

/// An error of a store in the parts of the facade.
impl From<corun_store::StoreError> for EngineError {
    fn from(error: corun_store::StoreError) -> Self {
        EngineError::from(external(error))
    }
}
