//! [`LogError`]: what can go wrong with a log, and [`Damage`]: what was found broken in one.

use std::fmt;

use crate::storage::Failure;
use crate::ts::Ts;

/// Why the log refuses. Messages say what, where, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// A write, a sync, or the log's thread failed. The log takes nothing any more.
    #[error(
        "the log has failed: {0}; nothing can be committed until the store is opened again. Commits that were reported \
         durable are safe; whether later ones are is known only then"
    )]
    Failed(Failure),
    /// There is no room on the disk for the commit. Nothing of it happened, and the log goes on.
    #[error(
        "the commit was refused: {0}. Commits succeed again as soon as there is room: free some, or let a checkpoint remove \
         old segments of the log"
    )]
    DiskFull(Failure),
    /// The log's own limit.
    #[error(
        "the log has {bytes} bytes, and log_bytes_max is {limit}; a checkpoint makes room by removing old segments: wait \
         for it, start one, or raise the limit"
    )]
    Full {
        /// Bytes in all segments and waiting to be written.
        bytes: u64,
        /// [`super::LogOptions::bytes_max`].
        limit: u64,
    },
    /// [`super::Log::close`] was called.
    #[error("the log is closed")]
    Closed,
    /// One commit is too large for a frame.
    #[error("a commit of {bytes} bytes is too large: the log takes {limit} at most; split the transaction")]
    TooLarge {
        /// Of the commit.
        bytes: usize,
        /// Of any commit.
        limit: usize,
    },
    /// Somebody waits for a commit that is not in the log.
    #[error("there is no commit {ts} to wait for; the newest is {last}")]
    NoSuchCommit {
        /// Asked for.
        ts: Ts,
        /// The newest.
        last: Ts,
    },
    /// Committed data cannot be read back, and [`super::OnDamage::Refuse`] was asked for.
    #[error(
        "{0}; restore the folder from a copy, or open the store with damage cut to keep the commits before {first}",
        first = .0.first_lost
    )]
    Damaged(Damage),
    /// A file that is called like a segment and is none.
    #[error("{file} is not a log segment of corun (its first bytes are wrong); take it out of the folder")]
    NotALog {
        /// With its folder.
        file: String,
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
    /// A segment of another store.
    #[error(
        "{file} belongs to another store (its id is {found:016x}, this store's is {wanted:016x}); take it out of the folder"
    )]
    OtherStore {
        /// With its folder.
        file: String,
        /// Its store.
        found: u64,
        /// This store.
        wanted: u64,
    },
    /// A file could not be read, or not be prepared for writing.
    #[error("cannot {}", .0)]
    Storage(Failure),
    /// An option that makes no sense.
    #[error("log option {what}")]
    Options {
        /// Which, and why.
        what: String,
    },
}

/// The place from which on the log could not be read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// With its folder.
    pub file: String,
    /// Where the unreadable part begins, in bytes.
    pub offset: u64,
    /// The first commit that is lost.
    pub first_lost: Ts,
    /// The newest commit that the log is known to have held; below `first_lost` if nothing says that there was one.
    pub last_known: Ts,
    /// The end of a log that was being written when the machine stopped: nothing that was reported durable is lost.
    pub torn_tail: bool,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage {
            file,
            offset,
            first_lost,
            last_known,
            torn_tail,
            what,
        } = self;
        if *torn_tail {
            return write!(
                to,
                "{file} ends in a torn write at byte {offset} ({what}): commits from {first_lost} on were not durable yet and are gone"
            );
        }
        write!(
            to,
            "{file} is damaged at byte {offset} ({what}): committed data from commit {first_lost} on is lost"
        )?;
        if last_known > first_lost {
            write!(to, "; the log had commits up to {last_known}")
        } else {
            Ok(())
        }
    }
}
