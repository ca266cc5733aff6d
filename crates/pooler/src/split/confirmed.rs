//! [`Confirmed`]: a query that is split, with everything known: texts of leader and parts for each execution.

use super::kinds::{self, Order};
use super::partial::{ROWS, name};
use super::plan::Bound;
use super::resolve::{SortCollation, SortKey, Way};
use super::text::{Template, quoted};
use super::walk::parsed_select;
use super::{Refusal, Resolved, reads_the_clock};
use corun_wire::read;

/// How the parts' rows become the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// As they come.
    Concat,
    /// In the order of hidden columns, which are cut off.
    Sorted,
    /// A statement over all of them, run by the server ([`Merger::final_sql`](super::Merger::final_sql)).
    Final,
}

impl std::fmt::Display for MergeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MergeKind::Concat => "rows as they come",
            MergeKind::Sorted => "rows merged in order",
            MergeKind::Final => "a final statement over the rows",
        })
    }
}

/// How hidden columns put rows in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOrder {
    pub order: Order,
    pub descending: bool,
    pub nulls_first: bool,
}

/// What the merger does.
#[derive(Clone, Debug)]
pub(super) enum Steps {
    Concat,
    Sorted(Vec<RowOrder>),
    Final {
        /// Types of the parts' columns.
        types: Vec<u32>,
        /// What follows the rows in the final statement.
        query: Template,
    },
}

/// A query that is split. It holds for the text under the settings, by the role, and against the definitions it was made with.
#[derive(Clone, Debug)]
pub struct Confirmed {
    resolved: Resolved,
    /// Types of the values computed once; `None`: stays in the parts.
    once: Vec<Option<u32>>,
    /// Columns of the original.
    columns: Vec<u32>,
    pub(super) steps: Steps,
    same_encoding: bool,
}

/// What the leader answered: the snapshot, and values computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// For SET TRANSACTION SNAPSHOT.
    pub snapshot: String,
    once: Vec<String>,
    pub(super) limit: Option<u64>,
    pub(super) offset: u64,
}

/// Why a leader's row is of no use; the query runs whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// Not a row of [`Confirmed::leader`].
    #[error("the leader's row is not understood")]
    Row,
    /// The server has an error for that.
    #[error("LIMIT or OFFSET is negative")]
    Negative,
}

/// Why values do not cut the key's domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitsError {
    /// The key is a column of integers.
    #[error("split value {0} is no integer")]
    NoInteger(String),
    /// They must ascend.
    #[error("split value {0} is not greater than the one before it")]
    Order(String),
    /// It may be read as a time of this moment.
    #[error("split value {0} may stand for the time of this moment")]
    Clock(String),
    /// More than [`Confirmed::PARTS_MAX`] parts.
    #[error("more than {0} parts")]
    TooMany(usize),
}

impl Resolved {
    /// Reads what the server described: types of the columns of the original text, of [`Resolved::describe`] and of
    /// [`Resolved::leader`], as RowDescription numbers them.
    ///
    /// # Errors
    /// Why the query runs whole.
    pub fn confirm(self, original: &[u32], part: &[u32], leader: &[u32]) -> Result<Confirmed, Refusal> {
        let once = leader
            .get(1..)
            .and_then(|rest| rest.get(..self.once.len()))
            .ok_or(Refusal::Shape)?;
        let mut kept = Vec::new();
        for (kind, sub_select) in once.iter().zip(&self.once) {
            // The collation of text would be another one.
            let literal = !kinds::is_text(*kind) && kinds::literal_name(*kind).is_some();
            if !literal {
                sub_select.settled.clone()?;
            }
            kept.push(literal.then_some(*kind));
        }
        let mut same_encoding = false;
        let steps = match &self.way {
            Way::Regrouped(partial) => {
                if !self.text_default {
                    return Err(Refusal::Collation);
                }
                same_encoding = part.iter().any(|kind| kinds::is_text(*kind));
                Steps::Final {
                    types: part.to_vec(),
                    query: Template::of(&partial.typed(part)?)?,
                }
            }
            Way::Concat if part == original => Steps::Concat,
            Way::Sorted(keys) | Way::Distinct(keys) => {
                let (output, hidden) = part.split_at_checked(original.len()).ok_or(Refusal::Shape)?;
                if output != original || hidden.len() != keys.len() {
                    return Err(Refusal::Shape);
                }
                let distinct = matches!(self.way, Way::Distinct(_));
                let orders = if distinct { None } else { row_orders(keys, hidden)? };
                match orders {
                    Some(orders) => {
                        same_encoding = hidden.iter().any(|kind| kinds::is_text(*kind));
                        Steps::Sorted(orders)
                    }
                    None => {
                        same_encoding = part.iter().any(|kind| kinds::is_text(*kind));
                        self.collected(keys, part, original.len(), distinct)?
                    }
                }
            }
            Way::Concat => return Err(Refusal::Shape),
        };
        Ok(Confirmed {
            once: kept,
            columns: original.to_vec(),
            steps,
            same_encoding,
            resolved: self,
        })
    }

    /// Rows as they are, put in order, and perhaps each taken once, by the server.
    fn collected(
        &self,
        keys: &[SortKey],
        types: &[u32],
        output: usize,
        distinct: bool,
    ) -> Result<Steps, Refusal> {
        if let Some(kind) = types.iter().find(|kind| kinds::literal_name(**kind).is_none()) {
            return Err(Refusal::MergeType("an output column", *kind));
        }
        let text = types.iter().any(|kind| kinds::is_text(*kind));
        if distinct && text && !self.text_default {
            return Err(Refusal::Collation);
        }
        let place = |number: usize| format!("{ROWS}.{}", name(number));
        let mut sql = String::from(if distinct { "select distinct " } else { "select " });
        let columns: Vec<String> = (0..output).map(place).collect();
        sql.push_str(&columns.join(", "));
        sql.push_str(&format!(" from {ROWS}"));
        for (number, key) in keys.iter().enumerate() {
            let by = match (distinct, key.output) {
                (true, Some(output)) => place(output),
                _ => place(output + number),
            };
            let collate = match key.collation {
                _ if types
                    .get(output + number)
                    .is_none_or(|kind| !kinds::is_text(*kind)) =>
                {
                    ""
                }
                SortCollation::Default => "",
                SortCollation::C if !distinct => " collate pg_catalog.\"C\"",
                // DISTINCT wants the column itself; the caller's columns have the collation of literals.
                SortCollation::C if self.text_default => "",
                _ => return Err(Refusal::Collation),
            };
            let direction = if key.descending { "desc" } else { "asc" };
            let nulls = if key.nulls_first { "first" } else { "last" };
            let word = if number == 0 { " order by" } else { "," };
            sql.push_str(&format!("{word} {by}{collate} {direction} nulls {nulls}"));
        }
        for (word, bound) in [(" limit", self.limit), (" offset", self.offset)] {
            match bound {
                Bound::None => {}
                Bound::Constant(value) => sql.push_str(&format!("{word} {value}")),
                Bound::Parameter(number) => sql.push_str(&format!("{word} ${number}")),
            }
        }
        let select = parsed_select(&sql).ok_or(Refusal::Rewrite)?;
        Ok(Steps::Final {
            types: types.to_vec(),
            query: Template::of(&select)?,
        })
    }
}

/// How the merger itself puts rows in order; `None`: text that only the server can.
fn row_orders(keys: &[SortKey], types: &[u32]) -> Result<Option<Vec<RowOrder>>, Refusal> {
    let mut orders = Vec::new();
    for (key, kind) in keys.iter().zip(types) {
        let order = kinds::order(*kind).ok_or(Refusal::MergeType("a sort key", *kind))?;
        if kinds::is_text(*kind) && key.collation != SortCollation::C {
            return Ok(None);
        }
        orders.push(RowOrder {
            order,
            descending: key.descending,
            nulls_first: key.nulls_first,
        });
    }
    Ok(Some(orders))
}

impl Confirmed {
    /// Most parts of a query.
    pub const PARTS_MAX: usize = 64;

    /// How the parts are put together.
    pub fn merge(&self) -> MergeKind {
        match self.steps {
            Steps::Concat => MergeKind::Concat,
            Steps::Sorted(_) => MergeKind::Sorted,
            Steps::Final { .. } => MergeKind::Final,
        }
    }

    /// Whether the query may be split only where `client_encoding` is the encoding of the database: the merge compares text, or
    /// hands it back.
    pub fn same_encoding(&self) -> bool {
        self.same_encoding
    }

    /// Types of the client's columns. The final statement must be described with the same, or the query runs whole.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// What the leader runs first in its transaction: it exports the snapshot and evaluates what is evaluated once.
    pub fn leader(&self) -> &str {
        self.resolved.leader()
    }

    /// The result formats of the leader's columns.
    pub fn leader_formats(&self) -> Vec<i16> {
        let once = self.once.iter().map(|kind| kind.map_or(0, kinds::literal_format));
        std::iter::once(0).chain(once).chain([0, 0]).collect()
    }

    /// Reads the leader's row, the body of a DataRow.
    ///
    /// # Errors
    /// The query runs whole.
    pub fn lead(&self, row: &[u8]) -> Result<Lead, LeadError> {
        let columns = read::data_row(row).ok_or(LeadError::Row)?;
        let [snapshot, rest @ ..] = columns.as_slice() else {
            return Err(LeadError::Row);
        };
        let (once, bounds) = rest.split_at_checked(self.once.len()).ok_or(LeadError::Row)?;
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| LeadError::Row);
        let snapshot = text(snapshot.ok_or(LeadError::Row)?)?;
        // It is put into a statement.
        if snapshot.is_empty()
            || !snapshot
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(LeadError::Row);
        }
        let mut literals = Vec::new();
        for ((value, kind), sub_select) in once.iter().zip(&self.once).zip(&self.resolved.once) {
            literals.push(match kind {
                None => format!("({})", sub_select.text),
                Some(kind) => {
                    let name = kinds::literal_name(*kind).ok_or(LeadError::Row)?;
                    let mut literal = Vec::new();
                    match value {
                        None => literal.extend(b"NULL"),
                        Some(value) if kinds::literal(&mut literal, *kind, value) => {}
                        Some(_) => return Err(LeadError::Row),
                    }
                    format!("({}::{name})", text(&literal)?)
                }
            });
        }
        let [limit, offset] = bounds else {
            return Err(LeadError::Row);
        };
        let bound = |bound: Bound, value: &Option<&[u8]>| -> Result<Option<u64>, LeadError> {
            let value = match (bound, value) {
                (Bound::Constant(value), _) => Some(value),
                (Bound::Parameter(_), Some(value)) => {
                    Some(text(value)?.parse::<i64>().map_err(|_| LeadError::Row)?)
                }
                _ => None,
            };
            value
                .map(|value| u64::try_from(value).map_err(|_| LeadError::Negative))
                .transpose()
        };
        Ok(Lead {
            snapshot,
            once: literals,
            limit: bound(self.resolved.limit, limit)?,
            offset: bound(self.resolved.offset, offset)?.unwrap_or(0),
        })
    }

    /// The texts of the parts: one more than split values, which are as the server reads them and ascend. With none, there is one
    /// part, the whole.
    ///
    /// # Errors
    /// Values that do not cut the domain.
    pub fn parts(&self, splits: &[String], lead: &Lead) -> Result<Vec<String>, SplitsError> {
        let predicates = self.predicates(splits)?;
        let once = |number: usize| lead.once.get(number).cloned().unwrap_or_default();
        Ok(predicates
            .iter()
            .map(|predicate| self.resolved.part.fill(predicate, once))
            .collect())
    }

    fn predicates(&self, splits: &[String]) -> Result<Vec<String>, SplitsError> {
        if splits.len() >= Self::PARTS_MAX {
            return Err(SplitsError::TooMany(Self::PARTS_MAX));
        }
        let key = &self.resolved.key;
        let integers = kinds::integers(self.resolved.key_type);
        let mut values = Vec::new();
        let mut last = None;
        for split in splits {
            if reads_the_clock(split.as_bytes()) {
                return Err(SplitsError::Clock(split.clone()));
            }
            values.push(match integers {
                None => quoted(split),
                Some((least, greatest)) => {
                    let number: i64 = split
                        .trim()
                        .parse()
                        .map_err(|_| SplitsError::NoInteger(split.clone()))?;
                    if last.is_some_and(|last| last >= number) {
                        return Err(SplitsError::Order(split.clone()));
                    }
                    last = Some(number);
                    let within = (least..=greatest).contains(&number);
                    format!("'{number}'{}", if within { "" } else { "::pg_catalog.int8" })
                }
            });
        }
        let null = if self.resolved.key_not_null {
            String::new()
        } else {
            format!(" OR {key} IS NULL")
        };
        Ok((0..=values.len())
            .map(|part| {
                // Of integers it is known that they ascend. Otherwise each part leaves out what any part before it has, so that
                // every row is in exactly one whatever the order of the values is.
                let first = if integers.is_some() {
                    part.saturating_sub(1)
                } else {
                    0
                };
                let mut terms: Vec<String> = values[first..part]
                    .iter()
                    .map(|value| format!("{key} >= {value}"))
                    .collect();
                terms.extend(values.get(part).map(|value| format!("{key} < {value}")));
                match (terms.is_empty(), part == values.len()) {
                    (true, _) => "(true)".to_owned(),
                    (false, true) => format!("({}{null})", terms.join(" AND ")),
                    (false, false) => format!("({})", terms.join(" AND ")),
                }
            })
            .collect())
    }

    /// The result formats of a part's columns, when the client asked for `client` (none: all text, one: for all, or one each).
    pub fn part_formats(&self, client: &[i16]) -> Vec<i16> {
        let visible = |number: usize| match client {
            [] => 0,
            [all] => *all,
            each => each.get(number).copied().unwrap_or(0),
        };
        match &self.steps {
            Steps::Final { types, .. } => types.iter().map(|kind| kinds::literal_format(*kind)).collect(),
            Steps::Concat => (0..self.columns.len()).map(visible).collect(),
            Steps::Sorted(orders) => (0..self.columns.len())
                .map(visible)
                .chain(orders.iter().map(|_| 1))
                .collect(),
        }
    }

    /// The final statement over rows that are written behind `VALUES`.
    pub(super) fn query_over(&self, query: &Template, lead: &Lead) -> String {
        query.fill("", |number| lead.once.get(number).cloned().unwrap_or_default())
    }
}
