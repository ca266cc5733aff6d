//! What connections hold in buffers, owed replies and prepared statements, and what is done when that is more than `memory_max`.
//!
//! ```text
//!  bytes queued ─► grew() ─ could it be too much? ─► measure() ─► too much: reading into the largest is paused, each buffer may be
//!                  tick ──────────────────────────────┘                    only SHORT_MAX long, and new clients are refused
//! ```
//!
//! Paused is whoever fills a buffer: the server of a slow client, the client of a slow server. What a client has sent of a message
//! that is not whole is counted and not paused: without its end it would stay for ever.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::client::Client;
use crate::core::event_loop::{EventLoop, WAITING_INBOX_MAX};
use crate::core::server::Server;
use corun_wire::error::{Refusal, code};

/// Bytes kept for one slow reader while there is too much altogether.
const SHORT_MAX: usize = 16 << 10;
/// What a client's prepared statements may take then.
const SHORT_STATEMENTS_MAX: usize = 256 << 10;
/// Between two measurements a loop's buffers may grow by this part of what is allowed.
const GROWTH_PART: usize = 16;
/// The log is told at most so often that there is too much.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What an event loop knows of its buffers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// There is too much altogether.
    short: bool,
    /// Bytes that may have been added since the last measurement.
    grown: usize,
    /// When the log was told last.
    told: Option<Duration>,
}

/// Bytes in the buffers of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub clients: usize,
    pub servers: usize,
    /// Texts of prepared statements.
    pub statements: usize,
}

impl Buffers {
    /// All of them.
    pub fn all(self) -> usize {
        self.clients + self.servers + self.statements
    }
}

/// What is kept for a client: what it has sent, and what it does not read.
fn of_client<R: Reactor>(reactor: &R, client: &Client) -> usize {
    let held = client.listens.as_ref().map_or(0, |listens| listens.bytes());
    client.inbox.capacity() + held + reactor.queued(client.token())
}

/// The same for a server.
fn of_server<R: Reactor>(reactor: &R, server: &Server) -> usize {
    let filter = server.query.filter.as_ref().map_or(0, |filter| filter.bytes());
    server.reading.partial.capacity() + filter + server.expects.bytes() + reactor.queued(server.token())
}

impl<R: Reactor> EventLoop<R> {
    fn memory_max(&self) -> usize {
        self.files.config.corun.memory_max.0 as usize
    }

    /// A limit, which is at most `short` while there is too much altogether.
    fn unless_short(&self, limit: usize, short: usize) -> usize {
        if self.memory.short {
            limit.min(short)
        } else {
            limit
        }
    }

    /// Bytes that may be queued for one reader before the other side is paused.
    pub(super) fn queued_max(&self) -> usize {
        self.unless_short(
            self.files.config.corun.connection_buffer_max.0 as usize,
            SHORT_MAX,
        )
    }

    /// Bytes that a client may send while it waits, before it is paused.
    pub(super) fn waiting_inbox_max(&self) -> usize {
        self.unless_short(WAITING_INBOX_MAX, SHORT_MAX)
    }

    /// What the prepared statements of one client may take.
    pub(super) fn statement_bytes_max(&self) -> usize {
        let limit = self.files.config.corun.client_memory_max.0 as usize;
        self.unless_short(limit, SHORT_STATEMENTS_MAX)
    }

    /// What this loop's buffers hold.
    pub(super) fn buffers(&self, reactor: &R) -> Buffers {
        Buffers {
            clients: self
                .clients
                .iter()
                .map(|(_, client)| of_client(reactor, client))
                .sum(),
            servers: self
                .servers
                .iter()
                .map(|(_, server)| of_server(reactor, server))
                .sum(),
            // Those of all loops, told by one.
            statements: if self.index == 0 {
                self.classifier.statements.bytes()
            } else {
                0
            },
        }
    }

    /// Bytes may have been added to a buffer.
    #[inline]
    pub(super) fn grew(&mut self, reactor: &mut R, bytes: usize) {
        let max = self.memory_max();
        if max == 0 {
            return;
        }
        self.memory.grown += bytes;
        if self.memory.grown > max / GROWTH_PART {
            self.measure_memory(reactor);
        }
    }

    /// Looks at all buffers and pauses what makes the largest grow.
    pub(super) fn measure_memory(&mut self, reactor: &mut R) {
        self.memory.grown = 0;
        let max = self.memory_max();
        if max == 0 {
            self.memory.short = false;
            self.shared.buffered[self.index].store(0, Ordering::Relaxed);
            return;
        }
        let own = self.buffers(reactor).all();
        self.shared.buffered[self.index].store(own, Ordering::Relaxed);
        let excess = self.shared.buffered_all().saturating_sub(max);
        let short = excess > 0;
        let told = self.memory.told;
        if short && told.is_none_or(|told| self.now.saturating_sub(told) > TOLD_AGAIN_AFTER) {
            self.memory.told = Some(self.now);
            tracing::warn!(
                memory_max = max,
                "connections hold more than memory_max: slow ones are paused, new clients are refused"
            );
        }
        self.memory.short = short;
        if short {
            self.pause_largest(reactor, excess);
        }
    }

    /// Pauses who fills the largest buffers, until these are worth `excess` bytes.
    fn pause_largest(&mut self, reactor: &mut R, excess: usize) {
        let to_clients = self.clients.iter().filter_map(|(_, client)| {
            let server = client.server?;
            Some((reactor.queued(client.token()), true, server))
        });
        let to_servers = self.servers.iter().filter_map(|(_, server)| {
            let client = server.user.client?;
            Some((reactor.queued(server.token()), false, client))
        });
        let waiting = self.clients.iter().filter(|(_, client)| client.waits());
        let waiting = waiting.map(|(index, client)| (client.inbox.len(), false, index));
        let mut largest: Vec<(usize, bool, usize)> = to_clients
            .chain(to_servers)
            .chain(waiting)
            .filter(|(bytes, _, _)| *bytes > SHORT_MAX)
            .collect();
        largest.sort_unstable_by_key(|&(bytes, _, _)| Reverse(bytes));
        let mut covered = 0;
        for (bytes, server, index) in largest {
            if covered >= excess {
                return;
            }
            covered += bytes;
            if server {
                if let Some(server) = self.servers.get_mut(index)
                    && !std::mem::replace(&mut server.reading.paused, true)
                {
                    reactor.pause(server.token());
                }
            } else if let Some(client) = self.clients.get_mut(index)
                && !std::mem::replace(&mut client.paused, true)
            {
                reactor.pause(client.token());
            }
        }
    }

    /// Why a new client is refused while there is too much.
    pub(super) fn too_little_memory(&self) -> Option<Refusal> {
        let (max, held) = (self.memory_max(), self.shared.buffered_all());
        (max > 0 && held > max).then(|| {
            Refusal::new(code::OUT_OF_MEMORY, "no more connections allowed (memory_max)")
                .detail(format!(
                    "Buffers and prepared statements hold {held} bytes, memory_max is {max}."
                ))
                .hint("SHOW SOCKETS shows clients that do not read what they asked for, SHOW MEM what holds most.")
        })
    }
}
