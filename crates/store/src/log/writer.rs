//! [`Writer`]: takes the full buffer, writes it, syncs it, and wakes the clients it covers.
//!
//! ```text
//!   a client waits for its commit ──nobody is writing, and it comes alone──► it leads: the round runs on its own thread
//!                                 └─else──► the log's thread: sleep until there is a reason, then a round
//! ```
//!
//! Each round: swap buffers, write all of it, sync if somebody waits or the time has come. Commits that arrive during a sync form
//! the next group, and more where it is likely that others follow soon ([`Writer::gathers`]): a sync costs the processor as much as a short
//! transaction. A round also gets room on the disk before commits need it, and says so where there is none.
//! What it is not: a retry. The first effect that fails ends the log, unless nothing failed but getting room.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::MutexGuard;

use super::buffer::Batch;
use super::segments::Segments;
use super::{Failure, LogOptions, MARKS_BYTES, Shared, TIP, Tip, frame};
use crate::park::Park;
use crate::ts::Ts;

/// A group waits for clients of the one before for one part in this many of a sync's time. Without it the client that is back
/// first has a sync of its own, and all others wait for that too. Measured on a twin with syncs of 1 ms, two busy cores: 2
/// clients 1.1k -> 1.7k durable commits/s, 4 clients 2.0k -> 3.4k, 16 clients 7.2k -> 9.7k. One client alone never waits.
const PATIENCE: u32 = 4;

/// While transactions are open a group waits for half of those that were seen to commit, so many times as long as a sync takes, and for
/// [`GATHER_MAX`] at most; the other half keeps the processors busy meanwhile.
const GATHER: u32 = 4;
const GATHER_MAX: Duration = Duration::from_millis(1);

/// Shorter naps cost more than they are worth.
const NAP_MIN: Duration = Duration::from_micros(60);

/// Groups, at most, that wait for nobody after several have in vain.
const VAIN_MAX: u32 = 63;

/// Bytes reserved on the disk ahead of what is committed, where it has so many. Unmeasured; a commit waits for a reservation when
/// half of it is committed while the log's thread is busy with one write or sync.
const AHEAD_BYTES: u64 = 16 << 20;

/// How exact the times in the log are while it is written; behind the last commit before a pause there is always one.
const TIME_EVERY: Duration = Duration::from_millis(100);

/// What is kept between rounds. Whoever has it, the log's thread or a client that leads, is the only one that writes.
pub(super) struct Writer {
    /// What was committed when it was last looked at, being written.
    batch: Batch,
    /// All commits up to here are written, but for those only in memory.
    written: Ts,
    /// The newest durable commit that a mark in the log tells of.
    marked: Ts,
    /// Everything was durable at this time.
    clean_at: Instant,
    /// When the last time was written.
    timed_at: Option<Instant>,
    /// The thread went to sleep until the first commit.
    sleeps: bool,
    /// Bytes of heads and marks written since the last swap.
    extra: u64,
    woken: Vec<Arc<dyn Park>>,
    /// Clients that may soon wait again: those of the last group, and those that came meanwhile.
    expected: usize,
    /// When the last sync ended, and how long it took.
    synced_at: Instant,
    sync_time: Duration,
    /// Clients that waited and transactions that were open, together, of late at most.
    crowd: usize,
    gathering: Option<Gathering>,
    /// Groups that will not wait, and how many that will be the next time one has in vain.
    hurries: u32,
    vain: u32,
}

/// The next group, as it was when it began to wait for more.
struct Gathering {
    since: Instant,
    first: usize,
    /// It has waited for half of the others.
    napped: bool,
}

/// What the thread does next.
enum Next {
    Round(Reason),
    /// At most that long.
    Sleep(Option<Duration>),
    /// The log has failed.
    End,
}

/// Why there is a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The buffer is filling up; nobody waits for a sync.
    Room,
    /// Somebody waits, or the time has come.
    Sync,
    /// As `Sync`: the calling client waits.
    Lead,
    /// Nothing happened for a while.
    Idle,
    Close,
}

/// Fails the log if a round does not come to its end, so that nobody waits for it.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fail(&Failure {
            what: "writing the log ended".to_string(),
            kind: std::io::ErrorKind::Other,
            said: "it panicked".to_string(),
        });
    }
}

/// The log's thread: runs until the log is closed or an effect fails.
pub(super) fn run(shared: &Shared) {
    loop {
        let mut writer = shared.writer.lock();
        match writer.next(shared) {
            Next::End => return,
            Next::Round(reason) => {
                Writer::round(writer, shared, reason);
                if reason == Reason::Close {
                    return;
                }
            }
            Next::Sleep(limit) => {
                drop(writer);
                limit.map_or_else(thread::park, thread::park_timeout);
            }
        }
    }
}

/// Writes and syncs on the calling client's own thread, if nobody else is at it and the last group was of one client: two changes of
/// threads less. Larger groups are made by the log's thread, which has the patience.
pub(super) fn lead(shared: &Shared) {
    let Some(writer) = shared.writer.try_lock() else {
        return;
    };
    if writer.expected <= 1 && shared.waiting.lock().failure.is_none() {
        Writer::round(writer, shared, Reason::Lead);
    }
}

impl Writer {
    pub(super) fn new(options: &LogOptions, last: Ts) -> Writer {
        Writer {
            batch: Batch::with_capacity(options.buffer_bytes),
            written: last,
            marked: last,
            clean_at: Instant::now(),
            timed_at: None,
            sleeps: false,
            extra: 0,
            woken: Vec::new(),
            expected: 0,
            synced_at: Instant::now(),
            sync_time: Duration::ZERO,
            crowd: 0,
            gathering: None,
            hurries: 0,
            vain: 0,
        }
    }

    /// One round; then wakes those whose commits it made durable. An effect that fails ends the log.
    fn round(mut writer: MutexGuard<'_, Writer>, shared: &Shared, reason: Reason) {
        let guard = Guard(shared);
        if let Err(failure) = writer.effects(shared, reason) {
            // Before anybody else may write: a sync after one that failed proves nothing.
            shared.fail(&failure);
        }
        let woken = mem::take(&mut writer.woken);
        mem::forget(guard);
        drop(writer);
        for client in woken {
            client.unpark();
        }
    }

    fn effects(&mut self, shared: &Shared, reason: Reason) -> Result<(), Failure> {
        self.write(shared)?;
        match reason {
            Reason::Room => Ok(()),
            Reason::Sync => self.sync(shared),
            Reason::Lead => {
                self.sync(shared)?;
                self.expected += 1;
                Ok(())
            }
            Reason::Idle => self.mark(shared),
            Reason::Close => {
                self.sync(shared)?;
                self.mark(shared)?;
                self.sync_file(shared)?;
                shared.segments.lock().close_active();
                match self.put_tip(shared) {
                    // The older tip is true as well.
                    Err(failure) if failure.is_full() => Ok(()),
                    put => put,
                }
            }
        }
    }

    fn is_synced(&self, shared: &Shared) -> bool {
        self.written == shared.durable()
    }

    /// What there is to do. The thread's token is set by every client that gives it something to do after that was put down, so that
    /// nothing is missed while it sleeps.
    fn next(&mut self, shared: &Shared) -> Next {
        let now = Instant::now();
        if mem::take(&mut self.sleeps) {
            self.clean_at = now;
        }
        let waiting = {
            let mut waiting = shared.waiting.lock();
            if waiting.failure.is_some() {
                return Next::End;
            }
            waiting.wanted = 0;
            waiting.len()
        };
        if waiting > 0 {
            return match self.gathers(shared, waiting, now) {
                Some(limit) => Next::Sleep(Some(limit)),
                None => Next::Round(Reason::Sync),
            };
        }
        let may_sleep = self.marked == self.written || !shared.segments.lock().has_active();
        let is_dirty = {
            let mut buffer = shared.buffer.lock();
            if buffer.closing {
                return Next::Round(Reason::Close);
            }
            if buffer.is_half_full() || buffer.keeps_waiting() {
                return Next::Round(Reason::Room);
            }
            let is_dirty = !buffer.batch.is_empty() || !self.is_synced(shared);
            // Where durable commits come one after the other, the client leads, and the thread sleeps.
            buffer.wake_on_first = !is_dirty && may_sleep;
            is_dirty
        };
        if !is_dirty && may_sleep {
            self.sleeps = true;
            return Next::Sleep(None);
        }
        let flush_every = shared.options.flush_every;
        let since = if is_dirty { self.clean_at } else { self.synced_at };
        match flush_every.checked_sub(now.saturating_duration_since(since)) {
            Some(left) if !left.is_zero() => {
                if !is_dirty {
                    self.clean_at = now;
                }
                Next::Sleep(Some(left))
            }
            _ if is_dirty => Next::Round(Reason::Sync),
            _ => Next::Round(Reason::Idle),
        }
    }

    /// How long a group waits for more clients, of which the last that is wanted wakes the thread; `None`: it is complete.
    fn gathers(&mut self, shared: &Shared, waiting: usize, now: Instant) -> Option<Duration> {
        let open = shared.open();
        self.crowd = self.crowd.max(waiting + open);
        let gathering = self.gathering.get_or_insert(Gathering {
            since: now,
            first: waiting,
            napped: false,
        });
        let back = (self.expected, self.synced_at + self.sync_time / PATIENCE);
        let limit = (self.sync_time * GATHER).min(GATHER_MAX);
        let half = match open > 0 && self.hurries == 0 {
            true => (self.crowd / 2, gathering.since + limit),
            false => (0, now),
        };
        for (wanted, until) in [back, half] {
            let left = until.saturating_duration_since(now);
            if waiting < wanted && left >= NAP_MIN && !shared.buffer.lock().is_half_full() {
                gathering.napped |= wanted == half.0;
                // Who came since `waiting` was counted has woken the thread.
                shared.waiting.lock().wanted = wanted;
                return Some(left);
            }
        }
        None
    }

    /// A group of so many is complete.
    fn gathered(&mut self, group: usize) {
        self.crowd -= self.crowd.div_ceil(8);
        match self.gathering.take() {
            Some(gathering) if gathering.napped && group <= gathering.first => {
                self.vain = (2 * self.vain + 1).min(VAIN_MAX);
                self.hurries = self.vain;
            }
            Some(gathering) if gathering.napped => self.vain = 0,
            _ => self.hurries = self.hurries.saturating_sub(1),
        }
    }

    /// Takes what was committed and writes it.
    fn write(&mut self, shared: &Shared) -> Result<(), Failure> {
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
        self.make_room(shared, room, wanted)?;
        if self.batch.is_empty() {
            return Ok(());
        }
        // The mutex is held during the write: only so does `remove_before` never take the file away from under it.
        let mut segments = shared.segments.lock();
        segments.append(&*shared.storage, self.batch.parts(), last)?;
        if self.timed_at.is_none_or(|at| at.elapsed() >= TIME_EVERY) {
            self.extra += self.time(shared, &mut segments, last)?;
        }
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
    fn make_room(&mut self, shared: &Shared, room: u64, wanted: (u64, u64)) -> Result<(), Failure> {
        let (most, first) = (wanted.0.saturating_sub(room), wanted.1.saturating_sub(room));
        let change = shared.segments.lock().is_full();
        if change {
            self.sync(shared)?;
        }
        let low = room < AHEAD_BYTES / 2 || most > 0;
        let tries = match (low, change) {
            (true, _) => [most.max(AHEAD_BYTES), most, first],
            (false, true) => [0; 3],
            (false, false) => return Ok(()),
        };
        // What is promised already; marks may follow the batch.
        let promised = (self.batch.len() + MARKS_BYTES) as u64 + room;
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

    /// Makes what was written durable; those it covers are to be woken.
    fn sync(&mut self, shared: &Shared) -> Result<(), Failure> {
        if !self.is_synced(shared) {
            let begun = Instant::now();
            self.sync_file(shared)?;
            self.sync_time = begun.elapsed();
        }
        // Release: who reads it as durable also sees what the writer did before, though only the number is used.
        shared.durable.store(self.written.0, Ordering::Release);
        let mut waiting = shared.waiting.lock();
        self.expected = waiting.len();
        waiting.pop_covered(self.written, &mut self.woken);
        drop(waiting);
        self.gathered(self.woken.len());
        self.synced_at = Instant::now();
        self.clean_at = self.synced_at;
        Ok(())
    }

    fn sync_file(&self, shared: &Shared) -> Result<(), Failure> {
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
            self.put_tip(shared)?;
        }
        Ok(())
    }

    /// Says beside the log that all that was written is durable.
    fn put_tip(&self, shared: &Shared) -> Result<(), Failure> {
        let Shared {
            storage,
            store_id,
            segments,
            ..
        } = shared;
        let tip = Tip {
            store_id: *store_id,
            ts: self.written,
        };
        let prepared = segments.lock().take_tip(&**storage);
        prepared
            .and_then(|prepared| tip.put(&**storage, &*prepared))
            .map_err(|error| Failure::new(format!("replacing {}/{TIP}", storage.place()), &error))
    }

    /// Says in the log, if there is an archive, that the commits up to `last` were there by now. Returns the bytes that took.
    fn time(&mut self, shared: &Shared, segments: &mut Segments, last: Ts) -> Result<u64, Failure> {
        if shared.options.archive.is_none() {
            return Ok(0);
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = frame::time_mark(shared.seed, last, since_1970.as_micros() as u64);
        segments.append(&*shared.storage, [&time[..]], last)?;
        self.timed_at = Some(Instant::now());
        Ok(time.len() as u64)
    }

    /// Says in the log that all of it is durable, unless it does. Without this, damage to the last commits before a pause
    /// would look like the torn end of a crash. The mark itself need not be durable.
    pub(super) fn mark(&mut self, shared: &Shared) -> Result<(), Failure> {
        let mut segments = shared.segments.lock();
        if self.marked == self.written || !self.is_synced(shared) || !segments.has_active() {
            return Ok(());
        }
        let mark = frame::mark(shared.seed, self.written, self.written);
        segments.append(&*shared.storage, [&mark[..]], self.written)?;
        self.extra += mark.len() as u64 + self.time(shared, &mut segments, self.written)?;
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        self.marked = self.written;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Log, LogEnd, To};
    use super::*;
    use crate::storage::Twin;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_group_waits_for_half_of_those_that_may_commit_unless_it_has_in_vain() {
        let end = LogEnd::default();
        let log = Log::start(Arc::new(Twin::new(1)), 7, end, LogOptions::default()).unwrap();
        let open = Arc::new(AtomicUsize::new(5));
        let others = Arc::clone(&open);
        log.set_others(move || others.load(Ordering::Relaxed));
        let To::Files { shared, .. } = &log.to else {
            unreachable!()
        };
        // The log's thread stays out as long as this is held.
        let mut writer = shared.writer.lock();
        let (begin, limit) = (Instant::now(), Duration::from_micros(800));
        let after = |us| begin + Duration::from_micros(us);
        let wanted = || shared.waiting.lock().wanted;
        writer.sync_time = limit / GATHER;
        assert_eq!(writer.gathers(shared, 1, begin), Some(limit));
        assert_eq!(wanted(), 3);
        open.store(4, Ordering::Relaxed);
        assert_eq!(
            writer.gathers(shared, 2, after(300)),
            Some(limit - (after(300) - begin))
        );
        open.store(3, Ordering::Relaxed);
        assert_eq!(writer.gathers(shared, 3, after(400)), None);
        writer.gathered(3);

        // Alone twice: the next groups are in a hurry, ever more of them.
        for (vain, hurries) in [(1, 1), (3, 3)] {
            assert_eq!(writer.gathers(shared, 1, begin), Some(limit));
            assert_eq!(writer.gathers(shared, 1, after(800)), None);
            writer.gathered(1);
            assert_eq!(writer.vain, vain);
            for _ in 0..hurries {
                assert_eq!(writer.gathers(shared, 1, begin), None);
                writer.gathered(1);
            }
        }
        assert_eq!(writer.gathers(shared, 1, begin), Some(limit));
        assert_eq!(writer.gathers(shared, 2, after(100)), None);
        writer.gathered(2);
        assert_eq!((writer.vain, writer.hurries), (0, 0));

        // Nobody else is there: but for those that were, where a sync takes long.
        open.store(0, Ordering::Relaxed);
        assert_eq!(writer.gathers(shared, 1, begin), None);
        writer.gathered(1);
        (writer.expected, writer.synced_at) = (2, begin);
        assert_eq!(writer.gathers(shared, 1, begin), None);
        writer.sync_time = Duration::from_millis(1);
        assert_eq!(writer.gathers(shared, 1, begin), Some(Duration::from_micros(250)));
        assert_eq!(wanted(), 2);
        drop(writer);
        log.append(b"block", &crate::park::current(), |_| {}).unwrap();
        log.flush().unwrap();
    }
}
