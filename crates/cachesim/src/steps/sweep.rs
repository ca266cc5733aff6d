//! [`sweep`]: misses against calls over many knees (paper 003, Fig. 16).

use model::steps::Knee;

use super::operation::Operation;
use super::place::{Search, place};
use super::{CodeCache, StepsError};

/// What one knee leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tradeoff {
    /// The knee.
    pub knee: Knee,
    /// Insertion points.
    pub points: u64,
    /// Calls a member executes in one operation.
    pub calls: u64,
    /// What a non-leading member misses.
    pub non_leading_misses: u64,
}

/// Places points by each of these knees, everything else as `search` says.
///
/// # Errors
/// As [`place`].
pub fn sweep(
    operation: &Operation,
    cache: &CodeCache,
    search: &Search<'_>,
    knees: &[Knee],
) -> Result<Vec<Tradeoff>, StepsError> {
    let tradeoff = |&knee: &Knee| {
        let placement = place(operation, cache, &Search { knee, ..*search })?;
        Ok(Tradeoff {
            knee,
            points: placement.points.len() as u64,
            calls: placement.segments.calls.len() as u64,
            non_leading_misses: placement.segments.non_leading_misses(),
        })
    };
    knees.iter().map(tradeoff).collect()
}
