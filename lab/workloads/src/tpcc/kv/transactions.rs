//! The five transactions as calls of [`KvTx`]; New Order has its own file.

use super::super::columns::Integer;
use super::super::row::{Customer, District, History, Order, OrderLine, Stock, Warehouse};
use super::super::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, OrderStatus, OrderStatusAnswer, OrderStatusLine,
    Payment, PaymentAnswer, StockLevel, StockLevelAnswer, TableName, bad_credit_data, history_data,
};
use super::code::{self, KeyValue};
use super::key as keys;
use super::{CUSTOMER_BY_NAME, ORDERS_BY_CUSTOMER};
use crate::engine::TxError;
use crate::kv::KvTx;
use crate::text::Text;

/// How often a delivery looks again for a district's oldest order when another delivery was faster.
const DELIVERY_LOOKS_MAX: usize = 100;

/// The error where a row that must be there is not.
pub(super) fn missing(what: &str, key: &[u8]) -> TxError {
    TxError::failed(format!("no {what} has the key {key:?}"))
}

/// Reads a row that must be there.
pub(super) fn must_get(
    tx: &mut dyn KvTx,
    table: TableName,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<(), TxError> {
    match tx.get(table as u8, key, value)? {
        true => Ok(()),
        false => Err(missing(table.as_str(), key)),
    }
}

/// Locks and reads a row that must be there.
pub(super) fn must_lock(
    tx: &mut dyn KvTx,
    table: TableName,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<(), TxError> {
    match tx.get_for_update(table as u8, key, value)? {
        true => Ok(()),
        false => Err(missing(table.as_str(), key)),
    }
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
    let mut customer: Customer = code::decode(&key, &value)?;
    customer.balance -= input.amount;
    customer.ytd_payment += input.amount;
    customer.payments += 1;
    let mut shown = Text::default();
    if customer.credit == "BC" {
        customer.data = bad_credit_data(input, id, customer.data.as_str());
        shown = Text::cut(customer.data.as_str());
        value.clear();
        customer.push_value(&mut value);
    } else {
        customer.balance.write(&mut value, Customer::PLACE.balance)?;
        customer
            .ytd_payment
            .write(&mut value, Customer::PLACE.ytd_payment)?;
        customer.payments.write(&mut value, Customer::PLACE.payments)?;
    }
    tx.put(TableName::Customer as u8, &key, &value)?;

    keys::district_key(&mut key, input.warehouse, input.district);
    must_lock(tx, TableName::District, &key, &mut value)?;
    let district: District = code::decode(&key, &value)?;
    code::add(&mut value, District::PLACE.ytd, input.amount)?;
    tx.put(TableName::District as u8, &key, &value)?;

    keys::warehouse_key(&mut key, input.warehouse);
    must_lock(tx, TableName::Warehouse, &key, &mut value)?;
    let warehouse: Warehouse = code::decode(&key, &value)?;
    code::add(&mut value, Warehouse::PLACE.ytd, input.amount)?;
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
    keys::history_key(&mut key, history);
    value.clear();
    row.push_value(&mut value);
    tx.put(TableName::History as u8, &key, &value)?;
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
    let customer: Customer = code::decode(&key, &value)?;

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
    let order: Order = code::decode(&key, &value)?;

    keys::line_key(&mut key, warehouse, district, order.id, 0);
    keys::line_key(&mut hi, warehouse, district, order.id, i8::MAX);
    let mut lines = Vec::with_capacity(order.lines as usize);
    let mut result = Ok(());
    tx.scan(TableName::OrderLine as u8, &key, &hi, false, &mut |key, value| {
        result = code::decode(key, value).map(|line: OrderLine| {
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
    let customer = i32::read(&value, Order::PLACE.customer)?;
    input.carrier.write(&mut value, Order::PLACE.carrier)?;
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
        amount += i64::read(value, OrderLine::PLACE.amount)?;
        input.now.write(value, OrderLine::PLACE.delivery)?;
        tx.put(TableName::OrderLine as u8, key, value)?;
    }

    keys::number_key(&mut key, input.warehouse, district, customer);
    must_lock(tx, TableName::Customer, &key, &mut value)?;
    code::add(&mut value, Customer::PLACE.balance, amount)?;
    code::add(&mut value, Customer::PLACE.deliveries, 1i32)?;
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
    let next = i32::read(&value, District::PLACE.next_order)?;
    keys::line_key(&mut key, input.warehouse, input.district, (next - 20).max(0), 0);
    keys::line_key(&mut hi, input.warehouse, input.district, next, 0);
    let mut items: Vec<i32> = Vec::with_capacity(300);
    let mut result = Ok(());
    tx.scan(TableName::OrderLine as u8, &key, &hi, false, &mut |_, value| {
        result = i32::read(value, OrderLine::PLACE.item).map(|item| items.push(item));
        result.is_ok()
    })?;
    result?;
    items.sort_unstable();
    items.dedup();
    let mut answer = StockLevelAnswer::default();
    for item in items {
        keys::stock_key(&mut key, input.warehouse, item);
        must_get(tx, TableName::Stock, &key, &mut value)?;
        let quantity = i32::read(&value, Stock::PLACE.quantity)?;
        answer.low_stock += i32::from(quantity < input.threshold);
    }
    Ok(answer)
}
