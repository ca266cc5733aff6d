//! [`Stage`]: what the parts of the figures about one operation share, and [`NamedPass`], one way to run it.

use corun_model::teams::L1i;

use super::geometry::half_of;
use super::job::{Job, Mode, Operation, Pass, Points, Workload};
use super::lab::{Lab, Traced};
use super::rows::{FigureRows, Shape};
use super::training::{Trained, profile};
use lab_core::error::BenchError;

/// Rounds of a traced pass: the first fills the caches, the others are counted.
pub(super) const ROUNDS: usize = 3;

/// The paper's team.
pub(super) const TEAM: usize = 10;

/// One way of running a workload, and how its rows name it.
pub(super) struct NamedPass {
    pub(super) pass: Pass,
    /// Which CTX points are on: `default`, `all`, `trial`; `none` without a scheduler.
    pub(super) points: &'static str,
}

impl NamedPass {
    /// A traced pass of so many members.
    pub(super) fn traced(mode: Mode, members: usize, (name, points): (&'static str, &Points)) -> NamedPass {
        let rounds = ROUNDS + usize::from(mode == Mode::Held);
        let pass = Pass::traced(mode, members, points, (20, rounds));
        NamedPass { pass, points: name }
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
    pub(super) fn by_trial(&self, l1i: L1i) -> Result<Points, BenchError> {
        Ok(profile(l1i, self.trained.by_trial(l1i)?))
    }

    /// Traces sides of a figure.
    pub(super) fn trace(
        &self,
        sides: &[NamedPass],
        out: &mut FigureRows<'_, '_>,
    ) -> Result<Traced, BenchError> {
        let job = Job {
            workload: self.workload(),
            passes: sides.iter().map(|side| side.pass.clone()).collect(),
            patient: true,
        };
        let traced = self.lab.trace(&job, out.figure.case)?;
        out.complain(&traced.wrong());
        Ok(traced)
    }

    /// What rows about one execution of the operation are of.
    pub(super) fn shape(&self, out: &FigureRows<'_, '_>) -> Shape {
        Shape {
            case: out.figure.case,
            figure: out.figure.number,
            operation: self.operation().name(),
            team_size: 1,
            l1i: Some(self.judged),
            mode: Mode::Serial,
            points: "none",
        }
    }
}
