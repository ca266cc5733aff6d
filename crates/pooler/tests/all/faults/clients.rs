//! Clients that vanish in the worst moment: the server is not lost, and what they had begun is undone.

use crate::common::fixture::{Fixture, received};
use crate::common::message;
use crate::common::raw::Raw;
use crate::common::target::{Kind, Mode, Pooling, Target, kind};
use crate::common::wait::wait_for;

/// The only server of the pool must come back.
fn others_go_on(fixture: &Fixture, about: &str) {
    let mut other = fixture.client();
    assert_eq!(other.value("select count(*) from t"), "0", "{about}");
    drop(other);
    if fixture.target.shares_servers() {
        fixture.wait_until(
            "select count(*) <= 2 and bool_and(state = 'idle') from pg_stat_activity where datname = current_database() and usename = 'app'",
        );
    }
}

#[test]
fn clients_vanish_in_the_middle() {
    for mode in [Mode::Transaction, Mode::Session] {
        let fixture = Fixture::start(&Pooling::new(mode, 1));
        fixture.sql("create table t (v int); grant all on t to public");
        let insert = message::query("insert into t values (1)");
        let unsynced = message::statement("insert into t values ($1::int)", &[Some("1")]);
        let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
            ("in a transaction", vec![message::query("begin"), insert.clone()]),
            (
                "in a failed transaction",
                vec![message::query("begin"), message::query("select 1 / 0")],
            ),
            (
                "in COPY",
                vec![
                    message::query("copy t from stdin"),
                    message::copy_data(b"1\n2\n"),
                    message::copy_data(b"3"),
                ],
            ),
            (
                "in COPY, within a message",
                vec![
                    message::query("copy t from stdin"),
                    message::copy_data(b"1\n2\n")[..6].to_vec(),
                ],
            ),
            (
                "within a message",
                vec![message::query("insert into t values (1)")[..9].to_vec()],
            ),
            ("within a header", vec![vec![b'Q', 0, 0]]),
            ("before Sync", vec![unsynced.clone()]),
            (
                "before Sync, after Flush",
                vec![[unsynced, message::flush()].concat()],
            ),
            (
                "reading a long result",
                vec![message::query(
                    "select repeat('x', 1000) from generate_series(1, 100000)",
                )],
            ),
            ("after Parse", vec![message::parse("s", "select 1", &[])]),
        ];
        for (about, messages) in cases {
            let mut client = fixture.client();
            let mut console = (kind() == Kind::Corun).then(|| fixture.console());
            let received = |console: &mut Raw| received(console, &fixture.database);
            let mut sent = console.as_mut().map_or(0, received);
            for bytes in messages {
                // Each is with the target before the next is sent.
                sent += bytes.len() as u64;
                client.send(&bytes);
                if let Some(console) = &mut console {
                    wait_for(sent, || received(console));
                }
            }
            drop(client);
            others_go_on(&fixture, about);
        }
    }
}

#[test]
fn a_query_whose_client_is_gone_does_not_keep_the_server() {
    let fixture = Fixture::transactions(1);
    fixture.sql("create table t (v int); grant all on t to public");
    let mut client = fixture.client();
    client.send_query("select pg_sleep(120)");
    fixture.wait_until("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()");
    drop(client);
    let mut other = fixture.client();
    assert_eq!(other.value("select count(*) from t"), "0");
}

#[test]
fn many_clients_that_come_and_go_leak_nothing() {
    let fixture = Fixture::transactions(4);
    fixture.sql("create table t (v int); grant all on t to public");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                for n in 0..40 {
                    let mut client = fixture.client();
                    match (thread + n) % 4 {
                        0 => client.send_query("begin; insert into t values (1)"),
                        1 => client.send_query("copy t from stdin"),
                        2 => assert_eq!(client.value("select 7"), "7"),
                        _ => client.send(&message::terminate()),
                    }
                }
            });
        }
    });
    let mut client = fixture.client();
    assert_eq!(client.value("select count(*) from t"), "0");
    if fixture.target.shares_servers() {
        fixture.wait_until(
            "select count(*) <= 4 and bool_and(state = 'idle') from pg_stat_activity where datname = current_database() and usename = 'app'",
        );
    }
}

#[test]
fn half_open_connections_are_closed_in_time() {
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 2).set("client_login_timeout", "2"));
    let mut silent = Vec::new();
    for n in 0..100 {
        let mut client = Raw::open(&fixture.login()).expect("a connection");
        let startup = message::startup(0, &[("user", "app"), ("database", &fixture.database)]);
        match n % 3 {
            // A connection without a byte may stay in the kernel (tcp_defer_accept).
            0 => client.send(&[0]),
            1 => client.send(&startup[..1 + n % (startup.len() - 1)]),
            _ => client.send(&message::ssl_request()),
        }
        silent.push(client);
    }
    // They are in nobody's way.
    assert_eq!(fixture.client().value("select 1"), "1");
    if fixture.target.shares_servers() {
        for client in &mut silent[..9] {
            // An `N` for TLS, perhaps an error, and the end.
            let seen = client.until_closed();
            assert!(
                seen.iter().all(|message| !matches!(message.tag, b'R' | b'Z')),
                "{seen:?}"
            );
        }
    }
}

#[test]
fn limits_on_clients_hold() {
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 2).set("max_client_conn", "5"));
    if !fixture.target.shares_servers() {
        return;
    }
    let mut clients: Vec<Raw> = Vec::new();
    let mut refused = None;
    for _ in 0..10 {
        match Raw::connect(&fixture.login()) {
            Ok(client) => clients.push(client),
            Err(error) => refused = Some(error.to_string()),
        }
    }
    assert!(clients.len() <= 5, "{} clients", clients.len());
    assert!(refused.is_some_and(|error| error.starts_with("53300") || error.starts_with("08P01")));
    for client in &mut clients {
        assert_eq!(client.value("select 1"), "1");
    }
    clients.clear();
    assert_eq!(crate::faults::soon(&fixture.login(), "select 2"), "2");
}

#[test]
fn a_wait_that_is_too_long_ends() {
    let server = crate::common::postgres::shared();
    let target = Target::start(
        server,
        &Pooling::new(Mode::Transaction, 1).set("query_wait_timeout", "1"),
    );
    if !target.shares_servers() {
        return;
    }
    let (mut a, mut b) = (target.client(), target.client());
    a.rows("begin");
    b.send_query("select 1");
    let answer = b.until_closed();
    assert!(answer.iter().any(|m| m.tag == b'E'), "{answer:?}");
    a.rows("commit");
    assert_eq!(target.client().value("select 2"), "2");
}
