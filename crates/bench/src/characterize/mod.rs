//! `corun characterize`: where a database server's cycles go under concurrency, with and without SMT (paper 001).
//!
//! Everything is made from rows ([`rows`]): [`advice`] ranks what to do, [`mod@report`] puts the figures into the paper's order, [`text`] and
//! [`html`] show them, [`diff`] holds two runs against each other. [`paper`] has what the paper itself states. So a run that broke off
//! gives a report of what it has. Nothing here prints.

pub mod advice;
pub mod diff;
pub mod html;
pub mod paper;
pub mod report;
pub mod rows;
pub mod text;

#[cfg(test)]
mod made_up;
