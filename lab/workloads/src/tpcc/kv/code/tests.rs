//! Rows and keys of TPC-C as bytes come back, and keys compare as their values do.

use super::*;
use crate::tpcc::{Rows, Scale};

#[test]
fn rows_come_back_as_they_were() {
    let scale = Scale::hundredth(1);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut tables = 0;
    for row in Rows::part(scale, 1, 0).chain(Rows::part(scale, 1, 1)) {
        encode(&row, (1, 2, 3), &mut key, &mut value);
        assert_eq!(decode(row.table(), &key, &value), Ok(row.clone()));
        tables |= 1 << row.table() as u32;
        if !value.is_empty() {
            value.pop();
            assert!(decode(row.table(), &key, &value).is_err());
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
    encode(&Row::Stock(row), (0, 0, 0), &mut key, &mut value);
    add(&mut value, stock::QUANTITY, 100i32).unwrap();
    add(&mut value, stock::YTD, 100i64).unwrap();
    add(&mut value, stock::ORDERS, 100i32).unwrap();
    add(&mut value, stock::REMOTES, 100i32).unwrap();
    let expected = Stock {
        quantity: 111,
        ytd: 112,
        orders: 113,
        remotes: 114,
        ..row
    };
    assert_eq!(decode(TableName::Stock, &key, &value), Ok(Row::Stock(expected)));
    let row = District {
        next_order: 1,
        ytd: 2,
        tax: 3,
        ..District::default()
    };
    encode(&Row::District(row), (0, 0, 0), &mut key, &mut value);
    add(&mut value, district::NEXT_ORDER, 10i32).unwrap();
    add(&mut value, district::YTD, 10i64).unwrap();
    add(&mut value, district::TAX, 10i16).unwrap();
    let expected = District {
        next_order: 11,
        ytd: 12,
        tax: 13,
        ..row
    };
    assert_eq!(
        decode(TableName::District, &key, &value),
        Ok(Row::District(expected))
    );
}
