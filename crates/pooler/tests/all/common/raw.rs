//! A client that sends exactly the bytes a test gives it and shows every message that comes back.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};

pub use super::message::Rows;
use super::message::{self, Message, errors};
use super::scram::Scram;
pub use super::wait::PATIENCE;

/// A row by the names of its columns, null as the empty text.
pub type Row = BTreeMap<String, String>;

/// A column that is a number.
pub fn number<T: FromStr>(row: &Row, column: &str) -> T {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column} is no number: {row:#?}"))
}

/// The first value of the last row.
pub fn last_value(mut rows: Rows) -> Option<String> {
    rows.pop()?.into_iter().next()?
}

/// Who logs in where, and how.
#[derive(Clone)]
pub struct Login {
    pub host: String,
    /// Folder of a socket, in place of host and port.
    pub socket: Option<PathBuf>,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub database: String,
    /// More startup parameters.
    pub parameters: Vec<(String, String)>,
    /// Ask for TLS, and trust what this says.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Protocol 3.this.
    pub minor: u16,
}

impl Login {
    /// Database `app`, the usual password.
    pub fn new(host: &str, port: u16, user: &str) -> Login {
        Login {
            host: host.to_owned(),
            socket: None,
            port,
            user: user.to_owned(),
            password: super::postgres::PASSWORD.to_owned(),
            database: "app".to_owned(),
            parameters: Vec::new(),
            tls: None,
            minor: 0,
        }
    }

    /// The same as another user.
    pub fn user(mut self, user: &str) -> Login {
        self.user = user.to_owned();
        self
    }

    /// The same with another password.
    pub fn password(mut self, password: &str) -> Login {
        self.password = password.to_owned();
        self
    }

    /// The same in another database.
    pub fn database(mut self, database: &str) -> Login {
        self.database = database.to_owned();
        self
    }

    /// The same with one more startup parameter.
    pub fn parameter(mut self, name: &str, value: &str) -> Login {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its startup message.
    fn startup(&self) -> Vec<u8> {
        let mut parameters = vec![("user", &*self.user), ("database", &*self.database)];
        let more = self.parameters.iter();
        parameters.extend(more.map(|(name, value)| (name.as_str(), value.as_str())));
        message::startup(self.minor, &parameters)
    }

    /// What tokio-postgres understands; it knows few startup parameters, `application_name` among them.
    pub fn for_driver(&self) -> String {
        let parameters = self
            .parameters
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        format!(
            "host={} port={} user={} password={} dbname={} connect_timeout=10{}",
            self.host,
            self.port,
            self.user,
            self.password,
            self.database,
            parameters.collect::<String>()
        )
    }
}

trait Both: Read + Write + Send {
    fn set_patience(&self, patience: Duration) -> io::Result<()>;

    /// Another handle that writes.
    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Both for TcpStream {
    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Both for UnixStream {
    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Both for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.sock.set_read_timeout(Some(patience))
    }
}

/// A connection.
pub struct Raw {
    link: Box<dyn Both>,
    buffer: Vec<u8>,
    start: usize,
    /// What the server has reported last, by name.
    pub parameters: BTreeMap<String, String>,
    /// Process and secret of `BackendKeyData`.
    pub key: (u32, Vec<u8>),
    /// Hash of the server's certificate, over TLS.
    pub certificate: Option<Vec<u8>>,
}

fn broken(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

impl Raw {
    /// Only the connection; nothing is sent, but for TLS where the login asks for it.
    pub fn open(login: &Login) -> io::Result<Raw> {
        let mut certificate = None;
        let link: Box<dyn Both> = match (&login.socket, &login.tls) {
            (Some(folder), _) => Box::new(UnixStream::connect(
                folder.join(format!(".s.PGSQL.{}", login.port)),
            )?),
            (None, tls) => {
                let mut tcp = TcpStream::connect((login.host.as_str(), login.port))?;
                tcp.set_nodelay(true)?;
                match tls {
                    None => Box::new(tcp),
                    Some(config) => {
                        tcp.set_patience(PATIENCE)?;
                        tcp.write_all(&message::ssl_request())?;
                        let mut answer = [0];
                        tcp.read_exact(&mut answer)?;
                        if answer != *b"S" {
                            return Err(broken("the server does not want TLS"));
                        }
                        let name =
                            rustls::pki_types::ServerName::try_from("localhost").map_err(io::Error::other)?;
                        let mut session = rustls::ClientConnection::new(Arc::clone(config), name)
                            .map_err(io::Error::other)?;
                        while session.is_handshaking() {
                            session.complete_io(&mut tcp)?;
                        }
                        certificate =
                            session
                                .peer_certificates()
                                .and_then(|chain| chain.first())
                                .map(|first| {
                                    ring::digest::digest(&ring::digest::SHA256, first)
                                        .as_ref()
                                        .to_vec()
                                });
                        Box::new(rustls::StreamOwned::new(session, tcp))
                    }
                }
            }
        };
        link.set_patience(PATIENCE)?;
        Ok(Raw {
            link,
            buffer: Vec::new(),
            start: 0,
            parameters: BTreeMap::new(),
            key: (0, Vec::new()),
            certificate,
        })
    }

    /// The connection with a startup message on its way, and no answer to anything that is asked.
    pub fn started(login: &Login) -> Raw {
        let mut raw = Raw::open(login).unwrap_or_else(|error| panic!("nobody listens: {error}"));
        raw.send(&login.startup());
        raw
    }

    /// Logs in up to the first `ReadyForQuery`. An error of the server comes back as text `CODE message`.
    pub fn connect(login: &Login) -> io::Result<Raw> {
        let mut raw = Raw::open(login)?;
        raw.log_in(login)?;
        Ok(raw)
    }

    fn log_in(&mut self, login: &Login) -> io::Result<()> {
        self.try_send(&login.startup())?;
        let mut scram = None;
        let mut signature = None;
        loop {
            let answer = self.read()?;
            match (answer.tag, if answer.tag == b'R' { answer.u32_at(0) } else { 0 }) {
                (b'Z', _) => return Ok(()),
                (b'E', _) => {
                    return Err(broken(answer.error()));
                }
                (b'R', 0) => {}
                (b'R', 3) => self.try_send(&password(&login.password))?,
                (b'R', 5) => {
                    let hex =
                        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                    let inner = hex(&Md5::digest(format!("{}{}", login.password, login.user)));
                    let outer = hex(&Md5::digest([inner.as_bytes(), &answer.body[4..8]].concat()));
                    self.try_send(&password(&format!("md5{outer}")))?;
                }
                (b'R', 10) => {
                    let nonce = format!("test{:?}", Instant::now()).replace([' ', ',', '{', '}', ':'], "");
                    let offered = String::from_utf8_lossy(&answer.body[4..]).into_owned();
                    let plus = offered.split('\0').any(|name| name == "SCRAM-SHA-256-PLUS");
                    let (conversation, mechanism) = match (&self.certificate, plus) {
                        (Some(hash), true) => (Scram::bound(&nonce, hash), "SCRAM-SHA-256-PLUS"),
                        (Some(_), false) => (Scram::new(&nonce, "y,,"), "SCRAM-SHA-256"),
                        _ => (Scram::new(&nonce, "n,,"), "SCRAM-SHA-256"),
                    };
                    self.try_send(&message::message(b'p', &conversation.first(mechanism)))?;
                    scram = Some(conversation);
                }
                (b'R', 11) => {
                    let first = String::from_utf8_lossy(&answer.body[4..]).into_owned();
                    let (last, expected) = scram
                        .as_ref()
                        .and_then(|scram| scram.last(&first, &login.password))
                        .ok_or_else(|| broken("not a SCRAM message"))?;
                    signature = Some(expected);
                    self.try_send(&message::message(b'p', last.as_bytes()))?;
                }
                (b'R', 12) if signature.as_deref() != std::str::from_utf8(&answer.body[4..]).ok() => {
                    return Err(broken("the server's signature is wrong"));
                }
                _ => {}
            }
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("sent");
    }

    /// The same where the other side may be gone.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.link.write_all(bytes)?;
        self.link.flush()
    }

    /// Sends a simple query and does not wait for its answer.
    pub fn send_query(&mut self, sql: &str) {
        self.send(&message::query(sql));
    }

    /// What another thread sends with while this one reads. Not over TLS.
    pub fn writer(&self) -> Box<dyn Write + Send> {
        self.link.writer().expect("a socket that can be shared")
    }

    /// How long [`Raw::read`] waits.
    pub fn set_patience(&mut self, patience: Duration) {
        self.link.set_patience(patience).expect("read timeout");
    }

    /// The next message; an error of kind `UnexpectedEof` if the server has closed, `WouldBlock` if it is silent for too long.
    pub fn read(&mut self) -> io::Result<Message> {
        loop {
            let have = &self.buffer[self.start..];
            if have.len() >= 5 {
                let length = u32::from_be_bytes([have[1], have[2], have[3], have[4]]) as usize;
                if !(4..1 << 30).contains(&length) {
                    return Err(broken(format!(
                        "a message of {length} bytes: {:02x?}",
                        &have[..5]
                    )));
                }
                if have.len() > length {
                    let message = Message {
                        tag: have[0],
                        body: have[5..=length].to_vec(),
                    };
                    self.start += length + 1;
                    self.note(&message);
                    return Ok(message);
                }
            }
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let mut more = [0; 16 * 1024];
            let count = match self.link.read(&mut more) {
                // A signal to the process, or a machine that was frozen for a while, is no answer.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&more[..count]);
        }
    }

    fn note(&mut self, message: &Message) {
        match message.tag {
            b'S' => {
                let mut texts = message.texts().into_iter();
                if let (Some(name), Some(value)) = (texts.next(), texts.next()) {
                    self.parameters.insert(name, value);
                }
            }
            b'K' => self.key = (message.u32_at(0), message.body[4..].to_vec()),
            _ => {}
        }
    }

    /// Messages up to and with `ReadyForQuery`. Panics if the server hangs or closes: what had come is in the message.
    pub fn until_ready(&mut self) -> Vec<Message> {
        self.until(|seen| seen.last().is_some_and(|message| message.tag == b'Z'))
    }

    /// Messages until those seen are enough. Panics if the server hangs or closes.
    pub fn until(&mut self, enough: impl Fn(&[Message]) -> bool) -> Vec<Message> {
        let mut seen = Vec::new();
        while !enough(&seen) {
            match self.read() {
                Ok(message) => seen.push(message),
                Err(error) => panic!("{error} after {seen:#?}"),
            }
        }
        seen
    }

    /// Messages until the connection ends, which must be soon; what comes is bounded.
    pub fn until_closed(&mut self) -> Vec<Message> {
        let mut seen = Vec::new();
        loop {
            match self.read() {
                Ok(message) => seen.push(message),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    panic!("the connection stays open after {seen:#?}")
                }
                Err(_) => return seen,
            }
            assert!(seen.len() < 10_000, "the server does not stop");
        }
    }

    /// Runs a simple query: every message, as lines.
    pub fn lines(&mut self, sql: &str) -> Vec<String> {
        self.ask(&message::query(sql))
    }

    /// Sends bytes that end in one `ReadyForQuery`: every message of the answer, as lines.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<String> {
        self.send(bytes);
        message::shown(&self.until_ready())
    }

    /// Runs a simple query that must succeed: its rows.
    pub fn rows(&mut self, sql: &str) -> Rows {
        self.try_rows(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs a simple query: its rows, or code and message of the first error.
    pub fn try_rows(&mut self, sql: &str) -> Result<Rows, String> {
        self.try_ask(&message::query(sql))
    }

    /// Sends bytes that end in one `ReadyForQuery`: the rows of the answer, or code and message of the first error.
    pub fn try_ask(&mut self, bytes: &[u8]) -> Result<Rows, String> {
        self.try_send(bytes).map_err(|error| error.to_string())?;
        let mut rows = Vec::new();
        let mut failed = None;
        loop {
            let answer = self
                .read()
                .map_err(|error| failed.take().unwrap_or_else(|| error.to_string()))?;
            match answer.tag {
                b'D' => rows.push(answer.columns()),
                b'E' if failed.is_none() => {
                    failed = Some(answer.error());
                }
                b'Z' => return failed.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// Runs a simple query that must fail with this SQLSTATE.
    #[track_caller]
    pub fn assert_fails(&mut self, sql: &str, code: &str) {
        let answer = self.try_rows(sql);
        let failed = answer.as_ref().is_err_and(|error| error.starts_with(code));
        assert!(failed, "{sql} must fail with {code}: {answer:?}");
    }

    /// Runs a simple query that must succeed: each row by the names of its columns, null as the empty text.
    pub fn table(&mut self, sql: &str) -> Vec<Row> {
        self.send_query(sql);
        let messages = self.until_ready();
        assert_eq!(errors(&messages), [""; 0], "{sql}: {messages:?}");
        let names: Vec<String> = messages
            .iter()
            .find(|message| message.tag == b'T')
            .map(Message::column_names)
            .unwrap_or_default();
        message::rows(&messages)
            .into_iter()
            .map(|row| {
                let texts = row.into_iter().map(Option::unwrap_or_default);
                names.iter().cloned().zip(texts).collect()
            })
            .collect()
    }

    /// Runs a simple query that must give one value or null as its last row.
    pub fn value(&mut self, sql: &str) -> String {
        last_value(self.rows(sql)).unwrap_or_else(|| "null".to_owned())
    }

    /// The same where the value is a number.
    pub fn number<T: FromStr>(&mut self, sql: &str) -> T {
        let value = self.value(sql);
        value
            .parse()
            .unwrap_or_else(|_| panic!("{sql}: {value} is no number"))
    }
}

/// `PasswordMessage`.
fn password(text: &str) -> Vec<u8> {
    message::message(b'p', &[text.as_bytes(), &[0]].concat())
}
