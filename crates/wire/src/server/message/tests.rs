//! Messages: read as they were built, cut off, too long, with anything wrong in them.

use super::*;
use crate::build;

const LIMITS: Limits = Limits {
    message_bytes_max: 20_000,
    statements_max: 3,
    portals_max: 2,
    session_bytes_max: 1_000,
};

fn built(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    build::message(&mut out, tag, |out| out.extend(body));
    out
}

fn refused(tag: u8, body: &[u8]) -> (&'static str, String) {
    let bytes = built(tag, body);
    let malformed = Message::read(&bytes, &LIMITS).expect_err("it is malformed");
    assert_eq!((malformed.used, malformed.tag), (Some(bytes.len()), tag));
    (malformed.refusal.code, malformed.refusal.message)
}

#[test]
fn each_message() {
    let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\x01";
    for (tag, body, expected) in [
        (b'Q', &b"select 1\0"[..], Message::Query("select 1")),
        (b'D', b"Sname\0", Message::Describe(Target::Statement("name"))),
        (b'C', b"P\0", Message::Close(Target::Portal(""))),
        (b'S', b"", Message::Sync),
        (b'H', b"", Message::Flush),
        (b'X', b"", Message::Terminate),
        (b'd', b"a\0b", Message::CopyData(b"a\0b")),
        (b'c', b"", Message::CopyDone),
        (b'f', b"why\0", Message::CopyFail("why")),
        (b'F', b"anything", Message::FunctionCall),
        (
            b'E',
            b"p\0\0\0\0\x05",
            Message::Execute {
                portal: "p",
                rows_max: Some(5),
            },
        ),
        (
            b'E',
            b"\0\xff\xff\xff\xff",
            Message::Execute {
                portal: "",
                rows_max: None,
            },
        ),
    ] {
        let bytes = built(tag, body);
        for end in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..end], &LIMITS), Ok(None), "{expected:?}");
        }
        assert_eq!(Message::read(&bytes, &LIMITS), Ok(Some((expected, bytes.len()))));
    }
    let bytes = built(b'P', b"s\0select $1\0\0\x02\0\0\0\x17\0\0\0\0");
    let Ok(Some((Message::Parse(parse), _))) = Message::read(&bytes, &LIMITS) else {
        panic!("a Parse");
    };
    assert_eq!((parse.name, parse.sql), ("s", "select $1"));
    assert_eq!(parse.types().collect::<Vec<_>>(), [23, 0]);
    let bytes = built(b'B', bind);
    let Ok(Some((Message::Bind(bind), _))) = Message::read(&bytes, &LIMITS) else {
        panic!("a Bind");
    };
    assert_eq!((bind.portal, bind.statement), ("p", "s"));
    assert_eq!(
        bind.parameters().collect::<Vec<_>>(),
        [(Format::Binary, Some(&b"x"[..])), (Format::Binary, None)]
    );
}

#[test]
fn what_is_wrong_in_a_message_is_said() {
    let violation = code::PROTOCOL_VIOLATION;
    for (tag, body, told) in [
        (b'Q', &b"select 1"[..], "invalid string in message"),
        (b'Q', b"select 1\0more", "invalid message format"),
        (b'S', b"x", "invalid message format"),
        (
            b'P',
            b"s\0select 1\0\0\x02\0\0\0\x17",
            "insufficient data left in message",
        ),
        (
            b'B',
            b"\0\0\0\0\0\x01\0\0\0\x05abc",
            "insufficient data left in message",
        ),
        (
            b'B',
            b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0",
            "insufficient data left in message",
        ),
        (
            b'B',
            b"\0\0\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0",
            "bind message has 2 parameter formats but 1 parameters",
        ),
        (b'D', b"X\0", "invalid DESCRIBE message subtype 88"),
        (b'C', b"", "insufficient data left in message"),
        (b'E', b"\0\0\0", "insufficient data left in message"),
    ] {
        assert_eq!(refused(tag, body), (violation, told.to_owned()));
    }
    assert_eq!(
        refused(b'Q', b"a\xff\xfeb\0"),
        (
            code::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0xff".to_owned()
        )
    );
    let (sqlstate, _) = refused(b'B', b"\0\0\0\x01\0\x02\0\0\0\0");
    assert_eq!(sqlstate, code::INVALID_PARAMETER_VALUE);
}

#[test]
fn where_the_next_message_begins_is_lost() {
    for (bytes, told) in [
        (&b"!"[..], "invalid frontend message type 33"),
        (b"Q\0\0\0\x03", "invalid message length"),
        (b"Q\x7f\0\0\0", "invalid message length"),
        (b"S\0\0\x27\x20", "invalid message length"),
    ] {
        let malformed = Message::read(bytes, &LIMITS).expect_err(told);
        assert_eq!((malformed.refusal.message.as_str(), malformed.used), (told, None));
    }
    // The longest that is taken.
    let longest = built(b'd', &vec![0; 20_000 - 4]);
    assert!(matches!(Message::read(&longest, &LIMITS), Ok(Some(_))));
    assert!(
        Message::read(
            &longest[..5],
            &Limits {
                message_bytes_max: 10_000,
                ..LIMITS
            }
        )
        .is_err()
    );
}
