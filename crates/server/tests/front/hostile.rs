//! Clients that send what they should not, that do not read, that leave, and many at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use corun_server::front::FrontConfig;
use corun_wire::{HEADER_BYTES, backend, build, header};

use crate::clients::printed;
use crate::{Server, wait};

/// A connection by hand.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        Self(stream)
    }

    /// A client that is let in without a proof.
    pub fn log_in(server: &Server, user: &str) -> Self {
        let mut raw = Self::connect(server);
        let mut startup = Vec::new();
        build::startup(&mut startup, [("user", user), ("database", "d")].into_iter());
        raw.send(&startup);
        raw.until(backend::READY);
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sent");
    }

    pub fn query(&mut self, sql: &str) {
        let mut out = Vec::new();
        build::query(&mut out, sql);
        self.send(&out);
    }

    /// The next message.
    pub fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; HEADER_BYTES];
        self.0.read_exact(&mut head).expect("a message");
        let head = header(&head).expect("a length").expect("whole");
        let mut body = vec![0; head.total - HEADER_BYTES];
        self.0.read_exact(&mut body).expect("a body");
        (head.tag, body)
    }

    /// Reads up to a message of this type; the types of all.
    pub fn until(&mut self, tag: u8) -> String {
        let mut tags = String::new();
        loop {
            let (found, _) = self.message();
            tags.push(char::from(found));
            if found == tag {
                return tags;
            }
        }
    }

    /// All up to the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all);
        all
    }
}

/// Still serves others.
fn is_well(server: &Server) {
    assert_eq!(printed(server, "user=ann", &["select 1"]), "1\n");
}

#[test]
fn nonsense_before_the_login() {
    let server = Server::open(FrontConfig::default());
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\0\0\0\x04",
        b"\xff\xff\xff\xff\0\x03\0\0",
        b"\x16\x03\x01\x02\0",
        &[0; 9000],
    ] {
        let mut raw = Raw::connect(&server);
        raw.send(bytes);
        let _ = raw.0.shutdown(std::net::Shutdown::Write);
        raw.rest();
    }
    is_well(&server);
}

#[test]
fn clear_text_behind_a_request_for_tls() {
    let server = Server::secured(FrontConfig::default());
    let mut raw = Raw::connect(&server);
    let mut both = build::SSL_REQUEST.to_vec();
    build::startup(&mut both, [("user", "ann")].into_iter());
    raw.send(&both);
    let told = raw.rest();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("unencrypted data after SSL request"), "{told}");
    assert!(!told.starts_with('S'), "no session of TLS begins");
}

#[test]
fn messages_that_are_none_and_too_long_ones() {
    let server = Server::open(FrontConfig::default());
    // A type that there is not, and a length that is too great, end the connection.
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\x7f\xff\xff\xff",
        b"S\0\xff\xff\xff",
        b"Q\0\0\0\x01",
    ] {
        let mut raw = Raw::log_in(&server, "ann");
        raw.send(bytes);
        let told = raw.rest();
        assert!(String::from_utf8_lossy(&told).contains("08P01"), "{bytes:?}");
    }
    // One that is malformed fails, and the next is served.
    let mut raw = Raw::log_in(&server, "ann");
    raw.send(b"Q\0\0\0\x05x");
    assert_eq!(raw.until(backend::READY), "EZ");
    raw.query("select 1");
    assert_eq!(raw.until(backend::READY), "TDCZ");
}

#[test]
fn messages_that_are_not_whole_take_no_more_than_there_is() {
    let config = FrontConfig {
        inbox_bytes_max: 1 << 20,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let mut raw = Raw::log_in(&server, "ann");
    raw.send(b"Q\x02\0\0\0");
    let part = vec![b' '; 1 << 20];
    // It is sent away before it has sent all.
    while raw.0.write_all(&part).is_ok() {}
    drop(raw);
    is_well(&server);
}

#[test]
fn a_byte_at_a_time() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    raw.0.set_nodelay(true).expect("set");
    let mut out = Vec::new();
    build::query(&mut out, "who");
    build::query(&mut out, "select 1");
    for byte in out {
        raw.send(&[byte]);
    }
    assert_eq!(raw.until(backend::READY), "TDCZ");
    assert_eq!(raw.until(backend::READY), "TDCZ");
}

#[test]
fn a_client_that_does_not_read_stops_its_statement_only() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    raw.query("rows 100000000");
    let rows = || server.seen.rows.load(Ordering::SeqCst);
    // Until nothing more is made: buffers are full.
    let mut last = (0, Instant::now());
    wait("its statement waits", || {
        let now = rows();
        if now != last.0 {
            last = (now, Instant::now());
        }
        now > 0 && last.1.elapsed() > Duration::from_millis(500)
    });
    // What the kernel holds, the front's two buffers, and a chunk: far from all.
    assert!(rows() < 200_000, "{} rows were made ahead", rows());
    is_well(&server);
    // It can be cancelled by leaving.
    drop(raw);
    wait("its statement ends", || {
        server.seen.running.load(Ordering::SeqCst) == 0
    });
    wait("its session ends", || {
        server.seen.sessions.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn a_client_that_leaves_ends_its_statement() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    raw.query("sleep");
    wait("it runs", || server.seen.running.load(Ordering::SeqCst) == 1);
    drop(raw);
    wait("it ends", || server.seen.sessions.load(Ordering::SeqCst) == 0);
    assert_eq!(server.seen.running.load(Ordering::SeqCst), 0);
}

#[test]
fn a_statement_that_panics_ends_its_session_only() {
    let server = Server::open(FrontConfig::default());
    let mut raw = Raw::log_in(&server, "ann");
    raw.query("panic");
    let told = raw.rest();
    assert!(String::from_utf8_lossy(&told).contains("XX000"));
    is_well(&server);
}

/// Open files that this process may have.
fn files_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(1024)
}

#[test]
fn a_thousand_idle_sessions() {
    let config = FrontConfig {
        connections_max: 1_100,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    // Both ends are this process's, and other tests run beside this one.
    let count = 1_000.min((files_max() - 300) / 2);
    let before = corun_net::memory::resident_bytes().unwrap_or_default();
    let mut all: Vec<Raw> = (0..count).map(|_| Raw::log_in(&server, "ann")).collect();
    for raw in &mut all {
        raw.query("select 1");
        raw.until(backend::READY);
    }
    let after = corun_net::memory::resident_bytes().unwrap_or_default();
    let each = after.saturating_sub(before) / count as u64;
    println!("{count} sessions, {each} bytes each");
    assert_eq!(server.seen.sessions.load(Ordering::SeqCst), count);
    is_well(&server);
    drop(all);
    wait("all have left", || {
        server.seen.sessions.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn a_long_message_counts_only_while_it_is_there() {
    let config = FrontConfig {
        // A quarter of it for one user.
        inbox_bytes_max: 12 << 20,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let long = format!("{};select 1", " ".repeat(2 << 20));
    let mut all: Vec<Raw> = (0..4).map(|_| Raw::log_in(&server, "ann")).collect();
    for raw in &mut all {
        raw.query(&long);
        assert_eq!(raw.until(backend::READY), "TDCZ");
        // Served only when the long one is over.
        raw.query("select 1");
        raw.until(backend::READY);
    }
}
