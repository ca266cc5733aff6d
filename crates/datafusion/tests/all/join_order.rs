//! Joins in another order give the same rows, and only where it pays.

use crate::common::{engine, lines};
use corun_datafusion::{Engine, Joins};
use std::path::Path;

/// Sales and stock of 1,000 items; every day of three years has its week.
const TABLES: [(&str, &str); 4] = [
    (
        "sales",
        "select value as sale, value * 7 % 1000 as item, value * 13 % 1095 as day, value % 90 as quantity from generate_series(1, 20000)",
    ),
    (
        "stock",
        "select value % 1000 as item, case when value % 50 = 0 then null else value / 1000 * 7 % 1095 end as day, value % 100 as there, value % 3 as depot from generate_series(1, 60000)",
    ),
    (
        "days",
        "select value as day, value / 7 as week, value / 30 % 12 as month from generate_series(0, 1094)",
    ),
    (
        "depots",
        "select value as depot, 'depot ' || value as name from generate_series(0, 2)",
    ),
];

async fn written(folder: &Path) {
    let writer = engine(Joins::Stock, 1, 1024, &[], &[]);
    for (name, rows) in TABLES {
        let path = folder.join(format!("{name}.parquet"));
        let sql = format!("copy ({rows}) to '{}' stored as parquet", path.display());
        writer.query(&sql).await.unwrap();
    }
}

async fn open(folder: &Path, joins: Joins, partitions: usize, settings: &[(&str, &str)]) -> Engine {
    let engine = engine(joins, partitions, 512, settings, &[]);
    for (name, _) in TABLES {
        let path = folder.join(format!("{name}.parquet"));
        engine.register_path(name, &path).await.unwrap();
    }
    engine
}

const FROM: &str =
    "from sales join stock on sales.item = stock.item join depots on stock.depot = depots.depot
   join days d1 on sales.day = d1.day join days d2 on stock.day = d2.day where d1.week = d2.week";

fn statements() -> Vec<String> {
    [
        format!("select count(*), sum(sale), sum(there), min(name) {FROM}"),
        format!("select sale, name, there, d2.day {FROM} and there < quantity and d1.month = 3"),
        format!("select count(*) {FROM} and there < quantity and d2.day > d1.day + 2"),
        format!("select d1.week, count(*), sum(quantity) {FROM} group by d1.week"),
        format!("select count(*) {FROM}"),
        format!("select x.n, h.name from (select depots.depot as h, count(*) as n {FROM} group by depots.depot) x join depots h on x.h = h.depot"),
        "select count(*), sum(quantity) from sales join days on sales.day = days.day join stock on sales.item = stock.item and stock.day = days.day".to_owned(),
    ]
    .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same_in_another_order() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path()).await;
    for partitions in [1, 3] {
        let stock = open(folder.path(), Joins::Stock, partitions, &[]).await;
        let corun = open(folder.path(), Joins::Corun, partitions, &[]).await;
        for sql in statements() {
            let (want, got) = (stock.query(&sql).await.unwrap(), corun.query(&sql).await.unwrap());
            assert_eq!(got.schema, want.schema, "{sql}");
            assert_eq!(lines(&got), lines(&want), "{partitions} partitions: {sql}");
        }
    }
}

/// How many keys the join of the stock has.
fn keys_of_stock(plan: &str) -> usize {
    let joins = plan.lines().filter(|line| line.contains("CorunJoinExec"));
    let keys = joins.filter_map(|line| {
        let on = line.split("on=[").nth(1)?.split(']').next()?;
        on.contains("item@").then(|| on.matches("), (").count() + 1)
    });
    keys.max().unwrap_or(0)
}

#[tokio::test]
async fn the_stock_is_found_by_item_and_day() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path()).await;
    let sql = &statements()[0];
    let engine = open(folder.path(), Joins::Corun, 2, &[]).await;
    let plan = engine.explain(sql, false).await.unwrap();
    assert_eq!(keys_of_stock(&plan), 2, "{plan}");
    let off = open(folder.path(), Joins::Corun, 2, &[("corun.join_order", "false")]).await;
    let plan = off.explain(sql, false).await.unwrap();
    assert_eq!(keys_of_stock(&plan), 1, "{plan}");
}

/// What `EXPLAIN` says beside the plans.
async fn explained(engine: &Engine, sql: &str) -> String {
    let output = engine.query(&format!("explain {sql}")).await.unwrap();
    let rows = lines(&output);
    let row = rows.iter().find(|row| row.starts_with("locality"));
    row.expect("a row of locality").clone()
}

#[tokio::test]
async fn explain_tells_the_order_and_why() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path()).await;
    let engine = open(folder.path(), Joins::Corun, 2, &[]).await;
    let text = explained(&engine, &statements()[0]).await;
    assert!(text.contains("orders of inner joins:"), "{text}");
    assert!(
        text.contains(" rows between joins, ") && text.contains(" as written"),
        "{text}"
    );
    for table in ["sales", "stock", "depots", "days"] {
        assert!(text.contains(table), "{text}");
    }
    let few =
        "select count(*) from sales join days d1 on sales.day = d1.day join days d2 on d1.week = d2.day";
    let text = explained(&engine, few).await;
    assert!(
        text.contains("as written: ") && text.contains("rows between joins are few"),
        "{text}"
    );
    let off = open(folder.path(), Joins::Corun, 2, &[("corun.join_order", "false")]).await;
    let text = explained(&off, &statements()[0]).await;
    assert!(!text.contains("orders of inner joins"), "{text}");
}

#[tokio::test]
async fn without_known_values_the_order_stays() {
    let engine = engine(Joins::Corun, 2, 8192, &[], &[]);
    for (name, rows) in TABLES {
        engine
            .query(&format!("create table {name} as {rows}"))
            .await
            .unwrap();
    }
    let plan = engine.explain(&statements()[0], false).await.unwrap();
    assert_eq!(keys_of_stock(&plan), 1, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_side_that_a_range_leaves_small_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let writer = engine(Joins::Stock, 2, 8192, &[], &[]);
    let tables = [
        (
            "facts",
            "select value % 40000 as part, cast(value / 1000 as integer) as day from generate_series(0, 1199999)",
        ),
        (
            "parts",
            "select value as part, value % 7 as kind from generate_series(0, 39999)",
        ),
    ];
    let engine = engine(Joins::Corun, 2, 8192, &[], &[]);
    for (name, rows) in tables {
        let path = folder.path().join(format!("{name}.parquet"));
        let sql = format!("copy ({rows}) to '{}' stored as parquet", path.display());
        writer.query(&sql).await.unwrap();
        engine.register_path(name, &path).await.unwrap();
    }
    // 12 of 1,200 days are 12,000 facts, fewer than there are parts; a share that is not known is taken for 240,000.
    for condition in [
        "day >= 600 and day < 612",
        "day between 600 and 611",
        "600 <= day and 612 > day",
        "day = 600",
        "day < 3",
        "kind >= 0 and day > 1190",
    ] {
        let sql = format!(
            "select sum(kind), count(*) from facts join parts on facts.part = parts.part where {condition}"
        );
        let plan = engine.explain(&sql, false).await.unwrap();
        let join = plan.lines().skip_while(|line| !line.contains("JoinExec"));
        let built = join
            .clone()
            .find(|line| line.contains(".parquet"))
            .expect("a file");
        assert!(built.contains("facts.parquet"), "{condition}: {plan}");
    }
}
