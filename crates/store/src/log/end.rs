//! [`LogEnd`]: where a log goes on after what was read back.
//!
//! What it is not: a change of the folder. [`super::Log::start`] makes it true.

use std::io;

use super::segments::Closed;
use super::{Failure, LogError, Storage};
use crate::storage::{read_exact_at, replace};
use crate::ts::Ts;

/// Where a log goes on. The default is the end of a log without any commit or file.
#[derive(Debug, Default)]
pub struct LogEnd {
    pub(super) last: Ts,
    /// What stays, oldest first.
    pub(super) segments: Vec<Closed>,
    /// The last file, if its end has to be cut or may not be durable.
    pub(super) rewrite: Option<Rewrite>,
    /// What has to go, oldest first.
    pub(super) remove: Vec<String>,
}

/// A file of which only the beginning stays.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub(super) name: String,
    /// Bytes that stay.
    pub(super) length: usize,
    /// Their checksum.
    pub(super) sum: u32,
}

/// What will become the last file.
const NEW: &str = "log.new";

impl LogEnd {
    /// The newest commit: the last block of the log or the checkpoint it was read for, whichever is newer.
    pub fn last(&self) -> Ts {
        self.last
    }

    /// Cuts what is to be cut, so that it can never come back, and makes what stays durable.
    ///
    /// What a killed program wrote is read back whether it was synced or not, and even where its sync failed: then it is in
    /// the system's cache only, and a sync now would succeed and prove nothing. From now on it is the past of durable commits.
    /// So the last file is written anew, unless it says itself that all of it is durable.
    ///
    /// A crash in here leaves a log that reads back the same: the newest files go first, so that what stays never seems to
    /// have had successors that it lost, and the last one is replaced as a whole.
    pub(super) fn make_definite(&self, storage: &dyn Storage) -> Result<(), LogError> {
        let place = storage.place();
        let failure = |what: String| move |error| LogError::Storage(Failure::new(what, &error));
        for name in self.remove.iter().rev() {
            storage
                .remove(name)
                .map_err(failure(format!("remove the cut end of the log, {place}/{name}")))?;
        }
        // Also for files that were made or renamed shortly before a kill: their names may not be durable yet.
        storage
            .sync_names()
            .map_err(failure(format!("sync the names in {place}")))?;
        if let Some(rewrite) = &self.rewrite {
            let path = format!("{place}/{}", rewrite.name);
            rewrite
                .run(storage)
                .map_err(failure(format!("write the end of the log anew, {path}")))?;
        }
        Ok(())
    }
}

impl Rewrite {
    fn run(&self, storage: &dyn Storage) -> io::Result<()> {
        let mut bytes = vec![0; self.length];
        read_exact_at(&*storage.open(&self.name)?, 0, &mut bytes)?;
        if crc32fast::hash(&bytes) != self.sum {
            return Err(io::Error::other("it has changed since it was read; try again"));
        }
        replace(storage, NEW, &self.name, &bytes)
    }
}
