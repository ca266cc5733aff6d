//! Statement cohorts: which of the waiting statements goes next, so that statements of one shape run one after the other and find
//! their code in the cache (paper 003's teams, one level up).
//!
//! Order of calls: [`CohortQueue::push`] when a statement must wait for a server connection, [`CohortQueue::pop`] when one is
//! free, [`CohortQueue::retain`] when some no longer want. What waits is the first statement of a transaction: once that has a
//! server connection the transaction keeps it, so that nothing inside a transaction is ever reordered. [`AutoCohorts`] finds out
//! whether it pays.
//!
//! What it is not: it reads no clock; times are handed in.

mod choice;
mod queue;

pub use crate::pooler::auto_switch::AutoSwitch as AutoCohorts;
pub use choice::{Cohort, CohortLimits, Waiting};
pub use queue::CohortQueue;
