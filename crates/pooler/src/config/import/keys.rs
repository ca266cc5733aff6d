//! PgBouncer's settings that have no counterpart here: what they meant, and what to do instead.
//!
//! Settings with a counterpart have its name, so they are not listed. Covers PgBouncer 1.18 to 1.25.

/// Settings of `[pgbouncer]`, `[databases]` and `[users]` without counterpart: a name and an advice each line.
const WITHOUT_COUNTERPART: &str = include_str!("without_counterpart.txt");

/// What to do instead of a setting of PgBouncer that has no counterpart; `None` for every other name.
pub fn advice(name: &str) -> Option<&'static str> {
    let mut lines = WITHOUT_COUNTERPART
        .lines()
        .filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| *known == name).map(|(_, advice)| advice)
}
