//! [`Line`]: a socket with or without TLS, messages out of it, and the time limit of each step.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use corun_net::reactor::Stream;

use super::{TalkError, Target};
use crate::config::Host;
use corun_wire::tls::negotiate::{self, Answer};
use corun_wire::tls::{Progress, TlsClient, TlsSession};
use corun_wire::{HEADER_BYTES, build, header};

/// Longest message taken, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// One message.
pub(super) struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

/// A connection.
pub(super) struct Line {
    pub stream: Stream,
    pub tls: Option<Box<TlsSession>>,
    /// Where it leads, for people.
    pub place: String,
    /// Plain bytes that are not taken yet.
    plain: Vec<u8>,
    limit: Duration,
    until: Instant,
}

impl Line {
    /// Connects, and agrees on TLS where the target wants it.
    pub fn open(target: &Target) -> Result<Self, TalkError> {
        let until = Instant::now() + target.limit;
        let place = match target.endpoint.socket() {
            Some(socket) => socket.display().to_string(),
            None => target.endpoint.to_string(),
        };
        let stream = connect(target, until).map_err(|source| TalkError::Unreachable {
            place: place.clone(),
            source,
        })?;
        let mut line = Self {
            stream,
            tls: None,
            place,
            plain: Vec::new(),
            limit: target.limit,
            until,
        };
        if let (Stream::Tcp(_), Some(tls)) = (&line.stream, &target.tls)
            && tls.asks_first()
        {
            line.agree_on_tls(tls, &target.endpoint.host.to_string())?;
        }
        Ok(line)
    }

    /// Whether nobody else on the way reads along: to this machine.
    pub fn is_local(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()),
            Stream::Unix(_) | Stream::Simulated(_) => true,
        }
    }

    /// The time limit begins anew.
    pub fn begin(&mut self) {
        self.until = Instant::now() + self.limit;
    }

    fn agree_on_tls(&mut self, tls: &TlsClient, host: &str) -> Result<(), TalkError> {
        self.write(&build::SSL_REQUEST)?;
        let mut first = [0; 64];
        let got = self.read(&mut first)?;
        match negotiate::answer(&first[..got]) {
            Ok(Some(Answer::Tls)) => {}
            Ok(Some(Answer::Plain)) if !tls.mode().required() => return Ok(()),
            Ok(_) => return Err(self.tls_failed("the server does not offer TLS")),
            Err(error) => return Err(self.tls_failed(&error.to_string())),
        }
        let session = tls
            .connect(host)
            .map_err(|error| self.tls_failed(&error.to_string()))?;
        self.tls = Some(Box::new(session));
        self.flush()?;
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.receive()?;
        }
        Ok(())
    }

    fn tls_failed(&self, why: &str) -> TalkError {
        TalkError::Tls {
            place: self.place.clone(),
            why: why.to_owned(),
        }
    }

    /// Sends what the TLS session has to say by itself.
    fn flush(&mut self) -> Result<(), TalkError> {
        let mut cipher = Vec::new();
        if let Some(tls) = &mut self.tls {
            tls.flush(&mut cipher);
        }
        self.write(&cipher)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), TalkError> {
        match &mut self.tls {
            None => self.write(bytes),
            Some(tls) => {
                let mut cipher = Vec::new();
                tls.send(bytes, &mut cipher);
                self.write(&cipher)
            }
        }
    }

    /// The next message.
    pub fn message(&mut self) -> Result<Message, TalkError> {
        loop {
            let head = header(&self.plain).map_err(|_| self.strange("a message has an impossible length"))?;
            if let Some(head) = head {
                if head.total > MESSAGE_BYTES_MAX {
                    return Err(self.strange("a message is too long"));
                }
                if self.plain.len() >= head.total {
                    let body = self.plain[HEADER_BYTES..head.total].to_vec();
                    self.plain.drain(..head.total);
                    return Ok(Message { tag: head.tag, body });
                }
            }
            self.receive()?;
        }
    }

    /// The other side broke the protocol.
    pub fn strange(&self, why: &'static str) -> TalkError {
        TalkError::Protocol {
            place: self.place.clone(),
            why,
        }
    }

    fn receive(&mut self) -> Result<(), TalkError> {
        let mut bytes = [0; READ_BYTES];
        let got = self.read(&mut bytes)?;
        let Some(tls) = &mut self.tls else {
            self.plain.extend(&bytes[..got]);
            return Ok(());
        };
        let mut reply = Vec::new();
        let progress = tls.received(&bytes[..got], &mut self.plain, &mut reply);
        self.write(&reply)?;
        match progress {
            Ok(Progress::PeerClosed) if self.plain.is_empty() => Err(self.lost("it was closed")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.tls_failed(&error.to_string())),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, TalkError> {
        loop {
            let left = self.left()?;
            let outcome = match &mut self.stream {
                Stream::Tcp(stream) => stream
                    .set_read_timeout(Some(left))
                    .and_then(|()| stream.read(bytes)),
                Stream::Unix(stream) => stream
                    .set_read_timeout(Some(left))
                    .and_then(|()| stream.read(bytes)),
                Stream::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
            };
            match outcome {
                Ok(0) => return Err(self.lost("the other side closed it")),
                Ok(got) => return Ok(got),
                Err(error) => self.judge(error)?,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TalkError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let left = self.left()?;
            let outcome = match &mut self.stream {
                Stream::Tcp(stream) => stream
                    .set_write_timeout(Some(left))
                    .and_then(|()| stream.write(rest)),
                Stream::Unix(stream) => stream
                    .set_write_timeout(Some(left))
                    .and_then(|()| stream.write(rest)),
                Stream::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
            };
            match outcome {
                Ok(sent) => rest = &rest[sent..],
                Err(error) => self.judge(error)?,
            }
        }
        Ok(())
    }

    /// `Ok`: it is to be tried again, while there is time.
    fn judge(&self, error: io::Error) -> Result<(), TalkError> {
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
            _ => Err(self.lost(&error.to_string())),
        }
    }

    fn left(&self) -> Result<Duration, TalkError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TalkError::Timeout {
                place: self.place.clone(),
                limit: self.limit,
            });
        }
        Ok(left)
    }

    fn lost(&self, why: &str) -> TalkError {
        TalkError::Lost {
            place: self.place.clone(),
            why: why.to_owned(),
        }
    }
}

fn connect(target: &Target, until: Instant) -> io::Result<Stream> {
    let port = target.endpoint.port;
    let addresses: Vec<SocketAddr> = match &target.endpoint.host {
        Host::Directory(_) => {
            let socket = target.endpoint.socket().unwrap_or_default();
            return UnixStream::connect(socket).map(Stream::Unix);
        }
        Host::Ip(address) => vec![SocketAddr::new(*address, port)],
        Host::Name(name) => (name.as_str(), port)
            .to_socket_addrs()?
            .take(ADDRESSES_MAX)
            .collect(),
    };
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Stream::Tcp(stream));
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
