//! Aggregates in several steps give what one step gives: groups before joins, and grouping sets from the finest.

use crate::common::lines;
use corun_datafusion::{Engine, EngineOptions, Joins};

/// 60,000 sales, of which some customers, shops and days are unknown or NULL; two customers share a number, so that it finds both.
const TABLES: &str = "
create table sales as
  select value as id, case when value % 11 = 0 then null else value % 700 end as customer, value % 13 as shop, value % 400 as day,
         cast(value % 97 as decimal(7, 2)) / 4 as price, value % 7 - 3 as amount, value % 5 as kind,
         case when value % 3 = 0 then 'web' else 'shop ' || (value % 4) end as channel
  from generate_series(1, 60000);
create table customers as
  select case value when 651 then 650 else value end as c_number, 'name ' || (value % 500) as c_name,
         case when value % 9 = 0 then null else 'city ' || (value % 40) end as c_city, value % 6 as c_region
  from generate_series(1, 660);
create table regions as select value as r_number, 'region ' || (value % 4) as r_name from generate_series(0, 4);
create table shops as select value as s_number, 'shop ' || value as s_name, value % 3 as s_size from generate_series(0, 11);
create table days as select value as d_number, value / 30 as d_month, 'week ' || (value / 7) as d_week from generate_series(0, 380);
";

const CUSTOMERS: &str = "sales join customers on customer = c_number";

/// Statements whose rows are grouped before they are joined.
fn early() -> Vec<String> {
    let all = [
        "select c_name, c_city, count(*), sum(price), min(amount), max(id) from {c} group by c_name, c_city",
        "select c_name, c_city, avg(price), avg(amount), sum(price * amount), stddev(amount) from {c} group by c_name, c_city",
        "select c_name, c_city, d_month, sum(price) from {c} join days on day = d_number where d_month > 3 group by c_name, c_city, d_month",
        "select c_name, c_city, kind, sum(price) filter (where amount > 0), count(*) filter (where kind = 2) from {c} group by c_name, c_city, kind",
        "select c_name, r_name, sum(amount) from {c} join regions on c_region = r_number group by c_name, r_name",
        "select upper(c_name), c_city || '!', kind + 1, sum(price) from {c} group by upper(c_name), c_city || '!', kind + 1",
        "select c_name, c_city, sum(price) from {c} group by rollup(c_name, c_city)",
        "select c_name, c_city, s_size, sum(price), grouping(c_city) from {c} join shops on shop = s_number \
         group by cube(c_name, c_city, s_size)",
    ];
    all.iter().map(|sql| sql.replace("{c}", CUSTOMERS)).collect()
}

/// Statements with grouping sets that are made from the finest.
const SETS: [&str; 9] = [
    "select kind, channel, count(*), sum(price), avg(price) from sales group by rollup(kind, channel)",
    "select kind, channel, shop, min(price), max(amount), grouping(kind), grouping(kind, shop) from sales group by cube(kind, channel, shop)",
    "select kind, shop, count(*) from sales group by grouping sets ((kind, shop), (shop), ())",
    "select kind, count(*) filter (where amount > 1), sum(amount) from sales group by rollup(kind)",
    "select id % 1000, customer, shop, kind, day, sum(price) from sales group by rollup(id % 1000, customer, shop, kind, day)",
    "select customer, channel, avg(amount), stddev(price) from sales where id < 0 group by rollup(customer, channel)",
    "select customer, shop, kind, amount, day, price, channel, id % 2, id % 3, count(*) from sales where id < 3000 \
     group by rollup(customer, shop, kind, amount, day, price, channel, id % 2, id % 3)",
    "select customer, shop, count(*), count(amount), min(price), var_pop(amount), bool_and(id > 5) from sales where id < 0 \
     group by cube(customer, shop)",
    "select channel, s_name, sum(price) from sales left join shops on shop = s_number group by rollup(channel, s_name)",
];

async fn open(joins: Joins, partitions: usize, batch_size: usize, memory: Option<usize>) -> Engine {
    opened(TABLES, joins, partitions, batch_size, memory).await
}

/// An engine with these tables.
pub(super) async fn opened(
    tables: &str,
    joins: Joins,
    partitions: usize,
    batch_size: usize,
    memory: Option<usize>,
) -> Engine {
    let options = EngineOptions {
        partitions,
        batch_size,
        joins,
        share_work: false,
        memory_limit_bytes: memory,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    engine.execute_script(tables).await.unwrap();
    engine
}

/// Sums of floats differ in their last digits with the order of the rows.
pub(super) fn rounded(lines: Vec<String>) -> Vec<String> {
    let cell = |cell: &str| match cell.parse::<f64>() {
        Ok(number) if cell.contains('.') => format!("{number:.8}"),
        _ => cell.to_owned(),
    };
    let line = |line: String| line.split('|').map(cell).collect::<Vec<_>>().join("|");
    let mut lines: Vec<String> = lines.into_iter().map(line).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_give_what_one_step_gives() {
    for (partitions, batch_size) in [(1, 8192), (2, 1000), (3, 64), (7, 8192)] {
        let stock = open(Joins::Stock, partitions, batch_size, None).await;
        let corun = open(Joins::Corun, partitions, batch_size, None).await;
        let early = early();
        for sql in early.iter().map(String::as_str).chain(SETS) {
            let plan = corun.explain(sql, false).await.unwrap();
            assert!(plan.contains("mode=PartialReduce"), "{sql}\n{plan}");
            let expanded = sql.contains("rollup") || sql.contains("cube") || sql.contains("sets");
            assert_eq!(plan.contains("CorunExpandExec"), expanded, "{sql}\n{plan}");
            let (want, got) = (stock.query(sql).await.unwrap(), corun.query(sql).await.unwrap());
            assert_eq!(
                rounded(lines(&got)),
                rounded(lines(&want)),
                "{sql}\npartitions {partitions}, batch {batch_size}"
            );
            assert_eq!(got.schema, want.schema, "{sql}");
        }
    }
}

/// What does not fit goes to files, the numbers of grouping sets with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_spill_and_are_right() {
    let stock = open(Joins::Stock, 2, 1000, None).await;
    let early = early();
    let mut finished = 0;
    for megabytes in [2, 4, 16] {
        let corun = open(Joins::Corun, 2, 1000, Some(megabytes << 20)).await;
        for sql in early.iter().map(String::as_str).chain(SETS) {
            match corun.query(sql).await {
                Ok(got) => {
                    let want = stock.query(sql).await.unwrap();
                    assert_eq!(
                        rounded(lines(&got)),
                        rounded(lines(&want)),
                        "{sql}\n{megabytes} MB"
                    );
                    finished += 1;
                }
                Err(error) => assert!(error.primary.contains("esources"), "{sql}\n{error:?}"),
            }
        }
    }
    assert!(finished > early.len() + SETS.len(), "only {finished} had room");
}

#[tokio::test]
async fn what_steps_cannot_do_or_are_not_worth_is_left() {
    let engine = open(Joins::Corun, 2, 8192, None).await;
    for sql in [
        // States of single values do not add up, or have an order.
        "select c_name, c_city, count(distinct amount) from {c} group by c_name, c_city",
        "select c_name, c_city, array_agg(amount order by id) from {c} group by c_name, c_city",
        // Rows without a partner, and conditions between the sides.
        "select c_name, c_city, sum(price) from sales left join customers on customer = c_number group by c_name, c_city",
        "select c_name, c_city, sum(price) from sales join customers on customer = c_number and price > c_region group by c_name, c_city",
        // Arguments from both sides.
        "select c_name, c_city, sum(price * c_region) from {c} group by c_name, c_city",
        // Text on the side of the arguments, and little text on the other.
        "select c_name, c_city, channel, sum(price) from {c} group by c_name, c_city, channel",
        "select c_name, sum(price) from {c} group by c_name",
        // Text from two sides that have nothing to do with each other.
        "select c_name, s_name, d_month, count(amount) from {c} join shops on shop = s_number join days on day = d_number \
         group by c_name, s_name, d_month",
        // Few rows.
        "select c_name, c_city, sum(r_number) from regions join customers on r_number = c_number group by c_name, c_city",
        "select kind, shop, sum(price) from sales group by grouping sets ((kind), (shop))",
        "select kind, count(distinct shop) from sales group by rollup(kind)",
    ] {
        let sql = sql.replace("{c}", CUSTOMERS);
        let plan = engine.explain(&sql, false).await.unwrap();
        assert!(!plan.contains("PartialReduce"), "{sql}\n{plan}");
    }
    for option in ["group_before_joins", "finest_groups"] {
        engine
            .query(&format!("set corun.{option} = false"))
            .await
            .unwrap();
    }
    for sql in [&early()[0], SETS[0]] {
        assert!(
            !engine
                .explain(sql, false)
                .await
                .unwrap()
                .contains("PartialReduce"),
            "{sql}"
        );
    }
}
