//! Finds numbers among the rows of a run.

use crate::instruction_cache::rows::metric;
use lab_core::row::{Label, Row};

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

    /// Rows of a metric of a case; the A/A control is none.
    pub(super) fn metric(self, case: &str, metric: &str) -> impl Iterator<Item = &'r Row> {
        self.case(case)
            .filter(move |row| row.metric == metric && row.parameter("control").is_none())
    }

    /// Values of a metric by a numeric parameter, for the rows that are `wanted`.
    pub(super) fn by(
        self,
        case: &str,
        metric: &str,
        parameter: &str,
        wanted: impl Fn(&Row) -> bool,
    ) -> Points {
        let mut points: Points = self
            .metric(case, metric)
            .filter(|row| wanted(row))
            .filter_map(|row| Some((row.number(parameter)?, row.median()?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The value of a metric of the first row that is `wanted`.
    pub(super) fn value(self, case: &str, metric: &str, wanted: impl Fn(&Row) -> bool) -> Option<f64> {
        self.metric(case, metric)
            .find(|row| wanted(row))
            .and_then(Row::median)
    }

    /// Different texts of a parameter in a case, in the order they came.
    pub(super) fn texts(self, case: &str, parameter: &str) -> Vec<&'r str> {
        let mut found: Vec<&str> = Vec::new();
        for row in self.case(case) {
            let text = row.text(parameter);
            if !text.is_empty() && !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    /// The words for how the numbers of a case came about.
    pub(super) fn label_text(self, case: &str) -> String {
        let has = |label: Label| self.case(case).any(|row| row.label == label);
        match (has(Label::Measured), has(Label::Simulated)) {
            (true, true) => "Misses, mispredictions and instructions are simulated on the program's own trace; time is measured.",
            (true, false) => "Measured.",
            (false, true) => "Simulated on the program's own trace.",
            (false, false) => "",
        }
        .to_owned()
    }

    /// Bytes of code of one run of an operation.
    pub(super) fn footprint(self) -> Option<f64> {
        let mut rows = self.0.iter().filter(|row| row.metric == metric::FOOTPRINT);
        rows.find(|row| row.text("operation") == "index_fetch")
            .and_then(Row::median)
    }

    /// The instruction cache a case is judged at: the smallest it was simulated with.
    pub(super) fn judged(self, case: &str) -> Option<&'r str> {
        let bytes = |row: &Row| {
            let l1i: corun_model::teams::L1i = row.text("l1i").parse().ok()?;
            Some(l1i.bytes)
        };
        let rows = self
            .case(case)
            .filter_map(|row| Some((bytes(row)?, row.text("l1i"))));
        rows.min_by_key(|(bytes, _)| *bytes).map(|(_, l1i)| l1i)
    }

    /// The reduction of the largest team at the cache a case is judged at, in warm caches.
    pub(super) fn judged_reduction(self, case: &str) -> Option<(f64, &'r Row)> {
        let judged = self.judged(case)?;
        let rows = self.metric(case, metric::REDUCTION).filter(|row| {
            row.text("mode") == "held_team" && row.text("l1i") == judged && row.text("cache") == "warm"
        });
        rows.filter_map(|row| Some((row.median()?, row))).max_by(|a, b| {
            a.1.number("team_size")
                .unwrap_or(0.0)
                .total_cmp(&b.1.number("team_size").unwrap_or(0.0))
        })
    }
}
