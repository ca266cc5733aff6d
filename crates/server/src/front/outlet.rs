//! [`Outlet`]: bytes on their way from a task to its client's event loop, never more than [`OUTLET_BYTES_MAX`] and one piece.
//!
//! ```text
//!  task: write ─► pending ─► flush (waits for room) ─► pipe ─► event loop: take ─► socket
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::shared::{ClientId, Mail, Mailbox};
use crate::session::{Gone, Sink};

/// Bytes that may wait for the event loop before a task waits. Unmeasured.
pub(super) const OUTLET_BYTES_MAX: usize = 256 << 10;

/// Answers are gathered up to here before they go to the event loop. Unmeasured.
const PENDING_BYTES: usize = 64 << 10;

/// Most that goes to the event loop at once, which encrypts it in one go: a row may be far longer. More than what rows are gathered to.
const PIECE_BYTES: usize = 4 * PENDING_BYTES;

/// Chunks of a statement are gathered up to here, so that a short answer is one write. Unmeasured.
const GATHERED_BYTES: usize = 16 << 10;

/// Memory of a buffer that is kept for the next messages of its client. Unmeasured.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 10;

/// What a task and its client's event loop share.
pub(super) struct Pipe {
    state: Mutex<PipeState>,
    room: Notify,
    gone: Notify,
    mailbox: Arc<Mailbox>,
    client: ClientId,
}

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The event loop knows that there is something.
    announced: bool,
    closed: bool,
    /// An empty one, for its memory.
    spare: Vec<u8>,
}

impl Pipe {
    /// Of this client, on the event loop with this mailbox.
    pub fn new(client: ClientId, mailbox: Arc<Mailbox>) -> Self {
        Self {
            state: Mutex::default(),
            room: Notify::new(),
            gone: Notify::new(),
            mailbox,
            client,
        }
    }

    /// The next chunk for the socket, and back with the one that was sent.
    pub fn take(&self, mut sent: Vec<u8>) -> Option<Vec<u8>> {
        sent.clear();
        let mut state = self.state.lock();
        if (1..=KEPT_BYTES_MAX).contains(&sent.capacity()) {
            state.spare = sent;
        }
        let Some(chunk) = state.chunks.pop_front() else {
            state.announced = false;
            return None;
        };
        state.bytes -= chunk.len();
        drop(state);
        self.room.notify_one();
        Some(chunk)
    }

    /// The event loop itself serves the client, and looks for output when that has ended: nobody has to tell it.
    pub fn attend(&self) {
        self.state.lock().announced = true;
    }

    /// Puts the event loop's own last words behind everything else.
    pub fn append(&self, chunk: Vec<u8>) {
        let mut state = self.state.lock();
        state.bytes += chunk.len();
        state.chunks.push_back(chunk);
    }

    /// Nobody takes any more: the task learns it at its next push.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.chunks.clear();
        state.bytes = 0;
        drop(state);
        self.room.notify_one();
        self.gone.notify_waiters();
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Waits until there is room for a chunk. May be dropped while it waits.
    async fn room(&self) -> Result<(), Gone> {
        loop {
            {
                let state = self.state.lock();
                if state.closed {
                    return Err(Gone);
                }
                if state.bytes < OUTLET_BYTES_MAX {
                    return Ok(());
                }
            }
            // The only task of this client waits, and a permit that came in between is kept.
            self.room.notified().await;
        }
    }

    /// Returns an empty buffer.
    fn put(&self, chunk: Vec<u8>) -> Vec<u8> {
        let mut state = self.state.lock();
        if state.closed {
            return Vec::new();
        }
        let spare = std::mem::take(&mut state.spare);
        state.bytes += chunk.len();
        state.chunks.push_back(chunk);
        let announce = !std::mem::replace(&mut state.announced, true);
        drop(state);
        if announce {
            self.mailbox.post(Mail::Output(self.client));
        }
        spare
    }

    /// Returns once the client is gone.
    pub async fn gone(&self) {
        loop {
            let gone = self.gone.notified();
            tokio::pin!(gone);
            // Listens before it looks, so that no change is missed.
            gone.as_mut().enable();
            if self.is_closed() {
                return;
            }
            gone.await;
        }
    }
}

/// Where a task writes.
pub(super) struct Outlet {
    pipe: Arc<Pipe>,
    pending: Vec<u8>,
    /// Bytes of it that were sent.
    sent: usize,
}

impl Outlet {
    pub fn new(pipe: Arc<Pipe>) -> Self {
        Self {
            pipe,
            pending: Vec::new(),
            sent: 0,
        }
    }

    /// Small answers are appended here; they go ahead of the next chunk.
    pub fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Sends what is gathered, long messages in pieces. Nothing is lost where this is dropped while it waits: the rest goes first next time.
    pub async fn flush(&mut self) -> Result<(), Gone> {
        while self.pending.len() - self.sent > PIECE_BYTES {
            self.pipe.room().await?;
            let piece = &self.pending[self.sent..self.sent + PIECE_BYTES];
            self.pipe.put(piece.to_vec());
            self.sent += PIECE_BYTES;
        }
        if !self.pending.is_empty() {
            self.pipe.room().await?;
            let all = std::mem::take(&mut self.pending);
            self.pending = self.pipe.put(match std::mem::take(&mut self.sent) {
                0 => all,
                sent => all[sent..].to_vec(),
            });
        }
        Ok(())
    }

    /// Sends what is gathered where that is much.
    pub async fn flush_if_much(&mut self) -> Result<(), Gone> {
        match self.pending.len() - self.sent < PENDING_BYTES {
            true => Ok(()),
            false => self.flush().await,
        }
    }

    pub fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }
}

impl Sink for Outlet {
    /// Small ones are gathered, too.
    async fn chunk(&mut self, bytes: Vec<u8>) -> Result<(), Gone> {
        if self.pending.len() - self.sent + bytes.len() <= GATHERED_BYTES {
            self.pending.extend(bytes);
            return Ok(());
        }
        self.flush().await?;
        self.pending = bytes;
        self.flush().await
    }
}
