//! [`Archive`]: a folder that keeps the log when checkpoints remove it, so that a backup can be brought to any later moment.
//!
//! ```text
//!   segment ──closed, synced──► copied beside, synced, renamed ──► log-<first>.corun in the archive ──only now──► may be removed
//!   active segment ──asked for──► what it has so far, under the same name; replaced once there is more
//! ```
//!
//! Beside them lies the archive's own tip (see `tip`): up to where it has the log.
//!
//! A file of the archive begins with what it had before: another beginning is another history (a store that was restored to an earlier
//! moment, or opened with damage cut), and is refused. What it is not: the restoring, see `crate::restore`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::reader::{LogReader, OnDamage};
use super::segments::Closed;
use super::shared::Shared;
use super::tip::Tip;
use super::{Failure, LogError, TIP, frame};
use crate::storage::{Folder, Storage, StorageFile, for_each_part, read_exact_at, remove_if_there};
use crate::ts::Ts;

/// What will become a file of the archive.
const NEW: &str = "archive.new";

/// Where a store's log is kept for good. See [`crate::Options::archive`].
#[derive(Clone)]
pub struct Archive {
    pub(crate) storage: Arc<dyn Storage>,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive({})", self.storage.place())
    }
}

impl Archive {
    /// The folder `path`, of one store alone, made if it is missing; on another disk, if it is to help where that of the store breaks.
    ///
    /// # Errors
    /// If its parent is missing, or it cannot be made.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Archive> {
        Ok(Archive::on(Arc::new(Folder::open(path)?)))
    }

    /// Any storage.
    pub fn on(storage: Arc<dyn Storage>) -> Archive {
        Archive { storage }
    }

    /// The segments that it has: their first commits, their names.
    pub(crate) fn segments(&self) -> io::Result<Vec<(Ts, String)>> {
        frame::segments(&*self.storage)
    }

    /// The newest commit that it has; none if it is empty.
    ///
    /// # Errors
    /// If its newest file is damaged, or of another store.
    pub(crate) fn last(&self, store_id: u64) -> Result<Ts, LogError> {
        let segments = self.segments().map_err(|error| self.failure("list", &error))?;
        let Some((first, _)) = segments.last() else {
            return Ok(Ts::ZERO);
        };
        let after = Ts(first.0 - 1);
        let mut reader = LogReader::open(Arc::clone(&self.storage), store_id, after, OnDamage::Refuse)?;
        let mut last = after;
        while let Some(segment) = reader.next_segment()? {
            last = segment.blocks.last().map_or(last, |(ts, _)| *ts);
        }
        match reader.damage() {
            None => Ok(last),
            Some(damage) => Err(LogError::Damaged(damage.clone())),
        }
    }

    pub(crate) fn failure(&self, what: &str, error: &io::Error) -> LogError {
        let what = format!("{what} the archive {}", self.storage.place());
        LogError::Storage(Failure::new(what, error))
    }

    /// Copies what a segment has, durably, unless it has that; `last` is the newest commit that it has.
    fn keep(&self, segment: &Closed, from: &dyn StorageFile, last: Ts) -> io::Result<()> {
        let to = &*self.storage;
        let (name, length) = (&segment.name, segment.bytes);
        let other = || io::Error::other("the archive has another history from there on; name a new one");
        let kept = match to.open(name) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(kept) = kept {
            let has = kept.length()?;
            if !same(&*kept, from, has.min(length))? {
                return Err(other());
            }
            if has >= length {
                return Ok(());
            }
        } else if segment.first() <= last {
            return Err(other());
        }
        remove_if_there(to, NEW)?;
        let file = to.create(NEW)?;
        for_each_part(from, length, |bytes, _| file.append(bytes).map(|()| true))?;
        file.sync()?;
        to.rename(NEW, name)?;
        to.sync_names()
    }
}

/// Whether two files begin with the same bytes.
fn same(a: &dyn StorageFile, b: &dyn StorageFile, length: u64) -> io::Result<bool> {
    let mut other = Vec::new();
    for_each_part(a, length, |bytes, at| {
        other.resize(bytes.len(), 0);
        read_exact_at(b, at, &mut other)?;
        Ok(other == bytes)
    })
}

/// The newest commit that the archive has, once that is known. Its mutex keeps one from copying what another is copying.
#[derive(Default)]
pub(super) struct Archiving(Mutex<Option<Ts>>);

impl Shared {
    /// Copies the closed segments that the archive has not yet, and with `active` what the active one has so far. Without an archive
    /// there is nothing to do.
    pub(super) fn archive(&self, active: bool) -> io::Result<()> {
        let Some(archive) = &self.options.archive else {
            return Ok(());
        };
        let mut newest = self.archiving.0.lock();
        let before = *newest;
        let kept = self.archive_segments(archive, &mut newest, active);
        match *newest {
            // Behind what it speaks of: an archive that lost its newest file, or commits at its end, is not one that ends earlier.
            Some(ts) if *newest != before => kept.and(self.put_tip_of(archive, ts)),
            _ => kept,
        }
    }

    fn archive_segments(&self, archive: &Archive, newest: &mut Option<Ts>, active: bool) -> io::Result<()> {
        loop {
            let closed = self.segments.lock().to_archive();
            let Some(closed) = closed else { break };
            // One without a block is not needed, and the next segment may have its name.
            if closed.has_block() {
                self.keep(archive, &closed, newest)?;
            }
            self.segments.lock().archived(&closed.name);
        }
        let so_far = self.segments.lock().so_far().filter(|_| active);
        so_far.map_or(Ok(()), |so_far| self.keep(archive, &so_far, newest))
    }

    fn put_tip_of(&self, archive: &Archive, ts: Ts) -> io::Result<()> {
        let (storage, store_id) = (&*archive.storage, self.store_id);
        let tip = Tip { store_id, ts };
        Tip::prepare(storage)
            .and_then(|prepared| tip.put(storage, &*prepared))
            .map_err(|error| {
                let place = storage.place();
                io::Error::new(error.kind(), format!("cannot replace {place}/{TIP}: {error}"))
            })
    }

    fn keep(&self, archive: &Archive, segment: &Closed, newest: &mut Option<Ts>) -> io::Result<()> {
        let name = &segment.name;
        let mut keep = || {
            let last = match *newest {
                Some(last) => last,
                None => archive.last(self.store_id).map_err(io::Error::other)?,
            };
            let file = self.storage.open(name)?;
            // What the archive has can never be lost here: neither marks nor commits that nobody waits for, nor the file's name.
            file.sync()?;
            self.storage.sync_names()?;
            archive.keep(segment, &*file, last)?;
            *newest = Some(last.max(segment.last));
            Ok(())
        };
        keep().map_err(|error: io::Error| {
            let (from, to) = (self.storage.place(), archive.storage.place());
            io::Error::new(
                error.kind(),
                format!("cannot keep {from}/{name} in the archive {to}: {error}"),
            )
        })
    }
}
