//! Groups made in the caches are the groups DataFusion makes.

use crate::common::lines;
use corun_datafusion::{Engine, EngineOptions, Joins};

/// 200,000 sales with keys of every width, some of them NULL, and numbers to fold.
const TABLES: &str = "
create table sales as
  select value as id, cast(value % 50021 as bigint) as customer, cast(case when value % 17 = 0 then null else value % 9 end as smallint) as kind,
         cast(case when value % 1000 = 7 then null else value % 60000 end as int) as thing, cast(value % 4 as tinyint) as part,
         cast(date '2024-01-01' + cast(value % 400 as int) as date) as day, value % 3 = 0 as web,
         cast(value % 997 as decimal(7, 2)) / 4 as price, cast(value % 9973 as decimal(20, 3)) as weight,
         case when value % 13 = 0 then null else cast(value % 89 as double) / 8 end as rate,
         case when value % 1000 < 990 then null else value end as seldom, cast(value * 2654435761 % 4294967296 as bigint) as scattered,
         'channel ' || (value % 5) as channel,
         case when value % 19 = 0 then null else 'a place of more than twelve bytes ' || (value % 3001) end as place
  from generate_series(1, 200000);
create table nothing as select * from sales where id < 0;
create table customers as select value * 7 as number from generate_series(1, 9000);
";

/// Statements that are grouped in the caches.
const GROUPED: [&str; 20] = [
    "select customer, sum(price), count(*), min(id), max(id) from sales group by customer",
    "select kind, sum(id), avg(rate), count(rate), count(seldom), min(seldom) from sales group by kind",
    "select thing, count(*), max(day), min(weight), sum(weight) from sales group by thing",
    "select web, count(*) from sales group by web",
    "select kind, part, web, day, sum(rate), avg(price) from sales group by kind, part, web, day",
    "select customer, thing, kind, min(part), max(scattered) from sales group by customer, thing, kind",
    "select weight, price, count(*) from sales group by weight, price",
    "select scattered, sum(id), sum(price) from sales group by scattered",
    "select distinct customer, kind from sales",
    "select count(distinct thing) from sales where id % 3 > 0",
    "select kind, count(*) filter (where web), sum(price) filter (where rate > 4), min(id) filter (where seldom is not null) from sales group by kind",
    "select id % 7, customer / 2, sum(price * 2) from sales group by id % 7, customer / 2",
    "select customer, sum(price) from nothing group by customer",
    "select kind, sum(n) from (select kind, customer, count(*) as n from sales group by kind, customer) group by kind",
    "select day, avg(weight), min(price), max(price), sum(part) from sales where part < 3 group by day",
    "select s.customer, s.n, t.m from (select customer, count(*) as n from sales group by customer) s \
     join (select customer, sum(id) as m from sales where web group by customer) t on s.customer = t.customer",
    "select number, n from customers join (select customer, count(*) as n from sales group by customer) on number = customer where n > 3",
    "select customer, count(*) as n from sales group by customer having sum(price) > 500 order by n desc, customer",
    "select kind, max(scattered), min(scattered), count(scattered) from sales group by kind union all select part, 1, 2, count(*) from sales group by part",
    "select seldom, sum(rate) from sales group by seldom",
];

/// Statements that are, if asked for.
const BY_TEXT: [&str; 3] = [
    "select channel, count(*) from sales group by channel",
    "select place, kind, sum(price), min(day) from sales group by place, kind",
    "select place, channel, customer % 5, count(*) from sales group by place, channel, customer % 5",
];

/// Statements that stay with DataFusion's operators.
const STOCK: [&str; 5] = [
    "select kind, max(channel) from sales group by kind",
    "select kind, stddev(rate) from sales group by kind",
    "select kind, min(rate) from sales group by kind",
    "select sum(price) from sales",
    "select kind, array_agg(id order by id) from sales where id < 100 group by kind",
];

async fn open(joins: Joins, partitions: usize, batch_size: usize, memory: Option<usize>) -> Engine {
    let options = EngineOptions {
        partitions,
        batch_size,
        joins,
        share_work: false,
        memory_limit_bytes: memory,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    engine.execute_script(TABLES).await.unwrap();
    engine
}

/// Sums of floats differ in their last digits with the order of the rows.
fn rounded(lines: Vec<String>) -> Vec<String> {
    let cell = |cell: &str| match cell.parse::<f64>() {
        Ok(number) if cell.contains('.') => format!("{number:.6}"),
        _ => cell.to_owned(),
    };
    let line = |line: String| line.split('|').map(cell).collect::<Vec<_>>().join("|");
    let mut lines: Vec<String> = lines.into_iter().map(line).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_those_of_stock_operators() {
    for (partitions, batch_size) in [(1, 8192), (2, 1000), (3, 64), (7, 8192)] {
        let stock = open(Joins::Stock, partitions, batch_size, None).await;
        let corun = open(Joins::Corun, partitions, batch_size, None).await;
        corun.query("set corun.aggregate = 'on'").await.unwrap();
        for sql in GROUPED.iter().chain(&BY_TEXT) {
            let plan = corun.explain(sql, false).await.unwrap();
            assert!(plan.contains("CorunAggregateExec"), "{sql}\n{plan}");
            let expected = rounded(lines(&stock.query(sql).await.unwrap()));
            let given = rounded(lines(&corun.query(sql).await.unwrap()));
            assert!(
                given == expected,
                "{sql}, {partitions} partitions of {batch_size}: other groups"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_number_or_no_fold_stays_stock() {
    let corun = open(Joins::Corun, 2, 8192, None).await;
    for sql in STOCK.iter().chain(&BY_TEXT) {
        let plan = corun.explain(sql, false).await.unwrap();
        assert!(!plan.contains("CorunAggregateExec"), "{sql}\n{plan}");
    }
    corun.query("set corun.aggregate = 'off'").await.unwrap();
    for sql in GROUPED {
        let plan = corun.explain(sql, false).await.unwrap();
        assert!(!plan.contains("CorunAggregateExec"), "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_do_not_fit_memory_go_to_files() {
    let sql = "select scattered, sum(id), sum(price), min(id), count(seldom) from sales group by scattered";
    let whole = open(Joins::Corun, 2, 8192, None).await;
    let expected = rounded(lines(&whole.query(sql).await.unwrap()));
    // The tables themselves take 30 MB.
    for megabytes in [36, 40, 60] {
        let tight = open(Joins::Corun, 2, 8192, Some(megabytes << 20)).await;
        match tight.query(sql).await {
            Ok(output) => assert_eq!(rounded(lines(&output)), expected, "{megabytes} MiB"),
            Err(error) => assert!(
                error.to_string().contains("exhausted"),
                "{megabytes} MiB: {error}"
            ),
        }
    }
}
