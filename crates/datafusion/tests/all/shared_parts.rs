//! Parts that a statement has more than once run once, and give the rows they gave before, however fast their readers are.

use crate::common::{Table, engine, lines, table};
use corun_datafusion::{Engine, EngineOptions, Joins};
use std::sync::Arc;

const GROUPS: &str = "with g as (select a_i as k, count(*) as n, sum(a_id) as s from a group by a_i) ";
const JOINED: &str = "with j as (select a_id as k, b_id as n from a join b on a_i = b_i) ";

/// Statements with a part that is there more than once.
fn shared() -> Vec<String> {
    let groups = [
        "select x.k, x.n, y.n from g x join g y on x.k = y.k + 1",
        "select * from g union all select * from g union all select * from g",
        "select count(*) from g x, g y, g z where x.k = y.k and y.n = z.n",
        "select k from g where n > (select avg(n) from g)",
        "select k, n from g where s = (select max(s) from g where n > 0)",
        "select count(*) from (select * from g limit 3) union all select count(*) from g",
        "select x.k from g x left join g y on x.k = y.n left join g z on x.n = z.k where z.k is null",
        "select k, n from g where k in (select n from g)",
    ];
    let joined = [
        "select count(*), sum(k + n) from j union all select k, n from j",
        "select k, sum(n) from j group by k union all select n, sum(k) from j group by n",
        "select k, n, row_number() over (partition by k order by n) from j union all select k, n, 0 from j",
    ];
    let mut all: Vec<String> = groups.iter().map(|rest| format!("{GROUPS}{rest}")).collect();
    all.extend(joined.iter().map(|rest| format!("{JOINED}{rest}")));
    all.push(format!(
        "{GROUPS}, h as (select n, count(*) as c from g group by n) select x.n, y.c from h x join h y on x.n = y.n \
         union all select k, n from g"
    ));
    all.push(
        "with w as (select a_id, row_number() over (partition by a_i order by a_id) as r from a) \
         select x.a_id, x.r, y.r from w x join w y on x.a_id = y.a_id + 1"
            .to_owned(),
    );
    all
}

fn data() -> (Table, Table) {
    (table("a", 3000, 200, 3, 31), table("b", 500, 200, 2, 32))
}

async fn explained(engine: &Engine, sql: &str) -> String {
    engine.explain(sql, false).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_parts_give_the_rows_they_gave_before() {
    let (a, b) = data();
    let tables = [("a", &a), ("b", &b)];
    for (partitions, batch_size) in [(1, 8192), (2, 100), (3, 7), (7, 8192)] {
        let stock = engine(Joins::Stock, partitions, batch_size, &[], &tables);
        let corun = engine(Joins::Corun, partitions, batch_size, &[], &tables);
        for sql in shared() {
            let plan = explained(&corun, &sql).await;
            assert!(plan.contains("CorunSharedExec"), "{sql}\n{plan}");
            let (want, got) = (stock.query(&sql).await.unwrap(), corun.query(&sql).await.unwrap());
            assert_eq!(
                lines(&got),
                lines(&want),
                "{sql}\npartitions {partitions}, batch {batch_size}"
            );
            assert_eq!(got.schema, want.schema, "{sql}");
        }
    }
}

/// What the pool has no room for goes to files, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_lags_behind_needs_no_memory() {
    let wide = table("a", 20_000, 200, 2, 33);
    let options = EngineOptions {
        partitions: 2,
        batch_size: 512,
        memory_limit_bytes: Some(8 << 20),
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    engine
        .register_batches("a", Arc::clone(&wide.schema), wide.partitions.clone())
        .unwrap();
    // The build of the outer join reads all of the part before its probe side reads the first row.
    let sql = "with w as (select a_id, a_s, count(*) over (partition by a_i) as c from a) \
               select count(*), sum(x.c), max(x.a_s), max(y.s) from w x \
               join (select a_id, max(a_s) as s, max(c) as c from w group by a_id) y on x.a_id = y.a_id and x.c = y.c";
    let plan = explained(&engine, sql).await;
    assert!(plan.contains("CorunSharedExec"), "{plan}");
    match engine.query(sql).await {
        Ok(output) => assert_eq!(output.num_rows(), 1),
        Err(error) => assert!(error.primary.contains("esources"), "{error:?}"),
    }
}

#[tokio::test]
async fn what_may_differ_each_time_is_not_shared() {
    let (a, b) = data();
    let engine = engine(Joins::Corun, 2, 8192, &[], &[("a", &a), ("b", &b)]);
    for sql in [
        "with g as (select a_i as k, sum(random()) as r from a group by a_i) select * from g union all select * from g",
        "select a_i, count(*) from a group by a_i",
        "select * from a x join a y on x.a_id = y.a_id",
        // Each chain may have filters of its own.
        "with j as (select a_id as k, b_id as n from a join b on a_i = b_i) select count(*), sum(x.n + y.n) from j x join j y on x.k = y.k",
        "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) select * from r x join r y on x.n = y.n",
    ] {
        let plan = explained(&engine, sql).await;
        assert!(!plan.contains("CorunSharedExec"), "{sql}\n{plan}");
    }
    let off = format!("{GROUPS}select * from g union all select * from g");
    engine.query("set corun.share_parts = false").await.unwrap();
    assert!(!explained(&engine, &off).await.contains("CorunSharedExec"));
}

/// All readers learn of the part's error, and the next statement is not troubled by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_part_is_the_statements() {
    let (a, b) = data();
    let engine = engine(Joins::Corun, 2, 100, &[], &[("a", &a), ("b", &b)]);
    let sql = "with g as (select a_i as k, sum(10 / (a_id - 1500)) as n from a group by a_i) \
               select * from g x join g y on x.k = y.k";
    for _ in 0..20 {
        let error = engine.query(sql).await.unwrap_err();
        assert!(
            error.primary.to_lowercase().contains("divide by zero"),
            "{error:?}"
        );
    }
    let sql = format!("{GROUPS}select count(*) from g x join g y on x.k = y.k");
    assert_eq!(engine.query(&sql).await.unwrap().num_rows(), 1);
}

/// A statement that is dropped in the middle leaves nothing that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_statement_ends_its_parts() {
    use futures::StreamExt;
    let (a, b) = data();
    let engine = engine(Joins::Corun, 2, 7, &[], &[("a", &a), ("b", &b)]);
    let sql = format!("{JOINED}select x.k, y.n from j x join j y on x.k = y.k");
    for _ in 0..50 {
        let (_, mut stream) = engine.stream(&sql).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut left = tasks();
    for _ in 0..1000 {
        if left == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        left = tasks();
    }
    assert_eq!(left, 0, "tasks of dropped statements");
}
