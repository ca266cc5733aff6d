//! [`Server`]: a PostgreSQL server, reached in one way, as an engine of TPC-C.

use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{
    Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, OrderStatus, OrderStatusAnswer, Payment,
    PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
};

use super::session::{Session, broken};
use super::{rows, schema, transactions};
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::lines::Lines;
use crate::key_ranges::PATIENCE;
use lab_core::error::BenchError;

/// Rows of a table are handed over when they have so many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// A server, or a proxy in front of it.
pub struct Server {
    address: Address,
}

impl Server {
    /// The server at this address.
    pub fn at(address: &Address) -> Server {
        Server {
            address: address.clone(),
        }
    }

    /// Makes the tables.
    pub fn create(&self) -> Result<(), BenchError> {
        self.run(TableName::ALL.map(schema::create))
    }

    /// Makes keys, indexes and statistics, once the tables are loaded.
    pub fn index(&self) -> Result<(), BenchError> {
        self.run(schema::after_load())
    }

    /// Removes old versions of rows.
    pub fn tidy(&self) -> Result<(), BenchError> {
        self.run(schema::TIDY.map(str::to_owned))
    }

    fn run(&self, statements: impl IntoIterator<Item = String>) -> Result<(), BenchError> {
        Client::connect(&self.address, PATIENCE)?.run_all(statements)
    }
}

impl TpccEngine for Server {
    fn name(&self) -> String {
        "postgres".to_owned()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        let mut client = Client::connect(&self.address, PATIENCE).map_err(broken)?;
        let mut waiting = vec![Lines::default(); TableName::ALL.len()];
        let mut hand_over = |table: TableName, lines: &mut Lines| -> Result<(), TxError> {
            let sql = format!("copy {table} from stdin");
            client.copy_in(&sql, lines.as_str().as_bytes()).map_err(broken)?;
            lines.clear();
            Ok(())
        };
        for row in part {
            let table = row.table();
            let lines = &mut waiting[table as usize];
            rows::write(&row, lines);
            if lines.as_str().len() >= PIECE_BYTES {
                hand_over(table, lines)?;
            }
        }
        for (table, lines) in TableName::ALL.into_iter().zip(&mut waiting) {
            if !lines.as_str().is_empty() {
                hand_over(table, lines)?;
            }
        }
        Ok(())
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(Session::new(&self.address)?))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        let mut client = Client::connect(&self.address, PATIENCE).map_err(broken)?;
        let mut wrong = None;
        let sql = format!("select * from {table}");
        let shown = client.each_row(&sql, |row| {
            match rows::read(table, row) {
                Ok(row) => each(&row),
                Err(error) => wrong = wrong.take().or(Some(error)),
            }
            Ok(())
        });
        shown.map_err(broken)?;
        wrong.map_or(Ok(()), Err)
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

impl TpccClient for Session {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        self.transaction(|session| transactions::new_order(session, input))
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.transaction(|session| Ok((transactions::payment(session, input)?, true)))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        self.transaction(|session| Ok((transactions::order_status(session, input)?, true)))
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        self.transaction(|session| Ok((transactions::delivery(session, input)?, true)))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        transactions::stock_level(self, input)
    }
}
