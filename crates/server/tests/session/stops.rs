//! Statements that make far more rows than they read end when they are cancelled, take too long, or have nobody who reads them. What has ended is
//! seen in the coordinator's queue, or by a thread that serves others; no test asserts how long something takes.

use super::harness::{Collected, Server, coordinator};
use super::limits::queue_empties;
use corun_datafusion::Joins;
use std::time::Duration;

/// None comes to its end while a test waits, and none takes much memory.
const EXPANDING: &[&str] = &[
    // A join without a condition, below what takes all of it at once.
    "SELECT count(*) FROM generate_series(1, 2000000) a CROSS JOIN generate_series(1, 2000000) b",
    "SELECT sum(a.a + b.b + c.c) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 100000) c",
    // A condition that no pair, or every pair, fulfils.
    "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.a + b.b < 0",
    "SELECT count(*) FROM generate_series(1, 1000000) a LEFT JOIN generate_series(1, 1000000) b ON a.a * b.b < 0",
    "SELECT max(a.a * b.b) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.a + b.b > 0",
    // One key for all rows, with a condition besides and without.
    "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.a % 1 = b.b % 1 AND a.a + b.b < 0",
    "SELECT sum(a.a) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.a % 1 = b.b % 1",
    // Lists, statements that go on from their own rows, groups, windows.
    "SELECT count(u) FROM (SELECT unnest(range(1, 100)) AS u FROM generate_series(1, 10000000000))",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM (SELECT value % 1000 AS k, count(*) FROM generate_series(1, 1000000000000) GROUP BY 1)",
    "SELECT sum(n) FROM (SELECT row_number() OVER () AS n FROM generate_series(1, 1000000000000))",
];

/// Ends a statement after a while by a request of another connection; the client hears it at once.
fn cancel(server: &Server, sql: &str) {
    let mut session = server.session();
    let handle = session.cancel_handle();
    let refusal = server.block_on(async {
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            handle.cancel();
        });
        let refusal = session.simple(sql, &mut Collected::default()).await;
        canceller.await.unwrap();
        refusal.unwrap_err()
    });
    assert_eq!(refusal.code, "57014", "{sql}: {refusal:?}");
}

#[test]
fn they_end_with_their_cancel_request() {
    for joins in [Joins::Corun, Joins::Stock] {
        let server = Server::with(|config| {
            config.coordinator = Some(coordinator());
            config.engine.joins = joins;
        });
        for sql in EXPANDING {
            cancel(&server, sql);
            assert_eq!(queue_empties(&server), ["=SHOW"], "{joins:?} {sql}");
        }
    }
}

#[test]
fn they_end_when_their_time_is_over_or_their_client_has_gone() {
    let server = Server::new();
    for sql in EXPANDING {
        let mut session = server.session();
        server.rows(&mut session, "SET statement_timeout = 300");
        assert_eq!(server.refused(&mut session, sql).code, "57014", "{sql}");
        assert_eq!(queue_empties(&server), ["=SHOW"], "{sql}");
        server.rows(&mut session, "SET statement_timeout = 0");
        server.block_on(async {
            let mut sink = Collected::default();
            let run = session.simple(sql, &mut sink);
            assert!(
                tokio::time::timeout(Duration::from_millis(300), run)
                    .await
                    .is_err()
            );
        });
        drop(session);
        assert_eq!(queue_empties(&server), ["=SHOW"], "{sql}");
    }
}

/// Without a coordinator statements run on the sessions' threads: more of them than there are threads, and still somebody is served.
#[test]
fn without_a_coordinator_their_threads_serve_others() {
    for joins in [Joins::Corun, Joins::Stock] {
        let server = Server::with(|config| {
            config.threads = 2;
            config.engine.joins = joins;
            config.engine.partitions = 2;
        });
        for sql in EXPANDING {
            cancel(&server, sql);
        }
        let mut session = server.session();
        for _ in 0..8 {
            let mut sink = Collected::default();
            let counted = session.simple("SELECT count(*) FROM t a, t b", &mut sink);
            let counted =
                server.block_on(async { tokio::time::timeout(Duration::from_secs(120), counted).await });
            counted.expect("a thread is free").unwrap();
        }
        // What was cancelled holds nothing of the engine.
        let engine = server.engine.clone();
        drop(session);
        assert!(engine.activity().is_empty());
    }
}
