//! What an operation misses as it is, one execution after the other.

use super::operation::Operation;
use super::references::{Numbering, Reference};
use super::{CodeCache, InstructionCacheError};
use crate::cache::SetAssociative;

/// Most executions that warm a cache. With least-recently-used replacement one is enough: what a set holds after an execution, and
/// in which order, is decided by the last lines that execution used.
pub(super) const WARM_ROUNDS_MAX: u32 = 8;

/// Counts of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Instructions that ran.
    pub instructions: u64,
    /// Distinct lines they lie in.
    pub footprint_lines: u64,
    /// The same in bytes: whole lines.
    pub footprint_bytes: u64,
    /// Lines missed from an empty cache: the paper's m_p.
    pub cold_misses: u64,
    /// Lines missed in a cache warmed by the same operation: what a leading member of a team misses, too.
    pub warm_misses: u64,
    /// Instructions that missed a line or more from an empty cache. One that spans two lines counts once, as cachegrind's `I1mr` does.
    pub cold_missing_instructions: u64,
    /// The same in the warmed cache.
    pub warm_missing_instructions: u64,
    /// Index of the instruction of each of `warm_misses`, in order: the upper curve of the paper's Fig. 15.
    pub warm_misses_at: Vec<u32>,
}

impl Original {
    /// Runs it cold, then warm.
    ///
    /// # Errors
    /// [`InstructionCacheError::Empty`].
    pub fn of(operation: &Operation, cache: &CodeCache) -> Result<Self, InstructionCacheError> {
        if operation.fetches().is_empty() {
            return Err(InstructionCacheError::Empty);
        }
        let mut numbering = Numbering::new(cache.geometry());
        let references = numbering.of(operation);
        let cold = misses_at(&references, &mut cache.empty());
        let warm = misses_at(&references, &mut warmed(&references, cache));
        Ok(Self {
            instructions: operation.fetches().len() as u64,
            footprint_lines: numbering.lines() as u64,
            footprint_bytes: numbering.lines() as u64 * cache.line_bytes(),
            cold_misses: cold.len() as u64,
            warm_misses: warm.len() as u64,
            cold_missing_instructions: distinct(&cold),
            warm_missing_instructions: distinct(&warm),
            warm_misses_at: warm,
        })
    }
}

/// Distinct elements of what is in order.
fn distinct(ordered: &[u32]) -> u64 {
    ordered.chunk_by(|one, next| one == next).count() as u64
}

/// A cache in which the operation was run until its misses no longer changed.
pub(super) fn warmed(references: &[Reference], cache: &CodeCache) -> SetAssociative {
    let mut warm = cache.empty();
    let mut before = None;
    for _ in 0..WARM_ROUNDS_MAX {
        let misses = misses_at(references, &mut warm).len();
        if before == Some(misses) {
            break;
        }
        before = Some(misses);
    }
    warm
}

/// The instruction of each miss of one execution.
fn misses_at(references: &[Reference], cache: &mut SetAssociative) -> Vec<u32> {
    let mut misses = Vec::new();
    each_miss(references, cache, |reference| misses.push(reference.at));
    misses
}

/// Goes through the references, and hands over each that the cache does not have.
pub(super) fn each_miss(
    references: &[Reference],
    cache: &mut SetAssociative,
    mut missed: impl FnMut(&Reference),
) {
    let mut last_line = None;
    for reference in references {
        // Most instructions lie in the line of the one before, which is there and stays the newest of its set.
        if last_line != Some(reference.line) {
            last_line = Some(reference.line);
            if !cache.access_in_set(u64::from(reference.set), u64::from(reference.line), None) {
                missed(reference);
            }
        }
    }
}
