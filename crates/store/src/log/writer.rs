//! [`Writer`]: the log's thread. It takes the full buffer, writes it, syncs it, and wakes the clients it covers.
//!
//! Each round: sleep until there is a reason, swap buffers, write all of it with one append, sync if somebody waits or the
//! time has come. Commits that arrive during a sync form the next group. It sleeps with its thread's token, which every client
//! that gives it a reason sets after it has put the reason down, so that no reason is missed.
//! It also gets room on the disk before commits need it, and says so where there is none.
//! What it is not: a retry. The first effect that fails ends the log, unless nothing failed but getting room.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::buffer::Batch;
use super::{Failure, Shared, TIP, Tip, frame};
use crate::park::Park;
use crate::ts::Ts;

/// A group waits for clients of the one before for one part in this many of a sync's time. Without it the client that is back
/// first has a sync of its own, and all others wait for that too. Measured on a twin with syncs of 1 ms, two busy cores: 2
/// clients 1.1k -> 1.7k durable commits/s, 4 clients 2.0k -> 3.4k, 16 clients 7.2k -> 9.7k. One client alone never waits.
const PATIENCE: u32 = 4;

/// Bytes reserved on the disk ahead of what is committed, where it has so many. Unmeasured; a commit waits for a reservation when
/// half of it is committed while the log's thread is busy with one write or sync.
const AHEAD_BYTES: u64 = 16 << 20;

/// What the log's thread keeps between rounds.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// What was committed when it was last looked at, being written.
    batch: Batch,
    /// All commits up to here are written, but for those only in memory.
    written: Ts,
    /// The newest durable commit that a mark in the log tells of.
    marked: Ts,
    /// When the oldest commit that nobody waits for has to be synced.
    tick: Option<Instant>,
    /// Bytes of heads and marks written since the last swap.
    extra: u64,
    woken: Vec<Arc<dyn Park>>,
    /// Clients that may soon wait again: those of the last group, and those that came meanwhile.
    expected: usize,
    /// When the last sync ended, and how long it took.
    synced_at: Instant,
    sync_time: Duration,
}

/// Why the writer got up.
#[derive(PartialEq, Eq)]
enum Reason {
    /// The buffer is filling up; nobody waits for a sync.
    Room,
    /// Somebody waits, or the time has come.
    Sync,
    /// Nothing happened for a while.
    Idle,
    Close,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, last: Ts) -> Writer {
        let batch = Batch::with_capacity(shared.options.buffer_bytes);
        Writer {
            shared,
            batch,
            written: last,
            marked: last,
            tick: None,
            extra: 0,
            woken: Vec::new(),
            expected: 0,
            synced_at: Instant::now(),
            sync_time: Duration::ZERO,
        }
    }

    /// Runs until the log is closed or an effect fails.
    pub(super) fn run(mut self) {
        /// Fails the log if the thread ends by a panic, so that nobody waits for it.
        struct Guard(Arc<Shared>);
        impl Drop for Guard {
            fn drop(&mut self) {
                if thread::panicking() {
                    let said = "it panicked".to_string();
                    self.0.fail(&Failure {
                        what: "the log's thread ended".to_string(),
                        kind: std::io::ErrorKind::Other,
                        said,
                    });
                }
            }
        }
        let guard = Guard(Arc::clone(&self.shared));
        if let Err(failure) = self.rounds() {
            guard.0.fail(&failure);
        }
    }

    fn rounds(&mut self) -> Result<(), Failure> {
        loop {
            let reason = self.sleep();
            self.write()?;
            match reason {
                Reason::Room => {}
                Reason::Sync => self.sync()?,
                Reason::Idle => self.mark()?,
                Reason::Close => {
                    self.sync()?;
                    self.mark()?;
                    self.sync_file()?;
                    self.shared.segments.lock().close_active();
                    return match self.put_tip() {
                        // The older tip is true as well.
                        Err(failure) if failure.is_full() => Ok(()),
                        put => put,
                    };
                }
            }
        }
    }

    fn is_synced(&self) -> bool {
        self.written == self.shared.durable()
    }

    /// Returns when there is something to do.
    fn sleep(&mut self) -> Reason {
        let shared = Arc::clone(&self.shared);
        loop {
            let waiting = shared.waiting.lock().len();
            if waiting > 0 {
                if waiting < self.expected && self.synced_at.elapsed() < self.sync_time / PATIENCE {
                    thread::yield_now();
                    continue;
                }
                return Reason::Sync;
            }
            let dirty = {
                let mut buffer = shared.buffer.lock();
                if buffer.closing {
                    return Reason::Close;
                }
                if buffer.is_half_full() || buffer.keeps_waiting() {
                    return Reason::Room;
                }
                let dirty = !buffer.batch.is_empty() || !self.is_synced();
                buffer.wake_on_first = !dirty;
                dirty
            };
            let flush_every = shared.options.flush_every;
            if !dirty {
                self.tick = None;
                if self.marked == self.written || !shared.segments.lock().has_active() {
                    thread::park();
                    continue;
                }
                let begun = Instant::now();
                thread::park_timeout(flush_every);
                if begun.elapsed() >= flush_every && shared.buffer.lock().batch.is_empty() {
                    return Reason::Idle;
                }
                continue;
            }
            let now = Instant::now();
            let tick = *self.tick.get_or_insert(now + flush_every);
            if tick <= now {
                return Reason::Sync;
            }
            thread::park_timeout(tick - now);
        }
    }

    /// Takes what was committed and writes it.
    fn write(&mut self) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let (last, room, wanted) = {
            let mut buffer = shared.buffer.lock();
            buffer.total += mem::take(&mut self.extra);
            mem::swap(&mut buffer.batch, &mut self.batch);
            buffer.wake_first();
            (buffer.last, buffer.room, buffer.wanted())
        };
        if self.batch.is_empty() && wanted.0 <= room {
            return Ok(());
        }
        self.make_room(room, wanted)?;
        if self.batch.is_empty() {
            return Ok(());
        }
        // The mutex is held during the write: only so does `remove_before` never take the file away from under it.
        let mut segments = shared.segments.lock();
        segments.append(&*shared.storage, self.batch.parts(), last)?;
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        drop(segments);
        self.written = last;
        self.batch.clear();
        if self.batch.bytes.capacity() > 2 * shared.options.buffer_bytes {
            // After a very large commit.
            self.batch = Batch::with_capacity(shared.options.buffer_bytes);
        }
        Ok(())
    }

    /// Reserves room on the disk behind the batch: more when `room`, which commits may still take, runs low or those that wait
    /// want more; and all of it in a new segment where the active one has its size. `wanted`: by all that wait, and by the first.
    fn make_room(&mut self, room: u64, wanted: (u64, u64)) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let (most, first) = (wanted.0.saturating_sub(room), wanted.1.saturating_sub(room));
        let change = shared.segments.lock().is_full(shared.options.segment_bytes);
        if change {
            self.sync()?;
        }
        let low = room < AHEAD_BYTES / 2 || most > 0;
        let tries = match (low, change) {
            (true, _) => [most.max(AHEAD_BYTES), most, first],
            (false, true) => [0; 3],
            (false, false) => return Ok(()),
        };
        // What is promised already; a mark may follow the batch.
        let promised = self.batch.len() as u64 + room + frame::FRAME_BYTES as u64;
        let mut segments = shared.segments.lock();
        let (mut more, mut failure) = (0, None);
        for try_more in tries {
            let bytes = promised + try_more;
            let first = self.written.next();
            match segments.make_room(&*shared.storage, shared.store_id, first, bytes, change) {
                Ok(added) => {
                    self.extra += added;
                    more = try_more;
                    break;
                }
                Err(full) if full.is_full() => failure = Some(full),
                Err(failure) => return Err(failure),
            }
        }
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        let mut buffer = shared.buffer.lock();
        buffer.room += more;
        buffer.disk_full = failure.filter(|_| more < most);
        buffer.wake_first();
        Ok(())
    }

    /// Makes what was written durable and wakes those it covers.
    fn sync(&mut self) -> Result<(), Failure> {
        self.tick = None;
        if !self.is_synced() {
            let begun = Instant::now();
            self.sync_file()?;
            self.sync_time = begun.elapsed();
        }
        // Release: who reads it as durable also sees what the writer did before, though only the number is used.
        self.shared.durable.store(self.written.0, Ordering::Release);
        {
            let mut waiting = self.shared.waiting.lock();
            self.expected = waiting.len();
            waiting.pop_covered(self.written, &mut self.woken);
        }
        self.synced_at = Instant::now();
        for client in self.woken.drain(..) {
            client.unpark();
        }
        Ok(())
    }

    fn sync_file(&self) -> Result<(), Failure> {
        let shared = &self.shared;
        let Some(segment) = shared.segments.lock().to_sync() else {
            return Ok(());
        };
        let failure = |error| {
            Failure::new(
                format!("syncing {}/{}", shared.storage.place(), segment.name),
                &error,
            )
        };
        segment.file.sync().map_err(failure)?;
        if !segment.name_is_durable {
            shared.storage.sync_names().map_err(failure)?;
            shared.segments.lock().named();
            // From here on a log without this segment is one that lost it.
            self.put_tip()?;
        }
        Ok(())
    }

    /// Says beside the log that all that was written is durable.
    fn put_tip(&self) -> Result<(), Failure> {
        let Shared {
            storage,
            store_id,
            segments,
            ..
        } = &*self.shared;
        let tip = Tip {
            store_id: *store_id,
            ts: self.written,
        };
        let prepared = segments.lock().take_tip(&**storage);
        prepared
            .and_then(|prepared| tip.put(&**storage, &*prepared))
            .map_err(|error| Failure::new(format!("replacing {}/{TIP}", storage.place()), &error))
    }

    /// Says in the log that all of it is durable, unless it does. Without this, damage to the last commits before a pause
    /// would look like the torn end of a crash. The mark itself need not be durable.
    fn mark(&mut self) -> Result<(), Failure> {
        let shared = &self.shared;
        let mut segments = shared.segments.lock();
        if self.marked == self.written || !self.is_synced() || !segments.has_active() {
            return Ok(());
        }
        let mark = frame::mark(shared.seed, self.written, self.written);
        segments.append(&*shared.storage, [&mark[..]], self.written)?;
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        self.extra += mark.len() as u64;
        self.marked = self.written;
        Ok(())
    }
}
