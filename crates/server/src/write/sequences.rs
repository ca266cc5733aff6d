//! Sequences for SQL: `nextval`, `currval`, `lastval`, `setval`, `pg_get_serial_sequence`, and the limits that the store's own sequences do
//! not have.
//!
//! ```text
//!   nextval('s') ─► the store's sequence (on disk once in 32 numbers, or in a batch of rows) ─► within its limits? ─► noted as the session's last
//! ```
//!
//! Numbers belong to no transaction, here as in PostgreSQL; that a sequence was made or dropped does ([`crate::define`]). Limits that are not
//! those of every sequence are rows of `corun.sequences`.
//!
//! Order of calls: [`functions`] once for each session. What it is not: `CREATE SEQUENCE` and the like.

use super::dictionary::{SCHEMA, SEQUENCES};
use crate::data::{DataError, StoreView};
use crate::session::refusal_of;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use corun_store::{Sequence, SequenceDef, Snapshot, StoreError, Table, Transaction, Value as StoreValue};
use corun_wire::error::{Refusal, code};
use datafusion::common::DataFusionError;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Numbers that one part of a statement gets ready at most.
const RESERVED_MAX: u32 = 1 << 16;

/// What a sequence may give out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
    pub(crate) cycles: bool,
}

impl Limits {
    /// Those of a sequence that says nothing, of integers up to `most`.
    pub(crate) fn of(increment: i64, least: i64, most: i64) -> Limits {
        let (minimum, maximum) = if increment > 0 { (1, most) } else { (least, -1) };
        Limits {
            minimum,
            maximum,
            cycles: false,
        }
    }
}

/// A sequence of SQL.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) sequence: Sequence,
    pub(crate) limits: Limits,
    /// `smallint`, `integer` or `bigint`.
    pub(crate) of: &'static str,
}

/// The types of sequences, with their least and largest number.
pub(crate) const TYPES: [(&str, i64, i64); 3] = [
    ("smallint", i16::MIN as i64, i16::MAX as i64),
    ("integer", i32::MIN as i64, i32::MAX as i64),
    ("bigint", i64::MIN, i64::MAX),
];

/// A name as errors have it: what PostgreSQL calls a relation's name.
fn no_relation(name: &str) -> Refusal {
    Refusal::new("42P01", format!("relation \"{name}\" does not exist"))
}

impl Numbers {
    /// One by its names, as a session sees it; `None`: there is none.
    ///
    /// # Errors
    /// A store that is closed.
    pub(crate) fn find(view: &StoreView, schema: &str, name: &str) -> Result<Option<Numbers>, StoreError> {
        let Some(sequence) = view.sequence(schema, name)? else {
            return Ok(None);
        };
        let kept = match view.table(SCHEMA, SEQUENCES)? {
            Some(table) => kept(&*view.newest()?, &table, schema, name)?,
            None => None,
        };
        Ok(Some(Numbers::of(sequence, kept)))
    }

    /// One by its names, within a transaction.
    ///
    /// # Errors
    /// [`StoreError::NoSequence`].
    pub(crate) fn within(
        transaction: &Transaction<'_>,
        schema: &str,
        name: &str,
    ) -> Result<Numbers, StoreError> {
        let sequence = transaction.sequence_in(schema, name)?;
        let kept = match transaction.table_in(SCHEMA, SEQUENCES) {
            Ok(table) => kept(&transaction.snapshot()?, &table, schema, name)?,
            Err(StoreError::NoTable { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Numbers::of(sequence, kept))
    }

    fn of(sequence: Sequence, kept: Option<(Limits, &'static str)>) -> Numbers {
        let increment = sequence.definition().increment;
        let (limits, of) = kept.unwrap_or((Limits::of(increment, i64::MIN, i64::MAX), "bigint"));
        Numbers { sequence, limits, of }
    }

    /// Whether the store's definition alone says what a sequence may give out.
    pub(crate) fn is_plain(definition: &SequenceDef, limits: Limits, of: &str) -> bool {
        limits == Limits::of(definition.increment, i64::MIN, i64::MAX) && of == "bigint"
    }

    /// Makes one. The dictionary is there, unless it [is plain](Numbers::is_plain).
    ///
    /// # Errors
    /// As [`Transaction::create_sequence`].
    pub(crate) fn create(
        transaction: &Transaction<'_>,
        definition: SequenceDef,
        limits: Limits,
        of: &'static str,
    ) -> Result<Sequence, StoreError> {
        let (schema, name) = (definition.schema.clone(), definition.name.clone());
        let is_plain = Numbers::is_plain(&definition, limits, of);
        let made = transaction.create_sequence(definition)?;
        if !is_plain {
            let table = transaction.table_in(SCHEMA, SEQUENCES)?;
            let mut row = table.new_row();
            row.set("schema", schema.as_str())?;
            row.set("name", name.as_str())?;
            row.set("minimum", limits.minimum)?;
            row.set("maximum", limits.maximum)?;
            row.set("cycles", limits.cycles)?;
            row.set("type", of)?;
            transaction.upsert(&table, &row)?;
        }
        Ok(made)
    }

    /// Drops one.
    ///
    /// # Errors
    /// As [`Transaction::drop_sequence`].
    pub(crate) fn drop_it(transaction: &Transaction<'_>, schema: &str, name: &str) -> Result<(), StoreError> {
        transaction.drop_sequence_in(schema, name)?;
        match transaction.table_in(SCHEMA, SEQUENCES) {
            Ok(table) => {
                let key = [StoreValue::Text(schema), StoreValue::Text(name)];
                transaction.delete_by_key(&table, &key).map(drop)
            }
            Err(StoreError::NoTable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn name(&self) -> &str {
        self.sequence.name()
    }

    /// So many numbers will be taken: the disk is waited for once. What speaks against it the first of them tells.
    fn reserve(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(RESERVED_MAX);
        _ = self.sequence.reserve(count.min(RESERVED_MAX));
    }

    /// The next number; `None`: it was dropped meanwhile, or altered as another.
    fn next(&self) -> Result<Option<i64>, Refusal> {
        let failed = |error: StoreError| refusal_of(&error);
        let ascends = self.sequence.definition().increment > 0;
        let number = match self.sequence.next_value() {
            Ok(number) => Some(number),
            Err(StoreError::Sequence { why, .. }) if why.contains("dropped") => return Ok(None),
            // It has come to the end of the integers.
            Err(StoreError::Sequence { .. }) => None,
            Err(error) => return Err(failed(error)),
        };
        let Limits {
            minimum,
            maximum,
            cycles,
        } = self.limits;
        let is_in = number.filter(|number| (minimum..=maximum).contains(number));
        match is_in {
            Some(number) => Ok(Some(number)),
            None if cycles => {
                let first = if ascends { minimum } else { maximum };
                self.sequence.set(first, true).map_err(failed)?;
                Ok(Some(first))
            }
            None => {
                let (which, limit) = if ascends {
                    ("maximum", maximum)
                } else {
                    ("minimum", minimum)
                };
                let name = self.name();
                let what = format!("nextval: reached {which} value of sequence \"{name}\" ({limit})");
                Err(Refusal::new("2200H", what))
            }
        }
    }

    fn set(&self, value: i64, called: bool) -> Result<(), Refusal> {
        let Limits { minimum, maximum, .. } = self.limits;
        if !(minimum..=maximum).contains(&value) {
            let name = self.name();
            let what = format!(
                "setval: value {value} is out of bounds for sequence \"{name}\" ({minimum}..{maximum})"
            );
            return Err(Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, what));
        }
        self.sequence
            .set(value, called)
            .map_err(|error| refusal_of(&error))
    }
}

/// The limits that are kept of a sequence.
fn kept(
    snapshot: &Snapshot,
    table: &Table,
    schema: &str,
    name: &str,
) -> Result<Option<(Limits, &'static str)>, StoreError> {
    let Some(by_name) = table.primary_key() else {
        return Ok(None);
    };
    let key = [StoreValue::Text(schema), StoreValue::Text(name)];
    let found = match snapshot.fetch(&by_name, &key) {
        Ok(found) => found,
        // The table was made after the snapshot.
        Err(StoreError::IndexUnusable { .. }) => None,
        Err(error) => return Err(error),
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let of = found.row.get::<&str>("type").unwrap_or_default();
    let of = TYPES.iter().find(|(known, ..)| *known == of);
    let limits = Limits {
        minimum: found.row.int("minimum"),
        maximum: found.row.int("maximum"),
        cycles: found.row.get("cycles").unwrap_or(false),
    };
    Ok(Some((limits, of.map_or("bigint", |(name, ..)| name))))
}

/// What a session remembers of sequences, and where it looks for them.
pub(crate) struct SequenceSession {
    path: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Whether what runs may write nothing.
    reads_only: Box<dyn Fn() -> bool + Send + Sync>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// By schema and name.
    of: HashMap<(String, String), i64>,
    newest: Option<(String, String)>,
}

impl fmt::Debug for SequenceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SequenceSession")
    }
}

impl SequenceSession {
    /// Of a session with this search path.
    pub(crate) fn new(
        path: impl Fn() -> Vec<String> + Send + Sync + 'static,
        reads_only: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        SequenceSession {
            path: Box::new(path),
            reads_only: Box::new(reads_only),
            last: Mutex::default(),
        }
    }

    fn note(&self, of: &Numbers, value: i64) {
        let definition = of.sequence.definition();
        let key = (definition.schema.clone(), definition.name.clone());
        let mut last = self.last.lock();
        last.of.insert(key.clone(), value);
        last.newest = Some(key);
    }
}

/// The parts of a name as SQL writes it, folded: `public."T_id_seq"`.
///
/// # Errors
/// 42602 for what is no name.
pub(crate) fn name_parts(text: &str) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::new("42602", "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next().ok_or_else(wrong)? {
                    (_, '"') if chars.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
                    (at, '"') => break at,
                    (_, c) => name.push(c),
                }
            };
            part = name;
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find(['.', '"']).unwrap_or(rest.len());
            let name = rest[..end].trim_end();
            if name.contains(char::is_whitespace) {
                return Err(wrong());
            }
            part = name.to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(wrong());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(wrong()),
        }
    }
}

/// The functions that a session has of its sequences.
pub(crate) fn functions(view: &Arc<StoreView>, session: &Arc<SequenceSession>) -> Vec<ScalarUDF> {
    let text = DataType::Utf8;
    let make = |call: Call, arguments: Vec<Vec<DataType>>| {
        let types = arguments.into_iter().map(|types| match types.is_empty() {
            true => TypeSignature::Nullary,
            false => TypeSignature::Exact(types),
        });
        ScalarUDF::from(Function {
            call,
            signature: Signature::new(TypeSignature::OneOf(types.collect()), Volatility::Volatile),
            view: Arc::clone(view),
            session: Arc::clone(session),
        })
    };
    vec![
        make(Call::Next, vec![vec![text.clone()]]),
        make(Call::Current, vec![vec![text.clone()]]),
        make(Call::Last, vec![vec![]]),
        make(
            Call::Set,
            vec![
                vec![text.clone(), DataType::Int64],
                vec![text.clone(), DataType::Int64, DataType::Boolean],
            ],
        ),
        make(Call::Serial, vec![vec![text.clone(), text]]),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Next,
    Current,
    Last,
    Set,
    Serial,
}

struct Function {
    call: Call,
    signature: Signature,
    view: Arc<StoreView>,
    session: Arc<SequenceSession>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.call)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.call == other.call && Arc::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.call {
            Call::Next => "nextval",
            Call::Current => "currval",
            Call::Last => "lastval",
            Call::Set => "setval",
            Call::Serial => "pg_get_serial_sequence",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(match self.call {
            Call::Serial => DataType::Utf8,
            _ => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments
            .args
            .iter()
            .map(|column| column.to_array(rows))
            .collect::<PlanResult<Vec<_>>>()?;
        let answer = self.run(&columns, rows);
        let answer = answer.map_err(|refusal| DataFusionError::from(DataError::from(refusal)))?;
        Ok(ColumnarValue::Array(answer))
    }
}

/// A column of texts.
fn texts(column: &ArrayRef) -> Result<StringArray, Refusal> {
    let texts = cast(column, &DataType::Utf8).map_err(wrong)?;
    Ok(texts.as_string::<i32>().clone())
}

fn wrong(error: impl fmt::Display) -> Refusal {
    Refusal::new(code::INTERNAL_ERROR, error.to_string())
}

fn text(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

impl Function {
    fn run(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, Refusal> {
        let name = columns.first().map(texts).transpose()?;
        let name = |row| text(name.as_ref()?, row);
        if matches!(self.call, Call::Next | Call::Set) && (self.session.reads_only)() {
            let what = format!("cannot execute {}() in a read-only transaction", self.name());
            return Err(Refusal::new("25006", what));
        }
        let mut known = Known {
            function: self,
            numbers: HashMap::new(),
        };
        match self.call {
            Call::Last => {
                let last = self.last()?;
                Ok(Arc::new(Int64Array::from(vec![last; rows])))
            }
            Call::Next | Call::Current => {
                let mut values = Vec::with_capacity(rows);
                if let (Call::Next, Some(first)) = (self.call, name(0).filter(|_| rows > 1))
                    && (1..rows).all(|row| name(row) == Some(first))
                {
                    known.of(first)?.reserve(rows);
                }
                for row in 0..rows {
                    values.push(match name(row) {
                        None => None,
                        Some(name) if self.call == Call::Current => Some(self.current(known.of(name)?)?),
                        Some(name) => {
                            let value = match known.of(name)?.next()? {
                                Some(value) => value,
                                None => known.again(name)?.next()?.ok_or_else(|| no_relation(name))?,
                            };
                            self.session.note(known.of(name)?, value);
                            Some(value)
                        }
                    });
                }
                Ok(Arc::new(Int64Array::from(values)))
            }
            Call::Set => {
                let value = cast(&columns[1], &DataType::Int64).map_err(wrong)?;
                let value = value.as_primitive::<Int64Type>();
                let called = columns.get(2).map(|called| cast(called, &DataType::Boolean));
                let called = called.transpose().map_err(wrong)?;
                let mut values = Vec::with_capacity(rows);
                for row in 0..rows {
                    let is_null = value.is_null(row) || called.as_ref().is_some_and(|of| of.is_null(row));
                    let Some(name) = name(row).filter(|_| !is_null) else {
                        values.push(None);
                        continue;
                    };
                    let called = called.as_ref().is_none_or(|of| of.as_boolean().value(row));
                    let numbers = known.of(name)?;
                    numbers.set(value.value(row), called)?;
                    if called {
                        self.session.note(numbers, value.value(row));
                    }
                    values.push(Some(value.value(row)));
                }
                Ok(Arc::new(Int64Array::from(values)))
            }
            Call::Serial => {
                let column = texts(&columns[1])?;
                let mut found = Vec::with_capacity(rows);
                for row in 0..rows {
                    found.push(match (name(row), text(&column, row)) {
                        (Some(table), Some(column)) => self.serial(table, column)?,
                        _ => None,
                    });
                }
                Ok(Arc::new(StringArray::from(found)))
            }
        }
    }

    /// Schemas in which a name may be, and the name.
    fn places(&self, text: &str) -> Result<(Vec<String>, String), Refusal> {
        match name_parts(text)?.as_slice() {
            [name] => Ok(((self.session.path)(), name.clone())),
            [schema, name] | [_, schema, name] => Ok((vec![schema.clone()], name.clone())),
            _ => Err(Refusal::new(
                code::SYNTAX_ERROR,
                format!("improper relation name (too many dotted names): {text}"),
            )),
        }
    }

    fn find(&self, text: &str) -> Result<Numbers, Refusal> {
        let (schemas, name) = self.places(text)?;
        for schema in &schemas {
            let failed = |error: StoreError| refusal_of(&error);
            if let Some(found) = Numbers::find(&self.view, schema, &name).map_err(failed)? {
                return Ok(found);
            }
            if self.view.table(schema, &name).map_err(failed)?.is_some() {
                return Err(Refusal::new("42809", format!("\"{name}\" is not a sequence")));
            }
        }
        Err(no_relation(text.trim()))
    }

    fn current(&self, of: &Numbers) -> Result<i64, Refusal> {
        let definition = of.sequence.definition();
        let key = (definition.schema.clone(), definition.name.clone());
        let last = self.session.last.lock().of.get(&key).copied();
        last.ok_or_else(|| {
            let name = of.name();
            let what = format!("currval of sequence \"{name}\" is not yet defined in this session");
            Refusal::new(code::NOT_NOW, what)
        })
    }

    fn last(&self) -> Result<i64, Refusal> {
        let last = self.session.last.lock();
        let newest = last.newest.as_ref().and_then(|key| last.of.get(key));
        newest
            .copied()
            .ok_or_else(|| Refusal::new(code::NOT_NOW, "lastval is not yet defined in this session"))
    }

    /// The sequence that a column owns.
    fn serial(&self, table: &str, column: &str) -> Result<Option<String>, Refusal> {
        let (schemas, name) = self.places(table)?;
        for schema in &schemas {
            let Some(info) = self.view.info(schema, &name)? else {
                continue;
            };
            if info.column(column).is_none() {
                let what = format!("column \"{column}\" of relation \"{name}\" does not exist");
                return Err(Refusal::new("42703", what));
            }
            let mut owned = info.notes.sequences.iter();
            let owned = owned.find(|(of, _)| of == column);
            return Ok(owned.map(|(_, sequence)| sequence.clone()));
        }
        Err(no_relation(table.trim()))
    }
}

/// The sequences of one call, each looked for once.
struct Known<'f> {
    function: &'f Function,
    numbers: HashMap<String, Numbers>,
}

impl Known<'_> {
    /// Looks for it once more.
    fn again(&mut self, name: &str) -> Result<&Numbers, Refusal> {
        self.numbers.remove(name);
        self.of(name)
    }

    fn of(&mut self, name: &str) -> Result<&Numbers, Refusal> {
        if !self.numbers.contains_key(name) {
            let found = self.function.find(name)?;
            self.numbers.insert(name.to_owned(), found);
        }
        self.numbers.get(name).ok_or_else(|| no_relation(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_writes_them() {
        let parts = |text: &str| name_parts(text).ok();
        let of = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(parts("T_id_seq"), of(&["t_id_seq"]));
        assert_eq!(parts(" public . \"Odd\"\"One\" "), of(&["public", "Odd\"One"]));
        assert_eq!(parts("\"a.b\".c"), of(&["a.b", "c"]));
        for wrong in ["", ".", "a.", "a b", "\"a", "\"a\"b", "a.\"\""] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
