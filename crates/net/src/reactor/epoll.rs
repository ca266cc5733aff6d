//! The reactor over epoll.
//!
//! Readiness is edge-triggered and remembered here, so a connection is registered once and the kernel is asked again only
//! when it said something: a read that leaves the buffer unfilled has emptied the socket, and no second read is made to
//! find that out. Interest in room for output is registered when the kernel first refuses some, and stays: a unix socket
//! would otherwise report room whenever the other side has read.
//!
//! A stale event of the kernel, for a token that was closed and used again in the same turn, costs a read that finds
//! nothing; nothing else depends on it.

mod socket;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry};

use super::kernel::KernelStream;
use super::output::{Spare, piece};
use super::table::Table;
use super::waker::Bell;
use super::{
    ACCEPT_RETRY, ACCEPTS_PER_TURN, Address, Event, Handler, Listener, Peer, READ_BYTES, READS_PER_TURN,
    Reactor, Stream, TOKEN_END, TcpOptions, Token, Waker, is_shortage, reserved,
};
use socket::{Socket, State};

/// Events taken from the kernel in a turn; the rest comes with the next.
const EVENTS_MAX: usize = 1024;

/// From here on a millisecond more or less does not matter.
const COARSE: Duration = Duration::from_millis(10);

const WAKER: mio::Token = mio::Token(usize::MAX);

/// A reactor over epoll. See [`super`].
pub struct Epoll {
    poll: Poll,
    waker: Waker,
    start: Instant,
    events: Events,
    sockets: Table<Socket>,
    listeners: Table<Door>,
    // Tokens with something to do that no event of the kernel will repeat; each at most once.
    ready: VecDeque<Token>,
    // Tokens with output gathered since the last flush; each at most once.
    gathered: Vec<Token>,
    // When to let go of a connection that says goodbye, or to accept again.
    deadlines: BTreeSet<(Duration, Token)>,
    // Of connections that say goodbye: their own tokens are free.
    next_leaving: Token,
    spare: Spare,
    // Taken out while a handler looks at it.
    buffer: Vec<u8>,
    // Of connections to come; all send in such pieces.
    buffer_bytes: Option<usize>,
}

struct Door {
    listener: Listener,
    listed: bool,
}

impl Epoll {
    /// An empty reactor.
    ///
    /// # Errors
    /// When the kernel has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(Bell::Mio(mio::Waker::new(poll.registry(), WAKER)?));
        Ok(Self {
            poll,
            waker,
            start: Instant::now(),
            events: Events::with_capacity(EVENTS_MAX),
            sockets: Table::default(),
            listeners: Table::default(),
            ready: VecDeque::new(),
            gathered: Vec::new(),
            deadlines: BTreeSet::new(),
            next_leaving: TOKEN_END,
            spare: Spare::default(),
            buffer: Vec::new(),
            buffer_bytes: None,
        })
    }

    fn check(&self, token: Token) -> io::Result<()> {
        if token >= TOKEN_END || self.sockets.contains_key(&token) || self.listeners.contains_key(&token) {
            return Err(reserved(token));
        }
        Ok(())
    }

    fn insert(&mut self, token: Token, mut socket: Socket, interest: Interest) -> io::Result<()> {
        socket.writable_known = interest.is_writable();
        register(self.poll.registry(), socket.stream.as_raw_fd(), token, interest)?;
        self.sockets.insert(token, socket);
        Ok(())
    }

    /// Serves this token in this turn or the next.
    fn list(&mut self, token: Token) {
        let listed = if let Some(socket) = self.sockets.get_mut(&token) {
            &mut socket.listed
        } else if let Some(door) = self.listeners.get_mut(&token) {
            &mut door.listed
        } else {
            return;
        };
        if !std::mem::replace(listed, true) {
            self.ready.push_back(token);
        }
    }

    fn emit<H: Handler<Self>>(&mut self, handler: &mut H, event: Event<'_>) {
        handler.event(self, event);
        self.flush();
    }

    /// Writes what was gathered.
    fn flush(&mut self) {
        let mut index = 0;
        while let Some(&token) = self.gathered.get(index) {
            index += 1;
            if let Some(socket) = self.sockets.get_mut(&token) {
                socket.gathered = false;
                if !socket.blocked {
                    self.write(token, &[]);
                }
            }
        }
        self.gathered.clear();
    }

    /// Writes queued output and `more`. Whatever goes wrong is remembered and told in a turn.
    fn write(&mut self, token: Token, more: &[u8]) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        if let Err(error) = socket.output.write(
            socket.stream.as_fd(),
            more,
            piece(self.buffer_bytes),
            &mut self.spare,
        ) {
            self.fail(token, error);
            return;
        }
        socket.blocked = !socket.output.is_empty();
        if socket.blocked && !socket.writable_known {
            socket.writable_known = true;
            let interest = Interest::READABLE | Interest::WRITABLE;
            // Reports at once when there is room again meanwhile.
            let result = self.poll.registry().reregister(
                &mut SourceFd(&socket.stream.as_raw_fd()),
                mio::Token(token),
                interest,
            );
            if let Err(error) = result {
                self.fail(token, error);
            }
        }
    }

    fn fail(&mut self, token: Token, error: io::Error) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.output.clear(&mut self.spare);
            socket.blocked = false;
            socket.failed.get_or_insert(error);
            // What it sent before is still to be read, its end among it.
            socket.readable = true;
            self.list(token);
        }
    }

    fn remove(&mut self, token: Token) -> Option<Socket> {
        let mut socket = self.sockets.remove(&token)?;
        if let State::Leaving { until } = socket.state {
            self.deadlines.remove(&(until, token));
        }
        if !socket.output.is_empty()
            && socket.failed.is_none()
            && !matches!(socket.state, State::Connecting { .. })
        {
            // The last try; nobody is left to hear how it went.
            let _ = socket.output.write(
                socket.stream.as_fd(),
                &[],
                piece(self.buffer_bytes),
                &mut self.spare,
            );
        }
        socket.output.clear(&mut self.spare);
        Some(socket)
    }

    fn serve<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.listed = false;
            match socket.state {
                State::Connecting { .. } => self.serve_connecting(token, handler),
                State::Open => self.serve_open(token, handler),
                State::Leaving { .. } => self.serve_leaving(token),
            }
        } else if let Some(door) = self.listeners.get_mut(&token) {
            door.listed = false;
            self.serve_listener(token, handler);
        }
    }

    fn serve_connecting<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        let State::Connecting { refused } = &mut socket.state else {
            return;
        };
        let result = match refused.take() {
            Some(error) => Some(Err(error)),
            None => socket.stream.connected(),
        };
        match result {
            None => {}
            Some(Err(error)) => {
                self.remove(token);
                let error = Some(error);
                self.emit(handler, Event::Closed { token, error });
            }
            Some(Ok(())) => {
                socket.state = State::Open;
                socket.writable = true;
                socket.blocked = !socket.output.is_empty();
                // Something may have arrived together with the connection.
                socket.readable = true;
                self.list(token);
                self.emit(handler, Event::Connected { token });
            }
        }
    }

    fn serve_open<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        if std::mem::take(&mut socket.writable) && socket.blocked {
            self.write(token, &[]);
            if self.sockets.get(&token).is_some_and(Socket::has_drained) {
                self.emit(handler, Event::Drained { token });
            }
        }
        for _ in 0..READS_PER_TURN {
            // The handler may have closed it, and even put another in its place: that one is read as well.
            let Some(socket) = self.sockets.get_mut(&token) else {
                return;
            };
            if !matches!(socket.state, State::Open) || !socket.wants_read() {
                return;
            }
            if socket.paused {
                // Only for the failed send: what is left unread nobody wants.
                let error = socket.failed.take();
                self.remove(token);
                self.emit(handler, Event::Closed { token, error });
                return;
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            if buffer.len() < READ_BYTES {
                buffer.resize(READ_BYTES, 0);
            }
            let result = socket.stream.read(&mut buffer);
            match result {
                Ok(count) if count > 0 => {
                    // A short read has emptied the socket. Where the end is known to have come, it is still to be read.
                    socket.readable = count == buffer.len() || socket.ended || socket.failed.is_some();
                    let bytes = &buffer[..count];
                    self.emit(handler, Event::Data { token, bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && socket.failed.is_none() => {
                    socket.readable = false;
                }
                ended => {
                    // How a send failed says more than that there is nothing to read.
                    let error = socket.failed.take().or(ended.err());
                    self.remove(token);
                    self.emit(handler, Event::Closed { token, error });
                }
            }
            self.buffer = buffer;
        }
        if self.sockets.get(&token).is_some_and(Socket::wants_read) {
            self.list(token);
        }
    }

    /// Sends the rest, says that it was the end, and reads to the other side's.
    fn serve_leaving(&mut self, token: Token) {
        self.write(token, &[]);
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        if socket.failed.is_some() {
            self.remove(token);
            return;
        }
        if socket.blocked {
            return;
        }
        if !std::mem::replace(&mut socket.said_goodbye, true) {
            socket.stream.shutdown_write();
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < READ_BYTES {
            buffer.resize(READ_BYTES, 0);
        }
        let mut result = Ok(1);
        for _ in 0..READS_PER_TURN {
            result = socket.stream.read(&mut buffer);
            if !matches!(result, Ok(1..)) {
                break;
            }
        }
        self.buffer = buffer;
        match result {
            Ok(1..) => self.list(token),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.list(token),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => drop(self.remove(token)),
        }
    }

    fn serve_listener<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(door) = self.listeners.get(&token) else {
                return;
            };
            match door.listener.accept() {
                Ok(stream) => {
                    let listener = token;
                    self.emit(handler, Event::Accepted { listener, stream });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) => {
                    let retry = self.now() + ACCEPT_RETRY;
                    self.deadlines.insert((retry, token));
                    return;
                }
                // A connection that ended before it was accepted; the next may be well.
                Err(_) => {}
            }
        }
        self.list(token);
    }

    fn pass_deadlines(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(&(at, token)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            if token >= TOKEN_END {
                self.remove(token);
            } else {
                self.list(token);
            }
        }
    }

    /// How long to wait for the kernel.
    fn patience(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let Some(&(at, _)) = self.deadlines.first() else {
            return timeout;
        };
        let left = at.saturating_sub(self.now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    /// Notes what the kernel says; true when it was the waker as well.
    fn note(&mut self, events: &Events) -> bool {
        let mut woken = false;
        for event in events {
            if event.token() == WAKER {
                woken = true;
                continue;
            }
            let token = event.token().0;
            if let Some(socket) = self.sockets.get_mut(&token) {
                socket.note(event);
                if !socket.has_work() {
                    continue;
                }
            }
            self.list(token);
        }
        woken
    }
}

impl Reactor for Epoll {
    fn listen(&mut self, token: Token, listener: Listener) -> io::Result<()> {
        self.check(token)?;
        register(
            self.poll.registry(),
            listener.prepare(true)?,
            token,
            Interest::READABLE,
        )?;
        let listed = false;
        self.listeners.insert(token, Door { listener, listed });
        Ok(())
    }

    fn drop_syns(&mut self, token: Token) {
        if let Some(door) = self.listeners.get(&token) {
            let _ = door.listener.drop_syns();
        }
    }

    fn unlisten(&mut self, token: Token) {
        self.listeners.remove(&token);
    }

    fn add(&mut self, token: Token, stream: Stream) -> io::Result<()> {
        self.check(token)?;
        let stream = KernelStream::new(stream, true)?;
        self.insert(token, Socket::new(stream, State::Open), Interest::READABLE)
    }

    fn connect(&mut self, token: Token, address: &Address) -> io::Result<()> {
        self.check(token)?;
        let (stream, target) = KernelStream::for_address(address, self.buffer_bytes)?;
        let refused = stream.connect(&target).err();
        let known = refused.is_some() || matches!(address, Address::Unix(_));
        let interest = match address {
            Address::Tcp(_) => Interest::READABLE | Interest::WRITABLE,
            Address::Unix(_) => Interest::READABLE,
        };
        let mut socket = Socket::new(stream, State::Connecting { refused });
        socket.blocked = true;
        self.insert(token, socket, interest)?;
        if known {
            self.list(token);
        }
        Ok(())
    }

    fn send(&mut self, token: Token, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        if bytes.is_empty() || socket.failed.is_some() {
            return;
        }
        if socket.blocked {
            socket.output.push(bytes, &mut self.spare);
        } else if socket.goes_at_once(bytes.len()) {
            self.write(token, bytes);
        } else {
            socket.output.push(bytes, &mut self.spare);
            if !std::mem::replace(&mut socket.gathered, true) {
                self.gathered.push(token);
            }
        }
    }

    fn queued(&self, token: Token) -> usize {
        match self.sockets.get(&token) {
            Some(socket) if socket.blocked => socket.output.len(),
            _ => 0,
        }
    }

    fn pause(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.paused = true;
        }
    }

    fn resume(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.paused = false;
            if socket.has_work() {
                self.list(token);
            }
        }
    }

    fn close(&mut self, token: Token) {
        self.remove(token);
    }

    fn close_after_drain(&mut self, token: Token, within: Duration) {
        let Some(mut socket) = self.sockets.remove(&token) else {
            return;
        };
        if !matches!(socket.state, State::Open) || socket.failed.is_some() {
            socket.output.clear(&mut self.spare);
            return;
        }
        let leaving = self.next_leaving;
        self.next_leaving += 1;
        let until = self.now() + within;
        socket.leave(until);
        let interest = Interest::READABLE | Interest::WRITABLE;
        socket.writable_known = true;
        let result = self.poll.registry().reregister(
            &mut SourceFd(&socket.stream.as_raw_fd()),
            mio::Token(leaving),
            interest,
        );
        if result.is_err() {
            socket.output.clear(&mut self.spare);
            return;
        }
        self.sockets.insert(leaving, socket);
        self.deadlines.insert((until, leaving));
        self.list(leaving);
    }

    fn take(&mut self, token: Token) -> Option<Stream> {
        let socket = self.sockets.get(&token)?;
        if !matches!(socket.state, State::Open) || socket.blocked {
            return None;
        }
        self.write(token, &[]);
        let socket = self.sockets.get(&token)?;
        if socket.failed.is_some() || !socket.output.is_empty() {
            return None;
        }
        self.poll
            .registry()
            .deregister(&mut SourceFd(&socket.stream.as_raw_fd()))
            .ok()?;
        self.remove(token).map(|socket| socket.stream.into_stream())
    }

    fn peer(&self, token: Token) -> Option<Peer> {
        self.sockets.get(&token)?.stream.peer()
    }

    fn local(&self, token: Token) -> Option<SocketAddr> {
        self.sockets.get(&token)?.stream.local()
    }

    fn set_buffers(&mut self, bytes: Option<usize>) {
        self.buffer_bytes = bytes;
    }

    fn set_tcp_options(&mut self, token: Token, options: &TcpOptions) -> io::Result<()> {
        match self.sockets.get(&token) {
            Some(socket) => socket.stream.set_tcp_options(options),
            None => Ok(()),
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn turn<H: Handler<Self>>(&mut self, timeout: Option<Duration>, handler: &mut H) -> io::Result<()> {
        // What was sent outside of any event.
        self.flush();
        let patience = self.patience(timeout);
        let polled =
            nap(&self.poll, patience).and_then(|patience| self.poll.poll(&mut self.events, patience));
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            other => other?,
        }
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let woken = self.note(&events);
        self.events = events;
        self.pass_deadlines();
        if woken && self.waker.answer() {
            self.emit(handler, Event::Woken);
        }
        // Those that list themselves meanwhile wait for the next turn, behind what the kernel has for others.
        for _ in 0..self.ready.len() {
            if let Some(token) = self.ready.pop_front() {
                self.serve(token, handler);
            }
        }
        Ok(())
    }
}

/// Waits where milliseconds, which `epoll_wait` counts in and rounds up to, are too coarse: `ppoll` on the selector itself. What is left to
/// wait afterwards.
fn nap(poll: &Poll, patience: Option<Duration>) -> io::Result<Option<Duration>> {
    let Some(short) = patience.filter(|patience| (Duration::from_nanos(1)..COARSE).contains(patience)) else {
        return Ok(patience);
    };
    let mut selector = libc::pollfd {
        fd: poll.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: 0,
        // Below `COARSE`: it fits every platform's type.
        tv_nsec: short.subsec_nanos() as _,
    };
    // SAFETY: one descriptor and one time, both of this frame; no signal mask.
    let found = unsafe { libc::ppoll(&raw mut selector, 1, &raw const time, std::ptr::null()) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(Duration::ZERO))
}

fn register(registry: &Registry, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    registry.register(&mut SourceFd(&fd), mio::Token(token), interest)
}
