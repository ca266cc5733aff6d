//! Rows and keys of TPC-C as bytes come back, and keys compare as their values do.

use super::*;
use crate::tpcc::row::{District, Stock};
use crate::tpcc::{Row, Rows, Scale};

#[test]
fn rows_come_back_as_they_were() {
    let scale = Scale::hundredth(1);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut tables = 0;
    for row in Rows::part(scale, 1, 0).chain(Rows::part(scale, 1, 1)) {
        key.clear();
        value.clear();
        row.push_key_value(&mut key, &mut value);
        let decode =
            |key: &[u8], value: &[u8]| Row::from_key_value(row.table(), &mut KeyValueReader::new(key, value));
        assert_eq!(decode(&key, &value), Ok(row.clone()));
        tables |= 1 << row.table() as u32;
        if !value.is_empty() {
            value.pop();
            assert!(decode(&key, &value).is_err());
        }
    }
    assert_eq!(tables, 0b1_1111_1111);
}

#[test]
fn places_are_where_the_columns_are() {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let row = Stock {
        quantity: 11,
        ytd: 12,
        orders: 13,
        remotes: 14,
        data: Text::cut("x"),
        ..Stock::default()
    };
    encode(&row, &mut key, &mut value);
    add(&mut value, Stock::PLACE.quantity, 100i32).unwrap();
    add(&mut value, Stock::PLACE.ytd, 100i64).unwrap();
    add(&mut value, Stock::PLACE.orders, 100i32).unwrap();
    add(&mut value, Stock::PLACE.remotes, 100i32).unwrap();
    let expected = Stock {
        quantity: 111,
        ytd: 112,
        orders: 113,
        remotes: 114,
        ..row
    };
    assert_eq!(decode(&key, &value), Ok(expected));
    let row = District {
        next_order: 1,
        ytd: 2,
        tax: 3,
        ..District::default()
    };
    encode(&row, &mut key, &mut value);
    add(&mut value, District::PLACE.next_order, 10i32).unwrap();
    add(&mut value, District::PLACE.ytd, 10i64).unwrap();
    add(&mut value, District::PLACE.tax, 10i16).unwrap();
    let expected = District {
        next_order: 11,
        ytd: 12,
        tax: 13,
        ..row
    };
    assert_eq!(decode(&key, &value), Ok(expected));
}

#[test]
fn fields_behind_a_text_have_no_place() {
    assert_eq!(Stock::PLACE.data, 20 + 10 * DISTRICT_BYTES);
    assert_eq!(District::PLACE.name, 14);
    assert_eq!(District::PLACE.address, usize::MAX);
    assert_eq!(District::PLACE.id, usize::MAX);
    assert!(i8::read(&[0; 20], District::PLACE.id).is_err());
}
