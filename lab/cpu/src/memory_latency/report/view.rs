//! Finds numbers among the rows of a run.

use crate::memory_latency::keys::AUTO;
use lab_core::row::{Label, Row, Value};
use lab_core::stats::Spread;

/// The rows of one run.
#[derive(Clone, Copy)]
pub(super) struct View<'r>(pub(super) &'r [Row]);

/// Points of a line: horizontal and vertical.
pub(super) type Points = Vec<(f64, f64)>;

impl<'r> View<'r> {
    /// The rows of a case.
    pub(super) fn case(self, case: &str) -> impl Iterator<Item = &'r Row> {
        self.0.iter().filter(move |row| row.case == case)
    }

    /// Whether a case has rows.
    pub(super) fn has(self, case: &str) -> bool {
        self.case(case).next().is_some()
    }

    /// The ratios of a case versus serial, in the order they were run, with their modes; the A/A control is not one.
    pub(super) fn ratios(self, case: &str) -> impl Iterator<Item = (&'r Row, Spread)> {
        self.case(case)
            .filter(|row| {
                row.metric == "ratio"
                    && row.versus.as_deref() == Some("serial")
                    && row.parameter("control").is_none()
            })
            .filter_map(|row| Some((row, row.spread?)))
    }

    /// The median ratio of a fixed mode versus serial.
    pub(super) fn ratio(self, case: &str, mode: &str) -> Option<f64> {
        let mut found = self.ratios(case).filter(|(row, _)| row.text("mode") == mode);
        found.next().map(|(_, spread)| spread.median)
    }

    /// The best ratio of a set with this helper, of all its sizes.
    pub(super) fn best_set(self, case: &str, helper: &str) -> Option<f64> {
        let sets = self
            .ratios(case)
            .filter(|(row, _)| set_of(row).is_some_and(|(_, other)| other == helper));
        sets.map(|(_, spread)| spread.median).max_by(f64::total_cmp)
    }

    /// Values of a metric by size of the set, for one helper; `wanted` narrows the rows.
    pub(super) fn by_size(
        self,
        case: &str,
        metric: &str,
        helper: &str,
        wanted: impl Fn(&Row) -> bool,
    ) -> Points {
        let mut points: Points = self
            .case(case)
            .filter(|row| row.metric == metric && wanted(row))
            .filter_map(|row| {
                let (lines, other) = set_of(row)?;
                (other == helper).then_some((lines, row.median()?))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The value of a metric for one mode.
    pub(super) fn value(
        self,
        case: &str,
        metric: &str,
        mode: &str,
        wanted: impl Fn(&Row) -> bool,
    ) -> Option<f64> {
        let mut found = self
            .case(case)
            .filter(|row| row.metric == metric && row.text("mode") == mode && wanted(row));
        found.next().and_then(Row::median)
    }

    /// The machines that misses of a case were simulated on: name and placement, each once.
    pub(super) fn machines(self, case: &str) -> Vec<(&'r str, &'r str)> {
        let mut machines = Vec::new();
        for row in self.case(case).filter(|row| row.label == Label::Simulated) {
            let machine = (row.text("hierarchy"), row.text("placement"));
            if !machine.0.is_empty() && !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        machines
    }

    /// Why something of a case is unavailable.
    pub(super) fn unavailable(self, case: &str) -> Option<&'r str> {
        let mut rows = self.case(case).filter(|row| row.label == Label::Unavailable);
        rows.next().map(|row| row.text("reason"))
    }
}

/// Size and helper of the work-ahead set a row is about, if its mode is one: `(128.0, "backward-spin")`. Not for autos, whose mode
/// is a choice.
pub(super) fn set_of(row: &Row) -> Option<(f64, &str)> {
    let (_, helper) = row.text("mode").split_once("workahead")?.1.split_once('-')?;
    match row.parameter("entries")? {
        Value::Integer(lines) if row.text("mode") != AUTO => Some((*lines as f64, helper)),
        _ => None,
    }
}
