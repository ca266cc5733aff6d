//! Simple queries that run as prepared statements: which texts come again, what they have in common, and whether both ways are equal.

pub(in crate::core) mod lifted;
pub(in crate::core) mod literal_check;
pub(in crate::core) mod repeats;
pub(in crate::core) mod request;
pub(in crate::core) mod shapes;
pub(in crate::core) mod simple;

use std::sync::Arc;

use lru::LruCache;

use crate::core::auto_prepare::literal_check::PendingChecks;
use crate::core::auto_prepare::repeats::Repeats;
use crate::core::auto_prepare::shapes::Shapes;
use crate::session::prepared::Statement;

/// Statements made of simple queries that an event loop remembers.
const LIFTED_MAX: usize = 4096;

/// What an event loop knows of simple queries that run as prepared statements.
pub(in crate::core) struct Lifting {
    pub repeats: Repeats,
    /// Statements made of texts as they came, by number: no client holds them.
    pub lifted: LruCache<u64, Arc<Statement>>,
    /// Texts that differ in literals only.
    pub shapes: Shapes,
    /// Questions about them.
    pub literal_checks: PendingChecks,
}

impl Default for Lifting {
    fn default() -> Self {
        Self {
            repeats: Repeats::default(),
            lifted: LruCache::unbounded(),
            shapes: Shapes::default(),
            literal_checks: PendingChecks::default(),
        }
    }
}
