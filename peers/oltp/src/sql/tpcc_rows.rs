//! Rows of TPC-C into SQL and out of it again: the packing of keys, and the order of the columns.

use corun_workloads::engine::TxError;
use corun_workloads::text::Text;
use corun_workloads::tpcc::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, TableName, Warehouse,
};

use super::tpcc::address;
use super::{Columns, Statement, bind, schema, statements};

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

impl<S: Statement> Inserts<S> {
    /// Inserts any row.
    pub(super) fn row(&mut self, row: &Row) -> Result<(), TxError> {
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
                self.warehouse.execute(bind![
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
                self.district.execute(bind![
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
                self.customer.execute(bind![
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
            Row::History(row) => self.history.execute(bind![
                None::<i64>,
                schema::in_district(row.customer_warehouse, row.customer_district, row.customer),
                schema::district(row.warehouse, row.district),
                row.date,
                row.amount,
                row.data.as_str(),
            ]),
            Row::NewOrder(row) => {
                self.new_order
                    .execute(bind![schema::in_district(row.warehouse, row.district, row.order)])
            }
            Row::Order(row) => self.orders.execute(bind![
                schema::in_district(row.warehouse, row.district, row.id),
                schema::in_district(row.warehouse, row.district, row.customer),
                row.carrier,
                row.lines,
                row.all_local,
                row.entry,
            ]),
            Row::OrderLine(row) => self.order_line.execute(bind![
                schema::lines(schema::in_district(row.warehouse, row.district, row.order)).0
                    + i64::from(row.number),
                row.item,
                row.supply_warehouse,
                row.quantity,
                row.amount,
                row.delivery,
                row.district_info.as_str(),
            ]),
            Row::Item(row) => self.item.execute(bind![
                row.id,
                row.price,
                row.name.as_str(),
                row.image,
                row.data.as_str(),
            ]),
            Row::Stock(row) => {
                let [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10] = row.districts.each_ref().map(Text::as_str);
                self.stock.execute(bind![
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
pub(super) fn row(table: TableName, sql: &impl Columns) -> Result<Row, TxError> {
    let key: i64 = sql.get(0)?;
    Ok(match table {
        TableName::Warehouse => Row::Warehouse(Warehouse {
            id: key as i16,
            ytd: sql.get(1)?,
            tax: sql.get(2)?,
            name: sql.text(3)?,
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
                name: sql.text(4)?,
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
                credit: sql.text(8)?,
                first: sql.text(9)?,
                middle: sql.text(10)?,
                last: sql.text(11)?,
                address: address(sql, 12)?,
                phone: sql.text(17)?,
                since: sql.get(18)?,
                data: sql.text(19)?,
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
                data: sql.text(5)?,
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
                carrier: sql.get_or_null(2)?,
                lines: sql.get(3)?,
                all_local: sql.get::<i64>(4)? != 0,
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
                delivery: sql.get_or_null(5)?,
                district_info: sql.text(6)?,
            })
        }
        TableName::Item => Row::Item(Item {
            id: key as i32,
            price: sql.get(1)?,
            name: sql.text(2)?,
            image: sql.get(3)?,
            data: sql.text(4)?,
        }),
        TableName::Stock => {
            let mut districts = [Text::default(); 10];
            for (column, info) in (6..).zip(&mut districts) {
                *info = sql.text(column)?;
            }
            Row::Stock(Stock {
                warehouse: (key >> 32) as i16,
                item: key as i32,
                quantity: sql.get(1)?,
                ytd: sql.get(2)?,
                orders: sql.get(3)?,
                remotes: sql.get(4)?,
                data: sql.text(5)?,
                districts,
            })
        }
    })
}
