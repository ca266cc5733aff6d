//! [`Ts`]: the number of a commit. What it is not: a time of day.

use std::fmt;

/// The number of a commit: dense from 1, in the order in which commits became visible. 0 is before everything.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ts(pub u64);

impl Ts {
    /// Before the first commit.
    pub const ZERO: Ts = Ts(0);

    /// The commit after this one.
    pub fn next(self) -> Ts {
        Ts(self.0 + 1)
    }
}

impl fmt::Display for Ts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}
