//! How a process ends: the first event loop closes the listeners, then clients leave or are sent away.
//!
//! ```text
//!  order or signal ─► first loop: Closing ── listeners closed ──► Draining ── no client left ──► all loops: `stop`, at once
//!                     (with so_reuseport: HANDSHAKES long)    └─► Stopping ────────────────────► all loops: `stop`, after transactions
//! ```
//!
//! With `so_reuseport` another process may listen at the same addresses, and no connection is to fail in between. So the kernel takes no
//! new connections for this process's listeners first; those it had promised are accepted and served as ever; then the listeners close.
//! The thread of the metrics does the same with its own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::client::Phase;
use crate::core::event_loop::{EventLoop, listener_token};
use crate::core::shared::Message;

/// How long connections that are being made may take before their listener closes. Unmeasured: longer than between machines far apart,
/// and shorter than the second after which clients repeat what the kernel has dropped meanwhile.
pub(in crate::core) const HANDSHAKES: Duration = Duration::from_millis(500);

/// How far the first event loop is with ending the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum Ending {
    /// Nobody has told it to.
    #[default]
    No,
    /// The listeners close at this time; then it stops, or drains.
    Closing { at: Duration, stops: bool },
    /// It stops when all clients have left by themselves.
    Draining,
    /// All loops have been told to stop.
    Stopping,
}

impl<R: Reactor> EventLoop<R> {
    /// Begins to end the process: it stops when transactions end, or otherwise when clients leave. The first loop's to do.
    pub(in crate::core) fn begin_to_end(&mut self, reactor: &mut R, stops: bool) {
        if self.index != 0 {
            return;
        }
        self.shared.leaving.store(true, Ordering::Relaxed);
        self.ending = match self.ending {
            Ending::No => Ending::Closing {
                at: self.now + self.hold_back(reactor),
                stops,
            },
            Ending::Closing { at, .. } => Ending::Closing { at, stops },
            Ending::Draining if stops => Ending::Closing { at: self.now, stops },
            over => over,
        };
        self.ending_tick(reactor);
    }

    /// Keeps new connections away. Returns how long those that are being made are waited for.
    fn hold_back(&mut self, reactor: &mut R) -> Duration {
        if !self.shared.shares_ports {
            return Duration::ZERO;
        }
        self.shared.ending.store(true, Ordering::Relaxed);
        for listener in 0..self.listeners {
            reactor.drop_syns(listener_token(listener));
        }
        HANDSHAKES
    }

    /// Takes the next step to the end when it is time.
    pub(in crate::core) fn ending_tick(&mut self, reactor: &mut R) {
        match self.ending {
            Ending::Closing { at, stops } if self.now >= at => {
                if self.listeners > 0 {
                    self.unlisten(reactor, false);
                    self.shared.tell_others(self.index, || Message::Unlisten);
                }
                // As long as metrics are asked for here, there must be loops to answer.
                let metrics = self.shared.ending.load(Ordering::Relaxed)
                    && self.shared.metrics_listen.load(Ordering::Relaxed);
                if metrics {
                    return;
                }
                self.ending = match stops {
                    true => Ending::Stopping,
                    false => Ending::Draining,
                };
                if stops {
                    self.shared.stop_loops(false);
                }
            }
            Ending::Draining if self.shared.clients_all() <= self.consoles() => {
                self.ending = Ending::Stopping;
                self.shared.stop_loops(true);
            }
            _ => {}
        }
    }

    /// Closes the listeners. With peers, the Unix socket is left unless `all` must go: cancel requests for clients that are still there
    /// come in by it.
    pub(in crate::core) fn unlisten(&mut self, reactor: &mut R, all: bool) {
        let kept = self
            .unix_listener
            .filter(|_| !all && self.shared.keys_of_clients.peer_id > 0);
        for listener in (0..self.listeners).filter(|&listener| Some(listener) != kept) {
            reactor.unlisten(listener_token(listener));
        }
        if all && let Some(listener) = self.unix_listener.take() {
            reactor.unlisten(listener_token(listener));
        }
        self.listeners = 0;
    }

    /// No new clients. Those there are end at once, or when their transactions do: those that wait for a server have none.
    pub(in crate::core) fn stop(&mut self, reactor: &mut R, at_once: bool) {
        self.unlisten(reactor, at_once);
        self.stopping = true;
        let clients: Vec<usize> = self.clients.iter().map(|(index, _)| index).collect();
        for index in clients {
            let free = self
                .clients
                .get(index)
                .is_some_and(|client| client.server.is_none() && !matches!(client.phase, Phase::Console));
            if at_once || free {
                self.dismiss_client(reactor, index);
            }
        }
        if at_once {
            self.forget_forwards(reactor);
            self.last_words_until = Duration::ZERO;
        }
        self.settle(reactor);
    }

    /// Whether it has been told to stop, and nobody is left on any loop.
    pub(in crate::core) fn is_deserted(&self) -> bool {
        self.stopping && self.shared.clients_all() <= self.consoles() && !self.forwards_any()
    }

    /// Clients of the console, which are not waited for.
    fn consoles(&self) -> usize {
        self.shared.consoles.load(Ordering::Relaxed)
    }
}
