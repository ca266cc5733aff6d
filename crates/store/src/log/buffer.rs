//! [`Buffer`]: what the critical section of a commit works on; all of it stands under one mutex of [`super::Log`].
//!
//! What it is not: it waits for nobody. The callers do.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{FRAME_BYTES, Failure, LogError, MARKS_BYTES};
use crate::park::Park;
use crate::ts::Ts;

/// Framed commits, in order of their timestamps.
#[derive(Default)]
pub(super) struct Batch {
    /// Frames; those of large commits without their payloads.
    pub(super) bytes: Vec<u8>,
    /// Payloads of large commits, and where in `bytes` each belongs: they are written from where they are.
    large: Vec<(usize, Vec<u8>)>,
    large_bytes: usize,
}

impl Batch {
    pub(super) fn with_capacity(bytes: usize) -> Batch {
        Batch {
            bytes: Vec::with_capacity(bytes),
            ..Batch::default()
        }
    }

    /// Bytes it takes in a file.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.large_bytes
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends the payload of the frame whose head was just pushed.
    pub(super) fn push_large(&mut self, payload: Vec<u8>) {
        self.large_bytes += payload.len();
        self.large.push((self.bytes.len(), payload));
    }

    /// Takes back what was pushed since it had `bytes` bytes of frames.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        while self.large.last().is_some_and(|(at, _)| *at > bytes) {
            let (_, payload) = self.large.pop().expect("there is a last");
            self.large_bytes -= payload.len();
        }
    }

    /// What is to be written, in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let large = self.large.iter().flat_map(move |(at, payload)| {
            let before = &self.bytes[from..*at];
            from = *at;
            [before, payload]
        });
        let rest = self.large.last().map_or(0, |(at, _)| *at);
        large.chain([&self.bytes[rest..]]).filter(|part| !part.is_empty())
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        self.large_bytes = 0;
    }
}

/// A committer that waits.
struct Waiter {
    ticket: u64,
    /// Bytes of its payload.
    payload: usize,
    park: Arc<dyn Park>,
}

/// Commits that wait to be written.
pub(super) struct Buffer {
    pub(super) batch: Batch,
    /// The newest timestamp handed out.
    pub(super) last: Ts,
    /// Bytes in all segments and in both buffers, for the log's limit.
    pub(super) total: u64,
    /// Bytes of the active segment's file, reserved on the disk, that no commit was promised yet. A commit is taken only if it fits:
    /// so whatever got a timestamp, and others may have read, finds room on the disk.
    pub(super) room: u64,
    /// Why the writer could not get as much room as those that wait need; the first of them takes it.
    pub(super) disk_full: Option<Failure>,
    /// Why no commit is taken any more.
    pub(super) refuse: Option<Refusal>,
    /// The writer is to end.
    pub(super) closing: bool,
    /// The writer sleeps without a time limit and is woken by the first block.
    pub(super) wake_on_first: bool,
    /// Committers that wait for room, first come first served.
    queue: VecDeque<Waiter>,
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
            batch: Batch::with_capacity(bytes_max),
            last,
            total,
            room: 0,
            disk_full: None,
            refuse: None,
            closing: false,
            wake_on_first: false,
            queue: VecDeque::new(),
            next_ticket: 0,
            bytes_max,
        }
    }

    /// A payload of this length fits the memory, where a very large one is taken only alone, and the disk.
    #[inline]
    pub(super) fn has_room(&self, payload: usize) -> bool {
        let fits = self.batch.is_empty() || self.batch.len() + FRAME_BYTES + payload <= self.bytes_max;
        fits && self.is_promised(payload)
    }

    /// Whether there is room on the disk for a payload of this length.
    #[inline]
    pub(super) fn is_promised(&self, payload: usize) -> bool {
        promise(payload) <= self.room
    }

    /// Takes the room on the disk that a payload needs.
    #[inline]
    pub(super) fn take_room(&mut self, payload: usize) {
        self.room -= promise(payload);
    }

    /// The room on the disk that all that wait would do with, and the first of them.
    pub(super) fn wanted(&self) -> (u64, u64) {
        let most = self.queue.iter().map(|waiter| waiter.payload).max();
        let first = self.queue.front().map(|waiter| waiter.payload);
        (most.map_or(0, promise), first.map_or(0, promise))
    }

    /// Whether the writer has something to do for those that wait. Where all is written and the disk is full, it was woken when
    /// that came about.
    pub(super) fn keeps_waiting(&self) -> bool {
        !self.queue.is_empty()
            && (!self.batch.is_empty() || (self.wanted().0 > self.room && self.disk_full.is_none()))
    }

    /// More than half full: time to write.
    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        self.batch.len() > self.bytes_max / 2
    }

    /// Puts a committer at the end of those that wait for room; its ticket.
    pub(super) fn enqueue(&mut self, payload: usize, park: &Arc<dyn Park>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back(Waiter {
            ticket,
            payload,
            park: Arc::clone(park),
        });
        ticket
    }

    pub(super) fn is_anybody_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn is_first(&self, ticket: u64) -> bool {
        self.queue.front().is_some_and(|first| first.ticket == ticket)
    }

    /// Takes a committer out of the queue, nearly always the first, and wakes the next: there may be room for two.
    pub(super) fn dequeue(&mut self, ticket: u64) {
        match self.queue.iter().position(|other| other.ticket == ticket) {
            Some(at) => drop(self.queue.remove(at)),
            None => debug_assert!(false, "who waits stands in the queue"),
        }
        self.wake_first();
    }

    pub(super) fn wake_first(&self) {
        if let Some(first) = self.queue.front() {
            first.park.unpark();
        }
    }

    /// Takes all that wait out of the queue, to be woken for good.
    pub(super) fn take_queue(&mut self) -> Vec<Arc<dyn Park>> {
        self.queue.drain(..).map(|waiter| waiter.park).collect()
    }
}

/// Bytes of the disk a payload takes at most: its frame, and marks behind it.
#[inline]
fn promise(payload: usize) -> u64 {
    (FRAME_BYTES + payload + MARKS_BYTES) as u64
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
