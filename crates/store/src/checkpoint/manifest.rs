//! [`Manifest`]: the small file that says which store a folder holds and which checkpoint is in force.
//!
//! ```text
//!   corun.manifest   head (see `bytes`, ts of the checkpoint) │ checkpoint length 8 │ name length 4 │ name
//! ```
//!
//! It is replaced as a whole: written beside, synced, renamed, names synced. What it is not: a catalog of tables.

use std::io::ErrorKind;

use super::CheckpointError;
use super::bytes::{HEAD_BYTES, check_head, head, u32_at, u64_at};
use crate::log::{TIP, segment_first};
use crate::storage::{Failure, Storage, read_all, replace};
use crate::ts::Ts;

const MAGIC: [u8; 8] = *b"corunman";
const NAME: &str = "corun.manifest";
/// What will become the manifest.
const NEW: &str = "corun.manifest.new";

/// Which store a folder holds, and its checkpoint in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Tells stores apart; drawn when the store was made.
    pub store_id: u64,
    /// The commits up to here are in the checkpoint. 0 without one.
    pub ts: Ts,
    /// The checkpoint's file and length in bytes; `None` before the first.
    pub checkpoint: Option<(String, u64)>,
}

impl Manifest {
    /// The manifest of a folder; `None` if the folder is fresh.
    ///
    /// # Errors
    /// [`CheckpointError::Foreign`] and [`CheckpointError::NoManifest`] for a folder that has files but no manifest;
    /// [`CheckpointError::Damaged`], [`CheckpointError::NewerVersion`], [`CheckpointError::Storage`].
    pub fn read(storage: &dyn Storage) -> Result<Option<Manifest>, CheckpointError> {
        let place = storage.place();
        let failure = |what: &str, error| {
            CheckpointError::Storage(Failure::new(format!("{what} {place}/{NAME}"), &error))
        };
        let names = storage.names().map_err(|error| failure("look for", error))?;
        if !names.iter().any(|name| name == NAME) {
            // A crash while the very first manifest was made leaves that.
            return match names.into_iter().find(|name| name != NEW) {
                None => Ok(None),
                Some(file) if segment_first(&file).is_some() || is_checkpoint(&file) || file == TIP => {
                    Err(CheckpointError::NoManifest { place, file })
                }
                Some(file) => Err(CheckpointError::Foreign { place, file }),
            };
        }
        let bytes = storage
            .open(NAME)
            .and_then(|file| read_all(&*file))
            .map_err(|error| failure("read", error))?;
        Manifest::decode(&bytes, &format!("{place}/{NAME}")).map(Some)
    }

    /// Writes the first manifest of a fresh folder: no checkpoint, no commit.
    ///
    /// # Errors
    /// [`CheckpointError::Storage`], also if there is a manifest; those of [`Manifest::read`].
    pub fn create(storage: &dyn Storage, store_id: u64) -> Result<Manifest, CheckpointError> {
        if Manifest::read(storage)?.is_some() {
            let error = ErrorKind::AlreadyExists.into();
            return Err(CheckpointError::Storage(Failure::new(
                format!("make {}/{NAME}", storage.place()),
                &error,
            )));
        }
        let manifest = Manifest {
            store_id,
            ts: Ts::ZERO,
            checkpoint: None,
        };
        manifest.put_in_force(storage)?;
        Ok(manifest)
    }

    /// Replaces the manifest, atomically and durably.
    pub(super) fn put_in_force(&self, storage: &dyn Storage) -> Result<(), CheckpointError> {
        replace(storage, NEW, NAME, &self.encode()).map_err(|error| {
            CheckpointError::Storage(Failure::new(
                format!("replace {}/{NAME}", storage.place()),
                &error,
            ))
        })
    }

    fn encode(&self) -> Vec<u8> {
        let (name, length) = self
            .checkpoint
            .as_ref()
            .map_or(("", 0), |(name, length)| (name.as_str(), *length));
        let mut rest = Vec::new();
        rest.extend_from_slice(&length.to_le_bytes());
        rest.extend_from_slice(&(name.len() as u32).to_le_bytes());
        rest.extend_from_slice(name.as_bytes());
        let mut bytes = head(&MAGIC, self.store_id, self.ts, &rest);
        bytes.extend_from_slice(&rest);
        bytes
    }

    fn decode(bytes: &[u8], file: &str) -> Result<Manifest, CheckpointError> {
        let (store_id, ts) = check_head(&MAGIC, bytes, bytes.len().saturating_sub(HEAD_BYTES), file)?;
        let rest = &bytes[HEAD_BYTES..];
        let name = rest.get(12..).and_then(|name| std::str::from_utf8(name).ok());
        match name {
            Some(name) if name.len() == u32_at(rest, 8) as usize => {
                let checkpoint = (!name.is_empty()).then(|| (name.to_string(), u64_at(rest, 0)));
                Ok(Manifest {
                    store_id,
                    ts,
                    checkpoint,
                })
            }
            _ => {
                let (file, what) = (file.to_string(), "its length is wrong".to_string());
                Err(CheckpointError::Damaged {
                    file,
                    offset: HEAD_BYTES as u64,
                    what,
                })
            }
        }
    }
}

/// Names of checkpoints: `checkpoint-<ts, 20 digits>-<number>.corun`; the number tells two at the same commit apart.
pub(super) fn checkpoint_name(ts: Ts, number: u64) -> String {
    format!("checkpoint-{:020}-{number}.corun", ts.0)
}

pub(super) fn is_checkpoint(name: &str) -> bool {
    let middle = name
        .strip_prefix("checkpoint-")
        .and_then(|rest| rest.strip_suffix(".corun"));
    middle.is_some_and(|middle| {
        middle.len() > 21 && middle.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    })
}
