//! [`Stage`]: what the parts of the figures about one operation share, and [`Side`], one way to run it.

use corun_model::teams::L1i;

use super::figures::Figure;
use super::geometry::half_of;
use super::job::{Job, Mode, Operation, Pass, Points, Workload};
use super::lab::{Lab, Traced};
use super::rows::{Shape, complain};
use super::training::{Trained, profile};
use lab_core::error::BenchError;
use lab_core::run::Runner;

/// Rounds of a traced pass: the first fills the caches, the others are counted.
pub(super) const ROUNDS: usize = 3;

/// The paper's team.
pub(super) const TEAM: usize = 10;

/// One way of running a workload, and how its rows name it.
pub(super) struct Side {
    pub(super) pass: Pass,
    /// Which CTX points are on: `default`, `all`, `trial`; `none` without a scheduler.
    pub(super) points: &'static str,
}

impl Side {
    /// A traced pass of so many members.
    pub(super) fn traced(mode: Mode, members: usize, (name, points): (&'static str, &Points)) -> Side {
        let rounds = ROUNDS + usize::from(mode == Mode::Held);
        let pass = Pass::traced(mode, members, points, (20, rounds));
        Side { pass, points: name }
    }
}

/// An operation to be traced and timed.
pub(super) struct Stage<'s> {
    pub(super) lab: &'s Lab<'s>,
    /// The operation as it is.
    pub(super) trained: Trained,
    /// The instruction cache that reductions are judged at: at most half the operation's footprint.
    pub(super) judged: L1i,
}

impl<'s> Stage<'s> {
    /// Traces one execution.
    ///
    /// # Errors
    /// The lab's.
    pub(super) fn new(lab: &'s Lab<'s>, operation: Operation) -> Result<Stage<'s>, BenchError> {
        let trained = Trained::trace(lab, operation)?;
        Ok(Stage {
            judged: half_of(trained.footprint_bytes()),
            lab,
            trained,
        })
    }

    /// The operation.
    pub(super) fn operation(&self) -> Operation {
        self.trained.operation
    }

    /// The operation on the paper's table.
    pub(super) fn workload(&self) -> Workload {
        self.lab.workload(self.operation(), 0)
    }

    /// The points found by trial for a cache.
    ///
    /// # Errors
    /// The simulation's.
    pub(super) fn by_trial(&self, l1i: L1i) -> Result<Points, BenchError> {
        Ok(profile(l1i, self.trained.by_trial(l1i)?))
    }

    /// Fails the run if the operation was answered wrongly.
    pub(super) fn complain(&self, figure: &Figure, runner: &mut Runner<'_>) {
        complain(runner, figure.case, &self.trained.wrong);
    }

    /// Traces sides of a figure.
    ///
    /// # Errors
    /// The lab's.
    pub(super) fn trace(
        &self,
        figure: &Figure,
        sides: &[Side],
        runner: &mut Runner<'_>,
    ) -> Result<Traced, BenchError> {
        let job = Job {
            workload: self.workload(),
            passes: sides.iter().map(|side| side.pass.clone()).collect(),
            patient: true,
        };
        let traced = self.lab.trace(&job, figure.case)?;
        complain(runner, figure.case, &traced.wrong());
        Ok(traced)
    }

    /// What rows about one execution of the operation are of.
    pub(super) fn shape(&self, figure: &Figure) -> Shape {
        Shape {
            case: figure.case,
            figure: figure.number,
            operation: self.operation().name(),
            team_size: 1,
            l1i: Some(self.judged),
            mode: Mode::Serial,
            points: "none",
        }
    }

    /// What rows of a side are of.
    pub(super) fn shape_of(&self, figure: &Figure, side: &Side, l1i: Option<L1i>) -> Shape {
        Shape::of(figure, self.operation().name(), side, l1i)
    }
}
