//! [`Tip`]: how far the log is known to be durable, kept beside it: a log that has lost its newest files ends earlier, and would read as whole.
//!
//! ```text
//!   log.tip   magic 8 │ version 4 │ checksum 4 │ store id 8 │ ts 8          (little endian)
//! ```
//!
//! It is written when a log is started, when the first commits of a segment are on disk, before anybody hears of them, and when the log is
//! closed; each time as a whole: beside, synced, renamed. A folder of before has none. What it is not: the newest durable commit, which is this
//! one or a later one.

use std::io;

use super::{Damage, Failure, LogError, Storage};
use crate::storage::{read_all, replace};
use crate::ts::Ts;

const MAGIC: [u8; 8] = *b"corunlgt";
const VERSION: u32 = 1;
const BYTES: usize = 32;
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
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() != BYTES || bytes[..8] != MAGIC || sum(&bytes) != half(12) {
            return Err(LogError::Damaged(Damage {
                file,
                offset: 0,
                first_lost: Ts::ZERO,
                last_known: Ts::ZERO,
                torn_tail: false,
                what: "its checksum is wrong".to_owned(),
            }));
        }
        if half(8) != VERSION {
            return Err(LogError::NewerVersion {
                file,
                version: half(8),
                known: VERSION,
            });
        }
        if number(16) != store_id {
            return Err(LogError::OtherStore {
                file,
                found: number(16),
                wanted: store_id,
            });
        }
        Ok(Some(Tip {
            store_id,
            ts: Ts(number(24)),
        }))
    }

    /// Replaces the file, atomically and durably. The segments that it speaks of are durable, their names too.
    pub(super) fn put(self, storage: &dyn Storage) -> io::Result<()> {
        replace(storage, NEW, NAME, &self.encode())
    }

    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.store_id.to_le_bytes());
        bytes[24..].copy_from_slice(&self.ts.0.to_le_bytes());
        let sum = sum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}
