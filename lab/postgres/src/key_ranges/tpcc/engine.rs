//! [`Server`]: a PostgreSQL server, reached in one way, as an engine of TPC-C.

use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{
    Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, OrderStatus, OrderStatusAnswer, Payment,
    PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
};

use super::session::Session;
use super::{rows, schema, transactions};
use crate::key_ranges::PATIENCE;
use crate::pooler::address::Address;
use crate::pooler::client::Client;
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
    ///
    /// # Errors
    /// When the server refuses.
    pub fn create(&self) -> Result<(), BenchError> {
        self.run(TableName::ALL.map(schema::create))
    }

    /// Makes keys, indexes and statistics, once the tables are loaded.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn index(&self) -> Result<(), BenchError> {
        self.run(schema::after_load())
    }

    /// Removes old versions of rows.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn tidy(&self) -> Result<(), BenchError> {
        self.run(schema::TIDY.map(str::to_owned))
    }

    fn run(&self, statements: impl IntoIterator<Item = String>) -> Result<(), BenchError> {
        let mut client = Client::connect(&self.address, PATIENCE)?;
        for statement in statements {
            client.run(&statement)?;
        }
        Ok(())
    }
}

fn failed(error: BenchError) -> TxError {
    TxError::failed(error.in_one_line())
}

impl TpccEngine for Server {
    fn name(&self) -> String {
        "postgres".to_owned()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        let mut client = Client::connect(&self.address, PATIENCE).map_err(failed)?;
        let mut waiting: Vec<String> = vec![String::new(); TableName::ALL.len()];
        let mut hand_over = |table: TableName, lines: &mut String| -> Result<(), TxError> {
            let sql = format!("copy {table} from stdin");
            client.copy_in(&sql, lines.as_bytes()).map_err(failed)?;
            lines.clear();
            Ok(())
        };
        for row in part {
            let table = row.table();
            let lines = &mut waiting[table as usize];
            rows::write(&row, lines);
            if lines.len() >= PIECE_BYTES {
                hand_over(table, lines)?;
            }
        }
        for (table, lines) in TableName::ALL.into_iter().zip(&mut waiting) {
            if !lines.is_empty() {
                hand_over(table, lines)?;
            }
        }
        Ok(())
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(Terminal {
            session: Session::new(&self.address)?,
        }))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        let mut client = Client::connect(&self.address, PATIENCE).map_err(failed)?;
        let mut wrong = None;
        let sql = format!("select * from {table}");
        let shown = client.each_row(&sql, |row| {
            match rows::read(table, row) {
                Ok(row) => each(&row),
                Err(error) => wrong = wrong.take().or(Some(error)),
            }
            Ok(())
        });
        shown.map_err(failed)?;
        wrong.map_or(Ok(()), Err)
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// One terminal.
struct Terminal {
    session: Session,
}

impl TpccClient for Terminal {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        self.session
            .transaction(|session| transactions::new_order(session, input))
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.session
            .transaction(|session| Ok((transactions::payment(session, input)?, true)))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        self.session
            .transaction(|session| Ok((transactions::order_status(session, input)?, true)))
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        self.session
            .transaction(|session| Ok((transactions::delivery(session, input)?, true)))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        transactions::stock_level(&mut self.session, input)
    }
}
