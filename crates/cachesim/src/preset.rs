//! Machines of the papers, for which no topology can be asked.
//!
//! Not here: the machine at hand; see [`Hierarchy::of`].

use corun_model::units::{Bytes, Ways};

use crate::cache::Geometry;
use crate::hierarchy::{Hierarchy, HierarchyError, Level, Scope, Sharing};

/// A machine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The Pentium 4 of paper 000 (3.4 GHz, 8 KB first level: the Northwood core): data caches of 8 KB in 64-byte and 512 KB in
    /// 128-byte lines, no third level, so that misses of the second go to memory.
    ///
    /// Sizes and lines are the paper's Table 1. It does not give the ways: 4 and 8 are from Intel's IA-32 optimization
    /// reference manual, Table 1-1, models 0 to 2. The manual calls the second level's 128 bytes a sector of two 64-byte lines
    /// that a read miss fetches together; simulated is one line of 128 bytes, as the paper counts.
    PaperPentium4,
}

impl Preset {
    /// Its caches, outermost last.
    ///
    /// # Errors
    /// None for the presets there are; the levels pass the same checks as anybody's.
    pub fn levels(self) -> Result<Vec<Level>, HierarchyError> {
        match self {
            Self::PaperPentium4 => Ok(vec![
                Level {
                    level: 1,
                    geometry: Geometry::new(Bytes::kib(8), Ways(4), Bytes(64))?,
                    scope: Scope::Core,
                },
                Level {
                    level: 2,
                    geometry: Geometry::new(Bytes::kib(512), Ways(8), Bytes(128))?,
                    scope: Scope::Core,
                },
            ]),
        }
    }

    /// The machine with empty caches; its two threads are hyper-threads of one core and share all of them.
    ///
    /// # Errors
    /// As [`Preset::levels`].
    pub fn hierarchy(self) -> Result<Hierarchy, HierarchyError> {
        Hierarchy::new(&self.levels()?, Sharing::Siblings)
    }
}
