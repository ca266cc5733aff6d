//! One side that is slower than the other: the proxy stops reading in time, and not a byte is lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::target::{Mode, Pooling};
use crate::common::wait::wait_until;

/// What the target may keep of what one side has not taken, and what the tests beside this one may need meanwhile.
const KEPT_MAX: u64 = 100 << 20;

/// Logs in over a plain socket.
fn plain(fixture: &Fixture) -> TcpStream {
    let login = fixture.login();
    let mut socket = TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("timeout");
    socket
        .write_all(&message::startup(
            0,
            &[("user", "app"), ("database", &fixture.database)],
        ))
        .expect("sent");
    let mut seen = Vec::new();
    while !seen.ends_with(b"Z\0\0\0\x05I") {
        let mut more = [0; 4096];
        let count = socket.read(&mut more).expect("an answer");
        assert!(count > 0, "closed at login");
        seen.extend_from_slice(&more[..count]);
    }
    socket
}

#[test]
fn a_client_that_does_not_read_costs_little_memory() {
    let _alone = crate::alone();
    const ROWS: u64 = 400_000;
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 2));
    let mut socket = plain(&fixture);
    let before = fixture.target.resident_bytes();
    socket
        .write_all(&message::query(&format!(
            "select repeat('x', 1000) from generate_series(1, {ROWS})"
        )))
        .expect("sent");
    // The server can send no more when what it sent fills the proxy's buffers and the kernel's.
    let stuck = "select count(*) = 1 from pg_stat_activity where datname = current_database() and wait_event = 'ClientWrite'";
    let (mut most, mut times) = (0, 0);
    wait_until("the server waits for its client", || {
        most = most.max(fixture.target.resident_bytes().saturating_sub(before));
        times = if fixture.value(stuck) == "t" { times + 1 } else { 0 };
        times == 20
    });
    // Others are served meanwhile.
    assert_eq!(fixture.client().value("select 1"), "1");
    assert!(most < KEPT_MAX, "{most} bytes for a client that does not read");
    // Each row is 7 + 4 + 1000 bytes long; and then the end.
    let expected = ROWS * 1011;
    let mut got = 0u64;
    let mut end = Vec::new();
    let mut more = vec![0; 1 << 20];
    while !end.ends_with(b"Z\0\0\0\x05I") {
        let count = socket.read(&mut more).expect("the rest");
        assert!(count > 0, "closed after {got} bytes");
        got += count as u64;
        end.extend_from_slice(&more[..count]);
        let surplus = end.len().saturating_sub(64);
        end.drain(..surplus);
    }
    assert!(
        (expected..expected + 200).contains(&got),
        "{got} bytes, not {expected} and a little"
    );
}

#[test]
fn a_server_that_does_not_read_costs_little_memory() {
    let _alone = crate::alone();
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 2));
    fixture.sql("create table t (v text); grant all on t to public");
    let mut lock = fixture.client();
    lock.rows("begin; lock table t in access exclusive mode");
    let mut socket = plain(&fixture);
    let before = fixture.target.resident_bytes();
    // COPY answers before it takes the lock or after: either way rows pile up.
    socket
        .write_all(&message::query("copy t from stdin"))
        .expect("sent");
    socket
        .set_write_timeout(Some(Duration::from_secs(2)))
        .expect("timeout");
    let chunk = message::copy_data(&[vec![b'y'; 65_535], vec![b'\n']].concat());
    let mut sent = 0usize;
    while sent < (400 << 20) {
        match socket.write(&chunk[sent % chunk.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(
        sent < (100 << 20),
        "nobody stopped the client: {sent} bytes were taken"
    );
    let kept = fixture.target.resident_bytes().saturating_sub(before);
    assert!(kept < KEPT_MAX, "{kept} bytes for a server that does not read");
    let elsewhere = fixture.login().database("postgres");
    assert_eq!(fixture.target.client_as(&elsewhere).value("select 1"), "1");
    drop(socket);
    lock.rows("commit");
    let mut other = fixture.client();
    assert_eq!(other.value("select count(*) from t"), "0");
}

#[test]
fn large_messages_pass() {
    let _alone = crate::alone();
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 1));
    fixture.sql("create table t (v text); grant all on t to public");
    let mut client = fixture.client();
    for length in [1, 4_095, 4_096, 65_535, 65_536, 1 << 20, 40 << 20] {
        let text = "z".repeat(length);
        let counted: usize = client.number(&format!("select length('{text}')"));
        assert_eq!(counted, length);
        let asked = message::statement("select $1::text", &[Some(&text)]);
        client.send(&[asked, message::sync()].concat());
        let answer = client.until_ready();
        let row = answer.iter().find(|m| m.tag == b'D').expect("a row");
        assert!(
            row.body[6..] == *text.as_bytes(),
            "{length} bytes came back as {}",
            row.body.len() - 6
        );
        client.send_query("copy t from stdin");
        client.send(&message::copy_data(format!("{text}\n").as_bytes()));
        client.send(&message::copy_done());
        client.until_ready();
        assert_eq!(client.value("select max(length(v)) from t"), length.to_string());
    }
}
