//! Tables that show the numbers of their rows: in every kind of scan, and as batches of rows that are at hand.

use crate::common::lines;
use crate::store::data::{definition, engine, rows, store};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type, UInt32Type};
use corun_datafusion::store::{ROW_NUMBER, StoreTable, arrow_schema, batch_of};
use corun_datafusion::{Engine, Joins};
use corun_store::{Rid, RowRef, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: usize = 3000;

/// A store of which every seventh row is deleted.
fn with_gaps(indexed: bool) -> Store {
    let store = store(vec![(definition(indexed), rows(ROWS, 11))]);
    let table = store.table("t").unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            for id in (0..ROWS as i64).step_by(7) {
                transaction.delete_by_key(&table, &[id.into()])?;
            }
            Ok(())
        })
        .unwrap();
    store
}

/// An engine with the table and, as `n`, the table with the numbers of its rows.
fn numbered(store: &Store, partitions: usize, batch_size: usize) -> Engine {
    let engine = engine(partitions, batch_size, Joins::Corun);
    let table = StoreTable::new(store, &store.table("t").unwrap());
    let context = engine.session_context();
    context.register_table("t", Arc::new(table.clone())).unwrap();
    context
        .register_table("n", Arc::new(table.with_row_numbers()))
        .unwrap();
    engine
}

/// id to number.
fn numbers(store: &Store) -> BTreeMap<i64, u32> {
    let (snapshot, table) = (store.snapshot().unwrap(), store.table("t").unwrap());
    let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    rows.map(|found| (found.row.int(0), found.rid.0)).collect()
}

async fn pairs(engine: &Engine, sql: &str) -> BTreeMap<i64, u32> {
    let output = engine.query(sql).await.unwrap();
    let pairs = output.batches.iter().flat_map(|batch| {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let numbers = batch.column(1).as_primitive::<UInt32Type>();
        std::iter::zip(ids.values().to_vec(), numbers.values().to_vec())
    });
    pairs.collect()
}

#[tokio::test]
async fn every_scan_gives_the_numbers_of_its_rows() {
    for (indexed, partitions, batch_size) in [(true, 1, 8192), (true, 3, 7), (false, 2, 300), (true, 2, 256)]
    {
        let store = with_gaps(indexed);
        let all = numbers(&store);
        let engine = numbered(&store, partitions, batch_size);
        let n = format!("\"{ROW_NUMBER}\"");
        let id_of = |number: u32| *all.iter().find(|(_, of)| **of == number).unwrap().0;
        let part = |keep: &dyn Fn(i64, u32) -> bool| -> BTreeMap<i64, u32> {
            let kept = all.iter().filter(|(id, number)| keep(**id, **number));
            kept.map(|(id, number)| (*id, *number)).collect()
        };
        for (condition, index, expected) in [
            (String::new(), false, all.clone()),
            (
                "where id between 100 and 140".to_owned(),
                true,
                part(&|id, _| (100..=140).contains(&id)),
            ),
            (
                "where id in (5, 6, 7, 8, 2000)".to_owned(),
                true,
                part(&|id, _| [5, 6, 8, 2000].contains(&id)),
            ),
            (format!("where {n} = 17"), false, part(&|_, number| number == 17)),
            (
                format!("where {n} > 900 and {n} < 1000"),
                false,
                part(&|_, number| number > 900 && number < 1000),
            ),
            (
                format!("where id = {} and {n} = 900", id_of(900)),
                true,
                part(&|_, number| number == 900),
            ),
            (
                format!("where id = {} and {n} = 901", id_of(900)),
                true,
                BTreeMap::new(),
            ),
            (
                format!("where {n} in (select {n} from n where id < 20)"),
                false,
                part(&|id, _| id < 20),
            ),
        ] {
            let sql = format!("select id, {n} from n {condition}");
            assert_eq!(pairs(&engine, &sql).await, expected, "{sql}");
            let plan = engine.explain(&sql, false).await.unwrap();
            if index {
                assert!(plan.contains("index=primary"), "{plan}");
            }
            // Beside other columns, in front of them, and alone.
            let reordered = format!("select {n}, s, {n} as again, id from n {condition}");
            let output = engine.query(&reordered).await.unwrap();
            for batch in &output.batches {
                let ids = batch.column(3).as_primitive::<Int64Type>().values().iter();
                for column in [0, 2] {
                    let numbers = batch.column(column).as_primitive::<UInt32Type>().values();
                    assert!(ids.clone().zip(numbers).all(|(id, number)| all[id] == *number));
                }
            }
            let alone = engine
                .query(&format!("select {n} from n {condition}"))
                .await
                .unwrap();
            let mut alone: Vec<u32> = (alone.batches.iter())
                .flat_map(|batch| batch.column(0).as_primitive::<UInt32Type>().values().to_vec())
                .collect();
            alone.sort_unstable();
            let mut of_all: Vec<u32> = expected.values().copied().collect();
            of_all.sort_unstable();
            assert_eq!(alone, of_all, "{sql}");
        }
        let sums = format!("select count(*), count({n}), min({n}), max({n}) from n");
        let (least, most) = (all.values().min().unwrap(), all.values().max().unwrap());
        let count = all.len();
        assert_eq!(
            lines(&engine.query(&sums).await.unwrap()),
            [format!("{count}|{count}|{least}|{most}")]
        );
    }
}

/// The same rows with and without numbers, from the same plans.
#[tokio::test]
async fn other_columns_are_as_without_numbers() {
    let store = with_gaps(true);
    let engine = numbered(&store, 2, 100);
    for sql in [
        "select id, b, i8, f, d, day, ts, s, c, y, z, w, tz, u from ? order by id",
        "select s, count(*), sum(i64) from ? group by s order by s",
        "select id from ? where i32 = 5 and day >= date '2020-01-10' order by id",
        "select x.id, y.id from ? x join ? y on x.i32 = y.i16 where y.n = 3 order by 1, 2",
        "select id, s from ? where n > 47 order by n, id limit 4",
    ] {
        let [plain, numbered] = ["t", "n"].map(|table| sql.replace('?', table));
        assert_eq!(
            lines(&engine.query(&plain).await.unwrap()),
            lines(&engine.query(&numbered).await.unwrap()),
            "{sql}"
        );
        let [plain, numbered] = [&plain, &numbered].map(|sql| engine.explain(sql, false));
        let (plain, numbered) = (plain.await.unwrap(), numbered.await.unwrap());
        assert_eq!(
            plain.matches("index=").count(),
            numbered.matches("index=").count(),
            "{plain}\n{numbered}"
        );
    }
    let schema = engine.table_schema("n").await.unwrap();
    let last = schema.fields().last().unwrap();
    assert_eq!(
        (last.name().as_str(), last.data_type(), last.is_nullable()),
        (ROW_NUMBER, &DataType::UInt32, false)
    );
    let table = StoreTable::new(&store, &store.table("t").unwrap()).with_row_numbers();
    let twice = table.clone().with_row_numbers();
    let of = |table: StoreTable| datafusion::catalog::TableProvider::schema(&table);
    assert_eq!(of(table), of(twice), "one is enough");
}

/// What a transaction has at hand is the same batch as a scan gives.
#[tokio::test]
async fn rows_become_the_batches_that_scans_give() {
    let store = with_gaps(true);
    let engine = numbered(&store, 1, 8192);
    let table = store.table("t").unwrap();
    let snapshot = store.snapshot().unwrap();
    let rows: Vec<(Rid, RowRef<'_>)> = snapshot
        .rows(&table, 0..table.rid_end())
        .unwrap()
        .map(|found| (found.rid, found.row))
        .collect();
    let whole = |batches: &[RecordBatch]| concat_batches(&batches[0].schema(), batches).unwrap();
    for (name, with_numbers) in [("t", false), ("n", true)] {
        let made = batch_of(&table, &rows, with_numbers).unwrap();
        let read = engine.query(&format!("select * from {name}")).await.unwrap();
        let read = whole(&read.batches);
        assert_eq!(made.columns(), read.columns(), "{name}");
        assert_eq!(made.schema(), read.schema(), "{name}");
    }
    let none = batch_of(&table, &[], false).unwrap();
    assert_eq!(
        (none.num_rows(), none.schema()),
        (0, arrow_schema(&table.definition()))
    );
    let few = batch_of(&table, &rows[7..8], true).unwrap();
    let number = few.column(few.num_columns() - 1).as_primitive::<UInt32Type>();
    assert_eq!((few.num_rows(), number.value(0)), (1, rows[7].0.0));
}

/// Fields may be told to be more than what the store knows of them; nothing else changes.
#[tokio::test]
async fn fields_have_the_metadata_they_are_given() {
    let store = with_gaps(false);
    let table = store.table("t").unwrap();
    let plain = arrow_schema(&table.definition());
    let mut fields: Vec<arrow::datatypes::Field> = plain
        .fields()
        .iter()
        .map(|field| field.as_ref().clone())
        .collect();
    fields[0] = arrow::datatypes::Field::new("other", DataType::Utf8, true)
        .with_metadata([("declared".to_owned(), "oid".to_owned())].into());
    let told = Arc::new(arrow::datatypes::Schema::new(fields));
    let engine = engine(2, 100, Joins::Corun);
    let table = StoreTable::new(&store, &table)
        .with_schema(told)
        .with_row_numbers();
    engine
        .session_context()
        .register_table("t", Arc::new(table))
        .unwrap();
    let schema = engine.table_schema("t").await.unwrap();
    let first = schema.field(0);
    assert_eq!(
        (first.name().as_str(), first.data_type(), first.is_nullable()),
        ("id", &DataType::Int64, false)
    );
    assert_eq!(first.metadata()["declared"], "oid");
    let output = engine.query("select id, s from t where id < 10").await.unwrap();
    assert_eq!(output.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 8);
    assert_eq!(output.batches[0].schema().field(0).metadata()["declared"], "oid");
}
