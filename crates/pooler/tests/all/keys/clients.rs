//! Keys about what clients may do and how they get in, and what the log says of all.

use super::{Lines, Scene, wait};
use crate::common::message;
use crate::common::raw::Raw;

#[test]
fn the_simple_protocol_is_refused_where_it_is_disabled() {
    let scene = Scene::start(Lines {
        proxy: "disable_pqexec = true\npool_mode = \"transaction\"",
        ..Lines::default()
    });
    let mut client = scene.client();
    let ask = |sql: &str| {
        [
            message::parse("", sql, &[]),
            message::bind("", "", &[], false),
            message::execute("", 0),
            message::sync(),
        ]
        .concat()
    };
    let answer = client.ask(&ask("select 42"));
    assert!(answer.iter().any(|line| line.contains("42")), "{answer:?}");
    // Within a transaction, too.
    client.ask(&ask("begin"));
    let error = client.try_rows("select 1").expect_err("refused");
    assert!(error.starts_with("0A000"), "{error}");
    assert!(client.until_closed().is_empty());
    let mut other = scene.client();
    let error = other.try_rows("select 1; drop table t").expect_err("refused");
    assert!(error.starts_with("0A000"), "{error}");
    // The console has nothing else.
    assert!(!scene.console().rows("show pools").is_empty());
}

#[test]
fn passwords_in_clear_text_are_proved_with_the_iterations_of_the_configuration() {
    for (line, expected) in [("", "i=4096"), ("scram_iterations = 5000", "i=5000")] {
        let scene = Scene::start(Lines {
            proxy: &format!("auth_type = \"scram-sha-256\"\n{line}\n[users.known]\npassword = \"secret\""),
            ..Lines::default()
        });
        // Who is not there is asked the same.
        for user in ["known", "unknown"] {
            let first = scram_challenge(&scene, user);
            assert!(first.ends_with(expected), "{user}: {first}");
        }
    }
}

/// What the proxy answers to the first message of SCRAM.
fn scram_challenge(scene: &Scene, user: &str) -> String {
    let mut raw = Raw::open(&scene.login()).expect("a connection");
    raw.send(&message::startup(0, &[("user", user), ("database", "app")]))
        .expect("sent");
    assert_eq!(raw.read().expect("an offer").u32_at(0), 10);
    let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abcd";
    let length = (first.len() - 18) as u8;
    let mut first = first.to_vec();
    first[17] = length;
    raw.send(&message::message(b'p', &first)).expect("sent");
    let answer = raw.read().expect("a challenge");
    assert_eq!((answer.tag, answer.u32_at(0)), (b'R', 11));
    String::from_utf8_lossy(&answer.body[4..]).into_owned()
}

#[test]
fn totals_are_logged() {
    let scene = Scene::start(Lines {
        proxy: "stats_period = 1",
        ..Lines::default()
    });
    let mut client = scene.client();
    wait("a line with a query", || {
        client.rows("select 1");
        let log = crate::common::log::all();
        let line = log
            .lines()
            .find(|line| line.contains("stats: ") && !line.contains(" 0 queries/s"));
        line.map(|line| assert!(line.contains("xacts/s") && line.contains("wait"), "{line}"))
    });
}
