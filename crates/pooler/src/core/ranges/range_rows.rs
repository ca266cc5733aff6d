//! Rows of the console about ranges of keys.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use corun_model::units::CpuId;

use crate::admin::{KeyRow, RangeRow, SplitRow};
use crate::core::console::ask::Part;
use crate::core::ranges::Ranges;
use crate::keys::Column;

fn sorted(all: &HashMap<Arc<str>, Arc<Ranges>>) -> BTreeMap<&str, &Ranges> {
    all.iter().map(|(name, ranges)| (&**name, &**ranges)).collect()
}

/// `SHOW RANGES`; `on`: whether keys decide now in a database.
pub(in crate::core) fn ranges(
    all: &HashMap<Arc<str>, Arc<Ranges>>,
    cpus: &[CpuId],
    on: impl Fn(&str) -> bool,
) -> Vec<RangeRow> {
    let mut rows = Vec::new();
    for (database, ranges) in sorted(all) {
        let state = if on(database) { "on" } else { "off" };
        for domain in &ranges.domains {
            let view = domain.view();
            let sum: u64 = view.statements.iter().sum();
            for (worker, &statements) in view.statements.iter().enumerate() {
                let (from, to) = view.map.bounds_of(worker);
                rows.push(RangeRow {
                    name: domain.name.clone(),
                    database: database.to_owned(),
                    worker: worker as u64,
                    cpu: cpus.get(worker).map(|cpu| u64::from(cpu.0)),
                    from: from.map(|key| key.to_string()),
                    to: to.map(|key| key.to_string()),
                    buckets: view.map.buckets_of(worker).len() as u64,
                    query_count: statements,
                    percent: (statements * 100).checked_div(sum).unwrap_or(0),
                    state: state.to_owned(),
                });
            }
        }
    }
    rows
}

/// `SHOW SPLITS`: each event loop has its own.
pub(in crate::core) fn splits(parts: &[Part]) -> Vec<SplitRow> {
    parts
        .iter()
        .flat_map(|part| part.splits.iter().cloned())
        .collect()
}

/// `SHOW KEYS`.
pub(in crate::core) fn keys(all: &HashMap<Arc<str>, Arc<Ranges>>) -> Vec<KeyRow> {
    let mut rows = Vec::new();
    for (database, ranges) in sorted(all) {
        for domain in &ranges.domains {
            let view = domain.view();
            let observed: Vec<String> = view.observed.iter().map(i64::to_string).collect();
            let columns: Vec<String> = domain.columns.iter().map(Column::to_string).collect();
            rows.push(KeyRow {
                name: domain.name.clone(),
                database: database.to_owned(),
                columns: columns.join(","),
                key_type: domain.key_type().word().to_owned(),
                query_count: view.statements.iter().sum(),
                overflow_count: domain.overflowed.load(Ordering::Relaxed),
                move_count: view.moves,
                observed: observed.join(","),
            });
        }
    }
    rows
}
