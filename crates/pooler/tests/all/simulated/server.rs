//! The stand-in for a PostgreSQL server: what listens at an address of the simulated network, and a [`Session`] for each connection.

use std::path::PathBuf;

use corun_net::reactor::Address;
use corun_net::reactor::twin::{Network, Remote, Server};

use super::random::Random;
use super::session::{Ledger, Session};

/// The folder in the configuration whose socket is this server.
pub const FOLDER: &str = "/simulated";

/// The socket in such a folder.
pub fn socket(folder: &str) -> Address {
    Address::Unix(PathBuf::from(folder).join(".s.PGSQL.5432"))
}

/// A server and its backends.
pub struct SimulatedServer {
    server: Server,
    random: Random,
    pub ledger: Ledger,
    pub backends: Vec<Backend>,
    /// Cancel requests that have come and have not been looked at.
    requests: Vec<(Remote, u32, Vec<u8>)>,
    next_pid: u32,
    /// Backends that die at each step, in a thousand.
    pub deaths: usize,
    /// Cancel requests that struck, and those that came too late.
    pub cancelled: usize,
    pub late: usize,
    /// Whether it does nothing at all, for a while.
    pub silent: bool,
    /// Whether statements that sleep do so until they are cancelled.
    pub sound: bool,
}

/// A connection to the server.
pub struct Backend {
    remote: Remote,
    pub session: Session,
    /// Output that is on its way.
    output: Vec<u8>,
}

impl SimulatedServer {
    /// A server of this network, at the socket of this folder.
    pub fn new(network: &Network, folder: &str, seed: u64) -> SimulatedServer {
        SimulatedServer {
            server: network.serve(socket(folder)),
            random: Random::new(seed),
            ledger: Ledger::default(),
            backends: Vec::new(),
            requests: Vec::new(),
            next_pid: 1000,
            deaths: 0,
            cancelled: 0,
            late: 0,
            silent: false,
            sound: false,
        }
    }

    /// Does a part of what there is to do, and leaves nothing unread where `eager`. `false`: there is nothing.
    pub fn step(&mut self, eager: bool) -> bool {
        if self.silent {
            return false;
        }
        let mut moved = false;
        while let Some(remote) = self.server.accept() {
            self.next_pid += 1;
            let secret = self.random.bits().to_be_bytes()[..4].to_vec();
            let session = Session::new(self.next_pid, secret, &self.ledger);
            let output = Vec::new();
            self.backends.push(Backend {
                remote,
                session,
                output,
            });
            moved = true;
        }
        moved |= self.look_at_requests();
        let mut at = 0;
        while at < self.backends.len() {
            let dies = self.deaths > 0 && self.random.below(1000) < self.deaths;
            let (backend, random) = (&mut self.backends[at], &mut self.random);
            if dies && backend.session.cancels.is_none() {
                // Half of the deaths are seen in the middle of what was on its way.
                let part = random.below(backend.output.len() + 1);
                backend.remote.send(&backend.output[..part]);
                if random.percent(50) {
                    backend.remote.reset();
                }
                self.backends.remove(at);
                moved = true;
                continue;
            }
            moved |= backend.step(random, eager, self.sound);
            if backend.is_over() {
                let Backend { remote, session, .. } = self.backends.remove(at);
                if let Some((pid, secret)) = session.cancels {
                    self.requests.push((remote, pid, secret));
                }
                moved = true;
                continue;
            }
            at += 1;
        }
        moved
    }

    /// A request is looked at after a while. Its signal strikes who works, or sometimes the next statement of who does not.
    fn look_at_requests(&mut self) -> bool {
        let moved = !self.requests.is_empty();
        let (random, backends) = (&mut self.random, &mut self.backends);
        let (mut cancelled, mut late) = (0, 0);
        self.requests.retain(|(_, pid, secret)| {
            if random.percent(60) {
                return true;
            }
            let found = backends
                .iter_mut()
                .find(|backend| backend.session.pid == *pid && backend.session.secret == *secret);
            if let Some(backend) = found {
                if backend.session.cancel() {
                    cancelled += 1;
                } else {
                    late += 1;
                    backend.session.struck |= random.percent(50);
                }
            }
            false
        });
        self.cancelled += cancelled;
        self.late += late;
        moved
    }

    /// Whether every backend is between transactions, with nothing to send.
    pub fn is_settled(&self) -> bool {
        let settled = |backend: &Backend| backend.session.is_settled() && backend.output.is_empty();
        self.requests.is_empty() && self.backends.iter().all(settled)
    }
}

impl Backend {
    /// Says something that nobody has asked for.
    pub fn say(&self, bytes: &[u8]) {
        self.remote.send(bytes);
    }

    fn step(&mut self, random: &mut Random, eager: bool, sound: bool) -> bool {
        let mut moved = false;
        if eager || random.percent(70) {
            let bytes = self.remote.receive_at_most(1 << random.below(16));
            moved |= !bytes.is_empty();
            self.session.receive(&bytes);
        }
        if self.session.sleeps() && !sound {
            moved = true;
            if random.percent(20) {
                self.session.wake();
            }
        }
        self.output.extend(self.session.take_output());
        if !self.output.is_empty() {
            moved = true;
            let part = match random.below(3) {
                0 => self.output.len(),
                1 => random.below(self.output.len() + 1),
                _ => random.below(self.output.len().min(16) + 1),
            };
            self.remote.send(&self.output[..part]);
            self.output.drain(..part);
        }
        moved
    }

    fn is_over(&self) -> bool {
        (self.session.closed && self.output.is_empty()) || self.remote.is_finished()
    }
}
