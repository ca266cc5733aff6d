//! [`Corrections`]: where PostgreSQL's estimates of rows are off, and by how much.
//!
//! A factor belongs to what is read and under which conditions, however it is read: the names of the relations and the set of
//! conditions, with their literals and once more without them. A value that was seen corrects itself; one that was not is
//! corrected by others of its shape, and a join of several relations by what is known of each:
//!
//! ```text
//!                                                              exact text? ─► its factor
//!   questions ─► count(*) ─► rows ─► learn: rows / estimate    same shape? ─► mean factor      ─► factor(build side)
//!                                                              neither?    ─► product of its relations' factors
//! ```
//!
//! One error needs no execution to be known. PostgreSQL takes the alternatives of `c = 'a' or c = 'b'` for independent and expects
//! `1 - (1 - p)^k` of the rows, while they exclude each other and keep `k p`: a seventh fewer for 9 alternatives of 25. Where the
//! size of the relation is known ([`Corrections::set_tables`]), that is put right until something better was seen. `c in ('a', 'b')` is
//! added up by PostgreSQL itself, unless the sum is above 1; such lists of nearly all values cannot be told from others here.
//!
//! Bounded at [`FACTORS_MAX`] factors, of which the least recently used makes room. Factors age: each new one moves the old half
//! way, and one that was not renewed within [`AGE_MAX`] others is not believed any more.

use std::num::NonZeroUsize;

use lru::LruCache;

use super::conditions::{can_be_asked, conjuncts, exclusive, qualifiers, without_literals};
use super::node::Node;
use super::shape::estimated;
use super::{Explained, Relation, Statistics, fingerprint::Fingerprint};
use crate::split::{qualified, quoted_name};

/// Factors that are kept. Unmeasured; a factor takes about 100 bytes.
const FACTORS_MAX: usize = 4096;
/// After so many others a factor that was not renewed is forgotten. Unmeasured.
const AGE_MAX: u64 = 16_384;
/// No factor is larger, or smaller than its inverse.
const FACTOR_MAX: f64 = 1e4;
/// A question may cost this share of the plan it is about, by PostgreSQL's estimate.
const QUESTION_SHARE: f64 = 0.05;
/// Most questions about one plan.
const QUESTIONS_MAX: usize = 4;
/// Longest question.
const QUESTION_LENGTH_MAX: usize = 16 << 10;

/// What is read and under which conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// With literals.
    exact: u64,
    /// Without.
    alike: u64,
    /// Rows PostgreSQL estimated, of all processes.
    estimated: f64,
}

/// What was learnt.
#[derive(Debug)]
pub struct Corrections {
    /// Rows there will be for each one estimated, and when that was learnt.
    factors: LruCache<u64, (f64, u64)>,
    learnt: u64,
    /// Rows of relations without any condition.
    tables: LruCache<Relation, f64>,
}

impl Default for Corrections {
    fn default() -> Self {
        let most = NonZeroUsize::new(FACTORS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            factors: LruCache::new(most),
            learnt: 0,
            tables: LruCache::new(most),
        }
    }
}

impl Corrections {
    /// Learns that there were so many rows.
    pub fn learn(&mut self, key: Key, rows: f64) {
        if !(rows.is_finite() && rows >= 0.0) {
            return;
        }
        self.learnt += 1;
        // No rows at all are as good as one: estimates are never smaller.
        let factor = rows.max(1.0) / key.estimated.max(1.0);
        let factor = factor.clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
        // What was seen of these very values is true until it changes; of others it is a mean, of ratios.
        let mean = self.fresh(key.alike).map(|before| (before * factor).sqrt());
        self.factors.put(key.exact, (factor, self.learnt));
        self.factors.put(key.alike, (mean.unwrap_or(factor), self.learnt));
    }

    /// Takes over how large relations are.
    pub fn set_tables(&mut self, statistics: &Statistics) {
        for (relation, rows) in statistics.tables() {
            self.tables.put(relation.clone(), *rows);
        }
    }

    /// Whether these very values were seen.
    pub fn knows(&self, key: &Key) -> bool {
        self.fresh(key.exact).is_some()
    }

    /// By how much the rows of a scan are underestimated because its alternatives count as independent.
    fn independence(&self, scan: &Node) -> f64 {
        let conditions = [&scan.index_cond, &scan.recheck_cond, &scan.filter];
        let parts = conditions.into_iter().flatten().flat_map(|text| conjuncts(text));
        let mut parts: Vec<&str> = parts.collect();
        parts.dedup();
        // Beside other conditions the share of this one is not known.
        let [single] = parts[..] else { return 1.0 };
        let relation = || {
            Some(Relation {
                schema: scan.schema.clone()?,
                name: scan.relation.clone()?,
            })
        };
        let (Some(alternatives), Some(all)) = (
            exclusive(single),
            relation().and_then(|relation| self.tables.peek(&relation)),
        ) else {
            return 1.0;
        };
        let share = estimated(scan, true) / all;
        if !(share > 0.0 && share < 1.0) {
            return 1.0;
        }
        let each = 1.0 - (1.0 - share).powf(1.0 / alternatives as f64);
        (each * alternatives as f64).min(1.0) / share
    }

    fn fresh(&self, place: u64) -> Option<f64> {
        // Looked at without moving it up: reading a plan must not need `&mut`. What is used is learnt again and moves up then.
        self.factors
            .peek(&place)
            .filter(|(_, at)| self.learnt - at <= AGE_MAX)
            .map(|(factor, _)| *factor)
    }

    /// Rows that a node will deliver for each one estimated.
    pub(super) fn factor(&self, node: &Node) -> f64 {
        if self.factors.is_empty() && self.tables.is_empty() {
            return 1.0;
        }
        let (exact, alike) = places(node);
        if let Some(known) = self.fresh(exact).or_else(|| self.fresh(alike)) {
            return known;
        }
        if is_free_scan(node) {
            return self.independence(node);
        }
        // A filter that keeps more of a dimension keeps more of what is joined with it.
        let scans = node.all().into_iter().filter(|inner| is_free_scan(inner));
        let factor: f64 = scans.map(|inner| self.factor(inner)).product();
        factor.clamp(1.0 / FACTOR_MAX, FACTOR_MAX)
    }
}

/// A scan whose rows do not depend on another relation's.
fn is_free_scan(node: &Node) -> bool {
    node.is_relation_scan()
        && node
            .index_cond
            .iter()
            .chain(&node.recheck_cond)
            .flat_map(|text| qualifiers(text))
            .all(|name| Some(name) == node.alias)
}

/// Hashes of what a node reads and under which conditions, with literals and without. The order of joins, their kinds and the
/// way a relation is read do not matter.
fn places(node: &Node) -> (u64, u64) {
    let mut exact: Vec<String> = Vec::new();
    let mut alike: Vec<String> = Vec::new();
    for inner in node.all() {
        let mut both = |text: String| {
            alike.push(without_literals(&text));
            exact.push(text);
        };
        if inner.kind == "Bitmap Index Scan" {
            // The heap scan above repeats its condition.
            continue;
        }
        if let Some(relation) = &inner.relation {
            let schema = inner.schema.as_deref().unwrap_or_default();
            let alias = inner.alias.as_deref().unwrap_or_default();
            both(format!("{schema}.{relation} {alias}"));
        } else if !is_transparent(&inner.kind) {
            both(format!("{} {}", inner.kind, inner.group_key.join(", ")));
        }
        let conditions = [
            &inner.index_cond,
            &inner.recheck_cond,
            &inner.filter,
            &inner.join_cond,
            &inner.join_filter,
        ];
        for condition in conditions.into_iter().flatten() {
            for part in conjuncts(condition) {
                both(part.to_owned());
            }
        }
    }
    (hash_of_set(exact, 1), hash_of_set(alike, 2))
}

/// Operators that deliver what they get, or what their conditions say.
fn is_transparent(kind: &str) -> bool {
    matches!(
        kind,
        "Hash"
            | "Materialize"
            | "Memoize"
            | "Gather"
            | "Gather Merge"
            | "Sort"
            | "Incremental Sort"
            | "Hash Join"
            | "Merge Join"
            | "Nested Loop"
            | "BitmapAnd"
            | "BitmapOr"
    )
}

fn hash_of_set(mut texts: Vec<String>, kind: u64) -> u64 {
    texts.sort_unstable();
    texts.dedup();
    let mut hash = Fingerprint::default();
    hash.number(kind);
    for text in &texts {
        hash.text(text);
    }
    hash.value()
}

fn key(node: &Node, leader: bool) -> Key {
    let (exact, alike) = places(node);
    Key {
        exact,
        alike,
        estimated: estimated(node, leader),
    }
}

impl Explained {
    /// Counts worth asking the server for: of build sides that are one relation under conditions, where the count costs at most
    /// 5 % of the plan by PostgreSQL's estimate. Those already known ([`Corrections::knows`]) need not be asked. Each runs as the
    /// client's user, in a transaction of its own, and changes nothing: conditions that call functions are left alone.
    pub fn questions(&self) -> Vec<(Key, String)> {
        let affordable = self.root.cost * QUESTION_SHARE;
        let leader = self.leader();
        let mut questions = Vec::new();
        for hash in self.root.all().into_iter().filter(|node| node.kind == "Hash") {
            let Some(scan) = hash.outer().filter(|scan| is_free_scan(scan)) else {
                continue;
            };
            if questions.len() < QUESTIONS_MAX
                && scan.cost <= affordable
                && let Some(text) = count_text(scan)
            {
                questions.push((key(scan, leader), text));
            }
        }
        questions
    }
}

fn count_text(scan: &Node) -> Option<String> {
    if !matches!(
        scan.kind.as_str(),
        "Seq Scan" | "Index Scan" | "Index Only Scan" | "Bitmap Heap Scan"
    ) {
        return None;
    }
    let conditions = [&scan.index_cond, &scan.recheck_cond, &scan.filter];
    let conditions: Vec<&str> = conditions.into_iter().flatten().map(String::as_str).collect();
    if conditions.is_empty() || !conditions.iter().all(|text| can_be_asked(text)) {
        return None;
    }
    let relation = scan.relation.as_deref()?;
    let alias = scan.alias.as_deref()?;
    let conditions: Vec<String> = conditions.iter().map(|text| format!("({text})")).collect();
    let text = format!(
        "select pg_catalog.count(*) from only {} as {} where {}",
        qualified(Some(scan.schema.as_deref()?), relation),
        quoted_name(alias),
        conditions.join(" and ")
    );
    (text.len() <= QUESTION_LENGTH_MAX).then_some(text)
}
