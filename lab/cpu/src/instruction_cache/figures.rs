//! The paper's figures and tables as data, and [`run`], which makes those that are wanted.

use std::path::Path;

use super::counted::{self, Counted, EVENTS, L1I_MISSES};
use super::job::{Mix, Mode, Operation};
use super::lab::Lab;
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
pub(super) struct Figure {
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
    /// Anything else.
    Other(fn(&Stage<'_>, &Figure, &mut Runner<'_>) -> Result<(), BenchError>),
}

const FETCH: ByRun<Operation> = (&[Operation::Fetch], &[Operation::Fetch]);
const ONE_TEAM: ByRun<usize> = (&[TEAM], &[TEAM]);
const TO_ONE_TEAM: ByRun<usize> = (&[1, TEAM], &[1, 2, 3, 4, 5, 6, 7, 8, 9, TEAM]);
const TO_EIGHT_TEAMS: ByRun<usize> = (&[2, 20], &[2, 4, 8, 10, 20, 40, 60, 80]);
const TEAMS: &[(Mode, &str)] = &[
    (Mode::Serial, "none"),
    (Mode::Team, "trial"),
    (Mode::Held, "trial"),
];

/// All of them, in the order in which they are made.
const FIGURES: &[Figure] = &[
    Figure {
        case: TABLE_2,
        number: "table2",
        parts: Parts::Operations(
            (&[Operation::Fetch, Operation::Insert], &Operation::ALL),
            &[
                Part::Other(operations::footprint),
                Part::Other(operations::instructions),
                Part::Other(operations::overlaps),
                Part::Counted(Counted {
                    members: ONE_TEAM,
                    sides: &[
                        (Mode::Serial, "none"),
                        (Mode::ToCompletion, "none"),
                        (Mode::Team, "trial"),
                    ],
                    metrics: L1I_MISSES,
                    cores: counted::judged_and_today,
                }),
            ],
        ),
    },
    // Misses by team size, cold and warm.
    Figure {
        case: FIGURE_5,
        number: "5",
        parts: Parts::Operations(
            FETCH,
            &[
                Part::Other(operations::footprint),
                Part::Counted(Counted {
                    members: TO_ONE_TEAM,
                    sides: &[
                        (Mode::Serial, "none"),
                        (Mode::ToCompletion, "trial"),
                        (Mode::Team, "trial"),
                        (Mode::Held, "trial"),
                    ],
                    metrics: L1I_MISSES,
                    cores: counted::warm_and_cold,
                }),
            ],
        ),
    },
    // Time and data misses of one to ten members.
    Figure {
        case: FIGURE_6,
        number: "6",
        parts: Parts::Operations(
            FETCH,
            &[
                Part::Counted(Counted {
                    members: TO_ONE_TEAM,
                    sides: TEAMS,
                    metrics: EVENTS,
                    cores: counted::judged,
                }),
                Part::Other(|stage, figure, runner| operations::timed(stage, figure, TO_ONE_TEAM, runner)),
            ],
        ),
    },
    // The same of 2 to 80 members.
    Figure {
        case: FIGURE_7,
        number: "7",
        parts: Parts::Operations(
            FETCH,
            &[
                Part::Counted(Counted {
                    members: TO_EIGHT_TEAMS,
                    sides: TEAMS,
                    metrics: EVENTS,
                    cores: counted::judged,
                }),
                Part::Other(|stage, figure, runner| operations::timed(stage, figure, TO_EIGHT_TEAMS, runner)),
            ],
        ),
    },
    Figure {
        case: FIGURE_8,
        number: "8",
        parts: Parts::Operations(FETCH, &[Part::Other(points::figure_8)]),
    },
    Figure {
        case: FIGURE_9,
        number: "9",
        parts: Parts::Operations(
            FETCH,
            &[Part::Counted(Counted {
                members: ONE_TEAM,
                sides: TEAMS,
                metrics: EVENTS,
                cores: counted::processors,
            })],
        ),
    },
    Figure {
        case: FIGURE_10,
        number: "10",
        parts: Parts::Operations(
            FETCH,
            &[Part::Counted(Counted {
                members: ONE_TEAM,
                sides: TEAMS,
                metrics: L1I_MISSES,
                cores: counted::sizes_and_ways,
            })],
        ),
    },
    Figure {
        case: FIGURE_16,
        number: "16",
        parts: Parts::Operations(FETCH, &[Part::Other(points::figure_16)]),
    },
    Figure {
        case: FIGURE_17,
        number: "17",
        parts: Parts::Operations(FETCH, &[Part::Other(points::figure_17)]),
    },
    Figure {
        case: TABLE_4,
        number: "table4",
        parts: Parts::TeamMembers((&[1], &[10, 20, 30])),
    },
    Figure {
        case: FIGURE_13,
        number: "13",
        parts: Parts::Transactions(Mix::Payment, (&[1], &[10, 20, 30])),
    },
    Figure {
        case: FIGURE_14,
        number: "14",
        parts: Parts::Transactions(Mix::NoDelivery, (&[1], &[10, 20])),
    },
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
        match &figure.parts {
            Parts::Operations(operations, parts) => {
                for &operation in lab.choose(*operations) {
                    let stage = match last
                        .take()
                        .filter(|stage: &Stage<'_>| stage.operation() == operation)
                    {
                        Some(stage) => stage,
                        None => Stage::new(&lab, operation)?,
                    };
                    stage.complain(figure, runner);
                    for part in *parts {
                        match part {
                            Part::Counted(counted) => counted.emit(&stage, figure, runner)?,
                            Part::Other(part) => part(&stage, figure, runner)?,
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
                    tpcc::transactions(&lab, figure, (*mix, warehouses), &choices, runner)?;
                }
            }
            Parts::TeamMembers(warehouses) => {
                for &warehouses in lab.choose(*warehouses) {
                    tpcc::team_members(&lab, figure, warehouses, runner)?;
                }
            }
        }
    }
    Ok(())
}
