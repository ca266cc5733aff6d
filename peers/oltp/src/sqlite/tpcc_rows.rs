//! Rows of TPC-C into SQLite and out of it again: the packing of keys, and the order of the columns.

use corun_workloads::text::Text;
use corun_workloads::tpcc::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, TableName, Warehouse,
};
use rusqlite::{Connection, Row as SqlRow, params};

use super::schema;
use super::session::statements;
use super::tpcc::{address, text};

statements! {
    /// One insert for each table, values in the order of its columns.
    Inserts {
        warehouse = "insert into warehouse values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        district = "insert into district values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        customer = "insert into customer values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
            ?19, ?20)";
        history = "insert into history values (?1, ?2, ?3, ?4, ?5, ?6)";
        new_order = "insert into new_order values (?1)";
        orders = "insert into orders values (?1, ?2, ?3, ?4, ?5, ?6)";
        order_line = "insert into order_line values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        item = "insert into item values (?1, ?2, ?3, ?4, ?5)";
        stock = "insert into stock values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    }
}

impl Inserts {
    /// Inserts any row.
    pub(super) fn row(&mut self, row: &Row) -> rusqlite::Result<()> {
        fn parts(address: &Address) -> [&str; 5] {
            let Address {
                street_1,
                street_2,
                city,
                state,
                zip,
            } = address;
            [
                street_1.as_str(),
                street_2.as_str(),
                city.as_str(),
                state.as_str(),
                zip.as_str(),
            ]
        }
        match row {
            Row::Warehouse(row) => {
                let [street_1, street_2, city, state, zip] = parts(&row.address);
                self.warehouse.execute(params![
                    row.id,
                    row.ytd,
                    row.tax,
                    row.name.as_str(),
                    street_1,
                    street_2,
                    city,
                    state,
                    zip,
                ])
            }
            Row::District(row) => {
                let [street_1, street_2, city, state, zip] = parts(&row.address);
                self.district.execute(params![
                    schema::district(row.warehouse, row.id),
                    row.next_order,
                    row.ytd,
                    row.tax,
                    row.name.as_str(),
                    street_1,
                    street_2,
                    city,
                    state,
                    zip,
                ])
            }
            Row::Customer(row) => {
                let [street_1, street_2, city, state, zip] = parts(&row.address);
                self.customer.execute(params![
                    schema::in_district(row.warehouse, row.district, row.id),
                    schema::district(row.warehouse, row.district),
                    row.balance,
                    row.ytd_payment,
                    row.payments,
                    row.deliveries,
                    row.discount,
                    row.credit_limit,
                    row.credit.as_str(),
                    row.first.as_str(),
                    row.middle.as_str(),
                    row.last.as_str(),
                    street_1,
                    street_2,
                    city,
                    state,
                    zip,
                    row.phone.as_str(),
                    row.since,
                    row.data.as_str(),
                ])
            }
            Row::History(row) => self.history.execute(params![
                None::<i64>,
                schema::in_district(row.customer_warehouse, row.customer_district, row.customer),
                schema::district(row.warehouse, row.district),
                row.date,
                row.amount,
                row.data.as_str(),
            ]),
            Row::NewOrder(row) => {
                self.new_order
                    .execute((schema::in_district(row.warehouse, row.district, row.order),))
            }
            Row::Order(row) => self.orders.execute(params![
                schema::in_district(row.warehouse, row.district, row.id),
                schema::in_district(row.warehouse, row.district, row.customer),
                row.carrier,
                row.lines,
                row.all_local,
                row.entry,
            ]),
            Row::OrderLine(row) => self.order_line.execute(params![
                schema::lines(schema::in_district(row.warehouse, row.district, row.order)).0
                    + i64::from(row.number),
                row.item,
                row.supply_warehouse,
                row.quantity,
                row.amount,
                row.delivery,
                row.district_info.as_str(),
            ]),
            Row::Item(row) => self.item.execute(params![
                row.id,
                row.price,
                row.name.as_str(),
                row.image,
                row.data.as_str(),
            ]),
            Row::Stock(row) => {
                let [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10] = row.districts.each_ref().map(Text::as_str);
                self.stock.execute(params![
                    schema::stock(row.warehouse, row.item),
                    row.quantity,
                    row.ytd,
                    row.orders,
                    row.remotes,
                    row.data.as_str(),
                    d1,
                    d2,
                    d3,
                    d4,
                    d5,
                    d6,
                    d7,
                    d8,
                    d9,
                    d10,
                ])
            }
        }
        .map(|_| ())
    }
}

/// Warehouse and district of a district's key.
fn district(key: i64) -> (i16, i8) {
    ((key >> 4) as i16, (key & 15) as i8)
}

/// Warehouse, district and number of a customer's or order's key.
fn in_district(key: i64) -> (i16, i8, i32) {
    let (w, d) = district(key >> 32);
    (w, d, key as i32)
}

/// A row of `table` from all its columns, in their order.
fn row(table: TableName, sql: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let key: i64 = sql.get(0)?;
    Ok(match table {
        TableName::Warehouse => Row::Warehouse(Warehouse {
            id: key as i16,
            ytd: sql.get(1)?,
            tax: sql.get(2)?,
            name: text(sql, 3)?,
            address: address(sql, 4)?,
        }),
        TableName::District => {
            let (warehouse, id) = district(key);
            Row::District(District {
                warehouse,
                id,
                next_order: sql.get(1)?,
                ytd: sql.get(2)?,
                tax: sql.get(3)?,
                name: text(sql, 4)?,
                address: address(sql, 5)?,
            })
        }
        TableName::Customer => {
            let (warehouse, district, id) = in_district(key);
            Row::Customer(Customer {
                warehouse,
                district,
                id,
                balance: sql.get(2)?,
                ytd_payment: sql.get(3)?,
                payments: sql.get(4)?,
                deliveries: sql.get(5)?,
                discount: sql.get(6)?,
                credit_limit: sql.get(7)?,
                credit: text(sql, 8)?,
                first: text(sql, 9)?,
                middle: text(sql, 10)?,
                last: text(sql, 11)?,
                address: address(sql, 12)?,
                phone: text(sql, 17)?,
                since: sql.get(18)?,
                data: text(sql, 19)?,
            })
        }
        TableName::History => {
            let (customer_warehouse, customer_district, customer) = in_district(sql.get(1)?);
            let (warehouse, district) = district(sql.get(2)?);
            Row::History(History {
                customer_warehouse,
                customer_district,
                customer,
                warehouse,
                district,
                date: sql.get(3)?,
                amount: sql.get(4)?,
                data: text(sql, 5)?,
            })
        }
        TableName::NewOrder => {
            let (warehouse, district, order) = in_district(key);
            Row::NewOrder(NewOrder {
                warehouse,
                district,
                order,
            })
        }
        TableName::Orders => {
            let (warehouse, district, id) = in_district(key);
            Row::Order(Order {
                warehouse,
                district,
                id,
                customer: in_district(sql.get(1)?).2,
                carrier: sql.get(2)?,
                lines: sql.get(3)?,
                all_local: sql.get(4)?,
                entry: sql.get(5)?,
            })
        }
        TableName::OrderLine => {
            let (warehouse, district, order) = in_district(key >> 4);
            Row::OrderLine(OrderLine {
                warehouse,
                district,
                order,
                number: (key & 15) as i8,
                item: sql.get(1)?,
                supply_warehouse: sql.get(2)?,
                quantity: sql.get(3)?,
                amount: sql.get(4)?,
                delivery: sql.get(5)?,
                district_info: text(sql, 6)?,
            })
        }
        TableName::Item => Row::Item(Item {
            id: key as i32,
            price: sql.get(1)?,
            name: text(sql, 2)?,
            image: sql.get(3)?,
            data: text(sql, 4)?,
        }),
        TableName::Stock => {
            let mut districts = [Text::default(); 10];
            for (column, info) in (6..).zip(&mut districts) {
                *info = text(sql, column)?;
            }
            Row::Stock(Stock {
                warehouse: (key >> 32) as i16,
                item: key as i32,
                quantity: sql.get(1)?,
                ytd: sql.get(2)?,
                orders: sql.get(3)?,
                remotes: sql.get(4)?,
                data: text(sql, 5)?,
                districts,
            })
        }
    })
}

/// Calls `each` with all rows of a table.
pub(super) fn visit(
    connection: &Connection,
    table: TableName,
    each: &mut dyn FnMut(&Row),
) -> rusqlite::Result<()> {
    let mut all = connection.prepare(&format!("select * from {table}"))?;
    let mut rows = all.query(())?;
    while let Some(sql) = rows.next()? {
        each(&row(table, sql)?);
    }
    Ok(())
}
