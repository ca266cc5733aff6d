//! Keys about what clients may do and how they get in, and what the log says of all.

use super::KeysFixture;
use crate::common::message;
use crate::common::raw::Raw;
use crate::common::wait::wait;

#[test]
fn the_simple_protocol_is_refused_where_it_is_disabled() {
    let fixture = KeysFixture::with_proxy("disable_pqexec = true\npool_mode = \"transaction\"");
    let mut client = fixture.client();
    let ask = |sql: &str| [message::statement(sql, &[]), message::sync()].concat();
    let answer = client.ask(&ask("select 42"));
    assert!(answer.iter().any(|line| line.contains("42")), "{answer:?}");
    // Within a transaction, too.
    client.ask(&ask("begin"));
    client.assert_fails("select 1", "0A000");
    assert!(client.until_closed().is_empty());
    let mut other = fixture.client();
    other.assert_fails("select 1; drop table t", "0A000");
    // The console has nothing else.
    assert!(!fixture.console().rows("show pools").is_empty());
}

#[test]
fn passwords_in_clear_text_are_proved_with_the_iterations_of_the_configuration() {
    for (line, expected) in [("", "i=4096"), ("scram_iterations = 5000", "i=5000")] {
        let fixture = KeysFixture::with_proxy(&format!(
            "auth_type = \"scram-sha-256\"\n{line}\n[users.known]\npassword = \"secret\""
        ));
        // Who is not there is asked the same.
        for user in ["known", "unknown"] {
            let first = scram_challenge(&fixture, user);
            assert!(first.ends_with(expected), "{user}: {first}");
        }
    }
}

/// What the proxy answers to the first message of SCRAM.
fn scram_challenge(fixture: &KeysFixture, user: &str) -> String {
    let mut raw = Raw::started(&fixture.login().user(user));
    assert_eq!(raw.read().expect("an offer").u32_at(0), 10);
    let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abcd";
    let length = (first.len() - 18) as u8;
    let mut first = first.to_vec();
    first[17] = length;
    raw.send(&message::message(b'p', &first));
    let answer = raw.read().expect("a challenge");
    assert_eq!((answer.tag, answer.u32_at(0)), (b'R', 11));
    String::from_utf8_lossy(&answer.body[4..]).into_owned()
}

#[test]
fn totals_are_logged() {
    let fixture = KeysFixture::with_proxy("stats_period = 1");
    let mut client = fixture.client();
    wait(|| {
        client.rows("select 1");
        let log = crate::common::log::all();
        let line = log
            .lines()
            .find(|line| line.contains("stats: ") && !line.contains(" 0 queries/s"));
        let line = line.ok_or("there is no line with a query")?;
        assert!(line.contains("xacts/s") && line.contains("wait"), "{line}");
        Ok::<_, &str>(())
    });
}
