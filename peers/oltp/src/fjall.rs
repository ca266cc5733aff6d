//! [`Fjall`]: fjall, a log-structured merge tree, with its transactions of one writer and readers on snapshots.
//!
//! - `none`: fjall always writes a journal; it is never synced here.
//! - `async`: the same, and a thread that syncs the journal every [`WINDOW`](crate::syncer::WINDOW).
//! - `durable`: every commit syncs the journal's data ([`PersistMode::SyncData`]).
//!
//! Its optimistic transactions sync inside the lock that orders commits, so they would share no sync either, and run again on conflicts.

use std::path::Path;
use std::sync::Arc;

use corun_workloads::engine::{Durability, TxError};
use corun_workloads::kv::{End, KvClient, KvEngine, KvTx};
use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace,
    SingleWriterWriteTx, Snapshot,
};

use crate::syncer::Syncer;

/// Blocks kept in memory, and memory of each table before it is written: the whole database.
const CACHE_BYTES: u64 = 4 << 30;
const TABLE_BYTES: u64 = 1 << 30;
/// Journals on disk before memory is written out.
const JOURNAL_BYTES: u64 = 8 << 30;
/// Pairs of a transaction while loading.
const LOAD_BATCH: usize = 50_000;

/// fjall with the tables of a workload.
pub struct Fjall {
    database: SingleWriterTxDatabase,
    tables: Arc<[SingleWriterTxKeyspace]>,
    durability: Durability,
    syncer: Option<Syncer>,
}

fn failed(error: fjall::Error) -> TxError {
    TxError::Failed(format!("fjall: {error:?}"))
}

impl Fjall {
    /// Makes an empty database in `folder` with the tables of a workload.
    ///
    /// # Errors
    /// fjall's: the folder cannot be written to.
    pub fn create(
        folder: &Path,
        durability: Durability,
        tables: &'static [&'static str],
    ) -> Result<Self, TxError> {
        let database = SingleWriterTxDatabase::builder(folder.join("fjall"))
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .manual_journal_persist(true)
            .open()
            .map_err(failed)?;
        let open = |name: &&str| {
            database.keyspace(name, || {
                KeyspaceCreateOptions::default().max_memtable_size(TABLE_BYTES)
            })
        };
        let tables = tables
            .iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let syncer = (durability == Durability::Asynchronous).then(|| {
            let database = database.clone();
            Syncer::start(move || {
                let _ = database.persist(PersistMode::SyncData);
            })
        });
        Ok(Self {
            database,
            tables,
            durability,
            syncer,
        })
    }
}

impl KvEngine for Fjall {
    fn name(&self) -> String {
        "fjall".to_string()
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn KvClient + '_>, TxError> {
        Ok(Box::new(Client { engine: self }))
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u8, Vec<u8>, Vec<u8>)>) -> Result<(), TxError> {
        loop {
            let mut transaction = self.database.write_tx();
            let mut put = 0;
            for (table, key, value) in part.take(LOAD_BATCH) {
                transaction.insert(keyspace(&self.tables, table)?, key, value);
                put += 1;
            }
            if put == 0 {
                return Ok(());
            }
            transaction.commit().map_err(failed)?;
        }
    }
}

struct Client<'e> {
    engine: &'e Fjall,
}

impl KvClient for Client<'_> {
    fn transaction(
        &mut self,
        write: bool,
        body: &mut dyn FnMut(&mut dyn KvTx) -> Result<End, TxError>,
    ) -> Result<End, TxError> {
        let engine = self.engine;
        if !write {
            return body(&mut Reads {
                snapshot: engine.database.read_tx(),
                tables: &engine.tables,
            });
        }
        let durable = (engine.durability == Durability::Durable).then_some(PersistMode::SyncData);
        let mut writes = Writes {
            transaction: engine.database.write_tx().durability(durable),
            tables: &engine.tables,
        };
        let end = body(&mut writes);
        match end {
            Ok(End::Commit) => {
                writes.transaction.commit().map_err(failed)?;
                if let Some(syncer) = &engine.syncer {
                    syncer.committed();
                }
            }
            Ok(End::RollBack) | Err(_) => writes.transaction.rollback(),
        }
        end
    }
}

fn keyspace(tables: &[SingleWriterTxKeyspace], table: u8) -> Result<&SingleWriterTxKeyspace, TxError> {
    tables
        .get(usize::from(table))
        .ok_or_else(|| TxError::Failed(format!("fjall: there is no table {table}")))
}

/// Copies a value out.
fn get(
    reader: &impl Readable,
    table: &SingleWriterTxKeyspace,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<bool, TxError> {
    value.clear();
    let Some(found) = reader.get(table, key).map_err(failed)? else {
        return Ok(false);
    };
    value.extend_from_slice(&found);
    Ok(true)
}

fn scan(
    reader: &impl Readable,
    table: &SingleWriterTxKeyspace,
    (lo, hi): (&[u8], &[u8]),
    reverse: bool,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), TxError> {
    let mut range = if hi.is_empty() {
        reader.range(table, lo..)
    } else {
        reader.range(table, lo..hi)
    };
    while let Some(pair) = if reverse { range.next_back() } else { range.next() } {
        let (key, value) = pair.into_inner().map_err(failed)?;
        if !each(&key, &value) {
            break;
        }
    }
    Ok(())
}

/// A transaction that writes.
struct Writes<'e> {
    transaction: SingleWriterWriteTx<'e>,
    tables: &'e [SingleWriterTxKeyspace],
}

impl KvTx for Writes<'_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        get(&self.transaction, keyspace(self.tables, table)?, key, value)
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        // There is no other writer.
        self.get(table, key, value)
    }

    fn put(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.transaction.insert(keyspace(self.tables, table)?, key, value);
        Ok(())
    }

    fn delete(&mut self, table: u8, key: &[u8]) -> Result<(), TxError> {
        self.transaction.remove(keyspace(self.tables, table)?, key);
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
        scan(
            &self.transaction,
            keyspace(self.tables, table)?,
            (lo, hi),
            reverse,
            each,
        )
    }
}

/// A transaction that reads.
struct Reads<'e> {
    snapshot: Snapshot,
    tables: &'e [SingleWriterTxKeyspace],
}

impl KvTx for Reads<'_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        get(&self.snapshot, keyspace(self.tables, table)?, key, value)
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        self.get(table, key, value)
    }

    fn put(&mut self, _table: u8, _key: &[u8], _value: &[u8]) -> Result<(), TxError> {
        Err(TxError::failed("fjall: a put in a transaction that only reads"))
    }

    fn delete(&mut self, _table: u8, _key: &[u8]) -> Result<(), TxError> {
        Err(TxError::failed(
            "fjall: a delete in a transaction that only reads",
        ))
    }

    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError> {
        scan(
            &self.snapshot,
            keyspace(self.tables, table)?,
            (lo, hi),
            reverse,
            each,
        )
    }
}
