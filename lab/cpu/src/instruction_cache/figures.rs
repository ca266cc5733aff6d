//! Which cases there are, and what each needs.

use std::path::Path;

use super::geometry::TODAY;
use super::job::{Mix, Points};
use super::lab::Lab;
use super::stage::Stage;
use super::{fetches, operations, tpcc};
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

/// Every case, in the order of the paper.
pub const CASES: [&str; 12] = [
    TABLE_2, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_13, TABLE_4, FIGURE_14,
    FIGURE_16, FIGURE_17,
];

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
    let plan = runner.plan();
    let lab = Lab::new(program, quick, runner.progress())?;
    if wanted(TABLE_2) {
        operations::table_2(&lab, TABLE_2, runner)?;
    }
    type Figure = fn(&Stage<'_>, &'static str, &mut Runner<'_>) -> Result<(), BenchError>;
    let of_fetches: [(&'static str, Figure); 8] = [
        (FIGURE_5, fetches::figure_5),
        (FIGURE_6, fetches::figure_6),
        (FIGURE_7, fetches::figure_7),
        (FIGURE_8, fetches::figure_8),
        (FIGURE_9, fetches::figure_9),
        (FIGURE_10, fetches::figure_10),
        (FIGURE_16, fetches::figure_16),
        (FIGURE_17, fetches::figure_17),
    ];
    if of_fetches.iter().any(|(case, _)| wanted(case)) {
        let stage = Stage::new(&lab, plan)?;
        for (case, figure) in of_fetches.iter().filter(|(case, _)| wanted(case)) {
            figure(&stage, case, runner)?;
        }
    }
    if wanted(TABLE_4) {
        let warehouses: &[i16] = if quick { &[1] } else { &[10, 20, 30] };
        tpcc::table_4(&lab, TABLE_4, warehouses, runner)?;
    }
    let figures = [
        (FIGURE_13, "13", "payment", Mix::Payment, &[10, 20, 30][..]),
        (FIGURE_14, "14", "no_delivery", Mix::NoDelivery, &[10, 20][..]),
    ];
    let figures = figures.iter().filter(|(case, ..)| wanted(case));
    let mut points = Vec::new();
    for (case, figure, operation, mix, warehouses) in figures {
        if points.is_empty() {
            points.push(("default", Points::Default));
            points.push(("all", Points::All));
            points.push(("autosteps", tpcc::points(&lab, TODAY.l1i)?));
        }
        let case = tpcc::Case {
            name: case,
            figure,
            operation,
            mix: *mix,
        };
        let warehouses = if quick { &[1] } else { *warehouses };
        tpcc::figure(&lab, &case, warehouses, &points, plan, runner)?;
    }
    Ok(())
}
