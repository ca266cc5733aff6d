//! The plans people see in `EXPLAIN`, as snapshots.

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use corun_datafusion::{Engine, EngineOptions};
use std::sync::Arc;

fn star() -> Engine {
    star_in(2)
}

fn star_in(partitions: usize) -> Engine {
    let options = EngineOptions {
        partitions,
        share_work: false,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    let table = |name: &str, rows: i32, columns: &[&str]| {
        let mut fields: Vec<(String, ArrayRef)> = columns
            .iter()
            .map(|column| {
                (
                    column.to_string(),
                    Arc::new(Int32Array::from_iter_values(0..rows)) as ArrayRef,
                )
            })
            .collect();
        let names = StringArray::from_iter_values((0..rows).map(|row| format!("name {}", row % 7)));
        fields.push((format!("{name}_name"), Arc::new(names)));
        let batch = RecordBatch::try_from_iter(fields).unwrap();
        let part_rows = batch.num_rows().div_ceil(partitions);
        let parts = (0..batch.num_rows())
            .step_by(part_rows)
            .map(|first| vec![batch.slice(first, part_rows.min(batch.num_rows() - first))])
            .collect();
        engine.register_batches(name, batch.schema(), parts).unwrap();
    };
    table("fact", 9000, &["f_part", "f_day", "f_value"]);
    table("part", 600, &["p_key"]);
    table("day", 300, &["d_key", "d_year"]);
    engine
}

async fn plan(engine: &Engine, sql: &str) -> String {
    engine.explain(sql, false).await.unwrap()
}

#[tokio::test]
async fn a_star_join_builds_on_dimensions_and_prefilters_the_facts() {
    let sql = "select d_year, sum(f_value) from fact, day, part where f_day = d_key and f_part = p_key \
               and part_name = 'name 3' group by d_year";
    insta::assert_snapshot!(plan(&star(), sql).await);
}

#[tokio::test]
async fn keys_are_looked_up_below_the_builds_and_groups_they_come_from() {
    let engine = star();
    let chain = "select count(*) from (select f_value, d_year from fact join day on f_day = d_key) join part on d_year = p_key \
                 where part_name = 'name 3'";
    insta::assert_snapshot!(plan(&engine, chain).await);
    let groups = "select sum(total) from (select f_part, sum(f_value) as total from fact group by f_part) join part \
                  on f_part = p_key where part_name = 'name 3'";
    insta::assert_snapshot!(plan(&engine, groups).await);
}

/// Of each join, whether its table was built ahead of its turn.
async fn built_ahead(engine: &Engine, sql: &str) -> Vec<bool> {
    let plan = engine.explain(sql, true).await.unwrap();
    let joins = plan.lines().filter(|line| line.contains("CorunJoinExec"));
    joins.map(|line| line.contains("built_ahead=1")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_builds_run_beside_those_above_unless_they_wait_for_them() {
    let engine = star();
    let two = "select sum(d_year), sum(p_key) from fact left join day on f_day = d_key left join part on f_part = p_key";
    assert_eq!(built_ahead(&engine, two).await, [false, true]);
    let waits = "select count(*) from (select f_value, d_year from fact join day on f_day = d_key) join part on d_year = p_key \
                 where part_name = 'name 3'";
    assert_eq!(built_ahead(&engine, waits).await, [false, false]);
    assert_eq!(built_ahead(&star_in(1), two).await, [false, false]);
}

async fn partitioned_star() -> Engine {
    let engine = star();
    for setting in [
        "hash_join_single_partition_threshold",
        "hash_join_single_partition_threshold_rows",
    ] {
        engine
            .query(&format!("set datafusion.optimizer.{setting} = 0"))
            .await
            .unwrap();
    }
    engine
}

#[tokio::test]
async fn repartitioning_that_only_served_the_join_is_dropped() {
    let sql =
        "select f_value, p_key from fact left join part on f_part = p_key left join day on f_part = d_key";
    insta::assert_snapshot!(plan(&partitioned_star().await, sql).await);
}

#[tokio::test]
async fn a_full_join_keeps_its_partitions() {
    let sql = "select f_value, p_key from fact full join part on f_part = p_key";
    insta::assert_snapshot!(plan(&partitioned_star().await, sql).await);
}

/// The star with an index over the facts, and nothing that depends on the machine.
async fn indexed_star() -> Engine {
    index(star()).await
}

async fn index(engine: Engine) -> Engine {
    for setting in [
        "corun.calibrate = false",
        "corun.l2_bytes = 65536",
        "corun.llc_bytes = 1048576",
    ] {
        engine.query(&format!("set {setting}")).await.unwrap();
    }
    engine.query("create index on fact (f_part)").await.unwrap();
    engine
}

#[tokio::test]
async fn few_outer_rows_join_through_the_index() {
    let sql = "select p_key, sum(f_value) from fact join part on f_part = p_key \
               where part_name = 'name 3' and p_key > 100 and f_day < 250 group by p_key";
    insta::assert_snapshot!(plan(&indexed_star().await, sql).await);
}

#[tokio::test]
async fn small_indexes_are_looked_up_without_prefetching() {
    let engine = indexed_star().await;
    engine.query("set corun.l2_bytes = 2097152").await.unwrap();
    let sql =
        "select f_value from day left join fact on f_part = d_key where day_name = 'name 2' and d_key < 9";
    insta::assert_snapshot!(plan(&engine, sql).await);
}

#[tokio::test]
async fn the_rows_of_a_weak_index_pass_by_the_cache() {
    let engine = indexed_star().await;
    engine.query("set corun.index_join = 'on'").await.unwrap();
    let sql = "select p_key, f_value from fact join part on f_part = p_key where p_key > 100";
    for (streaming, llc_bytes, once) in [
        ("off", 1 << 12, false),
        ("on", 1 << 30, true),
        ("auto", 1 << 20, false),
        ("auto", 1 << 12, true),
    ] {
        for setting in [
            format!("streaming = '{streaming}'"),
            format!("llc_bytes = {llc_bytes}"),
        ] {
            engine.query(&format!("set corun.{setting}")).await.unwrap();
        }
        let plan = plan(&engine, sql).await;
        assert!(plan.contains("IndexJoinExec"), "{plan}");
        assert_eq!(plan.contains("reuse=once"), once, "{streaming}: {plan}");
    }
    insta::assert_snapshot!(plan(&engine, sql).await);
}

#[tokio::test]
async fn one_partition_joins_through_the_index_too() {
    let engine = index(star_in(1)).await;
    let sql = "select sum(f_value) from part join fact on f_part = p_key where p_key < 5";
    let plan = plan(&engine, sql).await;
    assert!(plan.contains("IndexJoinExec"), "{plan}");
}

#[tokio::test]
async fn many_outer_rows_are_hashed() {
    let sql = "select a.f_value, b.f_value from fact a join fact b on a.f_part = b.f_part";
    insta::assert_snapshot!(plan(&indexed_star().await, sql).await);
}

/// A left side whose rows come at the end of the join is one table if it is small, so that its keys are looked up below the groups.
#[tokio::test]
async fn keys_of_a_small_left_side_are_looked_up_below_groups() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        partitions: 2,
        share_work: false,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    for (name, rows) in [
        (
            "parts",
            "select value as p_key, 'brand ' || (value % 25) as brand from generate_series(1, 20000)",
        ),
        (
            "items",
            "select value % 20000 as part, value % 50 as quantity, value % 7 as price from generate_series(1, 600000)",
        ),
    ] {
        let path = folder.path().join(format!("{name}.parquet"));
        let sql = format!("copy ({rows}) to '{}' stored as parquet", path.display());
        engine.query(&sql).await.unwrap();
        engine.register_path(name, &path).await.unwrap();
    }
    let sql = "select sum(price) from items, parts where p_key = part and brand = 'brand 7' \
               and quantity < (select 0.5 * avg(quantity) from items where part = p_key)";
    let plan = plan(&engine, sql).await;
    let semi = plan.lines().find(|line| line.contains("join_type=LeftSemi"));
    assert!(semi.is_some_and(|line| line.contains("build=Shared")), "{plan}");
    assert!(
        plan.contains("CorunPrefilterExec: lookups=[part in p_key]"),
        "{plan}"
    );
}
