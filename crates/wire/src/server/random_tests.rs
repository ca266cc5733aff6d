//! Whatever a client sends, a server neither panics nor keeps more than it may.

use proptest::prelude::*;

use super::*;
use crate::auth::Mock;
use crate::auth::hba::Rules;
use crate::auth::ident::IdentMaps;
use crate::auth::userlist::Userlist;
use crate::error::{Refusal, code};
use crate::values::Type;
use crate::{TransactionStatus, build, header};

const LIMITS: Limits = Limits {
    message_bytes_max: 2_000,
    statements_max: 4,
    portals_max: 3,
    session_bytes_max: 3_000,
};

/// Messages that mean something, in any order.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let name = || prop::sample::select(vec!["", "a", "b", "c"]);
    let framed = |tag: u8, body: Vec<u8>| {
        let mut out = Vec::new();
        build::message(&mut out, tag, |out| out.extend(&body));
        out
    };
    let text = |name: &str| [name.as_bytes(), b"\0"].concat();
    prop_oneof![
        (name(), "[a-z]{0,30}").prop_map(move |(name, sql)| {
            let mut out = Vec::new();
            build::parse(&mut out, name, sql.as_bytes(), &[0, 1, 0, 0, 0, 23]);
            out
        }),
        (name(), name(), prop::collection::vec(any::<u8>(), 0..100)).prop_map(
            move |(portal, statement, value)| {
                let mut body = [text(portal), text(statement), vec![0, 0, 0, 1]].concat();
                body.extend((value.len() as u32).to_be_bytes());
                body.extend(value);
                body.extend([0, 0]);
                framed(b'B', body)
            }
        ),
        (name(), -1i32..5)
            .prop_map(move |(name, rows)| framed(b'E', [text(name), rows.to_be_bytes().to_vec()].concat())),
        (
            name(),
            prop::sample::select(b"SP".to_vec()),
            prop::sample::select(b"DC".to_vec())
        )
            .prop_map(move |(name, kind, tag)| framed(tag, [vec![kind], text(name)].concat())),
        "[a-z]{0,30}".prop_map(move |sql| framed(b'Q', text(&sql))),
        prop::sample::select(b"SHcdX".to_vec()).prop_map(move |tag| framed(tag, Vec::new())),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(move |data| framed(b'd', data)),
        Just(framed(b'f', b"why\0".to_vec())),
        Just(framed(b'F', vec![0; 8])),
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(move |(tag, body)| framed(tag, body)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    if !bytes.is_empty() {
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = *to;
        }
    }
    bytes
}

/// Feeds bytes into a session, as a server would, whose engine does what `whim` says. Returns what the client was told.
fn serve(bytes: &[u8], whims: &[u8]) -> Vec<u8> {
    let mut session: Session<Vec<u8>, u8> = Session::new(LIMITS);
    let mut out = Vec::new();
    let mut rest = bytes;
    let mut whims = whims.iter().copied().cycle();
    loop {
        let message = match Message::read(rest, &LIMITS) {
            Ok(Some((message, used))) => {
                rest = &rest[used..];
                message
            }
            Ok(None) => break,
            Err(malformed) => {
                if session.malformed(&malformed, &mut out) {
                    break;
                }
                rest = &rest[malformed.used.expect("the connection goes on")..];
                continue;
            }
        };
        let whim = whims.next().unwrap_or(0);
        let refusal = Refusal::new(code::INTERNAL_ERROR, "so");
        match session.message(message, &mut out) {
            Action::Nothing | Action::Flush | Action::CopyData(_) => {}
            Action::CopyFail(refusal) => session.failed(&mut out, &refusal),
            Action::Terminate => break,
            _ if whim % 5 == 0 => session.failed(&mut out, &refusal),
            Action::Query { .. } if whim % 7 == 0 => session.copy_in(&mut out, false, 1),
            Action::Query { .. } | Action::CopyDone if whim % 3 == 0 => {
                session.set_transaction(TransactionStatus::Open);
                session.failed(&mut out, &refusal);
            }
            Action::Query { .. } => {
                session.set_transaction(TransactionStatus::Idle);
                session.query_done(&mut out);
            }
            // Whatever asked for the copy, it fails.
            Action::CopyDone => session.failed(&mut out, &refusal),
            Action::Parse(parse) => {
                let types = parse.types().filter_map(Type::of).collect();
                let columns = (whim % 2 == 0).then(|| vec![Column::new("c", Type::TEXT)]);
                session.parsed(&mut out, parse.sql.as_bytes().to_vec(), types, columns);
            }
            Action::Bind { bind, .. } => {
                let count = bind.parameters().count();
                assert_eq!(count, usize::from(bind.parameter_count()));
                session.bound(&mut out, whim);
            }
            Action::Execute { .. } if whim % 11 == 0 => session.copy_in(&mut out, true, 1),
            Action::Execute { portal, .. } => session.executed(&mut out, portal, Executed::Complete("OK")),
            Action::Sync { .. } => session.ended(&mut out),
        }
        assert!(
            session.bytes() <= LIMITS.session_bytes_max,
            "{} bytes",
            session.bytes()
        );
        assert!(!session.is_busy());
    }
    out
}

/// Each error and each answer is a whole message.
fn assert_messages(mut out: &[u8]) {
    while let Some(head) = header(out).expect("messages") {
        out = &out[head.total..];
    }
    assert!(out.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_messages(
        messages in prop::collection::vec(any_message(), 0..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        whims in prop::collection::vec(any::<u8>(), 1..10),
    ) {
        let bytes = changed(messages.concat(), &changes);
        assert_messages(&serve(&bytes, &whims));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_messages(&serve(&bytes, &[1]));
        // A message that is not whole is never longer than the limit.
        if let Ok(None) = Message::read(&bytes, &LIMITS)
            && let Ok(Some(head)) = header(&bytes)
        {
            prop_assert!(head.total <= LIMITS.message_bytes_max + 5);
        }
    }

    #[test]
    fn any_login(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            Just(build::SSL_REQUEST.to_vec()),
            Just(b"\0\0\0\x08\x04\xd2\x16\x30".to_vec()),
            Just(startup()),
            prop::collection::vec(any::<u8>(), 0..60).prop_map(|body| {
                let mut out = Vec::new();
                build::message(&mut out, b'p', |out| out.extend(&body));
                out
            }),
            Just(vec![7; 9_000]),
        ], 0..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let random = ring::rand::SystemRandom::new();
        let path = std::path::Path::new("rules");
        let rules = Rules::parse("host all all all scram-sha-256", path).expect("rules");
        let users = Userlist::parse(b"\"ann\" \"secret\"", path).expect("users");
        let mock = Mock::from_secret(b"seed", false);
        let policy = Policy {
            rules: &rules,
            maps: &IdentMaps::default(),
            users: &users,
            database: &database_asked_for,
            mock: &mock,
            random: &random,
            offers_tls: false,
            requires_tls: false,
        };
        let connection = Connection { address: Some([127, 0, 0, 1].into()), ..Connection::default() };
        let mut login = Login::new();
        'all: for part in parts {
            if login.received(&changed(part, &changes)).is_err() {
                break;
            }
            loop {
                match login.next(&connection, &policy) {
                    LoginAction::More => break,
                    LoginAction::Send(_) => {}
                    LoginAction::Entered(_) => panic!("nobody knows the password"),
                    _ => break 'all,
                }
            }
        }
    }
}

fn startup() -> Vec<u8> {
    let mut out = Vec::new();
    build::startup(&mut out, [("user", "ann")].into_iter());
    out
}
