//! Table 2: the store's operations, how much code they run, how much of it transactions share, and what a team saves on each.

use super::geometry::{Processor, TODAY, half_of};
use super::job::{Job, Mode, Operation, Pass, Points, Workload};
use super::lab::{Lab, Traced};
use super::rows::{Shape, metric};
use super::stage::{
    Caches, TEAM, beside_serial, complain, emit, footprint_bytes, l1i_misses, pass, rows_of_table,
};
use super::training::{Trained, profile};
use corun_model::teams::Knee;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;

/// Rows of the table that is not the same: its tree has fewer levels.
const OTHER_ROWS: u32 = 60;

/// Traces every operation.
///
/// # Errors
/// The lab's.
pub(super) fn table_2(lab: &Lab<'_>, case: &'static str, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let rows = rows_of_table(lab.quick);
    let operations: &[Operation] = if lab.quick {
        &[Operation::Fetch, Operation::Insert]
    } else {
        &Operation::ALL
    };
    for &operation in operations {
        let trained = Trained::trace(lab, operation, rows)?;
        complain(runner, case, &trained.wrong);
        let footprint = footprint_bytes(&trained);
        let judged = half_of(footprint);
        let shape = Shape {
            case,
            figure: "table2",
            operation: operation.name(),
            team_size: 1,
            l1i: Some(judged),
            mode: Mode::Serial,
            points: "none",
        };
        let ok = trained.wrong.is_empty();
        emit(
            runner,
            shape.simulated(metric::FOOTPRINT, &[footprint as f64], ok),
        );
        let instructions = trained.code.fetches().len() as f64;
        emit(runner, shape.simulated(metric::INSTRUCTIONS, &[instructions], ok));
        overlaps(lab, &shape, operation, rows, runner)?;

        let mut caches = vec![judged];
        if judged != TODAY.l1i {
            caches.push(TODAY.l1i);
        }
        let on = trained.by_trial(judged)?;
        let points = profile(judged, Knee::default(), trained.places(&on));
        let passes = [Mode::Serial, Mode::ToCompletion, Mode::Team].map(|mode| pass(mode, TEAM, &points));
        let job = Job {
            workload: workload(operation, rows, 0),
            passes: passes.to_vec(),
            patient: true,
        };
        let traced = lab.trace(&job, operation.name())?;
        complain(runner, case, &traced.wrong());
        for l1i in caches {
            let core = Processor::with_l1i(l1i);
            let shape_of = |pass: &Pass| Shape {
                team_size: TEAM,
                mode: pass.mode,
                points: if pass.mode == Mode::Team { "trial" } else { "none" },
                ..shape.clone()
            };
            let rows = beside_serial((&traced, &passes), (&core, Caches::Warm), shape_of, l1i_misses)?;
            emit(runner, rows);
        }
    }
    Ok(())
}

fn workload(operation: Operation, rows: u32, other_rows: u32) -> Workload {
    Workload::Operation {
        operation,
        rows,
        other_rows,
    }
}

/// How much of the code of one execution another one runs too: on the same table, and on one whose tree is less high.
fn overlaps(
    lab: &Lab<'_>,
    shape: &Shape,
    operation: Operation,
    rows: u32,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let members = 4;
    let job = Job {
        workload: workload(operation, rows, OTHER_ROWS),
        passes: vec![Pass {
            rounds: 1,
            ..pass(Mode::Serial, members, &Points::Default)
        }],
        patient: true,
    };
    let traced = lab.trace(&job, operation.name())?;
    complain(runner, shape.case, &traced.wrong());
    let ok = traced.passes[0].done.wrong.is_empty();
    // Members work on the two tables in turns.
    for (with, pairs) in [
        ("same_table", [(0, 2), (1, 3)]),
        ("other_table", [(0, 1), (2, 3)]),
    ] {
        let shares: Vec<f64> = pairs
            .iter()
            .filter_map(|&(a, b)| shared_percent(&traced, a, b))
            .collect();
        let row = shape.simulated(metric::OVERLAP, &shares, ok);
        emit(runner, row.map(|row: Row| row.with("with", with)));
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
