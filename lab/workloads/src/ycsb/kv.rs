//! [`KvYcsb`]: YCSB on any transactional key-value store. A value is a whole record.

use super::record::{FIELD_BYTES, FIELDS, ScanAnswer};
use crate::engine::{TxError, YcsbClient, YcsbEngine};
use crate::kv::{End, KvClient, KvEngine};

const USERTABLE: u8 = 0;

/// YCSB on a key-value store.
#[derive(Debug)]
pub struct KvYcsb<K> {
    engine: K,
}

impl<K: KvEngine> KvYcsb<K> {
    /// Runs YCSB on this store, which has the tables [`super::KV_TABLES`].
    pub fn new(engine: K) -> Self {
        Self { engine }
    }

    /// The store.
    pub fn store(&self) -> &K {
        &self.engine
    }
}

impl<K: KvEngine> YcsbEngine for KvYcsb<K> {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError> {
        let mut pairs = part.map(|(key, record)| (USERTABLE, key.to_be_bytes().to_vec(), record));
        self.engine.load(&mut pairs)
    }

    fn client(&self, worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError> {
        Ok(Box::new(Client {
            kv: self.engine.client(worker)?,
            record: Vec::new(),
        }))
    }

    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError> {
        let mut client = self.engine.client(0)?;
        client.transaction(false, &mut |tx| {
            tx.scan(USERTABLE, &[], &[], false, &mut |key, record| {
                each(number(key), record);
                true
            })?;
            Ok(End::Commit)
        })?;
        Ok(())
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.engine.memory_bytes()
    }
}

fn number(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

struct Client<'a> {
    kv: Box<dyn KvClient + 'a>,
    record: Vec<u8>,
}

impl Client<'_> {
    /// Locks a record, lets `change` change a field of it, and writes it.
    fn change(
        &mut self,
        key: u64,
        field: usize,
        change: &mut dyn FnMut(&mut Vec<u8>, std::ops::Range<usize>),
    ) -> Result<bool, TxError> {
        if field >= FIELDS {
            return Err(TxError::failed(format!("field {field} of {FIELDS}")));
        }
        let place = field * FIELD_BYTES..(field + 1) * FIELD_BYTES;
        let record = &mut self.record;
        let mut found = false;
        self.kv.transaction(true, &mut |tx| {
            found = tx.get_for_update(USERTABLE, &key.to_be_bytes(), record)?;
            if found {
                if record.len() < place.end {
                    return Err(TxError::failed(format!("a record of {} bytes", record.len())));
                }
                change(record, place.clone());
                tx.put(USERTABLE, &key.to_be_bytes(), record)?;
            }
            Ok(End::Commit)
        })?;
        Ok(found)
    }
}

impl YcsbClient for Client<'_> {
    fn read(&mut self, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
        let mut found = false;
        self.kv.transaction(false, &mut |tx| {
            found = tx.get(USERTABLE, &key.to_be_bytes(), record)?;
            Ok(End::Commit)
        })?;
        Ok(found)
    }

    fn update(&mut self, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError> {
        if content.len() != FIELD_BYTES {
            return Err(TxError::failed(format!("a field of {} bytes", content.len())));
        }
        self.change(key, field, &mut |record, place| {
            record[place].copy_from_slice(content)
        })
    }

    fn insert(&mut self, key: u64, record: &[u8]) -> Result<(), TxError> {
        let old = &mut self.record;
        self.kv.transaction(true, &mut |tx| {
            if tx.get_for_update(USERTABLE, &key.to_be_bytes(), old)? {
                return Err(TxError::failed(format!("the key {key} exists")));
            }
            tx.put(USERTABLE, &key.to_be_bytes(), record)?;
            Ok(End::Commit)
        })?;
        Ok(())
    }

    fn scan(&mut self, start: u64, count: usize) -> Result<ScanAnswer, TxError> {
        let mut answer = ScanAnswer::default();
        self.kv.transaction(false, &mut |tx| {
            answer = ScanAnswer::default();
            if count > 0 {
                tx.scan(USERTABLE, &start.to_be_bytes(), &[], false, &mut |key, record| {
                    answer.add(number(key), record);
                    answer.rows < count
                })?;
            }
            Ok(End::Commit)
        })?;
        Ok(answer)
    }

    fn read_modify_write(
        &mut self,
        key: u64,
        field: usize,
        modify: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<bool, TxError> {
        self.change(key, field, &mut |record, place| {
            let mut content = [0; FIELD_BYTES];
            content.copy_from_slice(&record[place.clone()]);
            modify(record, &mut content);
            record[place].copy_from_slice(&content);
        })
    }
}
