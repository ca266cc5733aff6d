//! Data and cases of the `join` suite: which joins are measured, and the tables they run on with their expected sum.
//!
//! [`case::matrix`] lists the cases; [`data::JoinData::generate`] makes the two tables of one and computes the answer while it
//! draws the rows, without any hash table. Running them is [`crate::suites::join`]'s.

pub mod case;
pub mod data;
pub mod keys;
pub mod probe;
