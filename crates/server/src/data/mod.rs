//! What can be read: folders as catalogs, files as tables, stores, buckets, and which of all that a statement may touch.
//!
//! Order of calls: [`Data::open`] once, [`Data::install_for`] for each session; for each statement [`Data::gate`] before it is planned and
//! [`Data::gate_plan`] before it is run. Below both stands a file system that opens nothing outside of the allowed folders (`guarded`).
//!
//! ```text
//!  config ─► places ─────────────► guarded (every read and write of DataFusion)
//!    │         └─► gate            (every statement)
//!    └► layout ─► table ─► folder  (a catalog; sessions share it)
//! ```
//!
//! A catalog whose folder is a store is seen by each session through a [`StoreView`] of its own. What it is not: rights on tables, which belong
//! to users; nor a way to write rows (`write`).

mod buckets;
mod config;
mod error;
mod folder;
mod format;
mod gate;
mod guarded;
mod layout;
mod opened;
mod places;
mod table;
mod user;
mod view;

pub use buckets::Bucket;
pub use config::DataConfig;
pub use error::DataError;
pub use gate::FileRights;
pub use user::DataUser;

pub(crate) use folder::is_path;
pub(crate) use opened::WITH_ROW_NUMBERS;
pub(crate) use view::{DICTIONARY, StoreView};

use corun_store::{Options, Store};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProviderList};
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use folder::{DEFAULT_SCHEMA, Folder, OpenStore};
use guarded::GuardedFiles;
use object_store::ObjectStore;
use parking_lot::Mutex;
use places::{Places, canonical_folder};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;

/// How long a store that could not be opened is not tried again.
const STORE_REST: Duration = Duration::from_secs(5);
/// Sessions that write at a time, and statements that read: each client may be one.
const STORE_SESSIONS_MAX: u32 = 8192;
const STORE_SNAPSHOTS_MAX: usize = 8192;

/// The data of a server. Clones are the same.
#[derive(Clone)]
pub struct Data {
    places: Arc<Places>,
    catalogs: Vec<(String, Folder)>,
    /// What reaches files and buckets, by address.
    objects: Vec<(Url, Arc<dyn ObjectStore>)>,
    stores: Arc<Stores>,
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data")
            .field("catalogs", &self.catalogs)
            .finish_non_exhaustive()
    }
}

impl Data {
    /// Lists the folders and opens the stores in them; blocks while these recover.
    ///
    /// # Errors
    /// No catalog or two of one name, a folder that is not there, a `corun.toml` with an unknown key, a bucket that cannot be set up. A
    /// table or store that cannot be read is left out, and a log line says why.
    pub fn open(config: DataConfig) -> Result<Data, DataError> {
        if config.catalogs.is_empty() {
            return Err(DataError::config("there is no folder to show"));
        }
        let mut roots = BTreeMap::new();
        for (name, folder) in &config.catalogs {
            if roots.insert(name.clone(), canonical_folder(folder)?).is_some() {
                return Err(DataError::config(format!("two catalogs are named \"{name}\"")));
            }
        }
        // Those of the catalogs first: relative names mean them.
        let folders = config.catalogs.iter().map(|(_, folder)| folder);
        let read: Vec<PathBuf> = folders.chain(&config.allow_read).cloned().collect();
        let places = Arc::new(Places::new(&read, &config.allow_write, &config.buckets)?);
        let files: Arc<dyn ObjectStore> = Arc::new(GuardedFiles::new(Arc::clone(&places)));
        let local = Url::parse("file:///").map_err(|error| DataError::config(error.to_string()))?;
        let mut objects = vec![(local, files)];
        for bucket in &config.buckets {
            objects.push(bucket.open()?);
        }
        let reader = SessionContext::new();
        register(&objects, &reader.runtime_env());
        let stores = Arc::new(Stores {
            memory_max: config.store_memory_max,
            opened: Mutex::default(),
        });
        let open_store: OpenStore = {
            let stores = Arc::clone(&stores);
            Arc::new(move |folder| stores.open(folder))
        };
        let mut catalogs = Vec::new();
        for (name, _) in &config.catalogs {
            let root = roots[name].clone();
            check_options(&root, &places)?;
            let folder = Folder::open(root, Arc::clone(&places), reader.clone(), Arc::clone(&open_store))?;
            for schema in folder.schema_names() {
                // Opens the store of the schema, if it is one.
                _ = folder.schema(&schema);
            }
            catalogs.push((name.clone(), folder));
        }
        Ok(Data {
            places,
            catalogs,
            objects,
            stores,
        })
    }

    /// The folder that a text names for a copy of a store; it may be missing.
    ///
    /// # Errors
    /// It is not below a folder that statements may write into, or inside of a store.
    pub(crate) fn folder_to_write(&self, text: &str) -> Result<PathBuf, DataError> {
        self.places.folder_to_write(text)
    }

    /// Shows the catalogs to a session, which gets a list of catalogs of its own, and lets it read and write files through the guard only.
    /// Tables that it had are gone. It is a session of the server itself, which may drop all external tables.
    ///
    /// # Errors
    /// None that is known.
    pub fn install(&self, context: &SessionContext) -> Result<(), DataFusionError> {
        self.install_as(context, None, None)
    }

    /// The same for a session of a user, which may drop its own external tables only.
    ///
    /// # Errors
    /// None that is known.
    pub fn install_for(&self, user: DataUser, context: &SessionContext) -> Result<(), DataFusionError> {
        self.install_as(context, Some(user), None)
    }

    /// The same for a session that writes to the store that the catalog `database` is ([`Data::view`]).
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn install_writing(
        &self,
        user: DataUser,
        database: &str,
        view: Option<Arc<StoreView>>,
        context: &SessionContext,
    ) -> Result<(), DataFusionError> {
        self.install_as(context, Some(user), view.map(|view| (database, view)))
    }

    /// What a session sees of the store that a catalog is; `None`: it is none.
    pub(crate) fn view(&self, database: &str) -> Option<Arc<StoreView>> {
        let folder = self.catalogs.iter().find(|(name, _)| name == database);
        folder.and_then(|(_, folder)| folder.view())
    }

    fn install_as(
        &self,
        context: &SessionContext,
        user: Option<DataUser>,
        view: Option<(&str, Arc<StoreView>)>,
    ) -> Result<(), DataFusionError> {
        register(&self.objects, &context.runtime_env());
        let catalogs = MemoryCatalogProviderList::new();
        for (name, folder) in &self.catalogs {
            let view = view.as_ref().filter(|(database, _)| database == name);
            let view = view.map(|(_, view)| Arc::clone(view));
            let folder: Arc<dyn CatalogProvider> = Arc::new(folder.of_user(user.clone()).with_view(view));
            datafusion::catalog::CatalogProviderList::register_catalog(&catalogs, name.clone(), folder);
        }
        let mut config = context.copied_config();
        let options = &mut config.options_mut().catalog;
        options.default_catalog.clone_from(&self.catalogs[0].0);
        options.default_schema = DEFAULT_SCHEMA.to_owned();
        options.create_default_catalog_and_schema = false;
        let shared = context.state_ref();
        let mut state = shared.write();
        *state = SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_catalog_list(Arc::new(catalogs))
            .build();
        Ok(())
    }

    /// Whether a user may drop or replace a table, if it is an external one. DataFusion says of those that it could not drop that there are none:
    /// to be asked before.
    ///
    /// # Errors
    /// A table that somebody else has made.
    pub fn check_owner(
        &self,
        user: DataUser,
        catalog: &str,
        schema: &str,
        table: &str,
    ) -> Result<(), DataError> {
        let folder = self.catalogs.iter().find(|(name, _)| name == catalog);
        folder.map_or(Ok(()), |(_, folder)| {
            folder.of_user(Some(user)).check_owner(schema, table)
        })
    }

    /// Brings everything that was committed in stores to the disk: before the process ends.
    ///
    /// # Errors
    /// The first store that cannot.
    pub fn flush(&self) -> Result<(), DataError> {
        let opened: Vec<Store> = {
            let opened = self.stores.opened.lock();
            opened
                .values()
                .filter_map(|(_, store)| store.clone().ok())
                .collect()
        };
        for store in opened {
            store.flush().map_err(|error| {
                DataError::unreadable(format!("cannot write the log of the store in {}", store.place()))
                    .detail(error.to_string())
            })?;
        }
        Ok(())
    }

    /// Names of the catalogs; the first is the one that sessions are connected to.
    pub fn catalogs(&self) -> impl Iterator<Item = &str> {
        self.catalogs.iter().map(|(name, _)| name.as_str())
    }

    /// Catalog, schema, table and reason of each table that was found but cannot be read.
    pub fn left_out(&self) -> Vec<(String, String, String, DataError)> {
        let of = |(catalog, folder): &(String, Folder)| {
            let left_out = folder.left_out().into_iter();
            let with = |(schema, table, error)| (catalog.clone(), schema, table, error);
            left_out.map(with).collect::<Vec<_>>()
        };
        self.catalogs.iter().flat_map(of).collect()
    }
}

/// In place of what reads any file of the machine.
fn register(objects: &[(Url, Arc<dyn ObjectStore>)], runtime: &RuntimeEnv) {
    for (address, store) in objects {
        runtime.register_object_store(address, Arc::clone(store));
    }
}

/// Reads the options of all folders once, so that a mistake in them is told at the start.
fn check_options(root: &Path, places: &Places) -> Result<(), DataError> {
    config::read(root)?;
    for (_, path) in layout::entries(root, places)? {
        if path.is_dir() {
            config::read(&path)?;
        }
    }
    Ok(())
}

/// When a store was opened, and what came of it.
type Tried = (Instant, Result<Store, DataError>);

/// Opens each store once, and tries one that could not be opened again after a while.
struct Stores {
    memory_max: Option<u64>,
    opened: Mutex<BTreeMap<PathBuf, Tried>>,
}

impl Stores {
    fn open(&self, folder: &Path) -> Result<Store, DataError> {
        let mut opened = self.opened.lock();
        if let Some((at, store)) = opened.get(folder)
            && (store.is_ok() || at.elapsed() < STORE_REST)
        {
            return store.clone();
        }
        let mut options = Options {
            sessions_max: STORE_SESSIONS_MAX,
            snapshots_max: STORE_SNAPSHOTS_MAX,
            // A lock is eight bytes, a row more: what a transaction may write, and how many rows there are, are bounds enough. (A lock of the
            // whole table would let two loads into it, or a load and a short transaction, wait for each other.)
            locks_max: 0,
            locks_per_transaction_max: 0,
            ..Options::default()
        };
        if let Some(bytes) = self.memory_max {
            options.memory_max = bytes;
        }
        let store = Store::open(folder, options).map_err(|error| {
            DataError::unreadable(format!("cannot open the store in {}", folder.display()))
                .detail(error.to_string())
        });
        opened.insert(folder.to_owned(), (Instant::now(), store.clone()));
        store
    }
}
