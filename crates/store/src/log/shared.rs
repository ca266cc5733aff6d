//! [`Shared`]: what clients and the log's thread share, and how clients wait.
//!
//! A client puts down what it waits for, wakes the writer, and parks; the writer does its part and wakes the client. What it is
//! not: the critical section of a commit (see [`super::Log::append`]) or the writing (see `writer`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use corun_exec::teams;
use parking_lot::{Mutex, MutexGuard};

use super::archive::Archiving;
use super::buffer::{Batch, Buffer, Refusal};
use super::segments::Segments;
use super::waiting::Waiting;
use super::writer::{self, Writer};
use super::{LogError, LogOptions};
use crate::park::Park;
use crate::storage::{Failure, Storage};
use crate::ts::Ts;

/// Keeps a counter that everybody reads on cache lines of its own (two: they are fetched in pairs).
#[repr(align(128))]
pub(super) struct Line<T>(pub(super) T);

/// What clients and the log's thread share. Order of its mutexes: `archiving`, `writer`, `segments`, `buffer` (the room promised and the file it is in
/// are changed together); `waiting` is taken last.
pub(super) struct Shared {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) store_id: u64,
    /// Where checksums start.
    pub(super) seed: u32,
    pub(super) options: LogOptions,
    pub(super) thread: OnceLock<Thread>,
    /// Tells how many transactions are open, if anybody knows.
    pub(super) others: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,

    pub(super) durable: Line<AtomicU64>,
    /// Bytes of all segments.
    pub(super) disk_bytes: AtomicU64,
    pub(super) buffer: Line<Mutex<Buffer>>,
    pub(super) waiting: Mutex<Waiting>,
    pub(super) writer: Mutex<Writer>,
    pub(super) archiving: Archiving,
    pub(super) segments: Mutex<Segments>,
}

impl<T> std::ops::Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Shared {
    pub(super) fn durable(&self) -> Ts {
        Ts(self.durable.load(Ordering::Acquire))
    }

    /// Transactions that are open, and so may commit soon.
    pub(super) fn open(&self) -> usize {
        self.others.get().map_or(0, |open| open())
    }

    pub(super) fn wake_writer(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits, first come first served, until a payload of that length fits; returns with the mutex taken again. An error if the disk
    /// has no room for it.
    #[cold]
    pub(super) fn wait_for_room<'a>(
        &'a self,
        mut buffer: MutexGuard<'a, Buffer>,
        payload: usize,
        park: &Arc<dyn Park>,
    ) -> Result<MutexGuard<'a, Buffer>, LogError> {
        let mut ticket = None;
        loop {
            if let Some(refusal) = &buffer.refuse {
                // All that wait are woken and leave, so the queue's order does not matter any more.
                return Err(refusal.error());
            }
            let ticket = *ticket.get_or_insert_with(|| buffer.enqueue(payload, park));
            // A user-level thread that unwinds keeps its thread, and those ahead may be others of that: it goes before them.
            let first = buffer.is_first(ticket) || teams::is_member() && std::thread::panicking();
            if first && buffer.has_room(payload) {
                buffer.dequeue(ticket);
                return Ok(buffer);
            }
            if first
                && !buffer.is_promised(payload)
                && let Some(failure) = buffer.disk_full.take()
            {
                // The next that waits has the writer try again.
                buffer.dequeue(ticket);
                return Err(LogError::DiskFull(failure));
            }
            drop(buffer);
            self.wake_writer();
            park.park(None);
            buffer = self.buffer.lock();
        }
    }

    pub(super) fn wait_durable(&self, ts: Ts, park: &Arc<dyn Park>) -> Result<(), LogError> {
        // A user-level thread would keep the others of its thread from running.
        if !teams::is_member() {
            writer::lead(self);
        }
        let mut is_durable = self.tell_durable(ts, park)?;
        while !is_durable {
            park.park(None);
            is_durable = self.is_durable(ts)?;
        }
        Ok(())
    }

    /// Whether a commit is durable; if not, a client is unparked once it is, or once the log has failed.
    pub(super) fn tell_durable(&self, ts: Ts, client: &Arc<dyn Park>) -> Result<bool, LogError> {
        let wakes = {
            let mut waiting = self.waiting.lock();
            // The writer stores `durable` and sets `failure` before it takes this mutex to look for whom to wake: either we see
            // that here, or it sees us.
            if ts <= self.durable() {
                return Ok(true);
            }
            if let Some(failure) = &waiting.failure {
                return Err(LogError::Failed(failure.clone()));
            }
            waiting.push(ts, client)
        };
        if wakes {
            self.wake_writer();
        }
        Ok(false)
    }

    /// Whether a commit is durable.
    pub(super) fn is_durable(&self, ts: Ts) -> Result<bool, LogError> {
        if ts <= self.durable() {
            return Ok(true);
        }
        match &self.waiting.lock().failure {
            Some(failure) => Err(LogError::Failed(failure.clone())),
            None => Ok(false),
        }
    }

    /// Ends the log: nothing is taken any more, nobody waits any more.
    pub(super) fn fail(&self, failure: &Failure) {
        let mut clients = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            waiting.failure.get_or_insert_with(|| failure.clone());
            waiting.pop_covered(Ts(u64::MAX), &mut clients);
        }
        {
            let mut buffer = self.buffer.lock();
            buffer.refuse = Some(Refusal::Failed(failure.clone()));
            buffer.batch = Batch::default();
        }
        for client in clients {
            client.unpark();
        }
        self.wake_queue();
    }

    /// Wakes all that wait for room, for good.
    pub(super) fn wake_queue(&self) {
        let queue = self.buffer.lock().take_queue();
        for client in queue {
            client.unpark();
        }
    }
}
