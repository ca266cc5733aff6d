//! Values of rows in a key-value store, and rows from keys and values.
//!
//! The columns of the key are not repeated in the value. A value begins with the columns that transactions change, at fixed
//! places ([`stock`], [`customer`], ... hold them), so that a change is made in place, without taking the row apart:
//!
//! ```text
//! customer  | balance 8 | ytd_payment 8 | payments 4 | deliveries 4 | limit 8 | since 8 | discount 2 | texts ... data |
//! stock     | quantity 4 | ytd 8 | orders 4 | remotes 4 | 10 x (length 2, 24) | data |
//! district  | next_order 4 | ytd 8 | tax 2 | texts ... |
//! warehouse | ytd 8 | tax 2 | texts ... |
//! order     | carrier 1 | customer 4 | entry 8 | lines 1 | all_local 1 |
//! line      | delivery 8 | amount 8 | item 4 | supply 2 | quantity 1 | district_info |
//! ```
//!
//! Integers of values are little-endian; a text is its length in two bytes and its bytes. NULL is the smallest integer.

use super::key::{
    customer_order_key, district_key, full_name_key, history_key, item_key, line_key, number_key, stock_key,
    warehouse_key,
};
use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::TableName;
use crate::tpcc::row::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Row, Stock, Warehouse,
};

/// Places in a warehouse's value.
pub(super) mod warehouse {
    pub const YTD: usize = 0;
    pub const TAX: usize = 8;
}

/// Places in a district's value.
pub(super) mod district {
    pub const NEXT_ORDER: usize = 0;
    pub const YTD: usize = 4;
    pub const TAX: usize = 12;
}

/// Places in a customer's value.
pub(super) mod customer {
    pub const BALANCE: usize = 0;
    pub const YTD_PAYMENT: usize = 8;
    pub const PAYMENTS: usize = 16;
    pub const DELIVERIES: usize = 20;
}

/// Places in a stock's value.
pub(super) mod stock {
    pub const QUANTITY: usize = 0;
    pub const YTD: usize = 4;
    pub const ORDERS: usize = 12;
    pub const REMOTES: usize = 16;
    pub const DISTRICTS: usize = 20;
    /// Every district's text has room for 24 characters.
    pub const DISTRICT_BYTES: usize = 2 + 24;
    pub const DATA: usize = DISTRICTS + 10 * DISTRICT_BYTES;
}

/// Places in an order's value.
pub(super) mod order {
    pub const CARRIER: usize = 0;
    pub const CUSTOMER: usize = 1;
}

/// Places in an order line's value.
pub(super) mod line {
    pub const DELIVERY: usize = 0;
    pub const AMOUNT: usize = 8;
    pub const ITEM: usize = 16;
}

/// Integers at a place of a value. All are of the types rows have; a place beyond the value is an error.
pub(super) trait Integer: Sized {
    fn read(value: &[u8], at: usize) -> Result<Self, TxError>;
    fn write(self, value: &mut [u8], at: usize) -> Result<(), TxError>;
    fn push(self, value: &mut Vec<u8>);
    fn push_key(self, key: &mut Vec<u8>);
    fn read_key(key: &[u8], at: usize) -> Result<Self, TxError>;
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Integer for $type {
            fn read(value: &[u8], at: usize) -> Result<Self, TxError> {
                let bytes = value.get(at..).and_then(|rest| rest.first_chunk());
                bytes.map(|bytes| Self::from_le_bytes(*bytes)).ok_or_else(damaged)
            }

            fn write(self, value: &mut [u8], at: usize) -> Result<(), TxError> {
                let place = value.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
                *place.ok_or_else(damaged)? = self.to_le_bytes();
                Ok(())
            }

            fn push(self, value: &mut Vec<u8>) {
                value.extend_from_slice(&self.to_le_bytes());
            }

            fn push_key(self, key: &mut Vec<u8>) {
                key.extend_from_slice(&self.to_be_bytes());
            }

            fn read_key(key: &[u8], at: usize) -> Result<Self, TxError> {
                let bytes = key.get(at..).and_then(|rest| rest.first_chunk());
                bytes.map(|bytes| Self::from_be_bytes(*bytes)).ok_or_else(damaged)
            }
        }
    )*};
}
integer!(i8, i16, i32, i64, u32, u64);

pub(super) fn damaged() -> TxError {
    TxError::failed("a stored row is shorter than its columns: it was not written by this version")
}

/// Adds to the integer at a place.
pub(super) fn add<T: Integer + std::ops::Add<Output = T>>(
    value: &mut [u8],
    at: usize,
    by: T,
) -> Result<(), TxError> {
    (T::read(value, at)? + by).write(value, at)
}

/// The text at a place.
pub(super) fn text_at(value: &[u8], at: usize) -> Result<&[u8], TxError> {
    let length = i16::read(value, at)? as usize;
    value.get(at + 2..at + 2 + length).ok_or_else(damaged)
}

fn push_text<const MAX: usize>(value: &mut Vec<u8>, text: &Text<MAX>) {
    (text.len() as i16).push(value);
    value.extend_from_slice(text.as_bytes());
}

fn push_address(value: &mut Vec<u8>, address: &Address) {
    push_text(value, &address.street_1);
    push_text(value, &address.street_2);
    push_text(value, &address.city);
    push_text(value, &address.state);
    push_text(value, &address.zip);
}

/// Reads the columns of a value one after the other.
struct Reader<'a> {
    value: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn next<T: Integer>(&mut self) -> Result<T, TxError> {
        let integer = T::read(self.value, self.at)?;
        self.at += size_of::<T>();
        Ok(integer)
    }

    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let bytes = text_at(self.value, self.at)?;
        self.at += 2 + bytes.len();
        Ok(Text::from_bytes(bytes)?)
    }

    fn address(&mut self) -> Result<Address, TxError> {
        Ok(Address {
            street_1: self.text()?,
            street_2: self.text()?,
            city: self.text()?,
            state: self.text()?,
            zip: self.text()?,
        })
    }
}

/// Writes a row's key and value, and calls `each` with those of the table's index, if it has one.
pub(super) fn encode(row: &Row, history: (u64, u32, u32), key: &mut Vec<u8>, value: &mut Vec<u8>) {
    value.clear();
    match row {
        Row::Warehouse(row) => {
            warehouse_key(key, row.id);
            row.ytd.push(value);
            row.tax.push(value);
            push_text(value, &row.name);
            push_address(value, &row.address);
        }
        Row::District(row) => {
            district_key(key, row.warehouse, row.id);
            row.next_order.push(value);
            row.ytd.push(value);
            row.tax.push(value);
            push_text(value, &row.name);
            push_address(value, &row.address);
        }
        Row::Customer(row) => {
            number_key(key, row.warehouse, row.district, row.id);
            encode_customer(row, value);
        }
        Row::History(row) => {
            history_key(key, history.0, history.1, history.2);
            row.customer_warehouse.push(value);
            row.customer_district.push(value);
            row.customer.push(value);
            row.warehouse.push(value);
            row.district.push(value);
            row.date.push(value);
            row.amount.push(value);
            push_text(value, &row.data);
        }
        Row::NewOrder(row) => number_key(key, row.warehouse, row.district, row.order),
        Row::Order(row) => {
            number_key(key, row.warehouse, row.district, row.id);
            row.carrier.unwrap_or(i8::MIN).push(value);
            row.customer.push(value);
            row.entry.push(value);
            row.lines.push(value);
            i8::from(row.all_local).push(value);
        }
        Row::OrderLine(row) => {
            line_key(key, row.warehouse, row.district, row.order, row.number);
            row.delivery.unwrap_or(i64::MIN).push(value);
            row.amount.push(value);
            row.item.push(value);
            row.supply_warehouse.push(value);
            row.quantity.push(value);
            push_text(value, &row.district_info);
        }
        Row::Item(row) => {
            item_key(key, row.id);
            row.image.push(value);
            row.price.push(value);
            push_text(value, &row.name);
            push_text(value, &row.data);
        }
        Row::Stock(row) => {
            stock_key(key, row.warehouse, row.item);
            row.quantity.push(value);
            row.ytd.push(value);
            row.orders.push(value);
            row.remotes.push(value);
            for text in &row.districts {
                push_text(value, text);
                value.resize(value.len() + 24 - text.len(), 0);
            }
            push_text(value, &row.data);
        }
    }
}

/// A customer's value.
pub(super) fn encode_customer(row: &Customer, value: &mut Vec<u8>) {
    value.clear();
    row.balance.push(value);
    row.ytd_payment.push(value);
    row.payments.push(value);
    row.deliveries.push(value);
    row.credit_limit.push(value);
    row.since.push(value);
    row.discount.push(value);
    push_text(value, &row.last);
    push_text(value, &row.credit);
    push_text(value, &row.first);
    push_text(value, &row.middle);
    push_address(value, &row.address);
    push_text(value, &row.phone);
    push_text(value, &row.data);
}

/// The key of a row in its table's index, if it has one, written into `key`.
pub(super) fn encode_index(row: &Row, key: &mut Vec<u8>) -> bool {
    match row {
        Row::Customer(row) => full_name_key(key, row),
        Row::Order(row) => customer_order_key(key, row.warehouse, row.district, row.customer, row.id),
        _ => return false,
    }
    true
}

/// The row of a key and a value.
pub(super) fn decode(table: TableName, key: &[u8], value: &[u8]) -> Result<Row, TxError> {
    let mut reader = Reader { value, at: 0 };
    let (warehouse, district) = match table {
        TableName::Item | TableName::History => (0, 0),
        TableName::Warehouse | TableName::Stock => (i16::read_key(key, 0)?, 0),
        _ => (i16::read_key(key, 0)?, i8::read_key(key, 2)?),
    };
    Ok(match table {
        TableName::Warehouse => Row::Warehouse(Warehouse {
            id: warehouse,
            ytd: reader.next()?,
            tax: reader.next()?,
            name: reader.text()?,
            address: reader.address()?,
        }),
        TableName::District => Row::District(District {
            warehouse,
            id: district,
            next_order: reader.next()?,
            ytd: reader.next()?,
            tax: reader.next()?,
            name: reader.text()?,
            address: reader.address()?,
        }),
        TableName::Customer => Row::Customer(decode_customer(
            warehouse,
            district,
            i32::read_key(key, 3)?,
            value,
        )?),
        TableName::History => Row::History(History {
            customer_warehouse: reader.next()?,
            customer_district: reader.next()?,
            customer: reader.next()?,
            warehouse: reader.next()?,
            district: reader.next()?,
            date: reader.next()?,
            amount: reader.next()?,
            data: reader.text()?,
        }),
        TableName::NewOrder => Row::NewOrder(NewOrder {
            warehouse,
            district,
            order: i32::read_key(key, 3)?,
        }),
        TableName::Orders => Row::Order(decode_order(warehouse, district, i32::read_key(key, 3)?, value)?),
        TableName::OrderLine => Row::OrderLine(decode_line(key, value)?),
        TableName::Item => Row::Item(decode_item(i32::read_key(key, 0)?, value)?),
        TableName::Stock => {
            let mut row = Stock {
                warehouse,
                item: i32::read_key(key, 2)?,
                quantity: reader.next()?,
                ytd: reader.next()?,
                orders: reader.next()?,
                remotes: reader.next()?,
                ..Stock::default()
            };
            for (number, text) in row.districts.iter_mut().enumerate() {
                *text = Text::from_bytes(text_at(value, stock::DISTRICTS + number * stock::DISTRICT_BYTES)?)?;
            }
            row.data = Text::from_bytes(text_at(value, stock::DATA)?)?;
            Row::Stock(row)
        }
    })
}

/// The customer of a value.
pub(super) fn decode_customer(
    warehouse: i16,
    district: i8,
    id: i32,
    value: &[u8],
) -> Result<Customer, TxError> {
    let mut reader = Reader { value, at: 0 };
    Ok(Customer {
        warehouse,
        district,
        id,
        balance: reader.next()?,
        ytd_payment: reader.next()?,
        payments: reader.next()?,
        deliveries: reader.next()?,
        credit_limit: reader.next()?,
        since: reader.next()?,
        discount: reader.next()?,
        last: reader.text()?,
        credit: reader.text()?,
        first: reader.text()?,
        middle: reader.text()?,
        address: reader.address()?,
        phone: reader.text()?,
        data: reader.text()?,
    })
}

/// The order of a value.
pub(super) fn decode_order(warehouse: i16, district: i8, id: i32, value: &[u8]) -> Result<Order, TxError> {
    let mut reader = Reader { value, at: 0 };
    let carrier: i8 = reader.next()?;
    Ok(Order {
        warehouse,
        district,
        id,
        carrier: (carrier != i8::MIN).then_some(carrier),
        customer: reader.next()?,
        entry: reader.next()?,
        lines: reader.next()?,
        all_local: reader.next::<i8>()? != 0,
    })
}

/// The order line of a key and a value.
pub(super) fn decode_line(key: &[u8], value: &[u8]) -> Result<OrderLine, TxError> {
    let mut reader = Reader { value, at: 0 };
    let delivery: i64 = reader.next()?;
    Ok(OrderLine {
        warehouse: i16::read_key(key, 0)?,
        district: i8::read_key(key, 2)?,
        order: i32::read_key(key, 3)?,
        number: i8::read_key(key, 7)?,
        delivery: (delivery != i64::MIN).then_some(delivery),
        amount: reader.next()?,
        item: reader.next()?,
        supply_warehouse: reader.next()?,
        quantity: reader.next()?,
        district_info: reader.text()?,
    })
}

/// The item of a value.
pub(super) fn decode_item(id: i32, value: &[u8]) -> Result<Item, TxError> {
    let mut reader = Reader { value, at: 0 };
    Ok(Item {
        id,
        image: reader.next()?,
        price: reader.next()?,
        name: reader.text()?,
        data: reader.text()?,
    })
}

#[cfg(test)]
mod tests;
