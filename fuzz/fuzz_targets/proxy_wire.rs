//! Everything of the proxy that reads bytes or text, one reader at a time: an answer or an error, never a panic.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use corun_pooler::admin::Command;
use corun_pooler::config::Config;
use corun_pooler::understand::{Limits, Understanding};
use corun_wire::auth::server_login::LoginOptions;
use corun_wire::auth::userlist::Userlist;
use corun_wire::auth::{
    Authenticator, Credentials, Facts, Lookup, Method, Mock, Secret, ServerLogin, Step, hba, ident,
};
use corun_wire::error::Reported;
use corun_wire::server::{self, Action, Executed, Message, Session};
use corun_wire::startup::Packet;
use corun_wire::values::{FixedOffset, Type, Value};
use corun_wire::{header, read};
use libfuzzer_sys::fuzz_target;
use ring::rand::SystemRandom;

/// Longest text that is understood here: PostgreSQL's parser takes its time over long ones.
const TEXT_BYTES_MAX: usize = 4096;

/// Messages in `bytes`: a length byte and the body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = bytes.split_first()?;
        let (message, rest) = rest.split_at(usize::from(length).min(rest.len()));
        bytes = rest;
        Some(message)
    })
}

fn wire(bytes: &[u8]) {
    if let Ok(Some((_, used))) = Packet::read(bytes) {
        assert!(used <= bytes.len());
    }
    if let Ok(Some(head)) = header(bytes) {
        assert!(head.total >= 5);
    }
    let _ = (read::query(bytes), read::ready(bytes), read::key_data(bytes));
    let _ = (read::target(bytes), read::parameter_status(bytes));
    if let Some(parse) = read::parse(bytes) {
        assert!(parse.name.len() + parse.sql.len() + parse.types.len() < bytes.len());
    }
    if let Some((portal, statement, rest)) = read::bind(bytes) {
        assert_eq!(portal.len() + statement.len() + rest.len() + 2, bytes.len());
    }
    if let Some(columns) = read::data_row(bytes) {
        assert!(columns.iter().flatten().map(|value| value.len()).sum::<usize>() <= bytes.len());
    }
    let reported = Reported::read(bytes);
    let _ = reported.is_fatal();
    let _ = corun_wire::tls::negotiate::answer(bytes);
    serve(bytes);
}

/// A server's session, whose engine prepares, binds and executes anything.
fn serve(mut bytes: &[u8]) {
    let limits = server::Limits {
        session_bytes_max: 4096,
        ..server::Limits::default()
    };
    let mut session: Session<(), ()> = Session::new(limits);
    let mut out = Vec::new();
    while let Ok(Some((message, used))) = Message::read(bytes, &limits) {
        bytes = &bytes[used..];
        match session.message(message, &mut out) {
            Action::Query { .. } => session.query_done(&mut out),
            Action::Parse(parse) => {
                let types = parse.types().filter_map(Type::of).collect();
                session.parsed(&mut out, (), types, None);
            }
            Action::Bind { bind, .. } => {
                for (format, value) in bind.parameters() {
                    for oid in [23, 1700, 1114, 1186, 1009] {
                        let of = Type::of(oid).expect("a type");
                        let _ = value.map(|value| Value::read(of, format, value, &FixedOffset::UTC));
                    }
                }
                session.bound(&mut out, ());
            }
            Action::Execute { .. } => session.executed(&mut out, (), Executed::Complete("OK")),
            Action::Sync { .. } => session.ended(&mut out),
            Action::Terminate => return,
            _ => {}
        }
        assert!(session.bytes() <= limits.session_bytes_max);
    }
}

/// A login of a client, by any method. Nobody gets in who does not know the password.
fn login(method: u8, bytes: &[u8]) {
    static KNOWN: OnceLock<(Secret, Mock, Secret)> = OnceLock::new();
    let random = SystemRandom::new();
    let (plain, mock, scram) = KNOWN.get_or_init(|| {
        let scram = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                     WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        (
            Secret::parse(b"Tr0ub4dor&3, or so").expect("a password"),
            Mock::random(&random, false).expect("random numbers"),
            Secret::parse(scram.as_bytes()).expect("a verifier"),
        )
    });
    let methods = [Method::Password, Method::Md5, Method::ScramSha256];
    let method = methods[usize::from(method % 3)];
    let secret = if method == Method::ScramSha256 {
        scram
    } else {
        plain
    };
    let mut authenticator = Authenticator::new(
        method,
        "app",
        Lookup::Found(secret),
        Facts::default(),
        mock,
        &random,
    );
    let mut step = authenticator.start();
    for message in messages(bytes).take(8) {
        if matches!(step, Step::Denied(_)) {
            break;
        }
        step = authenticator.message(message);
        assert!(!matches!(step, Step::Done { .. }), "somebody got in by luck");
    }
}

/// A login at a server that says anything.
fn server_login(kind: u8, bytes: &[u8]) {
    let credentials = match kind % 2 {
        0 => Credentials {
            password: Some(b"secret".to_vec()),
            ..Credentials::default()
        },
        _ => Credentials::default(),
    };
    let options = LoginOptions {
        clear_text: kind & 2 > 0,
        ..LoginOptions::default()
    };
    let Ok(mut login) = ServerLogin::new("app", credentials, options, &SystemRandom::new()) else {
        return;
    };
    for message in messages(bytes).take(8) {
        if login.message(message).is_err() {
            return;
        }
    }
}

fn understand(text: &[u8]) {
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    let mut understanding = Understanding::new(Limits::default());
    let first = understanding.of(text);
    // What it found is what it would find again.
    let again = understanding.of(text);
    assert_eq!(format!("{first:?}"), format!("{again:?}"));
    let _ = corun_pooler::auto_prepare::runs_alike(text, &first);
}

fuzz_target!(|data: &[u8]| {
    let [kind, more, bytes @ ..] = data else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    let nowhere = Path::new("/nonexistent/file");
    match kind % 11 {
        0 => wire(bytes),
        1 => login(*more, bytes),
        2 => server_login(*more, bytes),
        3 => drop(hba::Rules::parse(&text, nowhere)),
        4 => drop(Userlist::parse(bytes, nowhere)),
        5 => drop(ident::IdentMaps::parse(&text, nowhere)),
        6 => {
            if let Ok(loaded) = Config::parse(&text, "corun.toml") {
                for name in ["app", "", "*"] {
                    let _ = loaded.config.effective_database(name, "app");
                }
            }
        }
        // Files it includes are the machine's.
        7 if !text.contains("%include") => {
            let imported =
                corun_pooler::config::import::import_pgbouncer(&text, "pgbouncer.ini", nowhere, None);
            let _ = format!("{imported:?}");
        }
        8 => drop(Command::parse(&text)),
        9 => {
            let mut config = Config::parse("", "corun.toml")
                .map(|loaded| loaded.config)
                .unwrap_or_default();
            if let Some((key, value)) = text.split_once('=') {
                let _ = config.set(key, value);
            }
        }
        _ => understand(bytes),
    }
});
