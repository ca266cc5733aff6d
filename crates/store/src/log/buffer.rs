//! [`Buffer`]: what the critical section of a commit works on; all of it stands under one mutex of [`super::Log`].
//!
//! What it is not: it waits for nobody. The callers do.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{FRAME_BYTES, Failure, LogError};
use crate::park::Park;
use crate::ts::Ts;

/// Commits that wait to be written.
pub(super) struct Buffer {
    /// Framed blocks, in order of their timestamps.
    pub(super) bytes: Vec<u8>,
    /// The newest timestamp handed out.
    pub(super) last: Ts,
    /// Bytes in all segments and in both buffers, for the log's limit.
    pub(super) total: u64,
    /// Why no commit is taken any more.
    pub(super) refuse: Option<Refusal>,
    /// The writer is to end.
    pub(super) closing: bool,
    /// The writer sleeps without a time limit and is woken by the first block.
    pub(super) wake_on_first: bool,
    /// Committers that wait for room, first come first served.
    pub(super) queue: VecDeque<(u64, Arc<dyn Park>)>,
    next_ticket: u64,
    bytes_max: usize,
}

/// Why no commit is taken any more.
#[derive(Clone)]
pub(super) enum Refusal {
    Failed(Failure),
    Closed,
}

impl Buffer {
    pub(super) fn new(last: Ts, bytes_max: usize, total: u64) -> Buffer {
        Buffer {
            bytes: Vec::with_capacity(bytes_max),
            last,
            total,
            refuse: None,
            closing: false,
            wake_on_first: false,
            queue: VecDeque::new(),
            next_ticket: 0,
            bytes_max,
        }
    }

    /// A payload of this length fits; a very large one only alone.
    #[inline]
    pub(super) fn has_room(&self, payload: usize) -> bool {
        self.bytes.is_empty() || self.bytes.len() + FRAME_BYTES + payload <= self.bytes_max
    }

    /// More than half full: time to write.
    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes.len() > self.bytes_max / 2
    }

    /// Puts a committer at the end of those that wait for room; its ticket.
    pub(super) fn enqueue(&mut self, park: &Arc<dyn Park>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back((ticket, Arc::clone(park)));
        ticket
    }

    pub(super) fn is_first(&self, ticket: u64) -> bool {
        self.queue.front().is_some_and(|(first, _)| *first == ticket)
    }

    /// Takes a committer out of the queue, nearly always the first, and wakes the next: there may be room for two.
    pub(super) fn dequeue(&mut self, ticket: u64) {
        match self.queue.iter().position(|(other, _)| *other == ticket) {
            Some(at) => drop(self.queue.remove(at)),
            None => debug_assert!(false, "who waits stands in the queue"),
        }
        self.wake_first();
    }

    pub(super) fn wake_first(&self) {
        if let Some((_, park)) = self.queue.front() {
            park.unpark();
        }
    }
}

impl Refusal {
    /// What a refused committer gets.
    pub(super) fn error(&self) -> LogError {
        match self {
            Refusal::Closed => LogError::Closed,
            Refusal::Failed(failure) => LogError::Failed(failure.clone()),
        }
    }
}
