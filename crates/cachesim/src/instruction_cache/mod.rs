//! Where the code of an operation outgrows the level-one instruction cache, and what teams that switch there miss (paper 003).
//!
//! ```text
//!   one operation          segment 1        segment 2     segment 3
//!   instructions      ├────────────────┼──────────────┼────────────┤
//!                                      ▲              ▲
//!                                      CTX            CTX
//!   member 1 (leading)  1 ──────────┐   4 ─────────┐   7 ───
//!   member 2              2 ──────┐ │     5 ─────┐ │     8 ───       each segment's lines fit the cache, so members
//!   member 3                3 ────┘ │       6 ───┘ │       9 ───     behind the leading one find them there
//!                                   └─▶            └─▶
//! ```
//!
//! The calls, in order: a [`Recorder`] listens to a tracer and keeps each traced [`Operation`]; [`Original::of`] counts what it
//! misses as it is, [`place`] finds the points where a team should switch, by the paper's algorithm (section 5.2), and
//! [`evaluate`] counts for points given. [`Team`] then runs members through the same cache, switching where the points say, with the
//! code of the switch itself. [`sweep`] does both for many knees, and [`best`] picks the one whose team misses least. [`Reduction`] is the paper's formula (section 3.4.1).
//!
//! ```
//! use corun_cachesim::instruction_cache::{CodeCache, Fetch, Operation, Original, Search, Start, Team, place};
//! use corun_model::teams::Knee;
//!
//! // 64 KiB of code, straight on: twice what the cache holds.
//! let mut operation = Operation::new(1);
//! for at in 0..16 << 10 {
//!     operation.fetch(Fetch { address: at * 4, bytes: 4, latched: false, entry: false });
//! }
//! let cache = CodeCache::lru("32k/8/64".parse()?)?;
//! assert_eq!(Original::of(&operation, &cache)?.warm_misses, 1024);
//!
//! let search = Search::paper(Knee::default());
//! let placement = place(&operation, &cache, &search)?;
//! assert_eq!(placement.segments.calls.len(), 1);
//! assert_eq!(placement.segments.non_leading_misses(), 0);
//!
//! let on = |point| placement.points.contains_key(&point);
//! let team = Team::new(cache, &[operation], search.candidates, on, None)?;
//! assert_eq!(team.one_by_one(10, Start::Warm).total(), 10 * 1024);
//! assert_eq!(team.together(10, Start::Warm).total(), 1024);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All of it is simulated: one level, no prefetching, perfect knowledge of what a warm cache holds. Data accesses are
//! [`crate::core`]'s. Not here: how a trace is taken, source lines of addresses, profiles as files.

mod operation;
mod original;
mod place;
mod reduction;
mod references;
mod segments;
mod sweep;
mod team;

use corun_model::teams::L1i;
use corun_model::units::{Bytes, Ways};

use crate::cache::{Geometry, GeometryError, MASKED_WAYS_MAX, Replacement, SetAssociative};

pub use operation::{Fetch, Operation, Recorder, RecorderLimits, SiteVisit};
pub use original::Original;
pub use place::{Candidates, Placed, Placement, Preference, Search, Wanted, evaluate, place};
pub use reduction::Reduction;
pub use segments::{Call, Segments};
pub use sweep::{Tradeoff, best, knees, sweep};
pub use team::{Start, SwitchCode, Team, TeamMisses};

/// Why there is nothing to simulate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructionCacheError {
    /// The cache cannot exist.
    #[error("instruction cache: {0}")]
    Geometry(#[from] GeometryError),
    /// A tree of bits is kept over a word's worth of ways.
    #[error("tree replacement goes with at most {MASKED_WAYS_MAX} ways, not {0}; take least recently used")]
    TreeWays(u32),
    /// Nothing was traced.
    #[error("the trace has no instruction; see that the traced operation runs")]
    Empty,
    /// The first eviction would already be one too many.
    #[error("a knee is at least 1 eviction high; give width and height as 200,4")]
    KneeHeight,
    /// The trace is longer than it may be.
    #[error(
        "the traced operations have more than {0} instructions; trace fewer or shorter ones, or raise the limit"
    )]
    TooLong(usize),
    /// An operation began and did not end.
    #[error("an operation on thread {0} began and its end was not traced")]
    Unended(u32),
    /// An end without a beginning, or a beginning inside an operation of the same thread.
    #[error(
        "thread {0}: an operation begins inside another one or ends without a beginning; set the markers in pairs"
    )]
    Unpaired(u32),
}

/// A level-one instruction cache, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeCache {
    geometry: Geometry,
    replacement: Replacement,
}

impl CodeCache {
    /// Such a cache.
    ///
    /// # Errors
    /// [`InstructionCacheError::Geometry`], and [`InstructionCacheError::TreeWays`] for a tree over more than 64 ways.
    pub fn new(l1i: L1i, replacement: Replacement) -> Result<Self, InstructionCacheError> {
        let size = Bytes(u64::from(l1i.bytes));
        let geometry = Geometry::new(size, Ways(l1i.ways), Bytes(u64::from(l1i.line_bytes)))?;
        if replacement == Replacement::TreePlru && l1i.ways > MASKED_WAYS_MAX {
            return Err(InstructionCacheError::TreeWays(l1i.ways));
        }
        Ok(Self {
            geometry,
            replacement,
        })
    }

    /// One that replaces the least recently used line, as the paper's.
    ///
    /// # Errors
    /// [`InstructionCacheError::Geometry`].
    pub fn lru(l1i: L1i) -> Result<Self, InstructionCacheError> {
        Self::new(l1i, Replacement::Lru)
    }

    /// Size and shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn line_bytes(&self) -> u64 {
        self.geometry.line().0
    }

    fn empty(&self) -> SetAssociative {
        SetAssociative::with_replacement(self.geometry, self.replacement)
    }
}
