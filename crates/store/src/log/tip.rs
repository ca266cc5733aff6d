//! [`Tip`]: how far the log is known to be durable, kept beside it: a log that has lost its newest files ends earlier, and would read as whole.
//!
//! ```text
//!   log.tip   a head as a segment's (see `frame`), with the commit in place of the first
//! ```
//!
//! It is written when a log is started, when the first commits of a segment are on disk, before anybody hears of them, and when the log is
//! closed; each time as a whole: beside, synced, renamed. A folder of before has none. What it is not: the newest durable commit, which is this
//! one or a later one.

use std::io;
use std::sync::Arc;

use super::frame::{self, Head};
use super::{Damage, Failure, LogError, Storage, StorageFile};
use crate::storage::{read_all, remove_if_there};
use crate::ts::Ts;

const MAGIC: [u8; 8] = *b"corunlgt";
/// The file.
pub(crate) const NAME: &str = "log.tip";
/// What will become it.
const NEW: &str = "log.tip.new";

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    pub(super) store_id: u64,
    /// The commits up to here were durable.
    pub(super) ts: Ts,
}

impl Tip {
    /// The tip of store `store_id`'s log; `None` without one.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::NewerVersion`], [`LogError::OtherStore`], [`LogError::Storage`].
    pub(super) fn read(storage: &dyn Storage, store_id: u64) -> Result<Option<Tip>, LogError> {
        let file = format!("{}/{NAME}", storage.place());
        let bytes = match storage.open(NAME).and_then(|file| read_all(&*file)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(LogError::Storage(Failure::new(format!("read {file}"), &error)));
            }
        };
        match frame::read_head_of(MAGIC, &bytes) {
            Head::Newer { version } => Err(LogError::NewerVersion {
                file,
                version,
                known: frame::VERSION,
            }),
            Head::Good { store_id: found, .. } if found != store_id => Err(LogError::OtherStore {
                file,
                found,
                wanted: store_id,
            }),
            Head::Good { first, .. } if bytes.len() == frame::HEAD_BYTES => {
                Ok(Some(Tip { store_id, ts: first }))
            }
            Head::Good { .. } | Head::Unwritten | Head::Broken | Head::Foreign => {
                Err(LogError::Damaged(Damage {
                    file,
                    offset: 0,
                    first_lost: Ts::ZERO,
                    last_known: Ts::ZERO,
                    torn_tail: false,
                    what: "its checksum is wrong".to_owned(),
                }))
            }
        }
    }

    /// Makes the file that will become it, with room for its bytes: so that a full disk is found while no commit depends on it.
    pub(super) fn prepare(storage: &dyn Storage) -> io::Result<Arc<dyn StorageFile>> {
        remove_if_there(storage, NEW)?;
        let file = storage.create(NEW)?;
        file.reserve(frame::HEAD_BYTES as u64)?;
        Ok(file)
    }

    /// Replaces the file, atomically and durably, by the one that was prepared. The segments that it speaks of are durable, their
    /// names too.
    pub(super) fn put(self, storage: &dyn Storage, prepared: &dyn StorageFile) -> io::Result<()> {
        prepared.append(&frame::head_of(MAGIC, self.store_id, self.ts))?;
        prepared.sync()?;
        storage.rename(NEW, NAME)?;
        storage.sync_names()
    }
}
