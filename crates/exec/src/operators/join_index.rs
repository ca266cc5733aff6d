//! [`JoinIndex`]: output rows from a join index, a sequence of pairs of RIDs (paper 000, appendix A.1).
//!
//! ```text
//!   begin    pair, and a place in the output     needs left row, right row (if there is one), output row
//!   phase    copies both rows to the output
//! ```
//!
//! Every tuple goes through the same one phase and has its place before it waits, so the output keeps the index's order in
//! every mode. What it is not: it does not make the index.

use super::rows::{RidPair, Row, RowSink};
use super::{OperatorError, check_rows, load};
use crate::stage::{Context, Reference, Staged, Step};

/// The right RID of a pair whose left row joins no row.
pub const NO_ROW: u32 = u32::MAX;

/// What an outer join's output row is filled with where there is no right row.
static ZERO: Row = Row::ZERO;

/// Joins the rows of two relations by pairs of RIDs (`outer`: left, `inner`: right). `OUTER`: right RIDs may be [`NO_ROW`].
#[derive(Clone, Copy, Debug)]
pub struct JoinIndex<'a, const OUTER: bool> {
    pub(super) pairs: &'a [RidPair],
    pub(super) left: &'a [Row],
    pub(super) right: &'a [Row],
}

/// A pair between its two phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinIndexState {
    pair: RidPair,
    place: usize,
}

impl<'a> JoinIndex<'a, false> {
    /// The inner variant: every pair has both rows.
    ///
    /// # Errors
    /// [`OperatorError::RidOutOfRange`] names the first pair with a RID out of range.
    pub fn inner(pairs: &'a [RidPair], left: &'a [Row], right: &'a [Row]) -> Result<Self, OperatorError> {
        Self::new(pairs, left, right)
    }
}

impl<'a> JoinIndex<'a, true> {
    /// The left outer variant: a pair whose right RID is [`NO_ROW`] has zeroes there.
    ///
    /// # Errors
    /// As [`JoinIndex::inner`].
    pub fn left_outer(
        pairs: &'a [RidPair],
        left: &'a [Row],
        right: &'a [Row],
    ) -> Result<Self, OperatorError> {
        Self::new(pairs, left, right)
    }
}

impl<'a, const OUTER: bool> JoinIndex<'a, OUTER> {
    fn new(pairs: &'a [RidPair], left: &'a [Row], right: &'a [Row]) -> Result<Self, OperatorError> {
        check_rows(left.len())?;
        check_rows(right.len())?;
        for (position, pair) in pairs.iter().enumerate() {
            let error = |rid, rows| OperatorError::RidOutOfRange { position, rid, rows };
            if pair.outer as usize >= left.len() {
                return Err(error(pair.outer, left.len()));
            }
            if pair.inner as usize >= right.len() && !(OUTER && pair.inner == NO_ROW) {
                return Err(error(pair.inner, right.len()));
            }
        }
        Ok(JoinIndex { pairs, left, right })
    }

    #[inline(always)]
    fn right(&self, rid: u32) -> Option<&'a Row> {
        if OUTER && rid == NO_ROW {
            return None;
        }
        Some(&self.right[rid as usize])
    }

    #[inline(always)]
    fn copy<C: Context<'a>>(&self, pair: RidPair, place: usize, output: &mut RowSink<'a>, context: &mut C) {
        let left = load(&self.left[pair.outer as usize], 64, context);
        let right = match self.right(pair.inner) {
            Some(right) => load(right, 64, context),
            None => &ZERO,
        };
        output.write(place, left, right, context);
    }
}

impl<'a, const OUTER: bool> Staged<'a, 3> for JoinIndex<'a, OUTER> {
    type State = JoinIndexState;
    type Output = RowSink<'a>;
    const REFERENCES_MIN: usize = if OUTER { 2 } else { 3 };

    fn tuples(&self) -> usize {
        self.pairs.len()
    }

    fn stages(&self) -> usize {
        1
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut JoinIndexState,
        output: &mut RowSink<'a>,
        context: &mut C,
    ) {
        state.pair = *load(&self.pairs[tuple], size_of::<RidPair>(), context);
        state.place = output.reserve();
        context.need(Reference::to(&self.left[state.pair.outer as usize]));
        if let Some(right) = self.right(state.pair.inner) {
            context.need(Reference::to(right));
        }
        if let Some(place) = output.reference(state.place) {
            context.need(place);
        }
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut JoinIndexState,
        output: &mut RowSink<'a>,
        context: &mut C,
    ) -> Step {
        self.copy(state.pair, state.place, output, context);
        Step::Done
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut RowSink<'a>, context: &mut C) {
        let pair = *load(&self.pairs[tuple], size_of::<RidPair>(), context);
        let place = output.reserve();
        self.copy(pair, place, output, context);
    }
}
