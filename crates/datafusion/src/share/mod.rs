//! Parts that a statement has more than once run once: what a `WITH` query or a repeated sub-query computes is handed to all who read it.
//!
//! ```text
//!   join                                 join
//!    ├─ aggregate over sales      =>      ├─ corun_shared_1 (reader 1 of 2)   ┐
//!    └─ filter                            └─ filter                           ├─ aggregate over sales, run once
//!         └─ aggregate over sales               └─ corun_shared_1 (2 of 2)    ┘
//! ```
//!
//! DataFusion puts the text of a `WITH` query in place of each of its uses. [`SharedParts`], the last rule of the logical optimizer,
//! finds equal parts and puts scans of one [`SharedTable`] in their place; that plans the part once, and every scan is a
//! [`CorunSharedExec`] over it. [`buffer`] is how batches reach several readers, which may be differently fast or stop early.
//!
//! Only parts that join, group, sort or compute windows are shared: a scan is cheaper than what its own filters save.

mod buffer;
mod exec;
mod rule;
mod table;

pub use exec::CorunSharedExec;
pub(crate) use exec::show_parts;
pub(crate) use rule::SharedParts;
