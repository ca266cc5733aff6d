//! Proposals for `[ranges.NAME]`.

use std::collections::{BTreeMap, BTreeSet};

use super::domains::{Domain, domains};
use super::schema::Place;
use super::spread::{Spread, Value};
use super::{Database, Findings, Proposal, RangeProposal, Share, ask};
use crate::admin::KeyRow;
use crate::config::KeyType;
use crate::keys::Column;
use crate::preflight::or_refusal;
use crate::talk::{Conversation, TalkError};

/// Domains proposed for one database. More would cut the same tables by other keys, and each core would have all of them again.
const DOMAINS_MAX: usize = 3;
/// Buckets of a worker: what is moved at once when loads change is so small a part of what it has. Unmeasured.
const BUCKETS: usize = 8;
/// Columns of a domain whose statistics are asked for.
const COLUMNS_MAX: usize = 16;
/// A part of the statements from which a domain is proposed whatever its size.
const KEYED_PART_MIN: f64 = 0.1;
/// A part of the database's bytes below which it is not, otherwise.
const BYTES_PART_MIN: f64 = 0.02;
/// Keys seen that count as much as all that statistics say. Unmeasured.
const SEEN_HALF: f64 = 1000.0;

/// How the keys of a domain are spread.
struct Keys {
    key_type: KeyType,
    /// By rows of the largest table.
    rows: Spread,
    /// By statements, where the proxy has seen some.
    seen: Option<(Spread, u64)>,
    /// By rows of each table.
    of: BTreeMap<Place, Spread>,
    source: String,
}

/// Proposes the best domains of a database.
///
/// # Errors
/// The server does not answer.
pub(super) fn propose(
    findings: &mut Findings<'_>,
    database: &Database<'_>,
    seen: &[KeyRow],
    talk: &mut Conversation,
) -> Result<(), TalkError> {
    let (schema, statements) = (&database.schema, &database.statements);
    let (name, workers) = (database.name, database.workers);
    let all_bytes: u64 = schema.tables.iter().map(|table| table.bytes).sum();
    let part = |some: u64, all: u64| (all > 0).then(|| some as f64 / all as f64);
    let mut covered: BTreeSet<usize> = BTreeSet::new();
    let mut proposed = 0;
    for domain in &domains(schema, statements) {
        if proposed == DOMAINS_MAX {
            break;
        }
        let keyed_part = part(domain.keyed, statements.calls);
        let often = keyed_part.is_some_and(|part| part >= KEYED_PART_MIN);
        let small = part(domain.bytes, all_bytes).is_none_or(|part| part < BYTES_PART_MIN);
        let largest = domain.largest(schema);
        if !often && (small || covered.contains(&largest.table)) {
            continue;
        }
        let columns: Vec<(Place, String)> = domain
            .columns
            .iter()
            .filter_map(|&place| Some((place, schema.shown(place)?)))
            .collect();
        let about = columns.first().map(|(_, name)| name.clone()).unwrap_or_default();
        let keys = match keys(database, seen, domain, &columns, talk)? {
            Ok(keys) => keys,
            Err(why) => {
                findings.remark(name, format!("no range of {about}: {why}"));
                continue;
            }
        };
        let load = match &keys.seen {
            Some((asked, count)) => keys
                .rows
                .mixed(asked, *count as f64 / (*count as f64 + SEEN_HALF)),
            None => keys.rows.clone(),
        };
        let cuts = load.cuts(workers, BUCKETS);
        if cuts.is_empty() {
            findings.remark(name, format!("no range of {about}: nearly all of it has one key"));
            continue;
        }
        if cuts.len() + 1 < workers {
            let text = format!(
                "the range of {about} leaves some of {workers} workers without keys: some keys have more than a worker's share"
            );
            findings.remark(name, text);
        }
        let (replaced, columns) = names(findings, name, columns);
        let Some(root) = columns.first() else {
            continue;
        };
        let replaces = replaced.is_some();
        let name = replaced.unwrap_or_else(|| findings.name(&schema.table(domain.root).name));
        tracing::debug!(%name, %root, "a range is proposed");
        covered.extend(keys.of.keys().map(|place| place.table));
        proposed += 1;
        let proposal = RangeProposal {
            replaces,
            name,
            database: database.name.to_owned(),
            columns,
            key_type: keys.key_type,
            splits: cuts.iter().map(|cut| cut.text.clone()).collect(),
            keyed_part,
            workers: shares(database, largest, &keys, &cuts),
            source: keys.source,
        };
        findings.learnt.proposals.push(Proposal::Range(proposal));
    }
    if proposed == 0 {
        findings.remark(
            name,
            "no range is proposed: no keys were found that many tables share, or that many statements name",
        );
    }
    Ok(())
}

/// The range that is there already, which the columns take the place of, and those of them that are in no other.
fn names(
    findings: &Findings<'_>,
    database: &str,
    columns: Vec<(Place, String)>,
) -> (Option<String>, Vec<String>) {
    let own = |name: &str| -> Option<&String> {
        let column = Column::parse(name)?;
        let mut ranges = findings.config.ranges.iter();
        let (name, _) = ranges.find(|(_, range)| {
            let known = range.columns.iter().filter_map(|text| Column::parse(text));
            range.database == database
                && known
                    .into_iter()
                    .any(|known| column.is(known.schema.as_deref(), &known.table, &known.column))
        })?;
        Some(name)
    };
    let replaced = columns.iter().find_map(|(_, name)| own(name)).cloned();
    let columns = columns.into_iter().map(|(_, name)| name);
    let free = columns.filter(|name| own(name).is_none_or(|range| Some(range) == replaced.as_ref()));
    (replaced.clone(), free.collect())
}

/// What is known of a domain's keys, or why nothing is.
fn keys(
    database: &Database<'_>,
    seen: &[KeyRow],
    domain: &Domain,
    columns: &[(Place, String)],
    talk: &mut Conversation,
) -> Result<Result<Keys, String>, TalkError> {
    let (schema, workers) = (&database.schema, database.workers);
    let largest = domain.largest(schema);
    let column = schema.column(largest);
    let Some(key_type) = column.kind else {
        return Ok(Err("the type has no keys".to_owned()));
    };
    let mut led: Vec<Place> = domain
        .columns
        .iter()
        .copied()
        .filter(|&place| schema.column(place).leads)
        .collect();
    led.sort_by_key(|place| (*place != largest, std::cmp::Reverse(schema.table(*place).bytes)));
    led.truncate(COLUMNS_MAX);
    let statistics = ask::statistics(talk, schema, &led)?;
    let spread = |place: Place| Spread::of(key_type, schema.column(place).zoned, statistics.get(&place)?);
    let mut of: BTreeMap<Place, Spread> = led
        .iter()
        .filter_map(|&place| Some((place, spread(place)?)))
        .collect();
    let rows = schema.table(largest).rows;
    let shown = schema.shown(largest).unwrap_or_default();
    let (spread, mut source) = match (of.get(&largest), statistics.get(&largest)) {
        (Some(spread), Some(known)) => {
            let distinct = known.distinct_of(rows);
            if distinct > 0.0 && distinct < workers as f64 {
                return Ok(Err(format!(
                    "{shown} has {distinct:.0} different keys for {workers} workers"
                )));
            }
            (spread.clone(), format!("pg_stats of {shown}"))
        }
        _ => {
            let ends = match or_refusal(ask::ends(talk, schema, largest))? {
                Ok(ends) => ends,
                Err(why) => return Ok(Err(why)),
            };
            let even = ends.and_then(|(low, high)| Spread::even(key_type, column.zoned, &low, &high));
            let Some(even) = even else {
                return Ok(Err(format!("{shown} has no keys that could be cut")));
            };
            let source = format!(
                "the least and the greatest {shown}, as pg_stats shows nothing of the column: run ANALYZE, or let the account read the column"
            );
            (even, source)
        }
    };
    of.entry(largest).or_insert_with(|| spread.clone());
    let row = seen
        .iter()
        .find(|row| row_is_of(row, database.name, key_type, columns));
    let observed = row.and_then(|row| {
        let keys: Vec<i64> = row
            .observed
            .split(',')
            .filter_map(|key| key.parse().ok())
            .collect();
        Some((spread.of_observed(&keys)?, row.query_count)).filter(|(_, count)| *count > 0)
    });
    if let Some((_, count)) = &observed {
        source.push_str(&format!(
            ", and the keys of {count} statements the pooler has seen"
        ));
    }
    Ok(Ok(Keys {
        key_type,
        rows: spread,
        seen: observed,
        of,
        source,
    }))
}

fn row_is_of(row: &KeyRow, database: &str, key_type: KeyType, columns: &[(Place, String)]) -> bool {
    row.database == database
        && row.key_type == key_type.word()
        && row
            .columns
            .split(',')
            .any(|column| columns.iter().any(|(_, known)| known == column))
}

/// What each worker would have.
fn shares(database: &Database<'_>, largest: Place, keys: &Keys, cuts: &[Value]) -> Vec<Share> {
    let schema = &database.schema;
    let rows = schema.table(largest).rows as f64;
    let from = |key: Option<i64>| {
        let key = key.filter(|key| *key != i64::MAX)?;
        let cut = cuts.iter().find(|cut| cut.key == key);
        Some(cut.map_or_else(|| keys.rows.written(key), |cut| cut.text.clone()))
    };
    let share = |(low, high): (Option<i64>, Option<i64>)| {
        let bytes = keys
            .of
            .iter()
            .map(|(place, spread)| schema.table(*place).bytes as f64 * spread.between(low, high));
        Share {
            from: from(low),
            rows: (rows * keys.rows.between(low, high)).round() as u64,
            bytes: bytes.sum::<f64>().round() as u64,
            statements: keys.seen.as_ref().map(|(asked, _)| asked.between(low, high)),
        }
    };
    Spread::bounds(cuts, database.workers)
        .into_iter()
        .map(share)
        .collect()
}
