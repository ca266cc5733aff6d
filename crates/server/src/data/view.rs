//! [`StoreView`]: what the statements of one session see of the store that its database is.
//!
//! ```text
//!   no transaction, or one that has written nothing: each statement the newest durable moment
//!   a transaction's statement: the moment that the session has set for it, with what the transaction has written
//!   a transaction that has defined something: the tables as it sees them
//! ```
//!
//! What it is not: the transaction, which the session has.

use crate::write::{Deferrable, TableInfo, deferrable, describe};
use corun_datafusion::store::Moments;
use corun_store::{DeferredKeys, PUBLIC, Sequence, Snapshot, Store, StoreError, Table};
use corun_wire::error::Refusal;
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Schema and table of the dictionary ([`crate::write`]).
pub(crate) const DICTIONARY: (&str, &str) = ("corun", "columns");

/// A table, and the version of the definitions at which it was read.
type KnownAt = (u64, Arc<TableInfo>);

/// What all sessions know of the tables of a store.
#[derive(Debug, Default)]
pub(crate) struct TableCache {
    /// Raised after each transaction that has defined something.
    version: AtomicU64,
    /// By schema and name, with the version that each was read at.
    known: Mutex<HashMap<(String, String), KnownAt>>,
    /// Foreign keys that may be deferred, and the version that they were read at.
    deferrable: Mutex<Option<(u64, Arc<Vec<Deferrable>>)>>,
    /// One more than the version at which none of them is deferred at once.
    none_deferred: AtomicU64,
}

/// See [`self`].
#[derive(Debug)]
pub(crate) struct StoreView {
    store: Store,
    cache: Arc<TableCache>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Of the statement that runs; `None`: the newest.
    moment: Option<Arc<Snapshot>>,
    /// Of a transaction that has defined something.
    own: Option<OwnDefinitions>,
}

#[derive(Debug)]
struct OwnDefinitions {
    tables: BTreeMap<(String, String), Table>,
    schemas: Vec<String>,
    sequences: Vec<Sequence>,
    infos: HashMap<(String, String), Arc<TableInfo>>,
}

impl StoreView {
    pub(crate) fn new(store: Store, cache: Arc<TableCache>) -> Self {
        StoreView {
            store,
            cache,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What statements read from now on; `None`: the newest durable moment, each statement its own.
    pub(crate) fn set_moment(&self, moment: Option<Arc<Snapshot>>) {
        self.seen.lock().moment = moment;
    }

    /// The session's transaction has defined something: these are the tables and schemas that it sees.
    pub(crate) fn set_own(&self, tables: Vec<Table>, schemas: Vec<String>, sequences: Vec<Sequence>) {
        let named = |table: Table| ((table.schema().to_owned(), table.name().to_owned()), table);
        self.seen.lock().own = Some(OwnDefinitions {
            tables: tables.into_iter().map(named).collect(),
            schemas,
            sequences,
            infos: HashMap::new(),
        });
    }

    /// The transaction has ended; whether it has published definitions.
    pub(crate) fn ended(&self, published: bool) {
        *self.seen.lock() = Seen::default();
        if published {
            self.cache.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the session's transaction has defined something.
    pub(crate) fn has_own_definitions(&self) -> bool {
        self.seen.lock().own.is_some()
    }

    /// Another number after each change of definitions.
    pub(crate) fn version(&self) -> u64 {
        self.cache.version.load(Ordering::Acquire)
    }

    /// Names of the schemas.
    pub(crate) fn schemas(&self) -> Vec<String> {
        let seen = self.seen.lock();
        let mut schemas = match &seen.own {
            Some(own) => own.schemas.clone(),
            None => self.store.schemas(),
        };
        if !schemas.iter().any(|schema| schema == PUBLIC) {
            schemas.push(PUBLIC.to_owned());
        }
        schemas
    }

    /// Names of the tables of a schema.
    pub(crate) fn tables(&self, schema: &str) -> Vec<String> {
        let seen = self.seen.lock();
        let of_store = || self.store.tables();
        let all: Vec<Table> = match &seen.own {
            Some(own) => own.tables.values().cloned().collect(),
            None => of_store(),
        };
        let own = all.iter().filter(|table| table.schema() == schema);
        own.map(|table| table.name().to_owned()).collect()
    }

    /// A table; `None`: there is none.
    ///
    /// # Errors
    /// A store that is closed.
    pub(crate) fn table(&self, schema: &str, name: &str) -> Result<Option<Table>, StoreError> {
        if let Some(own) = &self.seen.lock().own {
            return Ok(own.tables.get(&(schema.to_owned(), name.to_owned())).cloned());
        }
        match self.store.table_in(schema, name) {
            Ok(table) => Ok(Some(table)),
            Err(StoreError::NoTable { .. } | StoreError::NoSchema { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All sequences.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        match &self.seen.lock().own {
            Some(own) => own.sequences.clone(),
            None => self.store.sequences(),
        }
    }

    /// A sequence; `None`: there is none.
    ///
    /// # Errors
    /// A store that is closed.
    pub(crate) fn sequence(&self, schema: &str, name: &str) -> Result<Option<Sequence>, StoreError> {
        if let Some(own) = &self.seen.lock().own {
            let mut sequences = own.sequences.iter();
            let found = sequences.find(|of| of.name() == name && of.definition().schema == schema);
            return Ok(found.cloned());
        }
        match self.store.sequence_in(schema, name) {
            Ok(sequence) => Ok(Some(sequence)),
            Err(StoreError::NoSequence { .. } | StoreError::NoSchema { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The foreign keys that a transaction defers which begins now; `None`: none.
    ///
    /// # Errors
    /// A dictionary that cannot be read.
    pub(crate) fn deferred(&self) -> Result<Option<Arc<DeferredKeys>>, StoreError> {
        let version = self.version();
        if self.cache.none_deferred.load(Ordering::Acquire) == version + 1 {
            return Ok(None);
        }
        let mut keys = DeferredKeys::default();
        for key in self.deferrable()?.iter().filter(|key| key.initially) {
            keys.insert(&key.schema, &key.table, &key.name);
        }
        if keys.is_empty() {
            self.cache.none_deferred.store(version + 1, Ordering::Release);
            return Ok(None);
        }
        Ok(Some(Arc::new(keys)))
    }

    /// Foreign keys that may be deferred, of tables that are committed.
    ///
    /// # Errors
    /// A dictionary that cannot be read.
    pub(crate) fn deferrable(&self) -> Result<Arc<Vec<Deferrable>>, StoreError> {
        let version = self.version();
        let mut known = self.cache.deferrable.lock();
        if let Some((at, keys)) = known.as_ref()
            && *at == version
        {
            return Ok(Arc::clone(keys));
        }
        let dictionary = self.store.table_in(DICTIONARY.0, DICTIONARY.1);
        let keys = Arc::new(deferrable(dictionary, || self.store.snapshot())?);
        *known = Some((version, Arc::clone(&keys)));
        Ok(keys)
    }

    /// What the session's transaction sees, if it has defined something; else what is committed.
    ///
    /// # Errors
    /// Too many snapshots.
    pub(crate) fn newest(&self) -> Result<Arc<Snapshot>, StoreError> {
        let own = {
            let seen = self.seen.lock();
            seen.own.as_ref().and(seen.moment.clone())
        };
        match own {
            Some(moment) => Ok(moment),
            None => self.store.snapshot().map(Arc::new),
        }
    }

    /// A table with what PostgreSQL's clients know of its columns.
    ///
    /// # Errors
    /// A store that is closed; a dictionary that cannot be read.
    pub(crate) fn info(&self, schema: &str, name: &str) -> Result<Option<Arc<TableInfo>>, Refusal> {
        let key = (schema.to_owned(), name.to_owned());
        let version = self.version();
        let own = {
            let seen = self.seen.lock();
            if let Some(info) = seen.own.as_ref().and_then(|own| own.infos.get(&key)) {
                return Ok(Some(Arc::clone(info)));
            }
            seen.own.is_some()
        };
        if !own
            && let Some((of, info)) = self.cache.known.lock().get(&key)
            && *of == version
        {
            return Ok(Some(Arc::clone(info)));
        }
        let failed = |error: StoreError| crate::session::refusal_of(&error);
        let Some(table) = self.table(schema, name).map_err(failed)? else {
            self.cache.known.lock().remove(&key);
            return Ok(None);
        };
        let dictionary = self.table(DICTIONARY.0, DICTIONARY.1).map_err(failed)?;
        let moment = self.seen.lock().moment.clone();
        let moment = match moment {
            Some(moment) => moment,
            None => Arc::new(self.store.snapshot().map_err(failed)?),
        };
        let info = Arc::new(describe(&moment, dictionary.as_ref(), &table)?);
        if own {
            if let Some(own) = &mut self.seen.lock().own {
                own.infos.insert(key, Arc::clone(&info));
            }
        } else {
            self.cache.known.lock().insert(key, (version, Arc::clone(&info)));
        }
        Ok(Some(info))
    }
}

impl Moments for StoreView {
    fn now(&self) -> Result<Arc<Snapshot>, DataFusionError> {
        let moment = self.seen.lock().moment.clone();
        match moment {
            Some(moment) => Ok(moment),
            None => self
                .store
                .durable_snapshot()
                .map(Arc::new)
                .map_err(|error| DataFusionError::External(Box::new(error))),
        }
    }
}
