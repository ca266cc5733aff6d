//! [`Folder`]: a folder as a catalog, and [`FolderSchema`], one of its schemas.
//!
//! ```text
//!  name ─► layout (listed again after a second, and when the name is new, but for that ten times a second at most)
//!            └► files now ─► as they were? ─► the table from before
//!                               └ no ─► opened (types, and whether the files fit together)
//! ```
//!
//! Sessions share folders: a table is opened once for all of them.

use super::error::DataError;
use super::format::Format;
use super::layout::{self, Layout, PUBLIC, TablePlace};
use super::opened::{OpenedStore, OwnStore};
use super::places::{Access, Places};
use super::table::{self, Files};
use super::user::DataUser;
use super::view::{StoreView, TableCache};
use corun_store::Store;
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
/// Least time between two listings for names that the list has not: a statement may name hundreds, and all sessions need the list.
/// Unmeasured.
const LISTED_AGAIN: Duration = Duration::from_millis(100);
/// Most tables that `CREATE EXTERNAL TABLE` may make in a schema.
const EXTERNAL_MAX: usize = 10_000;

/// Opens stores for all folders that name them.
pub(crate) type OpenStore = Arc<dyn Fn(&Path) -> std::result::Result<Store, DataError> + Send + Sync>;

/// A catalog, as a session sees it.
#[derive(Clone)]
pub(crate) struct Folder {
    shared: Arc<Shared>,
    /// Whose session it is; `None`: the server's own, which may do everything.
    user: Option<DataUser>,
    /// What the session sees of the store that the folder is, if it is one.
    view: Option<Arc<StoreView>>,
}

/// Tables of a schema that statements have made, by name.
type ExternalTables = BTreeMap<String, ExternalTable>;

struct ExternalTable {
    table: Arc<dyn TableProvider>,
    /// Who made it, and may drop it.
    maker: Option<Arc<str>>,
}

struct Shared {
    root: PathBuf,
    places: Arc<Places>,
    /// Reads schemas of files; no statement runs in it.
    reader: SessionContext,
    open_store: OpenStore,
    listed: Mutex<Listed>,
    opened: Mutex<BTreeMap<(String, String), Opened>>,
    external: Mutex<BTreeMap<String, ExternalTables>>,
    /// Of the store that the folder is.
    tables: Arc<TableCache>,
}

struct Listed {
    layout: Arc<Layout>,
    at: Instant,
    /// When it was last listed for a name that it had not.
    again: Option<Instant>,
}

/// A table that was opened, and of what files.
struct Opened {
    files: Files,
    table: std::result::Result<Arc<dyn TableProvider>, DataError>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folder({})", self.shared.root.display())
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
        let shared = Shared {
            root,
            places,
            reader,
            open_store,
            listed: Mutex::new(Listed {
                layout: Arc::new(layout),
                at: Instant::now(),
                again: None,
            }),
            opened: Mutex::default(),
            external: Mutex::default(),
            tables: Arc::default(),
        };
        Ok(Folder {
            shared: Arc::new(shared),
            user: None,
            view: None,
        })
    }

    /// The same catalog in a session of this user.
    pub(crate) fn of_user(&self, user: Option<DataUser>) -> Folder {
        Folder {
            shared: Arc::clone(&self.shared),
            user,
            view: None,
        }
    }

    /// The same catalog in a session that sees the store so ([`Folder::view`]).
    pub(crate) fn with_view(self, view: Option<Arc<StoreView>>) -> Folder {
        Folder { view, ..self }
    }

    /// For a session that writes to the store that this folder is; `None`: it is none, or cannot be opened.
    pub(crate) fn view(&self) -> Option<Arc<StoreView>> {
        let root = Store::is_in(&self.shared.root).then_some(&self.shared.root)?;
        let store = (self.shared.open_store)(root).ok()?;
        Some(Arc::new(StoreView::new(store, Arc::clone(&self.shared.tables))))
    }

    /// Whether the session may drop or replace a table, if it is an external one.
    ///
    /// # Errors
    /// Somebody else's.
    pub(crate) fn check_owner(&self, schema: &str, table: &str) -> std::result::Result<(), DataError> {
        let schemas = self.shared.external.lock();
        let known = schemas.get(schema).and_then(|tables| tables.get(table));
        known.map_or(Ok(()), |known| self.check_maker(table, known))
    }

    fn check_maker(&self, name: &str, known: &ExternalTable) -> std::result::Result<(), DataError> {
        let user = self.user.as_ref();
        match user.is_none_or(|user| user.owns(known.maker.as_deref())) {
            true => Ok(()),
            false => Err(DataError::denied(format!("must be owner of table {name}"))),
        }
    }

    /// What was found, at most [`LISTED_FOR`] ago.
    fn layout(&self) -> Arc<Layout> {
        let mut listed = self.shared.listed.lock();
        if listed.at.elapsed() >= LISTED_FOR {
            self.list(&mut listed);
        }
        Arc::clone(&listed.layout)
    }

    /// What `find` finds in the list. Where it finds nothing the folder is listed again, unless that was done less than [`LISTED_AGAIN`] ago.
    fn found<T>(&self, find: impl Fn(&Layout) -> Option<T>) -> Option<T> {
        let known = find(&self.layout());
        if known.is_some() {
            return known;
        }
        let mut listed = self.shared.listed.lock();
        if listed.again.is_none_or(|again| again.elapsed() >= LISTED_AGAIN) {
            self.list(&mut listed);
            // From its end: a folder that takes long to list is not listed all the time.
            listed.again = Some(Instant::now());
        }
        find(&listed.layout)
    }

    /// A folder that cannot be listed any more keeps its last list.
    fn list(&self, listed: &mut Listed) {
        match layout::catalog(&self.shared.root, &self.shared.places) {
            Ok(layout) => {
                self.forget(&layout);
                listed.layout = Arc::new(layout);
            }
            Err(error) => {
                tracing::warn!(folder = %self.shared.root.display(), %error, "the folder cannot be listed");
            }
        }
        listed.at = Instant::now();
    }

    /// Lets go of tables that are no longer there.
    fn forget(&self, layout: &Layout) {
        let is_there =
            |schema: &str, table: &str| layout.get(schema).is_some_and(|of| of.tables.contains_key(table));
        self.shared
            .opened
            .lock()
            .retain(|(schema, table), _| is_there(schema, table));
    }

    /// Every table with a reason why it cannot be read, of those that have been looked at.
    pub(crate) fn left_out(&self) -> Vec<(String, String, DataError)> {
        let layout = self.layout();
        let names = layout.iter().flat_map(|(schema, of)| {
            of.tables.iter().filter_map(move |(table, entry)| {
                let error = entry.as_ref().err()?;
                Some((schema.clone(), table.clone(), error.clone()))
            })
        });
        let opened = self.shared.opened.lock();
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
        let files = table::look(name, place, &self.shared.places)?;
        if let Some(known) = self
            .shared
            .opened
            .lock()
            .get(&key)
            .filter(|known| known.files == files)
        {
            return known.table.clone();
        }
        let table = table::open(name, &place.path, &files, &self.shared.reader.state()).await;
        if let Err(error) = &table {
            tracing::warn!(schema, table = name, %error, "a table is left out");
        }
        let opened = Opened {
            files,
            table: table.clone(),
        };
        self.shared.opened.lock().insert(key, opened);
        table
    }
}

impl CatalogProvider for Folder {
    fn schema_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.layout().keys().cloned().collect();
        names.extend(self.view.iter().flat_map(|view| view.schemas()));
        names.into_iter().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(view) = &self.view
            && view.schemas().iter().any(|schema| schema == name)
        {
            return Some(Arc::new(OwnStore {
                view: Arc::clone(view),
                others: FolderSchema {
                    folder: self.clone(),
                    name: name.to_owned(),
                },
            }));
        }
        let store = self.found(|layout| layout.get(name).map(|found| found.store.clone()))?;
        let schema = FolderSchema {
            folder: self.clone(),
            name: name.to_owned(),
        };
        match store {
            None => Some(Arc::new(schema)),
            Some(at) => {
                let store = (self.shared.open_store)(&at);
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
pub(super) struct FolderSchema {
    folder: Folder,
    name: String,
}

/// Whether a table's name in a statement is a path.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains('/') || Format::of(name).is_some()
}

impl FolderSchema {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn entry(&self, name: &str) -> Option<layout::Entry> {
        self.folder
            .found(|layout| layout.get(&self.name)?.tables.get(name).cloned())
    }

    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let schemas = self.folder.shared.external.lock();
        Some(Arc::clone(&schemas.get(&self.name)?.get(name)?.table))
    }

    async fn named_file(&self, text: &str) -> std::result::Result<Arc<dyn TableProvider>, DataError> {
        let shared = &self.folder.shared;
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
        let layout = self.folder.layout();
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
        if let Some(external) = self.folder.shared.external.lock().get(&self.name) {
            names.extend(external.keys().cloned());
        }
        let opened = self.folder.shared.opened.lock();
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
        let mut schemas = self.folder.shared.external.lock();
        let tables = schemas.entry(self.name.clone()).or_default();
        if tables.len() >= EXTERNAL_MAX {
            return refused(
                "54000",
                format!("the schema \"{}\" has {EXTERNAL_MAX} external tables", self.name),
            );
        }
        if let Some(known) = tables.get(&name) {
            self.folder.check_maker(&name, known)?;
        }
        let maker = self.folder.user.as_ref().map(DataUser::name);
        let before = tables.insert(name, ExternalTable { table, maker });
        Ok(before.map(|before| before.table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let removed = {
            let mut schemas = self.folder.shared.external.lock();
            let tables = schemas.entry(self.name.clone()).or_default();
            if let Some(known) = tables.get(name) {
                self.folder.check_maker(name, known)?;
            }
            tables.remove(name).map(|known| known.table)
        };
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

/// The schema that statements mean when they name none.
pub(crate) const DEFAULT_SCHEMA: &str = PUBLIC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_the_folder_ten_times_a_second_at_most() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::new(&[root.path().to_owned()], &[], &[]).unwrap();
        let nothing: OpenStore = Arc::new(|_| Err(DataError::unreadable("there is no store")));
        let root_path = root.path().to_owned();
        let folder = Folder::open(root_path, Arc::new(places), SessionContext::new(), nothing).unwrap();
        let public = folder.schema(PUBLIC).unwrap();
        let began = Instant::now();
        let mut lists = vec![folder.layout()];
        for number in 0..500 {
            assert!(!public.table_exist(&format!("x{number}")));
            let list = Arc::clone(&folder.shared.listed.lock().layout);
            if !Arc::ptr_eq(&lists[lists.len() - 1], &list) {
                lists.push(list);
            }
        }
        // The list at the beginning, two that just did not wait, and those of the time that has passed.
        let of = |each: Duration| (began.elapsed().as_millis() / each.as_millis()) as usize;
        let most = 3 + of(LISTED_AGAIN) + of(LISTED_FOR);
        assert!(lists.len() <= most, "{} listings", lists.len());
        // A file that is made is found, if not at once.
        std::fs::write(root.path().join("t.csv"), "a\n1\n").unwrap();
        while !public.table_exist("t") {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
