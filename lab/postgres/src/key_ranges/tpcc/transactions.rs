//! The five transactions in SQL.
//!
//! Locks are taken in the order customer, stocks by their keys, district, warehouse: hot rows last, and in one order, so that deadlocks
//! are rare.

use std::collections::BTreeMap;
use std::fmt::Display;

use corun_workloads::engine::TxError;
use corun_workloads::text::Text;
use corun_workloads::tpcc::columns::{ColumnReader, Field};
use corun_workloads::tpcc::row::{Address, Item};
use corun_workloads::tpcc::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer,
    OrderStatus, OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, StockLevel, StockLevelAnswer,
    bad_credit_data, history_data, is_original, stock_after, total_amount,
};

use super::rows::Columns;
use super::session::Session;
use super::statements::{
    BUYER, DELIVERED, DISTRICT_PAID, HISTORY, ITEMS, LAST_ORDER, LINES, LINES_OF, LOW, NAMED, NEXT_ORDER,
    NOTED, ORDER, PAID, STOCKS, STOCKS_SOLD, WAITS, WAREHOUSE_PAID, WAREHOUSE_TAX, WHO,
};

/// Values as PostgreSQL reads them.
fn values<const COUNT: usize>(values: [&dyn Display; COUNT]) -> [String; COUNT] {
    values.map(ToString::to_string)
}

/// An array of numbers, or of texts without blanks, quotes and commas.
fn array(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("{{{}}}", items.join(","))
}

/// A stock that an order takes from.
struct Held {
    quantity: i32,
    info: Text<24>,
    original: bool,
    ytd: i64,
    orders: i32,
    remotes: i32,
}

/// Clause 2.4.2. False beside the answer where the transaction must be rolled back.
pub fn new_order(session: &mut Session, input: &NewOrder) -> Result<(NewOrderAnswer, bool), TxError> {
    let (warehouse, district) = (input.warehouse, input.district);
    let key = values([&warehouse, &district, &input.customer]);
    let mut answer = session.one(BUYER, &key, |row| {
        Ok(NewOrderAnswer {
            customer_last: row.text()?,
            customer_credit: row.text()?,
            customer_discount: row.integer()?,
            ..NewOrderAnswer::default()
        })
    })?;
    let items = items(session, input)?;
    let mut stocks = stocks(session, input, &items)?;
    let mut lines = Vec::with_capacity(input.lines.len());
    let mut infos = Vec::with_capacity(input.lines.len());
    for line in &input.lines {
        let Some(sold) = items.get(&line.item) else {
            answer.rolled_back = true;
            continue;
        };
        let held = stocks.get_mut(&(line.supply_warehouse, line.item));
        let held = held.ok_or_else(|| TxError::failed(format!("no stock of item {}", line.item)))?;
        held.quantity = stock_after(held.quantity, line.quantity);
        held.ytd += i64::from(line.quantity);
        held.orders += 1;
        held.remotes += i32::from(line.supply_warehouse != warehouse);
        infos.push(held.info);
        lines.push(NewOrderLineAnswer {
            supply_warehouse: line.supply_warehouse,
            item: line.item,
            item_name: sold.name,
            quantity: line.quantity,
            stock_quantity: held.quantity,
            brand: held.original && is_original(sold.data.as_bytes()),
            price: sold.price,
            amount: sold.price * i64::from(line.quantity),
        });
    }
    sold(session, &stocks)?;
    let place = values([&warehouse, &district]);
    (answer.district_tax, answer.order) =
        session.one(NEXT_ORDER, &place, |row| Ok((row.integer()?, row.integer()?)))?;
    if !answer.rolled_back {
        enter(session, input, answer.order, (&lines, &infos))?;
    }
    answer.warehouse_tax = session.one(WAREHOUSE_TAX, &place[..1], |row| row.integer())?;
    if answer.rolled_back {
        return Ok((answer, false));
    }
    let sum = lines.iter().map(|line| line.amount).sum();
    answer.total_amount = total_amount(
        sum,
        answer.customer_discount,
        answer.warehouse_tax,
        answer.district_tax,
    );
    answer.lines = lines;
    Ok((answer, true))
}

/// The items of an order that there are.
fn items(session: &mut Session, input: &NewOrder) -> Result<BTreeMap<i32, Item>, TxError> {
    let wanted = array(input.lines.iter().map(|line| line.item));
    let rows = session.rows(ITEMS, &[wanted])?;
    let read = |row: &Vec<Option<String>>| {
        let item = Item::read(&mut Columns::of(row))?;
        Ok((item.id, item))
    };
    rows.iter().map(read).collect()
}

/// The stocks an order takes from, locked, by warehouse and item.
fn stocks(
    session: &mut Session,
    input: &NewOrder,
    items: &BTreeMap<i32, Item>,
) -> Result<BTreeMap<(i16, i32), Held>, TxError> {
    let mut wanted: BTreeMap<i16, Vec<i32>> = BTreeMap::new();
    for line in input.lines.iter().filter(|line| items.contains_key(&line.item)) {
        wanted.entry(line.supply_warehouse).or_default().push(line.item);
    }
    let mut stocks = BTreeMap::new();
    for (warehouse, items) in wanted {
        let key = values([&warehouse, &array(items), &input.district]);
        for row in session.rows(STOCKS, &key)? {
            let row = &mut Columns::of(&row);
            let item = row.integer()?;
            let held = Held {
                quantity: row.integer()?,
                info: row.text()?,
                original: is_original(row.text::<50>()?.as_bytes()),
                ytd: 0,
                orders: 0,
                remotes: 0,
            };
            stocks.insert((warehouse, item), held);
        }
    }
    Ok(stocks)
}

/// Writes what was taken from stocks.
fn sold(session: &mut Session, stocks: &BTreeMap<(i16, i32), Held>) -> Result<(), TxError> {
    let mut by_warehouse: BTreeMap<i16, Vec<(i32, &Held)>> = BTreeMap::new();
    for ((warehouse, item), held) in stocks {
        by_warehouse.entry(*warehouse).or_default().push((*item, held));
    }
    for (warehouse, stocks) in by_warehouse {
        let all = [
            warehouse.to_string(),
            array(stocks.iter().map(|(item, _)| item)),
            array(stocks.iter().map(|(_, held)| held.quantity)),
            array(stocks.iter().map(|(_, held)| held.ytd)),
            array(stocks.iter().map(|(_, held)| held.orders)),
            array(stocks.iter().map(|(_, held)| held.remotes)),
        ];
        session.rows(STOCKS_SOLD, &all)?;
    }
    Ok(())
}

/// Inserts an order with its lines.
fn enter(
    session: &mut Session,
    input: &NewOrder,
    order: i32,
    (lines, infos): (&[NewOrderLineAnswer], &[Text<24>]),
) -> Result<(), TxError> {
    let (warehouse, district) = (input.warehouse, input.district);
    let all = values([
        &warehouse,
        &district,
        &order,
        &input.customer,
        &input.now,
        &lines.len(),
        &input.all_local(),
    ]);
    session.rows(ORDER, &all)?;
    session.rows(WAITS, &all[..3])?;
    let lines = [
        warehouse.to_string(),
        district.to_string(),
        order.to_string(),
        array(lines.iter().map(|line| line.item)),
        array(lines.iter().map(|line| line.supply_warehouse)),
        array(lines.iter().map(|line| line.quantity)),
        array(lines.iter().map(|line| line.amount)),
        array(infos),
    ];
    session.rows(LINES, &lines).map(drop)
}

/// C_ID of the customer that is meant (clause 2.5.2.2).
fn customer(session: &mut Session, warehouse: i16, district: i8, by: &CustomerBy) -> Result<i32, TxError> {
    let last = match by {
        CustomerBy::Id(id) => return Ok(*id),
        CustomerBy::LastName(last) => last,
    };
    let rows = session.rows(NAMED, &values([&warehouse, &district, last]))?;
    let middle = rows.len().div_ceil(2).checked_sub(1);
    let row = middle.and_then(|middle| rows.get(middle));
    let row = row.ok_or_else(|| TxError::failed(format!("no customer is called {last}")))?;
    Columns::of(row).integer()
}

/// Clause 2.5.2.
pub fn payment(session: &mut Session, input: &Payment) -> Result<PaymentAnswer, TxError> {
    let (home, home_district) = (input.customer_warehouse, input.customer_district);
    let id = customer(session, home, home_district, &input.customer)?;
    let (mut answer, data) = session.one(
        PAID,
        &values([&home, &home_district, &id, &input.amount]),
        |row| {
            let answer = PaymentAnswer {
                customer: id,
                first: row.text()?,
                middle: row.text()?,
                last: row.text()?,
                address: Address::read(row)?,
                phone: row.text()?,
                since: row.integer()?,
                credit: row.text()?,
                credit_limit: row.integer()?,
                discount: row.integer()?,
                balance: row.integer()?,
                ..PaymentAnswer::default()
            };
            Ok((answer, row.text::<500>()?))
        },
    )?;
    if answer.credit == "BC" {
        let data = bad_credit_data(input, id, data.as_str());
        session.rows(NOTED, &values([&home, &home_district, &id, &data]))?;
        answer.data = Text::cut(data.as_str());
    }
    let (warehouse, district) = (input.warehouse, input.district);
    let at_district = values([&warehouse, &district, &input.amount]);
    let (district_name, address) = session.one(DISTRICT_PAID, &at_district, |row| {
        Ok((row.text::<10>()?, Address::read(row)?))
    })?;
    answer.district_address = address;
    let at_warehouse = values([&warehouse, &input.amount]);
    let (warehouse_name, address) = session.one(WAREHOUSE_PAID, &at_warehouse, |row| {
        Ok((row.text::<10>()?, Address::read(row)?))
    })?;
    answer.warehouse_address = address;
    let history = values([
        &home,
        &home_district,
        &id,
        &warehouse,
        &district,
        &input.now,
        &input.amount,
        &history_data(warehouse_name.as_str(), district_name.as_str()),
    ]);
    session.rows(HISTORY, &history)?;
    Ok(answer)
}

/// Clause 2.6.2.
pub fn order_status(session: &mut Session, input: &OrderStatus) -> Result<OrderStatusAnswer, TxError> {
    let (warehouse, district) = (input.warehouse, input.district);
    let id = customer(session, warehouse, district, &input.customer)?;
    let key = values([&warehouse, &district, &id]);
    let mut answer = session.one(WHO, &key, |row| {
        Ok(OrderStatusAnswer {
            customer: id,
            first: row.text()?,
            middle: row.text()?,
            last: row.text()?,
            balance: row.integer()?,
            ..OrderStatusAnswer::default()
        })
    })?;
    (answer.order, answer.entry, answer.carrier) = session.one(LAST_ORDER, &key, |row| {
        Ok((row.integer()?, row.integer()?, row.integer_or_null()?))
    })?;
    for row in session.rows(LINES_OF, &values([&warehouse, &district, &answer.order]))? {
        let row = &mut Columns::of(&row);
        answer.lines.push(OrderStatusLine {
            supply_warehouse: row.integer()?,
            item: row.integer()?,
            quantity: row.integer()?,
            amount: row.integer()?,
            delivery: row.integer_or_null()?,
        });
    }
    Ok(answer)
}

/// Clause 2.7.2.
pub fn delivery(session: &mut Session, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
    let mut answer = DeliveryAnswer::default();
    for district in 1..=DISTRICTS {
        let all = values([&input.warehouse, &district, &input.carrier, &input.now]);
        answer.orders[district as usize - 1] = session.maybe(DELIVERED, &all, |row| row.integer())?;
    }
    Ok(answer)
}

/// Clause 2.8.2.
pub fn stock_level(session: &mut Session, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
    let all = values([&input.warehouse, &input.district, &input.threshold]);
    Ok(StockLevelAnswer {
        low_stock: session.one(LOW, &all, |row| row.integer())?,
    })
}
