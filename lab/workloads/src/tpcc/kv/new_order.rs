//! New Order as calls of [`KvTx`].

use super::super::columns::Integer;
use super::super::row::{
    Customer, District, Item, NewOrder as NewOrderRow, Order, OrderLine, Stock, Warehouse,
};
use super::super::{
    NewOrder, NewOrderAnswer, NewOrderLineAnswer, TableName, is_original, stock_after, total_amount,
};
use super::ORDERS_BY_CUSTOMER;
use super::code::{self, KeyValue};
use super::key as keys;
use super::transactions::{must_get, must_lock};
use crate::engine::TxError;
use crate::kv::{End, KvTx};
use crate::text::Text;

/// Clause 2.4.2.
pub(super) fn new_order(tx: &mut dyn KvTx, input: &NewOrder) -> Result<(End, NewOrderAnswer), TxError> {
    let (mut key, mut value) = (Vec::with_capacity(16), Vec::with_capacity(1024));
    let mut answer = NewOrderAnswer::default();
    keys::warehouse_key(&mut key, input.warehouse);
    must_get(tx, TableName::Warehouse, &key, &mut value)?;
    answer.warehouse_tax = i16::read(&value, Warehouse::PLACE.tax)?;
    keys::number_key(&mut key, input.warehouse, input.district, input.customer);
    must_get(tx, TableName::Customer, &key, &mut value)?;
    let customer: Customer = code::decode(&key, &value)?;
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
        let item: Item = code::decode(&key, &value)?;
        keys::stock_key(&mut key, line.supply_warehouse, line.item);
        must_lock(tx, TableName::Stock, &key, &mut value)?;
        let quantity = stock_after(i32::read(&value, Stock::PLACE.quantity)?, line.quantity);
        quantity.write(&mut value, Stock::PLACE.quantity)?;
        code::add(&mut value, Stock::PLACE.ytd, i64::from(line.quantity))?;
        code::add(&mut value, Stock::PLACE.orders, 1i32)?;
        code::add(
            &mut value,
            Stock::PLACE.remotes,
            i32::from(line.supply_warehouse != input.warehouse),
        )?;
        tx.put(TableName::Stock as u8, &key, &value)?;
        let info_at = Stock::PLACE.districts + (input.district - 1) as usize * code::DISTRICT_BYTES;
        infos[at] = Text::from_bytes(code::text_at(&value, info_at)?)?;
        lines[at] = NewOrderLineAnswer {
            supply_warehouse: line.supply_warehouse,
            item: line.item,
            item_name: item.name,
            quantity: line.quantity,
            stock_quantity: quantity,
            brand: is_original(item.data.as_bytes())
                && is_original(code::text_at(&value, Stock::PLACE.data)?),
            price: item.price,
            amount: item.price * i64::from(line.quantity),
        };
    }

    keys::district_key(&mut key, input.warehouse, input.district);
    must_lock(tx, TableName::District, &key, &mut value)?;
    answer.district_tax = i16::read(&value, District::PLACE.tax)?;
    answer.order = i32::read(&value, District::PLACE.next_order)?;
    if answer.rolled_back {
        return Ok((End::RollBack, answer));
    }
    (answer.order + 1).write(&mut value, District::PLACE.next_order)?;
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
    insert(tx, TableName::Orders, &order, &mut key, &mut value)?;
    keys::customer_order_key(
        &mut key,
        order.warehouse,
        order.district,
        order.customer,
        order.id,
    );
    tx.put(ORDERS_BY_CUSTOMER, &key, &[])?;
    let new_order = NewOrderRow {
        warehouse: order.warehouse,
        district: order.district,
        order: order.id,
    };
    insert(tx, TableName::NewOrder, &new_order, &mut key, &mut value)?;
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
        insert(tx, TableName::OrderLine, &row, &mut key, &mut value)?;
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

/// Writes a new row.
fn insert(
    tx: &mut dyn KvTx,
    table: TableName,
    row: &impl KeyValue,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), TxError> {
    code::encode(row, key, value);
    tx.put(table as u8, key, value)
}
