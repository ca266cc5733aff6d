//! Nonsense on the wire: as by the server, an error or the end of the connection; never a hang, never harm to others.

use std::io::Write;
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message::{self, Message, message};
use crate::common::postgres::shared;
use crate::common::random::Random;
use crate::common::raw::{Login, Raw};

/// Code of the first error, and whether the connection goes on.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<String>,
    goes_on: bool,
}

fn outcome(mut client: Raw, bytes: &[u8], whole: impl Fn(&[Message]) -> bool) -> Outcome {
    // The other side may close before it has read everything.
    let _ = client.try_send(bytes);
    let mut seen = Vec::new();
    let mut goes_on = true;
    while goes_on && !whole(&seen) {
        match client.read() {
            Ok(message) => seen.push(message),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("a hang after {seen:?}"),
            Err(_) => goes_on = false,
        }
    }
    let code = seen.iter().find(|m| m.tag == b'E').and_then(|m| m.field(b'C'));
    Outcome { code, goes_on }
}

#[test]
fn malformed_messages_are_answered_as_by_the_server() {
    let fixture = Fixture::transactions(2);
    let mut bystander = fixture.client();
    let direct = shared().login("app").database(&fixture.database);
    let bound = |body: &[u8]| [message::parse("", "select $1::int", &[]), message(b'B', body)].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("an unknown type", message(b'z', b"?")),
        ("type 0", message(0, b"")),
        ("a length of 0", vec![b'Q', 0, 0, 0, 0]),
        ("a length of 3", vec![b'Q', 0, 0, 0, 3]),
        ("a negative length", vec![b'Q', 0xFF, 0xFF, 0xFF, 0xFF]),
        ("a Query without its end", message(b'Q', b"select 1")),
        (
            "a Query with a zero inside",
            message(b'Q', b"select 1\0; select 2\0"),
        ),
        ("an empty Query body", message(b'Q', b"")),
        ("an empty Parse", message(b'P', b"")),
        ("a Parse without types", message(b'P', b"s\0select 1\0")),
        (
            "a Parse with fewer types than it says",
            message(b'P', b"s\0select 1\0\0\x05\0\0\0\x17"),
        ),
        (
            "a Parse with something behind it",
            message(b'P', b"s\0select 1\0\0\0more"),
        ),
        ("a Bind of nothing", message(b'B', b"")),
        (
            "a Bind with a value of -2 bytes",
            bound(b"\0\0\0\0\0\x01\xFF\xFF\xFF\xFE\0\0"),
        ),
        (
            "a Bind with a value longer than the message",
            bound(b"\0\0\0\0\0\x01\x00\x10\x00\x00\0\0"),
        ),
        (
            "a Bind with too many formats",
            bound(b"\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\x011\0\0"),
        ),
        (
            "a Bind of an unknown format",
            bound(b"\0\0\0\x01\0\x07\0\x01\0\0\0\x011\0\0"),
        ),
        ("a Describe of neither", message(b'D', b"X\0")),
        ("a Close of neither", message(b'C', b"X\0")),
        ("a short Execute", message(b'E', b"\0\0")),
        ("an Execute without its end", message(b'E', b"portal")),
        ("a Sync with a body", message(b'S', b"body")),
        ("a Flush with a body", message(b'H', b"body")),
        ("a password after the login", message(b'p', b"secret\0")),
        ("a function call", message(b'F', b"\0\0\x27\x0f\0\0\0\0\0\0")),
        ("a cut-off function call", message(b'F', b"\0\0")),
        ("a cancelled COPY nobody began", message::copy_fail("no")),
        ("invalid UTF-8", message(b'Q', b"select '\xFF\xFE'\0")),
        (
            "a statement name that is not UTF-8",
            message(b'P', b"\xFF\xFE\0select 1\0\0\0"),
        ),
        (
            "a Sync of more than it may have",
            message(b'S', &vec![b'x'; 20_000]),
        ),
    ];
    for (about, bad) in cases {
        let bytes = [bad, message::sync(), message::query("")].concat();
        // An end with an unread rest may swallow the server's last words: then only the end counts.
        let whole = |seen: &[Message]| {
            let tags: Vec<u8> = seen.iter().map(|m| m.tag).collect();
            tags.ends_with(b"IZ") && tags.iter().filter(|tag| **tag == b'Z').count() >= 2
        };
        let expected = outcome(Raw::connect(&direct).expect("direct login"), &bytes, whole);
        let got = outcome(fixture.client(), &bytes, whole);
        // The target may be stricter and end what the server forgives, but must say why; never the other way round.
        assert!(
            got.goes_on == expected.goes_on || (expected.goes_on && got.code.is_some()),
            "{about}: {got:?}, direct {expected:?}"
        );
        if got.code.is_some() && expected.code.is_some() {
            assert_eq!(got.code, expected.code, "{about}");
        }
        assert_eq!(bystander.value("select 'unharmed'"), "unharmed", "{about}");
    }
}

#[test]
fn messages_that_never_come_are_waited_for_by_nobody_else() {
    // The beginning of a message may well take a server.
    let fixture = Fixture::transactions(30);
    let mut bystander = fixture.client();
    let mut waiting = Vec::new();
    for tag in [b'Q', b'P', b'B', b'd', b'S', b'X', b'p', b'D'] {
        for length in [0x3FFF_FFFFu32, 0x7FFF_FFFF, 200_000] {
            let mut client = fixture.client();
            let _ = client.try_send(&[&[tag][..], &length.to_be_bytes(), b"the beginning"].concat());
            waiting.push(client);
            assert_eq!(
                bystander.value("select 1"),
                "1",
                "{} of {length}",
                char::from(tag)
            );
        }
    }
}

#[test]
fn startups_that_are_none_are_refused() {
    let fixture = Fixture::transactions(1);
    let mut bystander = fixture.client();
    let login = fixture.login();
    let packet = |version: u32, body: &[u8]| {
        [
            &(8 + body.len() as u32).to_be_bytes()[..],
            &version.to_be_bytes(),
            body,
        ]
        .concat()
    };
    let good = b"user\0app\0\0";
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a length of 0", vec![0; 8]),
        ("a length of 3", vec![0, 0, 0, 3, 0, 0, 0, 0]),
        ("a length of 7", vec![0, 0, 0, 7, 0, 3, 0]),
        ("a negative length", vec![0xFF; 12]),
        (
            "two gigabytes",
            [&0x7FFF_FFFFu32.to_be_bytes()[..], &[0, 3, 0, 0]].concat(),
        ),
        ("protocol 1.0", packet(1 << 16, good)),
        ("protocol 2.0", packet(2 << 16, good)),
        ("protocol 4.0", packet(4 << 16, good)),
        ("no terminator", packet(3 << 16, b"user\0app\0")),
        (
            "a name without a value",
            packet(3 << 16, b"user\0app\0database\0\0"),
        ),
        ("no user", packet(3 << 16, b"database\0app\0\0")),
        ("an empty user", packet(3 << 16, b"user\0\0\0")),
        ("nothing", packet(3 << 16, b"")),
        (
            "more than a startup may have",
            packet(
                3 << 16,
                &[&b"user\0app\0x\0"[..], &vec![b'y'; 11_000], b"\0\0"].concat(),
            ),
        ),
        (
            "a web browser",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
        (
            "TLS without asking",
            b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03".to_vec(),
        ),
        ("a short cancel", vec![0, 0, 0, 12, 4, 210, 22, 46, 0, 0, 0, 1]),
        ("a message of later", message::query("select 1")),
    ];
    for (about, bytes) in cases {
        let mut client = Raw::open(&login).expect("a connection");
        client.send(&bytes);
        // Some say a length and would wait for the rest: a client that stops sending must not get in either.
        client.set_patience(Duration::from_millis(500));
        while let Ok(answer) = client.read() {
            assert_ne!(answer.tag, b'Z', "{about}");
            assert!(answer.tag != b'R' || answer.u32_at(0) != 0, "{about}: {answer:?}");
        }
        assert_eq!(bystander.value("select 1"), "1", "{about}");
    }
}

#[test]
fn it_does_not_matter_how_bytes_are_cut() {
    let fixture = Fixture::transactions(1);
    fixture.sql("create table t (v int); grant all on t to public");
    let conversation = [
        message::query("select 1"),
        message::parse("s", "select $1::int", &[]),
        message::bind("", "s", &[Some("5")], false),
        message::describe(b'P', ""),
        message::execute("", 0),
        message::sync(),
        message::query("begin"),
        message::query("copy t from stdin"),
        message::copy_data(b"1\n"),
        message::copy_done(),
        message::query("commit"),
        message::query("select count(*) from t where v < 0"),
        message::close(b'S', "s"),
        message::sync(),
    ]
    .concat();
    let readies = 7;
    let whole = |seen: &[Message]| seen.iter().filter(|m| m.tag == b'Z').count() == readies;
    let read = |client: &mut Raw| message::shown(&client.until(whole));
    let mut client = fixture.client();
    client.send(&conversation);
    let expected = read(&mut client);
    let mut random = Random::new(11);
    for round in 0..12 {
        // With the startup packet in front, all in one stream.
        let login: Login = fixture.login();
        let startup = message::startup(0, &[("user", &login.user), ("database", &login.database)]);
        let stream = [startup, conversation.clone()].concat();
        let mut client = Raw::open(&login).expect("a connection");
        let mut writer = client.writer();
        let most = [1, 3, 17, 200, usize::MAX][round % 5];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rest = &stream[..];
                while !rest.is_empty() {
                    let length = (1 + random.below(most.min(1 << 20))).min(rest.len());
                    writer.write_all(&rest[..length]).expect("sent");
                    if most < 100 && random.percent(5) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    rest = &rest[length..];
                }
            });
            // The login's own ReadyForQuery comes first.
            client.until_ready();
            assert_eq!(read(&mut client), expected, "pieces of up to {most} bytes");
        });
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let fixture = Fixture::transactions(2);
    let mut bystander = fixture.client();
    let mut random = Random::new(99);
    for round in 0..150 {
        let mut client = if round % 2 == 0 {
            fixture.client()
        } else {
            Raw::open(&fixture.login()).expect("a connection")
        };
        let length = 1 + random.below(300);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        if round % 4 == 0 {
            // A valid pipeline with a few bytes changed.
            bytes = crate::common::pipeline::pipeline(&mut random, 0).bytes;
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.bits() as u8;
            }
        }
        let _ = client.try_send(&bytes);
        if round % 10 == 0 {
            assert_eq!(bystander.value("select 'unharmed'"), "unharmed", "round {round}");
        }
    }
    assert_eq!(fixture.client().value("select 'served'"), "served");
}
