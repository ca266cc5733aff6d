//! The other side of comparisons: an engine as DataFusion comes makes DataFusion's own plans over the same files.

use crate::common::parquet;
use crate::harness::Server;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use corun_server::session::EngineConfig;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::path::Path;
use std::sync::Arc;

const PARTITIONS: usize = 3;

/// Joins, groups, a subquery and an order over the tables of [`tables`].
const QUERIES: &[&str] = &[
    "select d_word, sum(f_value) as total from facts, dims where f_key = d_key and d_key < 50 group by d_word order by total desc limit 5",
    "select count(*) as n from facts where exists (select 1 from dims where d_key = f_key and d_word like 'w1%')",
    "select f_key, count(distinct f_value) as n from facts group by f_key order by f_key",
    "select a.f_key from facts a left join dims on a.f_key = d_key where a.f_value > (select avg(f_value) as mean from facts)",
];

/// `facts` in two files, `dims` in one.
fn tables(folder: &Path) {
    let numbers = |numbers: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(numbers)) };
    for part in 0..2 {
        let rows = part * 5_000..(part + 1) * 5_000;
        let keys = numbers(rows.clone().map(|row| row % 97).collect());
        let values = numbers(rows.collect());
        let batch = RecordBatch::try_from_iter([("f_key", keys), ("f_value", values)]).unwrap();
        parquet(&folder.join(format!("facts/part-{part:03}.parquet")), &[batch]);
    }
    let words: Vec<String> = (0..97).map(|key| format!("w{key}")).collect();
    let words: ArrayRef = Arc::new(StringArray::from(words));
    let batch =
        RecordBatch::try_from_iter([("d_key", numbers((0..97).collect())), ("d_word", words)]).unwrap();
    parquet(&folder.join("dims/part-000.parquet"), &[batch]);
}

#[test]
fn plans_without_corun_are_those_of_datafusion() {
    let stock = Server::with(|config| {
        tables(&config.data.catalogs[0].1);
        *config = EngineConfig::stock(config.data.clone());
        config.engine.partitions = PARTITIONS;
    });
    let config = SessionConfig::new().with_target_partitions(PARTITIONS);
    let plain = SessionContext::new_with_config(config);
    let mut session = stock.session();
    for table in ["facts", "dims"] {
        let path = stock.folder.path().canonicalize().unwrap().join(table);
        let registered = plain.register_parquet(table, path.to_str().unwrap(), ParquetReadOptions::default());
        stock.block_on(registered).unwrap();
    }
    for sql in QUERIES {
        let ours = stock.rows(&mut session, &format!("explain {sql}"));
        let theirs = stock.block_on(async {
            let plan = plain
                .sql(sql)
                .await
                .unwrap()
                .create_physical_plan()
                .await
                .unwrap();
            displayable(plan.as_ref()).indent(false).to_string()
        });
        // The last line is the tag.
        assert_eq!(ours[..ours.len() - 1].join("\n"), theirs.trim_end(), "{sql}");
    }
}

#[test]
fn an_engine_of_corun_plans_otherwise() {
    let ours = Server::with(|config| {
        tables(&config.data.catalogs[0].1);
        config.engine.partitions = PARTITIONS;
    });
    let mut session = ours.session();
    let plan = ours
        .rows(&mut session, &format!("explain {}", QUERIES[0]))
        .join("\n");
    assert!(plan.contains("Corun"), "{plan}");
}
