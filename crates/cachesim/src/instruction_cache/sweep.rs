//! [`sweep`]: misses against calls over many knees (paper 003, Fig. 16), and [`best`] of them.
//!
//! The paper judges a knee by what a non-leading member misses, counted as lines of a segment that leave the cache before it ends.
//! That is less than members really miss: where a segment needs one line more than a set has ways, members that run it in turn miss
//! all lines of that set, each time, as the least recently used line is always the one needed next. So a team is run as well.

use corun_model::teams::Knee;

use super::operation::Operation;
use super::place::{Search, place};
use super::team::{Start, SwitchCode, Team};
use super::{CodeCache, InstructionCacheError};

/// Widths and heights of [`knees`]: around the paper's 200 and 4.
const WIDTHS: [u64; 5] = [50, 100, 200, 400, 1000];
const HEIGHTS: [u32; 8] = [1, 2, 3, 4, 6, 8, 16, 32];

/// What one knee leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tradeoff {
    /// The knee.
    pub knee: Knee,
    /// Insertion points.
    pub points: u64,
    /// Calls a member executes in one operation.
    pub calls: u64,
    /// What a non-leading member misses by the paper's count.
    pub non_leading_misses: u64,
    /// What each member but the first adds to what a warm team misses, switches included. `None` for fewer than two members.
    pub additional_misses: Option<f64>,
}

/// Knees of many widths and heights, to sweep over.
pub fn knees() -> Vec<Knee> {
    let of_width = |width| HEIGHTS.map(|height| Knee { width, height });
    WIDTHS.into_iter().flat_map(of_width).collect()
}

/// Places points by each of these knees, everything else as `search` says, and runs a team of so many members with each.
///
/// # Errors
/// As [`place`].
pub fn sweep(
    operation: &Operation,
    cache: &CodeCache,
    search: &Search<'_>,
    knees: &[Knee],
    members: usize,
    switch: Option<SwitchCode>,
) -> Result<Vec<Tradeoff>, InstructionCacheError> {
    let tradeoff = |&knee: &Knee| {
        let placement = place(operation, cache, &Search { knee, ..*search })?;
        let on = |point: u64| placement.points.contains_key(&point);
        let operations = std::slice::from_ref(operation);
        let team = Team::new(*cache, operations, search.candidates, on, switch)?;
        Ok(Tradeoff {
            knee,
            points: placement.points.len() as u64,
            calls: placement.segments.calls.len() as u64,
            non_leading_misses: placement.segments.non_leading_misses(),
            additional_misses: team.together(members, Start::Warm).additional(),
        })
    };
    knees.iter().map(tradeoff).collect()
}

/// The one whose team misses least with at most so many calls; of equals the one with fewest calls, the first of these. `None` if each
/// has more calls, or no team was run.
pub fn best(tradeoffs: &[Tradeoff], calls_max: u64) -> Option<&Tradeoff> {
    let within = tradeoffs.iter().filter(|one| one.calls <= calls_max);
    let judged = within.filter_map(|one| Some((one.additional_misses?, one)));
    let least = judged.min_by(|(misses, one), (others, another)| {
        misses.total_cmp(others).then(one.calls.cmp(&another.calls))
    });
    least.map(|(_, one)| one)
}
