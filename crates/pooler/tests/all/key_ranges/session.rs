//! What runs in parts is the session's own view: its settings, its role, its transaction.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{splits, start};
use crate::common::fixture::Fixture;
use crate::common::random::Random;
use crate::common::wait::PATIENCE;

/// A split in two of a text over keys 1 to 1,000.
fn rule(name: &str, query: &str, key: &str) -> String {
    format!(
        "[splits.{name}]\ndatabase = \"{{database}}\"\nquery = \"\"\"{query}\"\"\"\nkey = \"{key}\"\n\
         minimum = 1\nmaximum = 1000\nparts = 2\n"
    )
}

/// How often a rule ran in parts.
fn count(fixture: &Fixture, name: &str) -> u64 {
    splits(fixture, name).0
}

/// Checks an answer until it came in parts several times.
fn until_split(fixture: &Fixture, name: &str, check: impl FnMut()) {
    super::until_split(fixture, name, 3, check);
}

const SUM: &str = "select sum(v), count(*), min(v), max(k) from t where k > 0";

#[test]
fn names_are_those_of_the_search_path() {
    let fixture = start(6, &format!("split = \"on\"\n{}", rule("sum", SUM, "t.k")));
    let mut direct = fixture.direct();
    let mut clients = [fixture.client(), fixture.client()];
    for (number, schema) in ["one", "two"].iter().enumerate() {
        direct.rows(&format!("create schema {schema}"));
        direct.rows(&format!("create table {schema}.t (k int, v bigint)"));
        direct.rows(&format!(
            "insert into {schema}.t select i, i * {} from generate_series(1, 1000) i",
            number + 1
        ));
    }
    until_split(&fixture, "sum", || {
        for (client, schema) in clients.iter_mut().zip(["one", "two"]) {
            for schema in [schema, "two", schema] {
                let set = format!("set search_path to {schema}");
                client.rows(&set);
                direct.rows(&set);
                assert_eq!(client.rows(SUM), direct.rows(SUM), "{schema}");
            }
        }
    });
    // A table that hides the other.
    for client in &mut clients {
        client.rows("set search_path to one, two");
    }
    until_split(&fixture, "sum", || {
        direct.rows("set search_path to one, two");
        assert_eq!(clients[0].rows(SUM), direct.rows(SUM));
    });
    clients[1].rows("drop table one.t");
    assert_eq!(clients[0].rows(SUM), direct.rows(SUM));
    until_split(&fixture, "sum", || {
        assert_eq!(clients[0].rows(SUM), direct.rows(SUM));
    });
    clients[0].rows("set search_path to none");
    clients[0].assert_fails(SUM, "42P01");
}

#[test]
fn rows_are_those_the_role_may_see() {
    let fixture = start(6, &format!("split = \"on\"\n{}", rule("sum", SUM, "t.k")));
    let mut direct = fixture.direct();
    for statement in [
        "create table t (k int, v bigint, owner text, tenant int)",
        "insert into t select i, i, (array['app', 'other'])[1 + i % 2], i % 3 from generate_series(1, 1000) i",
        "alter table t enable row level security",
        "alter table t force row level security",
        "create policy own on t using (owner = current_user and tenant = current_setting('app.tenant')::int)",
        "grant select on t to other",
    ] {
        direct.rows(statement);
    }
    let mut clients = [fixture.client(), fixture.client()];
    for round in 0..30 {
        for (number, client) in clients.iter_mut().enumerate() {
            let role = ["app", "other"][(round + number) % 2];
            let statements = format!("set role {role}; set app.tenant to {}", (round / 2 + number) % 3);
            client.rows(&statements);
            direct.rows(&statements);
            let expected = direct.rows(SUM);
            for _ in 0..2 {
                assert_eq!(client.rows(SUM), expected, "{statements}");
            }
        }
    }
    for client in &mut clients {
        client.rows("reset role");
        // What was not said, or is wrong, is PostgreSQL's error.
        client.rows("set app.tenant to 'nobody'");
        client.assert_fails(SUM, "22P02");
    }
    clients[0].rows("set role other; set app.tenant to 1");
    direct.rows("reset role");
    direct.rows("revoke select on t from other");
    clients[0].assert_fails(SUM, "42501");
}

#[test]
fn a_transaction_sees_what_it_wrote() {
    let fixture = start(6, &format!("split = \"on\"\n{}", rule("sum", SUM, "t.k")));
    let mut client = fixture.client();
    client.rows("create table t (k int, v bigint)");
    client.rows("insert into t select i, i from generate_series(1, 1000) i");
    let before = client.rows(SUM);
    until_split(&fixture, "sum", || assert_eq!(client.rows(SUM), before));
    let splits = count(&fixture, "sum");
    for begin in [
        "begin",
        "begin isolation level repeatable read",
        "begin isolation level serializable",
    ] {
        client.rows(begin);
        assert_eq!(client.rows(SUM), before);
        client.rows("update t set v = 0 where k <= 900");
        assert_eq!(client.value(SUM), "95050");
        client.rows("savepoint s");
        client.rows("delete from t");
        assert_eq!(client.value(SUM), "null");
        client.rows("rollback to s");
        assert_eq!(client.value(SUM), "95050");
        client.rows("rollback");
    }
    // In one text, and in one batch of several statements.
    assert_eq!(
        client.value(&format!("begin; delete from t; {SUM}; rollback")),
        "null"
    );
    assert_eq!(
        client.value(&format!("delete from t where k < 0; {SUM}")),
        "500500"
    );
    assert_eq!(count(&fixture, "sum"), splits, "never in parts");
    // SERIALIZABLE by default, and tables of its own.
    client.rows("set default_transaction_isolation to serializable");
    assert_eq!(client.rows(SUM), before);
    client.rows("reset default_transaction_isolation");
    client.rows("create temp table t (k int, v bigint)");
    assert_eq!(client.value(SUM), "null");
    client.rows("drop table pg_temp.t");
    assert_eq!(count(&fixture, "sum"), splits, "never in parts");
    client.rows("update t set v = v + 1");
    until_split(&fixture, "sum", || assert_eq!(client.value(SUM), "501500"));
}

#[test]
fn the_sum_of_transfers_never_differs() {
    let text = "select sum(v), count(*) from t where k > 0";
    let grouped = "select k % 10, sum(v) from t group by k % 10 order by 1";
    let fixture = start(
        10,
        &format!(
            "split = \"on\"\n{}{}",
            rule("sum", text, "t.k"),
            rule("grouped", grouped, "t.k")
        ),
    );
    let mut client = fixture.client();
    client.rows("create table t (k int primary key, v bigint)");
    client.rows("insert into t select i, 1000 from generate_series(1, 1000) i");
    let expected = vec![vec![Some("1000000".to_owned()), Some("1000".to_owned())]];
    until_split(&fixture, "sum", || assert_eq!(client.rows(text), expected));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (fixture, stop, expected) = (&fixture, &stop, &expected);
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut client = fixture.client();
                    let mut wrote = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let (a, b) = (1 + random.below(500), 501 + random.below(500));
                        let amount = random.below(100);
                        client.rows("begin");
                        // Always in the same order: no deadlock.
                        client.rows(&format!("update t set v = v - {amount} where k = {a}"));
                        client.rows(&format!("update t set v = v + {amount} where k = {b}"));
                        if random.percent(10) {
                            assert_eq!(client.rows(text), *expected, "its own view");
                        }
                        client.rows(if random.percent(20) { "rollback" } else { "commit" });
                        if random.percent(20) {
                            assert_eq!(client.rows(text), *expected, "what it reads next");
                        }
                        wrote += 1;
                    }
                    assert!(wrote > 5, "it went on");
                })
            })
            .collect();
        let before = (count(fixture, "sum"), count(fixture, "grouped"));
        let until = std::time::Instant::now() + PATIENCE;
        while count(fixture, "sum") < before.0 + 100 || count(fixture, "grouped") < before.1 + 20 {
            for _ in 0..10 {
                assert_eq!(client.rows(text), *expected);
                let sums = client.rows(grouped);
                let sum: i64 = sums
                    .iter()
                    .filter_map(|row| row[1].as_deref()?.parse::<i64>().ok())
                    .sum();
                assert_eq!((sums.len(), sum), (10, 1_000_000));
            }
            assert!(std::time::Instant::now() < until, "it runs whole");
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("a writer");
        }
    });
}
