//! [`run`]: executes a staged operator in a mode, on as many threads as the mode has.
//!
//! Worker 0 is the calling thread; other workers and helpers are started for the call and joined before it returns, so
//! everything a helper may load outlives it. Where they run is a [`Place`]'s decision.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use corun_model::operators::mode::{Hiding, Mode, ModeError, Schedule, Staging, WorkAhead};

use super::Staged;
use super::budget::{Lease, WorkAheadBudget};
use super::context::{Passing, Posting, Prefetching, Quiet};
use super::drivers::{Ahead, Driver, Group, Pipeline, Plain, Ring, Tuples};
use super::work_ahead::{Helper, Looked, WorkAheadError, WorkAheadSet, entries_of, load};
use crate::prefetch::LINE_BYTES;

/// A thread of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Runs operator code. Number 0 is the caller's own thread.
    Worker(usize),
    /// Loads for the worker of this number.
    Helper(usize),
}

/// Decides where threads run. Each thread calls it first, except worker 0, which is the caller's and placed by the caller.
pub trait Place: Sync {
    /// Places the calling thread.
    fn place(&self, thread: Thread);
}

/// Leaves threads to the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anywhere;

impl Place for Anywhere {
    fn place(&self, _: Thread) {}
}

/// What a helper does with an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HelperKind {
    /// Loads every reference: the paper's helper.
    #[default]
    Loads,
    /// Remembers the last line it has loaded for each of 64 values of the line number's low bits, and does not load that one
    /// again: the paper's negative experiment (appendix).
    SkipsDuplicates,
    /// Loads so many entries and ends; 0 never begins. For showing that no answer depends on a helper.
    EndsAfter(u64),
}

/// What a run may be told beside its mode.
#[derive(Clone, Copy)]
pub struct Options<'o> {
    /// Where threads run.
    pub place: &'o dyn Place,
    /// Where work-ahead sets take their lines from; `None`: each gets what its mode says.
    pub budget: Option<&'o WorkAheadBudget>,
    /// What helpers do.
    pub helper: HelperKind,
    /// Set by somebody else: workers begin no more tuples soon after.
    pub stop: Option<&'o AtomicBool>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            place: &Anywhere,
            budget: None,
            helper: HelperKind::Loads,
            stop: None,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Tuples each worker has processed.
    pub tuples: Vec<usize>,
    /// Entries all helpers have loaded.
    pub helper_loads: u64,
    /// Lines the work-ahead sets really had: less than the mode's when a budget was short, 0 without sets. A worker whose
    /// budget is used up runs staged without helper.
    pub work_ahead_lines: usize,
}

/// A run that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The mode contradicts itself.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// The work-ahead set is impossible.
    #[error(transparent)]
    WorkAhead(#[from] WorkAheadError),
    /// Operators do not match the mode.
    #[error("this mode runs {wanted} operators with their own input at once, not {given}")]
    Inputs {
        /// Operators of the mode.
        wanted: usize,
        /// Operators handed in.
        given: usize,
    },
    /// Outputs do not match the mode.
    #[error("each of this mode's {wanted} workers has its own output; {given} were given")]
    Outputs {
        /// Workers of the mode.
        wanted: usize,
        /// Outputs handed in.
        given: usize,
    },
    /// A race of more than two threads.
    #[error("each side of a race is one thread; this mode has {workers}")]
    Race {
        /// Workers of the mode.
        workers: usize,
    },
}

/// Tuples in flight of a staged operator whose latency nobody hides: as many as the paper's work-ahead set has lines.
pub(super) const UNHIDDEN_IN_FLIGHT: usize = WorkAhead::PAPER.lines as usize;

/// How often a worker looks whether it should stop, in turns of its driver.
const STOP_EVERY: usize = 64;

/// Executes `operators` (one, or two for independent threads) in `mode`, one output for each worker.
///
/// Outputs keep the order of the tuples where an operator reserves its place when a tuple begins; a bi-threaded run leaves
/// tuples `i`, `i + n`, ... in output `i` (section 3).
///
/// # Errors
/// [`RunError`] before anything ran. Whether a mode is an error does not depend on what is left of a budget.
///
/// # Panics
/// When operator code or a [`Place`] panics, on whichever thread, after all threads have ended; and when the operating system
/// refuses to start one.
pub fn run<'a, const M: usize, O: Staged<'a, M>>(
    mode: Mode,
    operators: &[&O],
    outputs: &mut [O::Output],
    options: &Options<'_>,
) -> Result<Report, RunError> {
    check(mode, operators.len(), outputs.len())?;
    let workers = mode.workers();
    let mut sets = Vec::new();
    let mut work_ahead_lines = 0;
    if let Hiding::WorkAhead(ahead) = mode.hiding {
        let wanted = ahead.lines as usize;
        entries_of(wanted, O::REFERENCES_MIN, M)?;
        for _ in 0..workers {
            let lease = options.budget.map(|budget| budget.take(wanted));
            let lines = lease.as_ref().map_or(wanted, Lease::lines);
            // An exhausted budget leaves no lines: then there is no set, and the tuples go round without a helper.
            sets.push(match lines {
                0 => None,
                lines => Some((lease, WorkAheadSet::new(lines, O::REFERENCES_MIN)?)),
            });
            work_ahead_lines += lines;
        }
    }
    let mut sets = sets.into_iter();

    let mut jobs = outputs.iter_mut().enumerate().map(|(worker, output)| {
        let (operator, share) = match operators {
            [operator] => (*operator, Tuples::share(operator.tuples(), worker, workers)),
            several => (several[worker], Tuples::share(several[worker].tuples(), 0, 1)),
        };
        (
            worker,
            Job {
                mode,
                operator,
                share,
                options,
                output,
            },
            sets.next().flatten(),
        )
    });

    let (_, first, first_set) = jobs.next().expect("a mode has at least one worker");
    let done: Vec<(usize, u64)> = std::thread::scope(|scope| {
        let others: Vec<_> = jobs
            .map(|(worker, job, set)| {
                scope.spawn(move || {
                    options.place.place(Thread::Worker(worker));
                    job.execute(worker, set)
                })
            })
            .collect();
        let first = first.execute(0, first_set);
        std::iter::once(first)
            .chain(others.into_iter().map(joined))
            .collect()
    });
    Ok(Report {
        tuples: done.iter().map(|(begun, _)| *begun).collect(),
        helper_loads: done.iter().map(|(_, loaded)| loaded).sum(),
        work_ahead_lines,
    })
}

/// What a thread returns; its panic goes on in the calling thread, with the words it began with.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether operators and outputs are as many as the mode needs.
pub(super) fn check(mode: Mode, inputs: usize, outputs: usize) -> Result<(), RunError> {
    mode.check()?;
    if inputs != mode.inputs() {
        return Err(RunError::Inputs {
            wanted: mode.inputs(),
            given: inputs,
        });
    }
    if outputs != mode.workers() {
        return Err(RunError::Outputs {
            wanted: mode.workers(),
            given: outputs,
        });
    }
    Ok(())
}

/// One worker's work.
struct Job<'j, 'a, const M: usize, O: Staged<'a, M>> {
    mode: Mode,
    operator: &'j O,
    share: Tuples,
    options: &'j Options<'j>,
    output: &'j mut O::Output,
}

impl<'j, 'a, const M: usize, O: Staged<'a, M>> Job<'j, 'a, M, O> {
    /// Tuples begun and entries its helper has loaded. `set` carries the lease it was paid with.
    fn execute<L>(self, worker: usize, set: Option<(L, WorkAheadSet<'a, O::State, M>)>) -> (usize, u64) {
        let share = self.share;
        let stages = self.operator.stages();
        match (self.mode.staging, self.mode.hiding) {
            (Staging::Plain, _) => (self.drive(Plain(share), &mut Quiet), 0),
            (Staging::Staged, Hiding::None) => {
                (self.drive(Ring::new(share, UNHIDDEN_IN_FLIGHT), &mut Quiet), 0)
            }
            (Staging::Staged, Hiding::Prefetch { schedule, distance }) => {
                let distance = usize::from(distance);
                let begun = if O::PASSES {
                    self.prefetch(schedule, distance, stages, &mut Passing)
                } else {
                    self.prefetch(schedule, distance, stages, &mut Prefetching)
                };
                (begun, 0)
            }
            (Staging::Staged, Hiding::WorkAhead(ahead)) => match set {
                Some((_lease, set)) => self.work_ahead(worker, ahead, set),
                None => (self.drive(Ring::new(share, UNHIDDEN_IN_FLIGHT), &mut Quiet), 0),
            },
        }
    }

    fn prefetch<C: super::Context<'a>>(
        self,
        schedule: Schedule,
        distance: usize,
        stages: usize,
        context: &mut C,
    ) -> usize {
        let share = self.share;
        match schedule {
            Schedule::Group => self.drive(Group::new(share, distance), context),
            Schedule::Pipeline => self.drive(Pipeline::new(share, distance, stages), context),
            Schedule::Amac => self.drive(Ring::new(share, distance), context),
        }
    }

    fn stopped(&self) -> bool {
        self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    #[inline(never)]
    fn drive<D: Driver<'a, M, O>, C: super::Context<'a>>(self, mut driver: D, context: &mut C) -> usize {
        if self.options.stop.is_none() {
            while driver.advance(self.operator, self.output, context) {}
            return driver.begun();
        }
        loop {
            for _ in 0..STOP_EVERY {
                if !driver.advance(self.operator, self.output, context) {
                    return driver.begun();
                }
            }
            if self.stopped() {
                driver.stop();
            }
        }
    }

    fn work_ahead(
        self,
        worker: usize,
        ahead: WorkAhead,
        mut set: WorkAheadSet<'a, O::State, M>,
    ) -> (usize, u64) {
        let done = AtomicBool::new(false);
        let (main, helper) = set.split(ahead.direction);
        let (kind, place) = (self.options.helper, self.options.place);
        std::thread::scope(|scope| {
            let done = &done;
            let helper = (kind != HelperKind::EndsAfter(0)).then(|| {
                scope.spawn(move || {
                    place.place(Thread::Helper(worker));
                    help(helper, ahead.spin, kind, done)
                })
            });
            // The helper is told to end also when operator code panics: the scope would wait for it for ever.
            let end = SetAtEnd(done);
            let mut driver = Ahead::new(self.share, main);
            let mut turns = 0_usize;
            while driver.turn(
                self.operator,
                self.output,
                |needs: Posting<'a, M>| needs,
                |needs| needs,
            ) {
                turns += 1;
                if turns.is_multiple_of(STOP_EVERY) && self.stopped() {
                    driver.stop();
                }
            }
            drop(end);
            let loaded = helper.map_or(0, joined);
            (driver.begun(), loaded)
        })
    }
}

/// Sets a flag when it goes out of scope, also when that is by a panic: somebody loops until it is set.
pub(super) struct SetAtEnd<'f>(pub(super) &'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The helper thread: goes round until told to end. Returns the entries it has loaded.
fn help<'a, S: Copy + Default, const M: usize>(
    mut helper: Helper<'_, 'a, S, M>,
    spin: bool,
    kind: HelperKind,
    done: &AtomicBool,
) -> u64 {
    let mut loaded = 0;
    let mut recent = Recent([0; Recent::LINES]);
    while !done.load(Ordering::Relaxed) {
        let looked = match kind {
            HelperKind::SkipsDuplicates => helper.step(spin, |reference| {
                if recent.is_new(reference.address() as usize / LINE_BYTES) {
                    load(reference);
                }
            }),
            HelperKind::Loads | HelperKind::EndsAfter(_) => helper.step(spin, load),
        };
        match looked {
            Looked::Loaded => loaded += 1,
            Looked::Unchanged => std::hint::spin_loop(),
        }
        if kind == HelperKind::EndsAfter(loaded) {
            break;
        }
    }
    loaded
}

/// The lines loaded last, one for each value of their low bits.
struct Recent([usize; Recent::LINES]);

impl Recent {
    const LINES: usize = 64;

    fn is_new(&mut self, line: usize) -> bool {
        std::mem::replace(&mut self.0[line % Recent::LINES], line) != line
    }
}
