//! [`Rocks`]: RocksDB's pessimistic transactions (`TransactionDB`).
//!
//! - `none`: commits without the write-ahead log. - `async`: with it, not synced. - `durable`: synced, in RocksDB's groups.
//!
//! Transactions that write lock what they write or read for update; those that only read do so on a snapshot and lock nothing.

mod fronts;
mod ycsb;

use std::path::Path;

use corun_workloads::engine::{Durability, TxError};
use corun_workloads::kv::{End, KvClient, KvEngine, KvTx};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DBCompressionType, DataBlockIndexType,
    Error, ErrorKind, Options, ReadOptions, SnapshotWithThreadMode, Transaction, TransactionDB,
    TransactionDBOptions, TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

use fronts::Fronts;
pub use ycsb::RocksYcsb;

/// Holds the whole database.
const CACHE_BYTES: usize = 4 << 30;
/// Of each table, before it is written out.
const MEMTABLE_BYTES: usize = 1 << 30;

/// RocksDB with the tables of a workload, a column family each.
pub struct Rocks {
    database: TransactionDB,
    tables: &'static [&'static str],
    durability: Durability,
    fronts: Fronts,
}

fn tx_error(error: Error) -> TxError {
    match error.kind() {
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::Aborted | ErrorKind::TryAgain => {
            TxError::Retry(format!("rocksdb: {error}"))
        }
        _ => TxError::Failed(format!("rocksdb: {error}")),
    }
}

/// Measured with TPC-C and YCSB on one and two CPUs, everything below against its alternative:
/// - a column family for each table, not one with the table in the key (10 % more work a transaction: a deeper list to search);
/// - memtables that hold the whole run; flushing the loaded data to files first and reading them through the block cache or a memory
///   map costs a fifth more work, a Bloom filter over the memtable is paid for nothing when everything is in it;
/// - not the pipelined write and not a log flushed by hand: no gain.
fn options() -> Result<Options, TxError> {
    // For what a long run writes out after all.
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES).map_err(tx_error)?);
    table.set_bloom_filter(10.0, false);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_max_write_buffer_number(4);
    options.set_max_background_jobs(2);
    options.set_max_open_files(-1);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_stats_dump_period_sec(0);
    Ok(options)
}

impl Rocks {
    /// Opens or makes a database with the tables of a workload in `folder`.
    ///
    /// # Errors
    /// RocksDB's: the folder cannot be written to.
    pub fn open(
        folder: &Path,
        durability: Durability,
        tables: &'static [&'static str],
    ) -> Result<Self, TxError> {
        let options = options()?;
        let families = tables
            .iter()
            .map(|name| ColumnFamilyDescriptor::new(*name, options.clone()));
        let mut locking = TransactionDBOptions::default();
        // Milliseconds. Deadlocks are found at once, so this only bounds what is unforeseen.
        locking.set_default_lock_timeout(1000);
        locking.set_txn_lock_timeout(1000);
        let database =
            TransactionDB::open_cf_descriptors(&options, &locking, folder, families).map_err(tx_error)?;
        Ok(Self {
            database,
            tables,
            durability,
            fronts: Fronts::of(tables),
        })
    }

    /// A client, by its own type.
    pub fn connect(&self) -> Result<Client<'_>, TxError> {
        let families = self
            .tables
            .iter()
            .map(|name| self.database.cf_handle(name))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| TxError::failed("rocksdb: a column family is missing"))?;
        let mut write = WriteOptions::default();
        match self.durability {
            Durability::None => write.disable_wal(true),
            Durability::Asynchronous => {}
            Durability::Durable => write.set_sync(true),
        }
        let mut transaction = TransactionOptions::default();
        transaction.set_deadlock_detect(true);
        Ok(Client {
            database: &self.database,
            fronts: &self.fronts,
            families,
            write,
            transaction,
            read: read_options(),
        })
    }
}

fn read_options() -> ReadOptions {
    let mut read = ReadOptions::default();
    read.set_verify_checksums(false);
    read
}

impl KvEngine for Rocks {
    fn name(&self) -> String {
        "rocksdb".to_string()
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn KvClient + '_>, TxError> {
        Ok(Box::new(self.connect()?))
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u8, Vec<u8>, Vec<u8>)>) -> Result<(), TxError> {
        let client = self.connect()?;
        loop {
            let mut batch = WriteBatchWithTransaction::<true>::default();
            for (table, key, value) in part.take(1000) {
                batch.put_cf(client.family(table)?, key, value);
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.database.write_opt(batch, &client.write).map_err(tx_error)?;
        }
    }
}

/// A client with the options of its transactions, made once.
pub struct Client<'e> {
    database: &'e TransactionDB,
    fronts: &'e Fronts,
    families: Vec<&'e ColumnFamily>,
    write: WriteOptions,
    transaction: TransactionOptions,
    /// Of reads that need no snapshot.
    read: ReadOptions,
}

impl<'e> Client<'e> {
    fn family(&self, table: u8) -> Result<&'e ColumnFamily, TxError> {
        family(&self.families, table)
    }

    /// Reads one value, which needs neither transaction nor snapshot.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn get(&self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        let found = self
            .database
            .get_pinned_cf_opt(&self.family(table)?, key, &self.read);
        Ok(copy(found.map_err(tx_error)?.as_deref(), value))
    }
}

fn family<'e>(families: &[&'e ColumnFamily], table: u8) -> Result<&'e ColumnFamily, TxError> {
    families
        .get(usize::from(table))
        .copied()
        .ok_or_else(|| TxError::Failed(format!("rocksdb: there is no table {table}")))
}

fn copy(found: Option<&[u8]>, value: &mut Vec<u8>) -> bool {
    value.clear();
    if let Some(found) = found {
        value.extend_from_slice(found);
    }
    found.is_some()
}

impl KvClient for Client<'_> {
    fn transaction(
        &mut self,
        write: bool,
        body: &mut dyn FnMut(&mut dyn KvTx) -> Result<End, TxError>,
    ) -> Result<End, TxError> {
        if !write {
            let snapshot = self.database.snapshot();
            let mut read = read_options();
            read.set_snapshot(&snapshot);
            return body(&mut Reads {
                client: self,
                snapshot: &snapshot,
                read,
            });
        }
        let transaction = self.database.transaction_opt(&self.write, &self.transaction);
        let mut writes = Writes {
            client: self,
            transaction: &transaction,
            fronts_seen: Vec::new(),
        };
        let end = body(&mut writes);
        let fronts_seen = writes.fronts_seen;
        match end {
            Ok(End::Commit) => {
                transaction.commit().map_err(tx_error)?;
                self.fronts.committed(fronts_seen);
            }
            Ok(End::RollBack) | Err(_) => transaction.rollback().map_err(tx_error)?,
        }
        end
    }
}

/// Walks an iterator over `lo <= key < hi`. A macro, for the iterators of a transaction and of a database are different types.
///
/// The bounds of the iterator's options alone will not do: a transaction's own writes are merged in without asking them.
macro_rules! walk {
    ($iterator:expr, $lo:expr, $hi:expr, $reverse:expr, $each:expr) => {{
        let (mut iterator, lo, hi): (_, &[u8], &[u8]) = ($iterator, $lo, $hi);
        match ($reverse, hi.is_empty()) {
            (false, _) => iterator.seek(lo),
            (true, true) => iterator.seek_to_last(),
            (true, false) => iterator.seek_for_prev(hi),
        }
        while let Some((key, value)) = iterator.item() {
            let beyond = if $reverse {
                key < lo
            } else {
                !hi.is_empty() && key >= hi
            };
            if beyond {
                return Ok(());
            }
            // The last key below `hi` is looked for at `hi`.
            let wanted = hi.is_empty() || key < hi;
            if wanted && !$each(key, value) {
                return Ok(());
            }
            if $reverse {
                iterator.prev()
            } else {
                iterator.next()
            }
        }
        iterator.status().map_err(tx_error)
    }};
}

fn bounded(lo: &[u8], hi: &[u8]) -> ReadOptions {
    let mut read = read_options();
    read.set_iterate_lower_bound(lo);
    if !hi.is_empty() {
        read.set_iterate_upper_bound(hi);
    }
    read
}

struct Writes<'a, 'e> {
    client: &'a Client<'e>,
    transaction: &'a Transaction<'a, TransactionDB>,
    /// Lower ends of scans of the queue, and the first keys they found.
    fronts_seen: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KvTx for Writes<'_, '_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        let found = self
            .transaction
            .get_pinned_cf_opt(&self.client.family(table)?, key, &self.client.read);
        Ok(copy(found.map_err(tx_error)?.as_deref(), value))
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        let family = self.client.family(table)?;
        let found = self
            .transaction
            .get_pinned_for_update_cf_opt(&family, key, true, &self.client.read);
        Ok(copy(found.map_err(tx_error)?.as_deref(), value))
    }

    fn put(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.transaction
            .put_cf(&self.client.family(table)?, key, value)
            .map_err(tx_error)
    }

    fn delete(&mut self, table: u8, key: &[u8]) -> Result<(), TxError> {
        self.transaction
            .delete_cf(&self.client.family(table)?, key)
            .map_err(tx_error)
    }

    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError> {
        let family = self.client.family(table)?;
        if self.client.fronts.table != Some(table) || reverse {
            return walk!(
                self.transaction.raw_iterator_cf_opt(&family, bounded(lo, hi)),
                lo,
                hi,
                reverse,
                each
            );
        }
        let begin = self.client.fronts.begin(table, lo);
        let begin = begin.as_deref().unwrap_or(lo);
        let mut first = true;
        let fronts_seen = &mut self.fronts_seen;
        let mut each = |key: &[u8], value: &[u8]| {
            if first {
                fronts_seen.push((lo.to_vec(), key.to_vec()));
                first = false;
            }
            each(key, value)
        };
        walk!(
            self.transaction.raw_iterator_cf_opt(&family, bounded(begin, hi)),
            begin,
            hi,
            false,
            each
        )
    }
}

struct Reads<'a, 'e> {
    client: &'a Client<'e>,
    snapshot: &'a SnapshotWithThreadMode<'a, TransactionDB>,
    /// On the snapshot.
    read: ReadOptions,
}

fn only_reads() -> TxError {
    TxError::failed("rocksdb: a write in a transaction that only reads")
}

impl KvTx for Reads<'_, '_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        let found = self
            .client
            .database
            .get_pinned_cf_opt(&self.client.family(table)?, key, &self.read);
        Ok(copy(found.map_err(tx_error)?.as_deref(), value))
    }

    fn get_for_update(&mut self, _table: u8, _key: &[u8], _value: &mut Vec<u8>) -> Result<bool, TxError> {
        Err(only_reads())
    }

    fn put(&mut self, _table: u8, _key: &[u8], _value: &[u8]) -> Result<(), TxError> {
        Err(only_reads())
    }

    fn delete(&mut self, _table: u8, _key: &[u8]) -> Result<(), TxError> {
        Err(only_reads())
    }

    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError> {
        let mut read = bounded(lo, hi);
        read.set_snapshot(self.snapshot);
        let family = self.client.family(table)?;
        walk!(
            self.client.database.raw_iterator_cf_opt(&family, read),
            lo,
            hi,
            reverse,
            each
        )
    }
}
