//! [`Classes`]: estimates by statement and values, and by statement alone where the values do not matter.
//!
//! ```text
//!   new shape ─► each set of values has its own estimate ── the last 8 sets agree ──► one estimate for the shape
//!                              ▲                                                           │ 1 run in 16 is asked about
//!                              └──────────────── an answer does not agree ─────────────────┘
//! ```
//!
//! Both levels are bounded; the least recently used makes room. Which statement and which values they are is said by hashes; two
//! that meet share an estimate, which is only ever a hint.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::Estimate;

/// Sets of values that have to agree.
const AGREEING: usize = 8;
/// Of runs of a shape with one estimate, one in so many is asked about.
const CHECK_EVERY: u32 = 16;
/// Sets of values kept for a shape.
const VALUES_MAX: usize = 64;

/// What is known of a statement with its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Nothing: ask.
    Unknown,
    /// This, though it is time to ask again; it holds if that fails.
    Due(Arc<Estimate>),
    /// This.
    Known(Arc<Estimate>),
}

struct Shape {
    values: LruCache<u64, Arc<Estimate>>,
    /// The estimate of all values, and runs since it was checked.
    whole: Option<(Arc<Estimate>, u32)>,
    /// Sets of values in a row whose estimates agreed with the one before; the values of the last, and its estimate.
    agreeing: usize,
    last: Option<(u64, Arc<Estimate>)>,
}

/// The estimates of one database and user.
pub struct Classes {
    shapes: LruCache<u64, Shape>,
}

impl Classes {
    /// For at most so many shapes, at least one.
    pub fn new(shapes_max: usize) -> Self {
        Self {
            shapes: LruCache::new(NonZeroUsize::new(shapes_max).unwrap_or(NonZeroUsize::MIN)),
        }
    }

    /// What is known of a statement before it runs.
    pub fn look(&mut self, shape: u64, values: u64) -> Look {
        let Some(shape) = self.shapes.get_mut(&shape) else {
            return Look::Unknown;
        };
        if let Some((estimate, runs)) = &mut shape.whole {
            *runs += 1;
            if *runs >= CHECK_EVERY {
                *runs = 0;
                return Look::Due(estimate.clone());
            }
            return Look::Known(estimate.clone());
        }
        match shape.values.get(&values) {
            Some(estimate) => Look::Known(estimate.clone()),
            None => Look::Unknown,
        }
    }

    /// Keeps what was found out about a statement with its values.
    pub fn learn(&mut self, shape: u64, values: u64, estimate: Estimate) -> Arc<Estimate> {
        let estimate = Arc::new(estimate);
        let shape = self.shapes.get_or_insert_mut(shape, || Shape {
            values: LruCache::new(NonZeroUsize::new(VALUES_MAX).unwrap_or(NonZeroUsize::MIN)),
            whole: None,
            agreeing: 0,
            last: None,
        });
        let agrees = shape
            .last
            .as_ref()
            .is_some_and(|(_, last)| last.agrees(&estimate));
        let same_values = shape.last.as_ref().is_some_and(|(last, _)| *last == values);
        if !agrees {
            shape.agreeing = 1;
            shape.whole = None;
        } else if !same_values {
            // The same values again say nothing about others.
            shape.agreeing = (shape.agreeing + 1).min(AGREEING);
        }
        shape.last = Some((values, estimate.clone()));
        shape.values.put(values, estimate.clone());
        if shape.agreeing >= AGREEING {
            let runs = shape.whole.as_ref().map_or(0, |(_, runs)| *runs);
            shape.whole = Some((estimate.clone(), runs));
        }
        estimate
    }

    /// Forgets a statement: the plan that ran was not the one that was estimated.
    pub fn forget(&mut self, shape: u64) {
        self.shapes.pop(&shape);
    }

    /// Forgets all: statistics, definitions or settings changed.
    pub fn clear(&mut self) {
        self.shapes.clear();
    }

    /// Shapes that are kept.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }
}
