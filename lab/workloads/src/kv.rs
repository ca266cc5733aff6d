//! [`KvEngine`]: what a transactional key-value store offers, so that TPC-C and YCSB run on it without code of its own.
//!
//! `tpcc::KvTpcc` and `ycsb::KvYcsb` implement the workloads on top. Tables are numbered from zero; their names, for
//! stores that name them, are [`crate::tpcc::KV_TABLES`] and [`crate::ycsb::KV_TABLES`]. Keys order as byte strings.
//!
//! A transaction is a closure, not an object, so that a store may keep tables, cursors and guards that borrow from the
//! transaction on its own stack.

use crate::engine::TxError;

/// How the body of a transaction wants it to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Make all of it visible, with the durability of the engine.
    Commit,
    /// Undo all of it.
    RollBack,
}

/// A transactional key-value store, already open, with all its tables.
pub trait KvEngine: Send + Sync {
    /// Name for reports, with what distinguishes this configuration.
    fn name(&self) -> String;

    /// Makes a client of worker `worker`; called on the client's own thread.
    ///
    /// # Errors
    /// When the store has no room for another client.
    fn client(&self, worker: usize) -> Result<Box<dyn KvClient + '_>, TxError>;

    /// Memory the data takes, in bytes, where the store can tell.
    fn memory_bytes(&self) -> Option<u64>;

    /// Puts pairs `(table, key, value)` in, before the first client. The default commits transactions of a thousand
    /// pairs; a store with something faster replaces it. Keys are new, in no order, and parts share none.
    ///
    /// # Errors
    /// When a pair cannot be put in.
    fn load(&self, part: &mut dyn Iterator<Item = (u8, Vec<u8>, Vec<u8>)>) -> Result<(), TxError> {
        let mut client = self.client(0)?;
        loop {
            let pairs: Vec<_> = part.take(1000).collect();
            if pairs.is_empty() {
                return Ok(());
            }
            client.transaction(true, &mut |tx| {
                for (table, key, value) in &pairs {
                    tx.put(*table, key, value)?;
                }
                Ok(End::Commit)
            })?;
        }
    }
}

/// One client of a key-value store.
pub trait KvClient {
    /// Begins a transaction, runs `body` once, and ends the transaction as the body says; an error of the body rolls it
    /// back and is returned as it is. Transactions of the workloads are serializable if all [`KvTx::get_for_update`] lock
    /// (or validate) their key and transactions with `write` false read one consistent state.
    ///
    /// `write` false promises that the body only calls [`KvTx::get`] and [`KvTx::scan`].
    ///
    /// # Errors
    /// The body's, or what kept the transaction from beginning or committing: then nothing of it remains.
    fn transaction(
        &mut self,
        write: bool,
        body: &mut dyn FnMut(&mut dyn KvTx) -> Result<End, TxError>,
    ) -> Result<End, TxError>;
}

/// One running transaction. Reads see the transaction's own writes.
pub trait KvTx {
    /// Replaces the content of `value` by the value of `key`; false, and `value` empty, where there is none.
    ///
    /// # Errors
    /// See [`TxError`]; so in the other methods. After an error the body returns it, and nothing else is called.
    fn get(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError>;

    /// As [`KvTx::get`], of the newest committed value, and nobody else writes the key (present or not) before this
    /// transaction has ended.
    ///
    /// # Errors
    /// See [`TxError`].
    fn get_for_update(&mut self, table: u8, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TxError>;

    /// Writes a pair, new or not.
    ///
    /// # Errors
    /// See [`TxError`].
    fn put(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), TxError>;

    /// Deletes a pair; none is no error.
    ///
    /// # Errors
    /// See [`TxError`].
    fn delete(&mut self, table: u8, key: &[u8]) -> Result<(), TxError>;

    /// Calls `each` with the pairs `lo <= key < hi` in the order of keys, or the opposite one if `reverse`, until `each`
    /// returns false or none is left. `hi` empty means no upper end.
    ///
    /// # Errors
    /// See [`TxError`].
    fn scan(
        &mut self,
        table: u8,
        lo: &[u8],
        hi: &[u8],
        reverse: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), TxError>;
}
