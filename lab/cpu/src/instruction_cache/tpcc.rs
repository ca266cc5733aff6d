//! The figures about TPC-C: 13 (Payment), 14 (the mix without Delivery) and Table 4 (who enters and leaves the teams of Payment).
//!
//! Serial execution takes one terminal after the other, a transaction each, on one thread, so that nobody ever waits for a lock; a team
//! has all terminals as members. Points are those found for the operations of the microbenchmarks; nothing is trained on TPC-C, as in
//! the paper (section 4.2).

use std::collections::BTreeSet;

use corun_cachesim::core::Counts;
use corun_model::teams::{CtxSite, Knee, L1i};

use super::cores::{Cores, PerOperation};
use super::fetches::events;
use super::geometry::{PROCESSORS, Processor, TODAY};
use super::job::{Job, Mix, Mode, Operation, Pass, Points, Workload};
use super::lab::Lab;
use super::rows::{Shape, metric};
use super::stage::{complain, emit, reductions, rows_of_table};
use super::subject::Subject;
use super::timed::{Contestant, contest};
use super::training::{Trained, profile};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};

/// Terminals of a warehouse.
const TERMINALS: usize = 10;
/// The small cache that the judged footprint stands for beside the machine's own.
const SMALL: L1i = L1i {
    bytes: 16 << 10,
    ways: 8,
    line_bytes: 64,
};
/// Customers, orders and items of traced databases are divided by it: what is counted is code, and loading takes a while.
const DIVISOR: i32 = 10;
/// Transactions of a trace: a fifty-thousandth of a second each untraced, a fifth of a second traced.
const TRACED: usize = 100;
const TRACED_QUICK: usize = 10;
/// Names of the operations of the store as statistics have them, at most so many lines a case.
const LINES_MAX: usize = 64;

/// A case of TPC-C.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) figure: &'static str,
    pub(super) operation: &'static str,
    pub(super) mix: Mix,
}

/// Points for a cache: those that autosteps finds for any of the operations of a transaction.
///
/// # Errors
/// The lab's and the simulation's.
pub(super) fn points(lab: &Lab<'_>, l1i: L1i) -> Result<Points, BenchError> {
    let mut places: BTreeSet<CtxSite> = BTreeSet::new();
    let operations: &[Operation] = if lab.quick {
        &[Operation::Fetch]
    } else {
        &Operation::ALL
    };
    for &operation in operations {
        let trained = Trained::trace(lab, operation, rows_of_table(lab.quick))?;
        let on = trained.by_knee(l1i, Knee::default())?;
        places.extend(trained.places(&on));
    }
    Ok(profile(l1i, Knee::default(), places))
}

fn workload(lab: &Lab<'_>, mix: Mix, warehouses: i16) -> Workload {
    Workload::Tpcc {
        mix,
        warehouses,
        divisor: if lab.quick { 100 } else { DIVISOR },
    }
}

/// Runs a figure: misses by simulation, time by measuring, for some numbers of warehouses; `team_lines` adds Table 4.
///
/// # Errors
/// The lab's, the store's.
pub(super) fn figure(
    lab: &Lab<'_>,
    case: &Case,
    warehouses: &[i16],
    points: &[(&'static str, Points)],
    plan: Plan,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let [athlon_xp, pentium_3, ..] = PROCESSORS;
    let processors = [TODAY, Processor::with_l1i(SMALL), athlon_xp, pentium_3];
    for &count in warehouses {
        let terminals = usize::try_from(count).unwrap_or(1) * TERMINALS;
        let mut serial: Vec<PerOperation> = Vec::new();
        let sides = [
            (Mode::Serial, &Points::Default, "none"),
            (Mode::ToCompletion, &Points::Default, "none"),
        ]
        .into_iter()
        .chain(points.iter().map(|(name, points)| (Mode::Team, points, *name)));
        for (mode, points, name) in sides {
            let pass = Pass {
                mode,
                members: terminals,
                points: points.clone(),
                rounds: if lab.quick { TRACED_QUICK } else { TRACED },
                warm_up: terminals * 4,
                float: false,
                marked: true,
            };
            let job = Job {
                workload: workload(lab, case.mix, count),
                passes: vec![pass.clone()],
                patient: true,
            };
            lab.progress
                .begin(&format!("tracing {} {count} {}", case.name, mode.name()), 1);
            let mut cores = Cores::new(&processors)?;
            let streamed = lab.stream(&job, &mut cores);
            lab.progress.end();
            let (done, _) = streamed?;
            let wrong: Vec<String> = done.iter().flat_map(|done| done.wrong.clone()).collect();
            complain(runner, case.name, &wrong);
            let counted: Vec<Counts> = cores.counts();
            let per_operation: Vec<PerOperation> = counted
                .iter()
                .map(|counts| PerOperation::of(*counts, pass.rounds as u64))
                .collect();
            for (at, processor) in processors.iter().enumerate() {
                let shape = Shape {
                    case: case.name,
                    figure: case.figure,
                    operation: case.operation,
                    team_size: terminals,
                    l1i: Some(processor.l1i),
                    mode,
                    points: name,
                };
                let dress = |row: Row| {
                    row.with("warehouses", i64::from(count))
                        .with("processor", processor.name)
                };
                let ok = wrong.is_empty();
                let these = &per_operation[at..=at];
                emit(runner, events(&shape, these, ok).into_iter().map(dress));
                if mode != Mode::Serial {
                    let rows = reductions(&shape, &serial[at..=at], these, ok);
                    let whole = rows.into_iter().filter(|row| row.metric == metric::REDUCTION);
                    emit(runner, whole.map(dress));
                }
            }
            if mode == Mode::Serial {
                serial = per_operation;
            }
        }
        timed(lab, case, count, points, plan, runner)?;
    }
    Ok(())
}

/// Measured time, and Table 4 from what is run anyway.
fn timed(
    lab: &Lab<'_>,
    case: &Case,
    warehouses: i16,
    points: &[(&'static str, Points)],
    plan: Plan,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let terminals = usize::try_from(warehouses).unwrap_or(1) * TERMINALS;
    let side = |mode: Mode, points: &Points, name: &'static str| {
        let pass = Pass {
            mode,
            members: terminals,
            points: points.clone(),
            rounds: if lab.quick { 50 } else { 5_000 },
            warm_up: terminals,
            float: false,
            marked: false,
        };
        Contestant {
            shape: Shape {
                case: case.name,
                figure: case.figure,
                operation: case.operation,
                team_size: terminals,
                l1i: None,
                mode,
                points: name,
            },
            pass,
            float: false,
        }
    };
    let mut sides = vec![
        side(Mode::Serial, &Points::Default, "none"),
        side(Mode::ToCompletion, &Points::Default, "none"),
    ];
    sides.extend(points.iter().map(|(name, points)| side(Mode::Team, points, name)));
    lab.progress
        .begin(&format!("timing {} {warehouses}", case.name), 1);
    let subject = Subject::load(workload(lab, case.mix, warehouses), false)?;
    let (rows, wrong) = contest(&subject, &sides, plan)?;
    let dress = |row: Row| row.with("warehouses", i64::from(warehouses));
    emit(runner, rows.into_iter().map(dress));
    complain(runner, case.name, &wrong);
    lab.progress.end();
    Ok(())
}

/// Table 4: members that enter and leave the teams of each operation.
///
/// # Errors
/// The store's.
pub(super) fn table_4(
    lab: &Lab<'_>,
    case: &'static str,
    warehouses: &[i16],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    for &count in warehouses {
        let terminals = usize::try_from(count).unwrap_or(1) * TERMINALS;
        let pass = Pass {
            mode: Mode::Team,
            members: terminals,
            points: Points::Default,
            rounds: if lab.quick { 100 } else { 50_000 },
            warm_up: terminals * 10,
            float: false,
            marked: false,
        };
        let done = Subject::load(workload(lab, Mix::Payment, count), false)?.pass(&pass)?;
        complain(runner, case, &done.wrong);
        let ok = done.wrong.is_empty();
        let shape = Shape {
            case,
            figure: "table4",
            operation: "payment",
            team_size: terminals,
            l1i: None,
            mode: Mode::Team,
            points: "default",
        };
        let mut all = (0, 0, 0);
        for line in done.teams.iter().take(LINES_MAX).filter(|line| line.teams > 0) {
            all = (all.0 + line.teams, all.1 + line.entered, all.2 + line.left);
            emit(
                runner,
                in_and_out(
                    &shape,
                    count,
                    &line.operation,
                    (line.teams, line.entered, line.left),
                    ok,
                ),
            );
        }
        emit(runner, in_and_out(&shape, count, "average", all, ok));
        if let Some(ready) = done.ready {
            let row = shape.measured("ready_members", &[ready], ok);
            emit(runner, row.map(|row| row.with("warehouses", i64::from(count))));
        }
    }
    Ok(())
}

fn in_and_out(
    shape: &Shape,
    warehouses: i16,
    step: &str,
    (teams, entered, left): (u64, u64, u64),
    ok: bool,
) -> Vec<Row> {
    let average = |sum: u64| sum as f64 / teams.max(1) as f64;
    let rows = [(metric::TEAM_IN, entered), (metric::TEAM_OUT, left)].map(|(name, sum)| {
        shape.measured(name, &[average(sum)], ok).map(|row| {
            row.with("step", step)
                .with("warehouses", i64::from(warehouses))
                .with("teams", teams)
        })
    });
    rows.into_iter().flatten().collect()
}
