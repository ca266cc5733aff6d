//! The parameters of every row of the `llc` suite, under the names that scripts rely on.

use corun_model::units::Bytes;

use lab_core::row::Row;

/// The name of the suite in rows.
pub const SUITE: &str = "llc";

/// Time beside others over time alone; above 1 is slower.
pub const SLOWDOWN: &str = "slowdown";

/// The policy of queries that are pinned side by side, without anybody choosing who runs beside whom.
pub const PINNED: &str = "pinned";

/// The co-runner of a query that has none.
pub const ALONE: &str = "alone";

/// The ways of a cache that is not partitioned by ways.
pub const ALL_WAYS: &str = "all";

/// All stable parameters of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// The case; `--case` selects by it.
    pub case: &'static str,
    /// The paper's figure, table or section, or the name of an experiment it has none for.
    pub figure: &'static str,
    /// What runs together, such as `hash/index`.
    pub mix: String,
    /// Who chooses what runs together: [`PINNED`] or a policy.
    pub policy: String,
    /// `strong`, `moderate`, `weak`, or `all` of a mix.
    pub class: String,
    /// `none` or `streaming`.
    pub partition: &'static str,
    /// What runs beside, or [`ALONE`].
    pub corunner: String,
    /// Whose operators.
    pub engine: &'static str,
    /// The query, or what stands for several.
    pub query: String,
    /// `C`.
    pub cache: Bytes,
}

impl Keys {
    /// Adds the parameters to a row.
    pub fn put(&self, row: Row) -> Row {
        row.with("figure", self.figure)
            .with("mix", self.mix.as_str())
            .with("policy", self.policy.as_str())
            .with("class", self.class.as_str())
            .with("partition", self.partition)
            .with("corunner", self.corunner.as_str())
            .with("ways", ALL_WAYS)
            .with("engine", self.engine)
            .with("query", self.query.as_str())
            .with("cache_bytes", self.cache.0)
    }

    /// A row that cannot be had, with the reason.
    pub fn unavailable(&self, metric: &str, unit: &str, reason: &str) -> Row {
        self.put(Row::unavailable(SUITE, self.case, metric, unit, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_stable_keys_in_their_order() {
        let keys = Keys {
            case: "fig4_hash",
            figure: "4",
            mix: "hash/index".to_owned(),
            policy: PINNED.to_owned(),
            class: "moderate".to_owned(),
            partition: "none",
            corunner: "index_plq25".to_owned(),
            engine: "corun",
            query: "hash_plq5".to_owned(),
            cache: Bytes::mib(4),
        };
        let row = keys.unavailable(SLOWDOWN, "x", "a test");
        let names: Vec<&str> = row.parameters.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "reason figure mix policy class partition corunner ways engine query cache_bytes"
        );
    }
}
