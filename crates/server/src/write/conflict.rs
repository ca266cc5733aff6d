//! `ON CONFLICT`: which indexes decide, and what happens to a row that is there; and what clients are told of keys that are there.
//!
//! ```text
//!   DO UPDATE   look for the row of the key, and lock it ─► there is one: SET, WHERE ─► update
//!               └► none: insert ─► somebody has inserted it meanwhile: it is locked now; look again
//!   DO NOTHING  look at the snapshot, without a lock ─► there is one: nothing
//!               └► none: insert ─► somebody has inserted it meanwhile: nothing
//! ```
//!
//! Keys that no row has are not locked, for the reason that the store's `upsert` gives: two transactions that both had locked one could not insert
//! it any more. What it is not: the insert itself (`insert::writer`).

use super::expressions::Expressions;
use super::insert::{NewRows, column_name, null_refused, position, text_of};
use super::select::{Assigned, Source, Target, alone, check_assigned, numbered, push, select};
use super::{ColumnDefault, TableInfo, assign, rows, value_of};
use crate::session::{ClientSession, StoreFailure, Zone, cells_as, columns_of};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use corun_store::{Found, Index, Lock, Rid, RowBuf, RowRef, Snapshot, StoreError, Transaction, Value};
use corun_wire::error::{Refusal, code};
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, Expr, Ident, OnConflict as OnConflictClause, OnConflictAction,
};
use std::sync::Arc;

/// Looks at a key and inserts it, again and again, at most: each time somebody else has inserted or deleted it in between.
pub(super) const LOOKS_MAX: usize = 1000;

/// See [`self`].
#[derive(Debug)]
pub(super) struct OnConflict {
    /// Names of the indexes that decide.
    arbiters: Vec<String>,
    /// `None`: `DO NOTHING`.
    update: Option<Update>,
    /// What is wrong, and told when all else is known to be right.
    wrong: Option<Refusal>,
}

/// `DO UPDATE`.
#[derive(Debug)]
struct Update {
    set: Vec<(usize, SetTo)>,
    /// Over the row that is there, and the one that was to be inserted.
    expressions: Option<Expressions>,
    /// The position of `WHERE` among them.
    selection: Option<usize>,
    /// Whether columns of the deciding indexes are set.
    moves: bool,
}

#[derive(Debug)]
enum SetTo {
    /// The column's value of the row that was to be inserted.
    Excluded(usize),
    Item(usize),
    Default,
}

/// Indexes that decide, and the moment of a transaction that reads only one.
pub(super) struct Looker<'a> {
    info: &'a TableInfo,
    indexes: Vec<Index>,
    moment: Option<&'a Snapshot>,
}

/// A row that was to be inserted, by its position, and the one that is there.
pub(super) type Conflict = (usize, Rid);

impl OnConflict {
    /// Plans the clause. Types of parameters that it tells come from [`OnConflict::parameters`].
    ///
    /// # Errors
    /// Whatever is wrong with `SET` and `WHERE`. What is left is for [`OnConflict::check`].
    pub(super) async fn plan(
        session: &ClientSession,
        target: &Target,
        clause: &OnConflictClause,
        parameters: &[Type],
        text: &str,
    ) -> Result<OnConflict, Refusal> {
        let info = &target.info;
        let arbiters = arbiters(info, clause.conflict_target.as_ref())?;
        let none = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        let none =
            (arbiters.is_empty() && clause.conflict_target.is_some()).then(|| Refusal::new("42P10", none));
        let OnConflictAction::DoUpdate(clause_update) = &clause.action else {
            return Ok(OnConflict {
                arbiters,
                update: None,
                wrong: none,
            });
        };
        if clause.conflict_target.is_none() {
            let what = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(
                Refusal::new(code::SYNTAX_ERROR, what).hint("For example, ON CONFLICT (column_name).")
            );
        }
        let mut clause_update = clause_update.clone();
        target.unqualify(&mut clause_update);
        let mut items = Vec::new();
        let assigned = target.assignments(&clause_update.assignments, &mut items, text)?;
        // `SET a = excluded.a` needs no expression.
        let plain = |expr: &Expr| match expr {
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [relation, column] if crate::catalog::folded(relation) == "excluded" => {
                    position(info, column).ok()
                }
                _ => None,
            },
            _ => None,
        };
        let mut kept = Vec::new();
        let mut set = Vec::new();
        let mut computed = Vec::new();
        for Assigned { column, to } in assigned {
            let to = match to {
                Source::Default => SetTo::Default,
                Source::Item(at) => match items.get(at).and_then(item).map(|of| (of, plain(of))) {
                    Some((_, Some(from))) if info.columns[from].stored == info.columns[column].stored => {
                        SetTo::Excluded(from)
                    }
                    Some((of, _)) => {
                        let item = push(&mut kept, of.clone());
                        computed.push((column, of, item));
                        SetTo::Item(item)
                    }
                    None => return Err(Refusal::new(code::INTERNAL_ERROR, "SET without a value")),
                },
            };
            set.push((column, to));
        }
        let selection = clause_update.selection.map(|of| push(&mut kept, of));
        let expressions = match kept.is_empty() {
            true => None,
            false => {
                let excluded = numbered(info, Ident::new("excluded"));
                let select = select(kept, vec![alone(target.relation()), alone(excluded)], None);
                Some(Expressions::plan(session, select, parameters, text).await?)
            }
        };
        if let Some(of) = expressions
            .as_ref()
            .zip(selection)
            .map(|(of, at)| of.schema().field(at).clone())
        {
            check_condition(&of)?;
        }
        let mut wrong = None;
        if let Some(of) = &expressions {
            let types = columns_of(of.schema());
            for (column, expr, item) in computed {
                let column = &info.columns[column];
                wrong = wrong.or(check_assigned(
                    column,
                    expr,
                    types[item].of,
                    (session.zone(), text),
                )?);
            }
        }
        let decides = |column: usize| {
            let indexes = info
                .definition
                .indexes
                .iter()
                .filter(|index| arbiters.contains(&index.name));
            let mut columns = indexes.flat_map(|index| &index.columns);
            columns.any(|name| info.definition.position(name) == Some(column))
        };
        let moves = set.iter().any(|(column, _)| decides(*column));
        Ok(OnConflict {
            arbiters,
            update: Some(Update {
                set,
                expressions,
                selection,
                moves,
            }),
            wrong: wrong.or(none),
        })
    }

    /// # Errors
    /// 42P10: no index decides; a constant that its column does not take.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.wrong.clone().map_or(Ok(()), Err)
    }

    /// The types of the statement's parameters, as far as the clause tells.
    pub(super) fn parameters(&self) -> &[Type] {
        let expressions = self
            .update
            .as_ref()
            .and_then(|update| update.expressions.as_ref());
        expressions.map_or(&[], |of| of.parameters())
    }

    pub(super) fn updates(&self) -> bool {
        self.update.is_some()
    }

    /// Whether an update may give a row another key of a deciding index.
    pub(super) fn moves(&self) -> bool {
        self.update.as_ref().is_some_and(|update| update.moves)
    }

    /// Whether an index decides.
    pub(super) fn has_arbiter(&self, name: &str) -> bool {
        self.arbiters.iter().any(|arbiter| arbiter == name)
    }

    /// What looks for rows. `moment` is that of a transaction which reads only one.
    ///
    /// # Errors
    /// An index that is gone.
    pub(super) fn looker<'a>(
        &self,
        info: &'a TableInfo,
        moment: Option<&'a Snapshot>,
    ) -> Result<Looker<'a>, StoreFailure> {
        let index = |name: &String| {
            let found = info.table.index(name);
            found.ok_or_else(|| {
                let what = format!("index \"{name}\" was dropped while it was used");
                StoreFailure::Told(Refusal::new(code::SERIALIZATION_FAILURE, what))
            })
        };
        Ok(Looker {
            info,
            indexes: self.arbiters.iter().map(index).collect::<Result<_, _>>()?,
            moment,
        })
    }

    /// Updates rows that are there and locked, unless `WHERE` says not; returns their positions.
    ///
    /// # Errors
    /// What speaks against a value or a row.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a row is updated by, of which callers know different parts"
    )]
    pub(super) fn update(
        &self,
        transaction: &Transaction<'_>,
        info: &TableInfo,
        checks: &super::checks::Checks,
        conflicts: &[Conflict],
        new: &mut dyn NewRows,
        parameters: &[ScalarValue],
        zone: Zone,
    ) -> Result<Vec<Conflict>, StoreFailure> {
        let Some(update) = &self.update else {
            return Ok(Vec::new());
        };
        let table = &info.table;
        let mut there: Vec<(Rid, RowRef<'_>)> = Vec::with_capacity(conflicts.len());
        let mut excluded: Vec<RowBuf> = Vec::with_capacity(conflicts.len());
        for (at, rid) in conflicts {
            let row = transaction.get(table, *rid, Lock::Exclusive)?;
            let row = row.ok_or_else(|| StoreFailure::Told(gone()))?;
            there.push((*rid, row));
            excluded.push(new.row(*at)?.clone());
        }
        let values = match &update.expressions {
            None => None,
            Some(expressions) => {
                let there = rows::batch(info, &there)?;
                let excluded = rows::batch_of_new(info, excluded.iter().map(|row| (Rid(0), row)))?;
                Some(expressions.evaluate(&beside(&there, &excluded)?, parameters)?)
            }
        };
        let chosen = chosen(values.as_ref(), update.selection)?;
        let mut changed: Vec<(Conflict, RowBuf)> = Vec::with_capacity(conflicts.len());
        {
            let arrays = match &values {
                None => Vec::new(),
                Some(values) => crate::session::plain_columns(values)?,
            };
            let kinds: Vec<_> = match &values {
                None => Vec::new(),
                Some(values) => columns_of(values.schema_ref())
                    .iter()
                    .map(|column| column.of.kind)
                    .collect(),
            };
            let cells = arrays
                .iter()
                .zip(&kinds)
                .map(|(array, kind)| cells_as(array.as_ref(), *kind));
            let cells = cells.collect::<Result<Vec<_>, Refusal>>()?;
            for (at, ((conflict, (_, row)), excluded)) in
                conflicts.iter().zip(&there).zip(&excluded).enumerate()
            {
                if chosen
                    .as_ref()
                    .is_some_and(|chosen| chosen.is_null(at) || !chosen.value(at))
                {
                    continue;
                }
                let mut row = rows::copy(info, *row)?;
                let mut nulls = Vec::new();
                for (column, to) in &update.set {
                    let of = &info.columns[*column];
                    let is_null = match to {
                        SetTo::Excluded(from) => excluded.row().is_null(*from),
                        SetTo::Default => !matches!(of.default, ColumnDefault::Constant(_)),
                        SetTo::Item(item) => {
                            let value = cells[*item](at)?;
                            if value.is_some() {
                                assign(of, *column, value.as_ref(), &zone, &mut row)?;
                                continue;
                            }
                            true
                        }
                    };
                    if is_null && !of.nullable {
                        nulls.push(*column);
                        continue;
                    }
                    let value = match (to, &of.default) {
                        (SetTo::Excluded(from), _) => excluded.row().value(*from),
                        (SetTo::Default, ColumnDefault::Constant(constant)) => constant.value(),
                        _ => Value::Null,
                    };
                    row.set(*column, value)?;
                }
                if let Some(first) = nulls.iter().min() {
                    return Err(null_refused(info, *first, row.row(), &nulls, zone).into());
                }
                changed.push((*conflict, row));
            }
        }
        if !checks.is_empty() && !changed.is_empty() {
            let rows = rows::batch_of_new(info, changed.iter().map(|((_, rid), row)| (*rid, row)))?;
            checks.check(info, &rows, &zone)?;
        }
        let mut done = Vec::with_capacity(changed.len());
        for (conflict, mut new) in changed {
            let key = new.clone();
            let updated = transaction.update(table, conflict.1, |row| {
                std::mem::swap(row, &mut new);
                Ok(())
            });
            updated.map_err(|error| told(info, Some(key.row()), zone, error))?;
            done.push(conflict);
        }
        Ok(done)
    }
}

impl<'a> Looker<'a> {
    /// The row that has a key of another, locked. `is_own` of rows that the statement itself has written, which no moment shows.
    ///
    /// # Errors
    /// Locks that are not granted; 40001 of a row that the transaction cannot see.
    pub(super) fn locked<'t>(
        &'t self,
        transaction: &'t Transaction<'_>,
        row: &RowBuf,
        is_own: impl Fn(Rid) -> bool,
    ) -> Result<Option<Rid>, StoreFailure> {
        for index in &self.indexes {
            if let Some(key) = key_of(index, row.row())
                && let Some(found) = transaction.find_for_update(index, &key)?
            {
                return match is_own(found.rid) {
                    true => Ok(Some(found.rid)),
                    false => self.seen(found).map(Some),
                };
            }
        }
        Ok(None)
    }

    /// Whether there is a row with a key of another at a moment.
    ///
    /// # Errors
    /// An index that the moment does not have.
    pub(super) fn is_at(&self, moment: &Snapshot, row: &RowBuf) -> Result<bool, StoreFailure> {
        for index in &self.indexes {
            if let Some(key) = key_of(index, row.row())
                && moment.fetch(index, &key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A transaction that reads one moment must not change what it does not see.
    fn seen(&self, found: Found<'_>) -> Result<Rid, StoreFailure> {
        let Some(moment) = self.moment else {
            return Ok(found.rid);
        };
        let rid = found.rid.0;
        let mut rows = moment.rows(&self.info.table, rid..rid.saturating_add(1))?;
        match rows.next().is_some_and(|seen| seen.row == found.row) {
            true => Ok(found.rid),
            false => Err(crate::session::StoreTransaction::changed_meanwhile().into()),
        }
    }
}

/// The key that a row has in an index; `None`: a column of it is NULL, and so equals no other.
fn key_of<'r>(index: &Index, row: RowRef<'r>) -> Option<Vec<Value<'r>>> {
    let value = |at: &usize| Some(row.value(*at)).filter(|value| *value != Value::Null);
    index.columns().iter().map(value).collect()
}

fn item(of: &datafusion::sql::sqlparser::ast::SelectItem) -> Option<&Expr> {
    use datafusion::sql::sqlparser::ast::SelectItem;
    match of {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

fn gone() -> Refusal {
    Refusal::new(code::INTERNAL_ERROR, "a row that is locked is gone")
}

/// What a second change of the same row is told.
pub(super) fn second_time() -> Refusal {
    let what = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    Refusal::new("21000", what).hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

/// Which rows `WHERE` chooses; `None`: all.
fn chosen(values: Option<&RecordBatch>, selection: Option<usize>) -> Result<Option<BooleanArray>, Refusal> {
    let Some(array) = values
        .zip(selection)
        .and_then(|(values, at)| values.columns().get(at))
    else {
        return Ok(None);
    };
    match array.data_type() {
        DataType::Boolean => Ok(Some(array.as_boolean().clone())),
        DataType::Null => Ok(Some(BooleanArray::new_null(array.len()))),
        _ => Err(Refusal::new(code::INTERNAL_ERROR, "a condition has no answer")),
    }
}

/// A condition is true, false or NULL.
fn check_condition(of: &Field) -> Result<(), Refusal> {
    if matches!(of.data_type(), DataType::Boolean | DataType::Null) {
        return Ok(());
    }
    let of = columns_of(&Schema::new(vec![of.clone()]));
    let of = of
        .first()
        .map_or_else(String::new, |column| column.of.to_string());
    let what = format!("argument of WHERE must be type boolean, not type {of}");
    Err(Refusal::new("42804", what))
}

/// The columns of both.
fn beside(one: &RecordBatch, other: &RecordBatch) -> Result<RecordBatch, Refusal> {
    let fields = one
        .schema_ref()
        .fields()
        .iter()
        .chain(other.schema_ref().fields().iter());
    let fields: Vec<Arc<Field>> = fields.cloned().collect();
    let columns: Vec<ArrayRef> = one.columns().iter().chain(other.columns()).cloned().collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))
}

/// The indexes that decide; none: no index has such columns.
fn arbiters(info: &TableInfo, target: Option<&ConflictTarget>) -> Result<Vec<String>, Refusal> {
    let unique = info.definition.indexes.iter().filter(|index| index.unique);
    match target {
        None => Ok(unique.map(|index| index.name.clone()).collect()),
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = crate::catalog::folded(column_name(info, name)?);
            let mut found = unique.filter(|index| constraint(info, &index.name) == name);
            let found = found.next().ok_or_else(|| {
                let what = format!("constraint \"{name}\" for table \"{}\" does not exist", info.name);
                Refusal::new(code::UNDEFINED_OBJECT, what)
            })?;
            Ok(vec![found.name.clone()])
        }
        Some(ConflictTarget::Columns(columns)) => {
            let named = columns
                .iter()
                .map(|name| position(info, name).map_err(|_| no_column(name)));
            let mut named = named.collect::<Result<Vec<usize>, _>>()?;
            named.sort_unstable();
            named.dedup();
            let is_of = |columns: &Vec<String>| {
                let positions = columns.iter().map(|name| info.definition.position(name));
                let Some(mut positions) = positions.collect::<Option<Vec<usize>>>() else {
                    return false;
                };
                positions.sort_unstable();
                positions.dedup();
                positions == named
            };
            let found: Vec<String> = unique
                .filter(|index| is_of(&index.columns))
                .map(|index| index.name.clone())
                .collect();
            Ok(found)
        }
    }
}

fn no_column(name: &Ident) -> Refusal {
    Refusal::new(
        "42703",
        format!("column \"{}\" does not exist", crate::catalog::folded(name)),
    )
}

/// What clients call an index of the store.
pub(super) fn constraint(info: &TableInfo, index: &str) -> String {
    match &info.notes.primary_key {
        Some((name, of)) if of == index => name.clone(),
        _ if index == "primary" => format!("{}_pkey", info.name),
        _ => index.to_owned(),
    }
}

/// A refusal of the store's in PostgreSQL's words: of a key that another row has, where `row` is the one that was to have it.
pub(super) fn told(info: &TableInfo, row: Option<RowRef<'_>>, zone: Zone, error: StoreError) -> StoreFailure {
    let StoreError::Duplicate { index, key, .. } = &error else {
        return error.into();
    };
    let Some(definition) = info.definition.indexes.iter().find(|known| known.name == *index) else {
        return error.into();
    };
    let what = format!(
        "duplicate key value violates unique constraint \"{}\"",
        constraint(info, index)
    );
    let values = row.and_then(|row| {
        let values = definition.columns.iter().map(|name| {
            let at = info.definition.position(name)?;
            Some(text_of(&value_of(&info.columns[at], at, row)?, zone))
        });
        values.collect::<Option<Vec<String>>>()
    });
    let values = values.map_or_else(|| key.clone(), |values| values.join(", "));
    let detail = format!(
        "Key ({})=({values}) already exists.",
        definition.columns.join(", ")
    );
    Refusal::new("23505", what).detail(detail).into()
}
