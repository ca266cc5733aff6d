//! The five transactions in SQL.
//!
//! Locks are taken in the order customer, stocks by their keys, district, warehouse: hot rows last, and in one order, so that deadlocks
//! are rare.

use std::collections::BTreeMap;
use std::fmt::Display;

use corun_workloads::engine::TxError;
use corun_workloads::text::Text;
use corun_workloads::tpcc::row::Item;
use corun_workloads::tpcc::{
    CustomerBy, DISTRICTS, Delivery, DeliveryAnswer, NewOrder, NewOrderAnswer, NewOrderLineAnswer,
    OrderStatus, OrderStatusAnswer, OrderStatusLine, Payment, PaymentAnswer, StockLevel, StockLevelAnswer,
    bad_credit_data, history_data, is_original, stock_after, total_amount,
};

use super::rows::Columns;
use super::session::{Session, Statement};

const BUYER: Statement = (
    "buyer",
    "select c_last, c_credit, c_discount from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
const ITEMS: Statement = (
    "items",
    "select i_id, i_im_id, i_name, i_price, i_data from item where i_id = any($1::int[])",
);
const STOCKS: Statement = (
    "stocks",
    "select s_i_id, s_quantity, (array[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, \
     s_dist_09, s_dist_10])[$3::int], s_data from stock where s_w_id = $1 and s_i_id = any($2::int[]) order by s_i_id for update",
);
const STOCKS_SOLD: Statement = (
    "stocks_sold",
    "update stock set s_quantity = taken.quantity, s_ytd = s_ytd + taken.ytd, s_order_cnt = s_order_cnt + taken.orders, \
     s_remote_cnt = s_remote_cnt + taken.remotes from unnest($2::int[], $3::int[], $4::bigint[], $5::int[], $6::int[]) \
     as taken (item, quantity, ytd, orders, remotes) where s_w_id = $1 and s_i_id = taken.item",
);
const NEXT_ORDER: Statement = (
    "next_order",
    "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 returning d_tax, d_next_o_id - 1",
);
const ORDER: Statement = (
    "order",
    "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
     values ($1, $2, $3, $4, $5, null, $6, $7)",
);
const WAITS: Statement = (
    "waits",
    "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)",
);
const LINES: Statement = (
    "lines",
    "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, \
     ol_dist_info) select $1::int, $2::int, $3::int, number, item, supply, null, quantity, amount, info \
     from unnest($4::int[], $5::int[], $6::int[], $7::bigint[], $8::text[]) \
     with ordinality as line (item, supply, quantity, amount, info, number)",
);
const WAREHOUSE_TAX: Statement = ("warehouse_tax", "select w_tax from warehouse where w_id = $1");
const NAMED: Statement = (
    "named",
    "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first, c_id",
);
const PAID: Statement = (
    "paid",
    "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1 \
     where c_w_id = $1 and c_d_id = $2 and c_id = $3 returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
     c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_data",
);
const NOTED: Statement = (
    "noted",
    "update customer set c_data = $4 where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
const DISTRICT_PAID: Statement = (
    "district_paid",
    "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2 \
     returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
);
const WAREHOUSE_PAID: Statement = (
    "warehouse_paid",
    "update warehouse set w_ytd = w_ytd + $2 where w_id = $1 returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
);
const HISTORY: Statement = (
    "history",
    "insert into history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data) \
     values ($1, $2, $3, $4, $5, $6, $7, $8)",
);
const WHO: Statement = (
    "who",
    "select c_first, c_middle, c_last, c_balance from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
const LAST_ORDER: Statement = (
    "last_order",
    "select o_id, o_entry_d, o_carrier_id from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1",
);
const LINES_OF: Statement = (
    "lines_of",
    "select ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d from order_line \
     where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 order by ol_number",
);
const DELIVERED: Statement = (
    "delivered",
    "with oldest as (delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = (select no_o_id from new_order \
     where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1 for update skip locked) returning no_o_id), \
     sent as (update orders set o_carrier_id = $3 from oldest where o_w_id = $1 and o_d_id = $2 and o_id = no_o_id \
     returning o_id, o_c_id), \
     lines as (update order_line set ol_delivery_d = $4 from oldest where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = no_o_id \
     returning ol_amount) \
     update customer set c_balance = c_balance + (select sum(ol_amount) from lines)::bigint, c_delivery_cnt = c_delivery_cnt + 1 \
     from sent where c_w_id = $1 and c_d_id = $2 and c_id = o_c_id returning o_id",
);
const LOW: Statement = (
    "low",
    "select count(distinct s_i_id) from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id where ol_w_id = $1 \
     and ol_d_id = $2 and ol_o_id >= (select d_next_o_id from district where d_w_id = $1 and d_id = $2) - 20 and s_quantity < $3",
);

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
            customer_discount: row.number()?,
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
        session.one(NEXT_ORDER, &place, |row| Ok((row.number()?, row.number()?)))?;
    if !answer.rolled_back {
        enter(session, input, answer.order, (&lines, &infos))?;
    }
    answer.warehouse_tax = session.one(WAREHOUSE_TAX, &place[..1], |row| row.number())?;
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
        let row = &mut Columns::of(row);
        let item = Item {
            id: row.number()?,
            image: row.number()?,
            name: row.text()?,
            price: row.number()?,
            data: row.text()?,
        };
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
            let item = row.number()?;
            let held = Held {
                quantity: row.number()?,
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
    Columns::of(row).number()
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
                address: row.address()?,
                phone: row.text()?,
                since: row.number()?,
                credit: row.text()?,
                credit_limit: row.number()?,
                discount: row.number()?,
                balance: row.number()?,
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
        Ok((row.text::<10>()?, row.address()?))
    })?;
    answer.district_address = address;
    let at_warehouse = values([&warehouse, &input.amount]);
    let (warehouse_name, address) = session.one(WAREHOUSE_PAID, &at_warehouse, |row| {
        Ok((row.text::<10>()?, row.address()?))
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
            balance: row.number()?,
            ..OrderStatusAnswer::default()
        })
    })?;
    (answer.order, answer.entry, answer.carrier) = session.one(LAST_ORDER, &key, |row| {
        Ok((row.number()?, row.number()?, row.maybe()?))
    })?;
    for row in session.rows(LINES_OF, &values([&warehouse, &district, &answer.order]))? {
        let row = &mut Columns::of(&row);
        answer.lines.push(OrderStatusLine {
            supply_warehouse: row.number()?,
            item: row.number()?,
            quantity: row.number()?,
            amount: row.number()?,
            delivery: row.maybe()?,
        });
    }
    Ok(answer)
}

/// Clause 2.7.2.
pub fn delivery(session: &mut Session, input: &Delivery) -> Result<DeliveryAnswer, TxError> {
    let mut answer = DeliveryAnswer::default();
    for district in 1..=DISTRICTS {
        let all = values([&input.warehouse, &district, &input.carrier, &input.now]);
        answer.orders[district as usize - 1] = session.maybe(DELIVERED, &all, |row| row.number())?;
    }
    Ok(answer)
}

/// Clause 2.8.2.
pub fn stock_level(session: &mut Session, input: &StockLevel) -> Result<StockLevelAnswer, TxError> {
    let all = values([&input.warehouse, &input.district, &input.threshold]);
    Ok(StockLevelAnswer {
        low_stock: session.one(LOW, &all, |row| row.number())?,
    })
}
