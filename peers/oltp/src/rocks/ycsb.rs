//! [`RocksYcsb`]: YCSB on RocksDB.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use corun_workloads::engine::{Durability, TxError, YcsbClient, YcsbEngine};
use corun_workloads::ycsb::{KV_TABLES, KvYcsb, ScanAnswer};
use parking_lot::Mutex;

use super::{Client, Rocks};

/// YCSB on RocksDB: as on any key-value store, but a single read takes no snapshot, which would cost a lock all clients share.
///
/// Data that is only read is better off in files with their index and cache than in the list of a memtable (a fifth more reads);
/// data that is written is not. This binding cannot flush, but closing a database does, so it is closed and opened after the load.
pub struct RocksYcsb {
    folder: PathBuf,
    durability: Durability,
    only_reads: bool,
    /// Until the first client comes.
    loading: Mutex<Option<KvYcsb<Rocks>>>,
    loaded: OnceLock<KvYcsb<Rocks>>,
}

impl RocksYcsb {
    /// Makes an empty database.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn create(folder: &Path, durability: Durability, only_reads: bool) -> Result<Self, TxError> {
        let store = KvYcsb::new(Rocks::open(folder, durability, &KV_TABLES)?);
        Ok(Self {
            folder: folder.to_path_buf(),
            durability,
            only_reads,
            loading: Mutex::new(Some(store)),
            loaded: OnceLock::new(),
        })
    }

    /// The database after the load.
    fn store(&self) -> Result<&KvYcsb<Rocks>, TxError> {
        if let Some(store) = self.loaded.get() {
            return Ok(store);
        }
        let mut loading = self.loading.lock();
        let mut store = loading.take();
        if self.only_reads && store.is_some() {
            // Closed before it is opened again: there can be only one.
            drop(store);
            store = Some(KvYcsb::new(Rocks::open(
                &self.folder,
                self.durability,
                &KV_TABLES,
            )?));
        }
        // None: another client was faster.
        if let Some(store) = store {
            let _ = self.loaded.set(store);
        }
        self.loaded
            .get()
            .ok_or_else(|| TxError::failed("rocksdb: the database could not be opened again"))
    }
}

impl YcsbEngine for RocksYcsb {
    fn name(&self) -> String {
        "rocksdb".to_string()
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError> {
        match &*self.loading.lock() {
            Some(store) => store.load(part),
            None => Err(TxError::failed("rocksdb: a load after the first client")),
        }
    }

    fn client(&self, worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError> {
        let store = self.store()?;
        Ok(Box::new(RocksYcsbClient {
            reads: store.store().connect()?,
            others: store.client(worker)?,
        }))
    }

    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError> {
        self.store()?.visit(each)
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

struct RocksYcsbClient<'e> {
    reads: Client<'e>,
    others: Box<dyn YcsbClient + 'e>,
}

impl YcsbClient for RocksYcsbClient<'_> {
    fn read(&mut self, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
        self.reads.get(0, &key.to_be_bytes(), record)
    }

    fn update(&mut self, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError> {
        self.others.update(key, field, content)
    }

    fn insert(&mut self, key: u64, record: &[u8]) -> Result<(), TxError> {
        self.others.insert(key, record)
    }

    fn scan(&mut self, start: u64, count: usize) -> Result<ScanAnswer, TxError> {
        self.others.scan(start, count)
    }

    fn read_modify_write(
        &mut self,
        key: u64,
        field: usize,
        modify: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<bool, TxError> {
        self.others.read_modify_write(key, field, modify)
    }
}
