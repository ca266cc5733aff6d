//! Several processes behind one address: cancel requests for another one's clients are forwarded to it (PgBouncer's peering).
//!
//! ```text
//!  request ─► any process ─► `key`: whose client? ─► its own: `server::cancel`
//!                                                 └► a peer's: the first loop's list ─► connection of its own to the peer ─► …
//! ```
//!
//! The first loop forwards for all, so that `pool_size` holds for the process. What waits, and how long, is bounded.

pub(in crate::core) mod key;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::admin::PeerPoolRow;
use crate::config::Config;
use crate::core::event_loop::{EventLoop, cancel_token};
use crate::core::route::resolve::Found;
use crate::core::server::cancel::{Cancel, Target};
use crate::core::shared::Message;
use corun_wire::build;

/// Requests that may wait for one peer: anybody can send them, and those for other peers are not theirs to hold up.
const WAITING_MAX: usize = 1000;
/// How long a request may take when `cancel_wait_timeout` sets no limit. Unmeasured: nobody waits that long for a query to be cancelled.
pub(in crate::core) const PATIENCE: Duration = Duration::from_secs(60);
/// Why a request is given up that has waited for too long.
const TOO_LATE: &str = "cancel_wait_timeout";

/// Those that wait, the first to come first.
pub(in crate::core) type Forwards = VecDeque<Forward>;

/// A cancel request that waits to be forwarded.
pub(in crate::core) struct Forward {
    pub peer: u16,
    pub request: Vec<u8>,
    pub since: Duration,
}

/// What became of an attempt.
enum Attempt {
    Begun,
    /// Too many are on their way, or the peer's address is being looked up.
    Later,
    /// It cannot be forwarded.
    Failed(String),
}

impl<R: Reactor> EventLoop<R> {
    /// A cancel request is for a client of another process.
    pub(in crate::core) fn tell_forwarder(&self, peer: u16, pid: u32, secret: &[u8]) {
        let mut request = Vec::new();
        build::cancel(&mut request, pid, secret);
        self.shared.tell(0, Message::Forward { peer, request });
    }

    /// Forwards a cancel request as soon as it can be.
    pub(in crate::core) fn forward_cancel(&mut self, reactor: &mut R, peer: u16, request: Vec<u8>) {
        let waiting = self.forwards.iter().filter(|forward| forward.peer == peer);
        let waiting = waiting.count();
        if waiting >= WAITING_MAX {
            return forward_failed(peer, "too many wait for this peer");
        }
        let since = self.now;
        self.forwards.push_back(Forward { peer, request, since });
        // Behind others it waits for their end.
        if waiting == 0 {
            self.forward_waiting(reactor);
        }
    }

    /// Forwards those that waited and can be forwarded now.
    pub(in crate::core) fn forward_waiting(&mut self, reactor: &mut R) {
        if self.forwards.is_empty() {
            return;
        }
        let mut under_way: BTreeMap<u16, usize> = BTreeMap::new();
        for (_, cancel) in &self.cancels {
            if let Target::Peer(peer) = cancel.target {
                *under_way.entry(peer).or_default() += 1;
            }
        }
        let mut later = BTreeSet::new();
        for forward in std::mem::take(&mut self.forwards) {
            if later.contains(&forward.peer) {
                self.forwards.push_back(forward);
                continue;
            }
            let count = under_way.entry(forward.peer).or_default();
            match self.forward(reactor, &forward, *count) {
                Attempt::Begun => *count += 1,
                Attempt::Later => {
                    later.insert(forward.peer);
                    self.forwards.push_back(forward);
                }
                Attempt::Failed(why) => forward_failed(forward.peer, &why),
            }
        }
    }

    fn forward(&mut self, reactor: &mut R, forward: &Forward, under_way: usize) -> Attempt {
        let config = &self.files.config;
        let peer = config.peers.get(&forward.peer.to_string());
        let Some((peer, endpoint)) = peer.and_then(|peer| Some((peer, peer.endpoint()?))) else {
            return Attempt::Failed("no [peers.ID] has this number".to_owned());
        };
        if under_way >= peer.pool_size.unwrap_or(config.proxy.default_pool_size) as usize {
            return Attempt::Later;
        }
        let kept = self.files.names_kept();
        let address = match self
            .shared
            .resolver
            .find(&self.shared, &endpoint, under_way, kept)
        {
            Found::Address(address) => address,
            Found::Soon => return Attempt::Later,
            Found::Failed(why) => return Attempt::Failed(why),
        };
        let entry = self.cancels.vacant_entry();
        let token = cancel_token(entry.key());
        if let Err(error) = reactor.connect(token, &address) {
            return Attempt::Failed(error.to_string());
        }
        entry.insert(Cancel {
            token,
            target: Target::Peer(forward.peer),
            request: forward.request.clone(),
            sent: false,
            since: forward.since,
        });
        Attempt::Begun
    }

    /// The connection of a request to a peer has ended: the peer has it, or it cannot be reached.
    pub(in crate::core) fn forward_ended(
        &mut self,
        reactor: &mut R,
        peer: u16,
        cancel: Cancel,
        error: Option<io::Error>,
    ) {
        match error {
            // Its queue of connections is full: the next tick tries again.
            Some(error) if !cancel.sent && error.kind() == io::ErrorKind::WouldBlock => {
                let (request, since) = (cancel.request, cancel.since);
                self.forwards.push_back(Forward { peer, request, since });
                return;
            }
            Some(error) if !cancel.sent => forward_failed(peer, &error.to_string()),
            None if !cancel.sent => forward_failed(peer, TOO_LATE),
            _ => {}
        }
        self.forward_waiting(reactor);
    }

    /// Gives up requests that have waited for longer than this.
    pub(in crate::core) fn forwards_expire(&mut self, limit: Duration) {
        let now = self.now;
        self.forwards.retain(|forward| {
            let waits = now.saturating_sub(forward.since) <= limit;
            if !waits {
                forward_failed(forward.peer, TOO_LATE);
            }
            waits
        });
    }

    /// Gives up all requests to peers.
    pub(in crate::core) fn forget_forwards(&mut self, reactor: &mut R) {
        self.forwards.clear();
        self.cancels.retain(|_, cancel| {
            let to_peer = matches!(cancel.target, Target::Peer(_));
            if to_peer {
                reactor.close(cancel.token);
            }
            !to_peer
        });
    }

    /// Whether requests to peers are on their way.
    pub(in crate::core) fn forwards_any(&self) -> bool {
        let mut cancels = self.cancels.iter();
        !self.forwards.is_empty() || cancels.any(|(_, cancel)| matches!(cancel.target, Target::Peer(_)))
    }

    /// Requests to each peer, for the console: those of the first loop are all there are.
    pub(in crate::core) fn look_at_peers(&self) -> Vec<PeerPoolRow> {
        if self.index != 0 {
            return Vec::new();
        }
        let row = |peer: u16| {
            let of_peer = |sent: bool| {
                let cancels = self.cancels.iter();
                cancels
                    .filter(|(_, cancel)| cancel.target == Target::Peer(peer) && cancel.sent == sent)
                    .count() as u64
            };
            let waiting = self.forwards.iter().filter(|forward| forward.peer == peer);
            PeerPoolRow {
                peer_id: u64::from(peer),
                cl_active_cancel_req: of_peer(true),
                cl_waiting_cancel_req: waiting.count() as u64 + of_peer(false),
                sv_active_cancel: of_peer(true),
                sv_login: of_peer(false),
            }
        };
        ids(&self.files.config).into_iter().map(row).collect()
    }
}

/// The numbers of the configured peers, ascending.
pub(in crate::core) fn ids(config: &Config) -> Vec<u16> {
    let mut ids: Vec<u16> = config.peers.keys().filter_map(|id| id.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

fn forward_failed(peer: u16, why: &str) {
    tracing::info!(peer, "a cancel request was not forwarded: {why}");
}
