//! The redo log: numbers commits, writes them in that order, says when they are durable, and reads them back.
//!
//! ```text
//!   append ──mutex: ts, copy, stamp──► buffer ──write, sync──► segment files ──► LogReader after a restart
//!                                      waiters ◄──── durable ────┘
//! ```
//!
//! Order of calls: [`LogReader::open`], [`LogReader::next_segment`] until there is none, [`LogReader::end`], [`Log::start`];
//! then [`Log::append`] and [`Log::wait_durable`] from any thread; [`Log::remove_before`] after a checkpoint; [`Log::close`].
//! A block is opaque bytes, the redo of one whole transaction. What it is not: undo, and it knows no tables.
//!
//! ```
//! use std::sync::Arc;
//! use corun_store::log::{Log, LogOptions, LogReader, OnDamage};
//! use corun_store::park::ThreadPark;
//! use corun_store::storage::{Storage, Twin};
//! use corun_store::Ts;
//!
//! let disk = Twin::new(42);
//! let storage: Arc<dyn Storage> = Arc::new(disk.clone());
//! let mut reader = LogReader::open(Arc::clone(&storage), 7, Ts::ZERO, OnDamage::Refuse)?;
//! let log = Log::start(storage, 7, reader.end()?, LogOptions::default())?;
//! let park = ThreadPark::current();
//! let ts = log.append(b"account 3: +10", &park, |_ts| { /* stamp the rows */ })?;
//! log.wait_durable(ts, &park)?;
//!
//! let after = disk.crash(1); // the power fails
//! let mut reader = LogReader::open(Arc::new(after), 7, Ts::ZERO, OnDamage::Refuse)?;
//! let segment = reader.next_segment()?.expect("it was durable");
//! let (ts, range) = &segment.blocks[0];
//! assert_eq!((*ts, &segment.bytes[range.clone()]), (Ts(1), &b"account 3: +10"[..]));
//! # Ok::<(), corun_store::log::LogError>(())
//! ```

mod archive;
mod buffer;
mod end;
mod error;
mod frame;
mod options;
mod reader;
mod segments;
mod shared;
mod sums;
mod tail;
mod tip;
mod waiting;
mod writer;

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use self::archive::Archiving;
use self::buffer::{Buffer, Refusal};
use self::frame::{FRAME_BYTES, MARKS_BYTES};
use self::segments::Segments;
use self::shared::{Line, Shared};
use self::tip::Tip;
use self::writer::Writer;
use crate::park::{self, Park};
use crate::storage::{Failure, Storage, StorageFile};
use crate::ts::Ts;

pub use self::archive::Archive;
pub use self::end::LogEnd;
pub use self::error::{Damage, LogError};
pub(crate) use self::frame::{PAYLOAD_MAX, segment_first, segment_name};
pub use self::options::LogOptions;
pub use self::reader::{LogReader, OnDamage, Segment};
pub(crate) use self::tail::{LogTail, Look};
pub(crate) use self::tip::NAME as TIP;

/// A payload of this many bytes is not copied under the mutex. Unmeasured: a copy of less takes some tens of microseconds.
pub(crate) const LARGE_BYTES: usize = 256 << 10;

/// A log that commits are appended to. See the module.
pub struct Log {
    /// The newest commit whose `in_order` has finished.
    last: Line<AtomicU64>,
    to: To,
}

/// Where commits go.
enum To {
    /// Nowhere: the mutex guards the order alone; true after a panic in it.
    Memory(Mutex<bool>),
    Files {
        shared: Arc<Shared>,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
}

impl Log {
    /// A log without files: it only hands out timestamps, from the one after `last` on. Every commit counts as durable.
    pub fn memory(last: Ts) -> Log {
        Log {
            last: Line(AtomicU64::new(last.0)),
            to: To::Memory(Mutex::new(false)),
        }
    }

    /// Makes what was read back the definite past (cuts what is to be cut, syncs the rest) and starts the log's thread.
    ///
    /// The caller owns the folder, see [`Storage::lock`].
    ///
    /// # Errors
    /// [`LogError::Options`], [`LogError::Storage`].
    pub fn start(
        storage: Arc<dyn Storage>,
        store_id: u64,
        end: LogEnd,
        options: LogOptions,
    ) -> Result<Log, LogError> {
        options.check()?;
        end.make_definite(&*storage)?;
        let last = end.last;
        let tip = Tip { store_id, ts: last };
        let put = Tip::prepare(&*storage).and_then(|prepared| tip.put(&*storage, &*prepared));
        put.map_err(|error| {
            LogError::Storage(Failure::new(format!("replace {}/{TIP}", storage.place()), &error))
        })?;
        let segments = Segments::new(end.segments, &options);
        let bytes = segments.bytes();
        let shared = Arc::new(Shared {
            storage,
            store_id,
            seed: frame::seed(store_id),
            thread: OnceLock::new(),
            others: OnceLock::new(),
            writer: Mutex::new(Writer::new(&options, last)),
            durable: Line(AtomicU64::new(last.0)),
            disk_bytes: AtomicU64::new(bytes),
            buffer: Line(Mutex::new(Buffer::new(last, options.buffer_bytes, bytes))),
            waiting: Mutex::default(),
            archiving: Archiving::default(),
            segments: Mutex::new(segments),
            options,
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("corun-log".to_string())
            .spawn(move || writer::run(&of_thread))
            .map_err(|error| LogError::Storage(Failure::new("start the log's thread", &error)))?;
        // Set before any client can have a reason to wake it.
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Log {
            last: Line(AtomicU64::new(last.0)),
            to: To::Files {
                shared,
                thread: Mutex::new(Some(thread)),
            },
        })
    }

    /// How many transactions are open `open` tells from now on: a group of commits may wait for some of them.
    pub(crate) fn set_others(&self, open: impl Fn() -> usize + Send + Sync + 'static) {
        if let To::Files { shared, .. } = &self.to {
            _ = shared.others.set(Box::new(open));
        }
    }

    /// Commits `payload`: gives it the next timestamp, puts it into the log's buffer, and runs `in_order` with the timestamp;
    /// no other commit's `in_order` runs at the same time or out of order. Waits while the buffer is full, or room on the disk is
    /// reserved.
    ///
    /// `in_order` should take nanoseconds, and must neither wait nor use the log. If it panics the commit is not logged, and
    /// the log takes no further one.
    ///
    /// # Errors
    /// [`LogError::DiskFull`], [`LogError::Failed`], [`LogError::Full`], [`LogError::Closed`], [`LogError::TooLarge`]; always before
    /// a timestamp was taken: nothing has happened.
    pub fn append(
        &self,
        payload: &[u8],
        park: &Arc<dyn Park>,
        in_order: impl FnOnce(Ts),
    ) -> Result<Ts, LogError> {
        self.append_cow(Cow::Borrowed(payload), park, in_order)
    }

    /// As [`Log::append`]; a large payload is written from where it is.
    ///
    /// # Errors
    /// As there.
    pub fn append_owned(
        &self,
        payload: Vec<u8>,
        park: &Arc<dyn Park>,
        in_order: impl FnOnce(Ts),
    ) -> Result<Ts, LogError> {
        self.append_cow(Cow::Owned(payload), park, in_order)
    }

    #[inline]
    fn append_cow(
        &self,
        mut payload: Cow<'_, [u8]>,
        park: &Arc<dyn Park>,
        in_order: impl FnOnce(Ts),
    ) -> Result<Ts, LogError> {
        let shared = match &self.to {
            To::Files { shared, .. } => shared,
            To::Memory(order) => {
                let mut broken = order.lock();
                if *broken {
                    return Err(broken_order());
                }
                // Written under the mutex only.
                let ts = Ts(self.last.load(Ordering::Relaxed)).next();
                *broken = true;
                in_order(ts);
                *broken = false;
                self.last.store(ts.0, Ordering::Release);
                return Ok(ts);
            }
        };
        if payload.len() > PAYLOAD_MAX {
            return Err(LogError::TooLarge {
                bytes: payload.len(),
                limit: PAYLOAD_MAX,
            });
        }
        let sum = frame::payload_sum(shared.seed, &payload);
        let size = (FRAME_BYTES + payload.len()) as u64;
        if payload.len() >= LARGE_BYTES {
            // Not under the mutex.
            payload = Cow::Owned(payload.into_owned());
        }

        let mut buffer = shared.buffer.lock();
        if buffer.is_anybody_waiting() || !buffer.has_room(payload.len()) {
            buffer = shared.wait_for_room(buffer, payload.len(), park)?;
        }
        if let Some(refusal) = &buffer.refuse {
            return Err(refusal.error());
        }
        let limit = shared.options.bytes_max;
        if limit != 0 && buffer.total + size > limit {
            return Err(LogError::Full {
                bytes: buffer.total,
                limit,
            });
        }
        let ts = buffer.last.next();
        let was_half_full = buffer.is_half_full();
        let length = buffer.batch.bytes.len();
        let payload_bytes = payload.len();
        // Relaxed: any older value is true as well.
        let durable = Ts(shared.durable.load(Ordering::Relaxed));
        frame::push_head(&mut buffer.batch.bytes, sum, payload_bytes, ts, durable);
        match payload {
            Cow::Owned(payload) if payload_bytes >= LARGE_BYTES => buffer.batch.push_large(payload),
            payload => buffer.batch.bytes.extend_from_slice(&payload),
        }
        let stamping = Stamping {
            buffer: &mut buffer,
            length,
        };
        in_order(ts);
        std::mem::forget(stamping);
        buffer.last = ts;
        buffer.total += size;
        buffer.take_room(payload_bytes);
        // Release: a snapshot that reads it sees what `in_order` stamped.
        self.last.store(ts.0, Ordering::Release);
        let wake = std::mem::take(&mut buffer.wake_on_first) || (!was_half_full && buffer.is_half_full());
        drop(buffer);
        if wake {
            shared.wake_writer();
        }
        Ok(ts)
    }

    /// The newest timestamp whose `in_order` has finished: what a new snapshot may see.
    pub fn last(&self) -> Ts {
        // Acquire: pairs with `append`, whose stamps are then visible.
        Ts(self.last.load(Ordering::Acquire))
    }

    /// The newest timestamp that is on disk, with all before it. Without files: [`Log::last`].
    pub fn durable(&self) -> Ts {
        match &self.to {
            To::Files { shared, .. } => shared.durable(),
            To::Memory(_) => self.last(),
        }
    }

    /// Returns when the commit `ts` and all before it are on disk.
    ///
    /// # Errors
    /// [`LogError::Failed`]: the commit is in memory, and whether it is on disk is unknown until the store is opened again.
    /// [`LogError::NoSuchCommit`] if nothing of that timestamp was appended.
    pub fn wait_durable(&self, ts: Ts, park: &Arc<dyn Park>) -> Result<(), LogError> {
        if ts <= self.durable() {
            return Ok(());
        }
        let last = self.last();
        match &self.to {
            To::Files { shared, .. } if ts <= last => shared.wait_durable(ts, park),
            _ => Err(LogError::NoSuchCommit { ts, last }),
        }
    }

    /// Whether the commit `ts` and all before it are on disk; if not, `client` is unparked once they are, or cannot be.
    ///
    /// # Errors
    /// As [`Log::wait_durable`].
    pub fn tell_durable(&self, ts: Ts, client: &Arc<dyn Park>) -> Result<bool, LogError> {
        if ts <= self.durable() {
            return Ok(true);
        }
        let last = self.last();
        match &self.to {
            To::Files { shared, .. } if ts <= last => shared.tell_durable(ts, client),
            _ => Err(LogError::NoSuchCommit { ts, last }),
        }
    }

    /// Whether the commit `ts` and all before it are on disk.
    ///
    /// # Errors
    /// [`LogError::Failed`]: they will not be.
    pub fn is_durable(&self, ts: Ts) -> Result<bool, LogError> {
        match &self.to {
            To::Files { shared, .. } if ts > self.durable() => shared.is_durable(ts),
            _ => Ok(ts <= self.durable()),
        }
    }

    /// Makes everything appended so far durable; the caller waits as [`park::current`] does. Returns the newest commit this covers.
    ///
    /// # Errors
    /// As [`Log::wait_durable`].
    pub fn flush(&self) -> Result<Ts, LogError> {
        let last = self.last();
        self.wait_durable(last, &park::current())?;
        Ok(last)
    }

    /// Copies closed segments into the archive, if there is one: call it now and then.
    ///
    /// # Errors
    /// If one cannot be copied: it stays where it is, and the next call tries again.
    pub fn archive_closed(&self) -> io::Result<()> {
        match &self.to {
            To::Files { shared, .. } => shared.archive(false),
            To::Memory(_) => Ok(()),
        }
    }

    /// Makes everything appended so far durable, and copies it into the archive, if there is one. Returns the newest commit this covers.
    ///
    /// # Errors
    /// As [`Log::wait_durable`]; [`LogError::Storage`] if a file cannot be copied.
    pub fn archive(&self) -> Result<Ts, LogError> {
        let last = self.flush()?;
        let To::Files { shared, .. } = &self.to else {
            return Ok(last);
        };
        // So that a time tells of them.
        let marked = shared.writer.lock().mark(shared);
        marked.map_err(LogError::Storage)?;
        shared
            .archive(true)
            .map_err(|error| LogError::Storage(Failure::new("archive the log", &error)))?;
        Ok(last)
    }

    /// Removes the segments that hold only commits up to `ts`, once the archive has them: call it after a checkpoint at `ts` is durable.
    ///
    /// # Errors
    /// If a file cannot be removed or copied; the log works on, and the next call tries again.
    pub fn remove_before(&self, ts: Ts) -> io::Result<()> {
        let To::Files { shared, .. } = &self.to else {
            return Ok(());
        };
        // Followers that have it open learn that all of it is durable. If it cannot be said, they begin again.
        let mut writer = shared.writer.lock();
        let _ = writer.mark(shared);
        drop(writer);
        let mut segments = shared.segments.lock();
        // The active one can go too if all that was committed is in it, durable, and not needed: nobody relies on its room then.
        {
            let mut buffer = shared.buffer.lock();
            if buffer.last <= ts && buffer.last <= shared.durable() && segments.so_far().is_some() {
                buffer.room = 0;
                segments.close_active();
            }
        }
        drop(segments);
        let archived = shared.archive(false);
        let mut segments = shared.segments.lock();
        let (removed, result) = segments.remove_before(&*shared.storage, ts);
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        drop(segments);
        let mut buffer = shared.buffer.lock();
        buffer.total = buffer.total.saturating_sub(removed);
        archived.and(result)
    }

    /// Bytes of all segments on disk, without what was reserved or filled with zeros ahead.
    pub fn bytes(&self) -> u64 {
        match &self.to {
            To::Files { shared, .. } => shared.disk_bytes.load(Ordering::Relaxed),
            To::Memory(_) => 0,
        }
    }

    /// Makes everything durable and ends the log's thread. Later commits are refused; dropping the log closes it too.
    ///
    /// # Errors
    /// [`LogError::Failed`] if not everything could be made durable, now or earlier.
    pub fn close(&self) -> Result<(), LogError> {
        let To::Files { shared, thread } = &self.to else {
            return Ok(());
        };
        let mut thread = thread.lock();
        if let Some(thread) = thread.take() {
            {
                let mut buffer = shared.buffer.lock();
                buffer.closing = true;
                buffer.refuse.get_or_insert(Refusal::Closed);
            }
            shared.wake_writer();
            // A panic of the thread has already failed the log.
            let _ = thread.join();
            // Those that waited for room would wait for nobody.
            shared.wake_queue();
        }
        match &shared.waiting.lock().failure {
            None => Ok(()),
            Some(failure) => Err(LogError::Failed(failure.clone())),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Who wants to know of an error calls `close`.
        let _ = self.close();
    }
}

fn broken_order() -> LogError {
    LogError::Failed(Failure {
        what: "stamping a commit".to_string(),
        kind: io::ErrorKind::Other,
        said: "the code that makes it visible panicked".to_string(),
    })
}

/// Takes a block back whose `in_order` panics.
struct Stamping<'a> {
    buffer: &'a mut Buffer,
    length: usize,
}

impl Drop for Stamping<'_> {
    fn drop(&mut self) {
        self.buffer.batch.truncate(self.length);
        if let LogError::Failed(failure) = broken_order() {
            self.buffer.refuse.get_or_insert(Refusal::Failed(failure));
        }
        for client in self.buffer.take_queue() {
            client.unpark();
        }
    }
}
