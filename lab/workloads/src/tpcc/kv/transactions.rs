//! The five transactions as calls of [`KvTx`].

use super::super::row::{History, NewOrder as NewOrderRow, Order, OrderLine, Row};
use super::super::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer,
    OrderStatus, OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, StockLevel, StockLevelAnswer,
    TableName, bad_credit_data, history_data, is_original, stock_after, total_amount,
};
use super::code::{self, Integer};
use super::key as keys;
use super::{CUSTOMER_BY_NAME, ORDERS_BY_CUSTOMER};
use crate::engine::TxError;
use crate::kv::{End, KvTx};
use crate::text::Text;

/// How often a delivery looks again for a district's oldest order when another delivery was faster.
const DELIVERY_LOOKS_MAX: usize = 100;

fn missing(what: &str, key: &[u8]) -> TxError {
    TxError::failed(format!("no {what} has the key {key:?}"))
}

/// Reads a row that must be there.
fn must_get(tx: &mut dyn KvTx, table: TableName, key: &[u8], value: &mut Vec<u8>) -> Result<(), TxError> {
    match tx.get(table as u8, key, value)? {
        true => Ok(()),
        false => Err(missing(table.as_str(), key)),
    }
}

/// Locks and reads a row that must be there.
fn must_lock(tx: &mut dyn KvTx, table: TableName, key: &[u8], value: &mut Vec<u8>) -> Result<(), TxError> {
    match tx.get_for_update(table as u8, key, value)? {
        true => Ok(()),
        false => Err(missing(table.as_str(), key)),
    }
}

/// Writes a new row and its index entry.
fn insert(
    tx: &mut dyn KvTx,
    row: &Row,
    history: (u64, u32, u32),
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), TxError> {
    code::encode(row, history, key, value);
    tx.put(row.table() as u8, key, value)?;
    if code::encode_index(row, key) {
        tx.put(ORDERS_BY_CUSTOMER, key, &[])?;
    }
    Ok(())
}

/// C_ID of whom a terminal names.
fn find_customer(tx: &mut dyn KvTx, warehouse: i16, district: i8, by: CustomerBy) -> Result<i32, TxError> {
    let last = match by {
        CustomerBy::Id(id) => return Ok(id),
        CustomerBy::LastName(last) => last,
    };
    let (mut lo, mut ids) = (Vec::with_capacity(40), Vec::with_capacity(16));
    keys::name_key(&mut lo, warehouse, district, &last);
    let mut hi = lo.clone();
    // Texts of names hold no byte 255.
    hi.push(u8::MAX);
    let mut result = Ok(());
    tx.scan(CUSTOMER_BY_NAME, &lo, &hi, false, &mut |key, _| {
        result = i32::read_key(key, keys::NAME_NUMBER).map(|id| ids.push(id));
        result.is_ok()
    })?;
    result?;
    let middle = ids.len().div_ceil(2);
    let found = middle.checked_sub(1).and_then(|at| ids.get(at));
    found.copied().ok_or_else(|| missing("customer by name", &lo))
}

/// Clause 2.4.2.
pub(super) fn new_order(tx: &mut dyn KvTx, input: &NewOrder) -> Result<(End, NewOrderAnswer), TxError> {
    let (mut key, mut value) = (Vec::with_capacity(16), Vec::with_capacity(1024));
    let mut answer = NewOrderAnswer::default();
    keys::warehouse_key(&mut key, input.warehouse);
    must_get(tx, TableName::Warehouse, &key, &mut value)?;
    answer.warehouse_tax = i16::read(&value, code::warehouse::TAX)?;
    keys::number_key(&mut key, input.warehouse, input.district, input.customer);
    must_get(tx, TableName::Customer, &key, &mut value)?;
    let customer = code::decode_customer(input.warehouse, input.district, input.customer, &value)?;
    answer.customer_last = customer.last;
    answer.customer_credit = customer.credit;
    answer.customer_discount = customer.discount;

    // Every order locks its stocks in the order of their keys.
    let mut by_stock: Vec<usize> = (0..input.lines.len()).collect();
    by_stock.sort_by_key(|&at| (input.lines[at].supply_warehouse, input.lines[at].item));
    let mut lines = vec![NewOrderLineAnswer::default(); input.lines.len()];
    let mut infos = vec![Text::<24>::default(); input.lines.len()];
    for at in by_stock {
        let line = input.lines[at];
        keys::item_key(&mut key, line.item);
        if !tx.get(TableName::Item as u8, &key, &mut value)? {
            answer.rolled_back = true;
            continue;
        }
        let item = code::decode_item(line.item, &value)?;
        keys::stock_key(&mut key, line.supply_warehouse, line.item);
        must_lock(tx, TableName::Stock, &key, &mut value)?;
        let quantity = stock_after(i32::read(&value, code::stock::QUANTITY)?, line.quantity);
        quantity.write(&mut value, code::stock::QUANTITY)?;
        code::add(&mut value, code::stock::YTD, i64::from(line.quantity))?;
        code::add(&mut value, code::stock::ORDERS, 1i32)?;
        code::add(
            &mut value,
            code::stock::REMOTES,
            i32::from(line.supply_warehouse != input.warehouse),
        )?;
        tx.put(TableName::Stock as u8, &key, &value)?;
        let info_at = code::stock::DISTRICTS + (input.district - 1) as usize * code::stock::DISTRICT_BYTES;
        infos[at] = Text::from_bytes(code::text_at(&value, info_at)?)?;
        lines[at] = NewOrderLineAnswer {
            supply_warehouse: line.supply_warehouse,
            item: line.item,
            item_name: item.name,
            quantity: line.quantity,
            stock_quantity: quantity,
            brand: is_original(item.data.as_bytes())
                && is_original(code::text_at(&value, code::stock::DATA)?),
            price: item.price,
            amount: item.price * i64::from(line.quantity),
        };
    }

    keys::district_key(&mut key, input.warehouse, input.district);
    must_lock(tx, TableName::District, &key, &mut value)?;
    answer.district_tax = i16::read(&value, code::district::TAX)?;
    answer.order = i32::read(&value, code::district::NEXT_ORDER)?;
    if answer.rolled_back {
        return Ok((End::RollBack, answer));
    }
    (answer.order + 1).write(&mut value, code::district::NEXT_ORDER)?;
    tx.put(TableName::District as u8, &key, &value)?;
    let order = Order {
        warehouse: input.warehouse,
        district: input.district,
        id: answer.order,
        customer: input.customer,
        entry: input.now,
        carrier: None,
        lines: input.lines.len() as i8,
        all_local: input.all_local(),
    };
    let no_history = (0, 0, 0);
    insert(tx, &Row::Order(order), no_history, &mut key, &mut value)?;
    let new_order = NewOrderRow {
        warehouse: order.warehouse,
        district: order.district,
        order: order.id,
    };
    insert(tx, &Row::NewOrder(new_order), no_history, &mut key, &mut value)?;
    for (at, line) in lines.iter().enumerate() {
        let row = OrderLine {
            warehouse: order.warehouse,
            district: order.district,
            order: order.id,
            number: at as i8 + 1,
            item: line.item,
            supply_warehouse: line.supply_warehouse,
            delivery: None,
            quantity: line.quantity,
            amount: line.amount,
            district_info: infos[at],
        };
        insert(tx, &Row::OrderLine(row), no_history, &mut key, &mut value)?;
    }
    let sum = lines.iter().map(|line| line.amount).sum();
    answer.total_amount = total_amount(
        sum,
        answer.customer_discount,
        answer.warehouse_tax,
        answer.district_tax,
    );
    answer.lines = lines;
    Ok((End::Commit, answer))
}

/// Clause 2.5.2.
pub(super) fn payment(
    tx: &mut dyn KvTx,
    input: &Payment,
    history: (u64, u32, u32),
) -> Result<PaymentAnswer, TxError> {
    let (mut key, mut value) = (Vec::with_capacity(16), Vec::with_capacity(1024));
    let (warehouse, district) = (input.customer_warehouse, input.customer_district);
    let id = find_customer(tx, warehouse, district, input.customer)?;
    keys::number_key(&mut key, warehouse, district, id);
    must_lock(tx, TableName::Customer, &key, &mut value)?;
    let mut customer = code::decode_customer(warehouse, district, id, &value)?;
    customer.balance -= input.amount;
    customer.ytd_payment += input.amount;
    customer.payments += 1;
    let mut shown = Text::default();
    if customer.credit == "BC" {
        customer.data = bad_credit_data(input, id, customer.data.as_str());
        shown = Text::cut(customer.data.as_str());
        code::encode_customer(&customer, &mut value);
    } else {
        customer.balance.write(&mut value, code::customer::BALANCE)?;
        customer
            .ytd_payment
            .write(&mut value, code::customer::YTD_PAYMENT)?;
        customer.payments.write(&mut value, code::customer::PAYMENTS)?;
    }
    tx.put(TableName::Customer as u8, &key, &value)?;

    keys::district_key(&mut key, input.warehouse, input.district);
    must_lock(tx, TableName::District, &key, &mut value)?;
    let Row::District(district) = code::decode(TableName::District, &key, &value)? else {
        return Err(code::damaged());
    };
    code::add(&mut value, code::district::YTD, input.amount)?;
    tx.put(TableName::District as u8, &key, &value)?;

    keys::warehouse_key(&mut key, input.warehouse);
    must_lock(tx, TableName::Warehouse, &key, &mut value)?;
    let Row::Warehouse(warehouse) = code::decode(TableName::Warehouse, &key, &value)? else {
        return Err(code::damaged());
    };
    code::add(&mut value, code::warehouse::YTD, input.amount)?;
    tx.put(TableName::Warehouse as u8, &key, &value)?;

    let row = History {
        customer_warehouse: input.customer_warehouse,
        customer_district: input.customer_district,
        customer: id,
        warehouse: input.warehouse,
        district: input.district,
        date: input.now,
        amount: input.amount,
        data: history_data(warehouse.name.as_str(), district.name.as_str()),
    };
    insert(tx, &Row::History(row), history, &mut key, &mut value)?;
    Ok(PaymentAnswer {
        warehouse_address: warehouse.address,
        district_address: district.address,
        customer: id,
        first: customer.first,
        middle: customer.middle,
        last: customer.last,
        address: customer.address,
        phone: customer.phone,
        since: customer.since,
        credit: customer.credit,
        credit_limit: customer.credit_limit,
        discount: customer.discount,
        balance: customer.balance,
        data: shown,
    })
}

/// Clause 2.6.2.
pub(super) fn order_status(tx: &mut dyn KvTx, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
    let (mut key, mut value) = (Vec::with_capacity(16), Vec::with_capacity(1024));
    let (warehouse, district) = (input.warehouse, input.district);
    let id = find_customer(tx, warehouse, district, input.customer)?;
    keys::number_key(&mut key, warehouse, district, id);
    must_get(tx, TableName::Customer, &key, &mut value)?;
    let customer = code::decode_customer(warehouse, district, id, &value)?;

    let mut hi = Vec::with_capacity(16);
    keys::customer_order_key(&mut key, warehouse, district, id, 0);
    keys::customer_order_key(&mut hi, warehouse, district, id, i32::MAX);
    let mut last = Err(missing("order by customer", &key));
    tx.scan(ORDERS_BY_CUSTOMER, &key, &hi, true, &mut |key, _| {
        last = i32::read_key(key, keys::CUSTOMER_ORDER_NUMBER);
        false
    })?;
    keys::number_key(&mut key, warehouse, district, last?);
    must_get(tx, TableName::Orders, &key, &mut value)?;
    let order = code::decode_order(warehouse, district, i32::read_key(&key, 3)?, &value)?;

    keys::line_key(&mut key, warehouse, district, order.id, 0);
    keys::line_key(&mut hi, warehouse, district, order.id, i8::MAX);
    let mut lines = Vec::with_capacity(order.lines as usize);
    let mut result = Ok(());
    tx.scan(TableName::OrderLine as u8, &key, &hi, false, &mut |key, value| {
        result = code::decode_line(key, value).map(|line| {
            lines.push(OrderStatusLine {
                supply_warehouse: line.supply_warehouse,
                item: line.item,
                quantity: line.quantity,
                amount: line.amount,
                delivery: line.delivery,
            });
        });
        result.is_ok()
    })?;
    result?;
    Ok(OrderStatusAnswer {
        customer: id,
        first: customer.first,
        middle: customer.middle,
        last: customer.last,
        balance: customer.balance,
        order: order.id,
        entry: order.entry,
        carrier: order.carrier,
        lines,
    })
}

/// Clause 2.7.4.
pub(super) fn delivery(tx: &mut dyn KvTx, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
    let mut answer = DeliveryAnswer::default();
    for district in 1..=DISTRICTS {
        answer.orders[district as usize - 1] = deliver(tx, input, district)?;
    }
    Ok(answer)
}

/// Delivers the oldest order of one district, if any waits.
fn deliver(tx: &mut dyn KvTx, input: &Delivery, district: i8) -> Result<Option<i32>, TxError> {
    let (mut key, mut hi, mut value) = (
        Vec::with_capacity(16),
        Vec::with_capacity(16),
        Vec::with_capacity(1024),
    );
    let Some(order) = take_oldest(tx, input.warehouse, district, &mut value)? else {
        return Ok(None);
    };
    keys::number_key(&mut key, input.warehouse, district, order);
    must_lock(tx, TableName::Orders, &key, &mut value)?;
    let customer = i32::read(&value, code::order::CUSTOMER)?;
    input.carrier.write(&mut value, code::order::CARRIER)?;
    tx.put(TableName::Orders as u8, &key, &value)?;

    // Only this transaction has the order's entry in `new_order`, and nobody else writes lines of an order.
    let mut lines = Vec::with_capacity(16);
    keys::line_key(&mut key, input.warehouse, district, order, 0);
    keys::line_key(&mut hi, input.warehouse, district, order, i8::MAX);
    tx.scan(TableName::OrderLine as u8, &key, &hi, false, &mut |key, value| {
        lines.push((key.to_vec(), value.to_vec()));
        true
    })?;
    let mut amount = 0;
    for (key, value) in &mut lines {
        amount += i64::read(value, code::line::AMOUNT)?;
        input.now.write(value, code::line::DELIVERY)?;
        tx.put(TableName::OrderLine as u8, key, value)?;
    }

    keys::number_key(&mut key, input.warehouse, district, customer);
    must_lock(tx, TableName::Customer, &key, &mut value)?;
    code::add(&mut value, code::customer::BALANCE, amount)?;
    code::add(&mut value, code::customer::DELIVERIES, 1i32)?;
    tx.put(TableName::Customer as u8, &key, &value)?;
    Ok(Some(order))
}

/// Deletes the oldest entry of `new_order` of a district and returns its order.
fn take_oldest(
    tx: &mut dyn KvTx,
    warehouse: i16,
    district: i8,
    value: &mut Vec<u8>,
) -> Result<Option<i32>, TxError> {
    let (mut key, mut hi) = (Vec::with_capacity(16), Vec::with_capacity(16));
    keys::number_key(&mut hi, warehouse, district, i32::MAX);
    for _ in 0..DELIVERY_LOOKS_MAX {
        keys::number_key(&mut key, warehouse, district, 0);
        let mut oldest = Ok(None);
        tx.scan(TableName::NewOrder as u8, &key, &hi, false, &mut |key, _| {
            oldest = i32::read_key(key, 3).map(Some);
            false
        })?;
        let Some(order) = oldest? else {
            return Ok(None);
        };
        keys::number_key(&mut key, warehouse, district, order);
        // A store whose scans take no locks may show an entry that another delivery takes at this moment.
        if tx.get_for_update(TableName::NewOrder as u8, &key, value)? {
            tx.delete(TableName::NewOrder as u8, &key)?;
            return Ok(Some(order));
        }
    }
    Err(TxError::Retry(format!(
        "other deliveries took the oldest order of warehouse {warehouse}, district {district}, {DELIVERY_LOOKS_MAX} times"
    )))
}

/// Clause 2.8.2.
pub(super) fn stock_level(tx: &mut dyn KvTx, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
    let (mut key, mut hi, mut value) = (
        Vec::with_capacity(16),
        Vec::with_capacity(16),
        Vec::with_capacity(1024),
    );
    keys::district_key(&mut key, input.warehouse, input.district);
    must_get(tx, TableName::District, &key, &mut value)?;
    let next = i32::read(&value, code::district::NEXT_ORDER)?;
    keys::line_key(&mut key, input.warehouse, input.district, (next - 20).max(0), 0);
    keys::line_key(&mut hi, input.warehouse, input.district, next, 0);
    let mut items: Vec<i32> = Vec::with_capacity(300);
    let mut result = Ok(());
    tx.scan(TableName::OrderLine as u8, &key, &hi, false, &mut |_, value| {
        result = i32::read(value, code::line::ITEM).map(|item| items.push(item));
        result.is_ok()
    })?;
    result?;
    items.sort_unstable();
    items.dedup();
    let mut answer = StockLevelAnswer::default();
    for item in items {
        keys::stock_key(&mut key, input.warehouse, item);
        must_get(tx, TableName::Stock, &key, &mut value)?;
        let quantity = i32::read(&value, code::stock::QUANTITY)?;
        answer.low_stock += i32::from(quantity < input.threshold);
    }
    Ok(answer)
}
