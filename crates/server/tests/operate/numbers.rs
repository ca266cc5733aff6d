//! Statements are counted, whoever sends them in which way, and everything shows the same numbers.

use std::time::Duration;

use corun_model::server_status::{QueryState, ServerStatus};
use corun_server::operate::StatementLog;
use tokio_postgres::SimpleQueryMessage;

use crate::{Server, exposition, wait};

/// Takes longer than any test waits, and next to no memory.
const ENDLESS: &str = "SELECT sum(value % 7) FROM generate_series(1, 1000000000000000)";

fn all_slow() -> StatementLog {
    StatementLog {
        min_duration: Some(Duration::ZERO),
        parameters: true,
    }
}

#[test]
fn every_statement_is_counted_once() {
    let server = Server::start(|config| config.log = all_slow());
    let client = server.connect();
    server.block_on(async {
        client
            .simple_query("SELECT n FROM t; SELECT word FROM t WHERE n < 3")
            .await
            .expect("rows");
        let rows = client
            .query("SELECT n FROM t WHERE n < $1", &[&5_i64])
            .await
            .expect("rows");
        assert_eq!(rows.len(), 5);
        client
            .simple_query("SELECT nothing FROM t")
            .await
            .expect_err("no such column");
        client.query("SELEC", &[]).await.expect_err("no SQL");
    });
    wait("the last is counted", || {
        server.status.now().statements.failed == 2
    });
    let now = server.status.now();
    let totals = now.statements;
    assert_eq!((totals.completed, totals.failed, totals.cancelled), (3, 2, 0));
    assert_eq!(totals.rows, 10 + 3 + 5);
    assert!(totals.bytes > 100, "{totals:?}");
    assert_eq!(totals.by_class.iter().sum::<u64>(), 3);
    let texts: Vec<&str> = now.slow.iter().map(|slow| slow.statement.as_str()).collect();
    assert_eq!(
        texts,
        [
            "SELEC",
            "SELECT nothing FROM t",
            "SELECT n FROM t WHERE n < $1",
            "SELECT word FROM t WHERE n < 3",
            "SELECT n FROM t"
        ]
    );
    let (failed, ran) = (&now.slow[1], &now.slow[2]);
    assert_eq!((failed.sqlstate.as_deref(), failed.class), (Some("42703"), None));
    assert!(ran.class.is_some() && ran.waited_s.is_some(), "{ran:?}");
    assert_eq!(
        (ran.rows, ran.user.as_str(), ran.database.as_str()),
        (5, "ann", "shop")
    );
    let session = &now.sessions[0];
    assert_eq!(
        (
            session.state.as_str(),
            session.application.as_str(),
            session.query
        ),
        ("idle", "test", None)
    );
    assert_eq!((now.connections.logins, now.connections.sessions), (1, 1));
}

#[test]
fn who_runs_is_seen_with_class_and_cpus_until_it_is_cancelled() {
    let server = Server::start(|config| {
        // No query is so short that it runs beside the others.
        let coordinator = config.coordinator.as_mut().expect("there is one");
        coordinator.short_below_ns = 0.0;
    });
    let client = server.connect();
    let cancel = client.cancel_token();
    let running = server.spawn(async move { client.simple_query(ENDLESS).await });
    let mut seen = ServerStatus::default();
    wait("it runs", || {
        seen = server.status.now();
        let queue = seen.queue.as_ref().expect("a coordinator");
        queue.count(QueryState::Running) == 1 && queue.queries[0].pid.is_some()
    });
    let query = &seen.queue.as_ref().expect("a coordinator").queries[0];
    let session = &seen.sessions[0];
    assert_eq!((query.pid, session.query), (Some(session.pid), Some(query.id)));
    assert!(query.class.is_some() && !query.cpus.is_empty(), "{query:?}");
    assert_eq!(
        (session.state.as_str(), session.statement.as_str()),
        ("active", ENDLESS)
    );
    // SQL says the same, and is not kept waiting by what fills all CPUs.
    let other = server.connect();
    let rows = server.block_on(other.simple_query("SHOW QUEUE")).expect("rows");
    let first = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(first, Some(query.id.to_string().as_str()));
    drop(other);
    wait("the other is gone", || server.status.now().sessions.len() == 1);
    let (_, samples) = exposition::read(&server.page("/metrics"));
    let of = |name: &str, label: &str| {
        let found = samples
            .iter()
            .find(|sample| sample.name == name && sample.labels.values().any(|value| value == label));
        found.map(|sample| sample.value)
    };
    assert_eq!(of("corun_sql_queue", "running"), Some(1.0));
    assert_eq!(of("corun_sql_sessions", "active"), Some(1.0));
    let page = server.page("/");
    assert_eq!(page.matches(&format!("{ENDLESS}</td></tr>")).count(), 2, "{page}");
    server
        .block_on(cancel.cancel_query(tokio_postgres::NoTls))
        .expect("asked");
    server
        .block_on(running)
        .expect("no panic")
        .expect_err("it was cancelled");
    wait("it is counted", || server.status.now().statements.cancelled == 1);
}

#[test]
fn a_client_that_goes_away_is_counted_too() {
    let server = Server::start(|_| {});
    let (client, connection) = server.connect_until_aborted();
    {
        let mut running = Box::pin(client.simple_query(ENDLESS));
        wait("it runs", || {
            let _ =
                server.block_on(async { tokio::time::timeout(Duration::from_millis(1), &mut running).await });
            server.status.now().sessions.iter().any(|of| of.state == "active")
        });
    }
    connection.abort();
    wait("it has ended", || {
        let now = server.status.now();
        now.sessions.is_empty() && now.statements.cancelled == 1
    });
}

#[test]
fn a_scrape_is_what_prometheus_reads() {
    let server = Server::start(|config| config.engine.memory_limit_bytes = Some(256 << 20));
    let client = server.connect();
    server
        .block_on(client.simple_query("SELECT count(*) FROM t; SELECT 1/0"))
        .expect_err("a division by zero");
    wait("both are counted", || server.status.now().statements.failed == 1);
    let (kinds, samples) = exposition::read(&server.page("/metrics"));
    for (name, kind) in [
        ("corun_sql_statement_seconds", "histogram"),
        ("corun_sql_statements_total", "counter"),
        ("corun_sql_errors_total", "counter"),
        ("corun_sql_queries_total", "counter"),
        ("corun_sql_queue", "gauge"),
        ("corun_sql_memory_pool_bytes_max", "gauge"),
        ("corun_sql_shared_columns_reused_total", "counter"),
        ("corun_sql_cache_bytes", "gauge"),
    ] {
        assert_eq!(kinds.get(name).map(String::as_str), Some(kind), "{name}");
    }
    let value = |name: &str| {
        let all = samples.iter().filter(|sample| sample.name == name);
        all.map(|sample| sample.value).sum::<f64>()
    };
    assert_eq!(value("corun_sql_statements_total"), 2.0);
    assert_eq!(value("corun_sql_statement_seconds_count"), 2.0);
    assert_eq!(value("corun_sql_memory_pool_bytes_max"), (256 << 20) as f64);
    assert_eq!(value("corun_sql_connections_total"), 1.0);
}

#[test]
fn all_pages_say_the_same() {
    let server = Server::start(|config| config.coordinator = None);
    assert_eq!(server.page("/health"), "ok\n");
    let read: ServerStatus = serde_json::from_str(&server.page("/status.json")).expect("a status");
    assert_eq!((read.program.as_str(), read.queue), ("corun-sql", None));
    assert!(read.caches.iter().any(|cache| cache.name == "memory"));
    assert!(server.status.answer("/favicon.ico").is_none());
    server.front.stop(false);
    assert_eq!(server.page("/health"), "stopping\n");
    assert!(server.page("/").contains("stopping"));
}
