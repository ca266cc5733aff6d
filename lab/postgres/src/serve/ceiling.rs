//! [`Ceiling`]: a server that answers every statement of pgbench with a constant: what clients, sockets and the kernel leave for any server.
//!
//! Threads of this process, one for each connection, on the same cores as the clients. What it is not: a server. It knows the beginnings of
//! pgbench's statements, and of the protocol what pgbench sends.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::fixture::address::{Address, Transport};
use lab_core::error::BenchError;

/// Bytes read at once.
const PIECE: usize = 8 << 10;
/// The longest message taken.
const MESSAGE_MAX: usize = 1 << 20;
/// Requests for TLS and for encryption by GSSAPI, which it declines.
const DECLINED: [u32; 2] = [80_877_103, 80_877_104];

/// See [`self`]. Dropped, it takes no more connections; those there are end with their clients.
pub struct Ceiling {
    /// Where it listens.
    pub address: Address,
    ends: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl Ceiling {
    /// Listens at a free port.
    ///
    /// # Errors
    /// When there is none.
    pub fn start(folder: &Path) -> Result<Ceiling, BenchError> {
        let failed = |source| BenchError::io("the constant server cannot listen", source);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let accepts = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if seen.load(Ordering::Acquire) {
                    break;
                }
                if let Ok(stream) = stream {
                    // A client that goes away ends its thread.
                    std::thread::spawn(move || _ = serve(stream));
                }
            }
        });
        Ok(Ceiling {
            address: Address {
                transport: Transport::Tcp,
                folder: folder.to_owned(),
                port,
            },
            ends,
            accepts: Some(accepts),
        })
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.address.port)) {
            _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(accepts) = self.accepts.take() {
            _ = accepts.join();
        }
    }
}

/// What is answered to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constant {
    tag: &'static str,
    /// The fields of its one row, int4 all of them; of none: it has no rows.
    fields: &'static [Option<&'static str>],
    /// The transaction afterwards, as ReadyForQuery says it; `None`: as before.
    status: Option<u8>,
}

/// A balance, and the number of branches that pgbench asks for first: it draws its keys from so many.
const ROW: &[Option<&str>] = &[Some("1")];
/// What it asks next: the place of its accounts in the search path, how they are partitioned, and into how many.
const NOT_PARTITIONED: &[Option<&str>] = &[Some("1"), None, Some("0")];

impl Constant {
    fn of(sql: &[u8]) -> Constant {
        let (tag, fields, status) = match sql.first().map(u8::to_ascii_uppercase) {
            Some(b'S') if sql.starts_with(b"select o.n, p.partstrat") => ("SELECT 1", NOT_PARTITIONED, None),
            Some(b'S') => ("SELECT 1", ROW, None),
            Some(b'U') => ("UPDATE 1", [].as_slice(), None),
            Some(b'I') => ("INSERT 0 1", [].as_slice(), None),
            Some(b'B') => ("BEGIN", [].as_slice(), Some(b'T')),
            _ => ("COMMIT", [].as_slice(), Some(b'I')),
        };
        Constant { tag, fields, status }
    }

    fn describe(self, out: &mut Vec<u8>) {
        if self.fields.is_empty() {
            return message(out, b'n', b"");
        }
        let mut body = (self.fields.len() as u16).to_be_bytes().to_vec();
        for _ in self.fields {
            // Of the type int4.
            body.extend(b"abalance\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0");
        }
        message(out, b'T', &body);
    }

    fn execute(self, out: &mut Vec<u8>) {
        if !self.fields.is_empty() {
            let mut body = (self.fields.len() as u16).to_be_bytes().to_vec();
            for field in self.fields {
                let length = field.map_or(-1, |field| field.len() as i32);
                body.extend(length.to_be_bytes());
                body.extend(field.unwrap_or_default().as_bytes());
            }
            message(out, b'D', &body);
        }
        message(out, b'C', &[self.tag.as_bytes(), b"\0"].concat());
    }
}

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

/// A text that ends with a zero, and what follows.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// One connection.
#[derive(Default)]
struct Session {
    /// By their names.
    statements: HashMap<Vec<u8>, Constant>,
    portal: Option<Constant>,
    status: u8,
}

impl Session {
    fn answer(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) {
        match kind {
            b'Q' => {
                let constant = Constant::of(body);
                if !constant.fields.is_empty() {
                    constant.describe(out);
                }
                constant.execute(out);
                self.status = constant.status.unwrap_or(self.status);
                message(out, b'Z', &[self.status]);
            }
            b'P' => {
                let (name, rest) = text(body);
                let constant = Constant::of(text(rest).0);
                self.statements.insert(name.to_owned(), constant);
                message(out, b'1', b"");
            }
            b'B' => {
                let (_, rest) = text(body);
                self.portal = self.statements.get(text(rest).0).copied();
                message(out, b'2', b"");
            }
            b'D' => {
                if let Some(portal) = self.portal {
                    portal.describe(out);
                }
            }
            b'E' => {
                if let Some(portal) = self.portal {
                    portal.execute(out);
                    self.status = portal.status.unwrap_or(self.status);
                }
            }
            b'S' => message(out, b'Z', &[self.status]),
            _ => {}
        }
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let [a, b, c, d, code @ ..] = head;
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).clamp(8, MESSAGE_MAX);
        let mut rest = vec![0; length - 8];
        stream.read_exact(&mut rest)?;
        if !DECLINED.contains(&u32::from_be_bytes(code)) {
            break;
        }
        stream.write_all(b"N")?;
    }
    let mut out = Vec::new();
    message(&mut out, b'R', &[0; 4]);
    for (name, value) in [("server_version", "15.0"), ("client_encoding", "UTF8")] {
        message(&mut out, b'S', &[name, "\0", value, "\0"].concat().into_bytes());
    }
    message(&mut out, b'K', &[0; 8]);
    message(&mut out, b'Z', b"I");
    let mut session = Session {
        status: b'I',
        ..Session::default()
    };
    let (mut inbox, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        stream.write_all(&out)?;
        out.clear();
        let bytes = stream.read(&mut piece)?;
        if bytes == 0 {
            return Ok(());
        }
        inbox.extend_from_slice(&piece[..bytes]);
        let mut used = 0;
        while let Some([kind, a, b, c, d]) = inbox.get(used..used + 5) {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let Some(body) = inbox.get(used + 5..used + 1 + length) else {
                break;
            };
            session.answer(*kind, body, &mut out);
            used += 1 + length;
        }
        inbox.drain(..used);
        if inbox.len() > MESSAGE_MAX {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::client::Client;
    use std::time::Duration;

    #[test]
    fn statements_of_pgbench_have_constants() {
        let folder = tempfile::tempdir().expect("a folder");
        let ceiling = Ceiling::start(folder.path()).expect("it listens");
        let mut client = Client::connect(&ceiling.address, Duration::from_secs(60)).expect("it lets in");
        for (sql, tag, rows) in [
            ("BEGIN;", "BEGIN", 0),
            (
                "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;",
                "UPDATE 1",
                0,
            ),
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = 1;",
                "SELECT 1",
                1,
            ),
            ("END;", "COMMIT", 0),
        ] {
            let answer = client.run(sql).expect("an answer");
            assert_eq!(
                (answer.tags.as_slice(), answer.rows.len()),
                (&[tag.to_owned()][..], rows)
            );
        }
        // What pgbench asks before it begins: it takes the answer to be of three columns, the second NULL where there are no partitions.
        let answer = client
            .run("select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c");
        let fields = ["1", "0"].map(|field| Some(field.to_owned()));
        let [place, partitions] = fields;
        assert_eq!(answer.expect("an answer").rows, [[place, None, partitions]]);
    }
}
