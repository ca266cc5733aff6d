//! Constraints of a statement: read from its AST ([`Wanted`]), then given names, columns and the tables they refer to ([`Resolved`]).
//!
//! What it is not: whether rows fulfil them.

use super::error::{self, INVALID_FOREIGN_KEY, INVALID_TABLE, UNDEFINED_COLUMN};
use super::expression;
use super::seen::{At, Relation, Seen, first_free, shown};
use crate::catalog::folded;
use crate::session::names;
use corun_store::{CheckDef, ForeignKeyDef, IndexDef, ReferentialAction};
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Expr,
    ForeignKeyConstraint, Ident, IndexColumn, NullsDistinctOption, ReferentialAction as Action,
    TableConstraint,
};

/// A constraint that a statement asks for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) name: Option<String>,
    pub(super) kind: WantedKind,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a definition has a few of them")]
pub(super) enum WantedKind {
    PrimaryKey(Vec<String>),
    Unique(Vec<String>),
    /// An index that is there becomes a constraint.
    UsingIndex {
        index: String,
        primary: bool,
    },
    Check(Expr),
    ForeignKey(Box<Reference>),
}

/// What a foreign key refers to.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    columns: Vec<String>,
    table: (Option<String>, String),
    referenced: Vec<String>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
    /// `DEFERRABLE`, and whether `INITIALLY DEFERRED`.
    deferrable: Option<bool>,
}

/// A constraint that can be made.
#[derive(Debug, Clone)]
pub(super) enum Resolved {
    PrimaryKey {
        name: String,
        columns: Vec<String>,
    },
    Unique(IndexDef),
    UsingIndex {
        name: String,
        index: String,
        primary: bool,
    },
    Check(CheckDef),
    ForeignKey(ForeignKeyDef, Option<bool>),
}

/// `IndexDef` has no public constructor.
pub(super) fn index(name: &str, columns: Vec<String>, unique: bool) -> IndexDef {
    IndexDef {
        name: name.to_owned(),
        columns,
        unique,
    }
}

pub(super) fn primary_key(columns: Vec<String>, name: Option<String>) -> Wanted {
    Wanted {
        name,
        kind: WantedKind::PrimaryKey(columns),
    }
}

/// `DEFERRABLE`, and whether `INITIALLY DEFERRED`.
fn deferrable(of: Option<&ConstraintCharacteristics>) -> Result<Option<bool>, Refusal> {
    let Some(of) = of else {
        return Ok(None);
    };
    if of.enforced == Some(false) {
        return Err(error::unsupported("NOT ENFORCED"));
    }
    let deferred = of.initially == Some(DeferrableInitial::Deferred);
    if deferred && of.deferrable == Some(false) {
        return Err(error::syntax(
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ));
    }
    Ok((deferred || of.deferrable == Some(true)).then_some(deferred))
}

/// Keys of indexes are looked at at once.
fn check_at_once(of: Option<&ConstraintCharacteristics>) -> Result<(), Refusal> {
    match deferrable(of)? {
        None => Ok(()),
        Some(_) => Err(error::unsupported("a DEFERRABLE unique constraint")),
    }
}

/// The columns of an index, without an order or functions.
///
/// # Errors
/// 0A000 for expressions.
pub(super) fn plain_columns(of: &[IndexColumn]) -> Result<Vec<String>, Refusal> {
    let column = |of: &IndexColumn| match &of.column.expr {
        Expr::Identifier(name) => Ok(folded(name)),
        Expr::Nested(inner) if matches!(**inner, Expr::Identifier(_)) => match &**inner {
            Expr::Identifier(name) => Ok(folded(name)),
            _ => Err(error::unsupported("an index on an expression")),
        },
        _ => Err(error::unsupported("an index on an expression")
            .hint("Index a column that has the expression's value.")),
    };
    of.iter().map(column).collect()
}

fn action(of: Option<Action>) -> Result<ReferentialAction, Refusal> {
    Ok(match of {
        None | Some(Action::NoAction) => ReferentialAction::NoAction,
        Some(Action::Restrict) => ReferentialAction::Restrict,
        Some(Action::Cascade) => ReferentialAction::Cascade,
        Some(Action::SetNull) => ReferentialAction::SetNull,
        Some(Action::SetDefault) => return Err(error::unsupported("SET DEFAULT of a foreign key")),
    })
}

fn check(of: &CheckConstraint, name: Option<String>) -> Result<Wanted, Refusal> {
    if of.enforced == Some(false) {
        return Err(error::unsupported("NOT ENFORCED"));
    }
    Ok(Wanted {
        name,
        kind: WantedKind::Check(of.expr.as_ref().clone()),
    })
}

/// A foreign key; `columns` are those of a column's constraint.
fn reference(
    of: &ForeignKeyConstraint,
    name: Option<String>,
    column: Option<&str>,
) -> Result<Wanted, Refusal> {
    let columns: Vec<String> = match column {
        Some(column) => vec![column.to_owned()],
        None => of.columns.iter().map(folded).collect(),
    };
    match of.match_kind {
        None | Some(ConstraintReferenceMatchKind::Simple) => {}
        Some(ConstraintReferenceMatchKind::Full) if columns.len() == 1 => {}
        Some(_) => return Err(error::unsupported("MATCH FULL or PARTIAL of several columns")),
    }
    Ok(Wanted {
        name,
        kind: WantedKind::ForeignKey(Box::new(Reference {
            columns,
            table: names(&of.foreign_table)?,
            referenced: of.referred_columns.iter().map(folded).collect(),
            on_delete: action(of.on_delete)?,
            on_update: action(of.on_update)?,
            deferrable: deferrable(of.characteristics.as_ref())?,
        })),
    })
}

/// A column's constraint, if it is one.
///
/// # Errors
/// What PostgreSQL has and this server has not.
pub(super) fn of_column(
    option: &datafusion::sql::sqlparser::ast::ColumnOption,
    name: Option<&Ident>,
    column: &str,
) -> Result<Option<Wanted>, Refusal> {
    use datafusion::sql::sqlparser::ast::ColumnOption as Option_;
    let name = name.map(folded);
    let columns = || vec![column.to_owned()];
    Ok(Some(match option {
        Option_::PrimaryKey(of) => {
            check_at_once(of.characteristics.as_ref())?;
            primary_key(columns(), name)
        }
        Option_::Unique(of) => {
            check_at_once(of.characteristics.as_ref())?;
            if matches!(of.nulls_distinct, NullsDistinctOption::NotDistinct) {
                return Err(error::unsupported("NULLS NOT DISTINCT"));
            }
            Wanted {
                name,
                kind: WantedKind::Unique(columns()),
            }
        }
        Option_::Check(of) => check(of, name)?,
        Option_::ForeignKey(of) => reference(of, name, Some(column))?,
        _ => return Ok(None),
    }))
}

/// A table's constraint.
///
/// # Errors
/// What PostgreSQL has and this server has not.
pub(super) fn of_table(constraint: &TableConstraint) -> Result<Wanted, Refusal> {
    let named = |name: &Option<Ident>| name.as_ref().map(folded);
    match constraint {
        TableConstraint::PrimaryKey(of) => {
            check_at_once(of.characteristics.as_ref())?;
            Ok(primary_key(plain_columns(&of.columns)?, named(&of.name)))
        }
        TableConstraint::Unique(of) => {
            check_at_once(of.characteristics.as_ref())?;
            if matches!(of.nulls_distinct, NullsDistinctOption::NotDistinct) {
                return Err(error::unsupported("NULLS NOT DISTINCT"));
            }
            Ok(Wanted {
                name: named(&of.name),
                kind: WantedKind::Unique(plain_columns(&of.columns)?),
            })
        }
        TableConstraint::Check(of) => check(of, named(&of.name)),
        TableConstraint::ForeignKey(of) => reference(of, named(&of.name), None),
        TableConstraint::PrimaryKeyUsingIndex(of) | TableConstraint::UniqueUsingIndex(of) => {
            check_at_once(of.characteristics.as_ref())?;
            Ok(Wanted {
                name: named(&of.name),
                kind: WantedKind::UsingIndex {
                    index: folded(&of.index_name),
                    primary: matches!(constraint, TableConstraint::PrimaryKeyUsingIndex(_)),
                },
            })
        }
        other => Err(error::unsupported(format!("the constraint {other}"))),
    }
}

/// The table whose constraints are resolved, as it will be.
pub(super) struct Target<'t> {
    pub(super) at: &'t At,
    pub(super) columns: Vec<&'t str>,
    /// Columns of the primary key, if it has one.
    pub(super) primary: Option<Vec<String>>,
    /// Columns of its unique indexes.
    pub(super) unique: Vec<Vec<String>>,
    /// Names of its constraints, indexes and sequences that are not in `seen`.
    pub(super) taken: Vec<String>,
}

impl Target<'_> {
    fn check_columns(&self, columns: &[String], what: &str) -> Result<(), Refusal> {
        for (at, column) in columns.iter().enumerate() {
            if !self.columns.contains(&column.as_str()) {
                return Err(Refusal::new(
                    UNDEFINED_COLUMN,
                    format!("column \"{column}\" named in key does not exist"),
                ));
            }
            if columns[..at].contains(column) {
                let what = format!("column \"{column}\" appears twice in {what} constraint");
                return Err(Refusal::new(error::DUPLICATE_COLUMN, what));
            }
        }
        Ok(())
    }

    /// The name of an index that is a constraint.
    fn index_name(
        &mut self,
        seen: &Seen,
        given: Option<&String>,
        columns: &str,
        word: &str,
    ) -> Result<String, Refusal> {
        let (schema, table) = self.at;
        let name = match given {
            Some(name) if seen.relation(schema, name).is_some() => return Err(error::exists(name)),
            Some(name) if self.taken.contains(name) => return Err(error::exists(name)),
            Some(name) => name.clone(),
            None => seen.free_relation(schema, (table, columns, word), &self.taken),
        };
        self.taken.push(name.clone());
        Ok(name)
    }

    fn constraint_name(
        &mut self,
        given: Option<&String>,
        columns: &str,
        word: &str,
    ) -> Result<String, Refusal> {
        let name = match given {
            Some(name) if self.taken.contains(name) => {
                return Err(error::constraint_exists(name, &self.at.1));
            }
            Some(name) => name.clone(),
            None => first_free(&self.at.1, columns, word, |name| {
                !self.taken.iter().any(|taken| taken == name)
            }),
        };
        self.taken.push(name.clone());
        Ok(name)
    }

    /// Makes the constraints of a table that can be: keys first, since foreign keys may refer to the table itself.
    ///
    /// # Errors
    /// What speaks against them, in PostgreSQL's words.
    pub(super) fn resolve(&mut self, wanted: &[Wanted], seen: &Seen) -> Result<Vec<Resolved>, Refusal> {
        let is_key = |wanted: &&Wanted| {
            matches!(
                wanted.kind,
                WantedKind::PrimaryKey(_) | WantedKind::Unique(_) | WantedKind::UsingIndex { .. }
            )
        };
        // The primary key's index is named before those of others.
        let is_primary = |wanted: &&Wanted| matches!(wanted.kind, WantedKind::PrimaryKey(_));
        let primary = wanted.iter().filter(is_primary);
        let keys = wanted.iter().filter(is_key).filter(|wanted| !is_primary(wanted));
        let others = wanted.iter().filter(|wanted| !is_key(wanted));
        let all = primary.chain(keys).chain(others);
        let mut resolved = Vec::new();
        for wanted in all {
            resolved.push(self.one(wanted, seen)?);
        }
        Ok(resolved)
    }

    fn check_first_primary(&self) -> Result<(), Refusal> {
        if self.primary.is_none() {
            return Ok(());
        }
        let table = &self.at.1;
        let what = format!("multiple primary keys for table \"{table}\" are not allowed");
        Err(Refusal::new(INVALID_TABLE, what))
    }

    fn one(&mut self, wanted: &Wanted, seen: &Seen) -> Result<Resolved, Refusal> {
        let given = wanted.name.as_ref();
        match &wanted.kind {
            WantedKind::PrimaryKey(columns) => {
                self.check_first_primary()?;
                self.check_columns(columns, "primary key")?;
                let name = self.index_name(seen, given, "", "pkey")?;
                self.primary = Some(columns.clone());
                self.unique.push(columns.clone());
                Ok(Resolved::PrimaryKey {
                    name,
                    columns: columns.clone(),
                })
            }
            WantedKind::Unique(columns) => {
                self.check_columns(columns, "unique")?;
                let name = self.index_name(seen, given, &columns.join("_"), "key")?;
                self.unique.push(columns.clone());
                Ok(Resolved::Unique(index(&name, columns.clone(), true)))
            }
            WantedKind::UsingIndex { index, primary } => {
                if *primary {
                    self.check_first_primary()?;
                }
                self.using_index(seen, index, given, *primary)
            }
            WantedKind::Check(expr) => {
                let expr = expression::unqualified(expr, &self.at.1);
                let used = expression::check_condition(&expr)?;
                if let Some(column) = used.iter().find(|used| !self.columns.contains(&used.as_str())) {
                    let what = format!("column \"{column}\" does not exist");
                    return Err(Refusal::new(UNDEFINED_COLUMN, what));
                }
                let columns = match used.as_slice() {
                    [only] => only.as_str(),
                    _ => "",
                };
                let name = self.constraint_name(given, columns, "check")?;
                Ok(Resolved::Check(CheckDef::new(&name, &expr.to_string())))
            }
            WantedKind::ForeignKey(of) => self.foreign_key(of, given, seen),
        }
    }

    fn using_index(
        &mut self,
        seen: &Seen,
        index: &str,
        given: Option<&String>,
        primary: bool,
    ) -> Result<Resolved, Refusal> {
        let (schema, table) = self.at;
        let Some(Relation::Index(info, found)) = seen.relation(schema, index) else {
            return Err(error::missing("index", index));
        };
        if info.name != *table {
            let what = format!("index \"{index}\" does not belong to table \"{table}\"");
            return Err(Refusal::new(code::NOT_NOW, what));
        }
        if !found.unique {
            return Err(Refusal::new(
                error::WRONG_OBJECT,
                format!("\"{index}\" is not a unique index"),
            ));
        }
        if info.is_constraint(&found.name) {
            let what = format!("index \"{index}\" is already associated with a constraint");
            return Err(Refusal::new(code::NOT_NOW, what));
        }
        let name = match given {
            Some(name) if name != index => self.index_name(seen, given, "", "key")?,
            _ => index.to_owned(),
        };
        Ok(Resolved::UsingIndex {
            name,
            index: found.name.clone(),
            primary,
        })
    }

    fn foreign_key(
        &mut self,
        of: &Reference,
        given: Option<&String>,
        seen: &Seen,
    ) -> Result<Resolved, Refusal> {
        for column in &of.columns {
            if !self.columns.contains(&column.as_str()) {
                let what = format!("column \"{column}\" referenced in foreign key constraint does not exist");
                return Err(Refusal::new(UNDEFINED_COLUMN, what));
            }
        }
        let is_itself = of.table.1 == self.at.1
            && match &of.table.0 {
                Some(schema) => *schema == self.at.0,
                None => match seen.find(&of.table) {
                    None => true,
                    Some((at, _)) => at == *self.at,
                },
            };
        let (schema, table, parent_columns, primary, unique);
        if is_itself {
            (schema, table) = self.at.clone();
            parent_columns = self
                .columns
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>();
            primary = self.primary.clone();
            unique = self.unique.clone();
        } else {
            let parent = seen.find_table(&of.table)?;
            (schema, table) = (parent.schema.clone(), parent.name.clone());
            parent_columns = parent.columns.iter().map(|column| column.name.clone()).collect();
            primary = parent.primary_index().map(|index| index.columns.clone());
            let indexes = parent.definition.indexes.iter().filter(|index| index.unique);
            unique = indexes.map(|index| index.columns.clone()).collect();
        }
        let referenced = match of.referenced.is_empty() {
            false => of.referenced.clone(),
            true => primary.ok_or_else(|| {
                let what = format!("there is no primary key for referenced table \"{table}\"");
                Refusal::new(code::UNDEFINED_OBJECT, what)
            })?,
        };
        if let Some(column) = referenced.iter().find(|column| !parent_columns.contains(column)) {
            let what = format!("column \"{column}\" referenced in foreign key constraint does not exist");
            return Err(Refusal::new(UNDEFINED_COLUMN, what));
        }
        if referenced.len() != of.columns.len() {
            let what = "number of referencing and referenced columns for foreign key disagree";
            return Err(Refusal::new(INVALID_FOREIGN_KEY, what));
        }
        let is_key = |columns: &Vec<String>| {
            columns.len() == referenced.len() && columns.iter().all(|column| referenced.contains(column))
        };
        if !unique.iter().any(is_key) {
            let what = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                shown(&of.table)
            );
            return Err(Refusal::new(INVALID_FOREIGN_KEY, what));
        }
        let name = self.constraint_name(given, &of.columns.join("_"), "fkey")?;
        let key = ForeignKeyDef {
            name,
            columns: of.columns.clone(),
            schema,
            table,
            referenced,
            on_delete: of.on_delete,
            on_update: of.on_update,
        };
        Ok(Resolved::ForeignKey(key, of.deferrable))
    }
}
