//! The coordinator under real concurrency: its answers, what it promises when things go wrong, and that nothing stays behind.

// Only its way of comparing results.
#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod indexes;
mod setting;

use common::lines;
use corun_datafusion::{Coordinator, CoordinatorOptions, Engine, EngineOptions};
use corun_model::cache::coschedule::{LlcDomain, PolicyName, Why};
use corun_model::cache::partition::Class;
use corun_model::units::{Bytes, CpuId};
use datafusion::logical_expr::Volatility;
use futures::StreamExt;
use setting::{
    Gate, LONGEST, Noted, QUERIES, TABLES, answer, cpus, function, one_cpu, options, reserved, session,
    until, until_idle, until_nothing_is_held, with_tables, within,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Options of an engine whose statements do their work each time they run.
fn alone() -> EngineOptions {
    EngineOptions {
        share_work: false,
        ..EngineOptions::default()
    }
}

/// Every policy, with and without width, in one cache domain, in two, and with short queries let through.
fn all_options() -> Vec<CoordinatorOptions> {
    let mut all = Vec::new();
    for name in PolicyName::NAMES {
        for widen in [false, true] {
            let mut options = options(name.parse().unwrap());
            options.widen = widen;
            options.partitioner = (name == "mls").then(|| Arc::new(Noted::default()) as _);
            all.push(options);
        }
    }
    let mut two_domains = options(PolicyName::Sls);
    let cpus = cpus();
    let (left, right) = cpus.split_at(cpus.len() / 2);
    let domain = |cpus: &[CpuId]| LlcDomain {
        cache: Bytes::mib(1),
        cpus: cpus.to_vec(),
    };
    two_domains.domains = vec![domain(right)];
    if !left.is_empty() {
        two_domains.domains.push(domain(left));
    }
    two_domains.widen = true;
    all.push(two_domains);
    let mut short = options(PolicyName::Learned);
    short.short_below_ns = 1e12;
    short.bypass_max = 3;
    all.push(short);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_the_plain_engine_under_every_policy_and_width() {
    let engine = Engine::new(&alone()).unwrap();
    for sql in TABLES {
        engine.query(sql).await.unwrap();
    }
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(lines(&engine.query(sql).await.unwrap()));
    }
    let expected = Arc::new(expected);
    for options in all_options() {
        let what = format!("{options:?}");
        let coordinator = Coordinator::new(&engine, options).unwrap();
        let clients = (0..6).map(|client| {
            let (coordinator, expected, what) = (coordinator.clone(), Arc::clone(&expected), what.clone());
            tokio::spawn(async move {
                for i in 0..2 * QUERIES.len() {
                    let which = (i * 3 + client) % QUERIES.len();
                    let output = answer(&coordinator, QUERIES[which]).await.unwrap();
                    assert_eq!(lines(&output), expected[which], "{} with {what}", QUERIES[which]);
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            within(client).await.unwrap();
        }
        until_idle(&coordinator).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_short_queries_leave_nothing_behind() {
    let context = session(1 << 30);
    with_tables(&context).await;
    let mut options = options(PolicyName::Auto);
    options.widen = true;
    options.short_below_ns = 2e6;
    options.bypass_max = 2;
    let coordinator = Coordinator::around(&context, options).unwrap();
    let clients = (0..8i64).map(|client| {
        let coordinator = coordinator.clone();
        tokio::spawn(async move {
            for i in 0..60 {
                let id = (client * 60 + i) % 50;
                let sql = format!("SELECT count(*) FROM facts JOIN a ON facts.a = a.id WHERE a.id = {id}");
                let output = answer(&coordinator, &sql).await.unwrap();
                assert_eq!(lines(&output), ["400"]);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        within(client).await.unwrap();
    }
    until_idle(&coordinator).await;
    until_nothing_is_held(&context).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_one_kind_start_in_order_of_arrival() {
    for policy in [PolicyName::Fifo, PolicyName::Sls] {
        let context = session(1 << 30);
        let gate = Arc::new(Gate::default());
        context.register_udf(gate.function());
        let coordinator = Coordinator::around(&context, one_cpu(policy)).unwrap();
        let mut all = Vec::new();
        for n in 1..=6 {
            let sql = format!("SELECT gate({n})");
            all.push(coordinator.submit(&sql).await.unwrap());
            if n == 1 {
                gate.until_came(1).await;
            }
        }
        let state = coordinator.state();
        assert_eq!((state.running.len(), state.waiting.len()), (1, 5), "{policy}");
        assert_eq!(state.running[0].cpus, cpus()[..1]);
        gate.open();
        for submitted in &mut all {
            within(submitted.next()).await.unwrap().unwrap();
            assert!(within(submitted.next()).await.is_none());
            let report = submitted.report().expect("it ended");
            assert_eq!((report.rows, report.cpus.len()), (1, 1));
            assert!(report.why.is_some());
        }
        assert_eq!(gate.came(), [1, 2, 3, 4, 5, 6], "{policy}");
        // The first ran while the others waited.
        let waited = |at: usize| all[at].report().expect("it ended").waited_ns;
        assert!(waited(0) < waited(1));
        until_idle(&coordinator).await;
    }
}

/// While one query makes a part and another holds the second CPU, two wait: the one that came later reads the part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_what_another_makes_goes_first() {
    let context = session(64 << 20);
    with_tables(&context).await;
    context.sql("SET corun.share_work = 'on'").await.unwrap();
    let (maker_gate, other_gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    context.register_udf(maker_gate.named("hold", Volatility::Immutable));
    context.register_udf(other_gate.function());
    let mut options = options(PolicyName::Learned);
    options.domains[0].cpus.truncate(2);
    assert_eq!(options.domains[0].cpus.len(), 2, "this test needs two CPUs");
    let coordinator = Coordinator::around(&context, options).unwrap();
    let part = "(SELECT v, count(*) AS n FROM facts WHERE hold(v) >= 0 GROUP BY v) AS part";
    let all = format!("SELECT v, n FROM {part} ORDER BY v");
    let largest = format!("SELECT n FROM {part} ORDER BY n DESC LIMIT 1");

    let maker = coordinator.submit(&all).await.unwrap();
    maker_gate.until_came(1).await;
    let other = coordinator.submit("SELECT gate(1)").await.unwrap();
    other_gate.until_came(1).await;
    let stranger = coordinator.submit(QUERIES[3]).await.unwrap();
    let sharer = coordinator.submit(&largest).await.unwrap();
    assert_ne!(maker.decision().parts & sharer.decision().parts, 0);
    let others = other.decision().parts | stranger.decision().parts;
    assert_eq!(maker.decision().parts & others, 0);
    other_gate.open();
    until(&coordinator, "beside the maker", |state| {
        state
            .running
            .iter()
            .any(|running| running.why == Some(Why::Shares))
    })
    .await;
    maker_gate.open();
    for (mut submitted, shares, rows) in [
        (maker, false, 7),
        (other, false, 1),
        (stranger, false, 11),
        (sharer, true, 1),
    ] {
        while let Some(batch) = within(submitted.next()).await {
            batch.unwrap();
        }
        let report = submitted.report().unwrap();
        assert_eq!((report.why == Some(Why::Shares), report.rows), (shares, rows));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_are_where_the_report_says_and_their_helpers_are_free() {
    let context = session(1 << 30);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    context.register_udf(function("here", Volatility::Volatile, move |n| {
        let allowed = || corun_topology::affinity::allowed_cpus().unwrap();
        let helper = tokio::runtime::Handle::current().spawn_blocking(allowed);
        let since = std::time::Instant::now();
        while !helper.is_finished() && since.elapsed() < LONGEST {
            std::thread::yield_now();
        }
        let helped = futures::FutureExt::now_or_never(helper)
            .expect("finished")
            .unwrap();
        note.lock().unwrap().push((allowed(), helped));
        n
    }));
    for (widen, short) in [(false, false), (true, false), (true, true)] {
        let mut options = options(PolicyName::Fifo);
        options.widen = widen;
        options.short_below_ns = if short { 1e12 } else { 0.0 };
        let coordinator = Coordinator::around(&context, options).unwrap();
        let (_, report) = within(coordinator.query("SELECT here(1)")).await.unwrap();
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert!(!seen.is_empty());
        let expected = match (short, widen) {
            (true, _) => Vec::new(),
            (_, true) => cpus(),
            (_, false) => cpus()[..1].to_vec(),
        };
        assert_eq!(report.cpus, expected);
        for (there, helped) in seen {
            assert_eq!(helped, cpus(), "threads for blocking work are not pinned");
            match short {
                true => assert_eq!(there, cpus()),
                false => assert!(there.len() == 1 && report.cpus.contains(&there[0])),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_assigned_when_the_class_changes_and_only_then() {
    let context = session(1 << 30);
    with_tables(&context).await;
    let noted = Arc::new(Noted::default());
    let mut options = options(PolicyName::Mls);
    options.partitioner = Some(Arc::clone(&noted) as _);
    let coordinator = Coordinator::around(&context, options).unwrap();
    for sql in QUERIES.iter().chain(&QUERIES) {
        answer(&coordinator, sql).await.unwrap();
    }
    let assigned = noted.assigned.lock().unwrap();
    let queried: Vec<&Vec<Class>> = assigned
        .iter()
        .filter(|(thread, _)| thread.starts_with("corun-cpu"))
        .map(|(_, classes)| classes)
        .collect();
    assert!(!queried.is_empty());
    for classes in assigned.values() {
        assert!(classes.windows(2).all(|two| two[0] != two[1]), "{assigned:?}");
    }
    // Scans stream: they get the share of those that do.
    assert!(
        queried.iter().any(|classes| classes.contains(&Class::Weak)),
        "{assigned:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_no_queries_run_at_once() {
    let context = session(1 << 30);
    with_tables(&context).await;
    let gate = Arc::new(Gate::default());
    context.register_udf(gate.function());
    let coordinator = Coordinator::around(&context, one_cpu(PolicyName::Sls)).unwrap();
    // The only CPU is taken.
    let mut held = coordinator.submit("SELECT gate(1)").await.unwrap();
    gate.until_came(1).await;
    for sql in [
        "CREATE TABLE made AS SELECT * FROM a",
        "INSERT INTO made VALUES (100, 1)",
        "CREATE INDEX made_id ON made (id)",
        "DROP INDEX made_id",
        "SET datafusion.execution.batch_size = 1000",
        "EXPLAIN SELECT * FROM made",
        "SHOW datafusion.execution.batch_size",
    ] {
        let (_, report) = within(coordinator.query(sql)).await.unwrap();
        assert!(report.cpus.is_empty() && report.why.is_none(), "{sql}");
    }
    gate.open();
    assert!(within(held.next()).await.unwrap().is_ok());
    assert!(within(held.next()).await.is_none());
    let output = answer(&coordinator, "SELECT count(*), sum(g) FROM made")
        .await
        .unwrap();
    assert_eq!(lines(&output), ["51|50"]);
    for wrong in [
        "SELEC 1",
        "SELECT nothing FROM made",
        "DROP TABLE nowhere",
        "INSERT INTO nowhere VALUES (1)",
    ] {
        assert!(within(coordinator.query(wrong)).await.is_err(), "{wrong}");
    }
    assert!(
        coordinator
            .explain("SELECT * FROM made")
            .await
            .unwrap()
            .contains("weak")
    );
    assert!(coordinator.explain("DROP TABLE made").await.is_err());
    until_idle(&coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_read_as_the_plain_engine_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(&alone()).unwrap();
    for sql in TABLES {
        engine.query(sql).await.unwrap();
    }
    let rows: String = (0..50_000).map(|i| format!("{i},{}\n", i % 91)).collect();
    let csv = folder.path().join("lines.csv");
    std::fs::write(&csv, format!("id,g\n{rows}")).unwrap();
    let parquet = folder.path().join("facts.parquet");
    let copy = format!("COPY facts TO '{}'", parquet.display());
    engine.query(&copy).await.unwrap();
    engine.register_path("lines", &csv).await.unwrap();
    engine.register_path("stored", &parquet).await.unwrap();
    engine
        .query("CREATE VIEW seen AS SELECT * FROM stored")
        .await
        .unwrap();
    let mut options = options(PolicyName::Sls);
    options.widen = true;
    let coordinator = Coordinator::new(&engine, options).unwrap();
    let queries = [
        "SELECT count(*), sum(id), sum(g) FROM lines",
        "SELECT a.g, sum(v) FROM stored JOIN a ON stored.a = a.id GROUP BY a.g",
        "SELECT lines.g, count(*) FROM seen JOIN lines ON seen.c = lines.id WHERE v > 3 GROUP BY lines.g",
        "SELECT sum(v) FROM stored WHERE b IN (SELECT g FROM lines WHERE id < 20)",
    ];
    for sql in queries {
        let expected = lines(&engine.query(sql).await.unwrap());
        let both = futures::future::join(answer(&coordinator, sql), answer(&coordinator, sql)).await;
        assert_eq!(lines(&both.0.unwrap()), expected, "{sql}");
        assert_eq!(lines(&both.1.unwrap()), expected, "{sql}");
    }
    // A broken file is an error of the query, and no more.
    std::fs::write(&parquet, "this is no Parquet file, however one reads it").unwrap();
    assert!(
        within(coordinator.query("SELECT sum(a) FROM stored"))
            .await
            .is_err()
    );
    assert!(answer(&coordinator, "SELECT count(*) FROM lines").await.is_ok());
    until_idle(&coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_alone_gets_every_cpu_and_company_gets_one_each() {
    let context = session(1 << 30);
    with_tables(&context).await;
    let gate = Arc::new(Gate::default());
    context.register_udf(gate.function());
    let mut options = options(PolicyName::Fifo);
    options.widen = true;
    let coordinator = Coordinator::around(&context, options).unwrap();
    let (_, report) = within(coordinator.query(QUERIES[4])).await.unwrap();
    assert_eq!(report.cpus, cpus());

    // While a wide one runs, two arrive; planned in its company, they are narrow. The gate stands behind rows of the table.
    let mut wide = coordinator
        .submit("SELECT gate(id) FROM facts WHERE id = 7")
        .await
        .unwrap();
    gate.until_came(1).await;
    let mut others = Vec::new();
    for _ in 0..cpus().len() {
        others.push(coordinator.submit(QUERIES[3]).await.unwrap());
    }
    gate.open();
    while let Some(batch) = within(wide.next()).await {
        batch.unwrap();
    }
    assert_eq!(wide.report().unwrap().cpus, cpus());
    let mut given = BTreeSet::new();
    for mut other in others {
        while let Some(batch) = within(other.next()).await {
            batch.unwrap();
        }
        let cpus = other.report().unwrap().cpus;
        assert_eq!(cpus.len(), 1);
        given.insert(cpus[0]);
    }
    assert_eq!(given.len(), cpus().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_statement_took_decides_whether_it_is_short() {
    let context = session(1 << 30);
    let slow = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&slow);
    context.register_udf(function("slow", Volatility::Volatile, move |n| {
        calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(40));
        n
    }));
    let mut options = options(PolicyName::Fifo);
    options.short_below_ns = 20e6;
    let coordinator = Coordinator::around(&context, options).unwrap();
    // However it is run at first, by its time it is not short, and so it is scheduled.
    answer(&coordinator, "SELECT slow(1)").await.unwrap();
    let (_, report) = within(coordinator.query("SELECT slow(2)")).await.unwrap();
    assert_eq!(report.cpus.len(), 1);
    assert_eq!(slow.load(Ordering::Relaxed), 2);
    assert_eq!(reserved(&context), 0);
    until(&coordinator, "idle", |state| state.is_idle()).await;
}
