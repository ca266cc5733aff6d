//! New Order as calls of the store; see [`super::transactions`] for the order of its locks.

use corun_store::{Lock, RowRef, Transaction, Value};

use super::rows::{Filler, field};
use super::schema::{Buffers, Tables};
use super::transactions::{fetch, missing};
use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::row::{
    Customer, District, Item, NewOrder as NewOrderRow, Order, OrderLine, Stock, Warehouse,
};
use crate::tpcc::{NewOrder, NewOrderAnswer, NewOrderLineAnswer, is_original, stock_after, total_amount};

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
        customer_last: field(buyer, Customer::COLUMN.last)?,
        customer_credit: field(buyer, Customer::COLUMN.credit)?,
        customer_discount: field(buyer, Customer::COLUMN.discount)?,
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
        let quantity = stock_after(field(row, Stock::COLUMN.quantity)?, wanted.quantity);
        let remote = i64::from(wanted.supply_warehouse != input.warehouse);
        transaction.update(&tables.stock.table, held.rid, |to| {
            to.set(Stock::COLUMN.quantity, quantity)?;
            to.set(
                Stock::COLUMN.ytd,
                row.int(Stock::COLUMN.ytd) + i64::from(wanted.quantity),
            )?;
            to.set(Stock::COLUMN.orders, row.int(Stock::COLUMN.orders) + 1)?;
            to.set(Stock::COLUMN.remotes, row.int(Stock::COLUMN.remotes) + remote)
        })?;
        infos[at] = field(row, Stock::COLUMN.districts + input.district as usize - 1)?;
        let price = sold.int(Item::COLUMN.price);
        lines[at] = NewOrderLineAnswer {
            supply_warehouse: wanted.supply_warehouse,
            item: wanted.item,
            item_name: field(sold, Item::COLUMN.name)?,
            quantity: wanted.quantity,
            stock_quantity: quantity,
            brand: is_original(sold.bytes(Item::COLUMN.data)) && is_original(row.bytes(Stock::COLUMN.data)),
            price,
            amount: price * i64::from(wanted.quantity),
        };
    }

    let found = fetch(&transaction, &tables.district, &place, Lock::Exclusive)?;
    answer.district_tax = field(found.row, District::COLUMN.tax)?;
    answer.order = field(found.row, District::COLUMN.next_order)?;
    if !answer.rolled_back {
        let next = answer.order + 1;
        transaction.update(&tables.district.table, found.rid, |to| {
            to.set(District::COLUMN.next_order, next)
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
    answer.warehouse_tax = field(home, Warehouse::COLUMN.tax)?;
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
    order.write(&mut Filler::new(&mut buffers.order))?;
    transaction.insert(&tables.orders.table, &buffers.order)?;
    let waits = NewOrderRow {
        warehouse,
        district,
        order: id,
    };
    waits.write(&mut Filler::new(&mut buffers.new_order))?;
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
        row.write(&mut Filler::new(&mut buffers.order_line))?;
        transaction.insert(&tables.order_line.table, &buffers.order_line)?;
    }
    Ok(())
}
