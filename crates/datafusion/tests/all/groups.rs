//! Groups made in the caches are the groups DataFusion makes.

use super::aggregates::{opened, rounded};
use crate::common::lines;
use arrow::datatypes::DataType;
use corun_datafusion::{Engine, Joins};
use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;

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
const GROUPED: [&str; 22] = [
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
    "select kind, min(rate), max(rate), avg(rate) from sales group by kind",
    "select customer, min(cast(rate as float) - 5), max(0 - rate), max(cast(id as float)) from sales group by customer",
];

/// Statements that are, if asked for.
const BY_TEXT: [&str; 3] = [
    "select channel, count(*) from sales group by channel",
    "select place, kind, sum(price), min(day) from sales group by place, kind",
    "select place, channel, customer % 5, count(*) from sales group by place, channel, customer % 5",
];

/// Statements that stay with DataFusion's operators.
const STOCK: [&str; 4] = [
    "select kind, max(channel) from sales group by kind",
    "select kind, stddev(rate) from sales group by kind",
    "select sum(price) from sales",
    "select kind, array_agg(id order by id) from sales where id < 100 group by kind",
];

async fn open(joins: Joins, partitions: usize, batch_size: usize, memory: Option<usize>) -> Engine {
    opened(TABLES, joins, partitions, batch_size, memory).await
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
async fn nan_is_the_largest_float_in_any_order_of_rows() {
    for order in ["asc", "desc"] {
        let corun = open(Joins::Corun, 1, 100, None).await;
        corun.query("set corun.aggregate = 'on'").await.unwrap();
        let sql = format!(
            "select kind, min(v), max(v) from (select id % 3 as kind, \
             case when id % 3 = 0 then rate when id % 2 = 0 then cast('NaN' as double) when id % 3 = 1 then rate end as v \
             from sales order by id {order}) group by kind"
        );
        let given = lines(&corun.query(&sql).await.unwrap());
        assert_eq!(given, ["0|0.0|11.0", "1|0.0|NaN", "2|NaN|NaN"], "{order}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_number_or_no_fold_stays_stock() {
    let corun = open(Joins::Corun, 2, 8192, None).await;
    for sql in &STOCK {
        let plan = corun.explain(sql, false).await.unwrap();
        assert!(!plan.contains("CorunAggregateExec"), "{sql}\n{plan}");
    }
    corun.query("set corun.aggregate = 'off'").await.unwrap();
    for sql in GROUPED {
        let plan = corun.explain(sql, false).await.unwrap();
        assert!(!plan.contains("CorunAggregateExec"), "{sql}\n{plan}");
    }
}

const MANY: &str =
    "select scattered, sum(id), sum(price), min(id), count(seldom) from sales group by scattered";

/// What `EXPLAIN ANALYZE` says of groups: of the only node that makes them.
async fn analyzed(engine: &Engine, sql: &str) -> String {
    let plan = engine.explain(sql, true).await.unwrap();
    let mut nodes = plan.lines().filter(|line| line.contains("CorunAggregateExec"));
    let node = nodes.next().unwrap_or_else(|| panic!("{plan}")).to_owned();
    assert_eq!(nodes.next(), None, "{plan}");
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_size_of_the_private_cache_is_too_much_for_numbers() {
    let corun = open(Joins::Corun, 2, 8192, None).await;
    for bytes in [1_u64, 1 << 20, 1 << 44] {
        let setting = format!("set corun.l2_bytes = {bytes}");
        corun.query(&setting).await.unwrap();
        let sql = "select kind, count(*) from sales group by kind order by kind limit 1";
        assert_eq!(lines(&corun.query(sql).await.unwrap()), ["0|20915"], "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_tell_whether_groups_are_made_in_the_caches() {
    let few =
        "select day, kind, sum(price), count(*) from sales group by day, kind order by day, kind limit 900";
    let distinct = "select count(distinct day) from sales where id % 3 > 0";
    let few = [GROUPED[0], GROUPED[1], GROUPED[3], BY_TEXT[0], distinct, few];
    // Whole numbers too far from each other for numbers of their own, and no rows.
    let far = [
        GROUPED[12],
        "select cast(kind as bigint) * 100000000000 as far, sum(price) from sales group by far",
        "select cast(day as bigint) * 100000000000 as far, count(*) from sales group by far",
    ];
    let many = [
        MANY,
        "select scattered, kind, avg(rate) from sales group by scattered, kind",
    ];
    for (partitions, batch_size) in [(1, 8192), (2, 64)] {
        let corun = open(Joins::Corun, partitions, batch_size, None).await;
        // How many keys can be numbered depends on it.
        corun.query("set corun.l2_bytes = 1048576").await.unwrap();
        for sql in few {
            let node = analyzed(&corun, sql).await;
            assert!(!node.contains("few_groups"), "{sql}, {partitions}: {node}");
            assert!(!node.contains("numbered_rows=0"), "{sql}, {partitions}: {node}");
        }
        for sql in far {
            let node = analyzed(&corun, sql).await;
            assert!(node.contains("few_groups=1"), "{sql}, {partitions}: {node}");
            // What the stock steps take and give is the node's.
            assert!(
                !node.contains("elapsed_compute=1ns") && node.contains("output_rows="),
                "{node}"
            );
        }
        for sql in many {
            let node = analyzed(&corun, sql).await;
            assert!(!node.contains("few_groups"), "{sql}, {partitions}: {node}");
        }
        corun.query("set corun.aggregate = 'on'").await.unwrap();
        for sql in far {
            assert!(!analyzed(&corun, sql).await.contains("few_groups"), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_told_from_the_first_rows_are_those_of_stock_operators() {
    for (partitions, batch_size) in [(1, 8192), (2, 1000), (3, 64), (7, 8192)] {
        let stock = open(Joins::Stock, partitions, batch_size, None).await;
        let corun = open(Joins::Corun, partitions, batch_size, None).await;
        for sql in GROUPED {
            let expected = rounded(lines(&stock.query(sql).await.unwrap()));
            let given = rounded(lines(&corun.query(sql).await.unwrap()));
            assert!(
                given == expected,
                "{sql}, {partitions} partitions of {batch_size}: other groups"
            );
        }
    }
}

/// Whether an `EXPLAIN ANALYZE` has groups that went to files.
fn has_spilled(plan: &str) -> bool {
    let groups = plan.lines().filter(|line| line.contains("CorunAggregateExec"));
    groups.clone().count() == 1 && groups.clone().all(|line| !line.contains("spill_count=0,"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_do_not_fit_memory_go_to_files() {
    let whole = open(Joins::Corun, 2, 8192, None).await;
    let expected = rounded(lines(&whole.query(MANY).await.unwrap()));
    let mut spilled = 0;
    for kilobytes in [100, 500, 1000, 2000, 3000, 4000, 6000, 8000, 12_000] {
        let tight = open(Joins::Corun, 2, 8192, Some(kilobytes << 10)).await;
        match tight.query(MANY).await {
            Ok(output) => assert!(
                rounded(lines(&output)) == expected,
                "{kilobytes} KiB: other groups"
            ),
            Err(error) => assert!(error.to_string().contains("esources"), "{kilobytes} KiB: {error}"),
        }
        let Ok(plan) = tight.explain(MANY, true).await else {
            continue;
        };
        if has_spilled(&plan) {
            spilled += 1;
            // A full disk is an error, not fewer groups.
            let full = "set datafusion.runtime.max_temp_directory_size = '1K'";
            tight.query(full).await.unwrap();
            let error = tight
                .query(MANY)
                .await
                .map(|output| output.num_rows())
                .unwrap_err();
            assert!(
                error.to_string().contains("max_temp_directory_size"),
                "{kilobytes} KiB: {error}"
            );
        }
    }
    assert!(spilled > 1, "{spilled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_follows_groups_not_rows() {
    // Two million records of 24 bytes, of 40,000 groups.
    let sql = "select count(*), min(n), max(n), sum(s) from (select value * 7919 % 40009 as k, count(*) as n, sum(value) as s \
               from generate_series(0, 2000449) group by value * 7919 % 40009)";
    let tight = open(Joins::Corun, 1, 8192, Some(16 << 20)).await;
    for setting in ["corun.aggregate = 'on'", "corun.l2_bytes = 65536"] {
        tight.query(&format!("set {setting}")).await.unwrap();
    }
    let given = lines(&tight.query(sql).await.unwrap());
    assert_eq!(given, ["40009|50|50|2000899101025"]);
    let node = analyzed(&tight, sql).await;
    assert!(node.contains("spill_count=0,"), "{node}");
    assert!(!node.contains("reductions=0"), "{node}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_runs_again_gives_its_groups_again() {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config);
    let context = SessionContext::new_with_state(corun_datafusion::install(builder).build());
    let table = "create table t as select value % 1000 as k from generate_series(1, 20000)";
    context.sql(table).await.unwrap().collect().await.unwrap();
    let grouped = context.sql("select k, count(*) from t group by k").await.unwrap();
    let plan = grouped.create_physical_plan().await.unwrap();
    assert!(
        displayable(plan.as_ref())
            .indent(false)
            .to_string()
            .contains("CorunAggregateExec")
    );
    for _ in 0..3 {
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, 1000);
    }
}

/// A function that has the name of another.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OtherSum(Signature);

impl AggregateUDFImpl for OtherSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("it is only planned")
    }
}

#[tokio::test]
async fn a_function_of_the_same_name_is_another() {
    let builder = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(corun_datafusion::install(builder).build());
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
    context.register_udaf(AggregateUDF::from(OtherSum(signature)));
    let sql = "select value % 10, sum(value) from generate_series(1, 100) group by value % 10";
    let plan = context
        .sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    assert!(
        !displayable(plan.as_ref())
            .indent(false)
            .to_string()
            .contains("CorunAggregateExec")
    );
}
