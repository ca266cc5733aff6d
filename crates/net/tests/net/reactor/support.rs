//! What the tests of the contract share: making reactors, and a handler that does as told and remembers.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::skipped::skipped;
use corun_net::reactor::{Epoll, Event, Handler, ListenOptions, Listener, Reactor, Stream, Token, Uring};

/// A reactor over the kernel.
pub trait Real: Reactor + Sized {
    fn make() -> Self;

    /// Whether this kernel has it and allows it. Where not, the test is skipped.
    fn is_usable() -> bool {
        true
    }
}

impl Real for Epoll {
    fn make() -> Self {
        Self::new().unwrap()
    }
}

impl Real for Uring {
    fn make() -> Self {
        Self::new().unwrap()
    }

    fn is_usable() -> bool {
        match Self::new() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                skipped(error);
                false
            }
            _ => true,
        }
    }
}

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one connection went through.
#[derive(Debug, Default)]
pub struct Seen {
    pub data: Vec<u8>,
    pub events: Vec<&'static str>,
    pub closed: Option<Option<io::ErrorKind>>,
}

/// Remembers everything, adds what is accepted from `next` on, and does what `on_data` says.
pub struct Log<R> {
    pub seen: HashMap<Token, Seen>,
    pub next: Token,
    pub accepted: Vec<Token>,
    pub kept: Vec<Stream>,
    pub keep_accepted: bool,
    pub woken: usize,
    pub on_data: fn(&mut R, Token, &[u8]),
}

pub fn echo<R: Reactor>(reactor: &mut R, token: Token, bytes: &[u8]) {
    reactor.send(token, bytes);
}

pub fn ignore<R: Reactor>(_: &mut R, _: Token, _: &[u8]) {}

impl<R: Reactor> Log<R> {
    pub fn new(on_data: fn(&mut R, Token, &[u8])) -> Self {
        Self {
            seen: HashMap::new(),
            next: 1000,
            accepted: Vec::new(),
            kept: Vec::new(),
            keep_accepted: false,
            woken: 0,
            on_data,
        }
    }

    pub fn seen(&mut self, token: Token) -> &mut Seen {
        self.seen.entry(token).or_default()
    }

    pub fn data(&self, token: Token) -> &[u8] {
        self.seen.get(&token).map_or(&[], |seen| &seen.data)
    }

    pub fn closed(&self, token: Token) -> Option<Option<io::ErrorKind>> {
        self.seen.get(&token).and_then(|seen| seen.closed)
    }

    pub fn events(&self, token: Token) -> &[&'static str] {
        self.seen.get(&token).map_or(&[], |seen| &seen.events)
    }
}

impl<R: Reactor> Handler<R> for Log<R> {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        match event {
            Event::Accepted { stream, .. } if self.keep_accepted => self.kept.push(stream),
            Event::Accepted { stream, .. } => {
                reactor.add(self.next, stream).unwrap();
                self.accepted.push(self.next);
                self.next += 1;
            }
            Event::Connected { token } => self.seen(token).events.push("connected"),
            Event::Data { token, bytes } => {
                assert!(!bytes.is_empty());
                let seen = self.seen(token);
                assert_eq!(seen.closed, None, "data after the end");
                if seen.events.last() != Some(&"data") {
                    seen.events.push("data");
                }
                seen.data.extend_from_slice(bytes);
                (self.on_data)(reactor, token, bytes);
            }
            Event::Drained { token } => self.seen(token).events.push("drained"),
            Event::Closed { token, error } => {
                let seen = self.seen(token);
                assert_eq!(seen.closed, None, "closed twice");
                seen.closed = Some(error.map(|error| error.kind()));
                seen.events.push("closed");
            }
            Event::Woken => self.woken += 1,
        }
    }
}

/// Turns until `done`; fails after two minutes.
pub fn turn_until<R: Reactor, H: Handler<R>>(
    reactor: &mut R,
    handler: &mut H,
    mut done: impl FnMut(&mut R, &mut H) -> bool,
) {
    let start = Instant::now();
    while !done(reactor, handler) {
        assert!(start.elapsed() < PATIENCE, "it never happened");
        reactor.turn(Some(Duration::from_millis(20)), handler).unwrap();
    }
}

/// Some turns, for what must not happen.
pub fn turn_a_while<R: Reactor, H: Handler<R>>(reactor: &mut R, handler: &mut H) {
    for _ in 0..5 {
        reactor.turn(Some(Duration::from_millis(5)), handler).unwrap();
    }
}

pub fn loopback() -> (Listener, SocketAddr) {
    let listener = Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &ListenOptions::default()).unwrap();
    let address = listener.local().unwrap();
    (listener, address)
}

/// A port nobody listens at.
pub fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A TCP connection to ourselves: one for the reactor, one for the test.
pub fn connection() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Stream::Tcp(listener.accept().unwrap().0), other)
}

/// The test's end of either kind of connection.
pub enum Other {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Other {
    pub fn shutdown(&self, how: Shutdown) {
        match self {
            Self::Tcp(stream) => stream.shutdown(how).unwrap(),
            Self::Unix(stream) => stream.shutdown(how).unwrap(),
        }
    }
}

impl Read for Other {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Other {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One connection of each kind.
pub fn pairs() -> [(Stream, Other); 2] {
    let (tcp, other) = connection();
    let (unix, unix_other) = UnixStream::pair().unwrap();
    [
        (tcp, Other::Tcp(other)),
        (Stream::Unix(unix), Other::Unix(unix_other)),
    ]
}

/// Breaks a connection instead of ending it.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

/// Bytes no two stretches of which are alike.
pub fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// Raises the limit of file descriptors, and says what it is.
pub fn descriptors(wanted: u64) -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one structure.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    for maximum in [limit.rlim_max.max(wanted), limit.rlim_max] {
        let raised = libc::rlimit {
            rlim_cur: maximum,
            rlim_max: maximum,
        };
        // SAFETY: the kernel reads one structure.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return maximum as usize;
        }
    }
    limit.rlim_cur as usize
}
