//! Other systems that run the same work for comparison. They are run, never quoted, and may be absent.

pub mod oltp;
mod process;
pub mod sql;
