//! Why hardware threads cannot be switched, in words that say what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::State;

/// Why not. The text is one line; [`SmtError::hint`] says more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SmtError {
    /// There is nothing to switch.
    #[error("hardware threads cannot be switched here: the kernel says {}", state.word())]
    Unavailable {
        /// How it stands.
        state: State,
    },
    /// The file may not be written.
    #[error("switching hardware threads is not permitted: {}: {reason}", path.display())]
    NotPermitted {
        /// The switch.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// The kernel took the word and did not act.
    #[error("hardware threads are {} where they should be {}", now.word(), wanted.word())]
    NotSwitched {
        /// As they should be.
        wanted: State,
        /// As they are.
        now: State,
    },
    /// Nobody could put the switch back if this program were killed.
    #[error(
        "hardware threads were not switched: the process that would switch them back did not start: {reason}"
    )]
    NoWatcher {
        /// What was in the way.
        reason: String,
    },
    /// The switch says what no kernel says.
    #[error("{} says \"{found}\"", path.display())]
    Unknown {
        /// The switch.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// Any other refusal.
    #[error("cannot read {}: {reason}", path.display())]
    System {
        /// The switch.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
}

impl SmtError {
    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unavailable {
                state: State::ForceOff,
            } => "they were switched off for good: start the machine without nosmt=force".to_owned(),
            Self::Unavailable { .. } | Self::NotPermitted { .. } => {
                "run as root outside containers, or compare one CPU of each core with all of them".to_owned()
            }
            Self::NotSwitched { wanted, .. } => format!(
                "as root: echo {} > /sys/devices/system/cpu/smt/control",
                wanted.word()
            ),
            Self::NoWatcher { .. } => "make a shell available as sh".to_owned(),
            Self::Unknown { .. } | Self::System { .. } => return None,
        })
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }

    pub(super) fn refused(path: &Path, error: &io::Error) -> Self {
        Self::NotPermitted {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }
}
