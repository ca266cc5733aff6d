//! Hash joins: figures 6(b), 7(b), 9, 14 and 15, and corun's own table beside the paper's.

use std::cell::RefCell;

use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads};

use super::Pass;
use super::lab::{Lab, Shape};
use super::modes::{self, BI, TECHNIQUES, prefetched};
use super::stands::{FIG6B, FIG7B, FIG9, FIG14A, FIG14B, FIG15, TABLES};
use super::table2::Table2;
use crate::memory_latency::contest::{Entrant, hold};
use crate::memory_latency::data::{ColumnInput, RowInput};
use crate::memory_latency::joins::{ColumnarJoin, RowJoin};
use crate::memory_latency::subject::Subject;
use lab_core::error::BenchError;
use lab_core::run::Runner;

/// Random keys on both sides: a probe finds a partner with probability 1 - 1/e.
const HIT_RATE: f64 = 0.632;

/// Runs the selected cases.
///
/// # Errors
/// When there is no memory, or a simulation fails.
pub fn run(pass: &Pass<'_>, table2: &mut Table2, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    rows(pass, table2, runner)?;
    columns(pass, table2, runner)
}

/// Probe row, bucket, one cell on average, build row; chains differ in length.
pub fn shape(join: &RowJoin<'_>) -> Shape {
    Shape {
        table_bytes: join.table_bytes(),
        references: 4.0,
        hit_rate: HIT_RATE,
        even: false,
    }
}

fn rows(pass: &Pass<'_>, table2: &mut Table2, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (lab, sizes) = (pass.lab, pass.set_sizes());
    let independent = pass.times(FIG6B) || pass.traces(FIG7B);
    if !pass.wants(&[FIG6B, FIG14A, FIG14B, TABLES], &[FIG7B, FIG15]) {
        return Ok(());
    }
    let inputs = pass
        .inputs(independent)
        .iter()
        .map(|&seed| RowInput::new(seed, pass.sizes.rows, pass.sizes.row_probes))
        .collect::<Result<Vec<_>, _>>()?;
    {
        let mut join = RowJoin::paper(&inputs)?;
        let shape = shape(&join);
        if let Some(held) = pass.contest(FIG6B, &mut join, &modes::throughput(), shape, runner) {
            table2.rows(&held);
        }
        pass.misses(FIG7B, &mut join, &TECHNIQUES, runner)?;
        pass.contest(FIG14A, &mut join, &modes::by_size(&sizes), shape, runner);
        pass.interference(FIG14B, &mut join, |join| join.array(), runner)?;
        pass.misses(FIG15, &mut join, &modes::by_size_alone(&sizes), runner)?;
    }
    if pass.times(TABLES) {
        tables_beside(lab, &inputs[..1], runner)?;
    }
    Ok(())
}

/// The modes that both layouts are run in.
const LAYOUT_MODES: [Mode; 7] = [
    Mode::PLAIN,
    Mode::staged(Threads::One, Hiding::None),
    prefetched(Threads::One, Schedule::Group, 32),
    prefetched(Threads::One, Schedule::Amac, 16),
    modes::plain(BI),
    prefetched(BI, Schedule::Group, 32),
    prefetched(BI, Schedule::Amac, 16),
];

/// What the layout is worth and what the mode is worth: the paper's table, serial first, beside corun's.
fn tables_beside(lab: &Lab<'_>, inputs: &[RowInput], runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (mut paper, mut corun) = (RowJoin::paper(inputs)?, RowJoin::corun(inputs)?);
    // A line of the table instead of bucket and cell.
    let shape = Shape {
        table_bytes: corun.table_bytes(),
        references: 3.0,
        ..shape(&corun)
    };
    let tuples = paper.tuples();
    let (paper, corun) = (
        RefCell::new(&mut paper as &mut dyn Subject),
        RefCell::new(&mut corun as &mut dyn Subject),
    );
    let mut stand = TABLES;
    let mut entrants: Vec<Entrant<'_>> = LAYOUT_MODES
        .iter()
        .map(|&mode| lab.entrant(stand, &paper, mode))
        .collect();
    stand.layout = "corun_rows";
    entrants.extend(LAYOUT_MODES.iter().map(|&mode| lab.entrant(stand, &corun, mode)));
    entrants.extend(lab.autos(stand, &corun, shape));
    hold(entrants, tuples, runner);
    Ok(())
}

fn columns(pass: &Pass<'_>, table2: &mut Table2, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !pass.times(FIG9) {
        return Ok(());
    }
    let (build, probes) = (pass.sizes.column_rows, pass.sizes.column_probes);
    let inputs = super::SEEDS
        .iter()
        .map(|&seed| ColumnInput::new(seed, build, probes))
        .collect::<Result<Vec<_>, _>>()?;
    let mut join = ColumnarJoin::new(&inputs)?;
    let shape = Shape {
        table_bytes: join.table_bytes(),
        references: 3.0,
        hit_rate: HIT_RATE,
        even: false,
    };
    let held = pass
        .lab
        .contest(FIG9, &mut join, &modes::throughput(), shape, runner);
    table2.columns(&held);
    Ok(())
}
