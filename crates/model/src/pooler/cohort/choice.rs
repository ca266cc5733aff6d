//! [`Cohort`]: the choice itself.

/// Bounds of cohorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortLimits {
    /// Statements of one shape in a row at most; below 2: first come, first served.
    pub length_max: u32,
    /// Microseconds for which a statement may be overtaken, from the first time that happens.
    pub wait_max_us: u64,
    /// Waiting statements looked at, at most.
    pub window: usize,
}

impl Default for CohortLimits {
    /// 16 in a row, 5 ms, 128 looked at. Unmeasured.
    fn default() -> Self {
        CohortLimits {
            length_max: 16,
            wait_max_us: 5_000,
            window: 128,
        }
    }
}

/// A statement that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its shape; 0 is unknown and like no other.
    pub shape: u64,
    /// When it was overtaken first, if it was.
    pub overtaken_us: Option<u64>,
}

/// The shape that ran last and how often in a row. One for each core, as its cache is what remembers the code.
///
/// The rule: of the waiting statements, oldest first, the first one of the shape that ran last goes next, unless that shape ran
/// `length_max` times in a row or the choice would pass over one that was first overtaken `wait_max_us` ago or more. Otherwise
/// the oldest goes, and its shape is the next cohort's.
///
/// *No statement starves.* Whoever overtakes a statement begins less than `wait_max_us` after the first who did. After that it
/// waits only for those that came before it, as it would if nothing were ever reordered.
///
/// *Why the oldest begins a cohort*, not the shape with most waiting: with `N` waiting statements of `S` shapes, the number of
/// each shape rises from nothing to the length of its cohort and falls to nothing, and its mean is `N / S`. So cohorts are about
/// `2 N / S` long whichever of the two is taken, and the oldest first needs no counting.
#[derive(Clone, Debug)]
pub struct Cohort {
    limits: CohortLimits,
    shape: u64,
    length: u32,
}

impl Cohort {
    /// Nothing ran yet.
    pub fn new(limits: CohortLimits) -> Self {
        Cohort {
            limits,
            shape: 0,
            length: 0,
        }
    }

    /// Other bounds from now on.
    pub fn set_limits(&mut self, limits: CohortLimits) {
        self.limits = limits;
    }

    /// The bounds.
    pub fn limits(&self) -> CohortLimits {
        self.limits
    }

    /// How many of one shape ran in a row by now.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The index of the statement that goes next; `waiting` is in order of arrival. All before that index are overtaken by it.
    /// `None` if nothing waits.
    pub fn next(&mut self, waiting: impl IntoIterator<Item = Waiting>, now_us: u64) -> Option<usize> {
        let goes_on = self.shape != 0 && self.length < self.limits.length_max && self.limits.length_max > 1;
        let mut oldest = None;
        for (index, statement) in waiting.into_iter().enumerate().take(self.limits.window.max(1)) {
            let oldest = *oldest.get_or_insert(statement.shape);
            if !goes_on {
                self.began(oldest);
                return Some(0);
            }
            if statement.shape == self.shape {
                self.length += 1;
                return Some(index);
            }
            let waited_out = |since: u64| now_us.saturating_sub(since) >= self.limits.wait_max_us;
            if statement.overtaken_us.is_some_and(waited_out) || self.limits.wait_max_us == 0 {
                break;
            }
        }
        self.began(oldest?);
        Some(0)
    }

    /// Takes note of a statement that did not have to wait.
    pub fn ran(&mut self, shape: u64) {
        if shape == self.shape && shape != 0 {
            self.length = self.length.saturating_add(1);
        } else {
            self.began(shape);
        }
    }

    fn began(&mut self, shape: u64) {
        // The same shape may follow itself, being the oldest: a cohort of its own.
        self.shape = shape;
        self.length = 1;
    }
}
