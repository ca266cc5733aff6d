//! [`CheckpointError`]: what can go wrong with checkpoints and manifests.

use crate::storage::Failure;

/// Why a checkpoint or manifest cannot be read or written. Messages say what, where, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file could not be read or written. While writing: the checkpoint before stays in force.
    #[error("cannot {0}")]
    Storage(Failure),
    /// A folder without a manifest that is not empty.
    #[error(
        "{place} is no folder of a store: it has no corun.manifest, but {file}; name an empty folder or a new one"
    )]
    Foreign {
        /// The folder.
        place: String,
        /// One of its files.
        file: String,
    },
    /// A folder with files of a store but without its manifest.
    #[error(
        "{place} has {file} but no corun.manifest, so that part of a store is missing; restore the manifest from a copy, or \
         name an empty folder"
    )]
    NoManifest {
        /// The folder.
        place: String,
        /// One of its files.
        file: String,
    },
    /// Bytes that are not as they were written.
    #[error("{file} is damaged at byte {offset}: {what}; restore the folder from a copy")]
    Damaged {
        /// With its folder.
        file: String,
        /// In bytes from the beginning.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A newer program wrote the file.
    #[error(
        "{file} has format version {version}, and this program knows {known} at most; open it with a newer one"
    )]
    NewerVersion {
        /// With its folder.
        file: String,
        /// Found.
        version: u32,
        /// The newest that can be read.
        known: u32,
    },
    /// A checkpoint of another store.
    #[error(
        "{file} belongs to another store (its id is {found:016x}, this store's is {wanted:016x}); restore the right file"
    )]
    OtherStore {
        /// With its folder.
        file: String,
        /// Its store.
        found: u64,
        /// This store.
        wanted: u64,
    },
    /// A chunk or catalog that does not fit into the format.
    #[error("a chunk of {bytes} bytes is too large for a checkpoint, which takes 2^32 - 1 at most; cut it")]
    TooLarge {
        /// Of the chunk.
        bytes: usize,
    },
    /// A part number that is not there.
    #[error("there is no part {index}; the checkpoint has {count}")]
    NoSuchPart {
        /// Asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A checkpoint would be older than the one in force.
    #[error("a checkpoint at commit {ts} would replace a newer one at {newest}")]
    Older {
        /// Of the new one.
        ts: u64,
        /// Of the one in force.
        newest: u64,
    },
}
