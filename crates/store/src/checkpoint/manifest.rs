//! [`Manifest`]: the small file that says which store a folder holds and which files are its checkpoint.
//!
//! ```text
//!   corun.manifest   head (see `bytes`, ts of the checkpoint) │ files 4 │ for each: ts 8 │ length 8 │ name length 4 │ name
//!   format 1         head                                     │ length 8 │ name length 4 │ name           one file or none
//! ```
//!
//! It is replaced as a whole: written beside, synced, renamed, names synced. What it is not: a catalog of tables.

use std::io::ErrorKind;

use super::CheckpointError;
use super::bytes::{Fields, HEAD_BYTES, check_head, head};
use crate::log::{TIP, segment_first};
use crate::storage::{Failure, Storage, read_all, replace};
use crate::ts::Ts;

const MAGIC: [u8; 8] = *b"corunman";
const NAME: &str = Manifest::NAME;
/// What will become the manifest.
const NEW: &str = "corun.manifest.new";

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    /// In the store's folder.
    pub name: String,
    /// It says what had changed up to this commit.
    pub ts: Ts,
    /// Its length.
    pub bytes: u64,
}

/// Which store a folder holds, and its checkpoint in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Tells stores apart; drawn when the store was made.
    pub store_id: u64,
    /// The commits up to here are in the checkpoint. 0 without one.
    pub ts: Ts,
    /// The checkpoint's files, the oldest first; none before the first checkpoint.
    pub files: Vec<CheckpointFile>,
}

impl Manifest {
    /// The name of its file.
    pub(crate) const NAME: &'static str = "corun.manifest";

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
            files: Vec::new(),
        };
        manifest.put_in_force(storage)?;
        Ok(manifest)
    }

    /// Replaces the manifest, atomically and durably.
    pub(crate) fn put_in_force(&self, storage: &dyn Storage) -> Result<(), CheckpointError> {
        replace(storage, NEW, NAME, &self.encode()).map_err(|error| {
            CheckpointError::Storage(Failure::new(
                format!("replace {}/{NAME}", storage.place()),
                &error,
            ))
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut rest = (self.files.len() as u32).to_le_bytes().to_vec();
        for file in &self.files {
            rest.extend_from_slice(&file.ts.0.to_le_bytes());
            rest.extend_from_slice(&file.bytes.to_le_bytes());
            rest.extend_from_slice(&(file.name.len() as u32).to_le_bytes());
            rest.extend_from_slice(file.name.as_bytes());
        }
        let mut bytes = head(&MAGIC, self.store_id, self.ts, &rest);
        bytes.extend_from_slice(&rest);
        bytes
    }

    fn decode(bytes: &[u8], file: &str) -> Result<Manifest, CheckpointError> {
        let head = check_head(&MAGIC, bytes, bytes.len().saturating_sub(HEAD_BYTES), file)?;
        let rest = Fields(&bytes[HEAD_BYTES..]);
        let files = match head.version {
            1 => files_of_format_1(rest, head.ts),
            _ => files(rest),
        };
        let files = files.ok_or_else(|| CheckpointError::Damaged {
            file: file.to_string(),
            offset: HEAD_BYTES as u64,
            what: "its length is wrong".to_string(),
        })?;
        Ok(Manifest {
            store_id: head.store_id,
            ts: head.ts,
            files,
        })
    }
}

fn files(mut rest: Fields<'_>) -> Option<Vec<CheckpointFile>> {
    let count = rest.u32()?;
    let mut file = || {
        Some(CheckpointFile {
            ts: Ts(rest.u64()?),
            bytes: rest.u64()?,
            name: rest.text()?,
        })
    };
    let files = (0..count).map(|_| file()).collect::<Option<_>>()?;
    rest.is_empty().then_some(files)
}

/// Of the first format, in which a checkpoint is one file.
fn files_of_format_1(mut rest: Fields<'_>, ts: Ts) -> Option<Vec<CheckpointFile>> {
    let (bytes, name) = (rest.u64()?, rest.text()?);
    let file = (!name.is_empty()).then_some(CheckpointFile { name, ts, bytes });
    rest.is_empty().then(|| file.into_iter().collect())
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
