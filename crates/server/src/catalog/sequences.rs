//! Sequences, as the system tables show them.

use super::rows::{Value, row};
use super::tables::{Rows, Source};

/// Columns of a sequence that is read as a table, with their types.
pub(super) const COLUMNS: &[(&str, i32)] = &[("last_value", 20), ("log_cnt", 20), ("is_called", 16)];

pub(super) fn pg_sequence(source: &Source<'_>) -> Rows {
    let rows = source.sequences.iter().map(|of| {
        row![
            of.oid,
            of.of.0,
            of.start,
            of.increment,
            of.limits.maximum,
            of.limits.minimum,
            of.cache,
            of.limits.cycles
        ]
    });
    rows.collect()
}

pub(super) fn pg_sequences(source: &Source<'_>) -> Rows {
    let owner = source.owner();
    let rows = source.sequences.iter().map(|of| {
        row![
            of.schema.clone(),
            of.name.clone(),
            owner.clone(),
            of.of.1,
            of.start,
            of.limits.minimum,
            of.limits.maximum,
            of.increment,
            of.limits.cycles,
            of.cache,
            of.last
        ]
    });
    rows.collect()
}

/// `information_schema.sequences`, whose numbers are texts.
pub(super) fn sequences(source: &Source<'_>) -> Vec<Vec<Value>> {
    let rows = source.sequences.iter().map(|of| {
        let bits = match of.of.1 {
            "smallint" => 16,
            "integer" => 32,
            _ => 64,
        };
        row![
            source.catalog,
            of.schema.clone(),
            of.name.clone(),
            of.of.1,
            bits,
            2,
            0,
            of.start.to_string(),
            of.limits.minimum.to_string(),
            of.limits.maximum.to_string(),
            of.increment.to_string(),
            if of.limits.cycles { "YES" } else { "NO" }
        ]
    });
    rows.collect()
}
