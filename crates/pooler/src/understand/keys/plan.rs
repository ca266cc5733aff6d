//! [`KeyPlan`]: which keys of which columns a statement may touch, with its operands left open.

use corun_model::pooler::ranges::Span;

use super::KeyKind;
use super::operands::Operands;
use super::test::Test;
use crate::understand::TableName;

/// A column of which a statement says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The tables it may belong to: one, or all of its FROM where the text does not say which.
    pub tables: Box<[TableName]>,
    /// Its name, folded to lower case unless it was quoted.
    pub column: Box<str>,
    /// Which query of the text it belongs to: 0 is the first one or the statement itself, those inside and behind it follow.
    pub query: u16,
    /// Whether only a few values are left, as by an equality, and not a range.
    pub equality: bool,
    /// Its test among those of the plan: columns that are equal share one.
    pub(super) test: u16,
}

/// What a text says of the keys it touches. Made once for each distinct text, and shared by texts that differ in literals only.
///
/// Of a text with several queries (sub-selects, arms of UNION, statements), those further in are looked at only where the ones before
/// say nothing of a key: their rows are another matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// In the order of their queries.
    pub(super) columns: Box<[KeyColumn]>,
    pub(super) tests: Box<[Test]>,
}

impl KeyPlan {
    /// The columns it says something of, at most [`super::COLUMNS_MAX`].
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Finds the column to go by among those that are configured: `configured` is asked with a schema, if the text names one, a
    /// table and a column. Of several, one in an outer query before one further in, an equality before a range, the first in the
    /// text. The answer is the same for the same configuration, so it can be kept.
    pub fn resolve<Id>(
        &self,
        mut configured: impl FnMut(Option<&str>, &str, &str) -> Option<Id>,
    ) -> Option<(usize, Id)> {
        let mut range: Option<(usize, Id)> = None;
        for (index, column) in self.columns.iter().enumerate() {
            if let Some((first, _)) = &range {
                if self.columns[*first].query != column.query {
                    break;
                }
                if !column.equality {
                    continue;
                }
            }
            let found = column
                .tables
                .iter()
                .find_map(|table| configured(table.schema.as_deref(), &table.name, &column.column));
            if let Some(id) = found {
                if column.equality {
                    return Some((index, id));
                }
                range = Some((index, id));
            }
        }
        range
    }

    /// Keys of a column, by its index in [`KeyPlan::columns`], that one run of the statement may touch. A column that does not exist
    /// may have any. [`Span::NONE`] where the statement touches no row of it, as with `= NULL`: it can run anywhere.
    pub fn span(&self, column: usize, kind: KeyKind, operands: &impl Operands) -> Span {
        let test = self
            .columns
            .get(column)
            .and_then(|column| self.tests.get(usize::from(column.test)));
        test.map_or(Span::ALL, |test| test.span(kind, operands))
    }

    /// Bytes it takes on the heap, roughly.
    pub(in crate::understand) fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| {
            let tables = column.tables.iter().map(|table| {
                size_of::<TableName>() + table.name.len() + table.schema.as_ref().map_or(0, |name| name.len())
            });
            size_of::<KeyColumn>() + column.column.len() + tables.sum::<usize>()
        });
        let tests = self.tests.iter().map(|test| size_of::<Test>() + test.bytes());
        size_of::<KeyPlan>() + columns.sum::<usize>() + tests.sum::<usize>()
    }
}
