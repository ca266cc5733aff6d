//! [`Access`]: how a scan gets at the rows: all of them, or ranges of an index.
//!
//! The rule: of the indexes whose first columns the filters bind, the one with the fewest rows in its ranges is used, if those
//! are at most one in [`SELECTIVE`] of the table's rows, or at most one a range because a whole unique key is given. Rows in a
//! range are counted or estimated by [`super::estimate`].

use super::conditions::{Condition, Test, conditions};
use super::estimate;
use super::types::Literal;
use corun_store::{Direction, Index, KeyRange, Snapshot, Table, TableDef, Value};
use datafusion::logical_expr::Expr;
use std::fmt::Write;
use std::ops::Bound;

/// Rows of a table for each row read through an index, at least. A row found through an index costs a few times what the next
/// row of the table costs, since rows lie in the order they were made; unmeasured.
const SELECTIVE: u64 = 4;
/// Most ranges of a scan: every one is a descent of the tree.
const RANGES_MAX: usize = 256;

/// How a scan gets at the rows.
#[derive(Debug)]
pub enum Access {
    /// By their numbers, all of them.
    Full,
    /// Through an index.
    Ranges(Box<Ranges>),
}

/// Ranges of an index.
#[derive(Debug)]
pub struct Ranges {
    /// The index.
    pub index: Index,
    /// Its ranges, none in another.
    pub ranges: Vec<KeyRange>,
    /// The ranges in SQL.
    pub text: String,
    /// Rows in them, about.
    pub rows: u64,
}

/// What filters bind of an index.
struct Bounds<'a> {
    /// Values of its first columns.
    prefixes: Vec<Vec<&'a Literal>>,
    low: Bound<&'a Literal>,
    high: Bound<&'a Literal>,
    text: String,
}

impl Access {
    /// The cheapest way to the rows that pass `filters`, by the rule above.
    pub fn choose(table: &Table, moment: &Snapshot, filters: &[Expr]) -> Access {
        let definition = table.definition();
        let conditions: Vec<Condition> = filters
            .iter()
            .flat_map(|filter| conditions(filter, &definition))
            .collect();
        let rows = table.rows();
        let mut best: Option<Ranges> = None;
        for index in table.indexes() {
            let Some(found) = ranges(index, &definition, &conditions, moment) else {
                continue;
            };
            let unique = found.index.is_unique() && found.rows <= found.ranges.len() as u64;
            let selective = unique || found.rows.saturating_mul(SELECTIVE) <= rows;
            if selective && best.as_ref().is_none_or(|other| found.rows < other.rows) {
                best = Some(found);
            }
        }
        best.map_or(Access::Full, |found| Access::Ranges(Box::new(found)))
    }
}

/// Whether some index may help with a filter.
pub fn is_useful(filter: &Expr, table: &Table) -> bool {
    let found = conditions(filter, &table.definition());
    let indexes = table.indexes();
    found.iter().any(|condition| {
        indexes
            .iter()
            .any(|index| index.columns().contains(&condition.column))
    })
}

/// The ranges of an index that hold all rows the conditions let through, and how many rows those are. `None` if they do not bind
/// its first column, if nobody can tell how many rows there are, or if the snapshot cannot use the index.
fn ranges(
    index: Index,
    definition: &TableDef,
    conditions: &[Condition],
    moment: &Snapshot,
) -> Option<Ranges> {
    let bounds = bounds(&index, definition, conditions)?;
    let mut ranges: Vec<KeyRange> = Vec::with_capacity(bounds.prefixes.len());
    for prefix in &bounds.prefixes {
        let values: Vec<Value<'_>> = prefix.iter().map(|literal| literal.value()).collect();
        let bounded = !matches!((bounds.low, bounds.high), (Bound::Unbounded, Bound::Unbounded));
        let range = if bounded {
            index.between(
                &values,
                bounds.low.map(Literal::value),
                bounds.high.map(Literal::value),
            )
        } else {
            index.prefix(&values)
        };
        let range = range.ok()?;
        if !range.is_empty() && !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    // Refused when the index was made after the snapshot, or is gone.
    moment.scan(&index, &index.all(), Direction::Ascending).ok()?;
    let bound = bounds.prefixes.first().map_or(0, Vec::len);
    let rows = if index.is_unique() && bound == index.columns().len() {
        ranges.len() as u64
    } else {
        let next = index.columns().get(bound).copied();
        estimate::rows(&index, &ranges, next, moment)?
    };
    Some(Ranges {
        index,
        ranges,
        text: bounds.text,
        rows,
    })
}

fn bounds<'a>(index: &Index, definition: &TableDef, conditions: &'a [Condition]) -> Option<Bounds<'a>> {
    let mut bounds = Bounds {
        prefixes: vec![Vec::new()],
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        text: String::new(),
    };
    for &column in index.columns() {
        let tests = || {
            conditions
                .iter()
                .filter(move |condition| condition.column == column)
        };
        let values = tests()
            .filter_map(|condition| match &condition.test {
                Test::In(values) => Some(values),
                _ => None,
            })
            .min_by_key(|values| values.len())
            .filter(|values| values.len() * bounds.prefixes.len() <= RANGES_MAX);
        let name = &definition.columns[column].name;
        if let Some(values) = values {
            let with = |prefix: &Vec<&'a Literal>, value: &'a Literal| {
                prefix.iter().copied().chain([value]).collect::<Vec<_>>()
            };
            bounds.prefixes = bounds
                .prefixes
                .iter()
                .flat_map(|prefix| values.iter().map(move |value| with(prefix, value)))
                .collect();
            bounds.say(name, "", values);
            continue;
        }
        for condition in tests() {
            match &condition.test {
                Test::Low(low) if tighter(bounds.low, low, false) => bounds.low = low.as_ref(),
                Test::High(high) if tighter(bounds.high, high, true) => bounds.high = high.as_ref(),
                _ => {}
            }
        }
        let float = |bound: Bound<&Literal>| {
            matches!(
                bound,
                Bound::Included(Literal::Float(_)) | Bound::Excluded(Literal::Float(_))
            )
        };
        if float(bounds.high) && matches!(bounds.low, Bound::Unbounded) {
            bounds.high = Bound::Unbounded;
        }
        for (bound, included, excluded) in [(bounds.low, ">=", ">"), (bounds.high, "<=", "<")] {
            match bound {
                Bound::Included(value) => bounds.say(name, included, std::slice::from_ref(value)),
                Bound::Excluded(value) => bounds.say(name, excluded, std::slice::from_ref(value)),
                Bound::Unbounded => {}
            }
        }
        break;
    }
    (!bounds.text.is_empty()).then_some(bounds)
}

/// Whether a bound lets fewer rows through than the one there is.
fn tighter(known: Bound<&Literal>, other: &Bound<Literal>, high: bool) -> bool {
    let (Bound::Included(new) | Bound::Excluded(new)) = other else {
        return false;
    };
    let (Bound::Included(old) | Bound::Excluded(old)) = known else {
        return true;
    };
    match if high {
        old.partial_cmp(new)
    } else {
        new.partial_cmp(old)
    } {
        Some(std::cmp::Ordering::Greater) => true,
        Some(std::cmp::Ordering::Equal) => matches!(other, Bound::Excluded(_)),
        _ => false,
    }
}

impl Bounds<'_> {
    /// Adds a condition to the text.
    fn say(&mut self, column: &str, operator: &str, values: &[Literal]) {
        /// Values that are shown of a list.
        const SHOWN: usize = 4;
        if !self.text.is_empty() {
            self.text.push_str(" AND ");
        }
        let mut list: Vec<String> = values
            .iter()
            .take(SHOWN)
            .map(|value| value.value().to_string())
            .collect();
        if values.len() > SHOWN {
            list.push("...".to_owned());
        }
        // Writing to a text does not fail.
        let _ = match (operator, values.len()) {
            ("", 1) => write!(self.text, "{column} = {}", list[0]),
            ("", _) => write!(self.text, "{column} IN ({})", list.join(", ")),
            (operator, _) => write!(self.text, "{column} {operator} {}", list[0]),
        };
    }
}
