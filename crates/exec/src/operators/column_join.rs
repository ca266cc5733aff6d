//! [`ColumnJoin`]: the hash join over column-wise storage (paper 000, section 6.4).
//!
//! ```text
//!   relation   key column | first attribute | second attribute      row k is element k of each
//!   output     key | probe first | probe second | build first | build second
//!
//!   begin      RID of the tuple                     needs its probe key
//!   phase 1    probe key: hash code                 needs the bucket
//!   phase 2    bucket                               needs the first cell
//!   phase 3    cell: is the hash code equal?        needs build key and four attributes, or the next cell
//!   phase 4    build key: is it equal? output       needs the next cell
//! ```
//!
//! All that phase 4 looks at is needed at once, as section 4.1 advises, so a stage has up to five references. The phases are
//! those of [`super::HashJoin`]; what differs is where attributes are, which is all that its code is about, so it is written
//! out again and not shared.

use super::chains::{Chains, NONE, hash};
use super::rows::ColumnSink;
use super::stream::Stream;
use super::{OperatorError, load};
use crate::huge::addresses;
use crate::stage::{Context, Reference, Staged, Step};

/// A relation of a key and two attributes, stored by column.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    key: &'a [u32],
    first: &'a [u32],
    second: &'a [u32],
}

impl<'a> Columns<'a> {
    /// Row `k` is element `k` of each.
    ///
    /// # Errors
    /// [`OperatorError::ColumnLengths`] when they differ in length.
    pub fn new(key: &'a [u32], first: &'a [u32], second: &'a [u32]) -> Result<Self, OperatorError> {
        if first.len() != key.len() || second.len() != key.len() {
            return Err(OperatorError::ColumnLengths {
                key: key.len(),
                first: first.len(),
                second: second.len(),
            });
        }
        Ok(Columns { key, first, second })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.key.len()
    }
}

/// The buckets and cells of [`super::PaperTable`] over columns.
#[derive(Debug)]
pub struct ColumnTable<'a> {
    columns: Columns<'a>,
    chains: Chains,
}

impl<'a> ColumnTable<'a> {
    /// Enters all rows. As many buckets as rows is usual; fewer make longer chains.
    ///
    /// # Errors
    /// [`OperatorError`]: an impossible number of buckets, more rows than RIDs, or out of memory.
    pub fn build(columns: Columns<'a>, buckets: usize) -> Result<Self, OperatorError> {
        Ok(ColumnTable {
            columns,
            chains: Chains::build(columns.rows(), |row| columns.key[row], buckets)?,
        })
    }

    /// Where buckets and cells are. For access traces.
    pub fn memory(&self) -> [std::ops::Range<usize>; 2] {
        [addresses(&self.chains.buckets), addresses(&self.chains.cells)]
    }

    /// Bytes of buckets and cells.
    pub fn bytes(&self) -> usize {
        self.chains.bytes()
    }
}

/// Joins a probe side's rows with a table's: one output record a match.
#[derive(Clone, Copy, Debug)]
pub struct ColumnJoin<'a> {
    table: &'a ColumnTable<'a>,
    probe: Columns<'a>,
    stream: Stream<'a>,
}

/// What a tuple waits for.
#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Probe,
    Bucket,
    Cell,
    Build,
}

/// A probe between two phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnJoinState {
    rid: u32,
    key: u32,
    /// The bucket, then the cell waited for or the one after the build row.
    place: u32,
    /// The build row waited for.
    tuple: u32,
    phase: Phase,
}

impl<'a> ColumnJoin<'a> {
    /// Probes `table` with the rows of `probe` that `stream` names.
    ///
    /// # Errors
    /// [`OperatorError::StreamOfOtherRows`] when the stream was made for another number of rows.
    pub fn new(
        table: &'a ColumnTable<'a>,
        probe: Columns<'a>,
        stream: Stream<'a>,
    ) -> Result<Self, OperatorError> {
        stream.check(probe.rows())?;
        Ok(ColumnJoin { table, probe, stream })
    }

    #[inline(always)]
    fn emit<C: Context<'a>>(
        &self,
        key: u32,
        rid: u32,
        tuple: u32,
        output: &mut ColumnSink<'a>,
        context: &mut C,
    ) {
        let (build, rid, tuple) = (&self.table.columns, rid as usize, tuple as usize);
        if *load(&build.key[tuple], 4, context) == key {
            let record = [
                key,
                *load(&self.probe.first[rid], 4, context),
                *load(&self.probe.second[rid], 4, context),
                *load(&build.first[tuple], 4, context),
                *load(&build.second[tuple], 4, context),
            ];
            output.push(record, context);
        }
    }
}

impl<'a> Staged<'a, 5> for ColumnJoin<'a> {
    type State = ColumnJoinState;
    type Output = ColumnSink<'a>;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.stream.tuples()
    }

    fn stages(&self) -> usize {
        4
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut ColumnJoinState,
        _: &mut ColumnSink<'a>,
        context: &mut C,
    ) {
        state.rid = self.stream.rid(tuple, context);
        state.phase = Phase::Probe;
        context.need(Reference::to(&self.probe.key[state.rid as usize]));
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut ColumnJoinState,
        output: &mut ColumnSink<'a>,
        context: &mut C,
    ) -> Step {
        let Chains { buckets, cells } = &self.table.chains;
        match state.phase {
            Phase::Probe => {
                state.key = *load(&self.probe.key[state.rid as usize], 4, context);
                let bucket = self.table.chains.bucket(hash(state.key));
                state.place = bucket as u32;
                state.phase = Phase::Bucket;
                context.need(Reference::to(&buckets[bucket]));
                return Step::Wait;
            }
            Phase::Bucket => state.place = *load(&buckets[state.place as usize], 4, context),
            Phase::Cell => {
                let cell = load(&cells[state.place as usize], 12, context);
                state.place = cell.next;
                if cell.hash == hash(state.key) {
                    state.tuple = cell.tuple;
                    state.phase = Phase::Build;
                    let (build, rid, tuple) = (&self.table.columns, state.rid as usize, cell.tuple as usize);
                    for attribute in [
                        &build.key[tuple],
                        &build.first[tuple],
                        &build.second[tuple],
                        &self.probe.first[rid],
                        &self.probe.second[rid],
                    ] {
                        context.need(Reference::to(attribute));
                    }
                    return Step::Wait;
                }
            }
            Phase::Build => self.emit(state.key, state.rid, state.tuple, output, context),
        }
        if state.place == NONE {
            return Step::Done;
        }
        state.phase = Phase::Cell;
        context.need(Reference::to(&cells[state.place as usize]));
        Step::Wait
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut ColumnSink<'a>, context: &mut C) {
        let chains = &self.table.chains;
        let rid = self.stream.rid(tuple, context);
        let key = *load(&self.probe.key[rid as usize], 4, context);
        let hash = hash(key);
        let mut place = *load(&chains.buckets[chains.bucket(hash)], 4, context);
        while place != NONE {
            let cell = load(&chains.cells[place as usize], 12, context);
            if cell.hash == hash {
                self.emit(key, rid, cell.tuple, output, context);
            }
            place = cell.next;
        }
    }
}
