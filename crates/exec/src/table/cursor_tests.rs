//! Probes of several batches, and what a cursor carries from one to the next.

use super::tests::{Column, table_of};
use super::{BuildOptions, JoinTable, Pairs, ProbeCursor};
use crate::codes::{Codes, Validity};
use crate::workers::Serial;

/// After a batch of which few rows had a partner, the next is asked for members first; the answer is the same.
#[test]
fn selective_probes_ask_members_first() {
    let mut build = Column::all_valid((0..3000).map(|row| row % 1000 * 100).collect());
    build.valid = Some((0..3000).map(|row| row % 7 != 0).collect());
    let options = BuildOptions::default();
    let mut table = table_of(&build, 100, 0, &options, &Serial).unwrap();
    table.prepare_matches(false, &options).unwrap();
    let all_pairs = |cursor: &mut ProbeCursor, values: &[u64]| {
        let (mut all, mut pairs) = (Pairs::default(), Pairs::default());
        let valid: Vec<u8> = vec![0b1011_0111; values.len().div_ceil(8)];
        let valid = Validity::new(&valid, 0, values.len());
        cursor.reset();
        loop {
            let finished = table.probe(
                &Codes::U64 { values, bias: 0 },
                Some(valid),
                None,
                cursor,
                64,
                &mut pairs,
            );
            all.build.extend(&pairs.build);
            all.probe.extend(&pairs.probe);
            if finished {
                return all;
            }
        }
    };
    let mut cursor = ProbeCursor::default();
    for batch in 0..4_u64 {
        let step = if batch < 3 { 1 } else { 100 };
        let values: Vec<u64> = (0..1000).map(|row| row * step).collect();
        let pairs = all_pairs(&mut cursor, &values);
        assert_eq!(pairs, all_pairs(&mut ProbeCursor::default(), &values));
        assert!(!pairs.is_empty());
        assert_eq!(cursor.asked, batch > 0, "asked since the first batch");
        assert_eq!(cursor.selective, batch < 3, "until many rows have a partner");
    }
}

/// Two tables of keys with several rows, and a cursor that has given out some of the pairs of the first.
fn two_tables_and_a_cursor() -> (JoinTable, JoinTable, ProbeCursor, Vec<u64>) {
    let options = BuildOptions::default();
    let of = |rows: u64| {
        let column = Column::all_valid((0..rows).map(|row| row % 10).collect());
        table_of(&column, 100, 0, &options, &Serial).unwrap()
    };
    let (first, second) = (of(100_000), of(20));
    let values: Vec<u64> = (0..10).collect();
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let codes = Codes::U64 {
        values: &values,
        bias: 0,
    };
    assert!(!first.probe(&codes, None, None, &mut cursor, 5, &mut pairs));
    (first, second, cursor, values)
}

#[test]
#[should_panic(expected = "stays with its table")]
fn a_cursor_of_another_table_is_refused() {
    let (_first, second, mut cursor, values) = two_tables_and_a_cursor();
    let codes = Codes::U64 {
        values: &values,
        bias: 0,
    };
    second.probe(&codes, None, None, &mut cursor, 5, &mut Pairs::default());
}

#[test]
#[should_panic(expected = "stays with it")]
fn a_cursor_beyond_the_batch_is_refused() {
    let (first, _second, mut cursor, values) = two_tables_and_a_cursor();
    let codes = Codes::U64 {
        values: &values[..3],
        bias: 0,
    };
    first.probe(&codes, None, None, &mut cursor, 5, &mut Pairs::default());
}

#[test]
fn a_cursor_that_is_reset_serves_another_table() {
    let (_first, second, mut cursor, values) = two_tables_and_a_cursor();
    cursor.reset();
    let codes = Codes::U64 {
        values: &values,
        bias: 0,
    };
    let mut pairs = Pairs::default();
    assert!(second.probe(&codes, None, None, &mut cursor, 100, &mut pairs));
    assert_eq!(pairs.len(), 20);
}
