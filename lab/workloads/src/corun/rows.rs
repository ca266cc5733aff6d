//! Rows of TPC-C to and from rows of the store.

use corun_store::{RowBuf, RowError, RowRef, Value};

use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::TableName;
use crate::tpcc::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, Warehouse,
};

/// Sets columns one after the other.
struct Filler<'a> {
    buffer: &'a mut RowBuf,
    column: usize,
}

impl Filler<'_> {
    fn put<'v>(&mut self, value: impl Into<Value<'v>>) -> Result<&mut Self, RowError> {
        self.buffer.set(self.column, value)?;
        self.column += 1;
        Ok(self)
    }

    fn address(&mut self, address: &Address) -> Result<&mut Self, RowError> {
        self.put(address.street_1.as_str())?
            .put(address.street_2.as_str())?
            .put(address.city.as_str())?
            .put(address.state.as_str())?
            .put(address.zip.as_str())
    }
}

/// Fills `buffer`, a row of the same table. `history` is the key of a row of `history`.
pub(super) fn fill(row: &Row, history: i64, buffer: &mut RowBuf) -> Result<(), RowError> {
    buffer.clear();
    let mut to = Filler { buffer, column: 0 };
    match row {
        Row::Warehouse(row) => to
            .put(row.id)?
            .put(row.name.as_str())?
            .address(&row.address)?
            .put(row.tax)?
            .put(row.ytd)?,
        Row::District(row) => to
            .put(row.warehouse)?
            .put(row.id)?
            .put(row.name.as_str())?
            .address(&row.address)?
            .put(row.tax)?
            .put(row.ytd)?
            .put(row.next_order)?,
        Row::Customer(row) => to
            .put(row.warehouse)?
            .put(row.district)?
            .put(row.id)?
            .put(row.first.as_str())?
            .put(row.middle.as_str())?
            .put(row.last.as_str())?
            .address(&row.address)?
            .put(row.phone.as_str())?
            .put(row.since)?
            .put(row.credit.as_str())?
            .put(row.credit_limit)?
            .put(row.discount)?
            .put(row.balance)?
            .put(row.ytd_payment)?
            .put(row.payments)?
            .put(row.deliveries)?
            .put(row.data.as_str())?,
        Row::History(row) => to
            .put(history)?
            .put(row.customer_warehouse)?
            .put(row.customer_district)?
            .put(row.customer)?
            .put(row.warehouse)?
            .put(row.district)?
            .put(row.date)?
            .put(row.amount)?
            .put(row.data.as_str())?,
        Row::NewOrder(row) => to.put(row.warehouse)?.put(row.district)?.put(row.order)?,
        Row::Order(row) => to
            .put(row.warehouse)?
            .put(row.district)?
            .put(row.id)?
            .put(row.customer)?
            .put(row.entry)?
            .put(row.carrier)?
            .put(row.lines)?
            .put(row.all_local)?,
        Row::OrderLine(row) => to
            .put(row.warehouse)?
            .put(row.district)?
            .put(row.order)?
            .put(row.number)?
            .put(row.item)?
            .put(row.supply_warehouse)?
            .put(row.delivery)?
            .put(row.quantity)?
            .put(row.amount)?
            .put(row.district_info.as_str())?,
        Row::Item(row) => to
            .put(row.id)?
            .put(row.image)?
            .put(row.name.as_str())?
            .put(row.price)?
            .put(row.data.as_str())?,
        Row::Stock(row) => {
            to.put(row.warehouse)?.put(row.item)?.put(row.quantity)?;
            for text in &row.districts {
                to.put(text.as_str())?;
            }
            to.put(row.ytd)?
                .put(row.orders)?
                .put(row.remotes)?
                .put(row.data.as_str())?
        }
    };
    Ok(())
}

/// An integer column, of a type that holds it.
pub(super) fn int<T: TryFrom<i64>>(row: RowRef<'_>, column: usize) -> Result<T, TxError> {
    let value = row.int(column);
    T::try_from(value).map_err(|_| TxError::failed(format!("column {column} holds {value}, beyond its type")))
}

/// An integer column that may be NULL.
pub(super) fn int_or_null<T: TryFrom<i64>>(row: RowRef<'_>, column: usize) -> Result<Option<T>, TxError> {
    if row.is_null(column) {
        Ok(None)
    } else {
        int(row, column).map(Some)
    }
}

/// A text column.
pub(super) fn text<const MAX: usize>(row: RowRef<'_>, column: usize) -> Result<Text<MAX>, TxError> {
    Ok(Text::from_bytes(row.bytes(column))?)
}

/// The five columns of an address.
pub(super) fn address(row: RowRef<'_>, first: usize) -> Result<Address, TxError> {
    Ok(Address {
        street_1: text(row, first)?,
        street_2: text(row, first + 1)?,
        city: text(row, first + 2)?,
        state: text(row, first + 3)?,
        zip: text(row, first + 4)?,
    })
}

/// Reads columns one after the other.
struct Reader<'a> {
    row: RowRef<'a>,
    column: usize,
}

impl Reader<'_> {
    fn step(&mut self, columns: usize) -> usize {
        let column = self.column;
        self.column += columns;
        column
    }

    fn int<T: TryFrom<i64>>(&mut self) -> Result<T, TxError> {
        let column = self.step(1);
        int(self.row, column)
    }

    fn int_or_null<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, TxError> {
        let column = self.step(1);
        int_or_null(self.row, column)
    }

    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let column = self.step(1);
        text(self.row, column)
    }

    fn address(&mut self) -> Result<Address, TxError> {
        let column = self.step(5);
        address(self.row, column)
    }
}

/// The row of a table as TPC-C has it.
pub(super) fn read(table: TableName, row: RowRef<'_>) -> Result<Row, TxError> {
    let mut from = Reader { row, column: 0 };
    Ok(match table {
        TableName::Warehouse => Row::Warehouse(Warehouse {
            id: from.int()?,
            name: from.text()?,
            address: from.address()?,
            tax: from.int()?,
            ytd: from.int()?,
        }),
        TableName::District => Row::District(District {
            warehouse: from.int()?,
            id: from.int()?,
            name: from.text()?,
            address: from.address()?,
            tax: from.int()?,
            ytd: from.int()?,
            next_order: from.int()?,
        }),
        TableName::Customer => Row::Customer(Customer {
            warehouse: from.int()?,
            district: from.int()?,
            id: from.int()?,
            first: from.text()?,
            middle: from.text()?,
            last: from.text()?,
            address: from.address()?,
            phone: from.text()?,
            since: from.int()?,
            credit: from.text()?,
            credit_limit: from.int()?,
            discount: from.int()?,
            balance: from.int()?,
            ytd_payment: from.int()?,
            payments: from.int()?,
            deliveries: from.int()?,
            data: from.text()?,
        }),
        TableName::History => {
            from.step(1);
            Row::History(History {
                customer_warehouse: from.int()?,
                customer_district: from.int()?,
                customer: from.int()?,
                warehouse: from.int()?,
                district: from.int()?,
                date: from.int()?,
                amount: from.int()?,
                data: from.text()?,
            })
        }
        TableName::NewOrder => Row::NewOrder(NewOrder {
            warehouse: from.int()?,
            district: from.int()?,
            order: from.int()?,
        }),
        TableName::Orders => Row::Order(Order {
            warehouse: from.int()?,
            district: from.int()?,
            id: from.int()?,
            customer: from.int()?,
            entry: from.int()?,
            carrier: from.int_or_null()?,
            lines: from.int()?,
            all_local: {
                let column = from.step(1);
                row.boolean(column)
            },
        }),
        TableName::OrderLine => Row::OrderLine(OrderLine {
            warehouse: from.int()?,
            district: from.int()?,
            order: from.int()?,
            number: from.int()?,
            item: from.int()?,
            supply_warehouse: from.int()?,
            delivery: from.int_or_null()?,
            quantity: from.int()?,
            amount: from.int()?,
            district_info: from.text()?,
        }),
        TableName::Item => Row::Item(Item {
            id: from.int()?,
            image: from.int()?,
            name: from.text()?,
            price: from.int()?,
            data: from.text()?,
        }),
        TableName::Stock => {
            let mut stock = Stock {
                warehouse: from.int()?,
                item: from.int()?,
                quantity: from.int()?,
                ..Stock::default()
            };
            for text in &mut stock.districts {
                *text = from.text()?;
            }
            stock.ytd = from.int()?;
            stock.orders = from.int()?;
            stock.remotes = from.int()?;
            stock.data = from.text()?;
            Row::Stock(stock)
        }
    })
}
