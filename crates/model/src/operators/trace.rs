//! The access traces that operators emit and `cachesim` reads.
//!
//! An operator names each piece of memory it touches to a [`Sink`]. In a run that is timed the sink is [`Untraced`], whose
//! calls compile to nothing; a traced run hands in one that keeps or simulates them. Addresses are those of the process:
//! what matters is which bytes share a line and a set, not their contents.
//!
//! Not here: caches. What an access costs is `cachesim`'s to say.

use serde::{Deserialize, Serialize};

/// What was done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The program reads it and waits for it.
    Load,
    /// The program writes it.
    Store,
    /// A hint: the line is asked for, nobody waits.
    Prefetch,
}

/// Who touched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadRole {
    /// The `n`-th thread that runs the operator, from 0.
    Worker(u8),
    /// The helper of a work-ahead set.
    Helper,
}

/// Where an operator reports its accesses.
pub trait Sink {
    /// `bytes` bytes from `address` on were touched. An access may span lines.
    fn access(&mut self, access: Access, address: usize, bytes: usize);
}

/// Drops every access: the sink of runs that are timed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untraced;

impl Sink for Untraced {
    #[inline(always)]
    fn access(&mut self, _: Access, _: usize, _: usize) {}
}

/// One access of a traced run, with the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Who.
    pub role: ThreadRole,
    /// What.
    pub access: Access,
    /// First byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u32,
}
