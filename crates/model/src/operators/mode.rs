//! How an operator is executed: the techniques of paper 000 as a product of three choices.
//!
//! ```text
//!   threads                      staging            latency hiding
//!   one                          plain              none
//!   two independent (own input)  staged   ─────────▶ none | prefetch (group, pipeline, AMAC) | work-ahead set
//!   bi-threaded (n = 2, or more)
//! ```
//!
//! Only staged operators can hide latency: a plain one dereferences an address as soon as it knows it. [`Mode::check`]
//! says so. Which mode pays is `crate::operators::technique`'s decision; running one is `corun_exec::stage`'s work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who works on the probe stream (paper 000, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threads {
    /// One thread.
    One,
    /// Naive parallelism: two operators that know nothing of each other, each with its own input and output.
    TwoIndependent,
    /// One operator over one input: of `n` threads, thread `i` takes tuples `i`, `i + n`, ... and has its own output. The
    /// paper's technique is two; more are its negative control.
    BiThreaded(u8),
}

/// How the operator's code is cut (paper 000, sections 2.4 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Staging {
    /// One tuple from beginning to end, then the next.
    Plain,
    /// One dereference a stage, many tuples in flight.
    Staged,
}

/// How tuples in flight are ordered when prefetch instructions are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// A group of `distance` tuples goes through each stage together (Chen et al., ICDE 2004).
    Group,
    /// Software pipeline: stage `s` of tuple `i` beside stage `s - 1` of tuple `i + distance` (same source).
    Pipeline,
    /// Asynchronous chaining: a ring of `distance` tuples, each at its own stage; one that ends is replaced at once
    /// (Kocberber et al., PVLDB 2015).
    Amac,
}

/// What is done about the latency between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hiding {
    /// Nothing beyond what the processor does by itself.
    None,
    /// A prefetch instruction for each reference, `distance` tuples in flight.
    Prefetch {
        /// The order of the tuples in flight.
        schedule: Schedule,
        /// Tuples in flight.
        distance: u16,
    },
    /// A helper thread loads what the main thread has posted (paper 000, section 4).
    WorkAhead(WorkAhead),
}

/// Parameters of a work-ahead set (paper 000, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkAhead {
    /// The size `t` of the set: valid references in it at most, each a cache line (section 4.1).
    pub lines: u32,
    /// Which way the helper goes round (section 4.3).
    pub direction: Direction,
    /// Whether the helper waits, with the processor's pause instruction, at an entry that has not changed (section 4.4).
    pub spin: bool,
}

impl WorkAhead {
    /// What the paper settles on: 128 lines, backward, spinning (section 6.1).
    pub const PAPER: WorkAhead = WorkAhead {
        lines: 128,
        direction: Direction::Backward,
        spin: true,
    };
}

/// Which way the helper goes round a work-ahead set (paper 000, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The main thread's way.
    Forward,
    /// Against it.
    Backward,
}

/// One way of executing an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mode {
    /// Who works.
    pub threads: Threads,
    /// How the code is cut.
    pub staging: Staging,
    /// What is done about latency.
    pub hiding: Hiding,
}

/// A mode that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// Plain code cannot hide latency.
    #[error("a plain operator cannot hide latency: only staged ones have a point between address and use")]
    PlainHides,
    /// Nothing in flight.
    #[error("a prefetch distance is at least 1 tuple")]
    NoDistance,
    /// A work-ahead set that holds nothing.
    #[error("a work-ahead set holds at least one reference")]
    NoLines,
    /// A bi-threaded operator without threads.
    #[error("a bi-threaded operator has at least 2 threads, not {0}")]
    TooFewThreads(u8),
}

impl Mode {
    /// One thread, plain code: what every other mode is compared with.
    pub const PLAIN: Mode = Mode {
        threads: Threads::One,
        staging: Staging::Plain,
        hiding: Hiding::None,
    };

    /// Staged, with this latency hiding, on these threads.
    pub const fn staged(threads: Threads, hiding: Hiding) -> Mode {
        Mode {
            threads,
            staging: Staging::Staged,
            hiding,
        }
    }

    /// Whether the mode exists.
    ///
    /// # Errors
    /// [`ModeError`], which names the choice that contradicts another or is out of range.
    pub fn check(self) -> Result<(), ModeError> {
        if let Threads::BiThreaded(threads) = self.threads
            && threads < 2
        {
            return Err(ModeError::TooFewThreads(threads));
        }
        match (self.staging, self.hiding) {
            (_, Hiding::None) => Ok(()),
            (Staging::Plain, _) => Err(ModeError::PlainHides),
            (_, Hiding::Prefetch { distance: 0, .. }) => Err(ModeError::NoDistance),
            (_, Hiding::WorkAhead(WorkAhead { lines: 0, .. })) => Err(ModeError::NoLines),
            _ => Ok(()),
        }
    }

    /// Operators with their own input this mode runs at once.
    pub fn inputs(self) -> usize {
        match self.threads {
            Threads::TwoIndependent => 2,
            Threads::One | Threads::BiThreaded(_) => 1,
        }
    }

    /// Threads that run operator code, each with its own output; a helper is not one.
    pub fn workers(self) -> usize {
        match self.threads {
            Threads::One => 1,
            Threads::TwoIndependent => 2,
            Threads::BiThreaded(threads) => usize::from(threads),
        }
    }
}

impl fmt::Display for Mode {
    /// `one/plain`, `bi2/staged/group32`, `one/staged/workahead128-backward-spin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            Threads::One => f.write_str("one")?,
            Threads::TwoIndependent => f.write_str("two")?,
            Threads::BiThreaded(threads) => write!(f, "bi{threads}")?,
        }
        f.write_str(match self.staging {
            Staging::Plain => "/plain",
            Staging::Staged => "/staged",
        })?;
        match self.hiding {
            Hiding::None => Ok(()),
            hiding => write!(f, "/{hiding}"),
        }
    }
}

impl fmt::Display for Hiding {
    /// `none`, `group32`, `workahead128-backward-spin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hiding::None => f.write_str("none"),
            Hiding::Prefetch { schedule, distance } => {
                let schedule = match schedule {
                    Schedule::Group => "group",
                    Schedule::Pipeline => "pipeline",
                    Schedule::Amac => "amac",
                };
                write!(f, "{schedule}{distance}")
            }
            Hiding::WorkAhead(set) => {
                let direction = match set.direction {
                    Direction::Forward => "forward",
                    Direction::Backward => "backward",
                };
                let spin = if set.spin { "-spin" } else { "" };
                write!(f, "workahead{}-{direction}{spin}", set.lines)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_staged_code_hides_latency() {
        let group = Hiding::Prefetch {
            schedule: Schedule::Group,
            distance: 32,
        };
        let plain = Mode {
            hiding: group,
            ..Mode::PLAIN
        };
        assert_eq!(plain.check(), Err(ModeError::PlainHides));
        assert_eq!(Mode::staged(Threads::One, group).check(), Ok(()));
        assert_eq!(Mode::PLAIN.check(), Ok(()));
    }

    #[test]
    fn empty_choices_are_errors() {
        let none = Hiding::Prefetch {
            schedule: Schedule::Amac,
            distance: 0,
        };
        assert_eq!(
            Mode::staged(Threads::One, none).check(),
            Err(ModeError::NoDistance)
        );
        let empty = Hiding::WorkAhead(WorkAhead {
            lines: 0,
            ..WorkAhead::PAPER
        });
        assert_eq!(Mode::staged(Threads::One, empty).check(), Err(ModeError::NoLines));
        assert_eq!(
            Mode::staged(Threads::BiThreaded(1), Hiding::None).check(),
            Err(ModeError::TooFewThreads(1))
        );
    }

    #[test]
    fn names_tell_modes_apart() {
        let modes = [
            Mode::PLAIN,
            Mode::staged(Threads::TwoIndependent, Hiding::None),
            Mode::staged(Threads::BiThreaded(2), Hiding::WorkAhead(WorkAhead::PAPER)),
        ];
        assert_eq!(
            modes.map(|mode| mode.to_string()),
            ["one/plain", "two/staged", "bi2/staged/workahead128-backward-spin"]
        );
    }
}
