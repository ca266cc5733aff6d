//! The groupings and joins of the H2O.ai benchmark: some against loops over the rows, all against stock DataFusion in one partition.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{Float64Type, Int32Type};
use corun_model::progress::Silent;
use corun_workloads::answers::{cell_text, sorted_rows};
use corun_workloads::dataset::Dataset;
use corun_workloads::h2o::{H2o, QUERIES};

use super::checked::{Checked, KINDS, check_all, engine, run};

fn column<T>(data: &Dataset, table: &str, name: &str, of: impl Fn(&ArrayRef) -> Vec<T>) -> Vec<T> {
    let table = data.table(table).unwrap();
    let at = table.schema.index_of(name).unwrap();
    table.batches().flat_map(|batch| of(batch.column(at))).collect()
}

fn integers(data: &Dataset, table: &str, name: &str) -> Vec<i32> {
    column(data, table, name, |values| {
        values.as_primitive::<Int32Type>().values().to_vec()
    })
}

fn floats(data: &Dataset, table: &str, name: &str) -> Vec<f64> {
    column(data, table, name, |values| {
        values.as_primitive::<Float64Type>().values().to_vec()
    })
}

fn text(value: f64) -> String {
    cell_text(&Float64Array::from(vec![value]), 0)
}

/// `v1` of each group of `id1`.
fn q1(data: &Dataset) -> Vec<String> {
    let keys = column(data, "x", "id1", |values| {
        let texts = values.as_string::<i32>().iter();
        texts.map(|text| text.unwrap().to_owned()).collect()
    });
    let mut groups: BTreeMap<String, i64> = BTreeMap::new();
    for (key, v1) in keys.into_iter().zip(integers(data, "x", "v1")) {
        *groups.entry(key).or_default() += i64::from(v1);
    }
    groups
        .into_iter()
        .map(|(key, v1)| format!("{key}|{v1}"))
        .collect()
}

/// The groups of `id6` summed up: sums of sums are sums of the rows.
fn q5(data: &Dataset) -> Vec<String> {
    let mut keys = integers(data, "x", "id6");
    let sum = |name| integers(data, "x", name).into_iter().map(i64::from).sum::<i64>();
    keys.sort_unstable();
    keys.dedup();
    let (v1, v2, v3) = (sum("v1"), sum("v2"), floats(data, "x", "v3").iter().sum());
    vec![format!(
        "{}|{}|{v1}|{v2}|{}",
        keys.len(),
        keys[keys.len() - 1],
        text(v3)
    )]
}

/// A join of `j` with `table` by `key`; rows without a partner count where it is an outer one.
fn join(data: &Dataset, table: &str, key: &str, outer: bool) -> Vec<String> {
    let build = integers(data, table, key)
        .into_iter()
        .zip(floats(data, table, "v2"));
    let build: HashMap<i32, f64> = build.collect();
    let (mut count, mut sums) = (0, (0.0, 0.0));
    for (key, v1) in integers(data, "j", key).iter().zip(floats(data, "j", "v1")) {
        let v2 = build.get(key);
        if outer || v2.is_some() {
            count += 1;
            sums = (sums.0 + v1, sums.1 + v2.unwrap_or(&0.0));
        }
    }
    vec![format!("{count}|{}|{}", text(sums.0), text(sums.1))]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_loops() {
    let data = H2o::new(0.005).unwrap().dataset(2, 2, &Silent);
    for (query, expected) in [
        ("q1", q1(&data)),
        ("q5", q5(&data)),
        ("j1", join(&data, "small", "id1", false)),
        ("j2", join(&data, "medium", "id2", false)),
        ("j3", join(&data, "medium", "id2", true)),
        // By the texts of the same keys.
        ("j4", join(&data, "medium", "id2", false)),
        ("j5", join(&data, "big", "id3", false)),
    ] {
        let (_, sql) = QUERIES.iter().find(|(name, _)| *name == query).unwrap();
        for kind in KINDS {
            let output = run(&engine(&data, &kind.options(2)), sql).await.unwrap();
            assert_eq!(sorted_rows(&output.batches), expected, "{query} with {kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_partitions_and_batch_sizes() {
    let data = H2o::new(0.005).unwrap().dataset(2, 2, &Silent);
    check_all(
        &Checked::against_stock(data, QUERIES, |_| &[]).await,
        &[100, 8192],
    )
    .await;
}
