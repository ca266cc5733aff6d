//! [`race`]: two different operators side by side until the first one ends (paper 000, section 6.3).

use std::sync::atomic::AtomicBool;

use corun_model::operators::mode::{Mode, Threads};

use super::run::{Options, RunError, SetAtEnd, Thread, joined, run};
use super::{Place, Staged};

/// How far both came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raced {
    /// Tuples the first operator has processed.
    pub first: usize,
    /// Tuples the second operator has processed.
    pub second: usize,
}

/// Places a worker of an inner run as worker 1 of the race, and its helper as that worker's.
struct Second<'p>(&'p dyn Place);

impl Place for Second<'_> {
    fn place(&self, thread: Thread) {
        match thread {
            Thread::Worker(_) => self.0.place(Thread::Worker(1)),
            Thread::Helper(_) => self.0.place(Thread::Helper(1)),
        }
    }
}

/// Runs `first` on the calling thread and `second` on another, both in `mode` (one thread each), and stops when one has
/// processed all its tuples; the other ends the tuples it has begun. `options.stop` is not looked at.
///
/// # Errors
/// As [`run`], and [`RunError::Race`] for a mode of several threads.
///
/// # Panics
/// As [`run`]; the operator that has not panicked is stopped first.
pub fn race<'a, const M: usize, const N: usize, A: Staged<'a, M>, B: Staged<'a, N>>(
    mode: Mode,
    first: (&A, &mut A::Output),
    second: (&B, &mut B::Output),
    options: &Options<'_>,
) -> Result<Raced, RunError> {
    mode.check()?;
    if mode.threads != Threads::One {
        return Err(RunError::Race {
            workers: mode.workers(),
        });
    }
    let stop = AtomicBool::new(false);
    let options = Options {
        stop: Some(&stop),
        ..*options
    };
    let place = Second(options.place);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _stop = SetAtEnd(&stop);
            place.place(Thread::Worker(0));
            let options = Options {
                place: &place,
                ..options
            };
            run(mode, &[second.0], std::slice::from_mut(second.1), &options)
        });
        let report = {
            let _stop = SetAtEnd(&stop);
            run(mode, &[first.0], std::slice::from_mut(first.1), &options)
        };
        let other = joined(other);
        Ok(Raced {
            first: report?.tuples[0],
            second: other?.tuples[0],
        })
    })
}
