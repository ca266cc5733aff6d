//! [`CorunTpcc`]: TPC-C on the store.

use std::sync::atomic::{AtomicI64, Ordering};

use corun_exec::teams::Operation;
use corun_store::{Direction, RowBuf, Session, Store};

use super::rows::{Filler, Reader};
use super::schema::{Buffers, HISTORY_KEY, Tables};
use super::{LOAD_ROWS, new_order, transactions};
use crate::engine::{TpccClient, TpccEngine, TxError};
use crate::tpcc::columns::ColumnWriter;
use crate::tpcc::{
    Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, OrderStatus, OrderStatusAnswer, Payment,
    PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
};

/// Keys of `history` one client can make before it takes another range.
const HISTORY_KEYS: i64 = 1 << 32;

/// TPC-C on a store.
pub struct CorunTpcc {
    store: Store,
    tables: Tables,
    /// The next range of keys of `history` that nobody has.
    history_ranges: AtomicI64,
}

impl CorunTpcc {
    /// Runs TPC-C on this store; makes the tables that are not there.
    ///
    /// # Errors
    /// [`TxError::Failed`] with what the store says.
    pub fn new(store: Store) -> Result<Self, TxError> {
        let tables = Tables::new(&store)?;
        let history = &tables.history.primary;
        let snapshot = store.snapshot()?;
        let last = snapshot
            .scan(history, &history.all(), Direction::Descending)?
            .next();
        let ranges = last.map_or(0, |found| found.row.int(HISTORY_KEY) / HISTORY_KEYS + 1);
        drop(snapshot);
        Ok(Self {
            store,
            tables,
            history_ranges: AtomicI64::new(ranges),
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn history_range(&self) -> i64 {
        // Relaxed: the counter hands out numbers and guards nothing else.
        self.history_ranges.fetch_add(1, Ordering::Relaxed) * HISTORY_KEYS
    }
}

impl TpccEngine for CorunTpcc {
    fn name(&self) -> String {
        "corun".to_owned()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        let mut session = self.store.session_here()?;
        let mut buffers: Vec<RowBuf> = TableName::ALL
            .iter()
            .map(|&name| self.tables.get(name).table.new_row())
            .collect();
        let mut history = self.history_range();
        let mut part = part.peekable();
        while part.peek().is_some() {
            let transaction = session.begin()?;
            for row in part.by_ref().take(LOAD_ROWS) {
                let name = row.table();
                let buffer = &mut buffers[name as usize];
                let mut to = Filler::new(buffer);
                if name == TableName::History {
                    to.integer(history)?;
                    history += 1;
                }
                row.write(&mut to)?;
                transaction.insert(&self.tables.get(name).table, buffer)?;
            }
            transaction.commit_with(corun_store::Durability::Asynchronous)?;
        }
        self.store.flush()?;
        Ok(())
    }

    fn client(&self, worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(Client {
            engine: self,
            session: self.store.session(worker, corun_store::park::current())?,
            buffers: Buffers::new(&self.tables),
            history: self.history_range(),
        }))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        let snapshot = self.store.snapshot()?;
        let of = &self.tables.get(table).table;
        let column = usize::from(table == TableName::History);
        for found in snapshot.rows(of, 0..of.rid_end())? {
            each(&Row::read(
                table,
                &mut Reader {
                    row: found.row,
                    column,
                },
            )?);
        }
        Ok(())
    }

    fn clients_share_threads(&self) -> bool {
        true
    }

    fn operation_name(&self, operation: Operation) -> String {
        super::operation_name(operation)
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.store.tables().iter().map(corun_store::Table::bytes).sum())
    }
}

/// One terminal.
struct Client<'a> {
    engine: &'a CorunTpcc,
    session: Session,
    buffers: Buffers,
    /// The key of the next row of `history`.
    history: i64,
}

impl TpccClient for Client<'_> {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        new_order::new_order(
            self.session.begin()?,
            &self.engine.tables,
            &mut self.buffers,
            input,
        )
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.history += 1;
        if self.history % HISTORY_KEYS == 0 {
            self.history = self.engine.history_range();
        }
        let tables = &self.engine.tables;
        transactions::payment(
            self.session.begin()?,
            tables,
            &mut self.buffers,
            input,
            self.history,
        )
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        transactions::order_status(&super::snapshot(&self.engine.store)?, &self.engine.tables, input)
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        transactions::delivery(self.session.begin()?, &self.engine.tables, input)
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        transactions::stock_level(&super::snapshot(&self.engine.store)?, &self.engine.tables, input)
    }
}
