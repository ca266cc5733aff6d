//! Finds numbers among the rows of a run.

use crate::transactions::CORUN;
use lab_core::metric::RATIO;
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// The rows of one run.
#[derive(Clone, Copy)]
pub(super) struct View<'r>(pub(super) &'r [Row]);

/// A workload as one configuration of durability and workers ran it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Place<'r> {
    pub(super) case: &'r str,
    pub(super) durability: &'r str,
    pub(super) workers: f64,
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

impl<'r> View<'r> {
    /// The workloads that engines were compared on, in the order they came.
    pub(super) fn workloads(self) -> Vec<&'r str> {
        let mut found = Vec::new();
        for row in self.measured("tps") {
            push_new(&mut found, row.text("workload"));
        }
        found
    }

    /// Where a workload was run.
    pub(super) fn places(self, workload: &str) -> Vec<Place<'r>> {
        let mut found = Vec::new();
        for row in self
            .measured("tps")
            .filter(|row| row.text("workload") == workload)
        {
            let place = Place {
                case: &row.case,
                durability: row.text("durability"),
                workers: row.number("workers").unwrap_or_default(),
            };
            push_new(&mut found, place);
        }
        found
    }

    /// The engines that were measured, in the order they came.
    pub(super) fn engines(self) -> Vec<&'r str> {
        let mut found = Vec::new();
        for row in self.measured("tps") {
            push_new(&mut found, row.engine());
        }
        found
    }

    /// Measured rows of a metric.
    pub(super) fn measured(self, metric: &str) -> impl Iterator<Item = &'r Row> {
        self.0
            .iter()
            .filter(move |row| row.metric == metric && row.label == Label::Measured)
    }

    /// The spread of a metric of one engine in one case.
    pub(super) fn spread(self, case: &str, engine: &str, metric: &str) -> Option<Spread> {
        self.measured(metric)
            .find(|row| row.case == case && row.engine() == engine)
            .and_then(|row| row.spread)
    }

    /// Comparisons of our store with other engines.
    pub(super) fn ratios(self) -> impl Iterator<Item = &'r Row> {
        self.measured(RATIO)
            .filter(|row| row.parameter("control").is_none() && row.engine() == CORUN)
    }

    /// The comparison with one engine in one case.
    pub(super) fn ratio(self, case: &str, versus: &str) -> Option<&'r Row> {
        self.ratios()
            .find(|row| row.case == case && row.versus.as_deref() == Some(versus))
    }

    /// The noise of a case: the spread of our store against itself.
    pub(super) fn noise(self, case: &str) -> Option<(f64, f64)> {
        let row = self
            .measured(RATIO)
            .find(|row| row.case == case && row.parameter("control").is_some())?;
        Some((row.number("noise_low")?, row.number("noise_high")?))
    }
}
