//! Finds numbers among the rows of a run.

use crate::shared_cache::engines::Kind;
use crate::shared_cache::keys::{ALONE, SLOWDOWN};
use crate::shared_cache::statement::Statement;
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// The rows of one run.
#[derive(Clone, Copy)]
pub(super) struct View<'r>(pub(super) &'r [Row]);

impl<'r> View<'r> {
    /// The rows of a figure, all cases of it.
    pub(super) fn figure(self, figure: &str) -> impl Iterator<Item = &'r Row> {
        self.0.iter().filter(move |row| row.text("figure") == figure)
    }

    /// Measured slow-downs of a figure beside somebody, in the order they came.
    pub(super) fn slowdowns(self, figure: &str) -> impl Iterator<Item = (&'r Row, Spread)> {
        self.figure(figure)
            .filter(|row| {
                row.metric == SLOWDOWN && row.label == Label::Measured && row.text("corunner") != ALONE
            })
            .filter_map(|row| Some((row, row.spread?)))
    }

    /// The median slow-down of a target beside a co-runner.
    pub(super) fn slowdown(
        self,
        figure: &str,
        kind: Kind,
        target: Statement,
        corunner: Statement,
    ) -> Option<f64> {
        let (target, corunner) = (target.to_string(), corunner.to_string());
        let mut found = self.slowdowns(figure).filter(|(row, _)| {
            is_of(row, kind) && row.text("query") == target && row.text("corunner") == corunner
        });
        found.next().map(|(_, spread)| spread.median)
    }

    /// The median milliseconds of a target alone.
    pub(super) fn alone(self, figure: &str, kind: Kind, target: Statement) -> Option<f64> {
        let target = target.to_string();
        let mut found = self.figure(figure).filter(|row| {
            row.metric == "ms"
                && is_of(row, kind)
                && row.text("query") == target
                && row.text("corunner") == ALONE
        });
        found.next().and_then(Row::median)
    }

    /// Why something of a figure is unavailable.
    pub(super) fn unavailable(self, figure: &str) -> Vec<&'r str> {
        let mut reasons: Vec<&str> = Vec::new();
        for row in self.figure(figure).filter(|row| row.label == Label::Unavailable) {
            let reason = row.text("reason");
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    /// `C` in MiB.
    pub(super) fn cache_mib(self) -> Option<f64> {
        let bytes = self.0.iter().find_map(|row| row.number("cache_bytes"))?;
        Some(bytes / f64::from(1 << 20))
    }
}

/// Whether a row is about the operators of a kind.
pub(super) fn is_of(row: &Row, kind: Kind) -> bool {
    row.text("engine") == kind.engine() && row.text("partition") == kind.partition()
}

/// The words for a kind of operators.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Stock => "DataFusion's operators",
        Kind::Corun => "corun's operators",
        Kind::Streaming => "corun's operators, streaming",
    }
}
