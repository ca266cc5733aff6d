//! Sessions: what each message asks for, what the client is told, and that nothing is kept beyond the limits.

use super::*;
use crate::error::{Refusal, Reported, code};
use crate::values::{Format, Kind, Type};
use crate::{HEADER_BYTES, TransactionStatus, backend, build, header};

const LIMITS: Limits = Limits {
    message_bytes_max: 20_000,
    statements_max: 3,
    portals_max: 2,
    session_bytes_max: 1_000,
};

/// A session, and an engine that keeps of a statement its text and of a portal what it has returned.
struct Fixture {
    session: Session<String, u32>,
    out: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            session: Session::new(LIMITS),
            out: Vec::new(),
        }
    }

    fn message<'m>(&mut self, message: Message<'m>) -> Action<'m, String, u32> {
        self.session.message(message, &mut self.out)
    }

    fn sent(&mut self, bytes: &[u8]) -> Option<&'static str> {
        let bytes = bytes.to_vec();
        let (message, used) = Message::read(&bytes, &LIMITS)
            .expect("well formed")
            .expect("whole");
        assert_eq!(used, bytes.len());
        match self.message(message) {
            Action::Nothing => None,
            Action::Query { .. } => Some("query"),
            Action::Parse(parse) => {
                let sql = parse.sql.to_owned();
                let parameters = parse.types().filter_map(Type::of).collect();
                let columns = sql
                    .starts_with("select")
                    .then(|| vec![Column::new("n", Type::INT8)]);
                self.session.parsed(&mut self.out, sql, parameters, columns);
                Some("parse")
            }
            Action::Bind { .. } => {
                self.session.bound(&mut self.out, 0);
                Some("bind")
            }
            Action::Execute { portal, rows_max } => {
                let rows = rows_max.unwrap_or(10).min(10 - portal);
                let how = if portal + rows < 10 {
                    Executed::Suspended
                } else {
                    Executed::Complete("SELECT")
                };
                self.session.executed(&mut self.out, portal + rows, how);
                Some("execute")
            }
            Action::Sync { commit } => {
                self.session.ended(&mut self.out);
                Some(if commit { "commit" } else { "roll back" })
            }
            Action::Flush => Some("flush"),
            Action::CopyData(_) => Some("copy data"),
            Action::CopyDone => Some("copy done"),
            Action::CopyFail(refusal) => {
                self.session.failed(&mut self.out, &refusal);
                Some("copy failed")
            }
            Action::Terminate => Some("terminate"),
        }
    }

    fn parse(&mut self, name: &str, sql: &str) -> Option<&'static str> {
        let mut bytes = Vec::new();
        build::parse(&mut bytes, name, sql.as_bytes(), &[0, 0]);
        self.sent(&bytes)
    }

    fn bind(&mut self, portal: &str, statement: &str) -> Option<&'static str> {
        self.body(
            b'B',
            &[portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0\0\0\0\0"].concat(),
        )
    }

    fn execute(&mut self, portal: &str, rows: i32) -> Option<&'static str> {
        self.body(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat())
    }

    fn sync(&mut self) -> Option<&'static str> {
        self.body(b'S', b"")
    }

    fn body(&mut self, tag: u8, body: &[u8]) -> Option<&'static str> {
        let mut bytes = Vec::new();
        build::message(&mut bytes, tag, |out| out.extend(body));
        self.sent(&bytes)
    }

    /// The types of what the client was told since the last call, errors with their SQLSTATE.
    fn told(&mut self) -> String {
        let out = std::mem::take(&mut self.out);
        let mut rest = &out[..];
        let mut told = String::new();
        while let Some(head) = header(rest).expect("messages") {
            told.push(char::from(head.tag));
            if head.tag == backend::ERROR {
                told.push_str(&Reported::read(&rest[HEADER_BYTES..head.total]).code);
            }
            if head.tag == backend::READY {
                told.push(char::from(rest[HEADER_BYTES]));
            }
            rest = &rest[head.total..];
        }
        told
    }
}

#[test]
fn a_pipeline_of_everything() {
    let mut it = Fixture::new();
    assert_eq!(it.parse("s", "select n"), Some("parse"));
    assert_eq!(it.body(b'D', b"Ss\0"), None);
    assert_eq!(it.bind("p", "s"), Some("bind"));
    assert_eq!(it.body(b'D', b"Pp\0"), None);
    assert_eq!(it.execute("p", 4), Some("execute"));
    assert_eq!(it.execute("p", 4), Some("execute"));
    assert_eq!(it.body(b'H', b""), Some("flush"));
    assert_eq!(it.execute("p", 0), Some("execute"));
    assert_eq!(it.body(b'C', b"Pp\0"), None);
    assert_eq!(it.sync(), Some("commit"));
    assert_eq!(it.told(), "1tT2TssC3ZI");
    // The portal went, the statement did not.
    assert_eq!(it.bind("", "s"), Some("bind"));
    assert_eq!(it.sync(), Some("commit"));
    assert_eq!(it.execute("", 0), None);
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "2ZIE34000ZI");
}

#[test]
fn after_an_error_all_is_ignored_until_sync() {
    let mut it = Fixture::new();
    assert_eq!(it.parse("", "select n"), Some("parse"));
    assert_eq!(it.bind("", "none"), None);
    for _ in 0..2 {
        assert_eq!(it.bind("", ""), None);
        assert_eq!(it.execute("", 0), None);
        assert_eq!(it.body(b'Q', b"select 1\0"), None);
    }
    assert_eq!(it.sync(), Some("roll back"));
    assert_eq!(it.told(), "1E26000ZI");
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "ZI");
}

#[test]
fn names_are_taken_once_and_unnamed_ones_replaced() {
    let mut it = Fixture::new();
    it.parse("", "a");
    it.parse("", "b");
    it.bind("", "");
    it.bind("", "");
    assert_eq!(it.told(), "1122");
    it.parse("s", "a");
    assert_eq!(it.parse("s", "a"), None);
    assert_eq!(it.told(), "1E42P05");
    it.sync();
    it.bind("p", "s");
    assert_eq!(it.bind("p", "s"), None);
    it.sync();
    assert_eq!(it.told(), "ZI2E42P03ZI");
    // A simple query takes the unnamed ones with it.
    assert_eq!(it.body(b'Q', b"x\0"), Some("query"));
    it.session.query_done(&mut it.out);
    assert_eq!(it.bind("", ""), None);
    it.sync();
    assert_eq!(it.told(), "ZIE26000ZI");
}

#[test]
fn transactions_of_the_client_s_own() {
    let mut it = Fixture::new();
    assert_eq!(it.body(b'Q', b"begin\0"), Some("query"));
    it.session.set_transaction(TransactionStatus::Open);
    it.session.query_done(&mut it.out);
    it.parse("", "select n");
    it.bind("p", "");
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "ZT12ZT");
    // The portal is still there; an error fails the transaction.
    assert_eq!(it.execute("p", 1), Some("execute"));
    assert_eq!(it.execute("q", 1), None);
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "sE34000ZE");
    assert_eq!(it.session.transaction(), TransactionStatus::Failed);
    assert_eq!(it.body(b'Q', b"rollback\0"), Some("query"));
    it.session.set_transaction(TransactionStatus::Idle);
    it.session.query_done(&mut it.out);
    assert_eq!(it.execute("p", 1), None);
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "ZIE34000ZI");
}

#[test]
fn a_simple_query_that_fails_is_ready_at_once() {
    let mut it = Fixture::new();
    assert_eq!(it.body(b'Q', b"x\0"), Some("query"));
    let refusal = Refusal::new(code::SYNTAX_ERROR, "syntax error").at("select x", 7);
    it.session.failed(&mut it.out, &refusal);
    let out = it.out.clone();
    assert!(
        out.windows(3).any(|window| window == b"P8\0"),
        "the position is a character's number"
    );
    assert_eq!(it.told(), "E42601ZI");
    assert_eq!(it.body(b'F', b"\0\0\0\x01"), None);
    assert_eq!(it.told(), "E0A000ZI");
}

#[test]
fn copies_from_the_client() {
    let mut it = Fixture::new();
    assert_eq!(it.body(b'Q', b"copy t from stdin\0"), Some("query"));
    it.session.copy_in(&mut it.out, false, 2);
    assert_eq!(it.body(b'd', b"1\t2\n"), Some("copy data"));
    assert_eq!(it.body(b'S', b""), None);
    assert_eq!(it.body(b'H', b""), None);
    assert_eq!(it.body(b'c', b""), Some("copy done"));
    assert!(it.session.is_busy());
    build::command_complete(&mut it.out, "COPY 1");
    it.session.query_done(&mut it.out);
    assert_eq!(it.told(), "GCZI");
    // It fails at the client, and at another message; what was still under way is ignored.
    for (tag, body, sqlstate) in [(b'f', &b"no more\0"[..], "57014"), (b'Q', b"x\0", "08P01")] {
        assert_eq!(it.body(b'Q', b"copy t from stdin\0"), Some("query"));
        it.session.copy_in(&mut it.out, true, 2);
        assert_eq!(it.body(tag, body), Some("copy failed"));
        assert_eq!(it.body(b'd', b"1\t2\n"), None);
        assert_eq!(it.body(b'c', b""), None);
        assert_eq!(it.told(), format!("GE{sqlstate}ZI"));
    }
    // With the extended protocol the rest of the pipeline is skipped.
    it.parse("", "copy");
    it.bind("", "");
    let mut bytes = Vec::new();
    build::message(&mut bytes, b'E', |out| out.extend([0; 5]));
    let (message, _) = Message::read(&bytes, &LIMITS)
        .expect("well formed")
        .expect("whole");
    assert!(matches!(
        it.session.message(message, &mut it.out),
        Action::Execute { portal: 0, .. }
    ));
    it.session.copy_in(&mut it.out, false, 1);
    assert_eq!(it.body(b'f', b"no\0"), Some("copy failed"));
    assert_eq!(it.execute("", 0), None);
    assert_eq!(it.sync(), Some("roll back"));
    assert_eq!(it.told(), "12GE57014ZI");
}

#[test]
fn parameters_and_formats_must_fit() {
    let mut it = Fixture::new();
    let mut bytes = Vec::new();
    build::parse(&mut bytes, "s", b"select $1", &[0, 1, 0, 0, 0, 23]);
    assert_eq!(it.sent(&bytes), Some("parse"));
    let binds: [(&[u8], &str); 3] = [
        // No parameter, one too many formats of columns, and one that is right.
        (b"\0s\0\0\0\0\0\0\0", "E08P01"),
        (b"\0s\0\0\0\0\x01\xff\xff\xff\xff\0\x02\0\0\0\x01", "E08P01"),
        (b"\0s\0\0\0\0\x01\xff\xff\xff\xff\0\x01\0\x01", "2"),
    ];
    for (body, told) in binds {
        it.told();
        it.body(b'B', body);
        assert_eq!(it.told(), told);
        it.body(b'D', b"P\0");
        if told == "2" {
            // The format of the only column stands at the end of its description.
            assert_eq!(it.out.last(), Some(&1));
        }
        it.sync();
    }
}

#[test]
fn a_client_takes_no_more_than_its_limits() {
    let mut it = Fixture::new();
    for name in ["a", "b", "c"] {
        assert_eq!(it.parse(name, "select n"), Some("parse"));
    }
    assert_eq!(it.parse("d", "select n"), None);
    it.sync();
    assert_eq!(it.told(), "111E54000ZI");
    it.body(b'C', b"Sa\0");
    assert_eq!(it.parse("d", "select n"), Some("parse"));
    it.bind("p", "b");
    it.bind("q", "b");
    assert_eq!(it.bind("r", "b"), None);
    it.sync();
    assert_eq!(it.told(), "3122E54000ZI");
    // A text as long as all there may be.
    let before = it.session.bytes();
    it.body(b'C', b"Sb\0");
    assert_eq!(it.parse("b", &"x".repeat(LIMITS.session_bytes_max)), None);
    it.sync();
    assert_eq!(it.told(), "3E54000ZI");
    assert!(it.session.bytes() < before);
    assert!(it.session.deallocate("c") && !it.session.deallocate("c"));
    it.session.deallocate_all();
    assert_eq!(it.session.bytes(), 0);
}

#[test]
fn malformed_messages_fail_the_pipeline_or_the_connection() {
    let mut it = Fixture::new();
    let malformed = |it: &mut Fixture, bytes: &[u8]| {
        let malformed = Message::read(bytes, &LIMITS).expect_err("malformed");
        it.session.malformed(&malformed, &mut it.out)
    };
    assert!(!malformed(&mut it, b"Q\0\0\0\x05x"));
    assert_eq!(it.told(), "E08P01ZI");
    assert!(!malformed(&mut it, b"E\0\0\0\x05\0"));
    assert!(!malformed(&mut it, b"E\0\0\0\x05\0"));
    assert_eq!(it.sync(), None);
    assert_eq!(it.told(), "E08P01ZI");
    assert!(malformed(&mut it, b"?\0\0\0\x04"));
    assert_eq!(it.told(), "E08P01");
}

#[test]
fn formats_of_columns() {
    let one = ResultFormats::new(&[0, 1], 3).expect("one for all");
    assert_eq!((one.of(0), one.of(2)), (Format::Binary, Format::Binary));
    let each = ResultFormats::new(&[0, 1, 0, 0], 2).expect("one for each");
    assert_eq!((each.of(0), each.of(1)), (Format::Binary, Format::Text));
    assert!(ResultFormats::new(&[0, 1, 0, 0], 3).is_err());
    assert_eq!(Column::new("a", Type::single(Kind::Uuid)).modifier, -1);
}
