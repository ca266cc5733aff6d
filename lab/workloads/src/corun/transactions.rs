//! The five transactions as calls of the store.
//!
//! Every transaction locks in the order customer, item, stocks by their keys, district, warehouse: hot rows last, so that
//! they are held shortest, and in one order, so that deadlocks are rare (the specification leaves the order of a
//! transaction's steps open). New Order reads the warehouse after it has written everything: a lock on it any earlier, with
//! the district's still to come, would be the other half of a deadlock with Payment.

use corun_store::{Direction, Found, Lock, RowRef, Snapshot, Transaction, Value};

use super::rows::{address, fill, int, int_or_null, text};
use super::schema::{
    Buffers, Keyed, Tables, customer, district, item, line, new_order as waiting, orders, stock, warehouse,
};
use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::row::{History, NewOrder as NewOrderRow, Order, OrderLine, Row};
use crate::tpcc::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer,
    OrderStatus, OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, StockLevel, StockLevelAnswer,
    bad_credit_data, history_data, is_original, stock_after, total_amount,
};

fn missing(keyed: &Keyed, key: &[Value<'_>]) -> TxError {
    TxError::failed(format!("no {} has the key {key:?}", keyed.table.name()))
}

/// A row that must be there, locked.
fn fetch<'t>(
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
    let order = |found: &Found<'a>| (found.row.bytes(customer::FIRST), found.row.int(customer::ID));
    found.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
    let at = found.len().div_ceil(2).checked_sub(1);
    at.and_then(|at| found.get(at).copied())
        .ok_or_else(|| TxError::failed(format!("no customer is called {last}")))
}

/// Clause 2.4.2.
pub(super) fn new_order(
    transaction: Transaction<'_>,
    tables: &Tables,
    buffers: &mut Buffers,
    input: &NewOrder,
) -> Result<NewOrderAnswer, TxError> {
    let place: [Value<'_>; 2] = [input.warehouse.into(), input.district.into()];
    let buyer = fetch(
        &transaction,
        &tables.customer,
        &[place[0], place[1], input.customer.into()],
        Lock::Shared,
    )?
    .row;
    let mut answer = NewOrderAnswer {
        customer_last: text(buyer, customer::LAST)?,
        customer_credit: text(buyer, customer::CREDIT)?,
        customer_discount: int(buyer, customer::DISCOUNT)?,
        ..NewOrderAnswer::default()
    };

    let mut by_stock: Vec<usize> = (0..input.lines.len()).collect();
    by_stock.sort_by_key(|&at| (input.lines[at].supply_warehouse, input.lines[at].item));
    let mut lines = vec![NewOrderLineAnswer::default(); input.lines.len()];
    let mut infos = vec![Text::<24>::default(); input.lines.len()];
    // All items, then all stocks: their rows lie anywhere in memory, and are waited for together.
    let keys: Vec<[Value<'_>; 1]> = by_stock.iter().map(|&at| [input.lines[at].item.into()]).collect();
    let solds = transaction.fetch_many(
        &tables.item.primary,
        keys.iter().map(|key| &key[..]),
        Lock::Shared,
    )?;
    answer.rolled_back = solds.iter().any(Option::is_none);
    let lines_and_items = by_stock.into_iter().zip(solds);
    let wanted: Vec<(usize, RowRef<'_>)> = lines_and_items
        .filter_map(|(at, sold)| sold.map(|sold| (at, sold.row)))
        .collect();
    let keys: Vec<[Value<'_>; 2]> = wanted
        .iter()
        .map(|&(at, _)| {
            let line = &input.lines[at];
            [line.supply_warehouse.into(), line.item.into()]
        })
        .collect();
    let stocks = transaction.fetch_many(
        &tables.stock.primary,
        keys.iter().map(|key| &key[..]),
        Lock::Exclusive,
    )?;
    for (((at, sold), held), key) in wanted.into_iter().zip(stocks).zip(&keys) {
        let wanted = input.lines[at];
        let held = held.ok_or_else(|| missing(&tables.stock, key))?;
        // Once more: an order may have one item in two lines.
        let row = transaction.get(&tables.stock.table, held.rid, Lock::Exclusive)?;
        let row = row.ok_or_else(|| missing(&tables.stock, key))?;
        let quantity = stock_after(int(row, stock::QUANTITY)?, wanted.quantity);
        let remote = i64::from(wanted.supply_warehouse != input.warehouse);
        transaction.update(&tables.stock.table, held.rid, |to| {
            to.set(stock::QUANTITY, quantity)?;
            to.set(stock::YTD, row.int(stock::YTD) + i64::from(wanted.quantity))?;
            to.set(stock::ORDERS, row.int(stock::ORDERS) + 1)?;
            to.set(stock::REMOTES, row.int(stock::REMOTES) + remote)
        })?;
        infos[at] = text(row, stock::DISTRICTS + input.district as usize - 1)?;
        let price = sold.int(item::PRICE);
        lines[at] = NewOrderLineAnswer {
            supply_warehouse: wanted.supply_warehouse,
            item: wanted.item,
            item_name: text(sold, item::NAME)?,
            quantity: wanted.quantity,
            stock_quantity: quantity,
            brand: is_original(sold.bytes(item::DATA)) && is_original(row.bytes(stock::DATA)),
            price,
            amount: price * i64::from(wanted.quantity),
        };
    }

    let found = fetch(&transaction, &tables.district, &place, Lock::Exclusive)?;
    answer.district_tax = int(found.row, district::TAX)?;
    answer.order = int(found.row, district::NEXT_ORDER)?;
    if !answer.rolled_back {
        let next = answer.order + 1;
        transaction.update(&tables.district.table, found.rid, |to| {
            to.set(district::NEXT_ORDER, next)
        })?;
        enter(
            &transaction,
            tables,
            buffers,
            input,
            answer.order,
            (&lines, &infos),
        )?;
    }
    let home = fetch(&transaction, &tables.warehouse, &place[..1], Lock::Shared)?.row;
    answer.warehouse_tax = int(home, warehouse::TAX)?;
    if answer.rolled_back {
        transaction.abort();
        return Ok(answer);
    }
    transaction.commit()?;
    let sum = lines.iter().map(|line| line.amount).sum();
    answer.total_amount = total_amount(
        sum,
        answer.customer_discount,
        answer.warehouse_tax,
        answer.district_tax,
    );
    answer.lines = lines;
    Ok(answer)
}

/// Inserts an order with its lines.
fn enter(
    transaction: &Transaction<'_>,
    tables: &Tables,
    buffers: &mut Buffers,
    input: &NewOrder,
    id: i32,
    (lines, infos): (&[NewOrderLineAnswer], &[Text<24>]),
) -> Result<(), TxError> {
    let (warehouse, district) = (input.warehouse, input.district);
    let order = Order {
        warehouse,
        district,
        id,
        customer: input.customer,
        entry: input.now,
        carrier: None,
        lines: lines.len() as i8,
        all_local: input.all_local(),
    };
    fill(&Row::Order(order), 0, &mut buffers.order)?;
    transaction.insert(&tables.orders.table, &buffers.order)?;
    let waits = NewOrderRow {
        warehouse,
        district,
        order: id,
    };
    fill(&Row::NewOrder(waits), 0, &mut buffers.new_order)?;
    transaction.insert(&tables.new_order.table, &buffers.new_order)?;
    for (at, (line, info)) in lines.iter().zip(infos).enumerate() {
        let row = OrderLine {
            warehouse,
            district,
            order: id,
            number: at as i8 + 1,
            item: line.item,
            supply_warehouse: line.supply_warehouse,
            delivery: None,
            quantity: line.quantity,
            amount: line.amount,
            district_info: *info,
        };
        fill(&Row::OrderLine(row), 0, &mut buffers.order_line)?;
        transaction.insert(&tables.order_line.table, &buffers.order_line)?;
    }
    Ok(())
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
    let id: i32 = int(row, customer::ID)?;
    let balance = row.int(customer::BALANCE) - input.amount;
    let credit: Text<2> = text(row, customer::CREDIT)?;
    let data = (credit == "BC").then(|| bad_credit_data(input, id, row.text(customer::DATA)));
    transaction.update(&tables.customer.table, payer.rid, |to| {
        to.set(customer::BALANCE, balance)?;
        to.set(
            customer::YTD_PAYMENT,
            row.int(customer::YTD_PAYMENT) + input.amount,
        )?;
        to.set(customer::PAYMENTS, row.int(customer::PAYMENTS) + 1)?;
        match &data {
            Some(data) => to.set(customer::DATA, data.as_str()),
            None => Ok(()),
        }
    })?;

    let place: [Value<'_>; 2] = [input.warehouse.into(), input.district.into()];
    let found = fetch(&transaction, &tables.district, &place, Lock::Exclusive)?;
    let at_district = found.row;
    transaction.update(&tables.district.table, found.rid, |to| {
        to.set(district::YTD, at_district.int(district::YTD) + input.amount)
    })?;
    let found = fetch(&transaction, &tables.warehouse, &place[..1], Lock::Exclusive)?;
    let at_warehouse = found.row;
    transaction.update(&tables.warehouse.table, found.rid, |to| {
        to.set(warehouse::YTD, at_warehouse.int(warehouse::YTD) + input.amount)
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
            at_warehouse.text(warehouse::NAME),
            at_district.text(district::NAME),
        ),
    };
    fill(&Row::History(paid), history, &mut buffers.history)?;
    transaction.insert(&tables.history.table, &buffers.history)?;
    let answer = PaymentAnswer {
        warehouse_address: address(at_warehouse, warehouse::ADDRESS)?,
        district_address: address(at_district, district::ADDRESS)?,
        customer: id,
        first: text(row, customer::FIRST)?,
        middle: text(row, customer::MIDDLE)?,
        last: text(row, customer::LAST)?,
        address: address(row, customer::ADDRESS)?,
        phone: text(row, customer::PHONE)?,
        since: row.int(customer::SINCE),
        credit,
        credit_limit: row.int(customer::CREDIT_LIMIT),
        discount: int(row, customer::DISCOUNT)?,
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
    let id: i32 = int(who, customer::ID)?;
    let index = &tables.orders_by_customer;
    let range = index.prefix(&[place[0], place[1], id.into()])?;
    let last = snapshot.scan(index, &range, Direction::Descending)?.next();
    let order = last
        .ok_or_else(|| TxError::failed(format!("customer {id} has no order")))?
        .row;
    let number: i32 = int(order, orders::ID)?;
    let mut answer = OrderStatusAnswer {
        customer: id,
        first: text(who, customer::FIRST)?,
        middle: text(who, customer::MIDDLE)?,
        last: text(who, customer::LAST)?,
        balance: who.int(customer::BALANCE),
        order: number,
        entry: order.int(orders::ENTRY),
        carrier: int_or_null(order, orders::CARRIER)?,
        lines: Vec::with_capacity(int::<u8>(order, orders::LINES)?.into()),
    };
    let range = tables
        .order_line
        .primary
        .prefix(&[place[0], place[1], number.into()])?;
    for found in snapshot.scan(&tables.order_line.primary, &range, Direction::Ascending)? {
        answer.lines.push(OrderStatusLine {
            supply_warehouse: int(found.row, line::SUPPLY_WAREHOUSE)?,
            item: int(found.row, line::ITEM)?,
            quantity: int(found.row, line::QUANTITY)?,
            amount: found.row.int(line::AMOUNT),
            delivery: int_or_null(found.row, line::DELIVERY)?,
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
    let number: i32 = int(oldest.row, waiting::ORDER)?;
    transaction.delete(&tables.new_order.table, oldest.rid)?;

    let key = [place[0], place[1], number.into()];
    let order = fetch(transaction, &tables.orders, &key, Lock::Exclusive)?;
    transaction.update(&tables.orders.table, order.rid, |to| {
        to.set(orders::CARRIER, input.carrier)
    })?;

    let index = &tables.order_line.primary;
    let mut amount = 0;
    let mut scan = transaction.scan(index, &index.prefix(&key)?, Direction::Ascending, Lock::Exclusive)?;
    while let Some(found) = scan.next()? {
        amount += found.row.int(line::AMOUNT);
        transaction.update(&tables.order_line.table, found.rid, |to| {
            to.set(line::DELIVERY, input.now)
        })?;
    }

    let key = [place[0], place[1], order.row.int(orders::CUSTOMER).into()];
    let buyer = fetch(transaction, &tables.customer, &key, Lock::Exclusive)?;
    let row = buyer.row;
    transaction.update(&tables.customer.table, buyer.rid, |to| {
        to.set(customer::BALANCE, row.int(customer::BALANCE) + amount)?;
        to.set(customer::DELIVERIES, row.int(customer::DELIVERIES) + 1)
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
    let next = look(snapshot, &tables.district, &place)?.int(district::NEXT_ORDER);
    let index = &tables.order_line.primary;
    let range = index.between(&place, Included((next - 20).into()), Excluded(next.into()))?;
    let mut items: Vec<i32> = Vec::with_capacity(300);
    for found in snapshot.scan(index, &range, Direction::Ascending)? {
        items.push(int(found.row, line::ITEM)?);
    }
    items.sort_unstable();
    items.dedup();
    let mut answer = StockLevelAnswer::default();
    for item in items {
        let row = look(snapshot, &tables.stock, &[place[0], item.into()])?;
        answer.low_stock += i32::from(row.int(stock::QUANTITY) < i64::from(input.threshold));
    }
    Ok(answer)
}
