//! [`Redb`]: redb, a copy-on-write B-tree with one writer and readers on snapshots.
//!
//! - `none`: redb's in-memory backend, commits that need not survive ([`redb::Durability::None`]).
//! - `async`: a file, the same commits, and a thread that makes them durable every [`WINDOW`](crate::syncer::WINDOW) by an empty commit of
//!   the durable kind: a crash loses the commits since.
//! - `durable`: every commit is of the durable kind. redb cannot group them: a commit ends before the next writer begins.
//!
//! Tables are opened when a transaction first touches them: opening one is a search in redb's table of tables.

use std::path::Path;
use std::sync::Arc;

use corun_workloads::engine::{Durability, TxError};
use corun_workloads::kv::{End, KvClient, KvEngine, KvTx};
use redb::backends::InMemoryBackend;
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition,
    WriteTransaction,
};

use crate::syncer::Syncer;

/// Pages kept in memory: the whole database.
const CACHE_BYTES: usize = 8 << 30;
/// Pairs of a transaction while loading.
const LOAD_BATCH: usize = 200_000;

type Bytes = &'static [u8];

/// redb with the tables of a workload.
pub struct Redb {
    database: Arc<Database>,
    tables: &'static [&'static str],
    durability: Durability,
    syncer: Option<Syncer>,
}

fn failed(error: impl Into<redb::Error>) -> TxError {
    TxError::Failed(format!("redb: {}", error.into()))
}

impl Redb {
    /// Makes an empty database with the tables of a workload; in `folder`, without `Durability::None`.
    ///
    /// # Errors
    /// redb's: the folder cannot be written to.
    pub fn create(
        folder: &Path,
        durability: Durability,
        tables: &'static [&'static str],
    ) -> Result<Self, TxError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = match durability {
            Durability::None => builder.create_with_backend(InMemoryBackend::new()),
            Durability::Asynchronous | Durability::Durable => builder.create(folder.join("redb.db")),
        };
        let database = Arc::new(database.map_err(failed)?);
        let transaction = database.begin_write().map_err(failed)?;
        for name in tables {
            transaction.open_table(definition(name)).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        let syncer = (durability == Durability::Asynchronous).then(|| {
            let database = Arc::clone(&database);
            Syncer::start(move || {
                if let Ok(transaction) = database.begin_write() {
                    let _ = transaction.commit();
                }
            })
        });
        Ok(Self {
            database,
            tables,
            durability,
            syncer,
        })
    }

    /// Begins to write with the durability of the engine's commits.
    fn begin(&self) -> Result<WriteTransaction, TxError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction
            .set_durability(match self.durability {
                Durability::None | Durability::Asynchronous => redb::Durability::None,
                Durability::Durable => redb::Durability::Immediate,
            })
            .map_err(failed)?;
        Ok(transaction)
    }
}

fn definition(name: &'static str) -> TableDefinition<'static, Bytes, Bytes> {
    TableDefinition::new(name)
}

impl KvEngine for Redb {
    fn name(&self) -> String {
        match self.durability {
            Durability::None => "redb memory".to_string(),
            Durability::Asynchronous | Durability::Durable => "redb".to_string(),
        }
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn KvClient + '_>, TxError> {
        Ok(Box::new(Client { engine: self }))
    }

    fn memory_bytes(&self) -> Option<u64> {
        let transaction = self.database.begin_write().ok()?;
        let stats = transaction.stats().ok()?;
        transaction.abort().ok()?;
        Some(stats.allocated_pages() * stats.page_size() as u64)
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u8, Vec<u8>, Vec<u8>)>) -> Result<(), TxError> {
        loop {
            let mut pairs: Vec<_> = part.take(LOAD_BATCH).collect();
            if pairs.is_empty() {
                return Ok(());
            }
            // In the order of keys pages are filled one after the other.
            pairs.sort_unstable();
            let transaction = self.database.begin_write().map_err(failed)?;
            let mut writes = Writes::new(&transaction, self.tables);
            for (table, key, value) in &pairs {
                writes.put(*table, key, value)?;
            }
            drop(writes);
            transaction.commit().map_err(failed)?;
        }
    }
}

struct Client<'e> {
    engine: &'e Redb,
}

impl KvClient for Client<'_> {
    fn transaction(
        &mut self,
        write: bool,
        body: &mut dyn FnMut(&mut dyn KvTx) -> Result<End, TxError>,
    ) -> Result<End, TxError> {
        if !write {
            let transaction = self.engine.database.begin_read().map_err(failed)?;
            return body(&mut Reads {
                transaction,
                names: self.engine.tables,
                open: empty(self.engine.tables),
            });
        }
        let transaction = self.engine.begin()?;
        // The tables are closed at the end of this statement, before the transaction ends.
        let end = body(&mut Writes::new(&transaction, self.engine.tables));
        match end {
            Ok(End::Commit) => {
                transaction.commit().map_err(failed)?;
                if let Some(syncer) = &self.engine.syncer {
                    syncer.committed();
                }
            }
            Ok(End::RollBack) | Err(_) => transaction.abort().map_err(failed)?,
        }
        end
    }
}

fn empty<T>(tables: &[&str]) -> Vec<Option<T>> {
    tables.iter().map(|_| None).collect()
}

fn no_table(table: u8) -> TxError {
    TxError::Failed(format!("redb: there is no table {table}"))
}

/// Copies a value out.
fn get(table: &impl ReadableTable<Bytes, Bytes>, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
    value.clear();
    let Some(found) = table.get(key).map_err(failed)? else {
        return Ok(false);
    };
    value.extend_from_slice(found.value());
    Ok(true)
}

fn scan(
    table: &impl ReadableTable<Bytes, Bytes>,
    lo: &[u8],
    hi: &[u8],
    reverse: bool,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), TxError> {
    let mut range = if hi.is_empty() {
        table.range(lo..)
    } else {
        table.range(lo..hi)
    }
    .map_err(failed)?;
    while let Some(pair) = if reverse { range.next_back() } else { range.next() } {
        let (key, value) = pair.map_err(failed)?;
        if !each(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

/// A transaction that writes, and the tables it has touched.
struct Writes<'t> {
    transaction: &'t WriteTransaction,
    names: &'static [&'static str],
    open: Vec<Option<Table<'t, Bytes, Bytes>>>,
}

impl<'t> Writes<'t> {
    fn new(transaction: &'t WriteTransaction, names: &'static [&'static str]) -> Self {
        Self {
            transaction,
            names,
            open: empty(names),
        }
    }

    fn table(&mut self, table: u8) -> Result<&mut Table<'t, Bytes, Bytes>, TxError> {
        let number = usize::from(table);
        let (Some(name), Some(open)) = (self.names.get(number), self.open.get_mut(number)) else {
            return Err(no_table(table));
        };
        if open.is_none() {
            *open = Some(self.transaction.open_table(definition(name)).map_err(failed)?);
        }
        open.as_mut().ok_or_else(|| no_table(table))
    }
}

impl KvTx for Writes<'_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        get(self.table(table)?, key, value)
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        // There is no other writer.
        self.get(table, key, value)
    }

    fn put(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.table(table)?.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn delete(&mut self, table: u8, key: &[u8]) -> Result<(), TxError> {
        self.table(table)?.remove(key).map_err(failed)?;
        Ok(())
    }

    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError> {
        scan(self.table(table)?, lo, hi, reverse, each)
    }
}

/// A transaction that reads, and the tables it has touched.
struct Reads {
    transaction: ReadTransaction,
    names: &'static [&'static str],
    open: Vec<Option<ReadOnlyTable<Bytes, Bytes>>>,
}

impl Reads {
    fn table(&mut self, table: u8) -> Result<&ReadOnlyTable<Bytes, Bytes>, TxError> {
        let number = usize::from(table);
        let (Some(name), Some(open)) = (self.names.get(number), self.open.get_mut(number)) else {
            return Err(no_table(table));
        };
        if open.is_none() {
            *open = Some(self.transaction.open_table(definition(name)).map_err(failed)?);
        }
        open.as_ref().ok_or_else(|| no_table(table))
    }
}

impl KvTx for Reads {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        get(self.table(table)?, key, value)
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        self.get(table, key, value)
    }

    fn put(&mut self, _table: u8, _key: &[u8], _value: &[u8]) -> Result<(), TxError> {
        Err(TxError::failed("redb: a put in a transaction that only reads"))
    }

    fn delete(&mut self, _table: u8, _key: &[u8]) -> Result<(), TxError> {
        Err(TxError::failed("redb: a delete in a transaction that only reads"))
    }

    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError> {
        scan(self.table(table)?, lo, hi, reverse, each)
    }
}
