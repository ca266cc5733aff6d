//! Keys of rows in a key-value store.
//!
//! They are the key columns, big-endian one after the other, so that byte strings order as the columns do (identifiers are
//! never negative).

use crate::text::Text;
use crate::tpcc::columns::Integer;
use crate::tpcc::row::Customer;

/// Key of a warehouse.
pub(super) fn warehouse_key(key: &mut Vec<u8>, warehouse: i16) {
    key.clear();
    warehouse.push_key(key);
}

/// Key of a district.
pub(super) fn district_key(key: &mut Vec<u8>, warehouse: i16, district: i8) {
    warehouse_key(key, warehouse);
    district.push_key(key);
}

/// Key of a customer, an order or a new order: seven bytes.
pub(super) fn number_key(key: &mut Vec<u8>, warehouse: i16, district: i8, number: i32) {
    district_key(key, warehouse, district);
    number.push_key(key);
}

/// Key of an order line: eight bytes. Line 0 is none, so it begins the lines of an order.
pub(super) fn line_key(key: &mut Vec<u8>, warehouse: i16, district: i8, order: i32, number: i8) {
    number_key(key, warehouse, district, order);
    number.push_key(key);
}

/// Key of an item.
pub(super) fn item_key(key: &mut Vec<u8>, item: i32) {
    key.clear();
    item.push_key(key);
}

/// Key of a stock.
pub(super) fn stock_key(key: &mut Vec<u8>, warehouse: i16, item: i32) {
    warehouse_key(key, warehouse);
    item.push_key(key);
}

/// Key of `history`, whose rows have none of their own: which life of the engine wrote it, which client, its how many-th.
pub(super) fn history_key(key: &mut Vec<u8>, (life, client, count): (u64, u32, u32)) {
    key.clear();
    key.extend_from_slice(&life.to_be_bytes());
    key.extend_from_slice(&client.to_be_bytes());
    key.extend_from_slice(&count.to_be_bytes());
}

/// Key of `customer_by_name` without the first name and number: the beginning of all customers of that name.
pub(super) fn name_key(key: &mut Vec<u8>, warehouse: i16, district: i8, last: &Text<16>) {
    district_key(key, warehouse, district);
    push_padded(key, last);
}

/// Where in a key of `customer_by_name` the customer's number is.
pub(super) const NAME_NUMBER: usize = 2 + 1 + 16 + 16;

/// Key of `customer_by_name`.
pub(super) fn full_name_key(key: &mut Vec<u8>, row: &Customer) {
    name_key(key, row.warehouse, row.district, &row.last);
    push_padded(key, &row.first);
    row.id.push_key(key);
}

fn push_padded(key: &mut Vec<u8>, text: &Text<16>) {
    key.extend_from_slice(text.as_bytes());
    key.resize(key.len() + 16 - text.len(), 0);
}

/// Key of `orders_by_customer`.
pub(super) fn customer_order_key(key: &mut Vec<u8>, warehouse: i16, district: i8, customer: i32, order: i32) {
    number_key(key, warehouse, district, customer);
    order.push_key(key);
}

/// Where in a key of `orders_by_customer` the order's number is.
pub(super) const CUSTOMER_ORDER_NUMBER: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_their_columns() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (smaller, larger) in [
            ((1, 2, 3), (1, 2, 256)),
            ((1, 9, 9), (2, 1, 1)),
            ((255, 1, 1), (256, 1, 1)),
        ] {
            number_key(&mut a, smaller.0, smaller.1, smaller.2);
            number_key(&mut b, larger.0, larger.1, larger.2);
            assert!(a < b);
        }
        name_key(&mut a, 1, 1, &Text::cut("BAR"));
        name_key(&mut b, 1, 1, &Text::cut("BARBAR"));
        assert!(a < b && a.len() == b.len());
    }
}
