//! Proposals for `[splits.NAME]`: queries that take long and come often, and may be split (paper 004, section 3.2).

use std::collections::{BTreeMap, BTreeSet};

use corun_model::pooler::split::HistorySettings;

use super::schema::{Place, Schema};
use super::spread::{Spread, Value};
use super::statements::Known;
use super::{Database, Findings, Proposal, SplitProposal, ask};
use crate::config::KeyType;
use crate::preflight::or_refusal;
use crate::split::{KeyColumn, plan};
use crate::talk::{Conversation, TalkError};
use crate::understand::{Limits, Shape, StatementKind, Understanding};

/// Queries proposed for one database.
const PROPOSED_MAX: usize = 5;
/// Queries looked into.
const LOOKED_AT_MAX: usize = 40;
/// Keys tried for one query.
const KEYS_MAX: usize = 16;
/// What takes less is not worth more connections, in microseconds. Unmeasured.
const MEAN_US_MIN: f64 = 5_000.0;
/// A part of all time below which a query is not worth a table.
const TIME_PART_MIN: f64 = 0.01;
/// Ranges for each core, so that fewer or more parts find bounds, too.
const CUTS: usize = 8;
/// A query must be expected to take less than this part of its time.
const GAIN_MIN: f64 = 0.9;

/// Proposes queries of a database.
///
/// # Errors
/// The server does not answer.
pub(super) fn propose(
    findings: &mut Findings<'_>,
    database: &Database<'_>,
    talk: &mut Conversation,
) -> Result<(), TalkError> {
    let statements = &database.statements;
    let slow = |known: &&Known| {
        let statement = &known.statement;
        known.understood.kind == StatementKind::Select
            && !known.joins.tables.is_empty()
            && statement.calls > 0
            && statement.total_us >= MEAN_US_MIN * statement.calls as f64
            && statement.total_us >= TIME_PART_MIN * statements.total_us
    };
    let slow: Vec<&Known> = statements.known.iter().filter(slow).take(LOOKED_AT_MAX).collect();
    if slow.is_empty() {
        let text = format!(
            "no split is proposed: {} has no query that takes {} ms or more and {} % of all time",
            statements.source.name(),
            MEAN_US_MIN / 1e3,
            TIME_PART_MIN * 1e2
        );
        findings.remark(database.name, text);
        return Ok(());
    }
    if database.workers < 2 {
        findings.remark(database.name, "no split is proposed: there is one core only");
        return Ok(());
    }
    let mut proposed = 0;
    for known in slow {
        if proposed == PROPOSED_MAX {
            break;
        }
        match judged(findings, database, known, talk)? {
            Ok(proposal) => {
                proposed += 1;
                findings.learnt.proposals.push(Proposal::Split(proposal));
            }
            Err(why) => {
                let text = format!("no split of \"{}\": {why}", beginning(&known.statement.text));
                findings.remark(database.name, text);
            }
        }
    }
    Ok(())
}

/// The beginning of a text, on one line.
pub(super) fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// A key a query may be split by.
struct Candidate {
    place: Place,
    shown: String,
    class: BTreeSet<Place>,
}

/// The best split of a query, or why there is none.
fn judged(
    findings: &mut Findings<'_>,
    database: &Database<'_>,
    known: &Known,
    talk: &mut Conversation,
) -> Result<Result<SplitProposal, String>, TalkError> {
    let (schema, statements) = (&database.schema, &database.statements);
    let statement = &known.statement;
    if statement.text.ends_with("...") {
        return Ok(Err("the text is cut off".to_owned()));
    }
    let mean_us = statement.total_us / statement.calls as f64;
    let (mut candidates, mut refused) = candidates(schema, known, talk)?;
    // Where groups are whole in their parts, nothing is left to be merged; then, the largest table is most of the work.
    candidates.sort_by_key(|candidate| {
        let rows = schema.table(candidate.place).rows;
        (
            candidate.class.is_disjoint(&known.joins.grouped),
            std::cmp::Reverse(rows),
            candidate.place,
        )
    });
    for candidate in candidates {
        let (cuts, expected_us, source) = match cuts(database, &candidate, mean_us, talk)? {
            Ok(found) => found,
            Err(why) => {
                refused.entry(why).or_default().push(candidate.shown);
                continue;
            }
        };
        let mut understanding = Understanding::new(Limits::default());
        let shape = known.understood.shape;
        let replaced = findings.config.splits.iter().find(|(_, split)| {
            split.database == database.name
                && shape != Shape::UNKNOWN
                && understanding.of(split.query.as_bytes()).shape == shape
        });
        let replaced = replaced.map(|(name, _)| name.clone());
        let replaces = replaced.is_some();
        let name = replaced.unwrap_or_else(|| findings.name(&candidate.shown.replace('.', "_")));
        tracing::debug!(%name, source, "a split is proposed");
        return Ok(Ok(SplitProposal {
            replaces,
            name,
            database: database.name.to_owned(),
            query: statement.text.clone(),
            key: candidate.shown,
            splits: cuts.into_iter().map(|cut| cut.text).collect(),
            source: statements.source.name(),
            calls: statement.calls,
            mean_us: mean_us as u64,
            time_part: statement.total_us / statements.total_us.max(1.0),
            parts: database.workers,
            expected_us: expected_us as u64,
        }));
    }
    if refused.is_empty() {
        return Ok(Err(
            "no index begins with a column of its tables that could be a key".to_owned(),
        ));
    }
    let reasons: Vec<String> = refused
        .into_iter()
        .map(|(why, keys)| format!("{} ({})", why, keys.join(", ")))
        .collect();
    Ok(Err(reasons.join("; ")))
}

/// Where to cut a query by a key, the microseconds that are expected then, and the column whose values are known.
type Cuts = (Vec<Value>, f64, String);

/// The cuts of a query that takes `mean_us`, or why they do not pay.
fn cuts(
    database: &Database<'_>,
    candidate: &Candidate,
    mean_us: f64,
    talk: &mut Conversation,
) -> Result<Result<Cuts, String>, TalkError> {
    let workers = database.workers;
    let Some((spread, source)) = work(&database.schema, candidate, talk)? else {
        return Ok(Err("nothing is known of the key's values: run ANALYZE".to_owned()));
    };
    let kind = database.schema.column(candidate.place).kind;
    if kind == Some(KeyType::Text) && !spread.in_order {
        return Ok(Err(
            "its texts are ordered by language, and cuts would have to be, too".to_owned(),
        ));
    }
    let cuts = spread.cuts(workers, CUTS);
    let shares = Spread::bounds(&cuts, workers).into_iter();
    let most = shares
        .map(|(low, high)| spread.between(low, high))
        .fold(0.0, f64::max);
    let expected_us = mean_us * most + HistorySettings::default().overhead_us * workers as f64;
    if cuts.is_empty() || expected_us > mean_us * GAIN_MIN {
        return Ok(Err(format!(
            "in {workers} parts it would take about {:.1} ms instead of {:.1} ms",
            expected_us / 1e3,
            mean_us / 1e3
        )));
    }
    Ok(Ok((cuts, expected_us, source)))
}

type Refused = BTreeMap<String, Vec<String>>;

/// Keys that give the same rows, as far as the text and the catalog say; and why others do not.
fn candidates(
    schema: &Schema,
    known: &Known,
    talk: &mut Conversation,
) -> Result<(Vec<Candidate>, Refused), TalkError> {
    let mut found = Vec::new();
    let mut refused = Refused::new();
    let places = schema.places().filter(|place| {
        let column = schema.column(*place);
        known.joins.tables.contains(&place.table) && column.leads && column.kind.is_some()
    });
    for place in places.take(KEYS_MAX) {
        let Some(shown) = schema.shown(place) else {
            continue;
        };
        let (table, column) = (schema.table(place), schema.column(place));
        let key = KeyColumn {
            schema: (!table.visible).then(|| table.schema.clone()),
            table: table.name.clone(),
            column: column.name.clone(),
        };
        let class = known.joins.class_of(place);
        let plan = plan(&known.statement.text, &key);
        let resolved = match plan {
            Err(why) => Err(why.to_string()),
            Ok(_) if !class.is_disjoint(&known.joins.restricted) => {
                Err("the query reads a part of its values only, which parts would share unevenly".to_owned())
            }
            Ok(plan) => or_refusal(talk.query(&plan.questions()))?
                .and_then(|found| plan.resolve(&found.rows).map_err(|why| why.to_string())),
        };
        match resolved {
            Ok(_) => found.push(Candidate { place, shown, class }),
            Err(why) => refused.entry(why).or_default().push(shown),
        }
    }
    Ok((found, refused))
}

/// How a query's work is spread over a key: as the rows of the largest table whose column equals it.
fn work(
    schema: &Schema,
    candidate: &Candidate,
    talk: &mut Conversation,
) -> Result<Option<(Spread, String)>, TalkError> {
    let key = schema.column(candidate.place);
    let Some(key_type) = key.kind else {
        return Ok(None);
    };
    let mut equal: Vec<Place> = candidate
        .class
        .iter()
        .copied()
        .filter(|&place| schema.column(place).kind == Some(key_type))
        .collect();
    equal.sort_by_key(|place| std::cmp::Reverse(schema.table(*place).rows));
    let statistics = ask::statistics(talk, schema, &equal)?;
    let mut known = equal
        .iter()
        .filter_map(|place| Some((*place, statistics.get(place)?)));
    Ok(known.find_map(|(place, known)| {
        let spread = Spread::of(key_type, key.zoned, known)?;
        Some((spread, schema.shown(place).unwrap_or_default()))
    }))
}
