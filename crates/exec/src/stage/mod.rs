//! Staged operators and the techniques that execute them: prefetching schedules, bi-threading and the work-ahead set of
//! paper 000, as one product of choices that is the same for every operator.
//!
//! An operator that implements [`Staged`] says what one tuple does between two dereferences; it knows nothing of threads,
//! prefetching or helpers. [`run`] executes it in any [`corun_model::operators::mode::Mode`]; [`race`] runs two different operators side by
//! side; [`traced::trace`] runs a mode deterministically on one thread and reports every access.
//!
//! ```text
//!            ┌────────────── Staged ──────────────┐
//!   tuple ──▶ begin ─needs A─▶ resume ─needs B─▶ resume ─▶ Done ──▶ output
//!                     │                 │
//!                     └────── Context ──┘   none: ignore · prefetch: hint · work-ahead set: post for the helper
//! ```
//!
//! Order of calls: build an operator over borrowed data, make one output for each worker, [`run`], read the outputs.
//!
//! What it is not: it chooses no mode (that is `corun_model::operators::technique`) and no CPU (a [`Place`] is handed in).

mod budget;
pub mod calibrate;
mod context;
mod drivers;
mod race;
mod reference;
mod run;
mod sync;
pub mod traced;
pub mod work_ahead;

pub use budget::{Lease, WorkAheadBudget};
pub use context::{Context, Passing, Posting, Prefetching, Quiet};
pub use race::{Raced, race};
pub use reference::Reference;
pub use run::{Anywhere, HelperKind, Options, Place, Report, RunError, Thread, run};
pub(crate) use work_ahead::load as load_line;

/// What a tuple does after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has named what it needs next and waits for it.
    Wait,
    /// It is finished; its state may be overwritten.
    Done,
}

/// An operator whose work on one tuple is cut into stages of one dereference each (paper 000, section 5).
///
/// `'a` is the lifetime of all memory that a stage may need: a helper thread loads from it, so it outlives every run.
/// `M` is the most references one stage asks for (section 4.1).
///
/// A stage names what the next one will touch with [`Context::need`] and returns; when it is resumed, the memory is
/// hopefully in the cache. It may touch everything at any time all the same: needs are hints, and an operator gives the
/// same answer when they are ignored.
pub trait Staged<'a, const M: usize>: Sync {
    /// What a tuple carries from stage to stage. Small: it lives in a ring of tuples in flight.
    type State: Copy + Default + Send;
    /// Where one worker's results go.
    type Output: Send;
    /// References a stage asks for at least (the paper's `m`), from 1 to `M`: a work-ahead set of `t` lines has `t / m`
    /// entries.
    const REFERENCES_MIN: usize;

    /// Whether stages name lines with [`Context::need_once`].
    const PASSES: bool = false;

    /// Tuples in the probe stream.
    fn tuples(&self) -> usize;

    /// Times [`Staged::resume`] is usually called for a tuple, at least 1: the depth of a software pipeline.
    fn stages(&self) -> usize;

    /// Starts tuple number `tuple`, below [`Staged::tuples`]: fills its state and names what the first stage needs.
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut Self::State,
        output: &mut Self::Output,
        context: &mut C,
    );

    /// Executes one stage.
    fn resume<C: Context<'a>>(
        &self,
        state: &mut Self::State,
        output: &mut Self::Output,
        context: &mut C,
    ) -> Step;

    /// The same tuple from beginning to end as straight code: what an engine without staging would do.
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut Self::Output, context: &mut C);
}
