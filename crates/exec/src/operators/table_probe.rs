//! [`TableProbe`]: the probe of a [`JoinTable`] by a key column, as a staged operator: pairs of RIDs a match.
//!
//! ```text
//!   begin      probe key, in order                       needs its line of the table
//!   phase 1    line: absent, one row, several, go on     output, or needs the list or the next line
//!   phase 2    list of a key with several rows           output
//! ```
//!
//! It looks at the lines that [`JoinTable::probe`] looks at, in the same order, and so its traces are what that has to wait for; timed
//! joins call that, which compares whole lines at once. Beside [`super::TableJoin`] it leaves rows alone: what is built is the
//! table, and nothing else is come back to.

use super::rows::{PairSink, RidPair};
use super::{OperatorError, check_rows, load};
use crate::stage::{Context, Reference, Staged, Step};
use crate::table::{JoinTable, Looked};

/// Looks up a key column in a table.
#[derive(Clone, Copy, Debug)]
pub struct TableProbe<'a> {
    table: &'a JoinTable,
    keys: &'a [u32],
}

/// A probe between two phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableProbeState {
    /// The line waited for, or the list.
    place: usize,
    tuple: u32,
    in_list: bool,
}

impl<'a> TableProbe<'a> {
    /// Probes `table` with every key, in order.
    ///
    /// # Errors
    /// [`OperatorError::TooManyRows`] when RIDs do not suffice.
    pub fn new(table: &'a JoinTable, keys: &'a [u32]) -> Result<Self, OperatorError> {
        check_rows(keys.len())?;
        Ok(TableProbe { table, keys })
    }

    #[inline(always)]
    fn look<C: Context<'a>>(&self, key: u32, line: usize, context: &mut C) -> Looked {
        let (memory, bytes) = self.table.step_memory(line);
        context.touch(model::trace::Access::Load, memory.address(), bytes);
        self.table.step_look(u64::from(key), line)
    }

    #[inline(always)]
    fn emit_list<C: Context<'a>>(&self, outer: u32, list: u32, output: &mut PairSink<'a>, context: &mut C) {
        let (count, rows) = self.table.step_list(list);
        load(count, 4, context);
        for row in rows {
            let inner = *load(row, 4, context);
            output.push(RidPair { outer, inner }, context);
        }
    }
}

impl<'a> Staged<'a, 1> for TableProbe<'a> {
    type State = TableProbeState;
    type Output = PairSink<'a>;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.keys.len()
    }

    fn stages(&self) -> usize {
        1
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut TableProbeState,
        _: &mut PairSink<'a>,
        context: &mut C,
    ) {
        let key = *load(&self.keys[tuple], 4, context);
        *state = TableProbeState {
            place: self.table.step_first(u64::from(key)),
            tuple: tuple as u32,
            in_list: false,
        };
        context.need(self.table.step_memory(state.place).0);
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut TableProbeState,
        output: &mut PairSink<'a>,
        context: &mut C,
    ) -> Step {
        let outer = state.tuple;
        if state.in_list {
            self.emit_list(outer, state.place as u32, output, context);
            return Step::Done;
        }
        let key = *load(&self.keys[outer as usize], 4, context);
        match self.look(key, state.place, context) {
            Looked::Absent => Step::Done,
            Looked::Row(inner) => {
                output.push(RidPair { outer, inner }, context);
                Step::Done
            }
            Looked::List(list) => {
                state.place = list as usize;
                state.in_list = true;
                context.need(Reference::to(self.table.step_list(list).0));
                Step::Wait
            }
            Looked::GoOn(line) => {
                state.place = line;
                context.need(self.table.step_memory(line).0);
                Step::Wait
            }
        }
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut PairSink<'a>, context: &mut C) {
        let key = *load(&self.keys[tuple], 4, context);
        let outer = tuple as u32;
        let mut line = self.table.step_first(u64::from(key));
        loop {
            match self.look(key, line, context) {
                Looked::Absent => return,
                Looked::Row(inner) => return output.push(RidPair { outer, inner }, context),
                Looked::List(list) => return self.emit_list(outer, list, output, context),
                Looked::GoOn(next) => line = next,
            }
        }
    }
}
