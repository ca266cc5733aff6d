//! The coordinator: queries side by side on one last-level cache.

pub mod decision;
pub(crate) mod plan;
