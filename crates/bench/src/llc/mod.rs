//! Co-running queries on one last-level cache: paper 002's experiments.

pub mod sim;
