//! The operators of paper 000: hash join, join index and index nested-loop join, each as straight code and cut into stages.
//!
//! ```text
//!   operator                  stages of a tuple                                          references a stage
//!   HashJoin     (rows)       probe row ▶ bucket ▶ cell ▶ build row ▶ cell ...           1
//!   ColumnJoin   (columns)    probe key ▶ bucket ▶ cell ▶ five attributes ▶ cell ...     1 to 5
//!   TableJoin    (rows)       probe row ▶ line of the join table ▶ list ▶ build row ...  1
//!   TableProbe   (columns)    probe key ▶ line of the join table ▶ list                  1
//!   JoinIndex    (rows)       left row, right row, output row                            3, or 2 to 3 if outer
//!   IndexJoin    (any)        probe key ▶ node ▶ node ... ▶ leaf                         a node's lines
//! ```
//!
//! Order of calls: lay out the build side ([`PaperTable`], [`ColumnTable`], [`RowTable`]), make the operator over it and a
//! probe [`Stream`], one sink a worker, then [`crate::stage::run`], then `finish` on each sink.
//!
//! What it is not: it chooses no mode, it starts no threads (but [`direct`], which measures a rejected design), and it is
//! not how `fusion` joins: that is [`crate::table`], which needs fewer lines a probe.

mod chains;
pub mod column_join;
pub mod direct;
pub mod hash_join;
pub mod index_join;
pub mod join_index;
pub mod rows;
pub mod stream;
pub mod table_join;
pub mod table_probe;

pub use column_join::{ColumnJoin, ColumnTable, Columns};
pub use hash_join::{HashJoin, PaperTable};
pub use index_join::{
    IndexJoin, KeyColumn, KeyRid, KeyedRids, LookupError, Matches, Probes, RowKeys, lookup_batch,
    lookup_matches,
};
pub use join_index::{JoinIndex, NO_ROW};
pub use rows::{ColumnSink, OutputFull, OutputRow, PairSink, RidPair, Row, RowSink};
pub use stream::Stream;
pub use table_join::{RowTable, TableJoin};
pub use table_probe::TableProbe;

use corun_model::operators::trace::Access;

use crate::huge::OutOfMemory;
use crate::stage::Context;
use crate::table::BuildError;

/// An operator that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// A RID names no row.
    #[error("RID {rid} at position {position} is out of range: there are {rows} rows")]
    RidOutOfRange {
        /// Where the RID stands in its sequence.
        position: usize,
        /// The RID.
        rid: u32,
        /// Rows there are.
        rows: usize,
    },
    /// A stream was made for another number of rows than the probe side has.
    #[error("the stream was made for {stream} rows, the probe side has {rows}")]
    StreamOfOtherRows {
        /// Rows the stream was made for.
        stream: usize,
        /// Rows of the probe side.
        rows: usize,
    },
    /// Columns of one relation differ in length.
    #[error("the columns of one relation have {key}, {first} and {second} elements")]
    ColumnLengths {
        /// Elements of the key column.
        key: usize,
        /// Elements of the first attribute.
        first: usize,
        /// Elements of the second attribute.
        second: usize,
    },
    /// RIDs are 32 bits, and the largest value stands for "no row".
    #[error("{rows} rows are more than 32-bit RIDs can name")]
    TooManyRows {
        /// Rows given.
        rows: usize,
    },
    /// A hash table without buckets, or with more than 32-bit numbers can name.
    #[error("a hash table has between 1 and 4294967295 buckets, not {buckets}")]
    Buckets {
        /// Buckets asked for.
        buckets: usize,
    },
    /// The allocator refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The join table was not built.
    #[error(transparent)]
    Table(#[from] BuildError),
}

/// Checks that every row has a RID below [`NO_ROW`].
fn check_rows(rows: usize) -> Result<(), OperatorError> {
    if rows > NO_ROW as usize {
        return Err(OperatorError::TooManyRows { rows });
    }
    Ok(())
}

/// Reports the load of a value's first `bytes` bytes, those that are looked at, and gives it back.
#[inline(always)]
fn load<'a, T, C: Context<'a>>(value: &'a T, bytes: usize, context: &mut C) -> &'a T {
    context.touch(Access::Load, std::ptr::from_ref(value).cast(), bytes);
    value
}
