//! Bulk loads: from batches and files, into tables that are there and tables that are made, and what goes wrong.

use crate::store::data::{definition, engine, rows};
use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray, NullArray,
    RecordBatch, StringArray, TimestampNanosecondArray, UInt16Array, UInt64Array,
};
use arrow::datatypes::Int32Type;
use corun_datafusion::EngineError;
use corun_datafusion::Joins;
use corun_datafusion::store::{LoadError, LoadOptions, load, table_definition};
use corun_store::{Options, Store, TableDef, Type};
use std::sync::Arc;

fn memory() -> Store {
    Store::in_memory(Options::default()).unwrap()
}

fn key(columns: &[&str]) -> LoadOptions {
    LoadOptions {
        primary_key: columns.iter().map(|&column| column.to_owned()).collect(),
        ..LoadOptions::default()
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(values))
}

fn run(store: &Store, table: &str, batches: &[RecordBatch], options: &LoadOptions) -> Result<u64, LoadError> {
    let schema = batches[0].schema();
    load(store, table, &schema, batches.iter().cloned().map(Ok), options)
}

/// What a failed load says, in the parts of the facade, and how many rows are in the table.
fn failure(store: &Store, table: &str, batches: &[RecordBatch], options: &LoadOptions) -> (EngineError, u64) {
    let error = EngineError::from(run(store, table, batches, options).unwrap_err());
    let snapshot = store.snapshot().unwrap();
    let rows = store
        .table(table)
        .map_or(0, |table| snapshot.rows(&table, 0..u32::MAX).unwrap().count());
    (error, rows as u64)
}

#[tokio::test]
async fn a_file_becomes_a_table_that_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let (file, home) = (folder.path().join("t.parquet"), folder.path().join("home"));
    let engine = engine(2, 8192, Joins::Corun);
    let rows = rows(5000, 8);
    engine
        .register_batches("source", rows.schema(), vec![vec![rows.clone()]])
        .unwrap();
    let copy = format!("copy (select * from source order by id) to '{}'", file.display());
    engine.query(&copy).await.unwrap();
    let store = engine.open_store(&home, Options::default()).unwrap();
    let loaded = engine.load_path(&store, "t", &file, &key(&["id"])).await.unwrap();
    assert_eq!(loaded, 5000);
    let sql = "select * from t order by id";
    let before = crate::common::lines(&engine.query(sql).await.unwrap());
    let expected = crate::common::lines(&engine.query("select * from source").await.unwrap());
    assert_eq!(before, expected);

    let taken = engine
        .load_path(&store, "t", &file, &key(&["id"]))
        .await
        .unwrap_err();
    assert!(
        taken
            .primary
            .starts_with("row 1 cannot be loaded into table \"t\""),
        "{taken}"
    );
    assert!(taken.primary.contains("key (0)"), "{taken}");
    assert_eq!(
        taken.detail.as_deref(),
        Some("0 rows were loaded before it, and stay")
    );
    let missing = engine
        .load_path(&store, "t", &folder.path().join("no.parquet"), &key(&["id"]))
        .await;
    assert!(missing.unwrap_err().primary.contains("no.parquet"));

    let in_use = engine.open_store(&home, Options::default()).unwrap_err();
    assert!(in_use.detail.unwrap().contains("open in another process"));
    drop(engine);
    store.close().unwrap();
    let again = crate::store::data::engine(2, 100, Joins::Corun);
    again.open_store(&home, Options::default()).unwrap();
    assert_eq!(crate::common::lines(&again.query(sql).await.unwrap()), before);
}

#[test]
fn columns_are_matched_by_name_and_made_wider() {
    let store = memory();
    store.create_table(definition(true)).unwrap();
    let words: DictionaryArray<Int32Type> = ["ab", "abcd"].into_iter().collect();
    let batch = batch(vec![
        ("s", Arc::new(words)),
        ("n", Arc::new(UInt16Array::from(vec![7, 8]))),
        ("c", Arc::new(LargeStringArray::from(vec![None, Some("ab")]))),
        ("id", Arc::new(Int32Array::from(vec![1, 2]))),
        ("d", Arc::new(Int32Array::from(vec![Some(3), None]))),
        ("y", Arc::new(NullArray::new(2))),
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from(vec![5_000, -1_000]).with_timezone("UTC")),
        ),
    ]);
    assert_eq!(run(&store, "t", &[batch], &LoadOptions::default()).unwrap(), 2);
    let table = store.table("t").unwrap();
    let snapshot = store.snapshot().unwrap();
    let primary = table.primary();
    let row = snapshot.fetch(&primary, &[1.into()]).unwrap().unwrap().row;
    assert_eq!(
        (row.text(10), row.int(14), row.int(7), row.int(9)),
        ("ab", 7, 300, 5)
    );
    assert!(row.is_null(11) && row.is_null(12) && row.is_null(1));
    let row = snapshot.fetch(&primary, &[2.into()]).unwrap().unwrap().row;
    assert_eq!((row.text(10), row.text(11), row.int(9)), ("abcd", "ab  ", -1));
    assert!(row.is_null(7));
}

#[test]
fn rows_a_table_does_not_take_are_named_by_their_number() {
    let small = || {
        TableDef::new("t")
            .column("k", Type::I16)
            .nullable("s", Type::Text { max: 4 })
            .primary_key(&["k"])
    };
    let rows = |keys: Vec<i64>, text: Option<&str>| {
        let count = keys.len();
        let mut all = vec![Some("ok"); count];
        all[count - 1] = text;
        batch(vec![("k", ints(keys)), ("s", texts(all))])
    };
    let ascending = |from: i64, to: i64| (from..to).collect::<Vec<_>>();
    // The first batch has 2,500 rows: three transactions. The failing row is in the third of the second batch.
    let first = rows(ascending(0, 2500), None);
    for (bad, why) in [
        (40_000, "column \"k\" holds i16; 40000 is out of its range"),
        (
            17,
            "there is a row with the key (17) of index \"primary\" already",
        ),
    ] {
        let store = memory();
        store.create_table(small()).unwrap();
        let mut keys = ascending(2500, 5000);
        keys[2100] = bad;
        let (error, left) = failure(
            &store,
            "t",
            &[first.clone(), rows(keys, None)],
            &LoadOptions::default(),
        );
        assert_eq!(
            error.primary,
            format!("row 4601 cannot be loaded into table \"t\": {why}")
                .replace("into table \"t\": there", "into table \"t\": table \"t\": there")
        );
        assert_eq!(left, 2500 + 2048);
        assert_eq!(
            error.detail.as_deref(),
            Some("4548 rows were loaded before it, and stay")
        );
    }
    let store = memory();
    store.create_table(small()).unwrap();
    let (error, left) = failure(
        &store,
        "t",
        &[rows(vec![1, 2, 3], Some("too long"))],
        &LoadOptions::default(),
    );
    assert!(
        error.primary.starts_with("row 3 ") && error.primary.contains("takes text(4), not 8 bytes"),
        "{error}"
    );
    assert_eq!(left, 0);
    let null = batch(vec![("k", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    let (error, _) = failure(&store, "t", &[null], &LoadOptions::default());
    assert!(
        error.primary.starts_with("row 2 ") && error.primary.contains("\"k\" cannot be NULL"),
        "{error}"
    );
    let broken = [
        Ok(rows(vec![1, 2], None)),
        Err(EngineError::new("the file ends too early")),
    ];
    let error = load(
        &store,
        "t",
        &rows(vec![1], None).schema(),
        broken,
        &LoadOptions::default(),
    )
    .unwrap_err();
    let LoadError::Stopped { why, loaded, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((why.as_str(), loaded), ("the file ends too early", 2));
}

#[test]
fn transactions_shrink_to_the_limits_of_the_store() {
    let options = Options {
        transaction_bytes_max: 4096,
        locks_per_transaction_max: 50,
        ..Options::default()
    };
    let store = Store::in_memory(options).unwrap();
    let rows = batch(vec![
        ("k", ints(0..3000)),
        ("s", texts((0..3000).map(|_| Some("some text")))),
    ]);
    assert_eq!(run(&store, "t", &[rows], &key(&["k"])).unwrap(), 3000);
    let full = Store::in_memory(Options {
        memory_max: 1 << 16,
        ..Options::default()
    })
    .unwrap();
    let rows = batch(vec![("k", ints(0..30_000))]);
    let (error, left) = failure(&full, "t", &[rows], &key(&["k"]));
    assert!(error.primary.contains("memory limit"), "{error}");
    assert!(
        error
            .detail
            .unwrap()
            .starts_with(&format!("{left} rows were loaded"))
    );
}

#[test]
fn columns_that_do_not_fit_are_refused_before_anything_is_loaded() {
    let store = memory();
    store
        .create_table(
            TableDef::new("t")
                .column("k", Type::I64)
                .column(
                    "price",
                    Type::Decimal {
                        precision: 9,
                        scale: 2,
                    },
                )
                .nullable("note", Type::Text { max: 9 })
                .primary_key(&["k"]),
        )
        .unwrap();
    let k = || ("k", ints([1]));
    let price = || ("price", ints([1]));
    let none = LoadOptions::default();
    for (columns, expected) in [
        (vec![k()], "no column \"price\", which cannot be NULL"),
        (
            vec![k(), price(), ("more", ints([1]))],
            "have a column \"more\", the table does not",
        ),
        (
            vec![k(), price(), ("note", ints([1]))],
            "column \"note\" holds text(9), the rows have Int64",
        ),
        (
            vec![
                k(),
                ("price", Arc::new(Float64Array::from(vec![1.5])) as ArrayRef),
            ],
            "column \"price\" holds decimal(9, 2), the rows have Float64",
        ),
        (vec![k(), price(), price()], "have column \"price\" twice"),
    ] {
        let (error, left) = failure(&store, "t", &[batch(columns)], &none);
        assert!(
            error.primary.contains(expected) && error.hint.is_some(),
            "{error}"
        );
        assert_eq!(left, 0);
    }
    for (table, columns, options, expected) in [
        ("new", vec![k()], none, "there is no table \"new\""),
        (
            "new",
            vec![k()],
            key(&["K"]),
            "names column \"K\", which the rows do not have",
        ),
        (
            "new",
            vec![k(), ("big", Arc::new(UInt64Array::from(vec![1])) as ArrayRef)],
            key(&["k"]),
            "\"big\" is of type UInt64",
        ),
    ] {
        let (error, _) = failure(&store, table, &[batch(columns)], &options);
        assert!(
            error.primary.contains(expected) && error.hint.is_some(),
            "{error}"
        );
        assert!(store.table("new").is_err());
    }
}

#[test]
fn texts_of_a_primary_key_may_be_as_long_as_others() {
    let rows = batch(vec![
        ("a", texts([Some("x")])),
        ("k", ints([1])),
        ("b", texts([None])),
        ("c", texts([None])),
    ]);
    let made = table_definition("t", &rows.schema(), &key(&["a", "k", "b"])).unwrap();
    made.check().unwrap();
    let types: Vec<Type> = made.columns.iter().map(|column| column.data_type).collect();
    let text = Type::Text { max: 4096 };
    assert_eq!(types, [text, Type::I64, text, text]);
    assert!(made.columns[3].nullable && !made.columns[0].nullable);
}
