//! Why weak queries are not kept apart as somebody wished.

use thiserror::Error;

use crate::ResctrlError;

/// Why a partitioner cannot be had, or a thread could not be put into a class. The text is one line;
/// [`PartitionError::detail`] and [`PartitionError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// The kernel's resctrl is missing, not set up, or refuses.
    #[error(transparent)]
    Resctrl(#[from] ResctrlError),
    /// The processor has no prefetch for single use that corun knows.
    #[error("non-temporal streaming is unavailable on this processor")]
    NoStreaming {
        /// Its architecture.
        architecture: String,
    },
}

impl PartitionError {
    /// What lies behind it: one line.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Resctrl(error) => error.detail(),
            Self::NoStreaming { architecture } => {
                Some(format!("corun streams on x86_64, and this is `{architecture}`"))
            }
        }
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Resctrl(error) => error.hint(),
            Self::NoStreaming { .. } => Some("choose `auto`".to_owned()),
        }
    }
}
