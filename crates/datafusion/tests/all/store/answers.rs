//! Queries over tables of a store give what the same queries give over in-memory tables of the same rows, whether an index
//! helps or not.

use crate::common::lines;
use crate::store::data::{BYTES, CODES, TEXTS, WIDE_STEP, definition, engine, rows, store};
use corun_datafusion::{Engine, Joins};
use corun_store::{Direction, Store};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// Rows of which every seventh is deleted and every fifth updated, in a store with and without indexes (`t`, `u`) and in memory
/// (`m`).
struct Fixture {
    indexed: Engine,
    bare: Engine,
    memory: Engine,
}

fn change(store: &Store) {
    let table = store.table("t").unwrap();
    let primary = table.primary();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let snapshot = store.snapshot().unwrap();
    for found in snapshot
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap()
    {
        let id = found.row.int(0);
        if id % 7 == 0 {
            transaction.delete(&table, found.rid).unwrap();
        } else if id % 5 == 0 {
            transaction
                .update(&table, found.rid, |row| row.set(4, 1000_i64))
                .unwrap();
        }
    }
    transaction.commit().unwrap();
}

impl Fixture {
    async fn new(count: usize, seed: u8, partitions: usize, batch_size: usize) -> Fixture {
        let rows = rows(count, seed);
        let attached = |indexed| {
            let engine = engine(partitions, batch_size, Joins::Corun);
            let store = store(vec![(definition(indexed), rows.clone())]);
            change(&store);
            engine.attach_store(&store).unwrap();
            engine
        };
        let memory = engine(partitions, batch_size, Joins::Corun);
        memory
            .register_batches("raw", rows.schema(), vec![vec![rows.clone()]])
            .unwrap();
        let columns: Vec<String> = rows
            .schema()
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                "i32" => "case when id % 5 = 0 then cast(1000 as int) else i32 end as i32".to_owned(),
                name => name.to_owned(),
            })
            .collect();
        let sql = format!(
            "create table t as select {} from raw where id % 7 <> 0",
            columns.join(", ")
        );
        memory.query(&sql).await.unwrap();
        Fixture {
            indexed: attached(true),
            bare: attached(false),
            memory,
        }
    }

    async fn check(&self, sql: &str) -> TestCaseResult {
        let expected = lines(&self.memory.query(sql).await.unwrap());
        for (engine, name) in [(&self.indexed, "indexed"), (&self.bare, "bare")] {
            let answer = engine.query(sql).await;
            let answer = answer.map_err(|error| TestCaseError::fail(format!("{name}: {sql}: {error}")))?;
            let plan = engine.explain(sql, false).await.unwrap();
            prop_assert_eq!(lines(&answer), expected.clone(), "{}: {}\n{}", name, sql, plan);
        }
        Ok(())
    }
}

/// A literal of a column in SQL; some values are in no row.
fn literal(column: &str, pick: usize) -> String {
    let number = pick as i64 % 44 - 9;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match column {
        "b" => if pick.is_multiple_of(2) { "true" } else { "false" }.to_owned(),
        "i8" | "i16" | "i32" | "i64" | "n" => number.to_string(),
        "id" => (pick as i64 * 7 % 310 - 3).to_string(),
        "f" => {
            let floats = [
                "-1.5",
                "-0.0",
                "0.0",
                "1.5",
                "1.75",
                "'NaN'",
                "'Infinity'",
                "'-Infinity'",
            ];
            format!("cast({} as double)", floats[pick % floats.len()])
        }
        "d" => format!("cast({number}.25 as decimal(9, 2))"),
        "r" => {
            let floats = ["0.15", "-0.15", "0.0", "0.1", "'NaN'", "'-Infinity'"];
            format!("cast({} as real)", floats[pick % floats.len()])
        }
        "w" => format!(
            "arrow_cast('{}.{:02}', 'Decimal128(30, 2)')",
            i128::from(number) * WIDE_STEP / 100,
            number.unsigned_abs() * 25 % 100
        ),
        "tz" => format!(
            "arrow_cast(timestamp '2020-01-01 00:00:{:02}.5', 'Timestamp(Microsecond, Some(\"UTC\"))')",
            pick % 20
        ),
        "u" => format!(
            "arrow_cast(X'{}', 'FixedSizeBinary(16)')",
            hex(&[(pick % 7) as u8; 16])
        ),
        "day" => format!("(date '2020-01-01' + interval '{number} days')"),
        "ts" => format!("timestamp '2020-01-01 00:00:{:02}.5'", pick % 20),
        "s" => match pick % (TEXTS.len() + 2) {
            0 => "'abcdefghijklmnopqrstuvwxyz'".to_owned(),
            1 => "'nothing'".to_owned(),
            at => format!("'{}'", TEXTS[at - 2]),
        },
        "c" => match pick % (CODES.len() + 2) {
            0 => "'abcde'".to_owned(),
            1 => "'a '".to_owned(),
            at => format!("'{}'", CODES[at - 2]),
        },
        "y" => format!("X'{}'", hex(BYTES[pick % BYTES.len()])),
        _ => format!("X'{:02x}{:02x}'", pick % 7, 255 - pick % 6),
    }
}

const COLUMNS: &[&str] = &[
    "id", "b", "i8", "i16", "i32", "i64", "f", "d", "day", "ts", "s", "c", "y", "z", "n", "r", "w", "tz", "u",
];

fn atom() -> impl Strategy<Value = String> {
    (0..COLUMNS.len(), 0..14_usize, any::<[u16; 5]>()).prop_map(|(column, shape, picks)| {
        let column = COLUMNS[column];
        let at = |number: usize| literal(column, picks[number] as usize);
        match shape {
            0..=3 => format!("{column} = {}", at(0)),
            4 => format!("{column} < {}", at(0)),
            5 => format!("{} >= {column}", at(0)),
            6 => format!("{column} > {}", at(0)),
            7 => format!("{column} >= {}", at(0)),
            8 | 9 => format!("{column} between {} and {}", at(0), at(1)),
            10 => format!("{column} in ({}, {}, null)", at(0), at(1)),
            11 => format!(
                "{column} in ({}, {}, {}, {}, {})",
                at(0),
                at(1),
                at(2),
                at(3),
                at(4)
            ),
            12 => format!("{column} is null"),
            _ => format!("{column} <> {}", at(0)),
        }
    })
}

fn predicate() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => atom(),
        1 => (atom(), atom()).prop_map(|(a, b)| format!("({a} or {b})")),
        1 => atom().prop_map(|a| format!("not ({a})")),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(" and "))
}

#[test]
fn filters_limits_and_projections_are_those_of_tables_in_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fixture = runtime.block_on(Fixture::new(300, 3, 3, 17));
    let cases = std::env::var("PROPTEST_CASES").map_or(400, |cases| cases.parse().unwrap());
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(predicate in predicate(), shape in 0..5_usize)| {
        let sql = match shape {
            0 => format!("select * from t where {predicate}"),
            1 => format!("select count(*), count(s), min(day), max(d) from t where {predicate}"),
            2 => format!("select n, c, id from t where {predicate} order by i32, day, id limit 7"),
            3 => format!("select id from t where {predicate} order by n nulls first, id limit 11"),
            _ => format!("select a.id, b.s from (select * from t where {predicate}) a join t b on a.i32 = b.i16"),
        };
        runtime.block_on(fixture.check(&sql))?;
    });
}

#[tokio::test]
async fn every_type_comes_back_with_its_nulls() {
    let rows = rows(200, 9);
    for (partitions, batch_size) in [(1, 8192), (2, 7)] {
        let engine = engine(partitions, batch_size, Joins::Corun);
        engine
            .attach_store(&store(vec![(definition(false), rows.clone())]))
            .unwrap();
        let output = engine.query("select * from t order by id").await.unwrap();
        assert_eq!(output.schema.fields(), rows.schema().fields());
        let back = arrow::compute::concat_batches(&output.schema, &output.batches).unwrap();
        for (column, field) in rows.schema().fields().iter().enumerate() {
            assert!(field.name() == "id" || field.name() == "n" || rows.column(column).null_count() > 0);
            assert_eq!(back.column(column), rows.column(column), "{}", field.name());
        }
    }
}

#[tokio::test]
async fn large_sparse_tables_are_read_in_parts() {
    let fixture = Fixture::new(30_000, 5, 4, 1000).await;
    let plan = fixture.bare.explain("select sum(n) from t", false).await.unwrap();
    assert!(plan.contains("StoreScan: table=t, full"), "{plan}");
    for sql in [
        "select count(*), sum(n), sum(id), min(s) from t",
        "select c, count(*) from t group by c",
        "select count(*) from t where n = 14 and id > 20000",
        "select id from t where n = 14 order by id limit 3",
        "select count(*) from t where n in (14, 15, 16) and id between 5000 and 25000",
        "select count(*) from t a join t b on a.id = b.n",
    ] {
        fixture.check(sql).await.unwrap();
    }
    // A limit ends the scan.
    let few = fixture.bare.query("select id from t limit 5").await.unwrap();
    assert_eq!(few.num_rows(), 5);
}

#[tokio::test]
async fn many_rows_of_one_key_are_read_batch_by_batch() {
    let fixture = Fixture::new(6_000, 6, 1, 64).await;
    // 120 rows a key of n, 17 times more than fit one batch of two columns; i64 has 200 rows a key.
    for sql in [
        "select id, n from t where n = 21",
        "select id, i64, s from t where i64 = 3",
        "select n from t where s = 'b' and i64 = 2",
    ] {
        let plan = fixture.indexed.explain(sql, false).await.unwrap();
        assert!(plan.contains("index="), "{plan}");
        fixture.check(sql).await.unwrap();
    }
}
