//! Many of everything, and the most that a message may say: each has its bound, and a client beside is served.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use corun_server::front::FrontConfig;
use corun_wire::{backend, build};

use crate::clients::printed;
use crate::hostile::Raw;
use crate::{Server, wait};

/// A message of a type, with this body.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    build::message(&mut out, tag, |out| out.extend(body));
    out
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    build::parse(&mut out, name, sql.as_bytes(), &[0, 0]);
    out
}

/// A Bind without parameters.
fn bind(portal: &str, statement: &str) -> Vec<u8> {
    let body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0\0\0\0\0"].concat();
    framed(b'B', &body)
}

fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    framed(
        b'E',
        &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()].concat(),
    )
}

const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

fn is_well(server: &Server) {
    assert_eq!(printed(server, "user=ann", &["select 1"]), "1\n");
}

/// The SQLSTATE of an error that was read.
fn says(body: &[u8], code: &str) -> bool {
    String::from_utf8_lossy(body).contains(code)
}

#[test]
fn every_kind_of_message_malformed_and_too_long() {
    let server = Server::open(FrontConfig::default());
    for tag in *b"BCDEFHPQSXcdfp" {
        // Far too long by what it says: the connection ends before anything is held for it.
        for length in [i32::MAX, i32::MIN, 0, 3] {
            let mut raw = Raw::log_in(&server, "ann");
            raw.send(&[&[tag], &length.to_be_bytes()[..]].concat());
            // Who says goodbye is not told that it did so wrongly.
            let told = says(&raw.rest(), "08P01");
            assert!(told || tag == b'X', "{} {length}", char::from(tag));
        }
        // With bodies that it cannot have: an error or nothing, and the connection serves or ends.
        for body in [
            &b"\xff\xfe\xfd"[..],
            b"",
            b"\0",
            b"no end",
            &[0xff; 70_000],
            &[0; 300],
        ] {
            let mut raw = Raw::log_in(&server, "ann");
            raw.send(&framed(tag, body));
            raw.send(&SYNC);
            let _ = raw.0.shutdown(std::net::Shutdown::Write);
            raw.rest();
        }
    }
    wait("all have left", || {
        server.seen.sessions.load(Ordering::SeqCst) == 0
    });
    is_well(&server);
}

#[test]
fn a_row_limit_of_all_that_there_can_be() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    for limit in [i32::MAX, 0, -1, i32::MIN] {
        raw.send(
            &[
                parse("", "rows 3"),
                bind("", ""),
                execute("", limit),
                SYNC.to_vec(),
            ]
            .concat(),
        );
        assert_eq!(raw.until(backend::READY), "12DDDCZ", "{limit}");
    }
}

#[test]
fn thousands_of_statements_and_portals() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    let most = FrontConfig::default().client;
    let mut refused = 0;
    for first in (0..most.statements_max + 500).step_by(500) {
        let some = (first..first + 500)
            .map(|number| [parse(&format!("s{number}"), "select 1"), SYNC.to_vec()].concat());
        raw.send(&some.collect::<Vec<_>>().concat());
        for _ in 0..500 {
            loop {
                let (tag, body) = raw.message();
                refused += usize::from(tag == backend::ERROR && says(&body, "54000"));
                if tag == backend::READY {
                    break;
                }
            }
        }
    }
    assert!(refused > 0, "there is a bound, and it is told");
    let mut refused = 0;
    let mut raw = Raw::log_in(&server, "ann");
    raw.send(&[parse("", "rows 2"), SYNC.to_vec()].concat());
    assert_eq!(raw.until(backend::READY), "1Z");
    // All in one transaction: its portals live until the Sync.
    let some = (0..most.portals_max + 10).map(|number| bind(&format!("p{number}"), ""));
    raw.send(&[some.collect::<Vec<_>>().concat(), SYNC.to_vec()].concat());
    loop {
        let (tag, body) = raw.message();
        refused += usize::from(tag == backend::ERROR && says(&body, "54000"));
        if tag == backend::READY {
            break;
        }
    }
    assert_eq!(refused, 1, "what comes behind an error is skipped");
    raw.query("select 1");
    assert_eq!(raw.until(backend::READY), "TDCZ");
    is_well(&server);
}

#[test]
fn all_parameters_that_there_can_be() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    // 65,535 of them, for a statement that has none and one that has two; then a number of which there are fewer.
    for (count, there) in [(u16::MAX, 65_535), (u16::MAX, 10), (2, 65_535)] {
        for sql in ["select 1", "select $1::int8, $2::text"] {
            let mut body = b"\0\0\0\0".to_vec();
            body.extend(count.to_be_bytes());
            body.extend(vec![0xff; 4 * there]);
            body.extend([0, 0]);
            raw.send(&[parse("", sql), framed(b'B', &body), execute("", 0), SYNC.to_vec()].concat());
            let told = raw.until(backend::READY);
            assert!(
                told.starts_with("1E") && told.ends_with('Z'),
                "{count} {there} {sql}: {told}"
            );
        }
    }
    raw.query("select 1");
    assert_eq!(raw.until(backend::READY), "TDCZ");
}

#[test]
fn half_logins_beside_a_client_that_works() {
    let config = FrontConfig {
        connections_max: 20,
        login_timeout: std::time::Duration::from_secs(1),
        ..FrontConfig::default()
    };
    let server = Server::secured(config);
    let works = || printed(&server, "user=ann password=secret sslmode=require", &["select 1"]);
    assert_eq!(works(), "1\n");
    let mut startup = Vec::new();
    build::startup(&mut startup, [("user", "ann"), ("database", "d")].into_iter());
    // Nothing, a part, up to the first question, and a request for TLS: as many as there may be, and some.
    let mut all: Vec<Raw> = Vec::new();
    for number in 0..200 {
        let mut raw = Raw::connect(&server);
        match number % 4 {
            0 => {}
            1 => raw.send(&startup[..5]),
            2 => raw.send(&startup),
            _ => raw.send(&build::SSL_REQUEST),
        }
        all.push(raw);
    }
    assert_eq!(works(), "1\n");
    // Each is sent away when its time is over.
    for mut raw in all {
        raw.rest();
    }
    assert_eq!(works(), "1\n");
}

#[test]
fn requests_to_cancel_with_wrong_keys() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::connect(&server);
    let mut startup = Vec::new();
    build::startup(&mut startup, [("user", "ann"), ("database", "d")].into_iter());
    raw.send(&startup);
    let key = loop {
        let (tag, body) = raw.message();
        if tag == b'K' {
            break body;
        }
    };
    raw.until(backend::READY);
    let pid = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    raw.query("sleep");
    wait("it runs", || server.seen.running.load(Ordering::SeqCst) == 1);
    let send = |pid: u32, secret: &[u8]| {
        let mut cancel = Vec::new();
        build::cancel(&mut cancel, pid, secret);
        let mut other = Raw::connect(&server);
        other.send(&cancel);
        other.rest();
    };
    let mut wrong = key[4..].to_vec();
    for number in 0..500u32 {
        wrong[0] = key[4].wrapping_add(1 + (number % 255) as u8);
        send(pid, &wrong);
        send(pid.wrapping_add(number + 1), &key[4..]);
        send(pid, &key[4..][..(number % 4) as usize]);
    }
    assert_eq!(
        server.seen.running.load(Ordering::SeqCst),
        1,
        "none of them was its own"
    );
    send(pid, &key[4..]);
    assert_eq!(raw.until(backend::READY), "EZ");
}

/// The beginning of a query of 32 MiB.
const LONG: &[u8] = b"Q\x02\0\0\0";

#[test]
fn who_begins_a_long_message_and_stops_is_sent_away() {
    let config = FrontConfig {
        inbox_bytes_max: 4 << 20,
        login_timeout: std::time::Duration::from_secs(3),
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    // A short one may wait.
    let mut short = Raw::log_in(&server, "ann");
    let mut whole = Vec::new();
    build::query(&mut whole, "select 1");
    short.send(&whole[..8]);
    let mut raw = Raw::log_in(&server, "ann");
    let part = vec![b' '; 900 << 10];
    raw.send(&[LONG, &part].concat());
    let told = raw.rest();
    assert!(String::from_utf8_lossy(&told).contains("incomplete message from client"));
    // There is room again.
    let mut other = Raw::log_in(&server, "ann");
    other.query(&format!("{};select 1", " ".repeat(900 << 10)));
    assert_eq!(other.until(backend::READY), "TDCZ");
    short.send(&whole[8..]);
    assert_eq!(short.until(backend::READY), "TDCZ");
}

#[test]
fn one_user_s_half_messages_leave_room_for_others() {
    let config = FrontConfig {
        // A quarter of it for one user.
        inbox_bytes_max: 64 << 20,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let mut raw = Raw::log_in(&server, "ann");
    raw.send(LONG);
    let part = vec![b' '; 1 << 20];
    // It is sent away before its message is whole; what it says after that is thrown away, or finds nobody.
    let sent = (0..31).all(|_| raw.0.write_all(&part).is_ok());
    if sent {
        let told = raw.rest();
        assert!(String::from_utf8_lossy(&told).contains("out of memory for messages of clients"));
    }
    let long = format!("{};select 1", " ".repeat(900 << 10));
    for user in ["ann", "bob"] {
        let mut raw = Raw::log_in(&server, user);
        raw.query(&long);
        assert_eq!(raw.until(backend::READY), "TDCZ", "{user}");
    }
}
