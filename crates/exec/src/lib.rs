//! Operators over plain slices, made for the memory hierarchy.
//!
//! The centre is [`table::JoinTable`]: a read-only map from 64-bit codes to the build rows that have them, built in
//! parallel without locks and probed in batches with software prefetch. Around it stand [`gather()`] (payload columns by
//! row number), [`Visited`] (which build rows met a partner) and [`HugeBuf`] (memory in huge pages).
//!
//! [`csb::CsbTree`] is an ordered index from keys to row numbers that can change; [`shared_csb::SharedCsbTree`] is one that
//! threads change and read at once.
//!
//! [`groups`]: partitioned hash aggregation, `GROUP BY` without dependent cache misses.
//!
//! With the feature `allocator`: an allocator for programs that run queries, mimalloc with huge pages that are kept for the next query.
//!
//! [`operators`] are the joins of paper 000, as straight code and cut into stages that [`stage`] executes in any mode.
//!
//! Order of calls: make codes of key columns ([`Codes`], one [`Chunk`] a batch), [`table::JoinTable::build`], then for
//! each probe batch [`table::JoinTable::probe`] or [`table::JoinTable::matches`], then [`gather()`] the payload.
//!
//! What it is not: it knows no Arrow, no SQL and no NULL semantics beyond "this row is not in"; it never looks for the
//! machine's topology, cache sizes are handed in. The hot `unsafe` of corun lives here, behind safe constructors that
//! check.

#[cfg(feature = "allocator")]
pub mod allocator;
pub mod codes;
pub mod csb;
pub mod gather;
pub mod groups;
pub mod huge;
mod isa;
pub mod operators;
pub mod prefetch;
pub mod shared_csb;
pub mod stage;
pub mod table;
pub mod teams;
pub mod visited;
pub mod workers;

pub use codes::{Chunk, Codes, Validity};
pub use gather::{ask_for, gather};
pub use huge::HugeBuf;
pub use isa::InstructionSet;
pub use table::{BuildError, BuildOptions, JoinTable, Kind, Pairs, ProbeCursor};
pub use visited::Visited;
pub use workers::{ScopedThreads, Serial, Workers};

// The Rust blocks of the manual's pages on techniques run as doctests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/README.md")]
mod manual_overview {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/csb-tree.md")]
mod manual_csb_tree {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/staged.md")]
mod manual_staged {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/bi-threading.md")]
mod manual_bi_threading {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/work-ahead-set.md")]
mod manual_work_ahead_set {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/hash-joins.md")]
mod manual_hash_joins {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/teams.md")]
mod manual_teams {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/research/techniques/join-index.md")]
mod manual_join_index {}

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
