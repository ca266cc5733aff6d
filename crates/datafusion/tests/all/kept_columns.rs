//! Columns of Parquet files that are kept: right rows whatever the files are like and whatever happens to them, and nothing read twice.

use crate::common::{engine, lines};
use corun_datafusion::{Engine, Joins};
use futures::StreamExt;
use std::path::Path;

const KEPT: (&str, &str) = ("corun.keep_columns", "on");

/// Many small row groups and pages.
const SMALL: &str =
    "'format.max_row_group_size' 1000, 'format.data_page_row_count_limit' 100, 'format.write_batch_size' 100";

async fn write(path: &Path, rows: &str, options: &str) {
    let writer = engine(Joins::Stock, 1, 1024, &[], &[]);
    let sql = format!(
        "copy ({rows}) to '{}' stored as parquet options ({options})",
        path.display()
    );
    writer.query(&sql).await.unwrap();
}

/// A table of `count` rows from `first` on: numbers with NULLs, texts of few and of many values, decimals, dates, lists and structs.
fn rows(first: usize, count: usize) -> String {
    format!(
        "select value as id, case when value % 7 = 0 then null else value * 31 % 101 end as n,
           case when value % 5 = 0 then null else 'text ' || (value * 17 % 997) || ' that is longer than twelve bytes' end as s,
           case value % 3 when 0 then 'red' when 1 then 'green' end as colour,
           cast(value as decimal(12, 2)) / 4 as price, cast('2020-01-01' as date) + cast(value % 400 as int) as day,
           [value, value + 1] as list, named_struct('x', value, 'y', 'z' || value) as pair
         from generate_series({first}, {}) order by value",
        first + count - 1
    )
}

async fn open(
    joins: Joins,
    partitions: usize,
    batch_size: usize,
    settings: &[(&str, &str)],
    path: &Path,
) -> Engine {
    let engine = engine(joins, partitions, batch_size, settings, &[]);
    engine.register_path("t", path).await.unwrap();
    engine
}

async fn answer(engine: &Engine, sql: &str) -> Vec<String> {
    lines(&engine.query(sql).await.unwrap())
}

/// All that an analysed plan counts under a name.
fn sum(plan: &str, name: &str) -> usize {
    let before = format!("{name}=");
    let values = plan.split(&before).skip(1).map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<usize>().unwrap()
    });
    values.sum()
}

/// (columns taken, columns kept) by the scans of a statement, which is run.
async fn counted(engine: &Engine, sql: &str) -> (usize, usize) {
    let plan = engine.explain(sql, true).await.unwrap();
    (sum(&plan, "columns_taken"), sum(&plan, "columns_kept"))
}

const QUERIES: [&str; 12] = [
    "select count(*), sum(id), sum(n), min(s), max(price) from t",
    "select * from t where id between 1200 and 1250 order by id",
    "select colour, count(*), sum(price), min(day) from t where n > 50 group by colour order by colour",
    "select s from t where s is not null order by s limit 7",
    "select id from t order by id desc limit 3",
    "select id, price from t where n = 5 order by price desc, id limit 10",
    "select a.id, b.n from t a join t b on a.id = b.n where a.colour = 'red' order by a.id, b.n limit 50",
    "select list[1], pair['y'] from t where id % 500 = 3 order by id",
    "select id from t limit 5 offset 4990",
    "select day, count(distinct s) from t group by day order by day limit 20",
    "select count(*) from t",
    "select id + 1, n, n as m from t where id in (3, 1003, 4999) order by id",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same_and_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 5000), SMALL).await;
    for (partitions, batch_size) in [(1, 8192), (2, 100), (3, 7), (7, 333)] {
        let stock = open(Joins::Stock, partitions, batch_size, &[], &file).await;
        let auto = ("corun.keep_columns", "auto");
        for setting in [KEPT, auto] {
            let corun = open(Joins::Corun, partitions, batch_size, &[setting], &file).await;
            for round in 0..6 {
                for sql in QUERIES {
                    // Without an order any rows are right.
                    let (mut want, mut got) = (answer(&stock, sql).await, answer(&corun, sql).await);
                    if !sql.contains("order by") && sql.contains("limit") {
                        (want, got) = (vec![want.len().to_string()], vec![got.len().to_string()]);
                    }
                    assert_eq!(
                        got, want,
                        "{sql}, partitions {partitions}, batch {batch_size}, round {round}"
                    );
                }
            }
            assert!(corun.shared_work().column_bytes > 0, "{setting:?}");
            let (taken, kept) = counted(&corun, QUERIES[0]).await;
            assert_eq!(
                (taken, kept),
                (5 * 4, 0),
                "{setting:?}: all there, partitions {partitions}"
            );
        }
    }
}

#[tokio::test]
async fn keys_are_looked_up_in_kept_columns_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 3000), SMALL).await;
    let engine = open(Joins::Corun, 2, 1024, &[KEPT], &file).await;
    let chain = "select count(*) from t join (select id as a from t where id % 50 = 3) on t.n = a
                 join (select id as b from t where id % 10 = 1) on t.id = b";
    for _ in 0..2 {
        let plan = engine.explain(chain, true).await.unwrap();
        assert!(sum(&plan, "rows_dropped") > 0, "{plan}");
    }
}

#[tokio::test]
async fn by_default_columns_are_kept_from_the_second_time_on_in_four_turns() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 3000), SMALL).await;
    let engine = open(Joins::Corun, 1, 8192, &[("corun.keep_columns", "auto")], &file).await;
    let sql = "select sum(id), sum(n) from t";
    for turn in [(0, 0), (0, 1), (1, 2), (3, 2), (5, 1), (6, 0)] {
        assert_eq!(counted(&engine, sql).await, turn);
    }
    // One column more: the others are taken meanwhile, and in another session, too.
    let session = engine.session();
    let sql = "select sum(id), sum(n), max(s) from t";
    for turn in [(6, 0), (6, 1), (7, 0), (7, 1), (8, 1), (9, 0)] {
        assert_eq!(counted(&session, sql).await, turn);
    }
    session.query("set corun.keep_columns = off").await.unwrap();
    assert_eq!(counted(&session, sql).await, (0, 0));
}

#[tokio::test]
async fn what_statistics_pages_and_bloom_filters_leave_out_is_not_read_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    let options = format!("{SMALL}, 'format.bloom_filter_on_write' true");
    write(&file, &rows(1, 5000), &options).await;
    let engine = open(Joins::Corun, 1, 8192, &[KEPT], &file).await;
    // One row group by its least and largest value, of it a page or two.
    let sql = "select sum(n) from t where id between 1210 and 1250";
    assert_eq!(counted(&engine, sql).await, (0, 0));
    // One row group by its least and largest value, all of it.
    let sql = "select sum(n) from t where id between 1001 and 2000";
    assert_eq!(counted(&engine, sql).await, (0, 2));
    assert_eq!(counted(&engine, sql).await, (2, 0));
    // None by Bloom filters.
    let sql = "select sum(id) from t where s = 'text 2000 that is longer than twelve bytes'";
    assert_eq!(counted(&engine, sql).await, (0, 0));
    // What is there is taken all the same.
    counted(&engine, "select count(s), count(id), count(n) from t").await;
    let sql = "select sum(n) from t where id between 1210 and 1250";
    assert_eq!(counted(&engine, sql).await, (2, 0));
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (
        folder.path().join("t.parquet"),
        folder.path().join("other.parquet"),
    );
    write(&file, &rows(1, 2000), SMALL).await;
    let engine = open(Joins::Corun, 2, 8192, &[KEPT], &file).await;
    let sql = "select sum(id), sum(n), max(s) from t where id > 0";
    for first in [1, 101, 201] {
        write(&other, &rows(first, 2000), SMALL).await;
        std::fs::rename(&other, &file).unwrap();
        let stock = open(Joins::Stock, 1, 8192, &[], &file).await;
        for _ in 0..3 {
            assert_eq!(answer(&engine, sql).await, answer(&stock, sql).await, "{first}");
        }
        assert_eq!(counted(&engine, sql).await, (6, 0), "{first}");
    }
    let stock = open(Joins::Stock, 1, 8192, &[], &file).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(answer(&engine, sql).await, answer(&stock, sql).await);
}

/// Files of different ages have different columns and types; folders name a column.
#[tokio::test]
async fn files_with_other_columns_and_folders_that_name_one_are_right() {
    let folder = tempfile::tempdir().unwrap();
    for (year, sql) in [
        (
            2019,
            "select cast(value as int) as id, 'old' as kind from generate_series(1, 2500)",
        ),
        (
            2020,
            "select value as id, 'new' as kind, value * 2 as n from generate_series(2501, 5000)",
        ),
    ] {
        let part = folder.path().join(format!("year={year}"));
        std::fs::create_dir(&part).unwrap();
        write(&part.join("t.parquet"), sql, SMALL).await;
    }
    let create = format!(
        "create external table t (id bigint, kind varchar, n bigint, year int) stored as parquet partitioned by (year) location '{}'",
        folder.path().display()
    );
    let stock = engine(Joins::Stock, 2, 100, &[], &[]);
    let corun = engine(Joins::Corun, 2, 100, &[KEPT], &[]);
    for engine in [&stock, &corun] {
        engine.query(&create).await.unwrap();
    }
    for sql in [
        "select year, kind, count(*), sum(id), sum(n) from t group by year, kind order by year",
        "select id, n, year from t where id % 1000 = 7 order by id",
        "select count(*) from t where n is null and year = 2019",
        "select year, id from t where year = 2020 and id < 2600 order by id",
        "select sum(id) from t where n > 9000",
    ] {
        let want = answer(&stock, sql).await;
        for _ in 0..3 {
            assert_eq!(answer(&corun, sql).await, want, "{sql}");
        }
    }
    let (taken, _) = counted(&corun, "select sum(id), max(year) from t").await;
    assert_eq!(taken, 6);
}

#[tokio::test]
async fn readers_that_stop_early_or_are_dropped_leave_nothing_half() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 5000), "'format.max_row_group_size' 5000").await;
    let engine = open(Joins::Corun, 1, 100, &[KEPT], &file).await;
    for sql in ["select id, s from t", "select id, s from t where n > 3"] {
        let (_, mut stream) = engine.stream(sql).await.unwrap();
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        drop(stream);
    }
    assert_eq!(engine.shared_work().columns, 0);
    let failing = engine
        .query("select sum(id), sum(n / (id - 4001)) from t where s is not null")
        .await;
    assert!(failing.is_err());
    assert_eq!(counted(&engine, "select sum(id), count(s) from t").await, (0, 2));
    assert_eq!(counted(&engine, "select sum(id), count(s) from t").await, (2, 0));
}

#[tokio::test]
async fn columns_stay_within_their_bytes_and_within_a_limited_pool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 20_000), SMALL).await;
    let budget = ("corun.kept_columns_bytes", "100000");
    let engine = open(Joins::Corun, 2, 100, &[KEPT, budget], &file).await;
    for round in 0..4 {
        for sql in [QUERIES[0], QUERIES[2], QUERIES[9]] {
            answer(&engine, sql).await;
        }
        let state = engine.shared_work();
        assert!(
            state.column_bytes <= 100_000 && state.columns > 0,
            "{round}: {state:?}"
        );
    }
    engine.query("set corun.kept_columns_bytes = 1000").await.unwrap();
    answer(&engine, QUERIES[0]).await;
    assert!(engine.shared_work().column_bytes <= 1000);
    let options = corun_datafusion::EngineOptions {
        partitions: 2,
        memory_limit_bytes: Some(2 << 20),
        settings: vec![(KEPT.0.to_owned(), KEPT.1.to_owned())],
        ..Default::default()
    };
    let limited = Engine::new(&options).unwrap();
    limited.register_path("t", &file).await.unwrap();
    let stock = open(Joins::Stock, 2, 8192, &[], &file).await;
    for _ in 0..3 {
        // Nothing that sorts: that takes more than there is.
        for sql in [
            QUERIES[0],
            "select count(*), sum(n), max(colour) from t where n > 50",
        ] {
            assert_eq!(answer(&limited, sql).await, answer(&stock, sql).await, "{sql}");
        }
        let state = limited.shared_work();
        assert!(state.column_bytes <= 256 << 10, "{state:?}");
    }
}

/// Sessions that read the same file at the same time, with all kinds of columns, in an order of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_at_the_same_time_see_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, &rows(1, 5000), SMALL).await;
    let stock = open(Joins::Stock, 2, 100, &[], &file).await;
    let queries: Vec<&str> = QUERIES
        .iter()
        .copied()
        .filter(|sql| sql.contains("order by"))
        .collect();
    let mut want = Vec::new();
    for sql in &queries {
        want.push(answer(&stock, sql).await);
    }
    let engine = open(
        Joins::Corun,
        2,
        100,
        &[KEPT, ("corun.kept_columns_bytes", "300000")],
        &file,
    )
    .await;
    let sessions = (0..8).map(|number| {
        let (session, queries, want) = (engine.session(), queries.clone(), want.clone());
        tokio::spawn(async move {
            for place in 0..4 * queries.len() {
                let at = (place * (number + 1) + number) % queries.len();
                assert_eq!(answer(&session, queries[at]).await, want[at], "{}", queries[at]);
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    assert!(engine.shared_work().column_bytes <= 300_000);
}
