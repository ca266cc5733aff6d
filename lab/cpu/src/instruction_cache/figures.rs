//! The paper's figures and tables as data, and [`run`], which makes those that are wanted.

use std::path::Path;

use super::counted::{self, Cores, Counted, EVENTS, L1I_MISSES, Metric, Sides};
use super::job::{Mix, Mode, Operation};
use super::lab::Lab;
use super::rows::FigureRows;
use super::stage::{Stage, TEAM};
use super::{operations, points, tpcc};
use lab_core::error::BenchError;
use lab_core::run::Runner;

pub(super) const FIGURE_5: &str = "fig5_index_fetch";
pub(super) const FIGURE_6: &str = "fig6_index_fetch";
pub(super) const FIGURE_7: &str = "fig7_index_fetch";
pub(super) const FIGURE_8: &str = "fig8_index_fetch";
pub(super) const FIGURE_9: &str = "fig9_index_fetch";
pub(super) const FIGURE_10: &str = "fig10_index_fetch";
pub(super) const FIGURE_13: &str = "fig13_payment";
pub(super) const FIGURE_14: &str = "fig14_no_delivery";
pub(super) const FIGURE_16: &str = "fig16_index_fetch";
pub(super) const FIGURE_17: &str = "fig17_index_fetch";
pub(super) const TABLE_2: &str = "table2_operations";
pub(super) const TABLE_4: &str = "table4_payment";

/// What a quick run takes, and what any other does.
pub(super) type ByRun<T> = (&'static [T], &'static [T]);

/// One of the paper's figures and tables.
pub(super) struct PaperFigure {
    /// The case that makes it.
    pub(super) case: &'static str,
    /// Its number in the paper: `5`, `table4`.
    pub(super) number: &'static str,
    parts: Parts,
}

/// What a figure is made of.
enum Parts {
    /// These of each operation of the store.
    Operations(ByRun<Operation>, &'static [Part]),
    /// Misses and time of TPC-C's transactions, by warehouses.
    Transactions(Mix, ByRun<i16>),
    /// Who enters and leaves the teams of Payment, by warehouses.
    TeamMembers(ByRun<i16>),
}

/// Rows about an operation.
enum Part {
    /// What passes miss on simulated cores.
    Counted(Counted),
    /// What passes of teams of these sizes take.
    Timed(ByRun<usize>),
    /// Anything else.
    Other(fn(&Stage<'_>, &mut FigureRows<'_, '_>) -> Result<(), BenchError>),
}

const fn figure(case: &'static str, number: &'static str, parts: Parts) -> PaperFigure {
    PaperFigure { case, number, parts }
}

/// A figure about index fetches.
const fn fetches(case: &'static str, number: &'static str, parts: &'static [Part]) -> PaperFigure {
    let fetch = &[Operation::Fetch];
    figure(case, number, Parts::Operations((fetch, fetch), parts))
}

const fn counted(members: ByRun<usize>, sides: Sides, metrics: &'static [Metric], cores: Cores) -> Part {
    Part::Counted(Counted {
        members,
        sides,
        metrics,
        cores,
    })
}

const OPERATIONS: ByRun<Operation> = (&[Operation::Fetch, Operation::Insert], &Operation::ALL);
const ONE_TEAM: ByRun<usize> = (&[TEAM], &[TEAM]);
const TO_ONE_TEAM: ByRun<usize> = (&[1, TEAM], &[1, 2, 3, 4, 5, 6, 7, 8, 9, TEAM]);
const TO_EIGHT_TEAMS: ByRun<usize> = (&[2, 20], &[2, 4, 8, 10, 20, 40, 60, 80]);

const SERIAL: (Mode, &str) = (Mode::Serial, "none");
/// Of any operation: only fetches can have a team that stays together.
const ANY_OPERATION: Sides = &[SERIAL, (Mode::ToCompletion, "none"), (Mode::Team, "trial")];
const TEAMS: Sides = &[SERIAL, (Mode::Team, "trial"), (Mode::Held, "trial")];
const ALL_MODES: Sides = &[
    SERIAL,
    (Mode::ToCompletion, "trial"),
    (Mode::Team, "trial"),
    (Mode::Held, "trial"),
];

/// All of them, in the order in which they are made.
const FIGURES: &[PaperFigure] = &[
    figure(
        TABLE_2,
        "table2",
        Parts::Operations(
            OPERATIONS,
            &[
                Part::Other(operations::footprint),
                Part::Other(operations::instructions),
                Part::Other(operations::overlaps),
                counted(ONE_TEAM, ANY_OPERATION, L1I_MISSES, counted::judged_and_today),
            ],
        ),
    ),
    // Misses by team size, cold and warm.
    fetches(
        FIGURE_5,
        "5",
        &[
            Part::Other(operations::footprint),
            counted(TO_ONE_TEAM, ALL_MODES, L1I_MISSES, counted::warm_and_cold),
        ],
    ),
    // Time and data misses of one to ten members, and of 2 to 80.
    fetches(
        FIGURE_6,
        "6",
        &[
            counted(TO_ONE_TEAM, TEAMS, EVENTS, counted::judged),
            Part::Timed(TO_ONE_TEAM),
        ],
    ),
    fetches(
        FIGURE_7,
        "7",
        &[
            counted(TO_EIGHT_TEAMS, TEAMS, EVENTS, counted::judged),
            Part::Timed(TO_EIGHT_TEAMS),
        ],
    ),
    fetches(FIGURE_8, "8", &[Part::Other(points::figure_8)]),
    fetches(
        FIGURE_9,
        "9",
        &[counted(ONE_TEAM, TEAMS, EVENTS, counted::processors)],
    ),
    fetches(
        FIGURE_10,
        "10",
        &[counted(ONE_TEAM, TEAMS, L1I_MISSES, counted::sizes_and_ways)],
    ),
    fetches(FIGURE_16, "16", &[Part::Other(points::figure_16)]),
    fetches(FIGURE_17, "17", &[Part::Other(points::figure_17)]),
    figure(TABLE_4, "table4", Parts::TeamMembers((&[1], &[10, 20, 30]))),
    figure(
        FIGURE_13,
        "13",
        Parts::Transactions(Mix::Payment, (&[1], &[10, 20, 30])),
    ),
    figure(
        FIGURE_14,
        "14",
        Parts::Transactions(Mix::NoDelivery, (&[1], &[10, 20])),
    ),
];

/// Every case.
pub fn cases() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|figure| figure.case)
}

/// Runs the cases that are wanted. `program` is the subject to trace, instead of a copy of this program.
///
/// # Errors
/// When the subject cannot be traced, or the store fails.
pub fn run(
    wanted: &dyn Fn(&str) -> bool,
    quick: bool,
    program: Option<&Path>,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let lab = Lab::new(program, quick, runner.progress())?;
    let (mut last, mut choices) = (None, Vec::new());
    for figure in FIGURES.iter().filter(|figure| wanted(figure.case)) {
        let out = &mut FigureRows { figure, runner };
        match &figure.parts {
            Parts::Operations(operations, parts) => {
                for &operation in lab.choose(*operations) {
                    let traced = last
                        .take()
                        .filter(|stage: &Stage<'_>| stage.operation() == operation);
                    let stage = traced.map_or_else(|| Stage::new(&lab, operation), Ok)?;
                    out.complain(&stage.trained.wrong);
                    for part in *parts {
                        match part {
                            Part::Counted(counted) => counted.emit(&stage, out)?,
                            Part::Timed(members) => operations::timed(&stage, *members, out)?,
                            Part::Other(part) => part(&stage, out)?,
                        }
                    }
                    last = Some(stage);
                }
            }
            Parts::Transactions(mix, warehouses) => {
                if choices.is_empty() {
                    choices = tpcc::choices(&lab)?;
                }
                for &warehouses in lab.choose(*warehouses) {
                    tpcc::transactions(&lab, (*mix, warehouses), &choices, out)?;
                }
            }
            Parts::TeamMembers(warehouses) => {
                for &warehouses in lab.choose(*warehouses) {
                    tpcc::team_members(&lab, warehouses, out)?;
                }
            }
        }
        out.runner.cases_are_finished();
    }
    Ok(())
}
