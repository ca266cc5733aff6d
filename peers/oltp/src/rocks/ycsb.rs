//! [`RocksYcsb`]: YCSB on RocksDB.

use oltp::engine::{TxError, YcsbClient, YcsbEngine};
use oltp::ycsb::{KvYcsb, ScanAnswer};

use super::{Client, Rocks};

/// YCSB on RocksDB: as on any key-value store, but a single read takes no snapshot. A snapshot costs a lock all clients share.
pub struct RocksYcsb(KvYcsb<Rocks>);

impl RocksYcsb {
    /// Runs YCSB on this store.
    pub fn new(store: Rocks) -> Self {
        Self(KvYcsb::new(store))
    }
}

impl YcsbEngine for RocksYcsb {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError> {
        self.0.load(part)
    }

    fn client(&self, worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError> {
        Ok(Box::new(RocksYcsbClient {
            reads: self.0.store().connect()?,
            others: self.0.client(worker)?,
        }))
    }

    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError> {
        self.0.visit(each)
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.0.memory_bytes()
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
