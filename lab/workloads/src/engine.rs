//! [`TpccEngine`] and [`YcsbEngine`]: what an engine offers to be driven by the workloads of this crate.
//!
//! Order of calls: an engine is made by its own constructor (which fixes its [`Durability`]), `load` puts the initial rows
//! in, `client` is called once by each client on the client's own thread, the client runs transactions, and after the
//! last client is gone `visit` shows all rows to the checks.
//!
//! What it is not: a database interface. Each transaction is one call, so that every engine runs it in the way that is
//! best for it: SQL statements, a key-value store ([`crate::kv`]), or calls of a storage manager.

use std::fmt;

use corun_exec::teams::Operation;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::TextTooLong;
use crate::tpcc;
use crate::ycsb;

/// What a commit promises. Engines are compared at equal promises only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// No log at all: everything is gone when the process ends.
    None,
    /// A commit returns before its log is on disk. A crash loses at most a suffix of the commits and leaves a state that
    /// consists of whole transactions.
    #[serde(rename = "async")]
    Asynchronous,
    /// A commit returns when its log is on disk.
    Durable,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Durability::None => "none",
            Durability::Asynchronous => "async",
            Durability::Durable => "durable",
        })
    }
}

/// Why a transaction did not come to its end. Either way nothing of it remains.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TxError {
    /// Others were in the way: a deadlock, a lock timeout, a conflict. The driver runs the transaction again.
    #[error("to be tried again: {0}")]
    Retry(String),
    /// Anything else. It ends the run.
    #[error("{0}")]
    Failed(String),
}

impl TxError {
    /// [`TxError::Failed`] with a text.
    pub fn failed(why: impl Into<String>) -> Self {
        TxError::Failed(why.into())
    }
}

impl From<TextTooLong> for TxError {
    fn from(error: TextTooLong) -> Self {
        TxError::Failed(error.to_string())
    }
}

/// An engine that runs TPC-C.
pub trait TpccEngine: Send + Sync {
    /// Name for reports, with what distinguishes this configuration: `sqlite wal`.
    fn name(&self) -> String;

    /// Puts rows in and returns when they are as safe as the engine's commits are. Called before the first client, once for
    /// every part of the population, by several threads at the same time or one after the other. A part holds rows of
    /// several tables; an engine may commit it in pieces.
    ///
    /// # Errors
    /// When a row cannot be put in. [`TxError::Retry`] is not expected here: parts share no rows.
    fn load(&self, part: &mut dyn Iterator<Item = tpcc::Row>) -> Result<(), TxError>;

    /// Makes a client of worker `worker` (0 for the first). Called on the client's own thread, which is already where it
    /// will stay.
    ///
    /// # Errors
    /// When the engine has no room for another client.
    fn client(&self, worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError>;

    /// Calls `each` with every row of a table, in any order, once. Called while no client runs.
    ///
    /// # Errors
    /// When the table cannot be read, or holds what is no row.
    fn visit(&self, table: tpcc::TableName, each: &mut dyn FnMut(&tpcc::Row)) -> Result<(), TxError>;

    /// Memory the data takes, in bytes, where the engine can tell.
    fn memory_bytes(&self) -> Option<u64>;

    /// Whether clients may be user-level threads, several on one thread of the operating system: they wait and lock in ways that let the
    /// others of their thread go on.
    fn clients_share_threads(&self) -> bool {
        false
    }

    /// What it calls an operation that its clients run in teams.
    fn operation_name(&self, operation: Operation) -> String {
        format!("operation {}", operation.0)
    }
}

/// One terminal of TPC-C. Every method is a whole transaction: when it returns `Ok` the transaction has committed with the
/// durability of its engine (or, for an order with an unused item, was rolled back as the rules demand), and when it
/// returns an error nothing of it remains.
pub trait TpccClient {
    /// Clause 2.4: enters an order.
    ///
    /// # Errors
    /// See [`TxError`]; so in the other methods.
    fn new_order(&mut self, input: &tpcc::NewOrder) -> Result<tpcc::NewOrderAnswer, TxError>;

    /// Clause 2.5: books a payment.
    ///
    /// # Errors
    /// See [`TxError`].
    fn payment(&mut self, input: &tpcc::Payment) -> Result<tpcc::PaymentAnswer, TxError>;

    /// Clause 2.6: shows a customer's last order.
    ///
    /// # Errors
    /// See [`TxError`].
    fn order_status(&mut self, input: &tpcc::OrderStatus) -> Result<tpcc::OrderStatusAnswer, TxError>;

    /// Clause 2.7: delivers the oldest order of each of the ten districts, in one transaction.
    ///
    /// # Errors
    /// See [`TxError`].
    fn delivery(&mut self, input: &tpcc::Delivery) -> Result<tpcc::DeliveryAnswer, TxError>;

    /// Clause 2.8: counts the items of a district's last twenty orders that run low.
    ///
    /// # Errors
    /// See [`TxError`].
    fn stock_level(&mut self, input: &tpcc::StockLevel) -> Result<tpcc::StockLevelAnswer, TxError>;
}

/// An engine that runs YCSB: one table of records with a key of 8 bytes and [`ycsb::FIELDS`] fields of
/// [`ycsb::FIELD_BYTES`] bytes. Keys order as unsigned integers. A record is handed over as its fields one after the other,
/// [`ycsb::RECORD_BYTES`] in all.
pub trait YcsbEngine: Send + Sync {
    /// As [`TpccEngine::name`].
    fn name(&self) -> String;

    /// As [`TpccEngine::load`]: keys with their records.
    ///
    /// # Errors
    /// When a record cannot be put in.
    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError>;

    /// As [`TpccEngine::client`].
    ///
    /// # Errors
    /// When the engine has no room for another client.
    fn client(&self, worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError>;

    /// As [`TpccEngine::visit`]: every key with its record, once.
    ///
    /// # Errors
    /// When the table cannot be read.
    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError>;

    /// As [`TpccEngine::memory_bytes`].
    fn memory_bytes(&self) -> Option<u64>;

    /// As [`TpccEngine::clients_share_threads`].
    fn clients_share_threads(&self) -> bool {
        false
    }

    /// As [`TpccEngine::operation_name`].
    fn operation_name(&self, operation: Operation) -> String {
        format!("operation {}", operation.0)
    }
}

/// One client of YCSB. Every method is a whole transaction, as in [`TpccClient`].
pub trait YcsbClient {
    /// Replaces the content of `record` by the record of `key`; false, and `record` empty, where there is none.
    ///
    /// # Errors
    /// See [`TxError`]; so in the other methods.
    fn read(&mut self, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError>;

    /// Replaces one field, which is [`ycsb::FIELD_BYTES`] long; false where there is no such record.
    ///
    /// # Errors
    /// See [`TxError`].
    fn update(&mut self, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError>;

    /// Inserts a record of [`ycsb::RECORD_BYTES`].
    ///
    /// # Errors
    /// See [`TxError`]; a key that exists is [`TxError::Failed`].
    fn insert(&mut self, key: u64, record: &[u8]) -> Result<(), TxError>;

    /// Reads up to `count` records in the order of their keys, from the first key not below `start`, and sums them up with
    /// [`ycsb::ScanAnswer::add`].
    ///
    /// # Errors
    /// See [`TxError`].
    fn scan(&mut self, start: u64, count: usize) -> Result<ycsb::ScanAnswer, TxError>;

    /// In one transaction that no other writer of the record comes between: reads the record, lets `modify` compute the new
    /// content of `field` from the whole record (its second argument holds the old content of the field), and writes it.
    /// False where there is no such record. `modify` may be called more than once if the transaction is run again.
    ///
    /// # Errors
    /// See [`TxError`].
    fn read_modify_write(
        &mut self,
        key: u64,
        field: usize,
        modify: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<bool, TxError>;
}
