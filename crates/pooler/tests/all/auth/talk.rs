//! The two sides of the proxy over blocking sockets: no more than the tests of logins need.

use std::io::{Read, Write};
use std::net::TcpStream;

use corun_wire::auth::scram::ClientKeys;
use corun_wire::auth::server_login::LoginOptions;
use corun_wire::auth::{
    Authenticator, Credentials, Facts, LoginStep, Lookup, Method, Mock, Secret, ServerLogin, Step, TlsFacts,
};
use corun_wire::error::Reported;
use corun_wire::startup::Packet;
use corun_wire::tls::negotiate::{self, Answer};
use corun_wire::tls::{Progress, TlsClient, TlsServer, TlsSession};
use corun_wire::{TransactionStatus, backend, build, frontend};
use ring::rand::SystemRandom;

use crate::common::wait::PATIENCE;

/// A connection, with TLS or without.
pub struct Wire {
    socket: TcpStream,
    pub tls: Option<TlsSession>,
    plain: Vec<u8>,
}

impl Wire {
    fn new(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            tls: None,
            plain: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let mut cipher = Vec::new();
        match &mut self.tls {
            Some(tls) => tls.send(bytes, &mut cipher),
            None => cipher.extend(bytes),
        }
        let _ = self.socket.write_all(&cipher);
    }

    /// Reads once; an error is the end of the connection.
    fn more(&mut self) -> Result<(), String> {
        let mut buffer = [0; 4096];
        let read = loop {
            match self.socket.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| error.to_string())?,
            }
        };
        if read == 0 {
            return Err("closed".into());
        }
        let Some(tls) = &mut self.tls else {
            self.plain.extend(&buffer[..read]);
            return Ok(());
        };
        let mut reply = Vec::new();
        let progress = tls.received(&buffer[..read], &mut self.plain, &mut reply);
        let _ = self.socket.write_all(&reply);
        match progress.map_err(|error| error.to_string())? {
            Progress::PeerClosed if self.plain.is_empty() => Err("closed".into()),
            _ => Ok(()),
        }
    }

    fn handshake(&mut self) -> Result<(), String> {
        self.send(b"");
        while self.tls.as_ref().is_some_and(TlsSession::is_handshaking) {
            self.more()?;
        }
        Ok(())
    }

    /// The next message: its tag and its body.
    pub fn message(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some(header) = corun_wire::header(&self.plain).map_err(|error| error.to_string())?
                && self.plain.len() >= header.total
            {
                let message: Vec<u8> = self.plain.drain(..header.total).collect();
                return Ok((header.tag, message[corun_wire::HEADER_BYTES..].to_vec()));
            }
            self.more()?;
        }
    }

    fn packet(&mut self) -> Result<Packet, String> {
        loop {
            if let Some((packet, taken)) = Packet::read(&self.plain).map_err(|error| error.to_string())? {
                self.plain.drain(..taken);
                return Ok(packet);
            }
            self.more()?;
        }
    }
}

/// Logs in to a server; returns the keys learnt and whether the login was bound to TLS, or what the server or we had against it.
pub fn login(
    port: u16,
    user: &str,
    credentials: Credentials,
    tls: Option<&TlsClient>,
) -> Result<(Option<ClientKeys>, bool), String> {
    let mut wire = Wire::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    if let Some(client) = tls {
        wire.send(&build::SSL_REQUEST);
        wire.more()?;
        let answer = negotiate::answer(&wire.plain).map_err(|error| error.to_string())?;
        if answer != Some(Answer::Tls) {
            return Err("no TLS there".into());
        }
        wire.plain.clear();
        wire.tls = Some(client.connect("127.0.0.1").map_err(|error| error.to_string())?);
        wire.handshake()?;
    }
    let mut startup = Vec::new();
    build::startup(
        &mut startup,
        [("user", user), ("database", "postgres")].into_iter(),
    );
    wire.send(&startup);
    let end_point = wire.tls.as_ref().and_then(TlsSession::end_point_hash);
    let options = LoginOptions {
        tls: tls.is_some(),
        end_point,
        clear_text: true,
    };
    let mut login = ServerLogin::new(user, credentials, options, &SystemRandom::new()).unwrap();
    let (mut keys, mut bound) = (None, false);
    loop {
        match wire.message()? {
            (backend::AUTHENTICATION, body) => {
                match login.message(&body).map_err(|error| error.to_string())? {
                    LoginStep::Send(bytes) => {
                        bound |= bytes[corun_wire::HEADER_BYTES..].starts_with(b"SCRAM-SHA-256-PLUS\0");
                        wire.send(&bytes);
                    }
                    LoginStep::Wait => {}
                    LoginStep::Done { learnt } => keys = learnt,
                }
            }
            (backend::ERROR, body) => {
                let reported = Reported::read(&body);
                return Err(format!("{} {}", reported.code, reported.message));
            }
            (backend::READY, _) => return Ok((keys, bound)),
            _ => {}
        }
    }
}

/// A server with one user, whose every query has one answer.
pub struct Server {
    pub user: &'static str,
    pub secret: Option<Secret>,
    pub method: Method,
    pub tls: Option<TlsServer>,
    /// What it says about TLS: with `Some(false)` it offers no channel binding though it has TLS.
    pub binds: bool,
}

impl Server {
    /// One that offers channel binding where it has TLS.
    pub fn new(user: &'static str, method: Method, secret: Option<Secret>, tls: Option<TlsServer>) -> Server {
        Server {
            user,
            secret,
            method,
            tls,
            binds: true,
        }
    }

    /// Serves one connection to its end; gives what was learnt of a client that logged in.
    pub fn serve(&self, socket: TcpStream) -> Result<Option<ClientKeys>, String> {
        let mut wire = Wire::new(socket);
        let startup = loop {
            match wire.packet()? {
                Packet::Ssl => match &self.tls {
                    Some(server) => {
                        negotiate::after_request(&wire.plain).map_err(|refusal| refusal.message)?;
                        wire.send(b"S");
                        wire.tls = Some(server.accept().map_err(|error| error.to_string())?);
                        wire.handshake()?;
                    }
                    None => wire.send(b"N"),
                },
                Packet::Gss => wire.send(b"N"),
                Packet::Cancel { .. } => return Err("cancel".into()),
                Packet::Startup(startup) => break startup,
            }
        };
        let asked = startup.parameters.iter().find(|(name, _)| name == "user");
        let user = asked.map_or("", |(_, user)| user.as_str());
        let lookup = match &self.secret {
            _ if user != self.user => Lookup::Unknown,
            Some(secret) => Lookup::Found(secret),
            None => Lookup::NoSecret,
        };
        let end_point = wire
            .tls
            .as_ref()
            .filter(|_| self.binds)
            .and_then(TlsSession::end_point_hash);
        let name = wire.tls.as_ref().and_then(TlsSession::client_common_name);
        let tls = wire.tls.is_some().then_some(TlsFacts {
            end_point: end_point.as_deref(),
            common_name: name.as_deref(),
        });
        let facts = Facts {
            tls,
            ..Facts::default()
        };
        let mock = Mock::from_secret(b"of a test", false);
        let mut login = Authenticator::new(self.method, user, lookup, facts, &mock, &SystemRandom::new());
        let mut step = login.start();
        let keys = loop {
            match step {
                Step::Send(bytes) => {
                    wire.send(&bytes);
                    match wire.message()? {
                        (frontend::PASSWORD, body) => step = login.message(&body),
                        (tag, _) => step = Step::Denied(login.unexpected(tag)),
                    }
                }
                Step::Done { send, learnt } => {
                    wire.send(&send);
                    break learnt;
                }
                Step::Denied(denial) => {
                    let mut last = Vec::new();
                    build::fatal(&mut last, &denial.refusal);
                    wire.send(&last);
                    return Err(denial.reason);
                }
            }
        };
        let mut hello = Vec::new();
        build::authentication_ok(&mut hello);
        for (name, value) in [
            ("server_version", "15.0"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
        ] {
            build::parameter_status(&mut hello, name, value);
        }
        build::ready(&mut hello, TransactionStatus::Idle);
        wire.send(&hello);
        while let Ok((tag, _)) = wire.message() {
            if tag != frontend::QUERY {
                break;
            }
            let mut rows = Vec::new();
            build::row_description(&mut rows, [("answer", build::TEXT_OID, 0)].into_iter());
            build::data_row(&mut rows, [Some("in")].into_iter());
            build::command_complete(&mut rows, "SELECT 1");
            build::ready(&mut rows, TransactionStatus::Idle);
            wire.send(&rows);
        }
        Ok(keys)
    }
}
