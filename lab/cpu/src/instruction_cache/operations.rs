//! What the figures and Table 2 say of an operation besides simulated misses: how much code it runs, how much of that executions share, and
//! what it takes.

use super::figures::ByRun;
use super::job::{Job, Mode, Pass, Points};
use super::lab::Traced;
use super::rows::{FigureRows, metric};
use super::stage::{NamedPass, Stage};
use super::subject::Subject;
use super::timed;
use lab_core::error::BenchError;

/// Rows of the table that is not the same: its tree has fewer levels.
const OTHER_ROWS: u32 = 60;

/// A row for the operation's footprint, which others are judged by.
pub(super) fn footprint(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    one(
        stage,
        metric::FOOTPRINT,
        stage.trained.footprint_bytes() as f64,
        out,
    )
}

/// A row for the instructions of one execution.
pub(super) fn instructions(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let instructions = stage.trained.code.fetches().len() as f64;
    one(stage, metric::INSTRUCTIONS, instructions, out)
}

fn one(stage: &Stage<'_>, metric: &str, value: f64, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let row = stage
        .shape(out)
        .simulated(metric, &[value], stage.trained.wrong.is_empty());
    out.emit(row);
    Ok(())
}

/// How much of the code of one execution another one runs too: on the same table, and on one whose tree is less high.
pub(super) fn overlaps(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let job = Job {
        workload: stage.lab.workload(stage.operation(), OTHER_ROWS),
        passes: vec![Pass::traced(Mode::Serial, 4, &Points::Default, (20, 1))],
        patient: true,
    };
    let traced = stage.lab.trace(&job, out.figure.case)?;
    out.complain(&traced.wrong());
    // Members work on the two tables in turns.
    for (with, pairs) in [
        ("same_table", [(0, 2), (1, 3)]),
        ("other_table", [(0, 1), (2, 3)]),
    ] {
        let shares: Vec<f64> = pairs
            .iter()
            .filter_map(|&(a, b)| shared_percent(&traced, a, b))
            .collect();
        let row = stage
            .shape(out)
            .simulated(metric::OVERLAP, &shares, traced.passes[0].ok());
        out.emit(row.map(|row| row.with("with", with)));
    }
    Ok(())
}

/// Percent of the first stretch's lines that the second has.
fn shared_percent(traced: &Traced, a: usize, b: usize) -> Option<f64> {
    let round = traced.passes[0].rounds.first()?;
    let lines = |at: usize| Some(traced.kept.lines(round.get(at)?.clone(), 64));
    let (a, b) = (lines(a)?, lines(b)?);
    Some(a.intersection(&b).count() as f64 / a.len().max(1) as f64 * 100.0)
}

/// Time by team size: without points, with those that a program has, with those found by trial.
pub(super) fn timed(
    stage: &Stage<'_>,
    members: ByRun<usize>,
    out: &mut FigureRows<'_, '_>,
) -> Result<(), BenchError> {
    let trial = stage.by_trial(stage.judged)?;
    let subject = Subject::load(stage.workload(), false)?;
    let (sizes, progress) = (stage.lab.choose(members), stage.lab.progress);
    progress.begin(&format!("timing {}", out.figure.case), sizes.len() as u64);
    for &size in sizes {
        let side = |mode, name, points| timed_side(stage, mode, size, (name, points));
        let mut with_floats = side(Mode::Team, "default", &Points::Default);
        with_floats.pass.float = true;
        let sides = [
            side(Mode::Serial, "none", &Points::Default),
            side(Mode::ToCompletion, "default", &Points::Default),
            side(Mode::Team, "default", &Points::Default),
            with_floats,
            side(Mode::Team, "trial", &trial),
        ];
        timed::contest(&subject, &sides, stage.operation().name(), &[], out)?;
        progress.advance(1);
    }
    progress.end();
    Ok(())
}

/// A side whose timed part takes about ten milliseconds.
pub(super) fn timed_side(
    stage: &Stage<'_>,
    mode: Mode,
    members: usize,
    (name, points): (&'static str, &Points),
) -> NamedPass {
    let operations = stage.lab.choose((200, 20_000));
    let each = |operations: usize| (operations / members).max(1);
    let pass = Pass::timed(mode, members, points, (each(operations / 10), each(operations)));
    NamedPass { pass, points: name }
}
