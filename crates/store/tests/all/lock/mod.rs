//! The lock manager from outside: what goes together, who waits for whom, and that nobody waits for ever.

mod deadlocks;
mod limits;
mod marks;
mod modes;
mod ranges;
mod seam;
mod storms;
pub mod support;
mod waits;
