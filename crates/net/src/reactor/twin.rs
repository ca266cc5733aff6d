//! The simulated twin: a reactor on a network in memory, driven by a test.
//!
//! Order of calls: a [`Network`], calm or from a seed; reactors of it ([`Network::reactor`]); listeners and servers
//! ([`Network::listener`], [`Network::serve`]); then, in turns, what the far ends do ([`Remote`]) and
//! [`Twin::settle`] or [`Reactor::turn`].
//!
//! ```
//! use std::time::Duration;
//! use corun_net::reactor::twin::Network;
//! use corun_net::reactor::{Event, Handler, Peer, Reactor, Twin};
//!
//! struct Echo;
//! impl Handler<Twin> for Echo {
//!     fn event(&mut self, reactor: &mut Twin, event: Event<'_>) {
//!         match event {
//!             Event::Accepted { stream, .. } => reactor.add(7, stream).unwrap(),
//!             Event::Data { token, bytes } => reactor.send(token, bytes),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! let network = Network::random(42);
//! let mut reactor = network.reactor();
//! let (listener, entrance) = network.listener(None);
//! reactor.listen(1, listener).unwrap();
//! let client = entrance.connect(Peer::Unix { uid: 1000, gid: 1000, pid: Some(1) }).unwrap();
//! client.send(b"hello");
//! reactor.settle(&mut Echo);
//! assert_eq!(client.receive(), b"hello");
//! ```
//!
//! A turn never waits and never moves the clock. By luck it splits what arrives, takes only a part of what is sent, leaves
//! ready connections for a later turn and serves them in any order.

mod network;
mod remote;
mod socket;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub use network::{Answer, Network};
pub use remote::{Entrance, Remote, Server};

use super::waker::Bell;
use super::{
    Address, Event, Handler, Listener, Peer, READ_BYTES, Reactor, Stream, TOKEN_END, TcpOptions, Token,
    Waker, reserved,
};
use socket::{Received, Socket, State};

/// The reactor's end of a simulated connection; dropping it closes it.
#[derive(Debug)]
pub struct End {
    network: Network,
    id: u64,
}

impl End {
    fn new(network: Network, id: u64) -> Self {
        Self { network, id }
    }

    /// Who is at the other end.
    pub(super) fn peer(&self) -> Peer {
        let inner = self.network.lock();
        inner.connections[&self.id].peer.clone()
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.network.lock().connections[&self.id].local
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut inner = self.network.lock();
        if let Some(connection) = inner.connections.get_mut(&self.id) {
            connection.dropped = true;
            connection.inward.clear();
        }
        inner.forget(self.id);
    }
}

/// The listening side of a simulated listener; dropping it closes it.
#[derive(Debug)]
pub struct Gate {
    network: Network,
    gate: u64,
    local: Option<SocketAddr>,
}

impl Gate {
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.local
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let waiting = self.network.lock().gates.remove(&self.gate);
        // Their ends take the lock themselves.
        drop(waiting);
    }
}

/// A simulated reactor.
#[derive(Debug)]
pub struct Twin {
    network: Network,
    waker: Waker,
    sockets: BTreeMap<Token, Socket>,
    gates: BTreeMap<Token, Gate>,
    next_leaving: Token,
}

impl Twin {
    fn new(network: Network) -> Self {
        Self {
            network,
            waker: Waker::new(Bell::Silent),
            sockets: BTreeMap::new(),
            gates: BTreeMap::new(),
            next_leaving: TOKEN_END,
        }
    }

    /// Turns until nothing is left to happen without somebody else's doing.
    ///
    /// # Panics
    /// When that is not so after a million turns.
    pub fn settle<H: Handler<Self>>(&mut self, handler: &mut H) {
        for _ in 0..1_000_000 {
            if !self.has_work() {
                return;
            }
            // A twin's turn cannot fail.
            let _ = self.turn(Some(Duration::ZERO), handler);
        }
        panic!("a million turns, and there is still something to do");
    }

    /// Whether a turn has something to do.
    pub fn has_work(&self) -> bool {
        self.waker.is_rung() || !self.work().is_empty()
    }

    /// Connections and listeners that are open here, those that say goodbye included.
    pub fn len(&self) -> usize {
        self.sockets.len() + self.gates.len()
    }

    /// Whether nothing is open here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self, token: Token) -> io::Result<()> {
        if token >= TOKEN_END || self.sockets.contains_key(&token) || self.gates.contains_key(&token) {
            return Err(reserved(token));
        }
        Ok(())
    }

    /// Tokens with something to do.
    fn work(&self) -> Vec<Token> {
        let inner = self.network.lock();
        let waiting = |gate: &Gate| inner.gates.get(&gate.gate).is_some_and(|ends| !ends.is_empty());
        let listeners = self
            .gates
            .iter()
            .filter(|(_, gate)| waiting(gate))
            .map(|(token, _)| *token);
        let sockets = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.has_work(&inner))
            .map(|(token, _)| *token);
        listeners.chain(sockets).collect()
    }

    fn emit<H: Handler<Self>>(&mut self, handler: &mut H, event: Event<'_>) {
        handler.event(self, event);
        self.flush();
    }

    fn flush(&mut self) {
        for socket in self.sockets.values_mut() {
            socket.flush();
        }
    }

    fn serve<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        if let Some(gate) = self.gates.get(&token) {
            let end = self
                .network
                .lock()
                .gates
                .get_mut(&gate.gate)
                .and_then(|ends| ends.pop_front());
            if let Some(end) = end {
                let stream = Stream::Simulated(end);
                self.emit(
                    handler,
                    Event::Accepted {
                        listener: token,
                        stream,
                    },
                );
            }
            return;
        }
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        match &mut socket.state {
            State::Connecting(address) => {
                let address = address.clone();
                self.serve_connecting(token, &address, handler);
            }
            State::Leaving { .. } => {
                if socket.serve_leaving() {
                    self.sockets.remove(&token);
                }
            }
            State::Open => self.serve_open(token, handler),
        }
    }

    fn serve_connecting<H: Handler<Self>>(&mut self, token: Token, address: &Address, handler: &mut H) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        let mut inner = self.network.lock();
        let peer = match address {
            Address::Tcp(address) => Peer::Tcp(*address),
            Address::Unix(_) => Peer::Unix {
                uid: 0,
                gid: 0,
                pid: None,
            },
        };
        let local = matches!(address, Address::Tcp(_)).then(|| SocketAddr::from(([127, 0, 0, 1], 40_000)));
        let found = inner
            .servers
            .iter()
            .position(|served| served.address == *address && served.answer == Answer::Accept);
        let Some(server) = found else {
            drop(inner);
            self.sockets.remove(&token);
            let error = Some(io::ErrorKind::ConnectionRefused.into());
            self.emit(handler, Event::Closed { token, error });
            return;
        };
        let id = inner.connect(peer, local);
        inner.servers[server].waiting.push_back(id);
        drop(inner);
        socket.state = State::Open;
        socket.end = Some(End::new(self.network.clone(), id));
        self.emit(handler, Event::Connected { token });
    }

    fn serve_open<H: Handler<Self>>(&mut self, token: Token, handler: &mut H) {
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        if socket.blocked {
            socket.write();
            if !socket.blocked && socket.failed.is_none() {
                self.emit(handler, Event::Drained { token });
            }
        }
        let Some(socket) = self.sockets.get_mut(&token) else {
            return;
        };
        match socket.receive(READ_BYTES) {
            Received::Nothing => {}
            Received::Bytes(bytes) => self.emit(handler, Event::Data { token, bytes: &bytes }),
            Received::End(error) => {
                self.sockets.remove(&token);
                self.emit(handler, Event::Closed { token, error });
            }
        }
    }
}

impl Reactor for Twin {
    fn listen(&mut self, token: Token, listener: Listener) -> io::Result<()> {
        self.check(token)?;
        let Listener::Simulated(gate) = listener else {
            return Err(not_simulated());
        };
        self.gates.insert(token, gate);
        Ok(())
    }

    // A simulated network has no connections that are only being made.
    fn drop_syns(&mut self, _: Token) {}

    fn unlisten(&mut self, token: Token) {
        self.gates.remove(&token);
    }

    fn add(&mut self, token: Token, stream: Stream) -> io::Result<()> {
        self.check(token)?;
        let Stream::Simulated(end) = stream else {
            return Err(not_simulated());
        };
        self.sockets.insert(token, Socket::open(end));
        Ok(())
    }

    fn connect(&mut self, token: Token, address: &Address) -> io::Result<()> {
        self.check(token)?;
        self.sockets.insert(token, Socket::connecting(address.clone()));
        Ok(())
    }

    fn send(&mut self, token: Token, bytes: &[u8]) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.send(bytes);
        }
    }

    fn queued(&self, token: Token) -> usize {
        self.sockets.get(&token).map_or(0, Socket::queued)
    }

    fn pause(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.paused = true;
        }
    }

    fn resume(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get_mut(&token) {
            socket.paused = false;
        }
    }

    fn close(&mut self, token: Token) {
        if let Some(mut socket) = self.sockets.remove(&token) {
            socket.write();
        }
    }

    fn close_after_drain(&mut self, token: Token, within: Duration) {
        let until = self.now() + within;
        if let Some(mut socket) = self.sockets.remove(&token)
            && socket.leave(until)
        {
            self.sockets.insert(self.next_leaving, socket);
            self.next_leaving += 1;
        }
    }

    fn take(&mut self, token: Token) -> Option<Stream> {
        let socket = self.sockets.get_mut(&token)?;
        socket.flush();
        if !matches!(socket.state, State::Open) || socket.failed.is_some() || socket.queued() > 0 {
            return None;
        }
        self.sockets.remove(&token)?.end.map(Stream::Simulated)
    }

    fn peer(&self, token: Token) -> Option<Peer> {
        self.sockets.get(&token)?.end.as_ref().map(End::peer)
    }

    fn local(&self, token: Token) -> Option<SocketAddr> {
        self.sockets.get(&token)?.end.as_ref()?.local()
    }

    fn set_buffers(&mut self, _: Option<usize>) {}

    fn set_tcp_options(&mut self, _: Token, _: &TcpOptions) -> io::Result<()> {
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn now(&self) -> Duration {
        self.network.lock().now
    }

    fn turn<H: Handler<Self>>(&mut self, _: Option<Duration>, handler: &mut H) -> io::Result<()> {
        self.flush();
        if self.waker.answer() {
            self.emit(handler, Event::Woken);
        }
        let mut work = self.work();
        let mut inner = self.network.lock();
        if let Some(luck) = &mut inner.luck {
            for index in (1..work.len()).rev() {
                work.swap(index, luck.below(index + 1));
            }
            let served = work.len() - luck.below(work.len().div_ceil(2).max(1));
            work.truncate(served);
        }
        drop(inner);
        for token in work {
            self.serve(token, handler);
        }
        Ok(())
    }
}

fn not_simulated() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a stream or listener of the kernel in a simulated reactor",
    )
}
