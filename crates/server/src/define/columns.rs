//! Columns of `CREATE TABLE` and `ALTER TABLE ... ADD COLUMN`, read from their AST.

use super::constraints::{self, Wanted};
use super::error::{self, DUPLICATE_COLUMN};
use super::expression::default_of;
use super::seen::{At, Seen, quoted_at};
use super::sequence::{Plan, plan};
use super::step::{Step, note};
use crate::catalog::folded;
use crate::session::Zone;
use crate::write::{Column, ColumnDefault, Identity, Property, needs_entry, store_type};
use corun_store::{ColumnDef as StoreColumn, Constant};
use corun_wire::error::Refusal;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, DataType, Expr, GeneratedAs, SequenceOptions,
};

/// A column to be made, and what comes with it.
pub(super) struct NewColumn {
    pub(super) column: Column,
    /// Made before the table is.
    pub(super) sequence: Option<Plan>,
    pub(super) constraints: Vec<Wanted>,
    /// It said `NULL`.
    pub(super) said_null: bool,
}

/// Collations by which texts are ordered here anyway.
const COLLATIONS: &[&str] = &[
    "c",
    "posix",
    "default",
    "ucs_basic",
    "c.utf8",
    "c.utf-8",
    "pg_c_utf8",
];

/// The integer type of `serial` and the like.
fn serial(of: &DataType) -> Option<DataType> {
    let DataType::Custom(name, modifiers) = of else {
        return None;
    };
    if !modifiers.is_empty() {
        return None;
    }
    match name.to_string().to_lowercase().as_str() {
        "serial" | "serial4" => Some(DataType::Integer(None)),
        "bigserial" | "serial8" => Some(DataType::BigInt(None)),
        "smallserial" | "serial2" => Some(DataType::SmallInt(None)),
        _ => None,
    }
}

/// Where a column is made.
pub(super) struct Place<'p> {
    pub(super) at: &'p At,
    pub(super) seen: &'p Seen,
    pub(super) zone: &'p Zone,
}

impl Place<'_> {
    /// Reads a column. `taken` are names of relations that the statement makes; its sequence's is added.
    ///
    /// # Errors
    /// What speaks against it, in PostgreSQL's words.
    pub(super) fn column(&self, of: &ColumnDef, taken: &mut Vec<String>) -> Result<NewColumn, Refusal> {
        let name = folded(&of.name);
        let table = &self.at.1;
        let integer = serial(&of.data_type);
        let (declared, stored) = store_type(integer.as_ref().unwrap_or(&of.data_type))?;
        let mut new = NewColumn {
            column: Column {
                name: name.clone(),
                declared,
                stored,
                nullable: true,
                default: ColumnDefault::None,
                identity: None,
            },
            sequence: None,
            constraints: Vec::new(),
            said_null: false,
        };
        let mut not_null = integer.is_some();
        let mut default: Option<&Expr> = None;
        let mut identity: Option<(Identity, &[SequenceOptions])> = None;
        for option in &of.options {
            match &option.option {
                ColumnOption::Null => new.said_null = true,
                ColumnOption::NotNull => not_null = true,
                ColumnOption::Default(expr) => {
                    if default.replace(expr).is_some() {
                        let what = format!(
                            "multiple default values specified for column \"{name}\" of table \"{table}\""
                        );
                        return Err(error::syntax(what));
                    }
                }
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr,
                    ..
                } => {
                    let of = match generated_as {
                        GeneratedAs::Always if generation_expr.is_none() => Identity::Always,
                        GeneratedAs::ByDefault if generation_expr.is_none() => Identity::ByDefault,
                        _ => return Err(error::unsupported("a generated column")),
                    };
                    if identity
                        .replace((of, sequence_options.as_deref().unwrap_or_default()))
                        .is_some()
                    {
                        let what = format!(
                            "multiple identity specifications for column \"{name}\" of table \"{table}\""
                        );
                        return Err(error::syntax(what));
                    }
                }
                ColumnOption::Collation(name) => check_collation(&name.to_string())?,
                other => match constraints::of_column(other, option.name.as_ref(), &name)? {
                    Some(wanted) => {
                        not_null |= matches!(wanted.kind, constraints::WantedKind::PrimaryKey(_));
                        new.constraints.push(wanted);
                    }
                    None => return Err(error::unsupported(format!("the column option {other}"))),
                },
            }
        }
        if (default.is_some() && (identity.is_some() || integer.is_some()))
            || (identity.is_some() && integer.is_some())
        {
            let both = match identity {
                Some(_) => "both default and identity",
                None => "multiple default values",
            };
            let what = format!("{both} specified for column \"{name}\" of table \"{table}\"");
            return Err(error::syntax(what));
        }
        if identity.is_some() && super::sequence::of_type(&declared).is_none() {
            let what = "identity column type must be smallint, integer, or bigint";
            return Err(Refusal::new("22023", what));
        }
        if let Some(options) = identity
            .map(|(_, options)| options)
            .or(integer.is_some().then_some(&[]))
        {
            let sequence = self.owned(&new.column, options, taken)?;
            new.column.default = next_of(&sequence.at());
            new.sequence = Some(sequence);
        }
        new.column.identity = identity.map(|(of, _)| of);
        not_null |= identity.is_some();
        if not_null && new.said_null {
            return Err(conflicting(&name, table));
        }
        new.column.nullable = !not_null;
        if let Some(expr) = default {
            // A default that is NULL is none, of a column without NULL, too.
            new.column.default = default_of(expr, &new.column, self.zone, self.seen)?;
        }
        Ok(new)
    }

    /// The sequence of a column.
    pub(super) fn owned(
        &self,
        column: &Column,
        options: &[SequenceOptions],
        taken: &mut Vec<String>,
    ) -> Result<Plan, Refusal> {
        let (schema, table) = self.at;
        let name = self
            .seen
            .free_relation(schema, (table, &column.name, "seq"), taken);
        taken.push(name.clone());
        let of = super::sequence::of_type(&column.declared).unwrap_or("bigint");
        plan(&(schema.clone(), name), of, options)
    }
}

pub(super) fn conflicting(column: &str, table: &str) -> Refusal {
    let what = format!("conflicting NULL/NOT NULL declarations for column \"{column}\" of table \"{table}\"");
    error::syntax(what)
}

fn check_collation(name: &str) -> Result<(), Refusal> {
    let bare = name.replace('"', "").to_lowercase();
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(&bare);
    match COLLATIONS.contains(&bare) {
        true => Ok(()),
        false => Err(error::unsupported(format!("the collation {name}"))
            .hint("Texts are compared by their bytes, as by the collation \"C\".")),
    }
}

/// The default of a column that has a sequence.
pub(super) fn next_of(at: &At) -> ColumnDefault {
    let name = quoted_at(at).replace('\'', "''");
    ColumnDefault::Expression(format!("nextval('{name}')"))
}

/// A column as the store has it.
pub(super) fn store_column(of: &Column) -> StoreColumn {
    StoreColumn {
        name: of.name.clone(),
        data_type: of.stored,
        nullable: of.nullable,
        default: constant_of(of),
    }
}

/// The default that the store knows.
pub(super) fn constant_of(of: &Column) -> Option<Constant> {
    match &of.default {
        ColumnDefault::Constant(constant) => Some(constant.clone()),
        _ => None,
    }
}

/// What the dictionary has to know of a column.
pub(super) fn notes(at: &At, of: &Column, sequence: Option<&At>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut put = |property, value: String| steps.push(note(at, &of.name, property, value));
    if needs_entry(&of.declared, of.stored) {
        put(Property::Type, of.declared.to_string());
    }
    if let ColumnDefault::Expression(text) = &of.default {
        put(Property::Default, text.clone());
    }
    match of.identity {
        Some(Identity::Always) => put(Property::Identity, "always".to_owned()),
        Some(Identity::ByDefault) => put(Property::Identity, "by default".to_owned()),
        None => {}
    }
    if let Some(sequence) = sequence {
        put(Property::Sequence, quoted_at(sequence));
    }
    steps
}

/// The first column that is there twice.
///
/// # Errors
/// 42701.
pub(super) fn check_names(columns: &[NewColumn]) -> Result<(), Refusal> {
    for (at, new) in columns.iter().enumerate() {
        let name = &new.column.name;
        if columns[..at].iter().any(|other| other.column.name == *name) {
            let what = format!("column \"{name}\" specified more than once");
            return Err(Refusal::new(DUPLICATE_COLUMN, what));
        }
    }
    Ok(())
}
