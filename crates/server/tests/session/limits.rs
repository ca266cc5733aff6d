//! What ends a statement before its end, and what a slow client costs. No test asserts how long something takes.

use super::harness::{Collected, Server, coordinator};
use corun_server::session::{Gone, Sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Takes longer than any test waits, and next to no memory.
const ENDLESS: &str = "SELECT sum(value % 7) FROM generate_series(1, 1000000000000000)";

#[test]
fn a_statement_is_cancelled() {
    for with_coordinator in [true, false] {
        let server = Server::with(|config| config.coordinator = with_coordinator.then(coordinator));
        let mut session = server.session();
        let handle = session.cancel_handle();
        // Nothing runs: nothing happens.
        handle.cancel();
        assert_eq!(server.rows(&mut session, "SELECT 1"), ["1", "=SELECT 1"]);
        let refusal = server.block_on(async {
            let canceller = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                handle.cancel();
            });
            let refusal = session
                .simple(ENDLESS, &mut Collected::default())
                .await
                .unwrap_err();
            canceller.await.unwrap();
            refusal
        });
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            ("57014", "canceling statement due to user request")
        );
        assert_eq!(server.rows(&mut session, "SELECT 1"), ["1", "=SELECT 1"]);
        if with_coordinator {
            assert_eq!(queue_empties(&server), ["=SHOW"], "the operators are gone");
        }
    }
}

/// `SHOW QUEUE` once nothing runs, or after a while.
pub fn queue_empties(server: &Server) -> Vec<String> {
    let mut session = server.session();
    for _ in 0..500 {
        let queue = server.rows(&mut session, "SHOW QUEUE");
        if queue.len() == 1 {
            return queue;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server.rows(&mut session, "SHOW QUEUE")
}

#[test]
fn a_statement_takes_too_long() {
    let server = Server::new();
    let mut session = server.session();
    server.rows(&mut session, "SET statement_timeout = 100");
    let refusal = server.refused(&mut session, ENDLESS);
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        ("57014", "canceling statement due to statement timeout")
    );
    assert_eq!(
        server.rows(&mut session, "SET statement_timeout = 0; SELECT 1"),
        ["=SET", "1", "=SELECT 1"]
    );
    assert_eq!(queue_empties(&server), ["=SHOW"]);
}

#[test]
fn a_session_that_is_dropped_ends_what_it_runs() {
    let server = Server::new();
    let mut session = server.session();
    server.block_on(async {
        let mut sink = Collected::default();
        let run = session.simple(ENDLESS, &mut sink);
        assert!(
            tokio::time::timeout(Duration::from_millis(200), run)
                .await
                .is_err()
        );
    });
    drop(session);
    assert_eq!(queue_empties(&server), ["=SHOW"]);
}

/// Takes a chunk for each permit, and counts them.
struct Slow {
    permits: Arc<Semaphore>,
    bytes: Arc<AtomicUsize>,
}

impl Sink for Slow {
    async fn chunk(&mut self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.permits.acquire().await.map_err(|_| Gone)?.forget();
        self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn rows_are_made_as_the_client_takes_them() {
    // More rows than fit anywhere: they come only as they are taken.
    let server = Server::new();
    let mut session = server.session();
    let handle = session.cancel_handle();
    let permits = Arc::new(Semaphore::new(3));
    let bytes = Arc::new(AtomicUsize::new(0));
    let mut sink = Slow {
        permits: Arc::clone(&permits),
        bytes: Arc::clone(&bytes),
    };
    let refusal = server.block_on(async {
        let reader = tokio::spawn({
            let bytes = Arc::clone(&bytes);
            async move {
                while bytes.load(Ordering::Relaxed) < 3 * (64 << 10) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                // The client has stopped to read; the statement waits for it, and can still be cancelled.
                handle.cancel();
            }
        });
        let refusal = session
            .simple("SELECT * FROM generate_series(1, 100000000000)", &mut sink)
            .await
            .unwrap_err();
        reader.await.unwrap();
        refusal
    });
    assert_eq!(refusal.code, "57014");
    assert_eq!(queue_empties(&server), ["=SHOW"]);
    permits.close();
    let refusal = server
        .block_on(session.simple("SELECT 1", &mut sink))
        .unwrap_err();
    assert_eq!(refusal.code, "08006");
}

#[test]
fn queries_beyond_the_memory_fail_and_short_ones_go_on() {
    let server = Server::with(|config| {
        config.coordinator = Some(coordinator());
        config.engine.memory_limit_bytes = Some(16 << 20);
    });
    // One list of all rows, which cannot be written to files.
    let large = "SELECT cardinality(array_agg(value)) FROM generate_series(1, 8000000)";
    let engine = server.engine.clone();
    let runtime = engine.runtime();
    let large: Vec<_> = (0..8)
        .map(|_| {
            let mut session = server.session();
            runtime.spawn(async move { session.simple(large, &mut Collected::default()).await })
        })
        .collect();
    let mut session = server.session();
    for _ in 0..20 {
        assert_eq!(
            server.rows(&mut session, "SELECT n FROM t WHERE n = 3"),
            ["3", "=SELECT 1"]
        );
    }
    for large in large {
        let refusal = server.block_on(large).unwrap().unwrap_err();
        assert_eq!(refusal.code, "53200", "{refusal:?}");
        assert!(refusal.hint.is_some());
    }
    assert_eq!(queue_empties(&server), ["=SHOW"]);
    assert_eq!(
        server.rows(&mut session, "SELECT sum(n) FROM t"),
        ["45", "=SELECT 1"]
    );
}
