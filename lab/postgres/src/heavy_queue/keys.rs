//! The parameters of every row of the suite `heavy-queue`, under the names that scripts rely on.

use corun_model::cache::locality::Footprint;
use corun_model::units::Bytes;

use super::SUITE;
use super::sizes::Sizes;
use lab_core::metric::parameters;
use lab_core::row::{Row, Value};
use lab_core::stats::Spread;

/// Time beside others over time alone; above 1 is slower.
pub const SLOWDOWN: &str = "slowdown";
/// Seconds from the first query of a mix to the end of the last.
pub const MIX_SECONDS: &str = "mix_seconds";
/// The policy of backends that are pinned side by side, without anybody choosing who runs beside whom.
pub const PINNED: &str = "pinned";
/// The co-runner of a query that has none.
pub const ALONE: &str = "alone";

/// Whose operators all queries run by.
const ENGINE: &str = "postgres";

/// All stable parameters of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// The case; `--case` selects by it.
    pub case: &'static str,
    /// `fig1`, `fig2`, `fig4`, `fig5`, `fig6`, `s7.3`, `s7.4`, or the name of an experiment the paper has none for.
    pub figure: &'static str,
    /// The query, or what stands for several.
    pub query: String,
    /// What runs beside, or [`ALONE`], or `mix`.
    pub corunner: String,
    /// `direct` or `corun`.
    pub target: &'static str,
    /// Who chooses what runs together: [`PINNED`] or a policy.
    pub policy: String,
    /// `on` or `off`.
    pub plan_choice: &'static str,
    /// `strong`, `moderate`, `weak`, or `all` of a mix.
    pub class: String,
    /// `none`, or how the cache is divided.
    pub partition: &'static str,
    /// `C`.
    pub cache: Bytes,
}

impl Keys {
    /// Of a case and a figure, about everything that runs; the rest is filled in by whoever knows it.
    pub fn new(case: &'static str, figure: &'static str, cache: Bytes) -> Keys {
        Keys {
            case,
            figure,
            query: "all".to_owned(),
            corunner: "mix".to_owned(),
            target: "direct",
            policy: PINNED.to_owned(),
            plan_choice: "off",
            class: "all".to_owned(),
            partition: "none",
            cache,
        }
    }

    /// Adds the parameters to a row.
    pub fn put(&self, row: Row) -> Row {
        row.with_all(&self.parameters())
    }

    /// A row of what was measured; `None` of no values.
    pub fn measured(&self, metric: &str, unit: &str, values: &[f64], ok: bool) -> Option<Row> {
        let row = Row::measured(SUITE, self.case, metric, unit, Spread::of(values)?, ok);
        Some(self.put(row))
    }

    /// A row of a simulated value. A wrong answer leaves nothing that could be simulated.
    pub fn simulated(&self, metric: &str, unit: &str, value: f64) -> Option<Row> {
        let spread = Spread::of(&[value])?;
        Some(self.put(Row::simulated(SUITE, self.case, metric, unit, spread, true)))
    }

    /// A row that cannot be had, with the reason.
    pub fn unavailable(&self, metric: &str, unit: &str, reason: &str) -> Row {
        self.put(Row::unavailable(SUITE, self.case, metric, unit, reason))
    }

    /// All of them, in their order.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        parameters([
            ("figure", self.figure.into()),
            ("query", self.query.as_str().into()),
            ("corunner", self.corunner.as_str().into()),
            ("engine", ENGINE.into()),
            ("target", self.target.into()),
            ("policy", self.policy.as_str().into()),
            ("plan_choice", self.plan_choice.into()),
            ("class", self.class.as_str().into()),
            ("partition", self.partition.into()),
            ("cache_bytes", self.cache.0.into()),
        ])
    }
}

/// What a query keeps in the cache: its first two hash tables, as the paper counts them, or nothing.
pub fn footprint(tables: &[u64]) -> Footprint {
    match tables {
        [] => Footprint::Streams,
        tables => Footprint::Tables(Bytes(tables.iter().take(2).sum())),
    }
}

/// The word for the class of hash tables of these sizes.
pub fn class_of(tables: &[u64], sizes: &Sizes) -> String {
    sizes.class(footprint(tables)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_stable_keys_in_their_order() {
        let keys = Keys::new("ceiling", "fig4", Bytes::mib(8));
        let names: Vec<String> = keys.parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names.join(" "),
            "figure query corunner engine target policy plan_choice class partition cache_bytes"
        );
        assert_eq!(keys.unavailable("slowdown", "x", "why").text("reason"), "why");
    }

    #[test]
    fn two_tables_count_and_no_table_is_weak() {
        let sizes = Sizes::of(Bytes::mib(8), 1.0).expect("a possible cache");
        assert_eq!(footprint(&[1, 2, 4]), Footprint::Tables(Bytes(3)));
        assert_eq!(class_of(&[8 << 20], &sizes), "moderate");
        assert_eq!(class_of(&[], &sizes), "weak");
    }
}
