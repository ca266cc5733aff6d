//! [`TableJoin`]: the row-wise hash join with corun's own [`JoinTable`] in place of the paper's buckets and cells.
//!
//! ```text
//!   begin      RID of the tuple                          needs its probe row
//!   phase 1    probe row: key                            needs its line of the table
//!   phase 2    line: absent, one row, several, go on     needs the build row, the list, or the next line
//!   phase 3    list of a key with several rows           needs the first of them
//!   phase 4    build row: output                         needs the next of the list
//! ```
//!
//! A line holds keys and row numbers side by side, so a probe of a key with one row is one line where bucket and cell are
//! two, and keys need no second comparison. All kinds of table are supported. Beside [`super::HashJoin`] it tells what the
//! layout is worth and what interleaving is worth.

use std::sync::atomic::AtomicBool;

use super::rows::{Row, RowSink};
use super::stream::Stream;
use super::{OperatorError, check_rows, load};
use crate::codes::{Chunk, Codes};
use crate::stage::{Context, Reference, Staged, Step};
use crate::table::{BuildOptions, JoinTable, Looked};
use crate::workers::Workers;

/// A [`JoinTable`] of the keys of rows, together with the rows.
#[derive(Debug)]
pub struct RowTable<'a> {
    rows: &'a [Row],
    table: JoinTable,
}

impl<'a> RowTable<'a> {
    /// Enters all rows; arguments as of [`JoinTable::build`].
    ///
    /// # Errors
    /// [`OperatorError`]: more rows than RIDs, or as [`JoinTable::build`].
    pub fn build(
        rows: &'a [Row],
        options: &BuildOptions,
        workers: &dyn Workers,
        cancel: &AtomicBool,
    ) -> Result<Self, OperatorError> {
        check_rows(rows.len())?;
        let keys: Vec<u32> = rows.iter().map(|row| row.key).collect();
        let chunk = Chunk {
            codes: Codes::U32 {
                values: &keys,
                bias: 0,
            },
            valid: None,
            first_row: 0,
        };
        let table = JoinTable::build(&[chunk], options, workers, cancel)?;
        Ok(RowTable { rows, table })
    }

    /// The table.
    pub fn table(&self) -> &JoinTable {
        &self.table
    }
}

/// Joins a probe side's rows with a table's: one output row a match, probe row left and build row right.
#[derive(Clone, Copy, Debug)]
pub struct TableJoin<'a> {
    table: &'a RowTable<'a>,
    probe: &'a [Row],
    stream: Stream<'a>,
}

/// What a tuple waits for.
#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Probe,
    Line,
    List,
    Build,
}

/// A probe between two phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableJoinState {
    /// The line waited for.
    line: usize,
    rid: u32,
    /// The build row waited for.
    tuple: u32,
    /// The list, and how many of its rows have been asked for; 0 as long as the key is not known to have several.
    list: u32,
    asked: u32,
    phase: Phase,
}

impl<'a> TableJoin<'a> {
    /// Probes `table` with the rows of `probe` that `stream` names.
    ///
    /// # Errors
    /// [`OperatorError::StreamOfOtherRows`] when the stream was made for another number of rows.
    pub fn new(table: &'a RowTable<'a>, probe: &'a [Row], stream: Stream<'a>) -> Result<Self, OperatorError> {
        stream.check(probe.len())?;
        Ok(TableJoin { table, probe, stream })
    }

    #[inline(always)]
    fn look<C: Context<'a>>(&self, code: u64, line: usize, context: &mut C) -> Looked {
        let (memory, bytes) = self.table.table.step_memory(line);
        context.touch(
            corun_model::operators::trace::Access::Load,
            memory.address(),
            bytes,
        );
        self.table.table.step_look(code, line)
    }

    #[inline(always)]
    fn emit<C: Context<'a>>(&self, rid: u32, tuple: u32, output: &mut RowSink<'a>, context: &mut C) {
        let probe = load(&self.probe[rid as usize], 64, context);
        let build = load(&self.table.rows[tuple as usize], 64, context);
        output.push(probe, build, context);
    }

    /// Asks for a build row.
    #[inline(always)]
    fn ask<C: Context<'a>>(&self, state: &mut TableJoinState, tuple: u32, context: &mut C) -> Step {
        state.tuple = tuple;
        state.phase = Phase::Build;
        context.need(Reference::to(&self.table.rows[tuple as usize]));
        Step::Wait
    }
}

impl<'a> Staged<'a, 1> for TableJoin<'a> {
    type State = TableJoinState;
    type Output = RowSink<'a>;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.stream.tuples()
    }

    fn stages(&self) -> usize {
        3
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut TableJoinState,
        _: &mut RowSink<'a>,
        context: &mut C,
    ) {
        state.rid = self.stream.rid(tuple, context);
        state.asked = 0;
        state.phase = Phase::Probe;
        context.need(Reference::to(&self.probe[state.rid as usize]));
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut TableJoinState,
        output: &mut RowSink<'a>,
        context: &mut C,
    ) -> Step {
        let table = &self.table.table;
        match state.phase {
            Phase::Probe => {
                let key = *load(&self.probe[state.rid as usize].key, 4, context);
                state.line = table.step_first(u64::from(key));
                state.phase = Phase::Line;
                context.need(table.step_memory(state.line).0);
                Step::Wait
            }
            Phase::Line => {
                let key = *load(&self.probe[state.rid as usize].key, 4, context);
                match self.look(u64::from(key), state.line, context) {
                    Looked::Absent => Step::Done,
                    Looked::Row(tuple) => self.ask(state, tuple, context),
                    Looked::List(list) => {
                        state.list = list;
                        state.phase = Phase::List;
                        context.need(Reference::to(table.step_list(list).0));
                        Step::Wait
                    }
                    Looked::GoOn(line) => {
                        state.line = line;
                        context.need(table.step_memory(line).0);
                        Step::Wait
                    }
                }
            }
            Phase::List => {
                let (count, rows) = table.step_list(state.list);
                load(count, 8, context);
                state.asked = 1;
                self.ask(state, rows[0], context)
            }
            Phase::Build => {
                self.emit(state.rid, state.tuple, output, context);
                if state.asked == 0 {
                    return Step::Done;
                }
                let (_, rows) = table.step_list(state.list);
                let Some(tuple) = rows.get(state.asked as usize) else {
                    return Step::Done;
                };
                state.asked += 1;
                self.ask(state, *load(tuple, 4, context), context)
            }
        }
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut RowSink<'a>, context: &mut C) {
        let table = &self.table.table;
        let rid = self.stream.rid(tuple, context);
        let code = u64::from(*load(&self.probe[rid as usize].key, 4, context));
        let mut line = table.step_first(code);
        loop {
            match self.look(code, line, context) {
                Looked::Absent => return,
                Looked::Row(tuple) => return self.emit(rid, tuple, output, context),
                Looked::GoOn(next) => line = next,
                Looked::List(list) => {
                    let (count, rows) = table.step_list(list);
                    load(count, 4, context);
                    for tuple in rows {
                        self.emit(rid, *load(tuple, 4, context), output, context);
                    }
                    return;
                }
            }
        }
    }
}
