//! An operation as a cache sees it: which line in which set each instruction needs.
//!
//! Lines get dense numbers, so that what is remembered of a line is an element of a vector. Operations that are to run through one
//! cache together share a [`Numbering`].

use std::collections::HashMap;

use super::operation::{Operation, lines_of};
use crate::cache::Geometry;

/// One line that an instruction needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Index of the instruction.
    pub at: u32,
    /// Set of the cache.
    pub set: u32,
    /// The line's number.
    pub line: u32,
}

/// Gives lines their numbers.
#[derive(Debug)]
pub(super) struct Numbering {
    geometry: Geometry,
    numbers: HashMap<u64, u32>,
}

impl Numbering {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            numbers: HashMap::new(),
        }
    }

    /// How many lines have a number.
    pub fn lines(&self) -> usize {
        self.numbers.len()
    }

    pub fn of_line(&mut self, at: u32, line: u64) -> Reference {
        let next = self.numbers.len() as u32;
        Reference {
            at,
            // At most 2^28 lines make at most as many sets.
            set: (line % self.geometry.sets()) as u32,
            line: *self.numbers.entry(line).or_insert(next),
        }
    }

    /// Every line of every instruction, in order.
    pub fn of(&mut self, operation: &Operation) -> Vec<Reference> {
        let line_bytes = self.geometry.line().0;
        let mut references = Vec::with_capacity(operation.fetches().len());
        for (at, fetch) in operation.fetches().iter().enumerate() {
            for line in lines_of(fetch, line_bytes) {
                references.push(self.of_line(at as u32, line));
            }
        }
        references
    }
}
