//! [`Simulated`]: one whole event loop on the simulated reactor, for tests and fuzz targets.
//!
//! Order of calls: a network of [`corun_net::reactor::twin`], what listens in it in the place of PostgreSQL, then [`Simulated::new`];
//! clients come in through [`Simulated::entrance`], and [`Simulated::settle`] lets everything happen that can. Time passes only by
//! [`Network::advance`].
//!
//! Nothing reaches the machine: there are no cores to bind processes to, and nothing listens. Hosts in the configuration should be
//! folders of unix sockets, so that no name is looked up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corun_net::reactor::twin::{Entrance, Network};
use corun_net::reactor::{Reactor, Twin};

use super::event_loop::{EventLoop, listener_token};
use super::heavy_queue::Machine;
use super::run::StartError;
use super::shared::{Message, Shared};
use super::world::World;

/// An event loop of its own.
pub struct Simulated {
    network: Network,
    shared: Arc<Shared>,
    reactor: Twin,
    event_loop: EventLoop<Twin>,
    entrance: Entrance,
    ended: bool,
}

/// What an event loop holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Clients, those on their way in included.
    pub clients: usize,
    /// Clients in the queue of a pool, or without a host.
    pub waiting: usize,
    /// Heavy queries that the queue counts: those that wait there, those that run.
    pub queued: (usize, usize),
    /// Server connections.
    pub servers: usize,
    /// Of those: free for the next client.
    pub idle: usize,
    /// Cancel requests on their way to servers.
    pub cancels: usize,
    /// Things put off: what the current event made possible, and questions of the proxy's own.
    pub pending: usize,
    /// Answers that servers owe.
    pub owed: usize,
    /// Bytes kept of clients' and servers' messages, and bytes that sockets did not take.
    pub bytes: usize,
}

impl Simulated {
    /// An event loop that listens in `network`, on a unix socket.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new(network: &Network, world: World) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::new(1, Arc::new(world), Machine::Simulated).ok_or(StartError::Random)?);
        shared.open_heavy_queue(&shared.world().config);
        let mut reactor = network.reactor();
        shared.mailboxes[0].attend(reactor.waker());
        let mut event_loop = EventLoop::new(0, Arc::clone(&shared));
        let (listener, entrance) = network.listener(None);
        reactor
            .listen(listener_token(0), listener)
            .map_err(|error| StartError::System {
                what: "a listener",
                error,
            })?;
        event_loop.listeners = 1;
        Ok(Self {
            network: network.clone(),
            shared,
            reactor,
            event_loop,
            entrance,
            ended: false,
        })
    }

    /// Where clients come in.
    pub fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// One turn at least, and more until nothing is left to happen without somebody else's doing. `false`: after so many turns there
    /// still is.
    pub fn settle(&mut self, turns_max: usize) -> bool {
        for _ in 0..turns_max {
            if self.ended {
                return true;
            }
            // A simulated turn cannot fail.
            self.ended = !self.event_loop.turn(&mut self.reactor).unwrap_or(false);
            if self.ended {
                // As the thread does: its sockets are closed.
                self.reactor = self.network.reactor();
            }
            if !self.reactor.has_work() {
                return true;
            }
        }
        self.ended || !self.reactor.has_work()
    }

    /// Takes over another configuration.
    pub fn reload(&self, world: World) {
        self.shared.open_heavy_queue(&world.config);
        self.shared.change_world(Arc::new(world));
    }

    /// As [`super::Pooler::stop`].
    pub fn stop(&self, at_once: bool) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let _ = self.shared.mailboxes[0].post(Message::Shutdown { at_once });
    }

    /// Whether the event loop has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// What it holds now.
    pub fn census(&self) -> Census {
        let event_loop = &self.event_loop;
        let mut census = Census {
            clients: event_loop.clients.len(),
            servers: event_loop.servers.len(),
            cancels: event_loop.cancels.len(),
            pending: event_loop.todo.len() + event_loop.questions.len(),
            waiting: event_loop.parked.len(),
            queued: self.shared.heavy_queue.census(),
            ..Census::default()
        };
        for (_, pool) in &event_loop.pools {
            census.waiting += pool.waiting.len();
            census.idle += pool.idle.len();
        }
        for (_, client) in &event_loop.clients {
            census.bytes += client.inbox.len() + self.reactor.queued(client.token());
        }
        for (_, server) in &event_loop.servers {
            census.owed += server.expects.outstanding();
            census.bytes += server.partial.len() + self.reactor.queued(server.token());
        }
        census
    }
}
