//! Clients that vanish in the worst moment: the server is not lost, and what they had begun is undone.

use std::time::Duration;

use crate::common::message;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling, Scene, Target};

/// The only server of the pool must come back.
fn others_go_on(scene: &Scene, about: &str) {
    let mut other = scene.client();
    assert_eq!(other.value("select count(*) from t"), "0", "{about}");
    drop(other);
    if scene.target.shares_servers() {
        scene.wait_until(
            "select count(*) <= 2 and bool_and(state = 'idle') from pg_stat_activity where datname = current_database() and usename = 'app'",
        );
    }
}

#[test]
fn clients_vanish_in_the_middle() {
    for mode in [Mode::Transaction, Mode::Session] {
        let scene = Scene::start(&Pooling::new(mode, 1));
        scene.sql("create table t (v int); grant all on t to public");
        let insert = message::query("insert into t values (1)");
        let unsynced = [
            message::parse("", "insert into t values ($1::int)", &[]),
            message::bind("", "", &[Some("1")], false),
            message::execute("", 0),
        ]
        .concat();
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
            let mut client = scene.client();
            for bytes in messages {
                client.send(&bytes).expect("sent");
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(client);
            others_go_on(&scene, about);
        }
    }
}

#[test]
fn a_query_whose_client_is_gone_does_not_keep_the_server() {
    let scene = Scene::transactions(1);
    scene.sql("create table t (v int); grant all on t to public");
    let mut client = scene.client();
    client
        .send(&message::query("select pg_sleep(120)"))
        .expect("sent");
    scene.wait_until("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()");
    drop(client);
    let mut other = scene.client();
    assert_eq!(other.value("select count(*) from t"), "0");
}

#[test]
fn many_clients_that_come_and_go_leak_nothing() {
    let scene = Scene::transactions(4);
    scene.sql("create table t (v int); grant all on t to public");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let scene = &scene;
            scope.spawn(move || {
                for n in 0..40 {
                    let mut client = scene.client();
                    match (thread + n) % 4 {
                        0 => client
                            .send(&message::query("begin; insert into t values (1)"))
                            .expect("sent"),
                        1 => client.send(&message::query("copy t from stdin")).expect("sent"),
                        2 => assert_eq!(client.value("select 7"), "7"),
                        _ => client.send(&message::terminate()).expect("sent"),
                    }
                }
            });
        }
    });
    let mut client = scene.client();
    assert_eq!(client.value("select count(*) from t"), "0");
    if scene.target.shares_servers() {
        scene.wait_until(
            "select count(*) <= 4 and bool_and(state = 'idle') from pg_stat_activity where datname = current_database() and usename = 'app'",
        );
    }
}

#[test]
fn half_open_connections_are_closed_in_time() {
    let scene = Scene::start(&Pooling::new(Mode::Transaction, 2).set("client_login_timeout", "2"));
    let mut silent = Vec::new();
    for n in 0..100 {
        let mut client = Raw::open(&scene.login()).expect("a connection");
        let startup = message::startup(0, &[("user", "app"), ("database", &scene.database)]);
        match n % 3 {
            // A connection without a byte may stay in the kernel (tcp_defer_accept).
            0 => client.send(&[0]).expect("sent"),
            1 => client
                .send(&startup[..1 + n % (startup.len() - 1)])
                .expect("sent"),
            _ => client.send(&message::ssl_request()).expect("sent"),
        }
        silent.push(client);
    }
    // They are in nobody's way.
    assert_eq!(scene.client().value("select 1"), "1");
    if scene.target.shares_servers() {
        for client in &mut silent[..9] {
            // An `N` for TLS, perhaps an error, and the end.
            let mut seen = Vec::new();
            let error = loop {
                match client.read() {
                    Ok(message) => seen.push(message),
                    Err(error) => break error,
                }
            };
            assert!(
                error.kind() != std::io::ErrorKind::WouldBlock,
                "still open after {seen:?}"
            );
            assert!(
                seen.iter().all(|message| !matches!(message.tag, b'R' | b'Z')),
                "{seen:?}"
            );
        }
    }
}

#[test]
fn limits_on_clients_hold() {
    let scene = Scene::start(&Pooling::new(Mode::Transaction, 2).set("max_client_conn", "5"));
    if !scene.target.shares_servers() {
        return;
    }
    let mut clients: Vec<Raw> = Vec::new();
    let mut refused = None;
    for _ in 0..10 {
        match Raw::connect(&scene.login()) {
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
    assert_eq!(crate::faults::soon(&scene.login(), "select 2"), "2");
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
    b.send(&message::query("select 1")).expect("sent");
    let answer = b.until_closed();
    assert!(answer.iter().any(|m| m.tag == b'E'), "{answer:?}");
    a.rows("commit");
    assert_eq!(target.client().value("select 2"), "2");
}
