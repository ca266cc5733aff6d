//! [`Simulated`]: whole event loops on simulated reactors, for tests and fuzz targets.
//!
//! Order of calls: a network of [`corun_net::reactor::twin`], what listens in it in the place of PostgreSQL, then [`Simulated::new`];
//! clients come in through [`Simulated::entrance`], and [`Simulated::settle`] lets everything happen that can. Time passes only by
//! [`Network::advance`].
//!
//! Nothing reaches the machine: there are no cores to bind processes to, and nothing listens. Hosts in the configuration should be
//! folders of unix sockets, so that no name is looked up.

use std::sync::Arc;

use corun_net::reactor::twin::{Entrance, Network};
use corun_net::reactor::{Reactor, Twin};

use crate::config::AutoCount;
use crate::core::config_files::ConfigFiles;
use crate::core::event_loop::{EventLoop, listener_token};
use crate::core::heavy_queue::Machine;
use crate::core::run::StartError;
use crate::core::shared::Shared;

/// Event loops of its own: as many as the configuration's `event_loops` says, one where that is `auto`. They take turns.
pub struct Simulated {
    network: Network,
    shared: Arc<Shared>,
    loops: Vec<Loop>,
    entrance: Entrance,
}

struct Loop {
    reactor: Twin,
    event_loop: EventLoop<Twin>,
    ended: bool,
}

/// What event loops hold at one moment.
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
    /// Event loops of which the first listens in `network`, on a unix socket.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new(network: &Network, files: ConfigFiles) -> Result<Self, StartError> {
        let count = match files.config.corun.event_loops {
            AutoCount::Auto => 1,
            AutoCount::Count(count) => count as usize,
        };
        let shared = Shared::new(count, Arc::new(files), Machine::Simulated).ok_or(StartError::Random)?;
        let shared = Arc::new(shared);
        shared.open_heavy_queue(&shared.files().config);
        let mut loops: Vec<Loop> = (0..count)
            .map(|index| {
                let reactor = network.reactor();
                shared.mailboxes[index].attend(reactor.waker());
                Loop {
                    event_loop: EventLoop::new(index, Arc::clone(&shared)),
                    reactor,
                    ended: false,
                }
            })
            .collect();
        let (listener, entrance) = network.listener(None);
        let first = &mut loops[0];
        let listened = first.reactor.listen(listener_token(0), listener);
        listened.map_err(|error| StartError::System {
            what: "a listener",
            error,
        })?;
        first.event_loop.listeners = 1;
        Ok(Self {
            network: network.clone(),
            shared,
            loops,
            entrance,
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
            for each in self.loops.iter_mut().filter(|each| !each.ended) {
                // A simulated turn cannot fail.
                each.ended = !each.event_loop.turn(&mut each.reactor).unwrap_or(false);
                if each.ended {
                    // As the thread does: its sockets are closed.
                    each.reactor = self.network.reactor();
                }
            }
            if self.rests() {
                return true;
            }
        }
        self.rests()
    }

    fn rests(&self) -> bool {
        self.loops
            .iter()
            .all(|each| each.ended || !each.reactor.has_work())
    }

    /// Takes over another configuration.
    pub fn reload(&self, files: ConfigFiles) {
        self.shared.open_heavy_queue(&files.config);
        self.shared.change_config(Arc::new(files));
    }

    /// As [`super::Pooler::stop`].
    pub fn stop(&self, at_once: bool) {
        self.shared.stop(at_once);
    }

    /// Whether every event loop has ended.
    pub fn has_ended(&self) -> bool {
        self.loops.iter().all(|each| each.ended)
    }

    /// Texts that they have looked up to know what these do.
    pub fn look_ups(&self) -> u64 {
        let asked = |each: &Loop| each.event_loop.classifier.understanding.statistics().asked;
        self.loops.iter().map(asked).sum()
    }

    /// What they hold now.
    pub fn census(&self) -> Census {
        let mut census = Census {
            queued: self.shared.heavy_queue.census(),
            ..Census::default()
        };
        for Loop {
            reactor, event_loop, ..
        } in &self.loops
        {
            census.clients += event_loop.clients.len();
            census.servers += event_loop.servers.len();
            census.cancels += event_loop.cancels.len();
            census.pending += event_loop.todo.len() + event_loop.questions.len() + event_loop.forwards.len();
            census.waiting += event_loop.hosts.parked.len();
            for (_, pool) in &event_loop.pools {
                census.waiting += pool.waiting.len();
                census.idle += pool.idle.len();
            }
            for (_, client) in &event_loop.clients {
                census.bytes += client.inbox.len() + reactor.queued(client.token());
            }
            for (_, server) in &event_loop.servers {
                census.owed += server.expects.outstanding();
                census.bytes += server.reading.partial.len() + reactor.queued(server.token());
            }
        }
        census
    }
}
