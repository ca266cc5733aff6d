//! [`Waiting`]: the clients that wait for their commits to be on disk, and the failure that ends all waiting.
//!
//! What it is not: a queue of committers that wait for room; see `buffer`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::Failure;
use crate::park::Park;
use crate::ts::Ts;

/// Under one mutex of the log.
#[derive(Default)]
pub(super) struct Waiting {
    /// Oldest commit first.
    clients: BinaryHeap<Client>,
    /// The writer sleeps until so many wait.
    pub(super) wanted: usize,
    /// Once there, for good.
    pub(super) failure: Option<Failure>,
}

struct Client {
    ts: Reverse<Ts>,
    park: Arc<dyn Park>,
}

impl PartialEq for Client {
    fn eq(&self, other: &Client) -> bool {
        self.ts == other.ts
    }
}

impl Eq for Client {}

impl PartialOrd for Client {
    fn partial_cmp(&self, other: &Client) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Client {
    fn cmp(&self, other: &Client) -> std::cmp::Ordering {
        self.ts.cmp(&other.ts)
    }
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether the writer is to be woken then.
    pub(super) fn push(&mut self, ts: Ts, park: &Arc<dyn Park>) -> bool {
        self.clients.push(Client {
            ts: Reverse(ts),
            park: Arc::clone(park),
        });
        self.clients.len() >= self.wanted
    }

    /// Moves the clients whose commits are at most `durable` to `woken`.
    pub(super) fn pop_covered(&mut self, durable: Ts, woken: &mut Vec<Arc<dyn Park>>) {
        while self.clients.peek().is_some_and(|client| client.ts.0 <= durable) {
            woken.extend(self.clients.pop().map(|client| client.park));
        }
    }
}
