//! Splitting a heavy query by range (paper 004, section 3): into how many parts, and on which cores they run.
//!
//! Order of calls: for each run of a query shape [`Parts::choose`] says into how many parts, given the cores that are free
//! ([`free_cores`]); [`place`] gives each part its hardware thread among those [`reserved`] for heavy queries; what the run took goes
//! into the shape's [`History`].
//!
//! What it is not: it knows no SQL. Whether a query may be split at all, and how the parts' rows are merged, is decided where the
//! query is understood. It reads no clock; times are handed in.

mod history;
mod parts;
mod placement;

pub use history::{History, HistorySettings, PARTS_MAX};
pub use parts::{Parts, free_cores};
pub use placement::{Core, Placement, UnknownPlacement, jobs_at_once, parts_most, place, reserved};
