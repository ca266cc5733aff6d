//! The range index (paper 004, section 2.2, Fig. 2): which worker, and so which core's cache or which replica's memory, holds the
//! data of a statement.
//!
//! Order of calls: a [`Map`] of a key domain is made from the configuration or from what was seen ([`Sketch::splits`],
//! [`Map::balanced`]). For each statement its keys become a [`Span`], [`Map::owner_of_span`] says whose it is, and [`Overflow`]
//! whether it should rather go to another worker because that one is busy. Now and then [`Rebalance::tick`] is told how many
//! statements each bucket had, and proposes the next map. [`AutoDispatch`] finds out whether any of it pays.
//!
//! ```text
//!   keys      …───┬─────┬───┬──────┬────┬──────┬───…
//!   buckets     0 │  1  │ 2 │   3  │  4 │   5  │ 6        fixed split points between them
//!   owners    ◄── 0 ──────► │ ◄──── 1 ──────► │ ◄─ 2 …    boundaries that rebalancing moves, always on a split point
//! ```
//!
//! What it is not: it knows no SQL and no connections, reads no clock, and is only ever a hint: a statement that runs elsewhere is
//! slower, never wrong.

mod among;
mod key;
mod map;
mod overflow;
mod partition;
mod rebalance;
mod sketch;
mod span;

pub use crate::pooler::auto_switch::AutoSwitch as AutoDispatch;
pub use key::{Kind, UnknownKind, prefix_key};
pub use map::{BUCKETS_MAX, Map, MapError, OWNERS_MAX};
pub use overflow::{Overflow, WorkerLoad};
pub use rebalance::{Rebalance, RebalanceSettings};
pub use sketch::{SAMPLES_MAX, Sketch};
pub use span::{INTERVALS_MAX, Span};
