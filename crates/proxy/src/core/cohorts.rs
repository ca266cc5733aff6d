//! Which client in a pool's queue is next.

use std::time::Duration;

use super::pool::{Pool, Waiting};

/// Takes the next client out of the queue.
pub(super) fn next(pool: &mut Pool, _now: Duration) -> Option<Waiting> {
    pool.waiting.pop_front()
}
