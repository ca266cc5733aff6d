//! [`Failure`]: an effect on storage that failed. What it is not: a retry.

use std::fmt;
use std::io;

/// An effect that failed; it can be cloned for each client it hits.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was tried, where.
    pub what: String,
    /// What kind of error it was.
    pub kind: io::ErrorKind,
    /// What the system said.
    pub said: String,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>, error: &io::Error) -> Failure {
        Failure {
            what: what.into(),
            kind: error.kind(),
            said: error.to_string(),
        }
    }

    /// Whether there was no room: nothing is broken.
    pub(crate) fn is_full(&self) -> bool {
        matches!(
            self.kind,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.what, self.said)?;
        match self.kind {
            _ if self.is_full() => to.write_str(" (the disk is full: make room on it)"),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                to.write_str(" (the store needs a folder it can write to)")
            }
            _ => Ok(()),
        }
    }
}
