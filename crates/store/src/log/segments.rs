//! [`Segments`]: the files of a running log.
//!
//! ```text
//!   (none) ──make_room──► active ──full, or all of it checkpointed──► closed ──remove_before──► gone
//! ```
//!
//! Room on the disk is reserved before a commit is promised that it will be written: behind the end of the active segment's file,
//! without making that longer. A segment is made only when somebody needs the room and the one before is synced; under another name
//! until its head is in it.
//!
//! ```text
//!   active   head │ frames ... │ zeros up to the next fill │ reserved, not in the file
//! ```
//!
//! A sync of bytes that make the file longer, or that are the first of a reserved block, has to write the file system's journal too; one
//! of bytes over others does not. So zeros are written ahead, in steps, beside the first frame behind the last ones: readers take zeros
//! up to the end of the file for nothing (see `reader`). Segments are not kept to be written over: their old frames would have to be told
//! from the new, and zeros cost nothing beside commits so small that they gain: each sync writes 4 KiB for its some hundred bytes. Order of calls: `make_room`, `append` any number of times,
//! [`super::StorageFile::sync`] on what `to_sync` gives, `named`. What it is not: a thread; see `writer`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::tip::Tip;
use super::{Failure, LogOptions, Storage, StorageFile, TIP, frame};
use crate::storage::remove_if_there;
use crate::ts::Ts;

/// Zeros written at a time ahead of what is committed, in bytes. Measured on the ext4 of a virtual disk, one thread that writes 300 bytes
/// and syncs: 131 us without, 88 us with 64 KiB, 84 us with this, 91 us with 1 MiB; 19 KB each: 211, 157, 108 and 110 us.
const FILL_BYTES: usize = 256 << 10;
static ZEROS: [u8; FILL_BYTES] = [0; FILL_BYTES];

/// What will become the next segment.
const NEXT: &str = "log.next";

/// The files of a log, oldest first.
pub(super) struct Segments {
    closed: VecDeque<Closed>,
    active: Option<Active>,
    /// The file of the tip that the active segment will need.
    tip: Option<Arc<dyn StorageFile>>,
    /// There is an archive: what it does not have yet stays.
    has_archive: bool,
    /// What a segment has before the next one is made.
    segment_bytes: u64,
}

/// A segment that gets no block any more.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) name: String,
    /// Its newest commit.
    pub(super) last: Ts,
    pub(super) bytes: u64,
    /// The archive has it.
    pub(super) archived: bool,
}

impl Closed {
    pub(super) fn first(&self) -> Ts {
        frame::segment_first(&self.name).expect("it has the name of a segment")
    }

    pub(super) fn has_block(&self) -> bool {
        self.last >= self.first()
    }
}

struct Active {
    name: String,
    file: Arc<dyn StorageFile>,
    last: Ts,
    bytes: u64,
    /// Up to here the file has zeros.
    filled: u64,
    /// What the file can grow to on a full disk.
    reserved: u64,
    name_is_durable: bool,
}

/// A file with unsynced bytes.
pub(super) struct ToSync {
    pub(super) name: String,
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) name_is_durable: bool,
}

impl Active {
    /// Writes zeros behind what was written, unless there are some, as far as there is room and the segment will go.
    fn fill(&mut self, segment_bytes: u64) {
        if self.bytes < self.filled {
            return;
        }
        let until = (self.bytes + FILL_BYTES as u64)
            .min(self.reserved)
            .min(segment_bytes);
        let zeros = until.saturating_sub(self.bytes) as usize;
        // If that fails, syncs take longer.
        let _ = self.file.write_at(self.bytes, &ZEROS[..zeros]);
        self.filled = until;
    }
}

impl Segments {
    pub(super) fn new(closed: Vec<Closed>, options: &LogOptions) -> Segments {
        Segments {
            closed: closed.into(),
            active: None,
            tip: None,
            has_archive: options.archive.is_some(),
            segment_bytes: options.segment_bytes,
        }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.closed.iter().map(|segment| segment.bytes).sum::<u64>()
            + self.active.as_ref().map_or(0, |active| active.bytes)
    }

    pub(super) fn has_active(&self) -> bool {
        self.active.is_some()
    }

    /// Gets room for `bytes` from the end of the log on: in a new segment, whose first commit is `first`, if there is none or
    /// `change` says so and the disk has room for one, else in the active one. Whoever wants a change has synced that. Returns
    /// the bytes that were added to files.
    pub(super) fn make_room(
        &mut self,
        storage: &dyn Storage,
        store_id: u64,
        first: Ts,
        bytes: u64,
        change: bool,
    ) -> Result<u64, Failure> {
        if change || self.active.is_none() {
            match self.begin(storage, store_id, first, bytes) {
                Ok(()) => return Ok(frame::HEAD_BYTES as u64),
                // The old one goes on beyond its size.
                Err(failure) if failure.is_full() && self.active.is_some() => {}
                Err(failure) => return Err(failure),
            }
        }
        let active = self.active.as_mut().expect("it was there");
        let length = active.bytes + bytes;
        if length > active.reserved {
            active.file.reserve(length).map_err(|error| {
                let name = &active.name;
                Failure::new(
                    format!("reserving {bytes} bytes for {}/{name}", storage.place()),
                    &error,
                )
            })?;
            active.reserved = length;
        }
        Ok(0)
    }

    /// Makes a segment with room for `bytes`, and the file of the tip that it will need.
    fn begin(&mut self, storage: &dyn Storage, store_id: u64, first: Ts, bytes: u64) -> Result<(), Failure> {
        let name = frame::segment_name(first);
        if self.tip.is_none() {
            let tip = Tip::prepare(storage)
                .map_err(|error| Failure::new(format!("making {}/{TIP}", storage.place()), &error))?;
            self.tip = Some(tip);
        }
        let head = frame::segment_head(store_id, first, self.has_archive);
        let reserved = head.len() as u64 + bytes;
        let make = || {
            remove_if_there(storage, NEXT)?;
            let file = storage.create(NEXT)?;
            let is_reserved = file.reserve(reserved)?;
            file.append(&head)?;
            storage.rename(NEXT, &name)?;
            Ok((file, is_reserved))
        };
        let (file, is_reserved) = make().map_err(|error| {
            // It would keep what little room there is; if it stays, the next one takes its place.
            let _ = remove_if_there(storage, NEXT);
            Failure::new(
                format!("making {}/{name}, with {bytes} bytes of room,", storage.place()),
                &error,
            )
        })?;
        self.close_active();
        self.active = Some(Active {
            name,
            file,
            last: Ts(first.0 - 1),
            bytes: head.len() as u64,
            // Where nothing can be reserved, zeros might take the room that commits need.
            filled: if is_reserved { 0 } else { u64::MAX },
            reserved,
            name_is_durable: false,
        });
        Ok(())
    }

    /// Writes to the active segment, which has room; the newest commit is then `last`.
    pub(super) fn append<'a>(
        &mut self,
        storage: &dyn Storage,
        parts: impl IntoIterator<Item = &'a [u8]>,
        last: Ts,
    ) -> Result<(), Failure> {
        let active = self.active.as_mut().expect("who was promised room has a segment");
        for part in parts {
            active.file.write_at(active.bytes, part).map_err(|error| {
                let what = format!(
                    "writing {} bytes to {}/{}",
                    part.len(),
                    storage.place(),
                    active.name
                );
                Failure::new(what, &error)
            })?;
            active.bytes += part.len() as u64;
        }
        active.last = last;
        active.fill(self.segment_bytes);
        Ok(())
    }

    /// The file for the next tip, made now if the active segment's was used.
    pub(super) fn take_tip(&mut self, storage: &dyn Storage) -> io::Result<Arc<dyn StorageFile>> {
        self.tip.take().map_or_else(|| Tip::prepare(storage), Ok)
    }

    pub(super) fn to_sync(&self) -> Option<ToSync> {
        self.active.as_ref().map(|active| ToSync {
            name: active.name.clone(),
            file: Arc::clone(&active.file),
            name_is_durable: active.name_is_durable,
        })
    }

    /// The active segment's name has been synced.
    pub(super) fn named(&mut self) {
        if let Some(active) = &mut self.active {
            active.name_is_durable = true;
        }
    }

    /// The oldest closed segment that the archive has not yet.
    pub(super) fn to_archive(&self) -> Option<Closed> {
        self.closed.iter().find(|closed| !closed.archived).cloned()
    }

    pub(super) fn archived(&mut self, name: &str) {
        if let Some(closed) = self.closed.iter_mut().find(|closed| closed.name == name) {
            closed.archived = true;
        }
    }

    /// The active segment as far as it is written, if it has a block. Without one, the segment that a restart makes has its name.
    pub(super) fn so_far(&self) -> Option<Closed> {
        let active = self.active.as_ref()?;
        let so_far = Closed {
            name: active.name.clone(),
            last: active.last,
            bytes: active.bytes,
            archived: false,
        };
        Some(so_far).filter(Closed::has_block)
    }

    pub(super) fn is_full(&self) -> bool {
        self.active
            .as_ref()
            .is_some_and(|active| active.bytes >= self.segment_bytes)
    }

    /// Closes the active segment, which is synced, and gives back the room that it has left.
    pub(super) fn close_active(&mut self) {
        if let Some(Active {
            name,
            file,
            last,
            bytes,
            ..
        }) = self.active.take()
        {
            // If that fails the file takes more of the disk until a checkpoint removes it.
            let _ = file.truncate(bytes);
            self.closed.push_back(Closed {
                name,
                last,
                bytes,
                archived: false,
            });
        }
    }

    /// Removes the closed files that hold only commits up to `ts`; the bytes they had, also where an error ended it.
    pub(super) fn remove_before(&mut self, storage: &dyn Storage, ts: Ts) -> (u64, io::Result<()>) {
        let mut removed = 0;
        let may_go = |oldest: &&Closed| oldest.last <= ts && (oldest.archived || !self.has_archive);
        while let Some(oldest) = self.closed.front().filter(may_go) {
            if let Err(error) = remove_if_there(storage, &oldest.name) {
                return (removed, Err(error));
            }
            removed += oldest.bytes;
            self.closed.pop_front();
        }
        (removed, Ok(()))
    }
}
