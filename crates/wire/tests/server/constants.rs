//! The server: an engine of a few texts behind `corun-wire` and the reactor of `corun-net`.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use corun_net::reactor::{Epoll, Event, Handler, ListenOptions, Listener, Peer, Reactor, Token};
use corun_wire::auth::Mock;
use corun_wire::auth::hba::Rules;
use corun_wire::auth::ident::IdentMaps;
use corun_wire::auth::scram::same;
use corun_wire::auth::userlist::Userlist;
use corun_wire::error::{Refusal, code};
use corun_wire::server::{
    Action, Column, Connection, Executed, Limits, Login, LoginAction, Message, Policy, ResultFormats,
    Session, database_asked_for, welcome,
};
use corun_wire::tls::{TlsFiles, TlsMode, TlsServer};
use corun_wire::transport::Transport;
use corun_wire::values::{CopyFormat, CopyIn, CopyOptions, CopyOut, Kind, Row, Type, Value, write};
use corun_wire::{TransactionStatus, backend, build, frontend};
use ring::rand::{SecureRandom as _, SystemRandom};

const ZONE: corun_wire::values::FixedOffset = corun_wire::values::FixedOffset::UTC;

/// What tests see of a server.
#[derive(Default)]
struct Seen {
    keys: Mutex<Vec<(u32, Vec<u8>)>>,
    sleeping: AtomicUsize,
    refused_cancels: AtomicUsize,
    stop: AtomicBool,
}

/// A server on a thread of its own.
pub struct Running {
    address: SocketAddr,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a server that lets user `ann` in with password `secret`, by these rules.
    pub fn start(rules: &str) -> Self {
        let mut reactor = Epoll::new().expect("a reactor");
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::tcp(any, &ListenOptions::default()).expect("a listener");
        let address = listener.local().expect("an address of TCP");
        reactor.listen(0, listener).expect("listens");
        let seen = Arc::new(Seen::default());
        let mut server = Server::new(rules, Arc::clone(&seen));
        let stop = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            while !stop.stop.load(Ordering::Relaxed) {
                reactor
                    .turn(Some(Duration::from_millis(20)), &mut server)
                    .expect("turns");
            }
        });
        Self {
            address,
            seen,
            thread: Some(thread),
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Number and secret of the client that logged in last.
    pub fn last_key(&self) -> (u32, Vec<u8>) {
        self.seen
            .keys
            .lock()
            .expect("no panic")
            .last()
            .cloned()
            .expect("a client")
    }

    pub fn sleeping(&self) -> usize {
        self.seen.sleeping.load(Ordering::Acquire)
    }

    pub fn refused_cancels(&self) -> usize {
        self.seen.refused_cancels.load(Ordering::Acquire)
    }

    /// Sends a cancel request that nobody should follow, and waits until the server has closed.
    pub fn cancel_with_wrong_secret(&self, pid: u32) {
        let mut request = Vec::new();
        build::cancel(&mut request, pid, &[0; 4]);
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.write_all(&request).expect("sent");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

struct Client {
    transport: Transport,
    /// Until it has logged in.
    login: Option<Login>,
    session: Session<String, Portal>,
    received: Vec<u8>,
    copy: Option<(CopyIn, u64)>,
    sleeps: bool,
    key: (u32, Vec<u8>),
}

struct Portal {
    sql: String,
    parameters: Vec<Option<Value<'static>>>,
    formats: ResultFormats,
    returned: usize,
}

struct Server {
    rules: Rules,
    maps: IdentMaps,
    users: Userlist,
    mock: Mock,
    random: SystemRandom,
    tls: TlsServer,
    clients: HashMap<Token, Client>,
    next: Token,
    limits: Limits,
    seen: Arc<Seen>,
}

/// A server's session of TLS with a certificate made for it.
fn tls() -> TlsServer {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (cert, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    TlsServer::load(&TlsFiles {
        mode: TlsMode::Prefer,
        cert: Some(cert),
        key: Some(key),
        ..TlsFiles::default()
    })
    .expect("certificate and key")
}

impl Server {
    fn new(rules: &str, seen: Arc<Seen>) -> Self {
        let random = SystemRandom::new();
        let users = Userlist::parse(b"\"ann\" \"secret\"", Path::new("users")).expect("users");
        Self {
            rules: Rules::parse(rules, Path::new("rules")).expect("rules"),
            maps: IdentMaps::default(),
            mock: users.mock(&random).expect("random numbers"),
            users,
            random,
            tls: tls(),
            clients: HashMap::new(),
            next: 0,
            limits: Limits::default(),
            seen,
        }
    }

    /// Bytes of a client, over TLS or not.
    fn data(&mut self, reactor: &mut Epoll, token: Token, bytes: &[u8]) {
        let Some(mut client) = self.clients.remove(&token) else {
            return;
        };
        let mut plain = Vec::new();
        let opened = client.transport.open(reactor, bytes, &mut plain);
        let stays = opened.is_ok() && self.plain(reactor, &mut client, &plain);
        if stays {
            self.clients.insert(token, client);
        } else {
            client.transport.end(reactor);
            reactor.close_after_drain(token, Duration::from_secs(5));
        }
    }

    /// What a client says. Returns whether the connection goes on.
    fn plain(&mut self, reactor: &mut Epoll, client: &mut Client, plain: &[u8]) -> bool {
        let Some(mut login) = client.login.take() else {
            client.received.extend(plain);
            return self.serve(reactor, client);
        };
        if login.received(plain).is_err() {
            return false;
        }
        loop {
            let address = match reactor.peer(client.transport.token) {
                Some(Peer::Tcp(address)) => Some(address.ip()),
                _ => None,
            };
            let policy = Policy {
                rules: &self.rules,
                maps: &self.maps,
                users: &self.users,
                database: &database_asked_for,
                mock: &self.mock,
                random: &self.random,
                offers_tls: true,
                requires_tls: false,
            };
            let connection = Connection {
                address,
                tls: client.transport.tls.as_deref(),
                os_user: None,
            };
            match login.next(&connection, &policy) {
                LoginAction::More => {
                    client.login = Some(login);
                    return true;
                }
                LoginAction::Send(bytes) => client.transport.send(reactor, &bytes),
                LoginAction::BeginTls { answer, received } => {
                    if answer {
                        client.transport.send(reactor, b"S");
                    }
                    client.transport.tls = Some(Box::new(self.tls.accept().expect("a session")));
                    let mut plain = Vec::new();
                    let opened = client.transport.open(reactor, &received, &mut plain);
                    if opened.is_err() || login.received(&plain).is_err() {
                        return false;
                    }
                }
                LoginAction::Cancel { pid, secret } => {
                    self.cancel(reactor, pid, &secret);
                    return false;
                }
                LoginAction::Refused(denial) => {
                    let mut out = Vec::new();
                    build::fatal(&mut out, &denial.refusal);
                    client.transport.send(reactor, &out);
                    return false;
                }
                LoginAction::Gone => return false,
                LoginAction::Entered(entered) => {
                    let mut secret = vec![0; entered.startup.secret_bytes()];
                    self.random.fill(&mut secret).expect("random numbers");
                    client.key = (client.transport.token as u32, secret);
                    self.seen.keys.lock().expect("no panic").push(client.key.clone());
                    let parameters = [
                        ("server_version", "15.0"),
                        ("server_encoding", "UTF8"),
                        ("client_encoding", "UTF8"),
                        ("DateStyle", "ISO, MDY"),
                        ("integer_datetimes", "on"),
                        ("standard_conforming_strings", "on"),
                    ];
                    let welcome = welcome(
                        &entered.startup,
                        parameters.into_iter(),
                        client.key.0,
                        &client.key.1,
                    );
                    client.transport.send(reactor, &[entered.send, welcome].concat());
                    client.received = entered.rest;
                    return self.serve(reactor, client);
                }
            }
        }
    }

    fn cancel(&mut self, reactor: &mut Epoll, pid: u32, secret: &[u8]) {
        let known = |client: &&mut Client| client.key.0 == pid && same(&client.key.1, secret);
        let Some(client) = self.clients.values_mut().find(known) else {
            self.seen.refused_cancels.fetch_add(1, Ordering::Release);
            return;
        };
        if std::mem::take(&mut client.sleeps) {
            let mut out = Vec::new();
            let what = "canceling statement due to user request";
            client
                .session
                .failed(&mut out, &Refusal::new(code::QUERY_CANCELED, what));
            client.transport.send(reactor, &out);
        }
    }

    fn serve(&mut self, reactor: &mut Epoll, client: &mut Client) -> bool {
        let mut out = Vec::new();
        let received = std::mem::take(&mut client.received);
        let mut rest = &received[..];
        let mut stays = true;
        while stays && !client.session.is_busy() {
            match Message::read(rest, &self.limits) {
                Ok(None) => break,
                Ok(Some((message, used))) => {
                    rest = &rest[used..];
                    stays = self.message(client, message, &mut out);
                }
                Err(malformed) => {
                    stays = !client.session.malformed(&malformed, &mut out);
                    rest = &rest[malformed.used.unwrap_or(rest.len())..];
                }
            }
        }
        client.received = rest.to_vec();
        client.transport.send(reactor, &out);
        stays
    }

    fn message(&self, client: &mut Client, message: Message<'_>, out: &mut Vec<u8>) -> bool {
        let action = client.session.message(message, out);
        let session = &mut client.session;
        match action {
            Action::Nothing | Action::Flush => {}
            Action::Terminate => return false,
            Action::Query { sql } => self.query(client, sql, out),
            Action::Parse(parse) => match columns(parse.sql) {
                Ok((parameters, columns)) => session.parsed(out, parse.sql.to_owned(), parameters, columns),
                Err(refusal) => session.failed(out, &refusal),
            },
            Action::Bind {
                statement,
                bind,
                formats,
            } => {
                let (types, _) = columns(&statement).expect("it was parsed");
                let given = bind.parameters().zip(types);
                let read = given.map(|((format, bytes), of)| {
                    let read = bytes.map(|bytes| Value::read(of, format, bytes, &ZONE));
                    Ok(read.transpose()?.map(Value::into_owned))
                });
                match read.collect::<Result<_, Refusal>>() {
                    Ok(parameters) => session.bound(
                        out,
                        Portal {
                            sql: statement,
                            parameters,
                            formats,
                            returned: 0,
                        },
                    ),
                    Err(refusal) => session.failed(out, &refusal),
                }
            }
            Action::Execute { mut portal, rows_max } => {
                let rows = portal.rows();
                let (all, left) = (rows.len(), rows.len() - portal.returned);
                let wanted = rows_max.map_or(left, |most| left.min(most as usize));
                for row in &rows[portal.returned..portal.returned + wanted] {
                    data_row(out, row, &portal.formats);
                }
                drop(rows);
                portal.returned += wanted;
                let status = transaction_of(&portal.sql);
                let tag = tag(&portal.sql, wanted);
                let how = match portal.returned < all || rows_max == Some(wanted as u32) {
                    true => Executed::Suspended,
                    false => Executed::Complete(&tag),
                };
                session.executed(out, portal, how);
                status
                    .into_iter()
                    .for_each(|status| session.set_transaction(status));
            }
            Action::Sync { .. } => session.ended(out),
            Action::CopyData(data) => {
                let (reader, rows) = client.copy.as_mut().expect("a copy");
                let mut count = |_: &[Option<Vec<u8>>]| {
                    *rows += 1;
                    Ok(())
                };
                if let Err(refusal) = reader.data(data, &mut count) {
                    session.failed(out, &refusal);
                }
            }
            Action::CopyDone => {
                let (mut reader, mut rows) = client.copy.take().expect("a copy");
                let mut count = |_: &[Option<Vec<u8>>]| {
                    rows += 1;
                    Ok(())
                };
                match reader.done(&mut count) {
                    Ok(()) => {
                        build::command_complete(out, &format!("COPY {rows}"));
                        session.query_done(out);
                    }
                    Err(refusal) => session.failed(out, &refusal),
                }
            }
            Action::CopyFail(refusal) => session.failed(out, &refusal),
        }
        true
    }

    /// A text of the simple protocol.
    fn query(&self, client: &mut Client, sql: &str, out: &mut Vec<u8>) {
        let sql = sql.trim_end_matches(';').trim();
        let session = &mut client.session;
        match sql {
            "" => build::bare(out, backend::EMPTY_QUERY),
            "sleep" => {
                client.sleeps = true;
                self.seen.sleeping.fetch_add(1, Ordering::Release);
                return;
            }
            "copy t from stdin" => {
                client.copy = Some((CopyIn::new(CopyOptions::of(CopyFormat::Text), 2, 1 << 20), 0));
                return session.copy_in(out, false, 2);
            }
            "copy t to stdout" => {
                build::copy_response(out, backend::COPY_OUT, false, 2);
                let writer = CopyOut::new(CopyOptions::of(CopyFormat::Text));
                for row in [[Some("1"), Some("a\tb")], [Some("2"), None]] {
                    build::message(out, frontend::COPY_DATA, |out| {
                        writer.row(out, row.iter().map(|field| field.map(str::as_bytes)));
                    });
                }
                build::bare(out, frontend::COPY_DONE);
                build::command_complete(out, "COPY 2");
            }
            sql => match columns(sql) {
                Err(refusal) => return session.failed(out, &refusal),
                Ok((_, columns)) => {
                    let portal = Portal {
                        sql: sql.to_owned(),
                        parameters: Vec::new(),
                        formats: ResultFormats::default(),
                        returned: 0,
                    };
                    let rows = portal.rows();
                    if let Some(columns) = &columns {
                        build::row_description_of(out, columns, &portal.formats);
                    }
                    rows.iter().for_each(|row| data_row(out, row, &portal.formats));
                    build::command_complete(out, &tag(sql, rows.len()));
                    transaction_of(sql)
                        .into_iter()
                        .for_each(|status| session.set_transaction(status));
                }
            },
        }
        client.session.query_done(out);
    }
}

/// Types of a text's parameters, and its columns.
type Described = (Vec<Type>, Option<Vec<Column>>);

/// Parameters and columns of a text that this engine knows.
fn columns(sql: &str) -> Result<Described, Refusal> {
    let column = |name: &str, of| Column::new(name, of);
    Ok(match sql.to_ascii_lowercase().as_str() {
        "select 1" => (Vec::new(), Some(vec![column("?column?", Type::INT4)])),
        "select $1::int8, $2::text" => {
            let types = vec![Type::INT8, Type::TEXT];
            (
                types,
                Some(vec![column("int8", Type::INT8), column("text", Type::TEXT)]),
            )
        }
        sql if sql.starts_with("rows ") => {
            let columns = vec![
                column("n", Type::INT8),
                column("name", Type::single(Kind::Varchar)),
            ];
            (Vec::new(), Some(columns))
        }
        sql if transaction_of(sql).is_some() => (Vec::new(), None),
        _ => {
            let refusal = Refusal::new("42703", "column \"x\" does not exist");
            return Err(refusal.hint("Try 1.").at(sql, sql.find('x').unwrap_or(0)));
        }
    })
}

fn transaction_of(sql: &str) -> Option<TransactionStatus> {
    match sql.to_ascii_lowercase().as_str() {
        "begin" | "start transaction" => Some(TransactionStatus::Open),
        "commit" | "rollback" => Some(TransactionStatus::Idle),
        _ => None,
    }
}

fn tag(sql: &str, rows: usize) -> String {
    match transaction_of(sql) {
        Some(_) => sql.to_ascii_uppercase(),
        None => format!("SELECT {rows}"),
    }
}

impl Portal {
    fn rows(&self) -> Vec<Vec<Option<Value<'_>>>> {
        let count: Option<i64> = self
            .sql
            .strip_prefix("rows ")
            .and_then(|count| count.parse().ok());
        let name = |at| (at % 3 != 0).then(|| Value::Text(format!("row {at}").into()));
        match count {
            Some(count) => (1..=count)
                .map(|at| vec![Some(Value::Int8(at)), name(at)])
                .collect(),
            None if !self.parameters.is_empty() => vec![self.parameters.clone()],
            None if self.sql == "select 1" => vec![vec![Some(Value::Int4(1))]],
            None => Vec::new(),
        }
    }
}

fn data_row(out: &mut Vec<u8>, values: &[Option<Value<'_>>], formats: &ResultFormats) {
    let mut row = Row::begin(out);
    for (at, value) in values.iter().enumerate() {
        let format = formats.of(at as u16);
        match value {
            None => row.null(),
            // As a server does that has the number at hand.
            Some(Value::Int8(number)) => row.field(|out| write::int8(out, format, *number)),
            Some(value) => row.field(|out| value.write(out, format, &ZONE)),
        }
    }
    row.finish();
}

impl Handler<Epoll> for Server {
    fn event(&mut self, reactor: &mut Epoll, event: Event<'_>) {
        match event {
            Event::Accepted { stream, .. } => {
                self.next += 1;
                if reactor.add(self.next, stream).is_err() {
                    return;
                }
                let client = Client {
                    transport: Transport::new(self.next),
                    login: Some(Login::new()),
                    session: Session::new(self.limits),
                    received: Vec::new(),
                    copy: None,
                    sleeps: false,
                    key: (0, Vec::new()),
                };
                self.clients.insert(self.next, client);
            }
            Event::Data { token, bytes } => self.data(reactor, token, bytes),
            Event::Closed { token, .. } => drop(self.clients.remove(&token)),
            _ => {}
        }
    }
}
