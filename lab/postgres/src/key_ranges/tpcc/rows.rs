//! Rows of TPC-C to and from PostgreSQL's text: lines of `copy`, and the columns of an answer.

use std::fmt::{Display, Write};
use std::str::FromStr;

use corun_workloads::engine::TxError;
use corun_workloads::text::Text;
use corun_workloads::tpcc::TableName;
use corun_workloads::tpcc::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, Warehouse,
};

/// Writes columns one after the other. Texts of the population hold no tabs, line feeds or backslashes.
struct Line<'t> {
    text: &'t mut String,
    first: bool,
}

impl Line<'_> {
    fn put(&mut self, value: impl Display) -> &mut Self {
        if !self.first {
            self.text.push('\t');
        }
        self.first = false;
        // Writing into a text cannot fail.
        let _ = write!(self.text, "{value}");
        self
    }

    fn maybe(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.put(value),
            None => self.put("\\N"),
        }
    }

    fn address(&mut self, address: &Address) -> &mut Self {
        self.put(address.street_1)
            .put(address.street_2)
            .put(address.city)
            .put(address.state)
            .put(address.zip)
    }
}

/// Adds a row as a line of `copy`.
pub fn write(row: &Row, text: &mut String) {
    let mut line = Line { text, first: true };
    match row {
        Row::Warehouse(row) => {
            line.put(row.id).put(row.name).address(&row.address);
            line.put(row.tax).put(row.ytd);
        }
        Row::District(row) => {
            line.put(row.warehouse).put(row.id).put(row.name);
            line.address(&row.address);
            line.put(row.tax).put(row.ytd).put(row.next_order);
        }
        Row::Customer(row) => {
            line.put(row.warehouse).put(row.district).put(row.id);
            line.put(row.first).put(row.middle).put(row.last);
            line.address(&row.address).put(row.phone).put(row.since);
            line.put(row.credit).put(row.credit_limit).put(row.discount);
            line.put(row.balance).put(row.ytd_payment).put(row.payments);
            line.put(row.deliveries).put(row.data);
        }
        Row::History(row) => {
            line.put(row.customer_warehouse)
                .put(row.customer_district)
                .put(row.customer);
            line.put(row.warehouse).put(row.district).put(row.date);
            line.put(row.amount).put(row.data);
        }
        Row::NewOrder(row) => {
            line.put(row.warehouse).put(row.district).put(row.order);
        }
        Row::Order(row) => {
            line.put(row.warehouse)
                .put(row.district)
                .put(row.id)
                .put(row.customer);
            line.put(row.entry).maybe(row.carrier).put(row.lines);
            line.put(row.all_local);
        }
        Row::OrderLine(row) => {
            line.put(row.warehouse)
                .put(row.district)
                .put(row.order)
                .put(row.number);
            line.put(row.item).put(row.supply_warehouse).maybe(row.delivery);
            line.put(row.quantity).put(row.amount).put(row.district_info);
        }
        Row::Item(row) => {
            line.put(row.id)
                .put(row.image)
                .put(row.name)
                .put(row.price)
                .put(row.data);
        }
        Row::Stock(row) => {
            line.put(row.warehouse).put(row.item).put(row.quantity);
            for info in &row.districts {
                line.put(info);
            }
            line.put(row.ytd).put(row.orders).put(row.remotes).put(row.data);
        }
    }
    text.push('\n');
}

/// Reads the columns of an answer one after the other.
pub struct Columns<'r> {
    values: std::slice::Iter<'r, Option<String>>,
}

impl<'r> Columns<'r> {
    /// From the first column on.
    pub fn of(row: &'r [Option<String>]) -> Columns<'r> {
        Columns { values: row.iter() }
    }

    /// The next column as it is; `None` for NULL.
    fn next(&mut self) -> Result<Option<&'r str>, TxError> {
        let value = self.values.next();
        value
            .map(|value| value.as_deref())
            .ok_or_else(|| TxError::failed("a row with fewer columns than asked for"))
    }

    /// The next column, which must be a number.
    pub fn number<T: FromStr>(&mut self) -> Result<T, TxError> {
        let text = self.next()?;
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| TxError::failed(format!("{text:?} is not the number asked for")))
    }

    /// The next column, a number or NULL.
    pub fn maybe<T: FromStr>(&mut self) -> Result<Option<T>, TxError> {
        match self.next()? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| TxError::failed(format!("\"{text}\" is not the number asked for"))),
        }
    }

    /// The next column, which must be a text that fits.
    pub fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let text = self.next()?;
        let text = text.ok_or_else(|| TxError::failed("NULL where a text was asked for"))?;
        Ok(Text::new(text)?)
    }

    /// The next column, true or false.
    pub fn flag(&mut self) -> Result<bool, TxError> {
        Ok(self.next()? == Some("t"))
    }

    /// The next five columns.
    pub fn address(&mut self) -> Result<Address, TxError> {
        Ok(Address {
            street_1: self.text()?,
            street_2: self.text()?,
            city: self.text()?,
            state: self.text()?,
            zip: self.text()?,
        })
    }
}

/// A row of a table from its columns.
///
/// # Errors
/// When a column is not what it must be.
pub fn read(table: TableName, row: &[Option<String>]) -> Result<Row, TxError> {
    let from = &mut Columns::of(row);
    Ok(match table {
        TableName::Warehouse => Row::Warehouse(Warehouse {
            id: from.number()?,
            name: from.text()?,
            address: from.address()?,
            tax: from.number()?,
            ytd: from.number()?,
        }),
        TableName::District => Row::District(District {
            warehouse: from.number()?,
            id: from.number()?,
            name: from.text()?,
            address: from.address()?,
            tax: from.number()?,
            ytd: from.number()?,
            next_order: from.number()?,
        }),
        TableName::Customer => Row::Customer(Customer {
            warehouse: from.number()?,
            district: from.number()?,
            id: from.number()?,
            first: from.text()?,
            middle: from.text()?,
            last: from.text()?,
            address: from.address()?,
            phone: from.text()?,
            since: from.number()?,
            credit: from.text()?,
            credit_limit: from.number()?,
            discount: from.number()?,
            balance: from.number()?,
            ytd_payment: from.number()?,
            payments: from.number()?,
            deliveries: from.number()?,
            data: from.text()?,
        }),
        TableName::History => Row::History(History {
            customer_warehouse: from.number()?,
            customer_district: from.number()?,
            customer: from.number()?,
            warehouse: from.number()?,
            district: from.number()?,
            date: from.number()?,
            amount: from.number()?,
            data: from.text()?,
        }),
        TableName::NewOrder => Row::NewOrder(NewOrder {
            warehouse: from.number()?,
            district: from.number()?,
            order: from.number()?,
        }),
        TableName::Orders => Row::Order(Order {
            warehouse: from.number()?,
            district: from.number()?,
            id: from.number()?,
            customer: from.number()?,
            entry: from.number()?,
            carrier: from.maybe()?,
            lines: from.number()?,
            all_local: from.flag()?,
        }),
        TableName::OrderLine => Row::OrderLine(OrderLine {
            warehouse: from.number()?,
            district: from.number()?,
            order: from.number()?,
            number: from.number()?,
            item: from.number()?,
            supply_warehouse: from.number()?,
            delivery: from.maybe()?,
            quantity: from.number()?,
            amount: from.number()?,
            district_info: from.text()?,
        }),
        TableName::Item => Row::Item(Item {
            id: from.number()?,
            image: from.number()?,
            name: from.text()?,
            price: from.number()?,
            data: from.text()?,
        }),
        TableName::Stock => {
            let (warehouse, item, quantity) = (from.number()?, from.number()?, from.number()?);
            let mut districts = [Text::default(); 10];
            for info in &mut districts {
                *info = from.text()?;
            }
            Row::Stock(Stock {
                warehouse,
                item,
                quantity,
                districts,
                ytd: from.number()?,
                orders: from.number()?,
                remotes: from.number()?,
                data: from.text()?,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::schema::columns;
    use super::*;
    use corun_workloads::tpcc::{Rows, Scale};

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let scale = Scale::hundredth(1);
        for row in Rows::part(scale, 1, 0).chain(Rows::part(scale, 1, 1)) {
            let mut line = String::new();
            write(&row, &mut line);
            let values: Vec<Option<String>> = line
                .trim_end_matches('\n')
                .split('\t')
                .map(|value| (value != "\\N").then(|| value.to_owned()))
                // What PostgreSQL shows of a truth value.
                .map(|value| {
                    value.map(|value| match value.as_str() {
                        "true" => "t".to_owned(),
                        "false" => "f".to_owned(),
                        _ => value,
                    })
                })
                .collect();
            assert_eq!(values.len(), columns(row.table()).len(), "{}", row.table());
            assert_eq!(read(row.table(), &values), Ok(row));
        }
    }

    #[test]
    fn what_is_no_row_is_an_error() {
        assert!(read(TableName::NewOrder, &[]).is_err());
        let row = |last: Option<&str>| {
            let value = |text: &str| Some(text.to_owned());
            vec![value("1"), value("2"), last.map(str::to_owned)]
        };
        assert!(read(TableName::NewOrder, &row(Some("3"))).is_ok());
        assert!(read(TableName::NewOrder, &row(Some("x"))).is_err());
        assert!(read(TableName::NewOrder, &row(None)).is_err());
    }
}
