//! [`Relation`]: what is known of the rows between two operators.

use super::leaf::{KeyNumbers, Leaf};
use crate::decide::decision::Source;
use crate::join::keys::is_integer_like;
use arrow::datatypes::{DataType, SchemaRef};
use corun_model::operators::cardinality::Cardinality;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use std::sync::Arc;

/// Bytes taken for a string whose length nobody knows.
const STRING_BYTES: f64 = 20.0;

/// A column.
#[derive(Clone)]
pub struct Column {
    /// Where its values were sampled.
    leaf: Option<(Arc<Leaf>, usize)>,
    /// Bytes of a row.
    width: Width,
    /// Its key, as the table's statistics say.
    key: Option<KeyNumbers>,
}

#[derive(Clone, Copy)]
enum Width {
    Known(f64),
    /// By the sample, or else this.
    Guess(f64),
}

/// Rows on their way.
#[derive(Clone)]
pub struct Relation {
    /// How many.
    pub rows: Cardinality,
    /// How that is known.
    pub from: Source,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Names of the tables they come from.
    pub tables: Vec<String>,
    /// Names tables and conditions, constants included.
    pub fingerprint: String,
}

impl Column {
    /// A column of which its type is known.
    pub fn of_type(data_type: &DataType) -> Self {
        let width = match data_type {
            DataType::Boolean => Width::Known(0.125),
            other => match other.primitive_width() {
                Some(bytes) => Width::Known(bytes as f64),
                None => Width::Guess(STRING_BYTES),
            },
        };
        Column {
            leaf: None,
            width,
            key: None,
        }
    }

    /// With what statistics say: bytes a row on average, range of codes and different values.
    pub fn with_statistics(mut self, width: Option<f64>, key: Option<KeyNumbers>) -> Self {
        if let (Width::Guess(_), Some(width)) = (self.width, width) {
            self.width = Width::Known(width);
        }
        self.key = key;
        self
    }

    /// Bytes of a row.
    pub fn width(&self) -> f64 {
        match (self.width, &self.leaf) {
            (Width::Known(bytes), _) => bytes,
            (Width::Guess(bytes), Some((leaf, column))) => leaf.width(*column).unwrap_or(bytes),
            (Width::Guess(bytes), None) => bytes,
        }
    }
}

/// A column of each type.
pub fn columns_of(schema: &SchemaRef) -> Vec<Column> {
    schema
        .fields()
        .iter()
        .map(|field| Column::of_type(field.data_type()))
        .collect()
}

impl Relation {
    /// The rows of a leaf.
    pub fn of_leaf(leaf: Leaf, schema: &SchemaRef, table: String) -> Self {
        let sample = leaf.sample();
        let leaf = Arc::new(leaf);
        let columns = columns_of(schema)
            .into_iter()
            .enumerate()
            .map(|(index, column)| Column {
                leaf: Some((Arc::clone(&leaf), index)),
                ..column
            });
        Relation {
            rows: Cardinality {
                rows: sample.rows(),
                unfiltered_rows: sample.table_rows as f64,
            },
            from: if leaf.unfiltered || sample.is_whole() {
                Source::Exact
            } else {
                Source::Sample
            },
            columns: columns.collect(),
            tables: vec![table],
            fingerprint: leaf.fingerprint.clone(),
        }
    }

    /// Bytes of a row in all columns.
    pub fn width(&self) -> f64 {
        self.columns.iter().map(Column::width).sum()
    }

    /// The key that expressions over this relation make. `None` where they are not columns of one table with numbers.
    pub fn key(&self, expressions: &[PhysicalExprRef]) -> Option<KeyNumbers> {
        let columns: Option<Vec<&Column>> = expressions
            .iter()
            .map(|expression| self.columns.get(expression.downcast_ref::<ColumnExpr>()?.index()))
            .collect();
        let columns = columns?;
        let leaf = &columns.first()?.leaf;
        let key = match leaf {
            Some((leaf, _)) => {
                let indices = columns.iter().map(|column| match &column.leaf {
                    Some((other, index)) if Arc::ptr_eq(other, leaf) => Some(*index),
                    _ => None,
                });
                leaf.key(&indices.collect::<Option<Vec<_>>>()?)?
            }
            None if columns.len() == 1 => columns[0].key?,
            None => return None,
        };
        Some(KeyNumbers {
            distinct: key.distinct.min(self.rows.rows),
            ..key
        })
    }

    /// Groups by these expressions: of columns of one sample those found there, else every combination of their values, as
    /// far as there are rows. `None` where some expression's values are unknown.
    pub fn groups(&self, expressions: &[PhysicalExprRef]) -> Option<f64> {
        if let Some(together) = self.key(expressions) {
            return Some(together.distinct.max(1.0).min(self.rows.rows));
        }
        let values = expressions.iter().map(|expression| {
            let one = std::slice::from_ref(expression);
            self.key(one).map(|key| key.distinct.max(1.0))
        });
        let product = values.collect::<Option<Vec<f64>>>()?.iter().product::<f64>();
        Some(product.min(self.rows.rows))
    }

    /// `tables` in one word.
    pub fn name(&self) -> String {
        if self.tables.is_empty() {
            "rows".into()
        } else {
            self.tables.join("+")
        }
    }
}

/// The widest range that codes of key columns can have.
pub fn bounds_of_types(types: &[DataType]) -> (u64, u64) {
    match types {
        [one] if is_integer_like(one) && one.primitive_width().is_some_and(|bytes| bytes <= 4) => {
            (0, u64::from(u32::MAX))
        }
        _ => (0, u64::MAX),
    }
}
