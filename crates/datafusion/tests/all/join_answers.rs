//! corun's join gives the stock join's rows: every join type, key type and NULL rule, over partition counts, batch sizes,
//! build modes and memory limits.

use crate::common::{Table, engine, lines, table};
use corun_datafusion::{Engine, EngineOptions, Joins};
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: &[&str] = &[
    "a_i = b_i",
    "a_n = b_n",
    "a_w = b_w",
    "a_s = b_s",
    "a_v = b_v",
    "a_f = b_f",
    "a_i = b_i and a_n = b_n",
    "a_i = b_i and a_w = b_w",
    "a_i = b_i and a_s = b_s and a_v = b_v",
    "a_i is not distinct from b_i",
    "a_s is not distinct from b_s and a_n is not distinct from b_n",
    "a_i = b_i and a_id < b_id",
    "a_s = b_s and a_id % 3 <> b_id % 2",
    "a_i + 1 = b_i",
];

fn statements(on: &str) -> Vec<String> {
    let mut all: Vec<String> = ["inner", "left", "right", "full"]
        .iter()
        .map(|kind| format!("select * from a {kind} join b on {on}"))
        .collect();
    for kind in ["left semi", "left anti"] {
        all.push(format!("select * from a {kind} join b on {on}"));
        all.push(format!("select * from b {kind} join a on {on}"));
    }
    // A mark join: the predicate's answer is a column.
    all.push(format!(
        "select a_id from a where a_id % 7 = 0 or exists (select 1 from b where {on})"
    ));
    all.push(format!(
        "select count(*), sum(a_id), sum(b_id) from a join b on {on}"
    ));
    all.push(format!("select a_i, count(*) from a join b on {on} group by a_i"));
    all.push(format!(
        "select a_id, b_id from a join b on {on} order by a_id, b_id limit 13"
    ));
    all
}

async fn compare(
    settings: &[(&str, &str)],
    partitions: usize,
    batch_size: usize,
    tables: &[(&str, &Table)],
    sql: &[String],
) {
    let stock = engine(Joins::Stock, partitions, batch_size, settings, tables);
    let corun = engine(Joins::Corun, partitions, batch_size, settings, tables);
    for statement in sql {
        let want = stock.query(statement).await;
        let got = corun.query(statement).await;
        match (want, got) {
            (Ok(want), Ok(got)) => {
                assert_eq!(
                    lines(&got),
                    lines(&want),
                    "{statement}\npartitions {partitions}, batch {batch_size}, {settings:?}"
                );
                // An outer join that became an inner one makes no NULLs.
                for (got, want) in got.schema.fields().iter().zip(want.schema.fields()) {
                    assert_eq!(
                        (got.name(), got.data_type()),
                        (want.name(), want.data_type()),
                        "{statement}"
                    );
                    assert!(want.is_nullable() || !got.is_nullable(), "{statement}");
                }
                assert_eq!(
                    got.schema.fields().len(),
                    want.schema.fields().len(),
                    "{statement}"
                );
            }
            (Err(want), Err(got)) => assert_eq!(got.primary, want.primary, "{statement}"),
            (want, got) => panic!("{statement}: stock {want:?}, corun {got:?}"),
        }
    }
}

const COLLECTED: &[(&str, &str)] = &[];
const PARTITIONED: &[(&str, &str)] = &[
    ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        "0",
    ),
];
const KEEP_PARTITIONS: &[(&str, &str)] = &[
    ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        "0",
    ),
    ("corun.join_shared_build", "false"),
];

/// So small an L2 lets every probe prefetch.
const PASSING: &[(&str, &str)] = &[("corun.streaming", "on"), ("corun.l2_bytes", "1")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_join_type_key_and_layout() {
    let (a, b) = (table("a", 700, 200, 3, 1), table("b", 400, 150, 2, 2));
    let tables = [("a", &a), ("b", &b)];
    let sql: Vec<String> = KEYS.iter().flat_map(|on| statements(on)).collect();
    for settings in [COLLECTED, PARTITIONED, KEEP_PARTITIONS, PASSING] {
        for (partitions, batch_size) in [(1, 8192), (2, 7), (3, 8192), (7, 64)] {
            compare(settings, partitions, batch_size, &tables, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_files_are_those_of_memory() {
    let (a, b) = (table("a", 700, 200, 3, 1), table("b", 400, 150, 2, 2));
    let tables = [("a", &a), ("b", &b)];
    let sql: Vec<String> = KEYS.iter().flat_map(|on| statements(on)).collect();
    // Only a batch's rows are let in.
    let few = [("corun.join_memory_bytes", "1")];
    compare(&[COLLECTED, &few].concat(), 2, 64, &tables, &sql).await;
    let sql: Vec<String> = KEYS.iter().step_by(3).flat_map(|on| statements(on)).collect();
    for layout in [PARTITIONED, KEEP_PARTITIONS] {
        compare(&[layout, &few].concat(), 2, 64, &tables, &sql).await;
    }
    let (same_a, same_b) = (table("a", 150, 1, 1, 8), table("b", 300, 1, 2, 7));
    let (no_a, no_b) = (table("a", 0, 5, 1, 9), table("b", 0, 5, 1, 6));
    for (a, b) in [
        (&a, &same_b),
        (&same_a, &b),
        (&same_a, &same_b),
        (&a, &no_b),
        (&no_a, &b),
    ] {
        compare(&few, 3, 32, &[("a", a), ("b", b)], &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_of_files_are_split_until_they_fit_or_go_in_blocks() {
    let (a, b) = (table("a", 30_000, 5000, 2, 15), table("b", 20_000, 5000, 2, 16));
    let same = table("b", 20_000, 1, 2, 17);
    let sql = "select count(*), sum(a_id + b_id) from b join a on a_n = b_n";
    for (b, bytes, spills, in_blocks) in [
        (&b, "0", false, false),
        (&b, "2000000", true, false),
        (&b, "50000", true, true),
        (&same, "2000000", true, true),
    ] {
        let tables = [("a", &a), ("b", b)];
        let stock = engine(Joins::Stock, 2, 256, &[], &tables);
        let expected = lines(&stock.query(sql).await.unwrap());
        let settings = [
            ("corun.join_memory_bytes", bytes),
            ("corun.join_build_side", "false"),
            ("corun.l2_bytes", "1048576"),
        ];
        let corun = engine(Joins::Corun, 2, 256, &settings, &tables);
        assert_eq!(lines(&corun.query(sql).await.unwrap()), expected, "{bytes}");
        let plan = corun.explain(sql, true).await.unwrap();
        let join = plan.lines().find(|line| line.contains("CorunJoinExec")).unwrap();
        assert_eq!(join.contains("spilled_rows="), spills, "{bytes}: {join}");
        assert_eq!(join.contains("left_blocks="), in_blocks, "{bytes}: {join}");
        if spills {
            corun
                .query("set datafusion.runtime.max_temp_directory_size = '1K'")
                .await
                .unwrap();
            let error = corun
                .query(sql)
                .await
                .map(|output| output.num_rows())
                .unwrap_err();
            assert!(error.to_string().contains("max_temp_directory_size"), "{error}");
        }
    }
}

/// Dropping the rows of a join of files removes the files, whenever it happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_joins_leave_no_files() {
    let (a, b) = (table("a", 30_000, 5000, 2, 18), table("b", 20_000, 5000, 2, 19));
    let folder = tempfile::tempdir().unwrap();
    let settings = [("corun.join_memory_bytes", "50000")];
    let corun = engine(Joins::Corun, 2, 256, &settings, &[("a", &a), ("b", &b)]);
    let place = format!(
        "set datafusion.runtime.temp_directory = '{}'",
        folder.path().display()
    );
    corun.query(&place).await.unwrap();
    let files = || {
        let folders = folder.path().read_dir().unwrap();
        let files = folders.flat_map(|folder| folder.unwrap().path().read_dir().unwrap());
        files.count()
    };
    let mut met = 0;
    for batches in [0, 1, 2, 50, usize::MAX] {
        let (_, mut rows) = corun.stream("select * from b join a on a_n = b_n").await.unwrap();
        for _ in 0..batches {
            if rows.next().await.transpose().unwrap().is_none() {
                break;
            }
            met = met.max(files());
        }
        drop(rows);
        // Tasks end soon after their join.
        let begin = Instant::now();
        while files() > 0 {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{} files are left",
                files()
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(met > 1, "there were files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_one_row() {
    let (a, b) = (table("a", 60, 20, 2, 3), table("b", 50, 20, 2, 4));
    let tables = [("a", &a), ("b", &b)];
    let sql: Vec<String> = KEYS.iter().flat_map(|on| statements(on)).collect();
    for settings in [COLLECTED, PARTITIONED] {
        compare(settings, 2, 1, &tables, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_sides_and_one_key_for_all_rows() {
    let (some, none, same) = (
        table("a", 90, 40, 2, 5),
        table("b", 0, 5, 1, 6),
        table("b", 300, 1, 2, 7),
    );
    let none_a = table("a", 0, 5, 1, 8);
    let sql: Vec<String> = KEYS.iter().flat_map(|on| statements(on)).collect();
    for settings in [COLLECTED, PARTITIONED] {
        compare(settings, 2, 64, &[("a", &some), ("b", &none)], &sql).await;
        compare(settings, 2, 64, &[("a", &none_a), ("b", &same)], &sql).await;
        compare(settings, 2, 64, &[("a", &some), ("b", &same)], &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_in_with_nulls_on_either_side() {
    let (a, b) = (table("a", 300, 40, 2, 9), table("b", 200, 30, 2, 10));
    let sql: Vec<String> = [
        "select a_id from a where a_i not in (select b_i from b)",
        "select a_id from a where a_i not in (select b_i from b where b_i is not null)",
        "select a_id from a where a_i not in (select b_i from b where b_id < 0)",
        "select a_id from a where a_s not in (select b_s from b where b_s is not null)",
        "select a_id from a where a_i not in (select b_i from b where b_i is not null and b_id > a_id)",
        "select a_id from a where a_i in (select b_i from b) or a_n in (select b_n from b)",
    ]
    .map(str::to_string)
    .to_vec();
    for settings in [COLLECTED, PARTITIONED] {
        for partitions in [1, 3] {
            compare(settings, partitions, 50, &[("a", &a), ("b", &b)], &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_with_prefilters_keep_their_rows() {
    let (f, d, e) = (
        table("f", 5000, 300, 3, 11),
        table("d", 200, 300, 1, 12),
        table("e", 90, 300, 1, 13),
    );
    let tables = [("f", &f), ("d", &d), ("e", &e)];
    let mut sql = Vec::new();
    for (first, second) in [
        ("join", "join"),
        ("left join", "join"),
        ("join", "left join"),
        ("right join", "join"),
        ("full join", "join"),
    ] {
        sql.push(format!(
            "select f_id, d_id, e_id from f {first} d on f_i = d_i {second} e on f_n = e_n"
        ));
        sql.push(format!(
            "select f_n, count(*), sum(d_id) from f {first} d on f_i = d_i {second} e on f_s = e_s where e_id < 40 group by f_n"
        ));
        sql.push(format!(
            "select count(*) from f {first} d on f_v = d_v {second} e on d_i = e_i"
        ));
    }
    sql.push(
        "select count(*) from f join d on f_i = d_i join e on f_n = e_n where f_id in (select d_id from d)"
            .into(),
    );
    sql.push(
        "select f_id from (select f_id, f_n + 1 as k from f join d on f_i = d_i) join e on k = e_n".into(),
    );
    sql.push(
        "select f_id from f left anti join d on f_i = d_i where f_n in (select e_n from e) and f_i in (select e_i from e)".into(),
    );
    for settings in [COLLECTED, PARTITIONED, KEEP_PARTITIONS] {
        for (partitions, batch_size) in [(1, 100), (3, 8192), (2, 7)] {
            compare(settings, partitions, batch_size, &tables, &sql).await;
        }
    }
}

/// Keys that come from build sides, through groups, windows, unions, semi and anti joins; and those that must not pass, because a
/// dropped row would change others: of outer joins' expressions, NOT IN, limits, grouping sets, windows over other partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_looked_up_only_where_that_changes_no_row() {
    let (f, d, e) = (
        table("f", 4000, 300, 3, 21),
        table("d", 400, 300, 2, 22),
        table("e", 60, 300, 1, 23),
    );
    let tables = [("f", &f), ("d", &d), ("e", &e)];
    let mut sql: Vec<String> = Vec::new();
    for kind in ["join", "left join", "right join", "full join"] {
        for key in [
            "d_n",
            "f_n",
            "d_i",
            "f_i",
            "d_s",
            "coalesce(d_n, 3)",
            "coalesce(f_n, d_n)",
            "d_n + f_n",
        ] {
            let other = if key == "d_s" { "e_s" } else { "e_n" };
            sql.push(format!(
                "select count(*), sum(f_id), sum(d_id) from f {kind} d on f_i = d_i join e on {key} = {other} where e_id < 20"
            ));
        }
    }
    let below = [
        "select f_n as k, count(*) as v from f group by f_n",
        "select f_n as k, f_i, count(*) as v from f group by rollup (f_n, f_i)",
        "select f_n as k, f_i, count(*) as v from f group by grouping sets ((f_n), (f_i), (f_n, f_i))",
        "select f_n as k, sum(f_id) over (partition by f_n) as v from f",
        "select f_n as k, row_number() over (partition by f_i, f_n order by f_id) as v from f",
        "select f_n as k, row_number() over (partition by f_i order by f_id) as v from f",
        "select f_n as k, count(*) over () as v from f",
        "select f_n as k, f_id as v from f union all select d_n, d_id from d",
        "select f_n as k, f_id as v from f union all select d_n, count(*) from d group by d_n",
        "select f_n as k, f_id as v from f union select d_n, d_id from d",
        "select f_n as k, f_id as v from f order by f_id limit 50",
        "select f_n as k, max(f_id) as v from f group by f_n order by f_n limit 3",
        "select f_n as k, f_id as v from f where f_i in (select d_i from d)",
        "select f_n as k, f_id as v from f where f_n in (select d_n from d where d_id < 100)",
        "select f_n as k, f_id as v from f where f_n not in (select d_n from d)",
        "select f_n as k, f_id as v from f where f_n not in (select d_n from d where d_n is not null and d_id > 300)",
        "select f_n as k, f_id as v from f where not exists (select 1 from d where d_n = f_n)",
        "select f_n as k, f_id as v from f where f_id > 3900 or f_n in (select d_n from d)",
        "select f_n as k, f_id as v from f, d where f_id > d_id * 10",
        "select d_n as k, count(f_id) as v from f right join d on f_i = d_i group by d_n",
    ];
    for below in below {
        for kind in ["join", "left semi join", "right join", "left anti join"] {
            let columns = match kind {
                "left semi join" | "left anti join" => "count(*), sum(v)",
                _ => "count(*), sum(v), sum(e_id)",
            };
            sql.push(format!(
                "select {columns} from ({below}) as b {kind} (select * from e where e_id < 20) on k = e_n"
            ));
        }
    }
    for settings in [COLLECTED, PARTITIONED] {
        for (partitions, batch_size) in [(1, 100), (3, 8192), (2, 7)] {
            compare(settings, partitions, batch_size, &tables, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recursion_builds_a_new_table_each_round() {
    let a = table("a", 200, 200, 2, 14);
    let sql = vec![
        "with recursive r as (select a_id as x from a where a_id < 5 union all \
         select a.a_id from r join a on a.a_id = r.x + 7 join a as c on c.a_id = a.a_id where r.x < 150) \
         select x, count(*) from r group by x"
            .to_string(),
    ];
    compare(COLLECTED, 2, 64, &[("a", &a)], &sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tight_pool_gives_the_answer_or_the_pools_error() {
    let (a, b) = (table("a", 20_000, 5000, 2, 15), table("b", 20_000, 5000, 2, 16));
    let sql = "select count(*), sum(a_id + b_id) from a join b on a_s = b_s and a_n = b_n";
    let want = {
        let engine = engine(Joins::Stock, 2, 8192, &[], &[("a", &a), ("b", &b)]);
        lines(&engine.query(sql).await.unwrap())
    };
    let mut outcomes = [0, 0];
    for kibibytes in [1, 64, 512, 1024, 1500, 2048, 3000, 4096, 8192, 65536] {
        let options = EngineOptions {
            partitions: 2,
            memory_limit_bytes: Some(kibibytes << 10),
            ..EngineOptions::default()
        };
        let engine = Engine::new(&options).unwrap();
        for (name, table) in [("a", &a), ("b", &b)] {
            engine
                .register_batches(name, Arc::clone(&table.schema), table.partitions.clone())
                .unwrap();
        }
        match engine.query(sql).await {
            Ok(output) => {
                assert_eq!(lines(&output), want, "{kibibytes} KiB");
                outcomes[0] += 1;
            }
            Err(error) => {
                assert!(error.resources_exhausted, "{error}");
                outcomes[1] += 1;
            }
        }
    }
    assert!(
        outcomes[0] > 0 && outcomes[1] > 0,
        "the limits must straddle what the query needs: {outcomes:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_show_the_join_and_options_switch_it_off() {
    let (a, b) = (table("a", 100, 40, 2, 17), table("b", 100, 40, 2, 18));
    let engine = engine(Joins::Corun, 2, 64, &[], &[("a", &a), ("b", &b)]);
    let sql = "select count(*) from a join b on a_i = b_i";
    let plan = engine.explain(sql, false).await.unwrap();
    assert!(
        plan.contains("CorunJoinExec: build=Shared, join_type=Inner"),
        "{plan}"
    );
    let analyzed = engine.explain(sql, true).await.unwrap();
    assert!(analyzed.contains("table_dense_number=1"), "{analyzed}");
    for (streaming, llc_bytes, reuse) in [
        ("auto", 1 << 30, "keep"),
        ("auto", 64, "once"),
        ("on", 1 << 30, "once"),
        ("off", 64, "keep"),
    ] {
        for setting in [
            format!("streaming = '{streaming}'"),
            format!("llc_bytes = {llc_bytes}"),
        ] {
            engine.query(&format!("set corun.{setting}")).await.unwrap();
        }
        let analyzed = engine.explain(sql, true).await.unwrap();
        assert!(
            analyzed.contains(&format!("reuse_{reuse}=1")),
            "{streaming}: {analyzed}"
        );
    }
    engine.query("set corun.join = 'off'").await.unwrap();
    let plan = engine.explain(sql, false).await.unwrap();
    assert!(plan.contains("HashJoinExec") && !plan.contains("Corun"), "{plan}");
    let error = engine.query("set corun.join = 'sometimes'").await.unwrap_err();
    assert!(
        error
            .primary
            .contains("must be 'auto', 'on' or 'off', not 'sometimes'"),
        "{error}"
    );
}
