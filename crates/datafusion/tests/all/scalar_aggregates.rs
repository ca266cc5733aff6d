//! Aggregates without groups over one table are computed in one scan of it, and give what they give one by one.

use crate::aggregates::{opened, rounded};
use crate::common::{engine, lines};
use corun_datafusion::{Engine, Joins};
use std::path::Path;

/// 20,000 sales with NULLs in what is asked for and in what is computed, an empty table, and a few rows to put answers beside.
const TABLES: &str = "
create table sales as
  select value as id, case when value % 11 = 0 then null else value % 100 end as quantity,
         case when value % 7 = 0 then null else cast(value % 997 as decimal(7, 2)) / 4 end as price, value % 13 as shop,
         case when value % 5 = 0 then null else value * 0.25 end as paid, case when value % 3 = 0 then null else 'text ' || (value % 40) end as note
  from generate_series(1, 20000);
create table returns as select id, quantity, price, paid from sales where id % 3 = 1;
create table nothing as select * from sales where id < 0;
create table reasons as select value as reason from generate_series(1, 4);
";

/// Like TPC-DS 9: of each range of quantities one of two averages.
fn buckets(table: &str) -> String {
    let bucket = |number: i32| {
        let rows = format!(
            "from {table} where quantity between {} and {}",
            number * 20 - 19,
            number * 20
        );
        format!(
            "case when (select count(*) {rows}) > {} then (select avg(price) {rows}) else (select avg(paid) {rows}) end as bucket{number}",
            number * 900
        )
    };
    let all: Vec<String> = (1..=5).map(bucket).collect();
    format!("select {} from reasons where reason = 1", all.join(", "))
}

/// Like TPC-DS 28: derived tables with a count of different values, cross joined.
fn cross_joined(table: &str) -> String {
    let part = |number: i32| {
        format!(
            "(select avg(price) as a{number}, count(price) as c{number}, count(distinct price) as d{number} from {table}
              where quantity between {} and {} and (price between {number} and 90 or paid between 100 and {number}00 or shop = {number})) b{number}",
            number * 6,
            number * 6 + 5
        )
    };
    let all: Vec<String> = (0..6).map(part).collect();
    format!("select * from {}", all.join(", "))
}

/// Statements that read `sales` once, but for the rows of an outer query.
fn merged() -> Vec<String> {
    let all = [
        // Conditions that overlap, are equal, and are NULL for some rows.
        "select (select count(*) from sales where quantity > 10), (select sum(price) from sales where quantity < 30),
                (select min(paid) from sales where quantity > 10), (select max(note) from sales where quantity > 10 and shop < 5),
                (select stddev(paid) from sales where not (quantity > 10)), (select count(note) from sales where quantity is null)",
        // The same condition everywhere, the same aggregate twice.
        "select (select avg(price) from sales where quantity = 3) + (select avg(price) from sales where quantity = 3),
                (select sum(paid) from sales where quantity = 3)",
        // No condition.
        "select (select avg(price) from sales), (select sum(price) from sales where shop = 3)",
        "select * from (select sum(paid) as p from sales) x, (select sum(paid) as q, max(id) as m from sales where shop in (1, 2)) y",
        // Own conditions of aggregates.
        "select (select count(*) filter (where shop = 4) from sales where quantity < 50),
                (select sum(paid) filter (where note is null) from sales where quantity < 70), (select sum(paid) from sales where quantity < 70)",
        // Other names.
        "select * from (select avg(s.price) as one from sales s where s.quantity < 9) x,
                       (select avg(t.price) as one, count(*) as two from sales as t where t.quantity > 90) y",
        "select * from (select sum(y + 1) as one from (select price * 2 as y, quantity as q from sales) where q < 9) x
           join (select sum(price) as two from sales where quantity < 10) y on one < two",
        // Expressions around them.
        "select (select sum(price) from sales where quantity < 40) / (select count(price) + 1 from sales where quantity < 20)",
        "select 1 where (select sum(paid) from sales where quantity < 40) > (select sum(paid) from sales where quantity < 39)",
        "select count(*) from reasons where reason < (select max(quantity) from sales where shop = 1)
           and reason > (select min(quantity) from sales where shop = 2)",
        // No rows pass.
        "select (select count(*) from sales where quantity > 1000) as a, (select sum(paid) from sales where quantity < -5) as b,
                (select count(*) from sales where quantity > 5) as c",
        "select x.n, y.n from (select count(*) as n from sales where shop = 1) x left join (select count(*) as n from sales where shop = 2) y
           on x.n = y.n",
        "select count(*) as n from sales where shop = 1 union all select count(quantity) from sales where shop = 2",
        "with w as (select avg(paid) as a, count(*) as n from sales where shop < 7)
           select x.a, y.n, (select avg(paid) from sales where shop > 7) from w x join w y on x.n = y.n",
        // What could fail is asked of the same rows.
        "select (select sum(paid) from sales where 100 / (shop + 1) > 20), (select avg(paid) from sales where 100 / (shop + 1) > 20)",
    ];
    let all = all.into_iter().map(str::to_owned);
    [buckets("sales"), cross_joined("sales")]
        .into_iter()
        .chain(all)
        .collect()
}

/// Statements whose aggregates stay apart, and how often they read `sales`.
const APART: [(&str, usize); 12] = [
    (
        "select (select sum(paid) from sales where shop = 1) as a, (select sum(paid) from returns where quantity = 1) as b",
        1,
    ),
    (
        "select (select count(*) from sales) as a, (select max(paid) from sales) as b, (select min(paid) from sales where shop = 1) as c",
        3,
    ),
    (
        "select (select sum(paid) from sales where random() < 2 and shop < 50) as a, (select sum(paid) from sales where shop < 60) as b",
        2,
    ),
    (
        "select (select count(paid + random()) from sales where shop < 50) as a, (select sum(paid) from sales where shop < 60) as b",
        2,
    ),
    (
        "select (select sum(id) from (select id from sales order by id limit 5)) as a, (select sum(id) from sales where shop < 60) as b",
        2,
    ),
    (
        "select (select sum(shop) from sales) as a, (select sum(paid) from sales where quantity = 1) as b",
        2,
    ),
    (
        "select reason, (select sum(paid) from sales where shop = reason), (select avg(paid) from sales where shop = reason + 1) from reasons",
        2,
    ),
    (
        "select (select sum(paid) from sales where shop = (select min(reason) from reasons)) as a, (select sum(paid) from sales where shop = 5) as b",
        2,
    ),
    (
        "select (select first_value(paid order by id) from sales where shop = 1) as a, (select sum(paid) from sales where shop = 5) as b",
        2,
    ),
    (
        "select (select sum(paid) from sales where 100 / (shop + 1) > 20) as a, (select sum(paid) from sales where 100 / (shop + 1) > 10) as b",
        2,
    ),
    (
        "select * from (select shop, sum(paid) from sales where quantity = 1 group by shop) x, (select sum(paid) from sales where quantity = 2) y",
        2,
    ),
    (
        "select (select count(distinct paid) from sales where shop = 1) as a, (select count(distinct paid) from sales where shop = 2) as b",
        2,
    ),
];

/// How many tables the physical plan reads, in memory or in files.
async fn scans(engine: &Engine, sql: &str) -> usize {
    physical(engine, sql).await.matches("DataSourceExec").count()
}

async fn physical(engine: &Engine, sql: &str) -> String {
    engine.explain(sql, false).await.unwrap()
}

/// Scans of tables other than `sales`.
fn others(sql: &str) -> usize {
    sql.matches("from reasons").count() + sql.matches("from returns").count()
}

async fn compare(stock: &Engine, corun: &Engine, sql: &str, name: &str) {
    let want = stock.query(sql).await;
    let got = corun.query(sql).await;
    let (want, got) = match (want, got) {
        (Ok(want), Ok(got)) => (want, got),
        (want, got) => panic!("{name}\n{sql}\n{:?}\n{:?}", want.err(), got.err()),
    };
    assert_eq!(rounded(lines(&got)), rounded(lines(&want)), "{name}\n{sql}");
    assert_eq!(got.schema, want.schema, "{name}\n{sql}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_scan_gives_what_several_give() {
    for (partitions, batch_size) in [(1, 8192), (2, 1000), (3, 7), (7, 64)] {
        let stock = opened(TABLES, Joins::Stock, partitions, batch_size, None).await;
        let corun = opened(TABLES, Joins::Corun, partitions, batch_size, None).await;
        for sql in merged() {
            let plan = physical(&corun, &sql).await;
            assert_eq!(scans(&corun, &sql).await, 1 + others(&sql), "{sql}\n{plan}");
            compare(&stock, &corun, &sql, &format!("{partitions} partitions")).await;
        }
        for sql in [buckets("nothing"), cross_joined("nothing")] {
            compare(&stock, &corun, &sql, "no rows").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_to_stay_apart_does() {
    let stock = opened(TABLES, Joins::Stock, 2, 1000, None).await;
    let corun = opened(TABLES, Joins::Corun, 2, 1000, None).await;
    for (sql, count) in APART {
        let plan = physical(&corun, sql).await;
        let own = physical(&stock, sql).await;
        let scans = |plan: &str| plan.matches("DataSourceExec").count();
        // Counts and extremes of a whole table in memory are known without reading it.
        let known = usize::from(sql.contains("(select count(*) from sales)"));
        assert_eq!(scans(&plan), count + others(sql) - known, "{sql}\n{plan}");
        assert_eq!(scans(&own), scans(&plan), "{sql}\n{own}");
        assert!(!plan.contains("FILTER"), "{sql}\n{plan}");
        compare(&stock, &corun, sql, "apart").await;
    }
}

#[tokio::test]
async fn options_turn_it_off() {
    let stock = opened(TABLES, Joins::Stock, 2, 8192, None).await;
    let apart = scans(&stock, &buckets("sales")).await;
    assert_eq!(apart, 16);
    for option in ["corun.rewrite", "corun.share_parts"] {
        let corun = opened(TABLES, Joins::Corun, 2, 8192, None).await;
        assert_eq!(scans(&corun, &buckets("sales")).await, 2);
        corun.query(&format!("set {option} = false")).await.unwrap();
        assert_eq!(scans(&corun, &buckets("sales")).await, apart, "{option}");
    }
}

/// A file with the rows of `sales`, in small row groups and ordered by `id`.
async fn write(path: &Path) {
    let writer = opened(TABLES, Joins::Stock, 1, 1024, None).await;
    let sql = format!(
        "copy (select * from sales order by id) to '{}' stored as parquet options ('format.max_row_group_size' 1000)",
        path.display()
    );
    writer.query(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_once_and_by_their_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sales.parquet");
    write(&path).await;
    for (partitions, batch_size) in [(1, 8192), (2, 500), (3, 7), (7, 8192)] {
        let stock = engine(Joins::Stock, partitions, batch_size, &[], &[]);
        let corun = engine(Joins::Corun, partitions, batch_size, &[], &[]);
        for engine in [&stock, &corun] {
            engine.register_path("sales", &path).await.unwrap();
            let reasons = "create table reasons as select value as reason from generate_series(1, 4)";
            engine.query(reasons).await.unwrap();
        }
        for sql in merged() {
            let plan = physical(&corun, &sql).await;
            assert_eq!(scans(&corun, &sql).await, 1 + others(&sql), "{sql}\n{plan}");
            compare(&stock, &corun, &sql, &format!("{partitions} partitions")).await;
        }
        let ranges = "select (select sum(paid) from sales where id between 100 and 300), (select avg(paid) from sales where id > 19500)";
        compare(&stock, &corun, ranges, "ranges").await;
        let plan = corun.explain(ranges, true).await.unwrap();
        assert_eq!(plan.matches("DataSourceExec").count(), 1, "{plan}");
        assert!(plan.contains("pruning_predicate="), "{plan}");
        // Two of twenty groups of rows have such numbers.
        let read = plan.split("row_groups_pruned_statistics=").nth(1).unwrap();
        assert!(read.starts_with("20 total → 2 matched"), "{plan}");
    }
}

/// Folders that name a column: conditions on it choose the files, and are not asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_that_name_a_column_are_right() {
    let folder = tempfile::tempdir().unwrap();
    for year in [2019, 2020, 2021] {
        let part = folder.path().join(format!("year={year}"));
        std::fs::create_dir(&part).unwrap();
        write(&part.join("t.parquet")).await;
    }
    let create = format!(
        "create external table sales (id bigint, quantity bigint, paid double, year int) stored as parquet partitioned by (year) location '{}'",
        folder.path().display()
    );
    let stock = engine(Joins::Stock, 2, 1000, &[], &[]);
    let corun = engine(Joins::Corun, 2, 1000, &[], &[]);
    for engine in [&stock, &corun] {
        engine.query(&create).await.unwrap();
    }
    for (sql, count) in [
        (
            "select (select count(*) from sales where year = 2020 and quantity < 5), (select sum(paid) from sales where year = 2020 and quantity > 70)",
            1,
        ),
        (
            "select (select count(*) from sales where year = 2019 and quantity < 5), (select sum(paid) from sales where year = 2020 and quantity > 70)",
            2,
        ),
        (
            "select (select sum(id) from sales where year = 2019 or quantity < 5), (select sum(paid) from sales where quantity > 70)",
            1,
        ),
    ] {
        let plan = physical(&corun, sql).await;
        assert_eq!(scans(&corun, sql).await, count, "{sql}\n{plan}");
        compare(&stock, &corun, sql, "folders").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_short_is_enough() {
    let stock = opened(TABLES, Joins::Stock, 2, 1000, None).await;
    let corun = opened(TABLES, Joins::Corun, 2, 1000, Some(16 << 20)).await;
    for sql in [buckets("sales"), cross_joined("sales")] {
        compare(&stock, &corun, &sql, "16 MB").await;
    }
}
