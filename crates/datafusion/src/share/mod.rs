//! Parts that several readers want run once: of one statement, which has a `WITH` query or a sub-query more than once, and of statements
//! of several sessions.
//!
//! ```text
//!   join                                 join
//!    ├─ aggregate over sales      =>      ├─ corun_shared_1 (reader 1 of 2)   ┐
//!    └─ filter                            └─ filter                           ├─ aggregate over sales, run once
//!         └─ aggregate over sales               └─ corun_shared_1 (2 of 2)    ┘
//! ```
//!
//! DataFusion puts the text of a `WITH` query in place of each of its uses. [`planner`], which stands before DataFusion's query planner,
//! asks [`find`] for equal parts and puts a scan in place of each; that plans the part once, and every scan is a [`CorunSharedExec`] over
//! it. [`part`] is what they share, [`buffer`] how batches reach several readers, which may be differently fast or stop early.
//!
//! Parts that other statements want as well stand in [`work`], by all that makes their rows what they are ([`sources`]): while they run,
//! and afterwards as long as there is room.
//!
//! Only parts that join, group, sort or compute windows are shared: a scan is cheaper than what its own filters save.

mod buffer;
mod find;
mod part;
mod planner;
mod reader;
mod sources;
mod table;
mod work;

pub(crate) use planner::{SharingPlanner, stock_planner};
pub use reader::CorunSharedExec;
#[cfg(feature = "coordinator")]
pub(crate) use reader::taken;
pub(crate) use reader::{parts_under_way, show_parts};
pub use work::{SharedWorkState, TakenWork};
