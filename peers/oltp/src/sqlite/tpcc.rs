//! [`Tpcc`]: the five transactions of TPC-C as SQL.
//!
//! Each statement is prepared once a connection. Nothing is read that the terminal does not show and no rule needs.

use std::path::Path;

use corun_workloads::engine::{Durability, TpccClient, TpccEngine, TxError};
use corun_workloads::kv::End;
use corun_workloads::text::Text;
use corun_workloads::tpcc::row::Address;
use corun_workloads::tpcc::{
    CustomerBy, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer, OrderStatus,
    OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
    bad_credit_data, history_data, is_original, stock_after, total_amount,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement};

use super::session::{Prepare, statements, tx_error};
use super::tpcc_rows::{self, Inserts};
use super::{Client, Layout, Sqlite, schema};

statements! {
    /// Those of the transactions.
    Simple {
        warehouse = "select w_tax from warehouse where w = ?1";
        warehouse_pay = "update warehouse set w_ytd = w_ytd + ?2 where w = ?1";
        warehouse_show = "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip from warehouse where w = ?1";
        district = "select d_next_o_id, d_tax from district where d = ?1";
        district_next = "update district set d_next_o_id = d_next_o_id + 1 where d = ?1";
        district_pay = "update district set d_ytd = d_ytd + ?2 where d = ?1";
        district_show = "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip from district where d = ?1";
        customer = "select c_discount, c_credit, c_last from customer where c = ?1";
        customer_named = "select c from customer where c_d = ?1 and c_last = ?2 order by c_first, c";
        customer_show = "select c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
            c_credit, c_credit_lim, c_discount, c_balance from customer where c = ?1";
        customer_data = "select c_data from customer where c = ?1";
        customer_pay = "update customer set c_balance = c_balance - ?2, c_ytd_payment = c_ytd_payment + ?2,
            c_payment_cnt = c_payment_cnt + 1 where c = ?1";
        customer_pay_data = "update customer set c_balance = c_balance - ?2, c_ytd_payment = c_ytd_payment + ?2,
            c_payment_cnt = c_payment_cnt + 1, c_data = ?3 where c = ?1";
        customer_status = "select c_first, c_middle, c_last, c_balance from customer where c = ?1";
        customer_deliver = "update customer set c_balance = c_balance + ?2, c_delivery_cnt = c_delivery_cnt + 1 where c = ?1";
        item = "select i_price, i_name, i_data from item where i = ?1";
        stock_take = "update stock set s_quantity = ?2, s_ytd = s_ytd + ?3, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + ?4 where s = ?1";
        order_last = "select o, o_entry_d, o_carrier_id from orders where o_c = ?1 order by o desc limit 1";
        order_customer = "select o_c from orders where o = ?1";
        order_deliver = "update orders set o_carrier_id = ?2 where o = ?1";
        lines = "select ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d from order_line
            where ol between ?1 and ?2 order by ol";
        lines_sum = "select sum(ol_amount) from order_line where ol between ?1 and ?2";
        lines_deliver = "update order_line set ol_delivery_d = ?3 where ol between ?1 and ?2";
        oldest = "select o from new_order where o between ?1 and ?2 order by o limit 1";
        oldest_delete = "delete from new_order where o = ?1";
        low_stock = "select count(distinct ol_i_id) from order_line cross join stock
            where ol between ?1 and ?2 and s = ?3 + ol_i_id and s_quantity < ?4";
    }
}

/// All statements of TPC-C.
pub struct Statements {
    simple: Simple,
    /// Stock as a district sees it; the first for district 1.
    stock: Vec<Statement<'static>>,
    insert: Inserts,
}

impl Prepare for Statements {
    fn prepare(connection: &'static Connection) -> rusqlite::Result<Self> {
        let stock = |district| {
            connection.prepare(&format!(
                "select s_quantity, s_data, s_dist_{district:02} from stock where s = ?1"
            ))
        };
        Ok(Self {
            simple: Simple::prepare(connection)?,
            stock: (1..=10).map(stock).collect::<Result<_, _>>()?,
            insert: Inserts::prepare(connection)?,
        })
    }
}

/// A column's text.
pub(super) fn text<const MAX: usize>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Text<MAX>> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    Text::from_bytes(bytes)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// Five columns from `first` on.
pub(super) fn address(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<Address> {
    Ok(Address {
        street_1: text(row, first)?,
        street_2: text(row, first + 1)?,
        city: text(row, first + 2)?,
        state: text(row, first + 3)?,
        zip: text(row, first + 4)?,
    })
}

/// The key of the customer that is meant.
fn customer_key(sql: &mut Simple, w: i16, d: i8, by: &CustomerBy) -> Result<i64, TxError> {
    let last = match by {
        CustomerBy::Id(id) => return Ok(schema::in_district(w, d, *id)),
        CustomerBy::LastName(last) => last,
    };
    let mut keys = Vec::with_capacity(8);
    let mut rows = sql
        .customer_named
        .query((schema::district(w, d), last.as_str()))
        .map_err(tx_error)?;
    while let Some(row) = rows.next().map_err(tx_error)? {
        keys.push(row.get::<_, i64>(0).map_err(tx_error)?);
    }
    match keys.len() {
        0 => Err(TxError::Failed(format!(
            "sqlite: no customer {last} in warehouse {w}, district {d}"
        ))),
        n => Ok(keys[n.div_ceil(2) - 1]),
    }
}

fn new_order(sql: &mut Statements, input: &NewOrder) -> rusqlite::Result<(NewOrderAnswer, End)> {
    let Statements {
        simple,
        stock,
        insert,
    } = sql;
    let (w, d) = (input.warehouse, input.district);
    let district = schema::district(w, d);
    let mut answer = NewOrderAnswer {
        lines: Vec::with_capacity(input.lines.len()),
        ..Default::default()
    };
    answer.warehouse_tax = simple.warehouse.query_row((w,), |row| row.get(0))?;
    (answer.order, answer.district_tax) = simple
        .district
        .query_row((district,), |row| Ok((row.get(0)?, row.get(1)?)))?;
    simple.district_next.execute((district,))?;
    let customer = schema::in_district(w, d, input.customer);
    (
        answer.customer_discount,
        answer.customer_credit,
        answer.customer_last,
    ) = simple
        .customer
        .query_row((customer,), |row| Ok((row.get(0)?, text(row, 1)?, text(row, 2)?)))?;

    let order = schema::in_district(w, d, answer.order);
    insert.orders.execute((
        order,
        customer,
        None::<i8>,
        input.lines.len() as i64,
        input.all_local(),
        input.now,
    ))?;
    insert.new_order.execute((order,))?;
    let stock = stock
        .get_mut(usize::from(d as u8).wrapping_sub(1))
        .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let mut sum = 0;
    for (number, line) in input.lines.iter().enumerate() {
        let item = simple
            .item
            .query_row((line.item,), |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    text::<24>(row, 1)?,
                    is_original(row.get_ref(2)?.as_bytes()?),
                ))
            })
            .optional()?;
        let Some((price, name, original_item)) = item else {
            answer.rolled_back = true;
            answer.lines.clear();
            return Ok((answer, End::RollBack));
        };
        let key = schema::stock(line.supply_warehouse, line.item);
        let (quantity, original_stock, district_info) = stock.query_row((key,), |row| {
            Ok((
                row.get::<_, i32>(0)?,
                is_original(row.get_ref(1)?.as_bytes()?),
                text::<24>(row, 2)?,
            ))
        })?;
        let left = stock_after(quantity, line.quantity);
        simple
            .stock_take
            .execute((key, left, line.quantity, line.supply_warehouse != w))?;
        let amount = price * i64::from(line.quantity);
        insert.order_line.execute((
            schema::lines(order).0 + number as i64 + 1,
            line.item,
            line.supply_warehouse,
            line.quantity,
            amount,
            None::<i64>,
            district_info.as_str(),
        ))?;
        sum += amount;
        answer.lines.push(NewOrderLineAnswer {
            supply_warehouse: line.supply_warehouse,
            item: line.item,
            item_name: name,
            quantity: line.quantity,
            stock_quantity: left,
            brand: original_item && original_stock,
            price,
            amount,
        });
    }
    answer.total_amount = total_amount(
        sum,
        answer.customer_discount,
        answer.warehouse_tax,
        answer.district_tax,
    );
    Ok((answer, End::Commit))
}

fn payment(sql: &mut Statements, input: &Payment) -> Result<(PaymentAnswer, End), TxError> {
    let Statements { simple, insert, .. } = sql;
    let customer = customer_key(
        simple,
        input.customer_warehouse,
        input.customer_district,
        &input.customer,
    )?;
    let mut run = || {
        let (w, d) = (input.warehouse, schema::district(input.warehouse, input.district));
        let mut answer = PaymentAnswer {
            customer: customer as i32,
            ..Default::default()
        };
        simple.warehouse_pay.execute((w, input.amount))?;
        let warehouse_name: Text<10>;
        (warehouse_name, answer.warehouse_address) = simple
            .warehouse_show
            .query_row((w,), |row| Ok((text(row, 0)?, address(row, 1)?)))?;
        simple.district_pay.execute((d, input.amount))?;
        let district_name: Text<10>;
        (district_name, answer.district_address) = simple
            .district_show
            .query_row((d,), |row| Ok((text(row, 0)?, address(row, 1)?)))?;
        simple.customer_show.query_row((customer,), |row| {
            answer.first = text(row, 0)?;
            answer.middle = text(row, 1)?;
            answer.last = text(row, 2)?;
            answer.address = address(row, 3)?;
            answer.phone = text(row, 8)?;
            answer.since = row.get(9)?;
            answer.credit = text(row, 10)?;
            answer.credit_limit = row.get(11)?;
            answer.discount = row.get(12)?;
            answer.balance = row.get::<_, i64>(13)? - input.amount;
            Ok(())
        })?;
        if answer.credit == "BC" {
            let data = simple.customer_data.query_row((customer,), |row| {
                Ok(bad_credit_data(input, customer as i32, row.get_ref(0)?.as_str()?))
            })?;
            simple
                .customer_pay_data
                .execute((customer, input.amount, data.as_str()))?;
            answer.data = Text::cut(data.as_str());
        } else {
            simple.customer_pay.execute((customer, input.amount))?;
        }
        let data = history_data(warehouse_name.as_str(), district_name.as_str());
        insert
            .history
            .execute((None::<i64>, customer, d, input.now, input.amount, data.as_str()))?;
        Ok((answer, End::Commit))
    };
    run().map_err(tx_error)
}

fn order_status(sql: &mut Statements, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
    let simple = &mut sql.simple;
    let customer = customer_key(simple, input.warehouse, input.district, &input.customer)?;
    let mut run = || {
        let mut answer = OrderStatusAnswer {
            customer: customer as i32,
            ..Default::default()
        };
        simple.customer_status.query_row((customer,), |row| {
            answer.first = text(row, 0)?;
            answer.middle = text(row, 1)?;
            answer.last = text(row, 2)?;
            answer.balance = row.get(3)?;
            Ok(())
        })?;
        let order: i64;
        (order, answer.entry, answer.carrier) = simple
            .order_last
            .query_row((customer,), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        answer.order = order as i32;
        let mut rows = simple.lines.query(schema::lines(order))?;
        while let Some(row) = rows.next()? {
            answer.lines.push(OrderStatusLine {
                supply_warehouse: row.get(0)?,
                item: row.get(1)?,
                quantity: row.get(2)?,
                amount: row.get(3)?,
                delivery: row.get(4)?,
            });
        }
        Ok(answer)
    };
    run().map_err(tx_error)
}

fn delivery(sql: &mut Simple, input: &Delivery) -> rusqlite::Result<DeliveryAnswer> {
    let mut answer = DeliveryAnswer::default();
    for (d, delivered) in (1..).zip(&mut answer.orders) {
        let first = schema::in_district(input.warehouse, d, 0);
        let last = schema::in_district(input.warehouse, d, i32::MAX);
        let oldest = sql
            .oldest
            .query_row((first, last), |row| row.get::<_, i64>(0))
            .optional()?;
        let Some(order) = oldest else { continue };
        sql.oldest_delete.execute((order,))?;
        let customer: i64 = sql.order_customer.query_row((order,), |row| row.get(0))?;
        sql.order_deliver.execute((order, input.carrier))?;
        let (from, to) = schema::lines(order);
        let sum: i64 = sql.lines_sum.query_row((from, to), |row| row.get(0))?;
        sql.lines_deliver.execute((from, to, input.now))?;
        sql.customer_deliver.execute((customer, sum))?;
        *delivered = Some(order as i32);
    }
    Ok(answer)
}

fn stock_level(sql: &mut Simple, input: &StockLevel) -> rusqlite::Result<StockLevelAnswer> {
    let (w, d) = (input.warehouse, input.district);
    let next: i32 = sql
        .district
        .query_row((schema::district(w, d),), |row| row.get(0))?;
    let first = schema::lines(schema::in_district(w, d, (next - 20).max(0))).0;
    let last = schema::lines(schema::in_district(w, d, next - 1)).1;
    let low_stock = sql
        .low_stock
        .query_row((first, last, schema::stock(w, 0), input.threshold), |row| {
            row.get(0)
        })?;
    Ok(StockLevelAnswer { low_stock })
}

/// SQLite running TPC-C.
pub struct Tpcc(Sqlite<Statements>);

impl Tpcc {
    /// Makes an empty database.
    ///
    /// # Errors
    /// SQLite's.
    pub fn create(folder: &Path, durability: Durability, layout: Layout) -> Result<Self, TxError> {
        Sqlite::create(
            folder,
            durability,
            layout,
            &[schema::TPCC, schema::TPCC_INDEXES].concat(),
        )
        .map(Self)
    }
}

impl TpccEngine for Tpcc {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        self.0
            .load_with(part, |sql, row| sql.insert.row(&row).map_err(tx_error))
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(self.0.connect()?))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        let writer = self.0.writer.lock();
        tpcc_rows::visit(writer.connection(), table, each).map_err(tx_error)
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.0.bytes()
    }
}

impl TpccClient for Client<'_, Statements> {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        self.write(|sql| new_order(sql, input).map_err(tx_error))
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.write(|sql| payment(sql, input))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        self.read(|sql| order_status(sql, input))
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        self.write(|sql| Ok((delivery(&mut sql.simple, input).map_err(tx_error)?, End::Commit)))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        self.read(|sql| stock_level(&mut sql.simple, input).map_err(tx_error))
    }
}
