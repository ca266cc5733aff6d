//! Rows of the suite: one noun, [`Shape`], says what a number is of.

use corun_model::teams::L1i;

use super::figures::PaperFigure;
use super::job::Mode;
use super::stage::NamedPass;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// The suite's name.
pub const SUITE: &str = "steps";

/// Metrics.
pub mod metric {
    /// Simulated misses of the level-one instruction cache, an operation.
    pub const L1I: &str = "l1i_misses_per_op";
    /// Of the level-one data cache.
    pub const L1D: &str = "l1d_misses_per_op";
    /// Of level two, instructions and data.
    pub const L2: &str = "l2_misses_per_op";
    /// Branches predicted wrongly, an operation.
    pub const MISPREDICTS: &str = "branch_mispredicts_per_op";
    /// Instructions, an operation.
    pub const INSTRUCTIONS: &str = "instructions_per_op";
    /// Passages of CTX points that switch, an operation.
    pub const CTX_CALLS: &str = "ctx_calls_per_op";
    /// Simulated instruction misses from one passage of a CTX point to the next, an operation.
    pub const SEGMENT: &str = "segment_l1i_misses_per_op";
    /// Misses of a whole team that serial execution has and it has not.
    pub const REDUCTION: &str = "reduction_percent";
    /// The same for each member but the first.
    pub const MEMBER_REDUCTION: &str = "member_reduction_percent";
    /// Time of an operation with its transaction.
    pub const NS: &str = "ns_per_op";
    /// Time of the other side over this one's.
    pub const RATIO: &str = "ratio";
    /// Distinct code lines of one operation, in bytes.
    pub const FOOTPRINT: &str = "footprint_bytes";
    /// Share of an operation's code lines that another one ran too.
    pub const OVERLAP: &str = "overlap_percent";
    /// Members that entered a team, on average.
    pub const TEAM_IN: &str = "team_in";
    /// Members that left one without having become stray, on average.
    pub const TEAM_OUT: &str = "team_out";
}

/// What a number is of: the parameters that every row of the suite has.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The case.
    pub case: &'static str,
    /// The paper's figure or table: `5`, `table4`.
    pub figure: &'static str,
    /// The operation: `index_fetch`, `payment`.
    pub operation: &'static str,
    /// Members of the team, or clients one after the other.
    pub team_size: usize,
    /// The simulated instruction cache; none where time is measured.
    pub l1i: Option<L1i>,
    /// How they took turns.
    pub mode: Mode,
    /// Which CTX points were on: `default`, `all`, `autosteps`; `none` without a scheduler.
    pub points: &'static str,
}

impl Shape {
    fn dress(&self, row: Row) -> Row {
        let l1i = self.l1i.map_or_else(|| "here".to_owned(), |l1i| l1i.to_string());
        row.with("figure", self.figure)
            .with("operation", self.operation)
            .with("team_size", self.team_size)
            .with("l1i", l1i)
            .with("mode", self.mode.name())
            .with("points", self.points)
    }

    /// A row of simulated numbers; none if there are none.
    pub fn simulated(&self, metric: &str, values: &[f64], ok: bool) -> Option<Row> {
        let spread = Spread::of(values)?;
        Some(self.dress(Row::simulated(SUITE, self.case, metric, unit(metric), spread, ok)))
    }

    /// A row of measured numbers; none if there are none.
    pub fn measured(&self, metric: &str, values: &[f64], ok: bool) -> Option<Row> {
        let spread = Spread::of(values)?;
        Some(self.dress(Row::measured(SUITE, self.case, metric, unit(metric), spread, ok)))
    }
}

/// Where the rows of a figure go.
pub(super) struct FigureRows<'s, 'r> {
    pub(super) figure: &'static PaperFigure,
    pub(super) runner: &'s mut Runner<'r>,
}

impl FigureRows<'_, '_> {
    /// What rows of a side are of.
    pub(super) fn shape(&self, operation: &'static str, side: &NamedPass, l1i: Option<L1i>) -> Shape {
        Shape {
            case: self.figure.case,
            figure: self.figure.number,
            operation,
            team_size: side.pass.members,
            l1i,
            mode: side.pass.mode,
            points: side.points,
        }
    }

    /// Emits rows.
    pub(super) fn emit(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.runner.emit(row));
    }

    /// Fails the run with sentences about what was answered wrongly.
    pub(super) fn complain(&mut self, wrong: &[String]) {
        for sentence in wrong.iter().take(5) {
            self.runner
                .fail(format!("steps {}: {sentence}", self.figure.case));
        }
    }
}

/// The unit of a metric.
fn unit(metric: &str) -> &'static str {
    match metric {
        metric::REDUCTION | metric::MEMBER_REDUCTION | metric::OVERLAP => "%",
        metric::NS => "ns",
        metric::RATIO => "x",
        metric::FOOTPRINT => "bytes",
        metric::INSTRUCTIONS => "instructions",
        metric::CTX_CALLS => "calls",
        metric::TEAM_IN | metric::TEAM_OUT => "members",
        metric::MISPREDICTS => "mispredictions",
        _ => "misses",
    }
}

/// Percent of `before` that `after` is less; below 0 it is more.
pub fn reduction_percent(before: f64, after: f64) -> f64 {
    (1.0 - after / before) * 100.0
}

/// The largest reduction a team of this size can have: its leading member misses as if alone (section 3.4.1).
pub fn bound_percent(team_size: usize) -> f64 {
    let members = team_size.max(1) as f64;
    (members - 1.0) / members * 100.0
}

/// Misses of each member but the first: what a team misses beyond one member alone.
pub fn additional_member(team_total: f64, alone: f64, team_size: usize) -> Option<f64> {
    (team_size > 1).then(|| (team_total - alone) / (team_size - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_arithmetic() {
        // Section 3.4.1: 373 misses a thread warm, 33 for each additional one, ten threads.
        let team = 373.0 + 9.0 * 33.0;
        assert!((reduction_percent(3730.0, team) - 82.0).abs() < 0.1);
        assert_eq!(bound_percent(10), 90.0);
        assert_eq!(additional_member(team, 373.0, 10), Some(33.0));
        assert_eq!(additional_member(team, 373.0, 1), None);
    }

    #[test]
    fn rows_have_the_stable_keys() {
        let shape = Shape {
            case: "fig5_index_fetch",
            figure: "5",
            operation: "index_fetch",
            team_size: 10,
            l1i: Some("32k/8/64".parse().expect("a cache")),
            mode: Mode::Team,
            points: "default",
        };
        let row = shape.simulated(metric::L1I, &[3.0], true).expect("a row");
        let json = row.to_json();
        assert!(
            json.contains(r#""label":"simulated","figure":"5","operation":"index_fetch","team_size":10,"l1i":"32k/8/64","mode":"team""#),
            "{json}"
        );
        assert!(shape.measured(metric::NS, &[], true).is_none());
    }
}
