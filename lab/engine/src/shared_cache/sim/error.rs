//! Why nothing could be simulated.

use corun_cachesim::cache::GeometryError;
use corun_cachesim::llc::LlcError;
use corun_model::explained::Explained;

/// A simulation that cannot be run. All but [`SimError::Trace`] and [`SimError::Operator`] are the caller's to mend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A query of a mix that is none.
    #[error("query {number} of the mix, \"{text}\": {reason}")]
    Query {
        /// Which, from 1.
        number: usize,
        /// As given.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// No query, or too many.
    #[error("a mix has 1 to {most} queries, not {given}")]
    Queries {
        /// How many were given.
        given: usize,
        /// The most.
        most: usize,
    },
    /// A share of the cache the machine cannot give.
    #[error("{0}")]
    Share(String),
    /// A cache that cannot be.
    #[error("{level}: {reason}")]
    Geometry {
        /// Which.
        level: &'static str,
        /// What is wrong.
        reason: GeometryError,
    },
    /// A last-level cache that is too small or too large to be simulated with these queries.
    #[error("the shared cache must have between {min} and {max} bytes, not {given}")]
    Size {
        /// As given.
        given: u64,
        /// Fewest bytes.
        min: u64,
        /// Most bytes.
        max: u64,
    },
    /// Latencies, ways or streams the simulator refuses.
    #[error(transparent)]
    Llc(#[from] LlcError),
    /// A trace that cannot be kept.
    #[error("a traced operator {0}")]
    Trace(&'static str),
    /// An operator that failed, or answered wrongly.
    #[error("{query} could not be traced: {reason}")]
    Operator {
        /// Which.
        query: String,
        /// What went wrong.
        reason: String,
    },
}

impl Explained for SimError {
    fn is_usage(&self) -> bool {
        !matches!(self, SimError::Trace(_) | SimError::Operator { .. })
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            SimError::Query { .. } | SimError::Queries { .. } => Some(
                "for example plq5:chained,plq25:index; queries are plqK:hash, plqK:chained, plqK:index, scan and agg:SIZE",
            ),
            SimError::Geometry { .. } => {
                Some("sizes are a multiple of ways times 64 bytes; private caches have 8 ways")
            }
            SimError::Trace(_) | SimError::Operator { .. } => {
                Some("this is a bug in corun: please report it")
            }
            _ => None,
        };
        hint.map(str::to_owned)
    }
}
