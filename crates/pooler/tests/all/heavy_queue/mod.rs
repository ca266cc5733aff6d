//! The queue of heavy queries (paper 002) against a real PostgreSQL: answers, errors, settings, limits, and everything that can happen to
//! who waits or runs in it.

mod alike;
mod estimates;
mod fixture;
mod forms;
mod parallel;
mod place;
mod queue;
mod resctrl;
