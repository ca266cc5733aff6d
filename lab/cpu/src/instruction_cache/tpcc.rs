//! The figures about TPC-C: 13 (Payment), 14 (the mix without Delivery) and Table 4 (who enters and leaves the teams of Payment).
//!
//! Serial execution takes one terminal after the other, a transaction each, on one thread, so that nobody ever waits for a lock; a team
//! has all terminals as members. Points are those found for the operations of the microbenchmarks; nothing is trained on TPC-C, as in
//! the paper (section 4.2).

use std::collections::BTreeSet;

use corun_model::teams::{CtxSite, L1i};

use super::cores::{Cores, PerOperation};
use super::counted::{self, EVENTS};
use super::geometry::{PROCESSORS, Processor, TODAY};
use super::job::{Job, Mix, Mode, Operation, Pass, Points, Workload};
use super::lab::Lab;
use super::rows::{FigureRows, metric};
use super::stage::NamedPass;
use super::subject::Subject;
use super::timed;
use super::training::{Trained, profile};
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};

/// Terminals of a warehouse.
const TERMINALS: usize = 10;
/// The small cache that the judged footprint stands for beside the machine's own.
const SMALL: L1i = L1i {
    bytes: 16 << 10,
    ways: 8,
    line_bytes: 64,
};
/// Names of the operations of the store as statistics have them, at most so many lines a case.
const LINES_MAX: usize = 64;

/// The ways to choose points, by name; `autosteps` has what is found for any of the operations of a transaction.
pub(super) fn choices(lab: &Lab<'_>) -> Result<Vec<(&'static str, Points)>, BenchError> {
    let mut places: BTreeSet<CtxSite> = BTreeSet::new();
    for &operation in lab.choose::<&[_]>((&[Operation::Fetch], &Operation::ALL)) {
        places.extend(Trained::trace(lab, operation)?.by_knee(TODAY.l1i)?);
    }
    Ok(vec![
        ("default", Points::Default),
        ("all", Points::All),
        ("autosteps", profile(TODAY.l1i, places)),
    ])
}

/// Customers, orders and items of traced databases are divided: what is counted is code, and loading takes a while.
fn workload(lab: &Lab<'_>, mix: Mix, warehouses: i16) -> Workload {
    Workload::Tpcc {
        mix,
        warehouses,
        divisor: lab.choose((100, 10)),
    }
}

fn terminals(warehouses: i16) -> usize {
    usize::try_from(warehouses).unwrap_or(1) * TERMINALS
}

/// Misses by simulation, then time by measuring, of serial execution, of members that do not switch, and of teams by choice of points.
pub(super) fn transactions(
    lab: &Lab<'_>,
    (mix, warehouses): (Mix, i16),
    choices: &[(&'static str, Points)],
    out: &mut FigureRows<'_, '_>,
) -> Result<(), BenchError> {
    let members = terminals(warehouses);
    let keys = [("warehouses".to_owned(), Value::from(i64::from(warehouses)))];
    let sides = |pass: &dyn Fn(Mode, &Points) -> Pass| -> Vec<NamedPass> {
        let none = [Mode::Serial, Mode::ToCompletion].map(|mode| (mode, "none", &Points::Default));
        let teams = choices.iter().map(|(name, points)| (Mode::Team, *name, points));
        let side = |(mode, points, profile)| NamedPass {
            pass: pass(mode, profile),
            points,
        };
        none.into_iter().chain(teams).map(side).collect()
    };

    let [athlon_xp, pentium_3, ..] = PROCESSORS;
    let processors = [TODAY, Processor::with_l1i(SMALL), athlon_xp, pentium_3];
    let mut serial = vec![Vec::new(); processors.len()];
    // A fifty-thousandth of a second each untraced, a fifth of a second traced.
    let traced = lab.choose((10, 100));
    for side in sides(&|mode, points| Pass::traced(mode, members, points, (members * 4, traced))) {
        let job = Job {
            workload: workload(lab, mix, warehouses),
            passes: vec![side.pass.clone()],
            patient: true,
        };
        let what = format!(
            "tracing {} {warehouses} {}",
            out.figure.case,
            side.pass.mode.name()
        );
        lab.progress.begin(&what, 1);
        let mut cores = Cores::new(&processors)?;
        let streamed = lab.stream(&job, &mut cores);
        lab.progress.end();
        let wrong: Vec<String> = streamed?.0.into_iter().flat_map(|done| done.wrong).collect();
        out.complain(&wrong);
        for ((processor, counts), serial) in processors.iter().zip(cores.counts()).zip(&mut serial) {
            let shape = out.shape(mix.name(), &side, Some(processor.l1i));
            let counted = [PerOperation::of(counts, traced as u64)];
            let rows = counted::rows(&shape, EVENTS, serial, &counted, wrong.is_empty());
            let rows = rows
                .into_iter()
                .filter(|row| row.metric != metric::MEMBER_REDUCTION);
            out.emit(rows.map(|row| row.with_all(&keys).with("processor", processor.name)));
        }
    }

    lab.progress
        .begin(&format!("timing {} {warehouses}", out.figure.case), 1);
    let subject = Subject::load(workload(lab, mix, warehouses), false)?;
    let rounds = lab.choose((50, 5_000));
    let sides = sides(&|mode, points| Pass::timed(mode, members, points, (members, rounds)));
    timed::contest(&subject, &sides, mix.name(), &keys, out)?;
    lab.progress.end();
    Ok(())
}

/// Table 4: members that enter and leave the teams of each operation.
pub(super) fn team_members(
    lab: &Lab<'_>,
    warehouses: i16,
    out: &mut FigureRows<'_, '_>,
) -> Result<(), BenchError> {
    let members = terminals(warehouses);
    let rounds = lab.choose((100, 50_000));
    let side = NamedPass {
        pass: Pass::timed(Mode::Team, members, &Points::Default, (members * 10, rounds)),
        points: "default",
    };
    let done = Subject::load(workload(lab, Mix::Payment, warehouses), false)?.pass(&side.pass)?;
    out.complain(&done.wrong);
    let ok = done.wrong.is_empty();
    let shape = out.shape(Mix::Payment.name(), &side, None);
    let warehouses = i64::from(warehouses);
    let mut all = (0, 0, 0);
    let mut average = |step: &str, (teams, entered, left): (u64, u64, u64)| {
        for (name, sum) in [(metric::TEAM_IN, entered), (metric::TEAM_OUT, left)] {
            let row = shape.measured(name, &[sum as f64 / teams.max(1) as f64], ok);
            let dress = |row: Row| {
                row.with("step", step)
                    .with("warehouses", warehouses)
                    .with("teams", teams)
            };
            out.emit(row.map(dress));
        }
    };
    for line in done.teams.iter().take(LINES_MAX).filter(|line| line.teams > 0) {
        all = (all.0 + line.teams, all.1 + line.entered, all.2 + line.left);
        average(&line.operation, (line.teams, line.entered, line.left));
    }
    average("average", all);
    if let Some(ready) = done.ready {
        let row = shape.measured("ready_members", &[ready], ok);
        out.emit(row.map(|row| row.with("warehouses", warehouses)));
    }
    Ok(())
}
