//! The other ends of simulated connections: what a test plays.

use std::net::SocketAddr;

use super::End;
use super::network::{Answer, Connection, Network};
use crate::reactor::Peer;

/// Where clients connect to a listener of a simulated reactor.
#[derive(Debug)]
pub struct Entrance {
    network: Network,
    gate: u64,
    local: Option<SocketAddr>,
}

impl Entrance {
    pub(super) fn new(network: Network, gate: u64, local: Option<SocketAddr>) -> Self {
        Self { network, gate, local }
    }

    /// Connects as this peer; None when nobody listens any more.
    pub fn connect(&self, peer: Peer) -> Option<Remote> {
        let mut inner = self.network.lock();
        if !inner.gates.contains_key(&self.gate) {
            return None;
        }
        let id = inner.connect(peer, self.local);
        let end = End::new(self.network.clone(), id);
        inner.gates.get_mut(&self.gate)?.push_back(end);
        drop(inner);
        Some(self.network.remote(id))
    }
}

/// Somebody whom simulated reactors connect to. Dropping it refuses further connections.
#[derive(Debug)]
pub struct Server {
    network: Network,
    server: u64,
}

impl Server {
    pub(super) fn new(network: Network, server: u64) -> Self {
        Self { network, server }
    }

    /// What happens to connections from now on.
    pub fn set(&self, answer: Answer) {
        for served in &mut self.network.lock().servers {
            if served.server == self.server {
                served.answer = answer;
            }
        }
    }

    /// The connection that has waited longest.
    pub fn accept(&self) -> Option<Remote> {
        let mut inner = self.network.lock();
        let mut servers = inner.servers.iter_mut();
        let id = servers
            .find(|served| served.server == self.server)?
            .waiting
            .pop_front()?;
        drop(inner);
        Some(self.network.remote(id))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.network.stop_serving(self.server);
    }
}

/// The far end of one connection. Dropping it closes it in an orderly way.
#[derive(Debug)]
pub struct Remote {
    network: Network,
    id: u64,
}

impl Remote {
    pub(super) fn new(network: Network, id: u64) -> Self {
        Self { network, id }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        let mut inner = self.network.lock();
        let connection = inner.connections.get_mut(&self.id);
        // It is forgotten only after this end was dropped.
        act(connection.unwrap_or_else(|| unreachable!("a remote keeps its connection")))
    }

    /// Sends bytes to the reactor. Lost when it has closed.
    pub fn send(&self, bytes: &[u8]) {
        self.with(|connection| {
            if !connection.dropped && !connection.finished && !connection.reset {
                connection.inward.extend(bytes);
            }
        });
    }

    /// Says that nothing more comes; still reads.
    pub fn finish(&self) {
        self.with(|connection| connection.finished = true);
    }

    /// Breaks the connection. What was sent before arrives or, by luck, does not; what was received is lost.
    pub fn reset(&self) {
        let mut inner = self.network.lock();
        let lost = inner.once_in(2);
        if let Some(connection) = inner.connections.get_mut(&self.id) {
            connection.reset = true;
            connection.gone = true;
            connection.outward.clear();
            if lost {
                connection.inward.clear();
            }
        }
    }

    /// Reads everything that has arrived.
    pub fn receive(&self) -> Vec<u8> {
        self.with(|connection| connection.outward.drain(..).collect())
    }

    /// Reads at most this many bytes.
    pub fn receive_at_most(&self, bytes: usize) -> Vec<u8> {
        self.with(|connection| {
            let count = bytes.min(connection.outward.len());
            connection.outward.drain(..count).collect()
        })
    }

    /// How many bytes the kernel holds for this end before it takes no more; unbounded at first.
    pub fn set_room(&self, bytes: usize) {
        self.with(|connection| connection.room = bytes);
    }

    /// Bytes sent that no handler has been given yet: a reactor that is paused leaves them here.
    pub fn unread(&self) -> usize {
        self.with(|connection| connection.inward.len())
    }

    /// Whether the reactor has said that it sends no more, or closed.
    pub fn is_finished(&self) -> bool {
        self.with(|connection| connection.shut || connection.dropped)
    }

    /// Whether the reactor has closed.
    pub fn is_closed(&self) -> bool {
        self.with(|connection| connection.dropped)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let mut inner = self.network.lock();
        if let Some(connection) = inner.connections.get_mut(&self.id) {
            connection.finished = true;
            connection.gone = true;
            connection.released = true;
            connection.outward.clear();
        }
        inner.forget(self.id);
    }
}
