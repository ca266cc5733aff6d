//! [`WireClient`]: the protocol itself, for tests that compare all that a server says: columns, rows, tags, errors, the transaction's state.
//!
//! It blocks, and knows no more than queries without parameters and logins that need no password. What it is not: a driver.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection that is logged in.
pub struct WireClient {
    socket: BufReader<TcpStream>,
    /// `I`, `T` or `E`, as the last ReadyForQuery said.
    pub state: char,
}

/// What a server says to one simple query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Names of the columns of the last result.
    pub columns: Vec<String>,
    /// Oids of their types.
    pub types: Vec<u32>,
    /// All rows.
    pub rows: Vec<Vec<Option<String>>>,
    /// All tags.
    pub tags: Vec<String>,
    /// SQLSTATE and message.
    pub error: Option<(String, String)>,
    /// The transaction's state.
    pub state: char,
}

fn gone(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

impl WireClient {
    /// Logs in at a port of 127.0.0.1.
    ///
    /// # Errors
    /// The socket's; a server that wants a password or lets nobody in.
    pub fn connect(port: u16, user: &str, database: &str) -> io::Result<WireClient> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut client = WireClient {
            socket: BufReader::new(socket),
            state: 'I',
        };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for word in ["user", user, "database", database, "client_encoding", "UTF8"] {
            body.extend(word.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut packet = u32::try_from(body.len() + 4)
            .map_err(io::Error::other)?
            .to_be_bytes()
            .to_vec();
        packet.extend(body);
        client.socket.get_mut().write_all(&packet)?;
        let said = client.answer()?;
        match said.error {
            None => Ok(client),
            Some((code, message)) => Err(gone(&format!("{code} {message}"))),
        }
    }

    /// Runs a text.
    ///
    /// # Errors
    /// The connection has ended: then it is not known whether the text was carried out.
    pub fn query(&mut self, sql: &str) -> io::Result<Said> {
        let length = u32::try_from(sql.len() + 5).map_err(io::Error::other)?;
        let mut packet = vec![b'Q'];
        packet.extend(length.to_be_bytes());
        packet.extend(sql.as_bytes());
        packet.push(0);
        self.socket.get_mut().write_all(&packet)?;
        self.answer()
    }

    /// Runs one statement by the extended protocol, unnamed and without parameters.
    ///
    /// # Errors
    /// As [`WireClient::query`].
    pub fn extended(&mut self, sql: &str) -> io::Result<Said> {
        let mut packet = Vec::new();
        let mut message = |tag: u8, body: &[&[u8]]| {
            let length: usize = body.iter().map(|part| part.len()).sum();
            packet.push(tag);
            packet.extend((length as u32 + 4).to_be_bytes());
            body.iter().for_each(|part| packet.extend(*part));
        };
        message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"]);
        message(b'B', &[b"\0\0\0\0\0\0\0\0"]);
        message(b'D', &[b"P\0"]);
        message(b'E', &[b"\0\0\0\0\0"]);
        message(b'S', &[]);
        self.socket.get_mut().write_all(&packet)?;
        self.answer()
    }

    /// All messages up to ReadyForQuery.
    fn answer(&mut self) -> io::Result<Said> {
        let mut said = Said::default();
        loop {
            let mut head = [0; 5];
            self.socket.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length.checked_sub(4).ok_or_else(|| gone("a length"))?];
            self.socket.read_exact(&mut body)?;
            let mut body = Body(&body);
            match head[0] {
                b'R' if body.number()? != 0 => return Err(gone("a password is wanted")),
                b'T' => {
                    (said.columns, said.types) = (Vec::new(), Vec::new());
                    for _ in 0..body.short()? {
                        said.columns.push(body.text()?);
                        body.take(6)?;
                        said.types.push(body.number()?);
                        body.take(8)?;
                    }
                }
                b'D' => {
                    let count = body.short()?;
                    let row = (0..count).map(|_| match body.number()? {
                        u32::MAX => Ok(None),
                        length => {
                            let field = body.take(length as usize)?;
                            Ok(Some(String::from_utf8_lossy(field).into_owned()))
                        }
                    });
                    let row: io::Result<_> = row.collect();
                    said.rows.push(row?);
                }
                b'C' => said.tags.push(body.text()?),
                b'I' => said.tags.push(String::new()),
                b'G' => return Err(gone("COPY is not for this client")),
                b'E' => {
                    let (mut code, mut message) = (String::new(), String::new());
                    loop {
                        match body.take(1)?[0] {
                            0 => break,
                            b'C' => code = body.text()?,
                            b'M' => message = body.text()?,
                            _ => _ = body.text()?,
                        }
                    }
                    said.error = Some((code, message));
                }
                b'Z' => {
                    self.state = char::from(body.take(1)?[0]);
                    said.state = self.state;
                    return Ok(said);
                }
                _ => {}
            }
        }
    }
}

struct Body<'b>(&'b [u8]);

impl<'b> Body<'b> {
    fn take(&mut self, bytes: usize) -> io::Result<&'b [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| gone("a short message"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn short(&mut self) -> io::Result<u16> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn number(&mut self) -> io::Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = self.take(end.ok_or_else(|| gone("a text without an end"))?)?;
        self.take(1)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}
