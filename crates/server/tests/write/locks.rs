//! Row locks of SELECT, through the protocol: who waits, who is refused, who leaves rows out.

use crate::harness::{Client, Server, wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

/// Five jobs.
fn jobs() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL, worker int)");
    client.execute("INSERT INTO job SELECT i, 'new', NULL FROM generate_series(1, 5) AS g(i)");
    (server, client)
}

#[test]
fn the_rows_of_the_select_are_its_result() {
    let (_server, client) = jobs();
    client.execute("BEGIN");
    assert_eq!(
        client.lines("SELECT * FROM job WHERE id > 3 ORDER BY id DESC FOR UPDATE"),
        ["5|new|NULL", "4|new|NULL"]
    );
    assert_eq!(
        client.lines("SELECT id + 1 AS next FROM job j ORDER BY 1 LIMIT 2 FOR SHARE"),
        ["2", "3"]
    );
    assert_eq!(
        client.lines(
            "SELECT a.id, b.id FROM job a JOIN job b ON b.id = a.id + 1 WHERE a.id = 1 FOR NO KEY UPDATE OF a"
        ),
        ["1|2"]
    );
    client.execute("COMMIT");
    assert!(
        client
            .lines("SELECT id FROM job WHERE id = 99 FOR KEY SHARE")
            .is_empty()
    );
    let rows = client
        .query("SELECT id, state FROM job WHERE id = $1 FOR UPDATE", &[&2_i32])
        .expect("it runs");
    assert_eq!((rows.len(), rows[0].len()), (1, 2));
}

#[test]
fn who_does_not_wait_is_refused() {
    let (server, client) = jobs();
    client.execute("BEGIN");
    client.execute("SELECT * FROM job WHERE id = 2 FOR UPDATE");
    let other = server.client();
    assert_eq!(
        other.error("SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT"),
        (
            "55P03".to_owned(),
            "could not obtain lock on row in relation \"job\"".to_owned()
        )
    );
    assert_eq!(other.error("SELECT * FROM job FOR SHARE NOWAIT").0, "55P03");
    assert_eq!(
        other.lines("SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT"),
        ["1"]
    );
    // Who only reads never waits.
    assert_eq!(other.lines("SELECT count(*) FROM job"), ["5"]);
    other.execute("SET lock_timeout = '20ms'");
    assert_eq!(other.error("UPDATE job SET state = 'x' WHERE id = 2").0, "55P03");
    assert_eq!(other.error("DELETE FROM job").0, "55P03");
    client.execute("ROLLBACK");
    assert_eq!(other.execute("DELETE FROM job"), 5);
}

#[test]
fn shared_locks_stand_beside_each_other() {
    let (server, client) = jobs();
    let other = server.client();
    for of in [&client, &other] {
        of.execute("BEGIN");
        assert_eq!(
            of.lines("SELECT id FROM job WHERE id = 2 FOR SHARE NOWAIT"),
            ["2"]
        );
    }
    let third = server.client();
    assert_eq!(
        third.error("SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT").0,
        "55P03"
    );
    client.execute("COMMIT");
    assert_eq!(
        third.error("SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT").0,
        "55P03"
    );
    other.execute("COMMIT");
    assert_eq!(
        third.lines("SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT"),
        ["2"]
    );
}

#[test]
fn locked_rows_are_left_out_and_the_limit_counts_the_others() {
    let (server, client) = jobs();
    client.execute("BEGIN");
    let next = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
    assert_eq!(client.lines(next), ["1", "2"]);
    let other = server.client();
    other.execute("BEGIN");
    assert_eq!(other.lines(next), ["3", "4"]);
    let third = server.client();
    assert_eq!(third.lines(next), ["5"]);
    let rows = third
        .query(
            "SELECT id FROM job ORDER BY id LIMIT $1 OFFSET $2 FOR UPDATE SKIP LOCKED",
            &[&3_i64, &1_i64],
        )
        .expect("it runs");
    assert!(rows.is_empty());
    client.execute("COMMIT");
    let rows = third
        .query(
            "SELECT id FROM job ORDER BY id LIMIT $1 OFFSET $2 FOR UPDATE SKIP LOCKED",
            &[&3_i64, &1_i64],
        )
        .expect("it runs");
    let ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, [2, 5]);
}

#[test]
fn a_queue_gives_each_job_to_one_worker() {
    let (server, client) = jobs();
    client.execute("INSERT INTO job SELECT i, 'new', NULL FROM generate_series(6, 40) AS g(i)");
    scope(|scope| {
        for worker in 0..4 {
            let taker = server.client();
            scope.spawn(move || {
                let take = format!(
                    "UPDATE job SET state = 'done', worker = {worker} WHERE id = (SELECT id FROM job \
                     WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) AND worker IS NULL RETURNING id"
                );
                let mut nothing = 0;
                while nothing < 3 {
                    match taker.lines(&take).len() {
                        0 => nothing += 1,
                        _ => nothing = 0,
                    }
                }
            });
        }
    });
    // A worker that finds all locked may stop early; the rest is taken here.
    client.execute("UPDATE job SET state = 'done', worker = 9 WHERE id IN (SELECT id FROM job WHERE state = 'new' FOR UPDATE)");
    assert_eq!(
        client.lines("SELECT count(*), count(worker) FROM job WHERE state = 'done'"),
        ["40|40"]
    );
}

#[test]
fn a_row_that_changed_while_it_was_waited_for_is_looked_at_again() {
    let (server, client) = jobs();
    client.execute("BEGIN");
    client.execute("UPDATE job SET state = 'old' WHERE id = 1");
    let waits = AtomicBool::new(true);
    scope(|scope| {
        let other = server.client();
        let waits = &waits;
        let pid = other.one("SELECT pg_backend_pid()");
        let locked = scope.spawn(move || {
            let locked =
                other.lines("SELECT id, state FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE");
            waits.store(false, Ordering::Release);
            locked
        });
        let observer = server.client();
        let state = format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}");
        wait("it has begun", || observer.lines(&state) == ["active"]);
        client.execute("COMMIT");
        // The first is no longer new.
        assert_eq!(locked.join().expect("no panic"), ["2|new"]);
    });
    assert!(!waits.load(Ordering::Acquire));
}

#[test]
fn what_cannot_be_locked_is_refused() {
    let (_server, client) = jobs();
    let refused = |sql: &str, what: &str| {
        assert_eq!(client.error(sql), ("0A000".to_owned(), what.to_owned()), "{sql}");
    };
    refused(
        "SELECT count(*) FROM job FOR UPDATE",
        "FOR UPDATE is not allowed with aggregate functions",
    );
    refused(
        "SELECT DISTINCT id FROM job FOR SHARE",
        "FOR SHARE is not allowed with DISTINCT clause",
    );
    refused(
        "SELECT id FROM job GROUP BY id FOR UPDATE",
        "FOR UPDATE is not allowed with GROUP BY clause",
    );
    refused(
        "SELECT id FROM job UNION SELECT worker FROM job FOR UPDATE",
        "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT",
    );
    refused(
        "SELECT row_number() OVER () FROM job FOR UPDATE",
        "FOR UPDATE is not allowed with window functions",
    );
    refused(
        "SELECT a.id FROM job a LEFT JOIN job b ON b.id = a.id + 1 FOR UPDATE",
        "FOR UPDATE cannot be applied to the nullable side of an outer join",
    );
    assert_eq!(client.error("SELECT * FROM job FOR UPDATE OF other").0, "42P01");
    assert_eq!(
        client.lines(
            "SELECT a.id FROM job a LEFT JOIN job b ON b.id = a.id + 1 WHERE a.id = 5 FOR UPDATE OF a"
        ),
        ["5"]
    );
}

#[test]
fn queries_within_lock_too() {
    let (server, client) = jobs();
    client.execute("BEGIN");
    assert_eq!(
        client.lines(
            "WITH next AS (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) \
             UPDATE job SET state = 'taken' FROM next WHERE next.id = job.id RETURNING job.id, state"
        ),
        ["1|taken", "2|taken"]
    );
    assert_eq!(
        client.lines("SELECT s.id FROM (SELECT id FROM job WHERE id = 3 FOR UPDATE) AS s"),
        ["3"]
    );
    let other = server.client();
    assert_eq!(
        other.lines("SELECT id FROM job ORDER BY id FOR UPDATE SKIP LOCKED"),
        ["4", "5"]
    );
    assert_eq!(
        other.execute("DELETE FROM job WHERE id IN (SELECT id FROM job WHERE id < 4 FOR UPDATE SKIP LOCKED)"),
        0
    );
    client.execute("COMMIT");
}

#[test]
fn a_deadlock_ends_for_one_of_two() {
    let (server, client) = jobs();
    let other = server.client();
    client.execute("BEGIN");
    other.execute("BEGIN");
    client.execute("SELECT * FROM job WHERE id = 1 FOR UPDATE");
    other.execute("SELECT * FROM job WHERE id = 2 FOR UPDATE");
    let outcomes = scope(|scope| {
        let first = scope.spawn(|| client.try_execute("UPDATE job SET worker = 1 WHERE id = 2"));
        let second = scope.spawn(|| other.try_execute("UPDATE job SET worker = 2 WHERE id = 1"));
        [first.join().expect("no panic"), second.join().expect("no panic")]
    });
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().err())
        .collect();
    assert_eq!(failed.len(), 1, "{outcomes:?}");
    assert_eq!(failed[0].0, "40P01");
}
