//! The columns of the tables.
//!
//! Keys of joins: a table of `n` rows that is looked up has each of its keys once, in a random order. The keys `1..=n` are those that `j`
//! has; the last tenth of them is not in the table, which has as many keys above `n` instead:
//!
//! ```text
//!   j:      1 ............. 0.9 n ...... n
//!   table:  1 ............. 0.9 n          n + 1 ...... 1.1 n
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{GROUPS, H2o, Table};
use crate::numbers::{below, draw, mix};

/// Parts of one that floats are multiples of.
const PARTS: u64 = 1 << 20;
/// All floats are below.
const FLOAT_MAX: u64 = 100;

pub(super) fn schema(table: Table) -> SchemaRef {
    let (integer, text, float) = (DataType::Int32, DataType::Utf8, DataType::Float64);
    let columns: Vec<(&str, &DataType)> = match table {
        Table::X => vec![
            ("id1", &text),
            ("id2", &text),
            ("id3", &text),
            ("id4", &integer),
            ("id5", &integer),
            ("id6", &integer),
            ("v1", &integer),
            ("v2", &integer),
            ("v3", &float),
        ],
        Table::Small => vec![("id1", &integer), ("id4", &text), ("v2", &float)],
        Table::Medium => vec![
            ("id1", &integer),
            ("id2", &integer),
            ("id4", &text),
            ("id5", &text),
            ("v2", &float),
        ],
        Table::J | Table::Big => vec![
            ("id1", &integer),
            ("id2", &integer),
            ("id3", &integer),
            ("id4", &text),
            ("id5", &text),
            ("id6", &text),
            (if table == Table::J { "v1" } else { "v2" }, &float),
        ],
    };
    let fields = columns
        .into_iter()
        .map(|(name, kind)| Field::new(name, kind.clone(), false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Some rows of a table; each column has a stream of random numbers.
struct Rows {
    seed: u64,
    table: Table,
    rows: Range<usize>,
}

impl Rows {
    fn draw(&self, column: u64, row: usize) -> u64 {
        draw(self.seed, (self.table as u64) << 8 | column, row as u64)
    }

    /// A number of `1..=most` a row.
    fn numbers(&self, column: u64, most: usize) -> Vec<i32> {
        let rows = self.rows.clone();
        rows.map(|row| 1 + below(self.draw(column, row), most as u64) as i32)
            .collect()
    }

    fn floats(&self, column: u64) -> ArrayRef {
        let float = |row| below(self.draw(column, row), FLOAT_MAX * PARTS) as f64 / PARTS as f64;
        Arc::new(Float64Array::from_iter_values(self.rows.clone().map(float)))
    }

    /// Each number of `1..=count` once in a table of so many rows, in a random order.
    fn permuted(&self, column: u64, count: usize) -> Vec<i32> {
        let seed = self.draw(column, 0);
        let number = |row| 1 + permuted(seed, row as u64, count as u64) as i32;
        self.rows.clone().map(number).collect()
    }

    /// As [`Rows::permuted`], but the last tenth of the numbers is moved above the others: keys that `j` does not have.
    fn looked_up(&self, column: u64, count: usize) -> Vec<i32> {
        let moved = count / 10;
        let mut keys = self.permuted(column, count);
        for key in &mut keys {
            if *key as usize > count - moved {
                *key += moved as i32;
            }
        }
        keys
    }
}

/// The place of `number` in a random order of `0..count`: a bijection of the next power of two, again until it is below `count`.
fn permuted(seed: u64, number: u64, count: u64) -> u64 {
    let bits = u64::BITS - count.leading_zeros();
    let mask = (1 << bits) - 1;
    let mut place = number;
    loop {
        for round in 0..3 {
            let random = mix(seed ^ round);
            // An odd factor, an addition and a shift to the right can be undone.
            place = place.wrapping_mul(random | 1).wrapping_add(random >> 32) & mask;
            place ^= place >> bits.div_ceil(2);
        }
        if place < count {
            return place;
        }
    }
}

fn integers(values: Vec<i32>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

/// The texts of numbers, `id` and so many digits at least.
fn texts(values: &[i32], digits: usize) -> ArrayRef {
    let text = |value| format!("id{value:0digits$}");
    Arc::new(StringArray::from_iter_values(values.iter().map(text)))
}

pub(super) fn columns(data: &H2o, table: Table, rows: Range<usize>) -> Vec<ArrayRef> {
    let count = |table| data.rows(table);
    let rows = Rows {
        seed: data.seed,
        table,
        rows,
    };
    if table == Table::X {
        let many = count(Table::X) / GROUPS;
        return vec![
            texts(&rows.numbers(1, GROUPS), 3),
            texts(&rows.numbers(2, GROUPS), 3),
            texts(&rows.numbers(3, many), 10),
            integers(rows.numbers(4, GROUPS)),
            integers(rows.numbers(5, GROUPS)),
            integers(rows.numbers(6, many)),
            integers(rows.numbers(7, 5)),
            integers(rows.numbers(8, 15)),
            rows.floats(9),
        ];
    }
    let (small, medium, big) = (count(Table::Small), count(Table::Medium), count(Table::Big));
    let keys = match table {
        Table::Small => vec![rows.looked_up(1, small)],
        Table::Medium => vec![rows.numbers(1, small), rows.looked_up(2, medium)],
        Table::Big => vec![
            rows.numbers(1, small),
            rows.numbers(2, medium),
            rows.looked_up(3, big),
        ],
        Table::X | Table::J => vec![
            rows.numbers(1, small),
            rows.numbers(2, medium),
            rows.permuted(3, big),
        ],
    };
    let texts: Vec<ArrayRef> = keys.iter().map(|keys| texts(keys, 1)).collect();
    let mut columns: Vec<ArrayRef> = keys.into_iter().map(integers).collect();
    columns.extend(texts);
    columns.push(rows.floats(4));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        for count in [1, 2, 10, 1000, 1024, 4097] {
            for seed in [0, 1, u64::MAX] {
                let mut places: Vec<u64> = (0..count).map(|number| permuted(seed, number, count)).collect();
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>());
            }
        }
        let places: Vec<u64> = (0..1000).map(|number| permuted(7, number, 1000)).collect();
        let neighbours = places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10);
        assert!(neighbours.count() < 60);
    }
}
