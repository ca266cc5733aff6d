//! [`Tpcc`]: the five transactions of TPC-C as SQL.
//!
//! Each statement is prepared once a connection. Nothing is read that the terminal does not show and no rule needs.

use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::kv::End;
use corun_workloads::text::Text;
use corun_workloads::tpcc::row::Address;
use corun_workloads::tpcc::{
    CustomerBy, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer, OrderStatus,
    OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, Row, StockLevel, StockLevelAnswer, TableName,
    bad_credit_data, history_data, is_original, stock_after, total_amount,
};

use super::tpcc_rows::{self, Inserts};
use super::{Client, Columns, Engine, Prepare, Statement, bind, schema, statements};

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
pub struct Statements<S> {
    simple: Simple<S>,
    /// Stock as a district sees it; the first for district 1.
    stock: Vec<S>,
    insert: Inserts<S>,
    /// All rows of each table.
    all: Vec<(TableName, S)>,
}

impl<S> Prepare<S> for Statements<S> {
    fn prepare(prepare: &mut dyn FnMut(&str) -> Result<S, TxError>) -> Result<Self, TxError> {
        Ok(Self {
            simple: Simple::prepare(prepare)?,
            stock: (1..=10)
                .map(|district| {
                    prepare(&format!(
                        "select s_quantity, s_data, s_dist_{district:02} from stock where s = ?1"
                    ))
                })
                .collect::<Result<_, _>>()?,
            insert: Inserts::prepare(prepare)?,
            all: TableName::ALL
                .into_iter()
                .map(|table| Ok((table, prepare(&format!("select * from {table}"))?)))
                .collect::<Result<_, TxError>>()?,
        })
    }
}

/// Five columns from `first` on.
pub(super) fn address(row: &impl Columns, first: usize) -> Result<Address, TxError> {
    Ok(Address {
        street_1: row.text(first)?,
        street_2: row.text(first + 1)?,
        city: row.text(first + 2)?,
        state: row.text(first + 3)?,
        zip: row.text(first + 4)?,
    })
}

/// The key of the customer that is meant.
fn customer_key<S: Statement>(sql: &mut Simple<S>, w: i16, d: i8, by: &CustomerBy) -> Result<i64, TxError> {
    let last = match by {
        CustomerBy::Id(id) => return Ok(schema::in_district(w, d, *id)),
        CustomerBy::LastName(last) => last,
    };
    let mut keys: Vec<i64> = Vec::with_capacity(8);
    sql.customer_named
        .each(bind![schema::district(w, d), last.as_str()], |row| {
            keys.push(row.get(0)?);
            Ok(())
        })?;
    match keys.len() {
        0 => Err(TxError::Failed(format!(
            "sql: no customer {last} in warehouse {w}, district {d}"
        ))),
        n => Ok(keys[n.div_ceil(2) - 1]),
    }
}

fn new_order<S: Statement>(
    sql: &mut Statements<S>,
    input: &NewOrder,
) -> Result<(NewOrderAnswer, End), TxError> {
    let Statements {
        simple,
        stock,
        insert,
        ..
    } = sql;
    let (w, d) = (input.warehouse, input.district);
    let district = schema::district(w, d);
    let mut answer = NewOrderAnswer {
        lines: Vec::with_capacity(input.lines.len()),
        ..Default::default()
    };
    answer.warehouse_tax = simple.warehouse.one(bind![w], |row| row.get(0))?;
    (answer.order, answer.district_tax) = simple
        .district
        .one(bind![district], |row| Ok((row.get(0)?, row.get(1)?)))?;
    simple.district_next.execute(bind![district])?;
    let customer = schema::in_district(w, d, input.customer);
    (
        answer.customer_discount,
        answer.customer_credit,
        answer.customer_last,
    ) = simple.customer.one(bind![customer], |row| {
        Ok((row.get(0)?, row.text(1)?, row.text(2)?))
    })?;

    let order = schema::in_district(w, d, answer.order);
    insert.orders.execute(bind![
        order,
        customer,
        None::<i8>,
        input.lines.len() as i64,
        input.all_local(),
        input.now,
    ])?;
    insert.new_order.execute(bind![order])?;
    let stock = stock
        .get_mut(usize::from(d as u8).wrapping_sub(1))
        .ok_or_else(|| TxError::Failed(format!("sql: there is no district {d}")))?;
    let mut sum = 0;
    for (number, line) in input.lines.iter().enumerate() {
        let item = simple.item.find(bind![line.item], |row| {
            Ok((row.get::<i64>(0)?, row.text::<24>(1)?, is_original(row.bytes(2)?)))
        })?;
        let Some((price, name, original_item)) = item else {
            answer.rolled_back = true;
            answer.lines.clear();
            return Ok((answer, End::RollBack));
        };
        let key = schema::stock(line.supply_warehouse, line.item);
        let (quantity, original_stock, district_info) = stock.one(bind![key], |row| {
            Ok((row.get::<i32>(0)?, is_original(row.bytes(1)?), row.text::<24>(2)?))
        })?;
        let left = stock_after(quantity, line.quantity);
        simple
            .stock_take
            .execute(bind![key, left, line.quantity, line.supply_warehouse != w])?;
        let amount = price * i64::from(line.quantity);
        insert.order_line.execute(bind![
            schema::lines(order).0 + number as i64 + 1,
            line.item,
            line.supply_warehouse,
            line.quantity,
            amount,
            None::<i64>,
            district_info.as_str(),
        ])?;
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

fn payment<S: Statement>(sql: &mut Statements<S>, input: &Payment) -> Result<(PaymentAnswer, End), TxError> {
    let Statements { simple, insert, .. } = sql;
    let customer = customer_key(
        simple,
        input.customer_warehouse,
        input.customer_district,
        &input.customer,
    )?;
    let (w, d) = (input.warehouse, schema::district(input.warehouse, input.district));
    let mut answer = PaymentAnswer {
        customer: customer as i32,
        ..Default::default()
    };
    simple.warehouse_pay.execute(bind![w, input.amount])?;
    let warehouse_name: Text<10>;
    (warehouse_name, answer.warehouse_address) = simple
        .warehouse_show
        .one(bind![w], |row| Ok((row.text(0)?, address(row, 1)?)))?;
    simple.district_pay.execute(bind![d, input.amount])?;
    let district_name: Text<10>;
    (district_name, answer.district_address) = simple
        .district_show
        .one(bind![d], |row| Ok((row.text(0)?, address(row, 1)?)))?;
    simple.customer_show.one(bind![customer], |row| {
        answer.first = row.text(0)?;
        answer.middle = row.text(1)?;
        answer.last = row.text(2)?;
        answer.address = address(row, 3)?;
        answer.phone = row.text(8)?;
        answer.since = row.get(9)?;
        answer.credit = row.text(10)?;
        answer.credit_limit = row.get(11)?;
        answer.discount = row.get(12)?;
        answer.balance = row.get::<i64>(13)? - input.amount;
        Ok(())
    })?;
    if answer.credit == "BC" {
        let data = simple.customer_data.one(bind![customer], |row| {
            let old = std::str::from_utf8(row.bytes(0)?)
                .map_err(|error| TxError::Failed(format!("sql: the data of customer {customer}: {error}")))?;
            Ok(bad_credit_data(input, customer as i32, old))
        })?;
        simple
            .customer_pay_data
            .execute(bind![customer, input.amount, data.as_str()])?;
        answer.data = Text::cut(data.as_str());
    } else {
        simple.customer_pay.execute(bind![customer, input.amount])?;
    }
    let data = history_data(warehouse_name.as_str(), district_name.as_str());
    insert.history.execute(bind![
        None::<i64>,
        customer,
        d,
        input.now,
        input.amount,
        data.as_str()
    ])?;
    Ok((answer, End::Commit))
}

fn order_status<S: Statement>(
    sql: &mut Simple<S>,
    input: &OrderStatus,
) -> Result<OrderStatusAnswer, TxError> {
    let customer = customer_key(sql, input.warehouse, input.district, &input.customer)?;
    let mut answer = OrderStatusAnswer {
        customer: customer as i32,
        ..Default::default()
    };
    sql.customer_status.one(bind![customer], |row| {
        answer.first = row.text(0)?;
        answer.middle = row.text(1)?;
        answer.last = row.text(2)?;
        answer.balance = row.get(3)?;
        Ok(())
    })?;
    let order: i64;
    (order, answer.entry, answer.carrier) = sql.order_last.one(bind![customer], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get_or_null(2)?))
    })?;
    answer.order = order as i32;
    let (first, last) = schema::lines(order);
    sql.lines.each(bind![first, last], |row| {
        answer.lines.push(OrderStatusLine {
            supply_warehouse: row.get(0)?,
            item: row.get(1)?,
            quantity: row.get(2)?,
            amount: row.get(3)?,
            delivery: row.get_or_null(4)?,
        });
        Ok(())
    })?;
    Ok(answer)
}

fn delivery<S: Statement>(sql: &mut Simple<S>, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
    let mut answer = DeliveryAnswer::default();
    for (d, delivered) in (1..).zip(&mut answer.orders) {
        let first = schema::in_district(input.warehouse, d, 0);
        let last = schema::in_district(input.warehouse, d, i32::MAX);
        let oldest = sql.oldest.find(bind![first, last], |row| row.get::<i64>(0))?;
        let Some(order) = oldest else { continue };
        sql.oldest_delete.execute(bind![order])?;
        let customer: i64 = sql.order_customer.one(bind![order], |row| row.get(0))?;
        sql.order_deliver.execute(bind![order, input.carrier])?;
        let (from, to) = schema::lines(order);
        let sum: i64 = sql.lines_sum.one(bind![from, to], |row| row.get(0))?;
        sql.lines_deliver.execute(bind![from, to, input.now])?;
        sql.customer_deliver.execute(bind![customer, sum])?;
        *delivered = Some(order as i32);
    }
    Ok(answer)
}

fn stock_level<S: Statement>(sql: &mut Simple<S>, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
    let (w, d) = (input.warehouse, input.district);
    let next: i32 = sql
        .district
        .one(bind![schema::district(w, d)], |row| row.get(0))?;
    let first = schema::lines(schema::in_district(w, d, (next - 20).max(0))).0;
    let last = schema::lines(schema::in_district(w, d, next - 1)).1;
    let low_stock = sql
        .low_stock
        .one(bind![first, last, schema::stock(w, 0), input.threshold], |row| {
            row.get(0)
        })?;
    Ok(StockLevelAnswer { low_stock })
}

/// TPC-C on an engine whose statements are `S`.
pub struct Tpcc<S>(Box<dyn Engine<Statements<S>>>);

impl<S> Tpcc<S> {
    /// On an empty database that has the tables of [`schema::TPCC`] and [`schema::TPCC_INDEXES`].
    pub fn new(engine: impl Engine<Statements<S>> + 'static) -> Self {
        Self(Box::new(engine))
    }
}

impl<S: Statement + 'static> TpccEngine for Tpcc<S> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = Row>) -> Result<(), TxError> {
        super::load(&*self.0, part, |sql, row| sql.insert.row(&row))
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn TpccClient + '_>, TxError> {
        Ok(Box::new(Client(self.0.client()?)))
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&Row)) -> Result<(), TxError> {
        Client(self.0.loader()).read_one(|sql| {
            let all = sql.all.iter_mut().find(|(name, _)| *name == table);
            let (_, all) = all.ok_or_else(|| TxError::Failed(format!("sql: there is no table {table}")))?;
            all.each(&[], |row| {
                each(&tpcc_rows::row(table, row)?);
                Ok(())
            })
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.0.bytes()
    }
}

impl<S: Statement> TpccClient for Client<'_, Statements<S>> {
    fn new_order(&mut self, input: &NewOrder) -> Result<NewOrderAnswer, TxError> {
        self.write(|sql| new_order(sql, input))
    }

    fn payment(&mut self, input: &Payment) -> Result<PaymentAnswer, TxError> {
        self.write(|sql| payment(sql, input))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
        self.read(|sql| order_status(&mut sql.simple, input))
    }

    fn delivery(&mut self, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
        self.write(|sql| Ok((delivery(&mut sql.simple, input)?, End::Commit)))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
        self.read(|sql| stock_level(&mut sql.simple, input))
    }
}
