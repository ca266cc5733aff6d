//! [`Short`] is run: rows of the store become DataRow messages, without a batch between.
//!
//! Order of calls: [`Short::takes`] the parameters, then [`Short::read`] for a query, or [`Short::lock`] and [`Short::values`] for a change of the
//! row that is found. What it is not: a transaction; who calls it has one, or a snapshot.

use super::expression::{At, Source};
use super::totals::{Arguments, scalar};
use super::{Access, Short, Span, key};
use crate::session::{StoreFailure, Zone, as_told, cells_as, refusal_of_datafusion};

use arrow::datatypes::{DataType, TimeUnit};
use corun_store::{
    Direction, Found, Index, KeyRange, Lock, RowRef, Snapshot, StoreError, Transaction, Type, Value as Kept,
};
use corun_wire::error::Refusal;
use corun_wire::server::{Column, ResultFormats};
use corun_wire::values::{Date, Kind, Numeric, Row, Timestamp, Value};
use datafusion::common::ScalarValue;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Bound, Range};

/// Rows of a range that are looked at; with more, the statement runs the usual way, where others have their turn meanwhile. Unmeasured.
pub(super) const SPAN_ROWS_MAX: usize = 1_000;

/// Bytes of the rows of one statement, likewise.
const SPAN_BYTES_MAX: usize = 1 << 20;

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// All rows were written.
    Done(u64),
    /// No row was; the statement has to run the usual way.
    GivesUp,
}

/// What rows are read from.
#[derive(Clone, Copy)]
pub(crate) enum Reading<'t, 's> {
    /// As they were at a moment.
    At(&'t Snapshot),
    /// As they are; they are locked.
    Locked(&'t Transaction<'s>),
}

/// How the rows of a query are written.
#[derive(Clone, Copy)]
pub(crate) struct Writing<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) formats: &'a ResultFormats,
    pub(crate) zone: &'a Zone,
}

/// How the row of a change is found and locked.
#[derive(Clone, Copy)]
pub(crate) enum Locking<'a> {
    /// As it is once it is locked (READ COMMITTED).
    Now,
    /// As it was at a moment, and nobody may have changed it since (REPEATABLE READ).
    AsOf(&'a Snapshot),
    /// As it is; a key that is not there is locked, too.
    Serializable,
}

/// A row that is locked.
pub(crate) type Locked<'t> = Found<'t>;

impl Short {
    /// Whether parameters are of the types that it was compiled for.
    pub(crate) fn takes(&self, parameters: &[ScalarValue]) -> bool {
        let is =
            |(at, of): &(usize, DataType)| parameters.get(*at).is_some_and(|value| value.data_type() == *of);
        self.parameters.iter().all(is)
    }

    /// Writes the rows of a query.
    ///
    /// # Errors
    /// What an expression fails with; locks that are not granted; errors of the store.
    pub(crate) fn read(
        &self,
        from: Reading<'_, '_>,
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Attempt, StoreFailure> {
        let begin = out.len();
        let answer = self.read_rows(from, parameters, how, out);
        match answer {
            // The table has another index now, or is another one.
            Err(StoreFailure::Store(StoreError::IndexUnusable { .. } | StoreError::Dropped { .. })) => {
                out.truncate(begin);
                Ok(Attempt::GivesUp)
            }
            Ok(Attempt::GivesUp) | Err(_) => {
                out.truncate(begin);
                answer
            }
            done => done,
        }
    }

    fn read_rows(
        &self,
        from: Reading<'_, '_>,
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Attempt, StoreFailure> {
        let (Some(mut skip), Some(fetch)) = (
            count(&self.skip, 0, parameters)?,
            count(&self.fetch, u64::MAX, parameters)?,
        ) else {
            return Ok(Attempt::GivesUp);
        };
        let mut rows = 0;
        let mut gathered = Gathered::default();
        let gathers = !self.is_of_rows();
        // Whether more are wanted.
        let mut take = |found: Found<'_>, out: &mut Vec<u8>| -> Result<bool, StoreFailure> {
            let at = At::of(found);
            if rows == fetch && !gathers {
                return Ok(false);
            }
            if !self.passes(at, parameters)? {
                return Ok(true);
            }
            if gathers {
                gathered.take(self, at, parameters, how)?;
                return Ok(gathered.bytes() <= SPAN_BYTES_MAX);
            }
            if skip > 0 {
                skip -= 1;
                return Ok(true);
            }
            self.write(Some(at), parameters, how, out)?;
            rows += 1;
            Ok(rows < fetch)
        };
        match &self.access {
            Access::Key { index, key } => {
                let found = with_key(key, parameters, |key| match from {
                    Reading::At(snapshot) => snapshot.fetch(index, key),
                    Reading::Locked(transaction) => transaction.fetch(index, key),
                })?;
                if let Some(found) = found {
                    take(found, out)?;
                }
            }
            Access::Span { index, span } => {
                let Some(range) = span.range(index, parameters)? else {
                    return Ok(Attempt::GivesUp);
                };
                if self.totals.is_empty() && (fetch == 0 || range.is_empty()) {
                    return Ok(Attempt::Done(0));
                }
                let begin = out.len();
                let mut looked_at = 0;
                let mut next = |found: Found<'_>, out: &mut Vec<u8>| -> Result<Option<bool>, StoreFailure> {
                    looked_at += 1;
                    if looked_at > SPAN_ROWS_MAX || out.len() - begin > SPAN_BYTES_MAX {
                        return Ok(None);
                    }
                    take(found, out).map(Some)
                };
                match from {
                    Reading::At(snapshot) => {
                        for found in snapshot.scan(index, &range, span.direction)? {
                            match next(found, out)? {
                                None => return Ok(Attempt::GivesUp),
                                Some(false) => break,
                                Some(true) => {}
                            }
                        }
                    }
                    Reading::Locked(transaction) => {
                        let mut scan = transaction.scan(index, &range, span.direction, Lock::Shared)?;
                        while let Some(found) = scan.next()? {
                            match next(found, out)? {
                                None => return Ok(Attempt::GivesUp),
                                Some(false) => break,
                                Some(true) => {}
                            }
                        }
                    }
                }
            }
        }
        if gathers {
            if gathered.bytes() > SPAN_BYTES_MAX {
                return Ok(Attempt::GivesUp);
            }
            rows = gathered.finish(self, (skip, fetch), parameters, how, out)?;
        }
        Ok(Attempt::Done(rows))
    }

    /// Writes the outputs for a row, which may be another one than was found.
    ///
    /// # Errors
    /// What an expression fails with.
    pub(crate) fn write_row(
        &self,
        row: Locked<'_>,
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.write(Some(At::of(row)), parameters, how, out)
    }

    /// The outputs for a row from number `first` on, as columns of these kinds.
    ///
    /// # Errors
    /// What an expression fails with.
    pub(crate) fn values(
        &self,
        found: Locked<'_>,
        parameters: &[ScalarValue],
        first: usize,
        kinds: &[Kind],
    ) -> Result<Vec<Option<Value<'static>>>, Refusal> {
        let at = At::of(found);
        let outputs = self.outputs.iter().skip(first).zip(kinds);
        let values = outputs.map(|((source, of), kind)| {
            self.with_value(Some(at), source, of, *kind, parameters, |value| {
                value.map(Value::into_owned)
            })
        });
        values.collect()
    }

    pub(super) fn passes(&self, at: At<'_>, parameters: &[ScalarValue]) -> Result<bool, Refusal> {
        let Some(residual) = &self.residual else {
            return Ok(true);
        };
        let passes = residual
            .evaluate(Some(at), parameters)
            .map_err(|error| refusal_of_datafusion(&error, ""))?;
        Ok(passes == ScalarValue::Boolean(Some(true)))
    }

    /// Without a row, the outputs need none.
    fn write(
        &self,
        at: Option<At<'_>>,
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut row = Row::begin(out);
        for (number, (source, of)) in self.outputs.iter().enumerate() {
            let column = how.columns.get(number);
            let kind = column.map_or(Kind::Unknown, |column| column.of.kind);
            let format = how.formats.of(number as u16);
            self.with_value(at, source, of, kind, parameters, |value| {
                let value = match (value, column) {
                    (Some(value), Some(column)) => Some(as_told(value, column)?),
                    (value, _) => value,
                };
                match value {
                    None => row.null(),
                    Some(value) => row.field(|out| value.write(out, format, how.zone)),
                }
                Ok::<(), Refusal>(())
            })??;
        }
        row.finish();
        Ok(())
    }

    /// Hands out an output, as a value of a column that clients see as this kind.
    fn with_value<R>(
        &self,
        at: Option<At<'_>>,
        source: &Source,
        of: &DataType,
        kind: Kind,
        parameters: &[ScalarValue],
        take: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R, Refusal> {
        let failed = |error| refusal_of_datafusion(&error, "");
        let scalar = match source {
            Source::Column(column) => {
                let Some(at) = at.filter(|at| !at.row.is_null(*column)) else {
                    return Ok(take(None));
                };
                if let Some(value) = field(at.row, *column, of, kind) {
                    return Ok(take(Some(value)));
                }
                let value = key::scalar_of(at.row, *column, &self.types[*column]);
                Cow::Owned(value.unwrap_or(ScalarValue::Null))
            }
            Source::RowNumber => Cow::Owned(ScalarValue::UInt32(at.map(|at| at.rid.0))),
            Source::Parameter(number) => match parameters.get(*number) {
                Some(value) => Cow::Borrowed(value),
                None => Cow::Owned(ScalarValue::Null),
            },
            Source::Constant(value) => Cow::Borrowed(value),
            Source::Computed(expression) => Cow::Owned(expression.evaluate(at, parameters).map_err(failed)?),
        };
        if scalar.is_null() {
            return Ok(take(None));
        }
        if let Some(value) = plain(&scalar, kind) {
            return Ok(take(Some(value)));
        }
        let array = scalar.to_array().map_err(failed)?;
        let cells = cells_as(array.as_ref(), kind)?;
        let value = cells(0)?;
        Ok(take(value))
    }
}

/// A field as clients see it, of the kinds that come often; `None`: it is another one.
fn field<'r>(row: RowRef<'r>, column: usize, of: &DataType, kind: Kind) -> Option<Value<'r>> {
    let is_text = !matches!(kind, Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Inet);
    Some(match (of, row.value(column)) {
        (DataType::Int16, Kept::Int(value)) => Value::Int2(i16::try_from(value).ok()?),
        (DataType::Int32, Kept::Int(value)) => Value::Int4(i32::try_from(value).ok()?),
        (DataType::Int64, Kept::Int(value)) => Value::Int8(value),
        (DataType::Boolean, Kept::Bool(value)) => Value::Bool(value),
        (DataType::Float64, Kept::Float(value)) => Value::Float8(value),
        (DataType::Decimal128(_, scale), Kept::Int(value)) => {
            Value::Numeric(Numeric::from_i128(i128::from(value), u8::try_from(*scale).ok()?))
        }
        (DataType::Date32, Kept::Int(value)) => {
            Value::Date(Date::from_unix_days(i32::try_from(value).ok()?)?)
        }
        (DataType::Timestamp(TimeUnit::Microsecond, None), Kept::Int(value)) => {
            Value::Timestamp(Timestamp::from_unix_microseconds(value)?)
        }
        (DataType::Timestamp(TimeUnit::Microsecond, Some(_)), Kept::Int(value)) => {
            Value::Timestamptz(Timestamp::from_unix_microseconds(value)?)
        }
        (DataType::Utf8View | DataType::Utf8, Kept::Text(text)) if is_text => {
            let fixed = matches!(row.data_type(column), Type::FixedText { .. });
            Value::Text(Cow::Borrowed(if fixed {
                text.trim_end_matches(' ')
            } else {
                text
            }))
        }
        _ => return None,
    })
}

/// The same of a value of DataFusion's.
fn plain(value: &ScalarValue, kind: Kind) -> Option<Value<'_>> {
    let is_text = !matches!(kind, Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Inet);
    Some(match value {
        ScalarValue::Int16(Some(value)) => Value::Int2(*value),
        ScalarValue::Int32(Some(value)) => Value::Int4(*value),
        ScalarValue::Int64(Some(value)) => Value::Int8(*value),
        ScalarValue::Boolean(Some(value)) => Value::Bool(*value),
        ScalarValue::Float64(Some(value)) => Value::Float8(*value),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) if is_text => {
            Value::Text(Cow::Borrowed(text))
        }
        _ => return None,
    })
}

/// Rows that cannot be written as they are found: they are to be sorted, or only their totals are wanted.
#[derive(Default)]
struct Gathered {
    arguments: Arguments,
    /// What each row is sorted by, and where its message is.
    rows: Vec<(Vec<ScalarValue>, Range<usize>)>,
    messages: Vec<u8>,
}

impl Gathered {
    fn bytes(&self) -> usize {
        self.messages.len() + self.arguments.bytes()
    }

    fn take(
        &mut self,
        short: &Short,
        at: At<'_>,
        parameters: &[ScalarValue],
        how: Writing<'_>,
    ) -> Result<(), Refusal> {
        let failed = |error| refusal_of_datafusion(&error, "");
        if !short.totals.is_empty() {
            return self.arguments.add(&short.totals, at, parameters).map_err(failed);
        }
        let keys = short
            .sort
            .iter()
            .map(|(source, of, ..)| scalar(source, of, at, parameters));
        let keys = keys.collect::<Result<_, _>>().map_err(failed)?;
        let begin = self.messages.len();
        short.write(Some(at), parameters, how, &mut self.messages)?;
        self.rows.push((keys, begin..self.messages.len()));
        Ok(())
    }

    /// Writes what is wanted of them; returns how many rows there are.
    fn finish(
        mut self,
        short: &Short,
        (skip, fetch): (u64, u64),
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u64, Refusal> {
        let failed = |error| refusal_of_datafusion(&error, "");
        if !short.totals.is_empty() {
            let all = self.arguments.behind(&short.totals, parameters, short.totals_at);
            short.write(None, &all.map_err(failed)?, how, out)?;
            return Ok(1);
        }
        self.rows.sort_by(|(one, _), (other, _)| {
            let mut keys = one.iter().zip(other).zip(&short.sort);
            let order = keys.find_map(|((one, other), (_, _, ascending, nulls_first))| {
                let order = match (one.is_null(), other.is_null()) {
                    (true, true) => Ordering::Equal,
                    (true, false) if *nulls_first => Ordering::Less,
                    (false, true) if !*nulls_first => Ordering::Less,
                    (true, false) | (false, true) => Ordering::Greater,
                    (false, false) => {
                        let order = one.partial_cmp(other).unwrap_or(Ordering::Equal);
                        if *ascending { order } else { order.reverse() }
                    }
                };
                order.is_ne().then_some(order)
            });
            order.unwrap_or(Ordering::Equal)
        });
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let wanted = self.rows.iter().skip(count(skip)).take(count(fetch));
        let mut rows = 0;
        for (_, message) in wanted {
            out.extend_from_slice(&self.messages[message.clone()]);
            rows += 1;
        }
        Ok(rows)
    }
}

/// A number of rows; `None`: the planner has something to say about it.
pub(super) fn count(
    of: &Option<Source>,
    otherwise: u64,
    parameters: &[ScalarValue],
) -> Result<Option<u64>, Refusal> {
    let Some(of) = of else {
        return Ok(Some(otherwise));
    };
    Ok(match value(of, parameters)?.as_ref() {
        ScalarValue::Int64(Some(rows)) => u64::try_from(*rows).ok(),
        _ => None,
    })
}

/// What needs no row.
fn value<'v>(of: &'v Source, parameters: &'v [ScalarValue]) -> Result<Cow<'v, ScalarValue>, Refusal> {
    Ok(match of {
        Source::Constant(value) => Cow::Borrowed(value),
        Source::Parameter(number) if *number < parameters.len() => Cow::Borrowed(&parameters[*number]),
        of => Cow::Owned(
            of.of_parameters(parameters)
                .map_err(|error| refusal_of_datafusion(&error, ""))?,
        ),
    })
}

/// Hands a key to a look-up; `None`: no row can have it.
pub(super) fn with_key<'t>(
    key: &[(Source, Type)],
    parameters: &[ScalarValue],
    fetch: impl FnOnce(&[Kept<'_>]) -> Result<Option<Found<'t>>, StoreError>,
) -> Result<Option<Found<'t>>, StoreFailure> {
    if let [(of, stored)] = key {
        let value = value(of, parameters)?;
        return Ok(match key::key_value(&value, *stored) {
            Some(value) => fetch(&[value])?,
            None => None,
        });
    }
    let values = key.iter().map(|(of, _)| value(of, parameters));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let kept = values
        .iter()
        .zip(key)
        .map(|(value, (_, stored))| key::key_value(value, *stored));
    Ok(match kept.collect::<Option<Vec<_>>>() {
        Some(key) => fetch(&key)?,
        None => None,
    })
}

/// Whether a row has a key, whose fixed texts the condition looks at.
pub(super) fn has_key(
    row: RowRef<'_>,
    index: &Index,
    key: &[(Source, Type)],
    parameters: &[ScalarValue],
) -> Result<bool, Refusal> {
    for (column, (of, stored)) in index.columns().iter().zip(key) {
        if matches!(stored, Type::FixedText { .. }) {
            continue;
        }
        let value = value(of, parameters)?;
        let same = match (row.value(*column), key::key_value(&value, *stored)) {
            (Kept::Decimal(a), Some(Kept::Int(b))) => a == i128::from(b),
            (a, b) => Some(a) == b,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Span {
    /// The entries; `None`: they cannot be named here.
    pub(super) fn range(
        &self,
        index: &Index,
        parameters: &[ScalarValue],
    ) -> Result<Option<KeyRange>, StoreFailure> {
        let prefix = self.prefix.iter().map(|(of, _)| value(of, parameters));
        let prefix = prefix.collect::<Result<Vec<_>, _>>()?;
        let kept = prefix
            .iter()
            .zip(&self.prefix)
            .map(|(value, (_, stored))| key::key_value(value, *stored));
        let Some(kept) = kept.collect::<Option<Vec<_>>>() else {
            return Ok(Some(nothing(index)?));
        };
        let bound = |of: &'_ Option<(Source, bool)>| -> Result<Option<(ScalarValue, bool)>, Refusal> {
            let Some((of, included)) = of else {
                return Ok(None);
            };
            Ok(Some((value(of, parameters)?.into_owned(), *included)))
        };
        let (low, high) = (bound(&self.low)?, bound(&self.high)?);
        if [&low, &high]
            .into_iter()
            .flatten()
            .any(|(value, _)| value.is_null())
        {
            return Ok(Some(nothing(index)?));
        }
        let Some(next) = self.next.filter(|_| low.is_some() || high.is_some()) else {
            return Ok(Some(index.prefix(&kept).map_err(StoreError::from)?));
        };
        let (Some(low), Some(high)) = (edge(&low, next), edge(&high, next)) else {
            return Ok(None);
        };
        Ok(Some(index.between(&kept, low, high).map_err(StoreError::from)?))
    }
}

/// A bound of a column of a type; `None`: it cannot be named here.
fn edge(of: &Option<(ScalarValue, bool)>, stored: Type) -> Option<Bound<Kept<'_>>> {
    let Some((value, included)) = of else {
        return Some(Bound::Unbounded);
    };
    key::key_value(value, stored).map(|value| match included {
        true => Bound::Included(value),
        false => Bound::Excluded(value),
    })
}

/// The range of no entries: of a value that equals nothing.
fn nothing(index: &Index) -> Result<KeyRange, StoreError> {
    Ok(index.between(&[], Bound::Included(Kept::Null), Bound::Included(Kept::Null))?)
}

/// Which way a range is read.
impl Span {
    pub(super) fn is_backwards(&self) -> bool {
        self.direction == Direction::Descending
    }
}
