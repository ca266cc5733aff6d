//! The short path: statements that are a few look-ups by keys or short ranges are compiled once to operations of the store, and never meet the
//! planner again.
//!
//! ```text
//!   prepare ─► plan (DataFusion's, not optimized) ─► compile ─► Short, kept with the statement
//!   run     ─► parameters ─► key of an index ─► the store's row ─► DataRow, or a change of it          no batch, no task, no other thread
//!   a simple query's text ─► lift: its literals become parameters ─► the Short of the text like it
//! ```
//!
//! Order of calls: [`compile`] when a statement is prepared, then [`Short::read`] or [`Short::lock`] as often as it runs. It is a strategy, not a
//! language: what has no `Short`, or whose `Short` gives up ([`Attempt::GivesUp`]), runs the usual way with the same answer.
//!
//! What it is not: a cache of rows, nor of answers.

mod expression;
mod key;
mod lifted;
mod lock;
mod plan;
mod run;
mod totals;
mod wait;
mod whole;

pub(crate) use lifted::{Lifted, lift};
pub(crate) use plan::compile;
pub(crate) use run::{Attempt, Locking, Reading, Writing};
pub(crate) use wait::{may_block, off_event_loop, on_event_loop, unless};

use self::expression::{Expression, Source};
use self::totals::Total;
use arrow::datatypes::DataType;
use corun_store::{Direction, Index, Store, Table, Type};
use std::fmt;

#[cfg(test)]
mod tests;

/// A statement as operations of the store.
#[derive(Debug)]
pub(crate) struct Short {
    pub(crate) table: Table,
    pub(crate) store: Store,
    access: Access,
    residual: Option<Expression>,
    /// With their types; where there are totals, of these.
    outputs: Vec<(Source, DataType)>,
    /// What the rows are sorted by, where no index has their order: whether ascending, and whether NULL comes first.
    sort: Vec<(Source, DataType, bool, bool)>,
    /// Aggregates over all rows.
    totals: Vec<Total>,
    /// Their first position behind the parameters.
    totals_at: usize,
    skip: Option<Source>,
    fetch: Option<Source>,
    /// Of the table's columns, as SQL sees them.
    types: Vec<DataType>,
    /// Parameters that are used, and the types that they must have.
    parameters: Vec<(usize, DataType)>,
}

/// How the rows are found.
#[derive(Debug)]
enum Access {
    /// By a value for each column of a unique index.
    Key {
        index: Index,
        key: Vec<(Source, Type)>,
    },
    Span {
        index: Index,
        span: Box<Span>,
    },
}

/// A range of an index.
#[derive(Debug)]
struct Span {
    /// Values of the first columns.
    prefix: Vec<(Source, Type)>,
    /// The type of the column behind.
    next: Option<Type>,
    /// Its bounds, and whether they are included.
    low: Option<(Source, bool)>,
    high: Option<(Source, bool)>,
    direction: Direction,
}

impl Short {
    /// Whether its rows are rows of the table, in an order that it finds them in.
    pub(crate) fn is_of_rows(&self) -> bool {
        self.sort.is_empty() && self.totals.is_empty()
    }

    /// Leaves these of its outputs.
    pub(crate) fn keep(&mut self, outputs: &[usize]) {
        let kept = outputs.iter().filter_map(|at| self.outputs.get(*at).cloned());
        self.outputs = kept.collect();
    }

    fn index(&self) -> &Index {
        match &self.access {
            Access::Key { index, .. } | Access::Span { index, .. } => index,
        }
    }
}

/// As `EXPLAIN` shows it.
impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, index) = (self.table.name(), self.index());
        let name = match index.name() {
            "primary" => format!("{table}_pkey"),
            name => name.to_owned(),
        };
        let columns = self.table.definition().columns;
        let names = |count: usize| {
            let names = index.columns().iter().take(count);
            let names = names
                .filter_map(|at| columns.get(*at))
                .map(|column| column.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        write!(f, "Short: index {name}")?;
        match &self.access {
            Access::Key { key, .. } => write!(f, ", one row by {}", names(key.len()))?,
            Access::Span { span, .. } => {
                let bounded = usize::from(span.low.is_some() || span.high.is_some());
                write!(f, ", a range of {}", names(span.prefix.len() + bounded))?;
                if span.is_backwards() {
                    f.write_str(", backwards")?;
                }
            }
        }
        if self.residual.is_some() {
            f.write_str(", a condition on each row")?;
        }
        if !self.sort.is_empty() {
            f.write_str(", sorted")?;
        }
        if !self.totals.is_empty() {
            f.write_str(", aggregated")?;
        }
        Ok(())
    }
}
