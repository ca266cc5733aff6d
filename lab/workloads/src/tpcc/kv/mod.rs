//! [`KvTpcc`]: TPC-C on any transactional key-value store.
//!
//! Rows are byte strings in [`super::KV_TABLES`] (see `key` and `code`); the two last tables are indexes with empty values. Locks
//! are taken in the same order by every transaction, the hottest rows last: stocks by their keys, then the
//! district; the customer, then the district, then the warehouse. Columns that never change after the load (taxes, names,
//! credit, prices) are read without a lock.

mod code;
mod key;
mod new_order;
mod transactions;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, OrderStatus, OrderStatusAnswer, Payment,
    PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
};
use crate::engine::{TpccClient, TpccEngine, TxError};
use crate::kv::{End, KvClient, KvEngine, KvTx};

pub(super) use code::{KeyValue, KeyValueReader, ValueWriter};

/// Numbers of the tables in [`super::KV_TABLES`]; those of rows are `TableName as u8`.
const CUSTOMER_BY_NAME: u8 = 9;
/// See [`CUSTOMER_BY_NAME`].
const ORDERS_BY_CUSTOMER: u8 = 10;

const _: () = assert!(TableName::Stock as u8 + 1 == CUSTOMER_BY_NAME);
const _: () = assert!(super::KV_TABLES.len() == ORDERS_BY_CUSTOMER as usize + 1);

/// TPC-C on a key-value store.
#[derive(Debug)]
pub struct KvTpcc<K> {
    engine: K,
    /// Which life of the engine this is: microseconds at its start. Keys of `history` begin with it.
    life: u64,
    /// Clients so far, loaders included.
    clients: AtomicU32,
}

impl<K: KvEngine> KvTpcc<K> {
    /// Runs TPC-C on this store, which has the tables [`super::KV_TABLES`].
    pub fn new(engine: K) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            engine,
            life: since_1970.as_micros() as u64,
            clients: AtomicU32::new(0),
        }
    }

    /// The store.
    pub fn store(&self) -> &K {
        &self.engine
    }

    fn next_client(&self) -> u32 {
        // Relaxed: the counter hands out numbers and guards nothing else.
        self.clients.fetch_add(1, Ordering::Relaxed)
    }
}

impl<K: KvEngine> TpccEngine for KvTpcc<K> {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        let client = self.next_client();
        let mut count = 0;
        let mut pairs = part.flat_map(|row| {
            count += 1;
            let (mut key, mut value, mut index) = (Vec::new(), Vec::new(), Vec::new());
            row.push_key_value(&mut key, &mut value);
            let index_table = match &row {
                Row::Customer(row) => {
                    key::full_name_key(&mut index, row);
                    Some(CUSTOMER_BY_NAME)
                }
                Row::Order(row) => {
                    key::customer_order_key(&mut index, row.warehouse, row.district, row.customer, row.id);
                    Some(ORDERS_BY_CUSTOMER)
                }
                Row::History(_) => {
                    key::history_key(&mut key, (self.life, client, count));
                    None
                }
                _ => None,
            };
            let entry = index_table.map(|table| (table, index, Vec::new()));
            [Some((row.table() as u8, key, value)), entry]
                .into_iter()
                .flatten()
        });
        self.engine.load(&mut pairs)
    }

    fn client(&self, worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(Client {
            kv: self.engine.client(worker)?,
            life: self.life,
            number: self.next_client(),
            payments: 0,
        }))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        let mut client = self.engine.client(0)?;
        client.transaction(false, &mut |tx| {
            let mut result = Ok(());
            tx.scan(table as u8, &[], &[], false, &mut |key, value| {
                let row = Row::from_key_value(table, &mut KeyValueReader::new(key, value));
                result = row.map(|row| each(&row));
                result.is_ok()
            })?;
            result.map(|()| End::Commit)
        })?;
        Ok(())
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.engine.memory_bytes()
    }
}

/// One terminal.
struct Client<'a> {
    kv: Box<dyn KvClient + 'a>,
    life: u64,
    number: u32,
    payments: u32,
}

impl Client<'_> {
    /// Runs `body` in a transaction and returns what it made.
    fn run<T>(
        &mut self,
        write: bool,
        mut body: impl FnMut(&mut dyn KvTx) -> Result<(End, T), TxError>,
    ) -> Result<T, TxError> {
        let mut answer = None;
        self.kv.transaction(write, &mut |tx| {
            let (end, made) = body(tx)?;
            answer = Some(made);
            Ok(end)
        })?;
        answer.ok_or_else(|| TxError::failed("the store did not run the body of a transaction"))
    }
}

impl TpccClient for Client<'_> {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        self.run(true, |tx| new_order::new_order(tx, input))
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.payments += 1;
        let history = (self.life, self.number, self.payments);
        self.run(true, |tx| {
            Ok((End::Commit, transactions::payment(tx, input, history)?))
        })
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        self.run(false, |tx| {
            Ok((End::Commit, transactions::order_status(tx, input)?))
        })
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        self.run(true, |tx| Ok((End::Commit, transactions::delivery(tx, input)?)))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        self.run(false, |tx| {
            Ok((End::Commit, transactions::stock_level(tx, input)?))
        })
    }
}
