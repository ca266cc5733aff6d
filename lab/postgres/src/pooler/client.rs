//! [`Client`]: just enough of PostgreSQL's protocol to ask a statement and read the whole answer, and to log in and stay.
//!
//! Order of calls: [`Client::connect`], then [`Client::simple`] or [`Client::extended`] as often as wanted. Blocking, without TLS and
//! passwords, which the fixture does not ask for. Not a driver: values stay the text the server sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::address::Address;
use super::{DATABASE, USER, failed};
use lab_core::error::BenchError;

/// The longest message taken from a server.
const MESSAGE_MAX: usize = 64 << 20;
/// Rows handed over in one message.
const COPY_BYTES: usize = 64 << 10;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Stream {
    /// The same connection once more, to read while another thread writes.
    ///
    /// # Errors
    /// When this process has too many open files.
    pub fn again(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Ends it in both directions.
    pub fn shut(&self) {
        // One that has ended already needs no end.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All that came back for one request, as far as it means the same whoever answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Names and types of the columns, of each statement that has rows.
    pub columns: Vec<Vec<(String, u32)>>,
    /// Rows of all statements; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// What each statement says it did, such as `SELECT 1`.
    pub tags: Vec<String>,
    /// SQLSTATE and text of an error.
    pub error: Option<(String, String)>,
}

/// A logged-in session.
pub struct Client {
    stream: Stream,
    input: Vec<u8>,
    from: usize,
}

impl Client {
    /// Logs in as [`USER`]. Each wait for the server takes at most `patience`.
    ///
    /// # Errors
    /// When nobody listens, or the server refuses.
    pub fn connect(address: &Address, patience: Duration) -> Result<Client, BenchError> {
        Client::connect_to(DATABASE, address, patience)
    }

    /// As [`Client::connect`], to another database.
    ///
    /// # Errors
    /// As there.
    pub fn connect_to(database: &str, address: &Address, patience: Duration) -> Result<Client, BenchError> {
        let stream = address.connect(patience).map_err(|source| {
            BenchError::io(format!("could not connect to port {}", address.port), source)
        })?;
        let mut client = Client {
            stream,
            input: Vec::new(),
            from: 0,
        };
        let mut startup = vec![0, 3, 0, 0];
        for text in [
            "user",
            USER,
            "database",
            database,
            "application_name",
            "corun-lab bench",
        ] {
            put_text(&mut startup, text);
        }
        startup.push(0);
        let length = (startup.len() as u32 + 4).to_be_bytes();
        client.send(&[&length[..], &startup].concat())?;
        let answer = client.answer()?;
        match answer.error {
            None => Ok(client),
            Some((state, words)) => Err(failed("login", format!("refused: {words} ({state})"))),
        }
    }

    /// Asks with the simple protocol.
    ///
    /// # Errors
    /// When the connection breaks. An error of the server is an answer.
    pub fn simple(&mut self, sql: &str) -> Result<Answer, BenchError> {
        let mut query = Vec::new();
        put_text(&mut query, sql);
        self.send(&message(b'Q', &query))?;
        self.answer()
    }

    /// Asks with the extended protocol; `name` is that of the prepared statement, empty for the unnamed one. Parsed at each call, so a
    /// name serves once.
    ///
    /// # Errors
    /// When the connection breaks. An error of the server is an answer.
    pub fn extended(&mut self, name: &str, sql: &str, values: &[&str]) -> Result<Answer, BenchError> {
        let mut all = parsed(name, sql);
        all.extend(bound(name, values));
        self.send(&all)?;
        self.answer()
    }

    /// Runs a statement that an earlier [`Client::extended`] prepared under this name.
    ///
    /// # Errors
    /// When the connection breaks. An error of the server is an answer.
    pub fn again(&mut self, name: &str, values: &[&str]) -> Result<Answer, BenchError> {
        self.send(&bound(name, values))?;
        self.answer()
    }

    /// Runs a statement under `name`, which must have been prepared with [`Client::prepare`], without asking for its columns. NULL is
    /// `None`.
    ///
    /// # Errors
    /// When the connection breaks. An error of the server is an answer.
    pub fn execute(&mut self, name: &str, values: &[Option<&str>]) -> Result<Answer, BenchError> {
        self.send(&executed(name, values, false))?;
        self.answer()
    }

    /// Prepares a statement under a name.
    ///
    /// # Errors
    /// When the connection breaks, or the server refuses the statement.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<(), BenchError> {
        let mut all = parsed(name, sql);
        all.extend(message(b'S', b""));
        self.send(&all)?;
        let answer = self.answer()?;
        Client::accepted(answer, sql).map(drop)
    }

    /// Hands rows in the format of `copy` to a table.
    ///
    /// # Errors
    /// When the connection breaks, or the server does not take them.
    pub fn copy_in(&mut self, sql: &str, lines: &[u8]) -> Result<(), BenchError> {
        let mut query = Vec::new();
        put_text(&mut query, sql);
        self.send(&message(b'Q', &query))?;
        let mut answer = Answer::default();
        loop {
            let (kind, body) = self.message()?;
            if kind == b'G' {
                break;
            }
            match take(kind, &body, &mut answer) {
                Some(false) => {}
                // It ended without asking for rows: an error of the statement.
                _ => return Client::accepted(answer, sql).map(drop),
            }
        }
        for piece in lines.chunks(COPY_BYTES) {
            self.send(&message(b'd', piece))?;
        }
        self.send(&message(b'c', b""))?;
        let answer = self.answer()?;
        Client::accepted(answer, sql).map(drop)
    }

    /// Shows every row of a statement's answer without keeping them.
    ///
    /// # Errors
    /// When the connection breaks, the statement fails, or `each` does.
    pub fn each_row(
        &mut self,
        sql: &str,
        mut each: impl FnMut(&[Option<String>]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut query = Vec::new();
        put_text(&mut query, sql);
        self.send(&message(b'Q', &query))?;
        let mut answer = Answer::default();
        let mut failure = None;
        loop {
            let (kind, body) = self.message()?;
            match take(kind, &body, &mut answer) {
                Some(true) => break,
                Some(false) => {}
                None => return Err(failed("protocol", "a message that cannot be read")),
            }
            for row in answer.rows.drain(..) {
                if failure.is_none() {
                    failure = each(&row).err();
                }
            }
        }
        Client::accepted(answer, sql)?;
        failure.map_or(Ok(()), Err)
    }

    /// Runs a statement whose answer does not matter but must not be an error.
    ///
    /// # Errors
    /// When it is one.
    pub fn run(&mut self, sql: &str) -> Result<Answer, BenchError> {
        let answer = self.simple(sql)?;
        Client::accepted(answer, sql)
    }

    /// An answer that is no error.
    fn accepted(answer: Answer, sql: &str) -> Result<Answer, BenchError> {
        match &answer.error {
            None => Ok(answer),
            Some((state, words)) => Err(failed("postgres", format!("{words} ({state}) in: {}", cut(sql)))),
        }
    }

    /// Numbers of the first row of a statement's answer.
    ///
    /// # Errors
    /// When it fails, or gives something else.
    pub fn numbers(&mut self, sql: &str) -> Result<Vec<i64>, BenchError> {
        let answer = self.run(sql)?;
        let first = answer.rows.first().map_or(&[][..], Vec::as_slice);
        let numbers: Option<Vec<i64>> = first.iter().map(|value| value.as_ref()?.parse().ok()).collect();
        numbers
            .filter(|numbers| !numbers.is_empty())
            .ok_or_else(|| failed("postgres", format!("no numbers from: {}", cut(sql))))
    }

    /// The connection alone, for messages of one's own.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let sent = self.stream.write_all(bytes);
        sent.map_err(|source| BenchError::io("could not write to the server", source))
    }

    /// Everything up to the next ReadyForQuery, or up to an error after which the server hangs up.
    fn answer(&mut self) -> Result<Answer, BenchError> {
        let mut answer = Answer::default();
        loop {
            let (kind, body) = match self.message() {
                Ok(message) => message,
                // A server that refuses a login hangs up after the error.
                Err(_) if answer.error.is_some() => return Ok(answer),
                Err(error) => return Err(error),
            };
            match take(kind, &body, &mut answer) {
                Some(true) => return Ok(answer),
                Some(false) => {}
                None => {
                    let kind = char::from(kind).escape_default();
                    return Err(failed(
                        "protocol",
                        format!("a message {kind} that cannot be read"),
                    ));
                }
            }
        }
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), BenchError> {
        self.fill(5)?;
        let head = &self.input[self.from..self.from + 5];
        let kind = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(failed("protocol", format!("a message of {length} bytes")));
        }
        self.fill(1 + length)?;
        let body = self.input[self.from + 5..self.from + 1 + length].to_vec();
        self.from += 1 + length;
        Ok((kind, body))
    }

    /// Reads until `wanted` bytes are there.
    fn fill(&mut self, wanted: usize) -> Result<(), BenchError> {
        while self.input.len() - self.from < wanted {
            self.input.drain(..self.from);
            self.from = 0;
            let mut piece = [0; 8192];
            let read = self
                .stream
                .read(&mut piece)
                .map_err(|source| BenchError::io("could not read from the server", source))?;
            if read == 0 {
                return Err(failed("protocol", "the server hung up"));
            }
            self.input.extend(&piece[..read]);
        }
        Ok(())
    }
}

/// The beginning of a statement, for an error.
fn cut(sql: &str) -> String {
    sql.chars().take(200).collect()
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

/// A message.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// Parse.
pub fn parsed(name: &str, sql: &str) -> Vec<u8> {
    let mut parse = Vec::new();
    put_text(&mut parse, name);
    put_text(&mut parse, sql);
    parse.extend(0u16.to_be_bytes());
    message(b'P', &parse)
}

/// Bind, Describe, Execute and Sync.
fn bound(name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<Option<&str>> = values.iter().copied().map(Some).collect();
    executed(name, &values, true)
}

/// Bind, Describe if the columns are wanted, Execute and Sync.
fn executed(name: &str, values: &[Option<&str>], described: bool) -> Vec<u8> {
    let mut bind = vec![0];
    put_text(&mut bind, name);
    bind.extend(0u16.to_be_bytes());
    bind.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            Some(value) => {
                bind.extend((value.len() as u32).to_be_bytes());
                bind.extend(value.as_bytes());
            }
            None => bind.extend(u32::MAX.to_be_bytes()),
        }
    }
    bind.extend(0u16.to_be_bytes());
    let mut all = message(b'B', &bind);
    if described {
        all.extend(message(b'D', b"P\0"));
    }
    all.extend(message(b'E', &[0, 0, 0, 0, 0]));
    all.extend(message(b'S', b""));
    all
}

/// Adds a message to the answer: whether it is the last one; `None` if it cannot be understood.
fn take(kind: u8, body: &[u8], answer: &mut Answer) -> Option<bool> {
    let mut body = Body(body);
    match kind {
        b'Z' => return Some(true),
        b'R' => {
            // Anything but "ok" would be a password asked for, and nobody here has one.
            if body.number()? != 0 {
                answer.error = Some(("28000".to_owned(), "it asks for a password".to_owned()));
                return Some(true);
            }
        }
        b'T' => {
            let count = body.short()?;
            let mut columns = Vec::new();
            for _ in 0..count {
                let name = body.text()?;
                body.bytes(6)?;
                let kind = body.number()?;
                body.bytes(8)?;
                columns.push((name, kind));
            }
            answer.columns.push(columns);
        }
        b'D' => {
            let count = body.short()?;
            let mut row = Vec::new();
            for _ in 0..count {
                let length = body.number()?;
                row.push(match length {
                    u32::MAX => None,
                    length => Some(String::from_utf8_lossy(body.bytes(length as usize)?).into_owned()),
                });
            }
            answer.rows.push(row);
        }
        b'C' => answer.tags.push(body.text()?),
        b'E' => {
            let (mut state, mut words) = (String::new(), String::new());
            loop {
                match body.bytes(1)?[0] {
                    0 => break,
                    b'C' => state = body.text()?,
                    b'M' => words = body.text()?,
                    _ => drop(body.text()?),
                }
            }
            answer.error = Some((state, words));
        }
        // Notices, parameters, cancel keys, and the acknowledgements of the extended protocol.
        b'N' | b'S' | b'K' | b'1' | b'2' | b'3' | b'n' | b'I' | b't' | b's' => {}
        _ => return None,
    }
    Some(false)
}

/// A message's body, read from its beginning; `None` past its end.
struct Body<'b>(&'b [u8]);

impl<'b> Body<'b> {
    fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.0.iter().position(|&byte| byte == 0)?;
        let text = String::from_utf8_lossy(self.bytes(length)?).into_owned();
        self.bytes(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests;
