//! What is traced: small databases like pgbench's, TPC-W's and TPC-C's, and the statements of each with the keys they are traced for.
//!
//! Tables are small, but their indexes as high as those of the paper's sizes (three levels), and rows as long. Keys lie evenly in their
//! domain with a step that is no divisor of anything; what a key leads to (an item's author, a customer's last order) is a fixed
//! permutation.
//!
//! Not here: the mixes of these statements, which are `cachesim`'s.

use corun_cachesim::private_caches::axis::{Axis, permuted};

/// Rows of tables that grow with items, customers and accounts.
const ROWS: u64 = 200_000;
/// Authors.
const AUTHORS: u64 = ROWS / 4;
/// Warehouses of the TPC-C tables.
const WAREHOUSES: u64 = 4;
/// Items of the TPC-C tables.
const ITEMS: u64 = 100_000;
/// Customers of each district there.
const CUSTOMERS: u64 = 3_000;
/// Orders of each district that are there from the begin.
const ORDERS: u64 = 300;
/// Orders whose lines Best Seller reads: a tenth of the paper's, each with three lines.
const RECENT: u64 = 333;

/// Statements that make the databases.
pub fn load() -> Vec<String> {
    vec![
        // Point reads.
        "create table accounts(aid int not null, bid int, abalance int, filler char(84))".to_owned(),
        format!("insert into accounts select i, i / 100000, 0, '' from generate_series(1, {ROWS}) i"),
        "alter table accounts add primary key (aid)".to_owned(),
        // TPC-W.
        "create table author(a_id int not null, a_fname varchar(20), a_lname varchar(20), a_bio varchar(100))".to_owned(),
        format!(
            "insert into author select i, 'first' || i, 'last' || i, repeat('b', 80) from generate_series(1, {AUTHORS}) i"
        ),
        "alter table author add primary key (a_id)".to_owned(),
        "create table item(i_id int not null, i_title varchar(60), i_a_id int, i_subject varchar(10), i_cost numeric(9,2), \
         i_stock int, i_pub_date date, i_desc varchar(300)) with (fillfactor = 90)"
            .to_owned(),
        format!(
            "insert into item select i, 'a title of a book ' || i, (i::bigint * 7919) % {AUTHORS} + 1, 'subject' || i % 24, \
             i % 100, 1000, '2000-01-01', repeat('d', 250) from generate_series(1, {ROWS}) i"
        ),
        "alter table item add primary key (i_id)".to_owned(),
        "create table customer(c_id int not null, c_uname varchar(20), c_fname varchar(17), c_lname varchar(17), c_addr_id int, \
         c_discount numeric(3,2), c_data varchar(200))"
            .to_owned(),
        format!(
            "insert into customer select i, 'user' || i, 'first' || i, 'last' || i, i, 0.1, repeat('c', 150) \
             from generate_series(1, {ROWS}) i"
        ),
        "alter table customer add primary key (c_id)".to_owned(),
        "create table orders(o_id int not null, o_c_id int, o_date date, o_total numeric(9,2), o_status varchar(16))".to_owned(),
        format!(
            "insert into orders select i, (i::bigint * 7919) % {ROWS} + 1, '2000-01-01', i % 1000, 'shipped' \
             from generate_series(1, {ROWS}) i"
        ),
        "alter table orders add primary key (o_id)".to_owned(),
        "create index orders_customer on orders(o_c_id)".to_owned(),
        "create table order_line(ol_id int, ol_o_id int not null, ol_i_id int, ol_qty int, ol_comments varchar(60))".to_owned(),
        format!(
            "insert into order_line select i, (i + 2) / 3, (i::bigint * 104729) % {ROWS} + 1, i % 5, repeat('o', 30) \
             from generate_series(1, {ROWS} * 3) i"
        ),
        "create index order_line_order on order_line(ol_o_id)".to_owned(),
        // TPC-C.
        "create table warehouse(w_id int not null, w_name varchar(10), w_street varchar(80), w_tax numeric(4,4), w_ytd numeric(12,2)) \
         with (fillfactor = 20)"
            .to_owned(),
        format!("insert into warehouse select i, 'w' || i, repeat('s', 60), 0.1, 300000 from generate_series(1, {WAREHOUSES}) i"),
        "alter table warehouse add primary key (w_id)".to_owned(),
        "create table district(d_w_id int not null, d_id int not null, d_name varchar(10), d_street varchar(80), d_tax numeric(4,4), \
         d_ytd numeric(12,2), d_next_o_id int) with (fillfactor = 20)"
            .to_owned(),
        format!(
            "insert into district select w, d, 'd' || d, repeat('s', 60), 0.1, 30000, {} from generate_series(1, {WAREHOUSES}) w, \
             generate_series(1, 10) d order by w, d",
            ORDERS + 1
        ),
        "alter table district add primary key (d_w_id, d_id)".to_owned(),
        "create table ccustomer(c_w_id int not null, c_d_id int not null, c_id int not null, c_first varchar(16), c_last varchar(16), \
         c_credit char(2), c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt int, \
         c_street varchar(80), c_data varchar(500)) with (fillfactor = 90)"
            .to_owned(),
        format!(
            "insert into ccustomer select w, d, c, 'first' || c, 'last' || c % 1000, 'GC', 0.1, -10, 10, 1, repeat('s', 60), \
             repeat('d', 400) from generate_series(1, {WAREHOUSES}) w, generate_series(1, 10) d, generate_series(1, {CUSTOMERS}) c order by w, d, c"
        ),
        "alter table ccustomer add primary key (c_w_id, c_d_id, c_id)".to_owned(),
        "create table citem(i_id int not null, i_name varchar(24), i_price numeric(5,2), i_data varchar(50))".to_owned(),
        format!("insert into citem select i, 'item' || i, 9.99, repeat('i', 40) from generate_series(1, {ITEMS}) i"),
        "alter table citem add primary key (i_id)".to_owned(),
        "create table stock(s_w_id int not null, s_i_id int not null, s_quantity int, s_dist char(240), s_ytd int, s_order_cnt int, \
         s_data varchar(50)) with (fillfactor = 90)"
            .to_owned(),
        format!(
            "insert into stock select w, i, 50, '', 0, 0, repeat('s', 40) from generate_series(1, {WAREHOUSES}) w, \
             generate_series(1, {ITEMS}) i order by w, i"
        ),
        "alter table stock add primary key (s_w_id, s_i_id)".to_owned(),
        "create table corders(o_w_id int not null, o_d_id int not null, o_id int not null, o_c_id int, o_entry_d timestamp, o_ol_cnt int)"
            .to_owned(),
        format!(
            "insert into corders select w, d, o, o, '2000-01-01', 10 from generate_series(1, {WAREHOUSES}) w, \
             generate_series(1, 10) d, generate_series(1, {ORDERS}) o order by w, d, o"
        ),
        "alter table corders add primary key (o_w_id, o_d_id, o_id)".to_owned(),
        "create table corder_line(ol_w_id int not null, ol_d_id int not null, ol_o_id int not null, ol_number int not null, ol_i_id int, \
         ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24))"
            .to_owned(),
        format!(
            "insert into corder_line select w, d, o, n, n, 5, 0, '' from generate_series(1, {WAREHOUSES}) w, \
             generate_series(1, 10) d, generate_series(1, {ORDERS}) o, generate_series(1, 10) n order by w, d, o, n"
        ),
        "alter table corder_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)".to_owned(),
        "create table history(h_c_id int, h_c_d_id int, h_c_w_id int, h_date timestamp, h_amount numeric(6,2), h_data varchar(24))"
            .to_owned(),
        format!("insert into history select i, 1, 1, '2000-01-01', 10, 'history' from generate_series(1, {ROWS} / 10) i"),
        "create sequence line_numbers start 1000000".to_owned(),
        "vacuum freeze analyze".to_owned(),
    ]
}

/// A statement to trace.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its name in recordings.
    pub name: &'static str,
    /// Its text with `$n`, and the types of these; without, its text is sent as it is, numbers put in.
    pub prepared: Option<(&'static str, &'static str)>,
    /// How it is run: `{}` stands for one key after the other.
    pub run: &'static str,
    /// Which domain each `at` of an execution is in.
    pub axes: &'static [Axis],
    /// How often it is traced.
    pub executions: u64,
    /// It runs in a transaction of its own that the tracer opens before and ends after.
    pub in_transaction: bool,
}

/// Traced executions that one statement is replayed by.
const SAMPLES: u64 = 6;
/// Executions of the point read: some to replay, others to compare the replay with.
const POINT_SAMPLES: u64 = 18;

/// A statement that is prepared.
const fn statement(
    name: &'static str,
    types: &'static str,
    text: &'static str,
    run: &'static str,
    axes: &'static [Axis],
) -> Statement {
    Statement {
        prepared: Some((types, text)),
        ..plain(name, run, axes)
    }
}

/// One that is sent as text.
const fn plain(name: &'static str, run: &'static str, axes: &'static [Axis]) -> Statement {
    Statement {
        name,
        prepared: None,
        run,
        axes,
        executions: SAMPLES,
        in_transaction: false,
    }
}

const fn inside(statement: Statement) -> Statement {
    Statement {
        in_transaction: true,
        ..statement
    }
}

const fn times(executions: u64, statement: Statement) -> Statement {
    Statement {
        executions,
        ..statement
    }
}

/// Every statement but Best Seller.
pub const STATEMENTS: &[Statement] = &[
    times(
        POINT_SAMPLES,
        statement(
            "point",
            "int",
            "select abalance from accounts where aid = $1",
            "execute point({})",
            &[Axis::Account],
        ),
    ),
    plain(
        "point_simple",
        "select abalance from accounts where aid = {}",
        &[Axis::Account],
    ),
    statement(
        "item",
        "int",
        "select i_title, i_cost, i_stock, i_desc, a_fname, a_lname from item, author where i_a_id = a_id and i_id = $1",
        "execute item({})",
        &[Axis::Item, Axis::Author],
    ),
    statement(
        "customer",
        "int",
        "select c_fname, c_lname, c_discount from customer where c_id = $1",
        "execute customer({})",
        &[Axis::Customer],
    ),
    statement(
        "last_order",
        "int",
        "select o_id, o_total, o_status from orders where o_c_id = $1 order by o_id desc limit 1",
        "execute last_order({})",
        &[Axis::Customer, Axis::Order],
    ),
    statement(
        "item_update",
        "int",
        "update item set i_stock = i_stock - 1 where i_id = $1",
        "execute item_update({})",
        &[Axis::Item],
    ),
    times(3, plain("begin", "begin", &[])),
    times(3, inside(plain("commit", "commit", &[]))),
    inside(statement(
        "warehouse",
        "int",
        "select w_name, w_tax from warehouse where w_id = $1",
        "execute warehouse({})",
        &[Axis::Warehouse],
    )),
    inside(statement(
        "district_order",
        "int, int",
        "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 returning d_tax, d_next_o_id",
        "execute district_order({}, {})",
        &[Axis::District],
    )),
    inside(statement(
        "ccustomer",
        "int, int, int",
        "select c_last, c_credit, c_discount from ccustomer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
        "execute ccustomer({}, {}, {})",
        &[Axis::DistrictCustomer],
    )),
    inside(statement(
        "citem",
        "int",
        "select i_price, i_name, i_data from citem where i_id = $1",
        "execute citem({})",
        &[Axis::CommonItem],
    )),
    inside(statement(
        "stock_update",
        "int, int",
        "update stock set s_quantity = s_quantity - 1, s_ytd = s_ytd + 1, s_order_cnt = s_order_cnt + 1 where s_w_id = $1 and s_i_id = $2 \
         returning s_quantity, s_dist, s_data",
        "execute stock_update({}, {})",
        &[Axis::Stock],
    )),
    inside(statement(
        "order_insert",
        "int, int",
        "insert into corders select $1, $2, coalesce(max(o_id), 0) + 1, 7, '2000-01-02', 10 from corders where o_w_id = $1 and o_d_id = $2",
        "execute order_insert({}, {})",
        &[Axis::DistrictEnd],
    )),
    inside(statement(
        "line_insert",
        "int, int",
        "insert into corder_line values ($1, $2, nextval('line_numbers'), 1, 7, 5, 9.99, 'dist')",
        "execute line_insert({}, {})",
        &[Axis::DistrictEnd],
    )),
    inside(statement(
        "warehouse_payment",
        "int",
        "update warehouse set w_ytd = w_ytd + 10 where w_id = $1 returning w_name, w_street",
        "execute warehouse_payment({})",
        &[Axis::Warehouse],
    )),
    inside(statement(
        "district_payment",
        "int, int",
        "update district set d_ytd = d_ytd + 10 where d_w_id = $1 and d_id = $2 returning d_name, d_street",
        "execute district_payment({}, {})",
        &[Axis::District],
    )),
    inside(statement(
        "customer_payment",
        "int, int, int",
        "update ccustomer set c_balance = c_balance - 10, c_ytd_payment = c_ytd_payment + 10, c_payment_cnt = c_payment_cnt + 1 \
         where c_w_id = $1 and c_d_id = $2 and c_id = $3 returning c_first, c_last, c_street",
        "execute customer_payment({}, {}, {})",
        &[Axis::DistrictCustomer],
    )),
    inside(statement(
        "history_insert",
        "int, int",
        "insert into history values (7, $2, $1, '2000-01-02', 10, 'history')",
        "execute history_insert({}, {})",
        &[Axis::DistrictEnd],
    )),
];

/// Best Seller, over the last orders. It is cut at its visits to [`BEST_SELLER_CUT`]'s root, one for each order line.
pub const BEST_SELLER: &str = "best_seller";
/// The index whose root each step of Best Seller begins at.
pub const BEST_SELLER_CUT: &str = "item_pkey";

/// Best Seller's text.
pub fn best_seller() -> String {
    format!(
        "select i_id, i_title, a_fname, a_lname from item, author, order_line where item.i_id = order_line.ol_i_id and \
         item.i_a_id = author.a_id and order_line.ol_o_id > (select max(o_id) - {RECENT} from orders) and item.i_subject = 'subject7' \
         group by i_id, i_title, a_fname, a_lname order by sum(ol_qty) desc limit 50"
    )
}

/// The keys of the `nth` of `all` executions, as numbers for the text and as positions for the recording.
pub fn keys(axes: &[Axis], nth: u64, all: u64) -> (Vec<u64>, Vec<(Axis, f64)>) {
    // The golden ratio's fraction: positions lie evenly, and away from where pages of any size begin.
    let at = ((nth as f64 + 0.5) / all as f64 + 0.618_033_988 / (all as f64 + 1.0)).fract();
    let key = |rows: u64| ((at * rows as f64) as u64).min(rows - 1);
    let position = |row: u64, rows: u64| (row as f64 + 0.5) / rows as f64;
    let mut numbers = Vec::new();
    let mut positions = Vec::new();
    for (which, axis) in axes.iter().enumerate() {
        // A key counted from 1.
        let one = |rows: u64| (vec![key(rows) + 1], position(key(rows), rows));
        // A district by its warehouse and its number there.
        let of_district = |district: u64| vec![district / 10 + 1, district % 10 + 1];
        let (of_text, at) = match axis {
            Axis::Account | Axis::Item | Axis::Customer => one(ROWS),
            Axis::Warehouse => one(WAREHOUSES),
            Axis::CommonItem => one(ITEMS),
            // Led to by the key before.
            Axis::Author => {
                let author = permuted(key(ROWS) + 1, 7919, AUTHORS);
                (Vec::new(), position(author, AUTHORS))
            }
            Axis::Order => {
                // The order o with (o * 7919) mod ROWS + 1 = customer.
                let customer = key(ROWS) + 1;
                let order = (1..=ROWS).find(|&order| permuted(order, 7919, ROWS) + 1 == customer);
                (Vec::new(), position(order.unwrap_or(1) - 1, ROWS))
            }
            Axis::District | Axis::DistrictEnd => {
                let district = key(WAREHOUSES * 10);
                let within = if *axis == Axis::District { 0.5 } else { 1.0 - 1e-6 };
                let at = (district as f64 + within) / (WAREHOUSES * 10) as f64;
                (of_district(district), at)
            }
            Axis::DistrictCustomer => {
                let all = WAREHOUSES * 10 * CUSTOMERS;
                let mut keys = of_district(key(all) / CUSTOMERS);
                keys.push(key(all) % CUSTOMERS + 1);
                (keys, position(key(all), all))
            }
            Axis::Stock => {
                let stock = key(WAREHOUSES * ITEMS);
                let keys = vec![stock / ITEMS + 1, stock % ITEMS + 1];
                (keys, position(stock, WAREHOUSES * ITEMS))
            }
            Axis::LineScan | Axis::Tail => (Vec::new(), position(which as u64, 1000)),
        };
        numbers.extend(of_text);
        positions.push(at);
    }
    (numbers, axes.iter().copied().zip(positions).collect())
}
