//! [`Statements`]: what takes a database's time, and which keys it names. Pure.

use std::sync::Arc;

use super::joins::{Joins, joins};
use super::schema::{Place, Schema};
use crate::understand::{Limits, TableName, Understanding, Understood};

/// Where statements are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// pg_stat_statements: all of them.
    Server,
    /// `SHOW QUERIES`: those that took longer than half a millisecond.
    Proxy,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "pg_stat_statements",
            Self::Proxy => "SHOW QUERIES",
        }
    }
}

/// A statement with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// With `$n` in place of literals.
    pub text: String,
    pub calls: u64,
    pub total_us: f64,
}

/// A statement on data that is understood.
#[derive(Debug)]
pub(super) struct Known {
    pub statement: Statement,
    pub understood: Arc<Understood>,
    pub joins: Joins,
    /// Columns it names keys of.
    pub named: Vec<Place>,
}

/// All of a database.
#[derive(Debug)]
pub(super) struct Statements {
    pub source: Source,
    /// Those with the most time first.
    pub known: Vec<Known>,
    /// Calls and time of all, also of those that are not understood.
    pub calls: u64,
    pub total_us: f64,
}

/// Looks into texts. Those that are no statements on data, or cut off, are only counted.
pub(super) fn understood(schema: &Schema, statements: Vec<Statement>, source: Source) -> Statements {
    let mut understanding = Understanding::new(Limits::default());
    let mut all = Statements {
        source,
        known: Vec::new(),
        calls: 0,
        total_us: 0.0,
    };
    for statement in statements {
        let understood = understanding.of(statement.text.as_bytes());
        if understood.statements == 1 && !understood.kind.is_data() {
            // BEGIN, SET and their like: nobody would dispatch or split them.
            continue;
        }
        let of_system = |table: &TableName| table.name.starts_with("pg_");
        if !understood.tables.is_empty() && understood.tables.iter().all(of_system) {
            // Somebody looks at the catalog, as we do.
            continue;
        }
        all.calls = all.calls.saturating_add(statement.calls);
        all.total_us += statement.total_us;
        if understood.kind.is_data() {
            all.known.push(Known {
                joins: joins(schema, &statement.text),
                named: named(schema, &understood),
                understood,
                statement,
            });
        }
    }
    all.known
        .sort_by(|a, b| b.statement.total_us.total_cmp(&a.statement.total_us));
    all
}

impl Statements {
    /// Calls of statements that name keys of one of these columns.
    pub fn keyed(&self, columns: &[Place]) -> u64 {
        let is_keyed = |known: &&Known| known.named.iter().any(|place| columns.contains(place));
        let keyed = self.known.iter().filter(is_keyed);
        keyed.map(|known| known.statement.calls).sum()
    }
}

/// Columns a statement names keys of.
fn named(schema: &Schema, understood: &Understood) -> Vec<Place> {
    let columns = understood.keys.iter().flat_map(|plan| plan.columns());
    columns
        .flat_map(|column| {
            column.tables.iter().filter_map(|table| {
                let table = schema.find(table.schema.as_deref(), &table.name)?;
                schema.column_of(table, &column.column)
            })
        })
        .collect()
}
