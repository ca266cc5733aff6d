//! The reactor over io_uring.
//!
//! A connection that may be read has one receive running in the kernel for as long as it lives; it fills buffers from a
//! pool that all connections share. Sends gathered in a turn are handed over by the system call that waits for the next
//! one. Large pieces are sent directly, as over epoll, which saves a copy.
//!
//! ```text
//! turn:  flush ─► submit and wait ─► reap: completions become arrivals ─► arrivals and ready ones are served
//!                      ▲                                                        │ handler: send, pause, close …
//!                      └────────────────── requests ◄───────────────────────────┘
//! ```
//!
//! Memory that the kernel may still touch outlives the request: a closed connection keeps its slot until its requests are
//! done, and dropping the reactor waits for all of them. Pausing costs nothing until something arrives; that is held, and
//! the receive stopped.
//!
//! The first turn binds the reactor to its thread; a turn on another one is an error.

mod pool;
mod requests;
mod socket;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::IoUring;
use slab::Slab;

use super::kernel::KernelStream;
use super::output::{DIRECT_BYTES, GATHERED_BYTES_MAX, Spare, piece};
use super::table::Table;
use super::waker::Bell;
use super::{
    ACCEPT_RETRY, Address, Event, Handler, Listener, Peer, READ_BYTES, READS_PER_TURN, Reactor, Stream,
    TOKEN_END, TcpOptions, Token, Waker, is_shortage, reserved,
};
use pool::Pool;
use socket::{Arrival, Door, Slot, Socket, State};

/// A reactor over io_uring. See the module's source for how it differs from [`super::Epoll`] inside.
pub struct Uring {
    // Dropped before what its requests point to.
    ring: IoUring,
    pool: Arc<Pool>,
    enabled: bool,
    bell: Arc<File>,
    waker: Waker,
    start: Instant,
    slots: Slab<Slot>,
    tokens: Table<usize>,
    arrivals: VecDeque<Arrival>,
    // Slots with something to do that no completion will tell; each at most once.
    ready: VecDeque<usize>,
    // Slots with output gathered since the last flush; each at most once.
    gathered: Vec<usize>,
    // When to let go of a connection that says goodbye, or to accept again.
    deadlines: BTreeSet<(Duration, usize)>,
    // Requests in the kernel, the waker's and cancellations left out.
    running: usize,
    spare: Spare,
    // Of connections to come; all send in such pieces.
    buffer_bytes: Option<usize>,
}

impl Uring {
    /// An empty reactor.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] when this kernel has no io_uring, is too old (before 6.1), or forbids it
    /// (`kernel.io_uring_disabled`, seccomp of a container): [`super::Epoll`] serves everywhere.
    pub fn new() -> io::Result<Self> {
        let ring = requests::ring().map_err(requests::unsupported)?;
        let pool = Arc::new(Pool::new());
        // SAFETY: `Drop` waits for all requests, or leaks the pool; the ring is dropped before the pool.
        unsafe { pool.register(&ring.submitter()) }.map_err(requests::unsupported)?;
        // SAFETY: makes a descriptor, which is owned from here on.
        let bell = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Arc::new(File::from_raw_fd(fd))
        };
        let mut reactor = Self {
            ring,
            pool,
            enabled: false,
            waker: Waker::new(Bell::Counter(Arc::clone(&bell))),
            bell,
            start: Instant::now(),
            slots: Slab::new(),
            tokens: Table::default(),
            arrivals: VecDeque::new(),
            ready: VecDeque::new(),
            gathered: Vec::new(),
            deadlines: BTreeSet::new(),
            running: 0,
            spare: Spare::default(),
            buffer_bytes: None,
        };
        reactor.listen_to_bell()?;
        Ok(reactor)
    }

    /// Whether a turn without work counts as idle time of its core (Linux 6.15), not as waiting for a disk.
    pub fn waits_idly(&self) -> bool {
        self.ring.params().is_feature_no_iowait()
    }

    fn check(&self, token: Token) -> io::Result<()> {
        if token >= TOKEN_END || self.tokens.contains_key(&token) {
            return Err(reserved(token));
        }
        Ok(())
    }

    fn named(&self, token: Token) -> Option<(usize, &Socket)> {
        let slot = *self.tokens.get(&token)?;
        match self.slots.get(slot)? {
            Slot::Socket(socket) => Some((slot, socket)),
            Slot::Door(_) => None,
        }
    }

    fn socket(&mut self, slot: usize) -> Option<&mut Socket> {
        match self.slots.get_mut(slot)? {
            Slot::Socket(socket) => Some(socket),
            Slot::Door(_) => None,
        }
    }

    fn insert(&mut self, token: Token, socket: Socket) -> usize {
        let slot = self.slots.insert(Slot::Socket(Box::new(socket)));
        self.tokens.insert(token, slot);
        slot
    }

    /// Serves this slot in this turn or the next.
    fn list(&mut self, slot: usize) {
        if let Some(socket) = self.socket(slot)
            && !std::mem::replace(&mut socket.listed, true)
        {
            self.ready.push_back(slot);
        }
    }

    fn emit<H: Handler<Self>>(&mut self, handler: &mut H, event: Event<'_>) {
        handler.event(self, event);
        self.flush();
    }

    /// Makes requests of what was gathered.
    fn flush(&mut self) {
        let mut index = 0;
        while let Some(&slot) = self.gathered.get(index) {
            index += 1;
            if let Some(socket) = self.socket(slot) {
                socket.gathered = false;
                match socket.state {
                    State::Connecting { .. } => {}
                    State::Dead => self.settle(slot),
                    State::Open | State::Leaving { .. } if socket.send_runs => {}
                    State::Open | State::Leaving { .. } => self.start_send(slot),
                }
            }
        }
        self.gathered.clear();
    }

    /// Sends what is queued and `more` without waiting for the kernel's turn; only while no send runs.
    fn send_now(&mut self, slot: usize, more: &[u8]) {
        let piece = piece(self.buffer_bytes);
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        debug_assert!(!socket.send_runs && socket.sending.is_empty());
        let to = socket.stream.as_fd();
        match socket.output.write(to, more, piece, &mut self.spare) {
            Ok(()) if socket.output.is_empty() => {}
            Ok(()) => {
                socket.blocked = true;
                self.start_send(slot);
            }
            Err(error) => {
                socket.fail(error, &mut self.spare);
                self.list(slot);
            }
        }
    }

    /// Takes a connection off its token; what remains are its requests.
    fn kill(&mut self, slot: usize) {
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        if let State::Leaving { until } = socket.state {
            self.deadlines.remove(&(until, slot));
        } else {
            self.tokens.remove(&socket.token);
        }
        socket.state = State::Dead;
        socket.held = Vec::new();
        socket.output.clear(&mut self.spare);
        self.cancel_all(slot);
        self.settle(slot);
    }

    /// Starts the receive that a slot needs, and frees one that needs nothing any more.
    fn settle(&mut self, slot: usize) {
        match self.slots.get(slot) {
            // While it stands in a list, its number must not name another.
            Some(Slot::Socket(socket)) if socket.is_over() => drop(self.slots.remove(slot)),
            Some(Slot::Socket(socket)) if socket.wants_receive() => self.start_receive(slot),
            Some(Slot::Door(door)) if door.listener.is_none() && !door.accepting && door.pending == 0 => {
                self.slots.remove(slot);
            }
            _ => {}
        }
    }

    fn end<H: Handler<Self>>(&mut self, slot: usize, error: Option<io::Error>, handler: &mut H) {
        if let Some(socket) = self.socket(slot) {
            let token = socket.token;
            self.kill(slot);
            self.emit(handler, Event::Closed { token, error });
        }
    }

    fn act<H: Handler<Self>>(&mut self, arrival: Arrival, handler: &mut H) {
        match arrival {
            Arrival::Woken => {
                if self.waker.answer() {
                    self.emit(handler, Event::Woken);
                }
            }
            Arrival::Accepted { slot, result } => self.accepted(slot, result, handler),
            Arrival::Connected { slot } => {
                if let Some(socket) = self.socket(slot) {
                    socket.pending -= 1;
                    self.connected(slot, handler);
                }
                self.settle(slot);
            }
            Arrival::Data { slot, buffer, count } => {
                // The handler may put another reactor in the place of this one: the buffer outlives that.
                let pool = Arc::clone(&self.pool);
                // SAFETY: the kernel gave the buffer back, and it is lent again only below.
                self.received(slot, unsafe { pool.received(buffer, count) }, handler);
                pool.give(buffer);
                self.settle(slot);
            }
            Arrival::Ended { slot, error } => {
                if let Some(socket) = self.socket(slot) {
                    socket.pending -= 1;
                    socket.ended = Some(error);
                    self.serve(slot, handler);
                }
                self.settle(slot);
            }
        }
    }

    fn accepted<H: Handler<Self>>(&mut self, slot: usize, result: io::Result<OwnedFd>, handler: &mut H) {
        let Some(Slot::Door(door)) = self.slots.get_mut(slot) else {
            return;
        };
        door.pending -= 1;
        let (listener, is_tcp) = match &door.listener {
            Some(listener) => (door.token, matches!(listener, Listener::Tcp(_))),
            None => return self.settle(slot),
        };
        match result {
            Ok(fd) if is_tcp => {
                let stream = Stream::Tcp(fd.into());
                self.emit(handler, Event::Accepted { listener, stream });
            }
            Ok(fd) => {
                let stream = Stream::Unix(fd.into());
                self.emit(handler, Event::Accepted { listener, stream });
            }
            Err(error) if is_shortage(&error) => {
                let retry = self.now() + ACCEPT_RETRY;
                self.deadlines.insert((retry, slot));
                return;
            }
            // A connection that ended before it was accepted.
            Err(_) => {}
        }
        self.start_accept(slot);
    }

    fn connected<H: Handler<Self>>(&mut self, slot: usize, handler: &mut H) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        let State::Connecting { refused } = &mut socket.state else {
            return;
        };
        let result = match refused.take() {
            Some(error) => Some(Err(error)),
            None => socket.stream.connected(),
        };
        let token = socket.token;
        match result {
            None => self.start_poll(slot),
            Some(Err(error)) => self.end(slot, Some(error), handler),
            Some(Ok(())) => {
                socket.state = State::Open;
                // Cannot fail for a socket.
                let _ = socket.stream.set_blocking();
                socket.blocked = socket.unsent() > 0;
                self.emit(handler, Event::Connected { token });
                if self
                    .socket(slot)
                    .is_some_and(|socket| socket.is_open() && !socket.send_runs)
                {
                    self.start_send(slot);
                }
            }
        }
    }

    fn received<H: Handler<Self>>(&mut self, slot: usize, bytes: &[u8], handler: &mut H) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        socket.pending -= 1;
        if !socket.is_open() {
            return;
        }
        if socket.paused || socket.has_held() {
            socket.held.extend_from_slice(bytes);
            if socket.paused {
                self.stop_receive(slot);
            }
            return;
        }
        let token = socket.token;
        self.emit(handler, Event::Data { token, bytes });
    }

    fn serve<H: Handler<Self>>(&mut self, slot: usize, handler: &mut H) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        match socket.state {
            State::Connecting { .. } => self.connected(slot, handler),
            State::Open => self.serve_open(slot, handler),
            State::Leaving { .. } => self.serve_leaving(slot),
            State::Dead => {}
        }
        self.settle(slot);
    }

    fn serve_open<H: Handler<Self>>(&mut self, slot: usize, handler: &mut H) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        let token = socket.token;
        if std::mem::take(&mut socket.drained) {
            self.emit(handler, Event::Drained { token });
        }
        for _ in 0..READS_PER_TURN {
            let Some(socket) = self.socket(slot) else {
                return;
            };
            if !socket.is_open() || socket.paused || !socket.has_held() {
                break;
            }
            let held = std::mem::take(&mut socket.held);
            let (from, to) = (socket.given, held.len().min(socket.given + READ_BYTES));
            let rest = held.len() > to;
            // Before the handler may pause it again and more be held.
            socket.given = to;
            let bytes = held[from..to].to_vec();
            if rest {
                socket.held = held;
            } else {
                socket.given = 0;
            }
            self.emit(handler, Event::Data { token, bytes: &bytes });
        }
        let Some(socket) = self.socket(slot) else {
            return;
        };
        if !socket.is_open() {
            return;
        }
        if socket.paused {
            if let Some(error) = socket.failed.take() {
                self.end(slot, Some(error), handler);
            }
            return;
        }
        if socket.has_held() {
            self.list(slot);
        } else if socket.pending > 0 {
            // What was received before comes first.
            if socket.failed.is_some() || socket.ended.is_some() {
                self.list(slot);
            }
        } else if let Some(error) = socket.ended.take() {
            let error = socket.failed.take().or(error);
            self.end(slot, error, handler);
        } else if socket.failed.is_some() {
            if socket.receive_runs {
                self.stop_receive(slot);
                self.list(slot);
            } else {
                self.read_rest(slot, handler);
            }
        }
    }

    /// Reads a connection to its end that cannot be sent to any more.
    fn read_rest<H: Handler<Self>>(&mut self, slot: usize, handler: &mut H) {
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..READS_PER_TURN {
            let Some(socket) = self.socket(slot) else {
                return;
            };
            if !socket.is_open() || socket.paused {
                return self.list(slot);
            }
            let token = socket.token;
            match socket.stream.read_now(&mut buffer) {
                Ok(count) if count > 0 => {
                    let bytes = &buffer[..count];
                    self.emit(handler, Event::Data { token, bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                ended => {
                    let error = socket.failed.take().or(ended.err());
                    return self.end(slot, error, handler);
                }
            }
        }
        self.list(slot);
    }

    /// Sends the rest, says that it was the end, and receives to the other side's.
    fn serve_leaving(&mut self, slot: usize) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        if socket.failed.is_some() || (socket.said_goodbye && socket.ended.is_some()) {
            self.kill(slot);
        } else if socket.unsent() == 0 && !std::mem::replace(&mut socket.said_goodbye, true) {
            socket.stream.shutdown_write();
            if socket.ended.is_some() {
                self.kill(slot);
            }
        } else if !socket.send_runs {
            self.start_send(slot);
        }
    }

    fn pass_deadlines(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(&(at, slot)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            match self.slots.get(slot) {
                Some(Slot::Socket(socket)) if matches!(socket.state, State::Leaving { .. }) => {
                    self.kill(slot)
                }
                Some(Slot::Door(_)) => self.start_accept(slot),
                _ => {}
            }
        }
    }

    /// How long to wait for the kernel.
    fn patience(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.ready.is_empty() || !self.arrivals.is_empty() {
            return Some(Duration::ZERO);
        }
        let Some(&(at, _)) = self.deadlines.first() else {
            return timeout;
        };
        let left = at.saturating_sub(self.now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }
}

impl Reactor for Uring {
    fn listen(&mut self, token: Token, listener: Listener) -> io::Result<()> {
        self.check(token)?;
        listener.prepare(false)?;
        let slot = self.slots.insert(Slot::Door(Door {
            token,
            listener: Some(listener),
            accepting: false,
            pending: 0,
        }));
        self.tokens.insert(token, slot);
        self.start_accept(slot);
        Ok(())
    }

    fn drop_syns(&mut self, token: Token) {
        let slot = self.tokens.get(&token).and_then(|&slot| self.slots.get(slot));
        if let Some(Slot::Door(door)) = slot {
            door.drop_syns();
        }
    }

    fn unlisten(&mut self, token: Token) {
        let Some(&slot) = self.tokens.get(&token) else {
            return;
        };
        if let Some(Slot::Door(door)) = self.slots.get_mut(slot) {
            door.listener = None;
            self.tokens.remove(&token);
            self.cancel_all(slot);
            self.settle(slot);
        }
    }

    fn add(&mut self, token: Token, stream: Stream) -> io::Result<()> {
        self.check(token)?;
        let stream = KernelStream::new(stream, false)?;
        let slot = self.insert(token, Socket::new(token, stream, State::Open));
        self.settle(slot);
        Ok(())
    }

    fn connect(&mut self, token: Token, address: &Address) -> io::Result<()> {
        self.check(token)?;
        let (stream, target) = KernelStream::for_address(address, self.buffer_bytes)?;
        let refused = stream.connect(&target).err();
        let known = refused.is_some() || matches!(address, Address::Unix(_));
        let mut socket = Socket::new(token, stream, State::Connecting { refused });
        socket.blocked = true;
        let slot = self.insert(token, socket);
        if known {
            self.list(slot);
        } else {
            self.start_poll(slot);
        }
        Ok(())
    }

    fn send(&mut self, token: Token, bytes: &[u8]) {
        let Some(&slot) = self.tokens.get(&token) else {
            return;
        };
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        if bytes.is_empty() || socket.failed.is_some() {
            return;
        }
        let large = bytes.len() >= DIRECT_BYTES || socket.unsent() + bytes.len() > GATHERED_BYTES_MAX;
        if large && !socket.send_runs && !socket.blocked {
            return self.send_now(slot, bytes);
        }
        socket.output.push(bytes, &mut self.spare);
        socket.blocked |= socket.unsent() > GATHERED_BYTES_MAX;
        // A running send is followed by the next when it is done.
        if !socket.send_runs && !std::mem::replace(&mut socket.gathered, true) {
            self.gathered.push(slot);
        }
    }

    fn queued(&self, token: Token) -> usize {
        let blocked = self.named(token).filter(|(_, socket)| socket.blocked);
        blocked.map_or(0, |(_, socket)| socket.unsent())
    }

    fn pause(&mut self, token: Token) {
        if let Some((slot, _)) = self.named(token)
            && let Some(socket) = self.socket(slot)
        {
            socket.paused = true;
        }
    }

    fn resume(&mut self, token: Token) {
        if let Some((slot, _)) = self.named(token)
            && let Some(socket) = self.socket(slot)
        {
            socket.paused = false;
            if socket.has_held() || socket.ended.is_some() || socket.failed.is_some() {
                self.list(slot);
            }
            self.settle(slot);
        }
    }

    fn close(&mut self, token: Token) {
        let Some((slot, socket)) = self.named(token) else {
            return;
        };
        if socket.is_open() && socket.failed.is_none() && !socket.output.is_empty() {
            if socket.send_runs {
                // What was gathered comes after it: both have until the next turn.
                return self.close_after_drain(token, Duration::ZERO);
            }
            self.send_now(slot, &[]);
        }
        self.kill(slot);
    }

    fn close_after_drain(&mut self, token: Token, within: Duration) {
        let Some((slot, socket)) = self.named(token) else {
            return;
        };
        if !socket.is_open() || socket.failed.is_some() {
            return self.kill(slot);
        }
        let until = self.now() + within;
        self.tokens.remove(&token);
        if let Some(socket) = self.socket(slot) {
            socket.state = State::Leaving { until };
            socket.paused = false;
            socket.held = Vec::new();
            socket.given = 0;
        }
        self.deadlines.insert((until, slot));
        self.list(slot);
    }

    fn take(&mut self, token: Token) -> Option<Stream> {
        let (slot, socket) = self.named(token)?;
        if !socket.is_open() || socket.blocked || socket.send_runs {
            return None;
        }
        if !socket.output.is_empty() {
            self.send_now(slot, &[]);
        }
        self.stop_and_wait(slot);
        let (_, socket) = self.named(token)?;
        let ended = socket.failed.is_some() || socket.ended.is_some();
        if ended || socket.has_held() || socket.unsent() > 0 || !socket.is_idle() {
            self.settle(slot);
            return None;
        }
        self.tokens.remove(&token);
        self.retire(slot)
    }

    fn peer(&self, token: Token) -> Option<Peer> {
        self.named(token)?.1.stream.peer()
    }

    fn local(&self, token: Token) -> Option<SocketAddr> {
        self.named(token)?.1.stream.local()
    }

    fn set_buffers(&mut self, bytes: Option<usize>) {
        self.buffer_bytes = bytes;
    }

    fn set_tcp_options(&mut self, token: Token, options: &TcpOptions) -> io::Result<()> {
        let socket = self.named(token);
        socket.map_or(Ok(()), |(_, socket)| socket.stream.set_tcp_options(options))
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
        self.wait(self.patience(timeout))?;
        self.reap();
        self.pass_deadlines();
        for _ in 0..self.arrivals.len() {
            if let Some(arrival) = self.arrivals.pop_front() {
                self.act(arrival, handler);
            }
        }
        // Those that list themselves meanwhile wait for the next turn.
        for _ in 0..self.ready.len() {
            if let Some(slot) = self.ready.pop_front() {
                if let Some(socket) = self.socket(slot) {
                    socket.listed = false;
                }
                self.serve(slot, handler);
            }
        }
        Ok(())
    }
}
