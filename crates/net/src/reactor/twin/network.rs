//! A network in memory: connections, who listens, what time it is, and the luck of the draw.
//!
//! One lock guards all of it. The lists hold what tests made and not yet dropped.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::remote::{Entrance, Remote, Server};
use super::{End, Gate, Twin};
use crate::reactor::{Address, Listener, Peer};

/// The world of simulated reactors. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network(Arc<Mutex<Inner>>);

/// What is behind the lock.
#[derive(Debug)]
pub(super) struct Inner {
    pub now: Duration,
    pub luck: Option<Luck>,
    pub connections: BTreeMap<u64, Connection>,
    /// Ends that wait to be accepted, by gate; a gate that is not here is closed.
    pub gates: BTreeMap<u64, VecDeque<End>>,
    pub servers: Vec<Served>,
    next: u64,
}

/// Somebody who listens.
#[derive(Debug)]
pub(super) struct Served {
    pub server: u64,
    pub address: Address,
    pub answer: Answer,
    /// Connections that wait to be accepted.
    pub waiting: VecDeque<u64>,
}

/// One connection, seen from the side of the reactor.
#[derive(Debug)]
pub(super) struct Connection {
    pub peer: Peer,
    pub local: Option<SocketAddr>,
    /// On its way to the reactor.
    pub inward: VecDeque<u8>,
    /// Taken by the kernel, not yet read by the remote.
    pub outward: VecDeque<u8>,
    /// How many bytes `outward` may hold.
    pub room: usize,
    /// The remote has said that it sends no more.
    pub finished: bool,
    /// The remote is gone, so that sending fails.
    pub gone: bool,
    pub reset: bool,
    /// Our side said that it sends no more.
    pub shut: bool,
    /// Our side has closed.
    pub dropped: bool,
    /// The remote will not be asked any more.
    pub released: bool,
}

/// What a server does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// They succeed.
    Accept,
    /// They fail at once.
    Refuse,
    /// They neither succeed nor fail.
    Silence,
}

/// Random numbers from a seed (the finaliser of SplitMix64).
#[derive(Debug)]
pub(super) struct Luck(u64);

impl Luck {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

impl Inner {
    /// A piece of `available` bytes: all of them, or by luck fewer, at least one. Small pieces are as likely as large ones.
    pub fn piece(&mut self, available: usize) -> usize {
        match &mut self.luck {
            Some(luck) if available > 1 => {
                let bits = luck.below(usize::BITS as usize - available.leading_zeros() as usize) + 1;
                1 + luck.below(available.min(1 << bits))
            }
            _ => available,
        }
    }

    /// True once in `times`, by luck; never without it.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.luck.as_mut().is_some_and(|luck| luck.below(times) == 0)
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A new connection's number.
    pub fn connect(&mut self, peer: Peer, local: Option<SocketAddr>) -> u64 {
        let id = self.name();
        let connection = Connection {
            peer,
            local,
            inward: VecDeque::new(),
            outward: VecDeque::new(),
            room: usize::MAX,
            finished: false,
            gone: false,
            reset: false,
            shut: false,
            dropped: false,
            released: false,
        };
        self.connections.insert(id, connection);
        id
    }

    /// Forgets a connection that nobody holds any more.
    pub fn forget(&mut self, id: u64) {
        if self
            .connections
            .get(&id)
            .is_some_and(|known| known.dropped && known.released)
        {
            self.connections.remove(&id);
        }
    }
}

impl Network {
    /// A network without surprises: what was sent arrives in one piece, as much as fits a read, and everything that can
    /// happen happens in the next turn.
    pub fn calm() -> Self {
        Self::with(None)
    }

    /// A network that splits, delays and reorders across connections what a real one may, by chance from this seed. The
    /// same calls on the same seed do the same.
    pub fn random(seed: u64) -> Self {
        Self::with(Some(Luck(seed)))
    }

    fn with(luck: Option<Luck>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now: Duration::ZERO,
            luck,
            connections: BTreeMap::new(),
            gates: BTreeMap::new(),
            servers: Vec::new(),
            next: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that failed elsewhere has left nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reactor of this network.
    pub fn reactor(&self) -> Twin {
        Twin::new(self.clone())
    }

    /// Lets time pass, for all reactors.
    pub fn advance(&self, by: Duration) {
        self.lock().now += by;
    }

    /// What the reactors listen at, and where a test's clients come in. `local` is the address listened at; None: a unix
    /// socket.
    pub fn listener(&self, local: Option<SocketAddr>) -> (Listener, Entrance) {
        let mut inner = self.lock();
        let gate = inner.name();
        inner.gates.insert(gate, VecDeque::new());
        drop(inner);
        let listener = Listener::Simulated(Gate {
            network: self.clone(),
            gate,
            local,
        });
        (listener, Entrance::new(self.clone(), gate, local))
    }

    /// Somebody who listens at this address, instead of who did before. Where nobody does, connections are refused.
    pub fn serve(&self, address: Address) -> Server {
        let mut inner = self.lock();
        let before = inner.servers.iter().find(|served| served.address == address);
        let before = before.map(|served| served.server);
        let server = inner.name();
        inner.servers.push(Served {
            server,
            address,
            answer: Answer::Accept,
            waiting: VecDeque::new(),
        });
        drop(inner);
        if let Some(before) = before {
            self.stop_serving(before);
        }
        Server::new(self.clone(), server)
    }

    /// Ends a server; those it had not accepted see the end of their connection.
    pub(super) fn stop_serving(&self, server: u64) {
        let mut waiting = VecDeque::new();
        self.lock().servers.retain_mut(|served| {
            if served.server == server {
                waiting.append(&mut served.waiting);
            }
            served.server != server
        });
        // Each takes the lock itself.
        waiting.into_iter().for_each(|id| drop(self.remote(id)));
    }

    /// Connections with a side that is still open.
    pub fn connections(&self) -> usize {
        self.lock().connections.len()
    }

    pub(super) fn remote(&self, id: u64) -> Remote {
        Remote::new(self.clone(), id)
    }
}
