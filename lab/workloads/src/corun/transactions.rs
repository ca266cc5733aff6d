//! The five transactions as calls of the store; New Order has its own file.
//!
//! Every transaction locks in the order customer, item, stocks by their keys, district, warehouse: hot rows last, so that
//! they are held shortest, and in one order, so that deadlocks are rare (the specification leaves the order of a
//! transaction's steps open). New Order reads the warehouse after it has written everything: a lock on it any earlier, with
//! the district's still to come, would be the other half of a deadlock with Payment.

use corun_store::{Direction, Found, Lock, RowRef, Snapshot, Transaction, Value};

use super::rows::{Filler, field};
use super::schema::{Buffers, Keyed, Tables};
use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::columns::ColumnWriter;
use crate::tpcc::row::{Customer, District, History, NewOrder, Order, OrderLine, Stock, Warehouse};
use crate::tpcc::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, OrderStatus, OrderStatusAnswer, OrderStatusLine,
    Payment, PaymentAnswer, StockLevel, StockLevelAnswer, bad_credit_data, history_data,
};

/// The error where a row that must be there is not.
pub(super) fn missing(keyed: &Keyed, key: &[Value<'_>]) -> TxError {
    TxError::failed(format!("no {} has the key {key:?}", keyed.table.name()))
}

/// A row that must be there, locked.
pub(super) fn fetch<'t>(
    transaction: &'t Transaction<'_>,
    keyed: &'t Keyed,
    key: &[Value<'_>],
    lock: Lock,
) -> Result<Found<'t>, TxError> {
    let found = match lock {
        Lock::Shared => transaction.fetch(&keyed.primary, key)?,
        Lock::Exclusive => transaction.fetch_for_update(&keyed.primary, key)?,
    };
    found.ok_or_else(|| missing(keyed, key))
}

/// A row of a snapshot that must be there.
fn look<'a>(snapshot: &'a Snapshot, keyed: &'a Keyed, key: &[Value<'_>]) -> Result<RowRef<'a>, TxError> {
    let found = snapshot.fetch(&keyed.primary, key)?;
    found.map(|found| found.row).ok_or_else(|| missing(keyed, key))
}

/// Of the customers with one last name, the one that is meant (clause 2.5.2.2).
fn middle<'a>(mut found: Vec<Found<'a>>, last: &Text<16>) -> Result<Found<'a>, TxError> {
    let order = |found: &Found<'a>| {
        (
            found.row.bytes(Customer::COLUMN.first),
            found.row.int(Customer::COLUMN.id),
        )
    };
    found.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
    let at = found.len().div_ceil(2).checked_sub(1);
    at.and_then(|at| found.get(at).copied())
        .ok_or_else(|| TxError::failed(format!("no customer is called {last}")))
}

/// Clause 2.5.2.
pub(super) fn payment(
    transaction: Transaction<'_>,
    tables: &Tables,
    buffers: &mut Buffers,
    input: &Payment,
    history: i64,
) -> Result<PaymentAnswer, TxError> {
    let home: [Value<'_>; 2] = [input.customer_warehouse.into(), input.customer_district.into()];
    let payer = match &input.customer {
        CustomerBy::Id(id) => {
            let key = [home[0], home[1], (*id).into()];
            fetch(&transaction, &tables.customer, &key, Lock::Exclusive)?
        }
        CustomerBy::LastName(last) => {
            // All of that name are locked exclusively at once: shared first would be how deadlocks begin.
            let index = &tables.customer_by_name;
            let range = index.prefix(&[home[0], home[1], last.as_str().into()])?;
            let mut scan = transaction.scan(index, &range, Direction::Ascending, Lock::Exclusive)?;
            let mut found = Vec::with_capacity(8);
            while let Some(next) = scan.next()? {
                found.push(next);
            }
            middle(found, last)?
        }
    };
    let row = payer.row;
    let id: i32 = field(row, Customer::COLUMN.id)?;
    let balance = row.int(Customer::COLUMN.balance) - input.amount;
    let credit: Text<2> = field(row, Customer::COLUMN.credit)?;
    let data = (credit == "BC").then(|| bad_credit_data(input, id, row.text(Customer::COLUMN.data)));
    transaction.update(&tables.customer.table, payer.rid, |to| {
        to.set(Customer::COLUMN.balance, balance)?;
        to.set(
            Customer::COLUMN.ytd_payment,
            row.int(Customer::COLUMN.ytd_payment) + input.amount,
        )?;
        to.set(Customer::COLUMN.payments, row.int(Customer::COLUMN.payments) + 1)?;
        match &data {
            Some(data) => to.set(Customer::COLUMN.data, data.as_str()),
            None => Ok(()),
        }
    })?;

    let place: [Value<'_>; 2] = [input.warehouse.into(), input.district.into()];
    let found = fetch(&transaction, &tables.district, &place, Lock::Exclusive)?;
    let at_district = found.row;
    transaction.update(&tables.district.table, found.rid, |to| {
        to.set(
            District::COLUMN.ytd,
            at_district.int(District::COLUMN.ytd) + input.amount,
        )
    })?;
    let found = fetch(&transaction, &tables.warehouse, &place[..1], Lock::Exclusive)?;
    let at_warehouse = found.row;
    transaction.update(&tables.warehouse.table, found.rid, |to| {
        to.set(
            Warehouse::COLUMN.ytd,
            at_warehouse.int(Warehouse::COLUMN.ytd) + input.amount,
        )
    })?;

    let paid = History {
        customer_warehouse: input.customer_warehouse,
        customer_district: input.customer_district,
        customer: id,
        warehouse: input.warehouse,
        district: input.district,
        date: input.now,
        amount: input.amount,
        data: history_data(
            at_warehouse.text(Warehouse::COLUMN.name),
            at_district.text(District::COLUMN.name),
        ),
    };
    let mut to = Filler::new(&mut buffers.history);
    to.integer(history)?;
    paid.write(&mut to)?;
    transaction.insert(&tables.history.table, &buffers.history)?;
    let answer = PaymentAnswer {
        warehouse_address: field(at_warehouse, Warehouse::COLUMN.address)?,
        district_address: field(at_district, District::COLUMN.address)?,
        customer: id,
        first: field(row, Customer::COLUMN.first)?,
        middle: field(row, Customer::COLUMN.middle)?,
        last: field(row, Customer::COLUMN.last)?,
        address: field(row, Customer::COLUMN.address)?,
        phone: field(row, Customer::COLUMN.phone)?,
        since: row.int(Customer::COLUMN.since),
        credit,
        credit_limit: row.int(Customer::COLUMN.credit_limit),
        discount: field(row, Customer::COLUMN.discount)?,
        balance,
        data: data.map_or(Text::default(), |data| Text::cut(data.as_str())),
    };
    transaction.commit()?;
    Ok(answer)
}

/// Clause 2.6.2.
pub(super) fn order_status(
    snapshot: &Snapshot,
    tables: &Tables,
    input: &OrderStatus,
) -> Result<OrderStatusAnswer, TxError> {
    let place: [Value<'_>; 2] = [input.warehouse.into(), input.district.into()];
    let who = match &input.customer {
        CustomerBy::Id(id) => look(snapshot, &tables.customer, &[place[0], place[1], (*id).into()])?,
        CustomerBy::LastName(last) => {
            let index = &tables.customer_by_name;
            let range = index.prefix(&[place[0], place[1], last.as_str().into()])?;
            middle(
                snapshot.scan(index, &range, Direction::Ascending)?.collect(),
                last,
            )?
            .row
        }
    };
    let id: i32 = field(who, Customer::COLUMN.id)?;
    let index = &tables.orders_by_customer;
    let range = index.prefix(&[place[0], place[1], id.into()])?;
    let last = snapshot.scan(index, &range, Direction::Descending)?.next();
    let order = last
        .ok_or_else(|| TxError::failed(format!("customer {id} has no order")))?
        .row;
    let number: i32 = field(order, Order::COLUMN.id)?;
    let mut answer = OrderStatusAnswer {
        customer: id,
        first: field(who, Customer::COLUMN.first)?,
        middle: field(who, Customer::COLUMN.middle)?,
        last: field(who, Customer::COLUMN.last)?,
        balance: who.int(Customer::COLUMN.balance),
        order: number,
        entry: order.int(Order::COLUMN.entry),
        carrier: field(order, Order::COLUMN.carrier)?,
        lines: Vec::with_capacity(field::<i8>(order, Order::COLUMN.lines)?.max(0) as usize),
    };
    let range = tables
        .order_line
        .primary
        .prefix(&[place[0], place[1], number.into()])?;
    for found in snapshot.scan(&tables.order_line.primary, &range, Direction::Ascending)? {
        answer.lines.push(OrderStatusLine {
            supply_warehouse: field(found.row, OrderLine::COLUMN.supply_warehouse)?,
            item: field(found.row, OrderLine::COLUMN.item)?,
            quantity: field(found.row, OrderLine::COLUMN.quantity)?,
            amount: found.row.int(OrderLine::COLUMN.amount),
            delivery: field(found.row, OrderLine::COLUMN.delivery)?,
        });
    }
    Ok(answer)
}

/// Clause 2.7.4.
pub(super) fn delivery(
    transaction: Transaction<'_>,
    tables: &Tables,
    input: &Delivery,
) -> Result<DeliveryAnswer, TxError> {
    let mut answer = DeliveryAnswer::default();
    for district in 1..=DISTRICTS {
        answer.orders[district as usize - 1] = deliver(&transaction, tables, input, district)?;
    }
    transaction.commit()?;
    Ok(answer)
}

/// Delivers the oldest order of one district, if any waits.
fn deliver(
    transaction: &Transaction<'_>,
    tables: &Tables,
    input: &Delivery,
    district: i8,
) -> Result<Option<i32>, TxError> {
    let place: [Value<'_>; 2] = [input.warehouse.into(), district.into()];
    let index = &tables.new_order.primary;
    let oldest = transaction.first(
        index,
        &index.prefix(&place)?,
        Direction::Ascending,
        Lock::Exclusive,
    )?;
    let Some(oldest) = oldest else {
        return Ok(None);
    };
    let number: i32 = field(oldest.row, NewOrder::COLUMN.order)?;
    transaction.delete(&tables.new_order.table, oldest.rid)?;

    let key = [place[0], place[1], number.into()];
    let order = fetch(transaction, &tables.orders, &key, Lock::Exclusive)?;
    transaction.update(&tables.orders.table, order.rid, |to| {
        to.set(Order::COLUMN.carrier, input.carrier)
    })?;

    let index = &tables.order_line.primary;
    let mut amount = 0;
    let mut scan = transaction.scan(index, &index.prefix(&key)?, Direction::Ascending, Lock::Exclusive)?;
    while let Some(found) = scan.next()? {
        amount += found.row.int(OrderLine::COLUMN.amount);
        transaction.update(&tables.order_line.table, found.rid, |to| {
            to.set(OrderLine::COLUMN.delivery, input.now)
        })?;
    }

    let key = [place[0], place[1], order.row.int(Order::COLUMN.customer).into()];
    let buyer = fetch(transaction, &tables.customer, &key, Lock::Exclusive)?;
    let row = buyer.row;
    transaction.update(&tables.customer.table, buyer.rid, |to| {
        to.set(
            Customer::COLUMN.balance,
            row.int(Customer::COLUMN.balance) + amount,
        )?;
        to.set(
            Customer::COLUMN.deliveries,
            row.int(Customer::COLUMN.deliveries) + 1,
        )
    })?;
    Ok(Some(number))
}

/// Clause 2.8.2.
pub(super) fn stock_level(
    snapshot: &Snapshot,
    tables: &Tables,
    input: &StockLevel,
) -> Result<StockLevelAnswer, TxError> {
    use std::ops::Bound::{Excluded, Included};
    let place: [Value<'_>; 2] = [input.warehouse.into(), input.district.into()];
    let next = look(snapshot, &tables.district, &place)?.int(District::COLUMN.next_order);
    let index = &tables.order_line.primary;
    let range = index.between(&place, Included((next - 20).into()), Excluded(next.into()))?;
    let mut items: Vec<i32> = Vec::with_capacity(300);
    for found in snapshot.scan(index, &range, Direction::Ascending)? {
        items.push(field(found.row, OrderLine::COLUMN.item)?);
    }
    items.sort_unstable();
    items.dedup();
    let mut answer = StockLevelAnswer::default();
    for item in items {
        let row = look(snapshot, &tables.stock, &[place[0], item.into()])?;
        answer.low_stock += i32::from(row.int(Stock::COLUMN.quantity) < i64::from(input.threshold));
    }
    Ok(answer)
}
