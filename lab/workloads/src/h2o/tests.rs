//! Tests of the generator: rows, ranges, partners of keys, independence of threads.

use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type};
use corun_model::progress::Silent;

use super::*;
use crate::answers::{Answer, fingerprint};
use crate::dataset::{TableData, part_file};

fn column<T>(data: &Dataset, table: Table, name: &str, of: impl Fn(&ArrayRef) -> Vec<T>) -> Vec<T> {
    let table = data.table(table.name()).unwrap();
    let at = table.schema.index_of(name).unwrap();
    table.batches().flat_map(|batch| of(batch.column(at))).collect()
}

fn integers(data: &Dataset, table: Table, name: &str) -> Vec<i32> {
    column(data, table, name, |values| {
        values.as_primitive::<Int32Type>().values().to_vec()
    })
}

fn texts(data: &Dataset, table: Table, name: &str) -> Vec<String> {
    let of = |values: &ArrayRef| {
        let texts = values.as_string::<i32>().iter();
        texts.map(|text| text.unwrap().to_owned()).collect()
    };
    column(data, table, name, of)
}

#[test]
fn row_counts_and_scales() {
    let rows = |scale_factor| {
        let data = H2o::new(scale_factor).unwrap();
        Table::ALL.map(|table| data.rows(table))
    };
    assert_eq!(rows(1.0), [10_000_000, 10_000_000, 10, 10_000, 10_000_000]);
    assert_eq!(rows(0.001), [10_000, 10_000, 10, 10, 10_000]);
    for scale in [0.0, -1.0, f64::NAN, 101.0] {
        assert!(H2o::new(scale).is_err());
    }
}

#[test]
fn groups_are_all_there_and_values_in_their_ranges() {
    let data = H2o::new(0.01).unwrap().dataset(1, 2, &Silent);
    for (name, most) in [("id4", 100), ("id5", 100), ("id6", 1000), ("v1", 5), ("v2", 15)] {
        let different: HashSet<i32> = integers(&data, Table::X, name).into_iter().collect();
        assert_eq!(different, (1..=most).collect(), "{name}");
    }
    for (name, most, digits) in [("id1", 100, 3), ("id2", 100, 3), ("id3", 1000, 10)] {
        let different: HashSet<String> = texts(&data, Table::X, name).into_iter().collect();
        let all = (1..=most).map(|number| format!("id{number:0digits$}"));
        assert_eq!(different, all.collect(), "{name}");
    }
    let floats = column(&data, Table::X, "v3", |values| {
        values.as_primitive::<Float64Type>().values().to_vec()
    });
    assert!(floats.iter().all(|value| (0.0..100.0).contains(value)));
    let mean = floats.iter().sum::<f64>() / floats.len() as f64;
    assert!((49.5..50.5).contains(&mean), "{mean}");
    // Exact in any order.
    assert_eq!(
        floats.iter().sum::<f64>().to_bits(),
        floats.iter().rev().sum::<f64>().to_bits()
    );
}

#[test]
fn keys_are_unique_and_nine_in_ten_have_a_partner() {
    let data = H2o::new(0.1).unwrap().dataset(1, 2, &Silent);
    for (table, key, text) in [
        (Table::Small, "id1", "id4"),
        (Table::Medium, "id2", "id5"),
        (Table::Big, "id3", "id6"),
    ] {
        let keys = integers(&data, table, key);
        let different: HashSet<i32> = keys.iter().copied().collect();
        assert_eq!(different.len(), keys.len(), "{key}");
        let lhs = integers(&data, Table::J, key);
        let partners = lhs.iter().filter(|key| different.contains(key)).count();
        let share = partners as f64 / lhs.len() as f64;
        assert!((0.88..0.92).contains(&share), "{key}: {share}");
        for table in [table, Table::J] {
            let of = integers(&data, table, key)
                .into_iter()
                .map(|key| format!("id{key}"));
            assert!(of.eq(texts(&data, table, text)), "{text}");
        }
    }
}

fn content(table: &TableData) -> Answer {
    let batches: Vec<RecordBatch> = table.batches().cloned().collect();
    fingerprint(&table.schema, &batches)
}

#[test]
fn content_depends_on_neither_threads_nor_partitions() {
    let data = H2o::new(0.005).unwrap();
    let one = data.dataset(1, 1, &Silent);
    let seven = data.dataset(7, 3, &Silent);
    for (a, b) in one.tables.iter().zip(&seven.tables) {
        assert_eq!((a.partitions.len(), b.partitions.len()), (1, 7));
        assert!(a.batches().eq(b.batches()), "{}", a.name);
    }
    let other = data.with_seed(1).dataset(1, 1, &Silent);
    for (a, b) in one.tables.iter().zip(&other.tables) {
        assert_ne!(content(a), content(b), "{}", a.name);
    }
}

#[test]
fn parquet_files_hold_as_many_rows() {
    let folder = tempfile::tempdir().unwrap();
    let data = H2o::new(0.002).unwrap();
    let rows = data.write_parquet(folder.path(), 2, 2, &Silent).unwrap();
    assert_eq!(rows, data.dataset(1, 2, &Silent).rows());
    assert!(part_file(folder.path(), "big", 1).exists());
    assert!(!part_file(folder.path(), "small", 1).exists());
}
