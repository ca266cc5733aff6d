//! What TPC-C's rows and tables are for PostgreSQL, held to what they were: the sum of all lines of `copy`, and all statements.

use std::fmt::Write;

use super::{rows, schema};
use crate::fixture::lines::Lines;
use corun_workloads::tpcc::{Rows, Scale, TableName};

#[test]
fn lines_of_copy_are_the_same_bytes_as_ever() {
    let mut lines = vec![Lines::default(); TableName::ALL.len()];
    let scale = Scale::hundredth(1);
    for row in Rows::part(scale, 11, 0).chain(Rows::part(scale, 11, 1)) {
        rows::write(&row, &mut lines[row.table() as usize]);
    }
    let mut text = String::new();
    for (table, lines) in TableName::ALL.into_iter().zip(&lines) {
        let lines = lines.as_str();
        // FNV-1a.
        let sum = lines.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let first = lines.lines().next().unwrap();
        writeln!(text, "{table} {} {sum:016x}\n{first}", lines.lines().count()).unwrap();
    }
    assert_eq!(text, include_str!("tests/copy.txt"));
}

#[test]
fn statements_that_make_tables_are_the_same_as_ever() {
    let mut text = String::new();
    for statement in TableName::ALL
        .map(schema::create)
        .into_iter()
        .chain(schema::after_load())
    {
        writeln!(text, "{statement};").unwrap();
    }
    assert_eq!(text, include_str!("tests/tables.sql"));
}
