//! [`Folder`]: a folder as a catalog, and [`FolderSchema`], one of its schemas.
//!
//! ```text
//!  name ─► layout (listed again when the name is new, or after a second)
//!            └► files now ─► as they were? ─► the table from before
//!                               └ no ─► opened (types, and whether the files fit together)
//! ```
//!
//! Sessions share folders: a table is opened once for all of them.

use super::error::DataError;
use super::format::Format;
use super::layout::{self, Layout, PUBLIC, TablePlace};
use super::places::{Access, Places};
use super::table::{self, Files};
use corun_datafusion::store::StoreTable;
use corun_store::{Store, StoreError};
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How old a list of names may be.
const LISTED_FOR: Duration = Duration::from_secs(1);
/// Most tables that `CREATE EXTERNAL TABLE` may make in a schema.
const EXTERNAL_MAX: usize = 10_000;

/// Opens stores for all folders that name them.
pub(crate) type OpenStore = Arc<dyn Fn(&Path) -> std::result::Result<Store, DataError> + Send + Sync>;

/// A catalog.
#[derive(Clone)]
pub(crate) struct Folder(Arc<Shared>);

/// Tables of a schema that statements have made, by name.
type ExternalTables = BTreeMap<String, Arc<dyn TableProvider>>;

struct Shared {
    root: PathBuf,
    places: Arc<Places>,
    /// Reads schemas of files; no statement runs in it.
    reader: SessionContext,
    open_store: OpenStore,
    listed: Mutex<Listed>,
    opened: Mutex<BTreeMap<(String, String), Opened>>,
    external: Mutex<BTreeMap<String, ExternalTables>>,
}

struct Listed {
    layout: Arc<Layout>,
    at: Instant,
}

/// A table that was opened, and of what files.
struct Opened {
    files: Files,
    table: std::result::Result<Arc<dyn TableProvider>, DataError>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folder({})", self.0.root.display())
    }
}

impl Folder {
    /// # Errors
    /// A folder that cannot be listed.
    pub(crate) fn open(
        root: PathBuf,
        places: Arc<Places>,
        reader: SessionContext,
        open_store: OpenStore,
    ) -> std::result::Result<Folder, DataError> {
        let layout = layout::catalog(&root, &places)?;
        for (schema, found) in &layout {
            for (table, entry) in &found.tables {
                if let Err(error) = entry {
                    tracing::warn!(schema, table, %error, "a table is left out");
                }
            }
        }
        Ok(Folder(Arc::new(Shared {
            root,
            places,
            reader,
            open_store,
            listed: Mutex::new(Listed {
                layout: Arc::new(layout),
                at: Instant::now(),
            }),
            opened: Mutex::default(),
            external: Mutex::default(),
        })))
    }

    /// What was found, at most `age` ago. A folder that cannot be listed any more keeps its last list.
    fn layout(&self, age: Duration) -> Arc<Layout> {
        let mut listed = self.0.listed.lock();
        if listed.at.elapsed() >= age {
            listed.at = Instant::now();
            match layout::catalog(&self.0.root, &self.0.places) {
                Ok(layout) => {
                    self.forget(&layout);
                    listed.layout = Arc::new(layout);
                }
                Err(error) => {
                    tracing::warn!(folder = %self.0.root.display(), %error, "the folder cannot be listed")
                }
            }
        }
        Arc::clone(&listed.layout)
    }

    /// Lets go of tables that are no longer there.
    fn forget(&self, layout: &Layout) {
        let is_there =
            |schema: &str, table: &str| layout.get(schema).is_some_and(|of| of.tables.contains_key(table));
        self.0
            .opened
            .lock()
            .retain(|(schema, table), _| is_there(schema, table));
    }

    /// Every table with a reason why it cannot be read, of those that have been looked at.
    pub(crate) fn left_out(&self) -> Vec<(String, String, DataError)> {
        let layout = self.layout(LISTED_FOR);
        let names = layout.iter().flat_map(|(schema, of)| {
            of.tables.iter().filter_map(move |(table, entry)| {
                let error = entry.as_ref().err()?;
                Some((schema.clone(), table.clone(), error.clone()))
            })
        });
        let opened = self.0.opened.lock();
        let failed = opened.iter().filter_map(|((schema, table), opened)| {
            let error = opened.table.as_ref().err()?;
            Some((schema.clone(), table.clone(), error.clone()))
        });
        names.chain(failed).collect()
    }

    async fn table_at(
        &self,
        schema: &str,
        name: &str,
        place: &TablePlace,
    ) -> std::result::Result<Arc<dyn TableProvider>, DataError> {
        let key = (schema.to_owned(), name.to_owned());
        let files = table::look(name, place, &self.0.places)?;
        if let Some(known) = self
            .0
            .opened
            .lock()
            .get(&key)
            .filter(|known| known.files == files)
        {
            return known.table.clone();
        }
        let table = table::open(name, &place.path, &files, &self.0.reader.state()).await;
        if let Err(error) = &table {
            tracing::warn!(schema, table = name, %error, "a table is left out");
        }
        let opened = Opened {
            files,
            table: table.clone(),
        };
        self.0.opened.lock().insert(key, opened);
        table
    }
}

impl CatalogProvider for Folder {
    fn schema_names(&self) -> Vec<String> {
        self.layout(LISTED_FOR).keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = |age| self.layout(age).get(name).map(|found| found.store.clone());
        let store = known(LISTED_FOR).or_else(|| known(Duration::ZERO))?;
        let schema = FolderSchema {
            folder: self.clone(),
            name: name.to_owned(),
        };
        match store {
            None => Some(Arc::new(schema)),
            Some(at) => {
                let store = (self.0.open_store)(&at);
                if let Err(error) = &store {
                    tracing::warn!(schema = name, %error, "a store is left out");
                }
                Some(Arc::new(OpenedStore {
                    store,
                    others: schema,
                }))
            }
        }
    }
}

/// The tables of a sub-folder, or of the files at the top.
#[derive(Debug)]
struct FolderSchema {
    folder: Folder,
    name: String,
}

/// Whether a table's name in a statement is a path.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains('/') || Format::of(name).is_some()
}

impl FolderSchema {
    fn entry(&self, name: &str) -> Option<layout::Entry> {
        let known = |age| self.folder.layout(age).get(&self.name)?.tables.get(name).cloned();
        known(LISTED_FOR).or_else(|| known(Duration::ZERO))
    }

    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.folder.0.external.lock().get(&self.name)?.get(name).cloned()
    }

    async fn named_file(&self, text: &str) -> std::result::Result<Arc<dyn TableProvider>, DataError> {
        let shared = &self.folder.0;
        let state = shared.reader.state();
        let address = shared.places.resolve(text, Access::Read)?;
        match address.get_url().to_file_path() {
            Ok(path) => table::open_named(&path, &shared.places, &state).await,
            Err(()) => table::open_object(text, address, &state).await,
        }
    }
}

#[async_trait::async_trait]
impl SchemaProvider for FolderSchema {
    fn table_names(&self) -> Vec<String> {
        let layout = self.folder.layout(LISTED_FOR);
        let mut names: BTreeSet<String> = layout
            .get(&self.name)
            .map(|of| {
                of.tables
                    .iter()
                    .filter(|(_, entry)| entry.is_ok())
                    .map(|(name, _)| name.clone())
                    .collect()
            })
            .unwrap_or_default();
        if let Some(external) = self.folder.0.external.lock().get(&self.name) {
            names.extend(external.keys().cloned());
        }
        let opened = self.folder.0.opened.lock();
        names.retain(|table| {
            let known = opened.get(&(self.name.clone(), table.clone()));
            known.is_none_or(|opened| opened.table.is_ok())
        });
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.external(name) {
            return Ok(Some(table));
        }
        if let Some(entry) = self.entry(name) {
            let table = self.folder.table_at(&self.name, name, &entry?).await?;
            return Ok(Some(table));
        }
        match is_path(name) {
            true => Ok(Some(self.named_file(name).await?)),
            false => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let refused = |code, why: String| Err(DataFusionError::from(DataError::new(code, why)));
        if self.entry(&name).is_some() {
            return refused("42P07", format!("relation \"{name}\" already exists"));
        }
        let mut schemas = self.folder.0.external.lock();
        let tables = schemas.entry(self.name.clone()).or_default();
        if tables.len() >= EXTERNAL_MAX {
            return refused(
                "54000",
                format!("the schema \"{}\" has {EXTERNAL_MAX} external tables", self.name),
            );
        }
        Ok(tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let removed = self
            .folder
            .0
            .external
            .lock()
            .get_mut(&self.name)
            .and_then(|tables| tables.remove(name));
        match removed {
            None if self.entry(name).is_some() => {
                let error = format!("cannot drop the table \"{name}\": it is a file");
                Err(DataError::denied(error).hint("remove the file").into())
            }
            removed => Ok(removed),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.external(name).is_some() || self.entry(name).is_some()
    }
}

/// The tables of a store, of which statements see what is on disk, and external ones beside them.
#[derive(Debug)]
struct OpenedStore {
    store: std::result::Result<Store, DataError>,
    others: FolderSchema,
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
            let error = format!("relation \"{name}\" already exists");
            return Err(DataError::new("42P07", error).into());
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

/// The schema that statements mean when they name none.
pub(crate) const DEFAULT_SCHEMA: &str = PUBLIC;
