//! Why a measurement gave no number.

use corun_model::units::{Bytes, CpuId};
use thiserror::Error;

use crate::affinity::AffinityError;

/// Why a measurement gave no number. None of these is worth more than leaving the number out.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The working set does not fit memory.
    #[error("cannot allocate a working set of {0}")]
    Memory(Bytes),
    /// The size or count asked for makes no sense.
    #[error("cannot measure {0}")]
    Request(&'static str),
    /// A thread could not be placed.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// Two CPUs did not answer each other in time.
    #[error(
        "CPUs {0} and {1} did not answer each other within a second: is one of them busy with something else?"
    )]
    Stalled(CpuId, CpuId),
    /// A polluter's thread could not be set up or did not get through its lines.
    #[error(
        "a polluter did not walk its footprint within ten seconds: are its CPUs busy with something else?"
    )]
    Polluter,
}
