//! [`Segments`]: the files of a running log.
//!
//! ```text
//!   (none) ──first block──► active ──full, or all of it checkpointed──► closed ──remove_before──► gone
//! ```
//!
//! A segment is made only when there is a block for it and the one before is synced. Order of calls: `append` any number of
//! times, [`super::StorageFile::sync`] on what `to_sync` gives, `synced`; before the next `append`, `close_full` if the
//! active one has reached its size and is synced. What it is not: a thread; see `writer`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::{Failure, Storage, StorageFile, frame};
use crate::ts::Ts;

/// The files of a log, oldest first.
pub(super) struct Segments {
    closed: VecDeque<Closed>,
    active: Option<Active>,
}

/// A segment that gets no block any more.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) name: String,
    /// Its newest commit.
    pub(super) last: Ts,
    pub(super) bytes: u64,
}

struct Active {
    name: String,
    file: Arc<dyn StorageFile>,
    last: Ts,
    bytes: u64,
    name_is_durable: bool,
}

/// A file with unsynced bytes.
pub(super) struct ToSync {
    pub(super) name: String,
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) name_is_durable: bool,
}

impl Segments {
    pub(super) fn new(closed: Vec<Closed>) -> Segments {
        Segments {
            closed: closed.into(),
            active: None,
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

    /// Writes frames whose commits are `first..=last` to the active segment, which is made if there is none. Returns the
    /// bytes added to files beyond `frames`. For a mark, `last` is the newest commit before it.
    pub(super) fn append(
        &mut self,
        storage: &dyn Storage,
        store_id: u64,
        frames: &[u8],
        first: Ts,
        last: Ts,
    ) -> Result<u64, Failure> {
        let mut added = 0;
        if self.active.is_none() {
            let name = frame::segment_name(first);
            let failure = |error| Failure::new(format!("making {}/{name}", storage.place()), &error);
            let file = storage.create(&name).map_err(failure)?;
            file.append(&frame::segment_head(store_id, first))
                .map_err(failure)?;
            added = frame::HEAD_BYTES as u64;
            self.active = Some(Active {
                name,
                file,
                last: first,
                bytes: added,
                name_is_durable: false,
            });
        }
        let active = self.active.as_mut().expect("made above");
        active.file.append(frames).map_err(|error| {
            Failure::new(
                format!(
                    "writing {} bytes to {}/{}",
                    frames.len(),
                    storage.place(),
                    active.name
                ),
                &error,
            )
        })?;
        active.bytes += frames.len() as u64;
        active.last = last;
        Ok(added)
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

    pub(super) fn is_full(&self, segment_bytes: u64) -> bool {
        self.active
            .as_ref()
            .is_some_and(|active| active.bytes >= segment_bytes)
    }

    /// Closes the active segment, which is synced.
    pub(super) fn close_active(&mut self) {
        if let Some(Active {
            name, last, bytes, ..
        }) = self.active.take()
        {
            self.closed.push_back(Closed { name, last, bytes });
        }
    }

    /// Removes the files that hold only commits up to `ts`; the bytes they had, also where an error ended it.
    pub(super) fn remove_before(
        &mut self,
        storage: &dyn Storage,
        ts: Ts,
        durable: Ts,
    ) -> (u64, io::Result<()>) {
        // The active one can go too if all of it is durable: nobody is between writing and syncing it.
        if self
            .active
            .as_ref()
            .is_some_and(|active| active.last <= ts && active.last <= durable)
        {
            self.close_active();
        }
        let mut removed = 0;
        while let Some(oldest) = self.closed.front().filter(|oldest| oldest.last <= ts) {
            match storage.remove(&oldest.name) {
                Ok(()) => {}
                // Somebody else removed it: the wish is fulfilled.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return (removed, Err(error)),
            }
            removed += oldest.bytes;
            self.closed.pop_front();
        }
        (removed, Ok(()))
    }
}
