//! `CREATE SEQUENCE`, `ALTER SEQUENCE`, and the sequences of `serial` and identity columns.
//!
//! All of it is part of the client's transaction, `RESTART` too: another sequence takes the place of the one that is altered. Numbers are not:
//! see [`crate::write::sequences`].
//!
//! A sequence that a column owns goes with its column. What it is not: `nextval` and the like.

use super::error;
use super::seen;
use super::seen::{At, Relation, Seen, quoted_at};
use super::step::{Step, apply, note};
use crate::session::{ClientSession, names};
use crate::write::sequences::{Limits, Numbers, TYPES, name_parts};
use crate::write::{Declared, Property, TableInfo, store_type};
use corun_store::{Sequence, SequenceDef, StoreError, Transaction};
use corun_wire::error::{Refusal, code};
use corun_wire::values::Kind;
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, DataType, Expr, ObjectName, RenameTableNameKind, SequenceOptions, SqlOption, Value,
};

/// Numbers that are on disk before one of them is given out, at least.
const CACHE: u32 = 32;

/// A sequence to be made.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    definition: SequenceDef,
    limits: Limits,
    of: &'static str,
}

impl Plan {
    pub(super) fn at(&self) -> At {
        (self.definition.schema.clone(), self.definition.name.clone())
    }

    /// Whether the store alone knows it.
    pub(super) fn is_plain(&self) -> bool {
        Numbers::is_plain(&self.definition, self.limits, self.of)
    }

    pub(super) fn make(&self, transaction: &Transaction<'_>) -> Result<Sequence, StoreError> {
        Numbers::create(transaction, self.definition.clone(), self.limits, self.of)
    }
}

/// The name of an integer type that sequences have.
pub(super) fn of_type(of: &Declared) -> Option<&'static str> {
    match of.of.kind {
        _ if of.of.array => None,
        Kind::Int2 => Some("smallint"),
        Kind::Int4 => Some("integer"),
        Kind::Int8 => Some("bigint"),
        _ => None,
    }
}

fn type_named(of: Option<&DataType>) -> Result<&'static str, Refusal> {
    let Some(of) = of else {
        return Ok("bigint");
    };
    of_type(&store_type(of)?.0).ok_or_else(|| {
        let what = "sequence type must be smallint, integer, or bigint";
        Refusal::new(code::INVALID_PARAMETER_VALUE, what)
    })
}

fn number(of: &Expr) -> Result<i64, Refusal> {
    let text = of.to_string().replace(' ', "");
    text.parse().map_err(|_| {
        let what = format!("value \"{text}\" is out of range for type bigint");
        Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, what)
    })
}

/// What options say; `None`: nothing.
#[derive(Debug, Clone, Default)]
struct Said {
    increment: Option<i64>,
    /// The inner `None`: the type's own.
    minimum: Option<Option<i64>>,
    maximum: Option<Option<i64>>,
    start: Option<i64>,
    cache: Option<i64>,
    cycles: Option<bool>,
}

fn said(options: &[SequenceOptions]) -> Result<Said, Refusal> {
    let mut said = Said::default();
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => said.increment = Some(number(value)?),
            SequenceOptions::MinValue(value) => {
                said.minimum = Some(value.as_ref().map(number).transpose()?);
            }
            SequenceOptions::MaxValue(value) => {
                said.maximum = Some(value.as_ref().map(number).transpose()?);
            }
            SequenceOptions::StartWith(value, _) => said.start = Some(number(value)?),
            SequenceOptions::Cache(value) => said.cache = Some(number(value)?),
            // The parser's word for `NO CYCLE` is true.
            SequenceOptions::Cycle(no) => said.cycles = Some(!no),
        }
    }
    Ok(said)
}

/// A sequence of options.
///
/// # Errors
/// 22023, in PostgreSQL's words.
pub(super) fn plan(at: &At, of: &'static str, options: &[SequenceOptions]) -> Result<Plan, Refusal> {
    planned(at, of, &said(options)?)
}

fn planned(at: &At, of: &'static str, said: &Said) -> Result<Plan, Refusal> {
    let wrong = |what: String| Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
    let increment = said.increment.unwrap_or(1);
    if increment == 0 {
        return wrong("INCREMENT must not be zero".to_owned());
    }
    let (least, most) = TYPES
        .iter()
        .find(|(name, ..)| *name == of)
        .map_or((i64::MIN, i64::MAX), |(_, least, most)| (*least, *most));
    let usual = Limits::of(increment, least, most);
    let limits = Limits {
        minimum: said.minimum.flatten().unwrap_or(usual.minimum),
        maximum: said.maximum.flatten().unwrap_or(usual.maximum),
        cycles: said.cycles.unwrap_or(false),
    };
    let (minimum, maximum) = (limits.minimum, limits.maximum);
    for (word, value) in [("MAXVALUE", maximum), ("MINVALUE", minimum)] {
        if !(least..=most).contains(&value) {
            return wrong(format!(
                "{word} ({value}) is out of range for sequence data type {of}"
            ));
        }
    }
    if minimum >= maximum {
        return wrong(format!(
            "MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})"
        ));
    }
    let start = said
        .start
        .unwrap_or(if increment > 0 { minimum } else { maximum });
    if start < minimum {
        return wrong(format!(
            "START value ({start}) cannot be less than MINVALUE ({minimum})"
        ));
    }
    if start > maximum {
        return wrong(format!(
            "START value ({start}) cannot be greater than MAXVALUE ({maximum})"
        ));
    }
    let cache = said.cache.unwrap_or(1);
    if cache < 1 {
        return wrong(format!("CACHE ({cache}) must be greater than zero"));
    }
    let (schema, name) = at;
    Ok(Plan {
        definition: SequenceDef {
            start,
            increment,
            cache: u32::try_from(cache).unwrap_or(u32::MAX).clamp(CACHE, 1 << 16),
            ..SequenceDef::new(name).in_schema(schema)
        },
        limits,
        of,
    })
}

/// A name of the dictionary's, as schema and name.
pub(super) fn at_of(text: &str) -> Option<At> {
    match name_parts(text).ok()?.as_slice() {
        [schema, name] => Some((schema.clone(), name.clone())),
        _ => None,
    }
}

/// Sequences that a table's columns own, if they are there.
pub(super) fn owned_by(seen: &Seen, table: &TableInfo, column: Option<&str>) -> Vec<At> {
    let owned = table.notes.sequences.iter();
    let owned = owned.filter(|(of, _)| column.is_none_or(|column| of == column));
    let owned = owned.filter_map(|(_, sequence)| at_of(sequence));
    owned.filter(|at| seen.sequences.contains(at)).collect()
}

/// `CREATE SEQUENCE`.
pub(super) fn run_create(
    session: &mut ClientSession,
    name: &ObjectName,
    (temporary, if_not_exists): (bool, bool),
    of: Option<&DataType>,
    options: &[SequenceOptions],
    owner: Option<&ObjectName>,
) -> Result<&'static str, Refusal> {
    const TAG: &str = "CREATE SEQUENCE";
    if temporary {
        return Err(error::unsupported("a temporary sequence"));
    }
    let seen = Seen::of(session)?;
    let at = seen.place(&names(name)?)?;
    session.check_may_create(&at.0)?;
    if seen.relation(&at.0, &at.1).is_some() {
        if !if_not_exists {
            return Err(error::exists(&at.1));
        }
        let what = format!("relation \"{}\" already exists, skipping", at.1);
        error::notice(session, error::DUPLICATE_TABLE, what);
        return Ok(TAG);
    }
    let plan = plan(&at, type_named(of)?, options)?;
    let mut steps = vec![Step::CreateSequence(plan)];
    if let Some(owner) = owner {
        steps.extend(owned_steps(&seen, &at, owner)?);
    }
    apply(session, &steps)?;
    Ok(TAG)
}

/// `OWNED BY`.
fn owned_steps(seen: &Seen, at: &At, owner: &ObjectName) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    if let Some((table, column)) = seen.owner_of(at) {
        let of = (table.schema.clone(), table.name.clone());
        steps.push(Step::Forget(of, column.to_owned(), Property::Sequence));
    }
    let mut parts = owner.0.clone();
    let column = parts
        .pop()
        .and_then(|part| part.as_ident().map(crate::catalog::folded));
    let Some(column) = column else {
        return Err(error::syntax("invalid OWNED BY option"));
    };
    if parts.is_empty() {
        return match column == "none" {
            true => Ok(steps),
            false => Err(error::syntax("invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE.")),
        };
    }
    let table = seen.find_table(&names(&ObjectName(parts))?)?;
    if table.schema != at.0 {
        let what = "sequence must be in same schema as table it is linked to";
        return Err(Refusal::new(code::NOT_NOW, what));
    }
    if table.column(&column).is_none() {
        return Err(error::no_column(&column, &table.name));
    }
    let of = (table.schema.clone(), table.name.clone());
    steps.push(note(&of, &column, Property::Sequence, quoted_at(at)));
    Ok(steps)
}

/// What `ALTER SEQUENCE` sets.
#[derive(Default)]
struct Altered {
    said: Said,
    of: Option<&'static str>,
    restart: Option<Option<i64>>,
    owner: Option<ObjectName>,
}

fn altered(options: &[SqlOption]) -> Result<Altered, Refusal> {
    let mut altered = Altered::default();
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(error::syntax("a sequence has no such option"));
        };
        let optional = || match value {
            Expr::Value(of) if of.value == Value::Null => Ok(None),
            value => number(value).map(Some),
        };
        let said = &mut altered.said;
        match key.value.as_str() {
            "increment" => said.increment = Some(number(value)?),
            "minvalue" => said.minimum = Some(optional()?),
            "maxvalue" => said.maximum = Some(optional()?),
            "start" => said.start = Some(number(value)?),
            "cache" => said.cache = Some(number(value)?),
            "cycle" => said.cycles = Some(value.to_string() == "true"),
            "restart" => altered.restart = Some(optional()?),
            "as" => {
                let name = value.to_string().to_lowercase();
                let of = Declared::parse(&name).as_ref().and_then(of_type);
                altered.of = Some(of.ok_or_else(|| {
                    let what = "sequence type must be smallint, integer, or bigint";
                    Refusal::new(code::INVALID_PARAMETER_VALUE, what)
                })?);
            }
            "owned_by" => {
                let Expr::CompoundIdentifier(parts) = value else {
                    return Err(error::syntax("invalid OWNED BY option"));
                };
                altered.owner = Some(ObjectName::from(parts.clone()));
            }
            other => {
                let what = format!("unrecognized parameter \"{other}\"");
                return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
            }
        }
    }
    Ok(altered)
}

/// `ALTER SEQUENCE`, and `ALTER TABLE` of one.
pub(super) fn run_alter(
    session: &mut ClientSession,
    at: &At,
    operations: &[AlterTableOperation],
) -> Result<&'static str, Refusal> {
    session.check_may_create(&at.0)?;
    for operation in operations {
        match operation {
            AlterTableOperation::OwnerTo { .. } => {}
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => rename(session, at, &names(name)?.1)?,
            AlterTableOperation::SetOptionsParens { options } => alter(session, at, options)?,
            other => return Err(error::unsupported(format!("ALTER SEQUENCE ... {other}"))),
        }
    }
    Ok("ALTER SEQUENCE")
}

fn numbers(session: &mut ClientSession, at: &At) -> Result<Numbers, Refusal> {
    session
        .store_transaction()?
        .run(|transaction| Ok(Numbers::within(transaction, &at.0, &at.1)?))
}

fn alter(session: &mut ClientSession, at: &At, options: &[SqlOption]) -> Result<(), Refusal> {
    let altered = altered(options)?;
    if let Some(owner) = &altered.owner {
        let seen = Seen::of(session)?;
        let steps = owned_steps(&seen, at, owner)?;
        apply(session, &steps)?;
    }
    let old = numbers(session, at)?;
    let Said {
        increment,
        minimum,
        maximum,
        start,
        cache,
        cycles,
    } = altered.said;
    let is_same = increment.is_none()
        && minimum.is_none()
        && maximum.is_none()
        && start.is_none()
        && cache.is_none()
        && cycles.is_none()
        && altered.of.is_none()
        && altered.restart.is_none();
    if is_same {
        return Ok(());
    }
    let of = altered.of.unwrap_or(old.of);
    let definition = old.sequence.definition().clone();
    let (_, least, most) = TYPES
        .into_iter()
        .find(|(name, ..)| *name == old.of)
        .unwrap_or(TYPES[2]);
    let usual = Limits::of(definition.increment, least, most);
    // Limits that are those of the old type, or of the old direction, are those of the new one.
    let kept = |limit: i64, usual: i64| (limit != usual).then_some(limit);
    let said = Said {
        increment: Some(increment.unwrap_or(definition.increment)),
        minimum: Some(minimum.unwrap_or(kept(old.limits.minimum, usual.minimum))),
        maximum: Some(maximum.unwrap_or(kept(old.limits.maximum, usual.maximum))),
        start: Some(start.unwrap_or(definition.start)),
        cache: Some(cache.unwrap_or_else(|| i64::from(definition.cache))),
        cycles: Some(cycles.unwrap_or(old.limits.cycles)),
    };
    let plan = planned(at, of, &said)?;
    let last = match altered.restart {
        Some(value) => (value.unwrap_or(plan.definition.start), false),
        None => old.sequence.last(),
    };
    let (minimum, maximum) = (plan.limits.minimum, plan.limits.maximum);
    if !(minimum..=maximum).contains(&last.0) {
        let (word, limit) = match last.0 < minimum {
            true => ("less than MINVALUE", minimum),
            false => ("greater than MAXVALUE", maximum),
        };
        let what = format!("RESTART value ({}) cannot be {word} ({limit})", last.0);
        return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
    }
    apply(session, &[Step::ReplaceSequence(plan, last)])
}

/// A sequence begins where it did at first.
///
/// # Errors
/// One that is not there.
pub(super) fn restarted(session: &mut ClientSession, at: &At) -> Result<Step, Refusal> {
    let old = numbers(session, at)?;
    let definition = old.sequence.definition().clone();
    let start = definition.start;
    let plan = Plan {
        definition,
        limits: old.limits,
        of: old.of,
    };
    Ok(Step::ReplaceSequence(plan, (start, false)))
}

/// Gives a sequence another name, in the defaults that use it, too.
fn rename(session: &mut ClientSession, at: &At, to: &str) -> Result<(), Refusal> {
    let seen = Seen::of(session)?;
    if seen.relation(&at.0, to).is_some() {
        return Err(error::exists(to));
    }
    let new: At = (at.0.clone(), to.to_owned());
    let old = numbers(session, at)?;
    let plan = Plan {
        definition: SequenceDef {
            name: to.to_owned(),
            ..old.sequence.definition().clone()
        },
        limits: old.limits,
        of: old.of,
    };
    let mut steps = vec![
        Step::DropSequence(at.clone()),
        Step::CreateSequence(plan.clone()),
        Step::ReplaceSequence(plan, old.sequence.last()),
    ];
    for (table, column, default) in uses(&seen, at) {
        let from = quoted_at(at).replace('\'', "''");
        let text = default.replace(&from, &quoted_at(&new).replace('\'', "''"));
        steps.push(note(&table, &column, Property::Default, text));
    }
    if let Some((table, column)) = seen.owner_of(at) {
        let of = (table.schema.clone(), table.name.clone());
        steps.push(note(&of, column, Property::Sequence, quoted_at(&new)));
    }
    apply(session, &steps)
}

/// Columns whose default uses a sequence.
pub(super) fn uses(seen: &Seen, at: &At) -> Vec<(At, String, String)> {
    let literal = format!("'{}'", quoted_at(at).replace('\'', "''"));
    let columns = seen.tables.iter().flat_map(|table| {
        let at = (table.schema.clone(), table.name.clone());
        table.columns.iter().map(move |column| (at.clone(), column))
    });
    let used = columns.filter_map(|(at, column)| match &column.default {
        crate::write::ColumnDefault::Expression(text) if text.contains(&literal) => {
            Some((at, column.name.clone(), text.clone()))
        }
        _ => None,
    });
    used.collect()
}

/// `DROP SEQUENCE` of several.
pub(super) fn run_drop(
    session: &mut ClientSession,
    named: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<&'static str, Refusal> {
    let seen = Seen::of(session)?;
    let mut gone: Vec<At> = Vec::new();
    let mut steps = Vec::new();
    let mut told = Vec::new();
    for name in named {
        let name = names(name)?;
        let at = match seen.find(&name) {
            Some((at, Relation::Sequence)) => at,
            Some(_) => return Err(error::not_a("sequence", &name.1)),
            None if if_exists => {
                error::skipped(session, "sequence", &name.1);
                continue;
            }
            None => return Err(error::missing("sequence", &seen::shown(&name))),
        };
        session.check_may_create(&at.0)?;
        for (table, column, _) in uses(&seen, &at) {
            let info = seen.table(&table.0, &table.1);
            let of = info.and_then(|info| Some(&info.columns[info.column(&column)?]));
            if of.is_some_and(|of| of.identity.is_some()) {
                let what = format!(
                    "cannot drop sequence {} because column {column} of table {} requires it",
                    at.1, table.1
                );
                let hint = format!("You can drop column {column} of table {} instead.", table.1);
                return Err(Refusal::new(error::DEPENDENT, what).hint(hint));
            }
            let used = format!("default value for column {column} of table {}", table.1);
            if !cascade {
                let need = format!("{used} depends on sequence {}", at.1);
                return Err(error::needed(&format!("sequence {}", at.1), &[need]));
            }
            told.push(format!("drop cascades to {used}"));
            steps.push(Step::Forget(table, column, Property::Default));
        }
        if let Some((table, column)) = seen.owner_of(&at) {
            let of = (table.schema.clone(), table.name.clone());
            steps.push(Step::Forget(of, column.to_owned(), Property::Sequence));
        }
        if !gone.contains(&at) {
            steps.push(Step::DropSequence(at.clone()));
            gone.push(at);
        }
    }
    apply(session, &steps)?;
    for what in told {
        error::notice(session, code::SUCCESS, what);
    }
    Ok("DROP SEQUENCE")
}
