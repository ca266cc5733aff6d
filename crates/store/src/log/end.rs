//! [`LogEnd`]: where a log goes on after what was read back.
//!
//! What it is not: a change of the folder. [`super::Log::start`] makes it true.

use super::segments::Closed;
use super::{Failure, LogError, Storage};
use crate::ts::Ts;

/// Where a log goes on. The default is the end of a log without any commit or file.
#[derive(Debug, Default)]
pub struct LogEnd {
    pub(super) last: Ts,
    /// What stays, oldest first.
    pub(super) segments: Vec<Closed>,
    /// What has to be cut: the file and the length it keeps.
    pub(super) truncate: Option<(String, u64)>,
    /// What has to go, oldest first.
    pub(super) remove: Vec<String>,
}

impl LogEnd {
    /// The newest commit: the last block of the log or the checkpoint it was read for, whichever is newer.
    pub fn last(&self) -> Ts {
        self.last
    }

    /// Cuts what is to be cut, so that it can never come back, and makes what stays durable.
    ///
    /// A crash in here leaves a log that reads back the same: the newest files go first, so that what stays never seems to
    /// have had successors that it lost.
    pub(super) fn make_definite(&self, storage: &dyn Storage) -> Result<(), LogError> {
        let failure = |what: &str, name: &str, error| {
            LogError::Storage(Failure::new(format!("{what} {}/{name}", storage.place()), &error))
        };
        for name in self.remove.iter().rev() {
            storage
                .remove(name)
                .map_err(|error| failure("remove the cut end of the log,", name, error))?;
        }
        // Also for files that were made shortly before a kill: their names may not be durable yet.
        storage
            .sync_names()
            .map_err(|error| failure("sync the names of", "", error))?;
        if let Some((name, length)) = &self.truncate {
            let cut = storage.open(name).and_then(|file| file.truncate(*length));
            cut.map_err(|error| failure("cut the end of", name, error))?;
        }
        // What a killed program wrote is read back whether it was synced or not. From now on it is the past of durable commits.
        if let Some(last) = self.segments.last() {
            let synced = storage.open(&last.name).and_then(|file| file.sync());
            synced.map_err(|error| failure("sync", &last.name, error))?;
        }
        Ok(())
    }
}
