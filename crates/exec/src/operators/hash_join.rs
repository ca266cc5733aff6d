//! [`HashJoin`]: the paper's row-wise hash join (paper 000, sections 5.2 and 6.2) over a [`PaperTable`].
//!
//! ```text
//!   begin      RID of the tuple                     needs its probe row
//!   phase 1    probe row: hash code                 needs the bucket
//!   phase 2    bucket                               needs the first cell
//!   phase 3    cell: is the hash code equal?        needs the build row, or the next cell
//!   phase 4    build row: is the key equal? output  needs the next cell
//! ```
//!
//! What it is not: the layout is the paper's, for its experiments. [`super::TableJoin`] is the same join with corun's table.

use corun_model::operators::trace::Access;

use super::chains::{Chains, NONE, hash};
use super::rows::{Row, RowSink};
use super::stream::Stream;
use super::{OperatorError, load};
use crate::stage::{Context, Reference, Staged, Step};

/// A hash table over rows: an array of buckets, chained cells of hash code and tuple pointer (paper 000, figure 3).
#[derive(Debug)]
pub struct PaperTable<'a> {
    rows: &'a [Row],
    chains: Chains,
}

impl<'a> PaperTable<'a> {
    /// Enters all rows. As many buckets as rows is usual; fewer make longer chains.
    ///
    /// # Errors
    /// [`OperatorError`]: no buckets, more rows than RIDs, or out of memory.
    pub fn build(rows: &'a [Row], buckets: usize) -> Result<Self, OperatorError> {
        Ok(PaperTable {
            rows,
            chains: Chains::build(rows.len(), |row| rows[row].key, buckets)?,
        })
    }

    /// The rows it was built over.
    pub fn rows(&self) -> &'a [Row] {
        self.rows
    }

    /// Bytes of buckets and cells.
    pub fn bytes(&self) -> usize {
        self.chains.bytes()
    }
}

/// Joins a probe side's rows with a table's: one output row a match, probe row left and build row right.
#[derive(Clone, Copy, Debug)]
pub struct HashJoin<'a> {
    table: &'a PaperTable<'a>,
    probe: &'a [Row],
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
pub struct HashJoinState {
    rid: u32,
    hash: u32,
    /// The bucket, then the cell waited for or the one after the build row.
    place: u32,
    /// The build row waited for.
    tuple: u32,
    phase: Phase,
}

impl<'a> HashJoin<'a> {
    /// Probes `table` with the rows of `probe` that `stream` names.
    ///
    /// # Errors
    /// [`OperatorError::StreamOfOtherRows`] when the stream was made for another number of rows.
    pub fn new(
        table: &'a PaperTable<'a>,
        probe: &'a [Row],
        stream: Stream<'a>,
    ) -> Result<Self, OperatorError> {
        stream.check(probe.len())?;
        Ok(HashJoin { table, probe, stream })
    }
}

impl<'a> Staged<'a, 1> for HashJoin<'a> {
    type State = HashJoinState;
    type Output = RowSink<'a>;
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
        state: &mut HashJoinState,
        _: &mut RowSink<'a>,
        context: &mut C,
    ) {
        state.rid = self.stream.rid(tuple, context);
        state.phase = Phase::Probe;
        context.need(Reference::to(&self.probe[state.rid as usize]));
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut HashJoinState,
        output: &mut RowSink<'a>,
        context: &mut C,
    ) -> Step {
        let Chains { buckets, cells } = &self.table.chains;
        match state.phase {
            Phase::Probe => {
                let key = *load(&self.probe[state.rid as usize].key, 4, context);
                state.hash = hash(key);
                let bucket = self.table.chains.bucket(state.hash);
                state.place = bucket as u32;
                state.phase = Phase::Bucket;
                context.need(Reference::to(&buckets[bucket]));
                return Step::Wait;
            }
            Phase::Bucket => state.place = *load(&buckets[state.place as usize], 4, context),
            Phase::Cell => {
                let cell = load(&cells[state.place as usize], 12, context);
                state.place = cell.next;
                if cell.hash == state.hash {
                    state.tuple = cell.tuple;
                    state.phase = Phase::Build;
                    context.need(Reference::to(&self.table.rows[cell.tuple as usize]));
                    return Step::Wait;
                }
            }
            Phase::Build => {
                let probe = load(&self.probe[state.rid as usize], 64, context);
                let build = load(&self.table.rows[state.tuple as usize], 64, context);
                if build.key == probe.key {
                    output.push(probe, build, context);
                }
            }
        }
        if state.place == NONE {
            return Step::Done;
        }
        state.phase = Phase::Cell;
        context.need(Reference::to(&cells[state.place as usize]));
        Step::Wait
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut RowSink<'a>, context: &mut C) {
        let chains = &self.table.chains;
        let rid = self.stream.rid(tuple, context);
        let probe = &self.probe[rid as usize];
        let hash = hash(*load(&probe.key, 4, context));
        let mut place = *load(&chains.buckets[chains.bucket(hash)], 4, context);
        while place != NONE {
            let cell = load(&chains.cells[place as usize], 12, context);
            if cell.hash == hash {
                let build = load(&self.table.rows[cell.tuple as usize], 64, context);
                if build.key == probe.key {
                    context.touch(Access::Load, std::ptr::from_ref(probe).cast(), 64);
                    output.push(probe, build, context);
                }
            }
            place = cell.next;
        }
    }
}
