//! Settings and texts beyond ASCII, in databases and clients of several encodings: bytes arrive as they were meant, whichever server
//! runs them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::postgres::shared;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling};

/// A database of this encoding behind a target with one server.
fn fixture(encoding: &str) -> Fixture {
    fixture_of(encoding, 1)
}

fn fixture_of(encoding: &str, servers: usize) -> Fixture {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let database = format!("encoded_{number}_{}", encoding.to_ascii_lowercase());
    let made = format!(
        "create database {database} owner app encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0"
    );
    shared().sql_in("postgres", &made);
    Fixture::start_in(database, &Pooling::new(Mode::Transaction, servers))
}

fn client_of(fixture: &Fixture, encoding: &str) -> Raw {
    fixture
        .target
        .client_as(&fixture.login().parameter("client_encoding", encoding))
}

/// Sends a query of bytes that need not be UTF-8.
fn run(client: &mut Raw, sql: &[u8]) {
    let mut body = sql.to_vec();
    body.push(0);
    client.send(&message::message(b'Q', &body));
    let answer = client.until_ready();
    assert!(
        answer.iter().all(|message| message.tag != b'E'),
        "{:?}: {answer:#?}",
        String::from_utf8_lossy(sql)
    );
}

/// The bytes of a setting in the database's encoding.
fn bytes(client: &mut Raw, name: &str) -> String {
    client.value(&format!(
        "select encode(convert_to(current_setting('{name}'), getdatabaseencoding()), 'hex')"
    ))
}

#[test]
fn settings_keep_their_bytes_from_server_to_server() {
    for (database, client, text, expected) in [
        ("LATIN1", "LATIN1", b"M\xfcller".as_slice(), "4dfc6c6c6572"),
        ("LATIN1", "UTF8", "Müller".as_bytes(), "4dfc6c6c6572"),
        ("UTF8", "LATIN1", b"M\xfcller", "4dc3bc6c6c6572"),
        ("UTF8", "UTF8", "Łódź".as_bytes(), "c581c3b364c5ba"),
        ("SQL_ASCII", "SQL_ASCII", b"raw \xff\xfe", "72617720fffe"),
        ("EUC_JP", "UTF8", "日本".as_bytes(), "c6fccbdc"),
        ("EUC_JP", "EUC_JP", b"\xc6\xfc\xcb\xdc", "c6fccbdc"),
    ] {
        let fixture = fixture(database);
        let (mut a, mut b) = (client_of(&fixture, client), client_of(&fixture, client));
        run(&mut a, &[b"set app.name = '", text, b"'"].concat());
        run(&mut b, b"set app.name = 'plain'");
        for _ in 0..3 {
            assert_eq!(bytes(&mut a, "app.name"), expected, "{database} as {client}");
            assert_eq!(bytes(&mut b, "app.name"), "706c61696e", "{database} as {client}");
        }
    }
}

#[test]
fn a_setting_its_client_could_not_read_stays_as_it_is() {
    let fixture = fixture("UTF8");
    let (mut a, mut b) = (client_of(&fixture, "UTF8"), client_of(&fixture, "UTF8"));
    run(
        &mut a,
        "set app.city = 'Łódź'; set client_encoding = 'LATIN1'".as_bytes(),
    );
    for _ in 0..3 {
        assert_eq!(
            b.value("select coalesce(current_setting('app.city', true), '')"),
            ""
        );
        assert_eq!(a.value("show client_encoding"), "LATIN1");
        assert_eq!(bytes(&mut a, "app.city"), "c581c3b364c5ba");
    }
}

#[test]
fn the_same_bytes_in_another_encoding_are_another_statement() {
    let fixture = fixture("UTF8");
    let (mut a, mut b) = (client_of(&fixture, "LATIN1"), client_of(&fixture, "UTF8"));
    // The two bytes are two letters to one of them and one to the other.
    for (client, letters) in [(&mut a, "2"), (&mut b, "1")] {
        let answer = client.ask(&message::prepare("s", "select length('ü')", &[]));
        assert_eq!(answer.len(), 2, "{letters}: {answer:?}");
    }
    for _ in 0..3 {
        for (client, letters) in [(&mut a, "2"), (&mut b, "1")] {
            let run = message::run("s", &[]);
            let answer = client.ask(&run);
            assert!(
                answer.contains(&format!("row [Some(\"{letters}\")]")),
                "{answer:?}"
            );
        }
    }
}

/// The same bytes are other words in another encoding. What they do is not what the pooler reads, so their server goes to nobody else.
#[test]
fn what_only_another_encoding_shows_reaches_nobody_else() {
    let fixture = fixture_of("UTF8", 2);
    shared().sql_in(
        &fixture.database,
        "create function größe() returns text language sql as $$ select set_config('app.leak', 'x', false) $$",
    );
    // Katakana SO is 83 5c in Shift JIS: its second byte is no backslash, so the string ends behind it.
    let hidden = b"select E'\x83\\' || set_config($a$app.leak$a$, $a$x$a$, false) -- '";
    let cases: [(&str, &[u8]); 3] = [
        ("SJIS", hidden),
        ("GBK", hidden),
        ("LATIN1", b"select gr\xf6\xdfe()"),
    ];
    for (encoding, text) in cases {
        let mut own = client_of(&fixture, encoding);
        run(&mut own, text);
        let mut other = client_of(&fixture, "UTF8");
        for _ in 0..3 {
            let seen = other.value("select coalesce(current_setting('app.leak', true), '')");
            assert_eq!(seen, "", "{encoding}");
            assert_eq!(
                own.value("select current_setting('app.leak', true)"),
                "x",
                "{encoding}"
            );
        }
    }
}

#[test]
fn texts_that_backslashes_make_others_leave_nothing_to_others() {
    // With standard strings each selects two texts; without, the first ends behind the comma.
    const SET: &str = r"select 'x\', '; set app.leak = shared; --'";
    const CALL: &str = r"select 'x\', ', set_config($$app.leak$$, $$shared$$, false) --'";
    const OFF: &str = "set standard_conforming_strings = off";
    const ON: &str = "set standard_conforming_strings = on";
    let call = || [message::statement(CALL, &[]), message::sync()].concat();
    let fixture = fixture("UTF8");
    for (name, steps) in [
        (
            "a text of its own",
            vec![message::query(OFF), message::query(SET)],
        ),
        (
            "within the transaction",
            vec![
                message::query("begin"),
                message::query(OFF),
                message::query(SET),
                message::query("commit"),
            ],
        ),
        ("the extended protocol", vec![message::query(OFF), call()]),
        (
            "a statement that others have with standard strings",
            vec![message::query(ON), call(), message::query(OFF), call()],
        ),
    ] {
        let mut client = fixture.client();
        for step in steps {
            let errors = message::errors(&{
                client.send(&step);
                client.until_ready()
            });
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
        assert_eq!(
            client.value("select current_setting('app.leak')"),
            "shared",
            "{name}"
        );
        drop(client);
        let found = fixture
            .client()
            .value("select coalesce(current_setting('app.leak', true), '')");
        assert_eq!(found, "", "{name}");
    }
}
