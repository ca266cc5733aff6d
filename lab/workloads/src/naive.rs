//! [`Naive`]: a key-value store of ordered maps behind one mutex, one transaction at a time.
//!
//! The oracle of the workloads: nothing in it can be wrong about concurrency. What it is not: durable, or fast with more than
//! one client.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::{Mutex, MutexGuard};

use crate::engine::TxError;
use crate::kv::{End, KvClient, KvEngine, KvTx};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Ordered maps behind one mutex.
#[derive(Debug)]
pub struct Naive {
    tables: Mutex<Vec<Map>>,
}

impl Naive {
    /// An empty store with `tables` tables.
    pub fn new(tables: usize) -> Self {
        Self {
            tables: Mutex::new(vec![Map::new(); tables]),
        }
    }
}

impl KvEngine for Naive {
    fn name(&self) -> String {
        "naive".to_owned()
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn KvClient + '_>, TxError> {
        Ok(Box::new(Client(self)))
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

struct Client<'a>(&'a Naive);

impl KvClient for Client<'_> {
    fn transaction(
        &mut self,
        _write: bool,
        body: &mut dyn FnMut(&mut dyn KvTx) -> Result<End, TxError>,
    ) -> Result<End, TxError> {
        let mut tx = Transaction {
            tables: self.0.tables.lock(),
            undo: Vec::new(),
        };
        let end = body(&mut tx);
        if end != Ok(End::Commit) {
            while let Some((table, key, old)) = tx.undo.pop() {
                match old {
                    Some(value) => tx.tables[table].insert(key, value),
                    None => tx.tables[table].remove(&key),
                };
            }
        }
        end
    }
}

struct Transaction<'a> {
    tables: MutexGuard<'a, Vec<Map>>,
    /// What was at a key before each write, newest last.
    undo: Vec<(usize, Vec<u8>, Option<Vec<u8>>)>,
}

impl Transaction<'_> {
    fn table(&mut self, table: u8) -> Result<&mut Map, TxError> {
        let count = self.tables.len();
        self.tables
            .get_mut(usize::from(table))
            .ok_or_else(|| TxError::failed(format!("table {table} of {count}")))
    }
}

impl KvTx for Transaction<'_> {
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        value.clear();
        let found = self.table(table)?.get(key);
        if let Some(found) = found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError> {
        self.get(table, key, value)
    }

    fn put(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        let old = self.table(table)?.insert(key.to_vec(), value.to_vec());
        self.undo.push((usize::from(table), key.to_vec(), old));
        Ok(())
    }

    fn delete(&mut self, table: u8, key: &[u8]) -> Result<(), TxError> {
        let old = self.table(table)?.remove(key);
        if old.is_some() {
            self.undo.push((usize::from(table), key.to_vec(), old));
        }
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
        if !hi.is_empty() && lo >= hi {
            return Ok(());
        }
        let end = if hi.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(hi)
        };
        let mut range = self.table(table)?.range::<[u8], _>((Bound::Included(lo), end));
        while let Some((key, value)) = if reverse { range.next_back() } else { range.next() } {
            if !each(key, value) {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(store: &Naive, lo: &[u8], hi: &[u8], reverse: bool) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let mut client = store.client(0).unwrap();
        client
            .transaction(false, &mut |tx| {
                tx.scan(0, lo, hi, reverse, &mut |key, _| {
                    keys.push(key.to_vec());
                    true
                })?;
                Ok(End::Commit)
            })
            .unwrap();
        keys
    }

    #[test]
    fn what_is_rolled_back_is_as_before() {
        let store = Naive::new(1);
        let mut client = store.client(0).unwrap();
        client
            .transaction(true, &mut |tx| {
                tx.put(0, b"a", b"1")?;
                tx.put(0, b"b", b"2")?;
                Ok(End::Commit)
            })
            .unwrap();
        for end in [Ok(End::RollBack), Err(TxError::failed("x"))] {
            let mut value = Vec::new();
            let ended = client.transaction(true, &mut |tx| {
                tx.put(0, b"a", b"3")?;
                tx.put(0, b"a", b"4")?;
                tx.put(0, b"c", b"5")?;
                tx.delete(0, b"b")?;
                assert!(tx.get(0, b"a", &mut value)? && value == b"4");
                assert!(!tx.get(0, b"b", &mut value)? && value.is_empty());
                end.clone()
            });
            assert_eq!(ended, end);
            assert_eq!(keys(&store, b"", b"", false), [b"a", b"b"]);
        }
        assert_eq!(keys(&store, b"", b"", true), [b"b", b"a"]);
        assert_eq!(keys(&store, b"a", b"b", true), [b"a"]);
        assert_eq!(keys(&store, b"b", b"b", false), Vec::<Vec<u8>>::new());
    }
}
