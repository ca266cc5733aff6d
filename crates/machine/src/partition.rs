//! Ways to keep weak-locality queries from flushing the cache for the others (paper 002, section 6).

use model::partition::Class;
use serde::Serialize;
use std::fmt::Debug;

/// What keeps the classes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ways of the cache, given to classes by the kernel.
    Ways,
    /// Operators that pass their streams by the cache.
    Streaming,
    /// Nothing.
    None,
}

/// Why a thread could not be assigned.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PartitionError(pub String);

/// A way to keep weak-locality queries from flushing the cache for the others.
pub trait Partitioner: Send + Sync + Debug {
    /// What it does it with.
    fn kind(&self) -> Kind;

    /// Whether queries are protected so well that the policy `mls` may be used.
    fn protects(&self) -> bool;

    /// Gives the calling thread the share of a class.
    ///
    /// # Errors
    /// Whatever the kernel refuses.
    fn assign_current_thread(&self, class: Class) -> Result<(), PartitionError>;

    /// One line: what it is, and why this one.
    fn describe(&self) -> String;
}
