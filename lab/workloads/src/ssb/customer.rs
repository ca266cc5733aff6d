//! Table `customer`.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::places::{NATIONS, address, city, phone};
use super::random::Stream;

/// Number of this table in the random streams.
const TABLE: u64 = 2;

const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];

pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("c_custkey", DataType::Int32),
        field("c_name", DataType::Utf8),
        field("c_address", DataType::Utf8),
        field("c_city", DataType::Utf8),
        field("c_nation", DataType::Utf8),
        field("c_region", DataType::Utf8),
        field("c_phone", DataType::Utf8),
        field("c_mktsegment", DataType::Utf8),
    ]))
});

/// Columns of rows `rows` under `seed`.
pub(super) fn columns(seed: u64, rows: std::ops::Range<usize>) -> Vec<ArrayRef> {
    let stream = |column| Stream::new(seed, TABLE, column);
    let (addresses, cities, nations, phones, segments) =
        (stream(1), stream(2), stream(3), stream(4), stream(5));
    let nation = |row: u64| nations.below(row, 25) as usize;
    let texts = |value: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            rows.clone().map(|row| value(row as u64)),
        ))
    };
    vec![
        Arc::new(Int32Array::from_iter_values(
            rows.clone().map(|row| row as i32 + 1),
        )),
        texts(&|row| format!("Customer#{:09}", row + 1)),
        texts(&|row| address(addresses, row)),
        texts(&|row| city(NATIONS[nation(row)].0, cities.below(row, 10))),
        texts(&|row| NATIONS[nation(row)].0.to_owned()),
        texts(&|row| NATIONS[nation(row)].1.to_owned()),
        texts(&|row| phone(nation(row), phones.bits(row))),
        texts(&|row| segments.pick(row, &SEGMENTS).to_owned()),
    ]
}
