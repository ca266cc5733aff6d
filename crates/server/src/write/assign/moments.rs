//! Assignments to columns of dates, times, moments and intervals.
//!
//! The store counts from 1970, PostgreSQL from 2000, and both in 64 bits: of PostgreSQL's last 29 years (294247 to 294276) the store has no
//! moments. Infinite ones are the smallest and the largest number. An interval is kept as Arrow lays it out, so that nothing is converted when
//! it is read: its time in nanoseconds, of at most 292 years.

use super::{Stored, mismatch, read_again};
use crate::write::column::{Column, Declared};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Date, Interval, Time, TimeZone, Timestamp, Value};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Seconds from 1970 to 2000.
const UNIX_SECONDS: i64 = 946_684_800;
/// Digits of a second that are kept.
const DIGITS_MAX: u32 = 6;

#[cold]
fn out_of_range(what: &str) -> Refusal {
    Refusal::new(code::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn is_infinite(of: Timestamp) -> bool {
    matches!(of, Timestamp::INFINITY | Timestamp::NEGATIVE_INFINITY)
}

/// The local time of a moment.
fn local(of: Timestamp, zone: &dyn TimeZone) -> Result<Timestamp, Refusal> {
    if is_infinite(of) {
        return Ok(of);
    }
    let offset = zone.offset_at(of.0.div_euclid(SECOND) + UNIX_SECONDS);
    let local = of.0.checked_add(i64::from(offset) * SECOND).map(Timestamp);
    local
        .filter(|local| local.exists())
        .ok_or_else(|| out_of_range("timestamp"))
}

/// The moment of a local time.
fn moment(of: Timestamp, zone: &dyn TimeZone) -> Result<Timestamp, Refusal> {
    if is_infinite(of) {
        return Ok(of);
    }
    let offset = zone.offset_of_local(of.0.div_euclid(SECOND) + UNIX_SECONDS);
    let moment = of.0.checked_sub(i64::from(offset) * SECOND).map(Timestamp);
    moment
        .filter(|moment| moment.exists())
        .ok_or_else(|| out_of_range("timestamp"))
}

fn midnight(of: Date) -> Result<Timestamp, Refusal> {
    match of {
        Date::INFINITY => Ok(Timestamp::INFINITY),
        Date::NEGATIVE_INFINITY => Ok(Timestamp::NEGATIVE_INFINITY),
        Date(days) => {
            let midnight = i64::from(days).checked_mul(DAY).map(Timestamp);
            midnight
                .filter(|midnight| midnight.exists())
                .ok_or_else(|| Refusal::new(code::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"))
        }
    }
}

fn day(of: Timestamp) -> Result<Date, Refusal> {
    match of {
        Timestamp::INFINITY => Ok(Date::INFINITY),
        Timestamp::NEGATIVE_INFINITY => Ok(Date::NEGATIVE_INFINITY),
        Timestamp(at) => i32::try_from(at.div_euclid(DAY))
            .map(Date)
            .map_err(|_| out_of_range("date")),
    }
}

/// `date`
pub(super) fn date<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let date = match value {
        Value::Date(date) => *date,
        Value::Timestamp(at) => day(*at)?,
        Value::Timestamptz(at) => day(local(*at, zone)?)?,
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    let days = match date {
        Date::INFINITY => i32::MAX,
        Date::NEGATIVE_INFINITY => i32::MIN,
        date => date.unix_days().ok_or_else(|| out_of_range("date"))?,
    };
    Ok(Stored::Int(i64::from(days)))
}

/// `timestamp`
pub(super) fn timestamp<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let at = match value {
        Value::Timestamp(at) => *at,
        Value::Timestamptz(at) => local(*at, zone)?,
        Value::Date(date) => midnight(*date)?,
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    kept(&column.declared, at)
}

/// `timestamptz`
pub(super) fn timestamptz<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let at = match value {
        Value::Timestamptz(at) => *at,
        Value::Timestamp(at) => moment(*at, zone)?,
        Value::Date(date) => moment(midnight(*date)?, zone)?,
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    kept(&column.declared, at)
}

fn kept<'v>(of: &Declared, at: Timestamp) -> Result<Stored<'v>, Refusal> {
    let microseconds = match at {
        Timestamp::INFINITY => i64::MAX,
        Timestamp::NEGATIVE_INFINITY => i64::MIN,
        Timestamp(at) => {
            let rounded = Timestamp(rounded(of, at));
            let microseconds = rounded.unix_microseconds();
            // The largest number is the infinite one.
            let finite = microseconds.filter(|at| *at != i64::MAX);
            finite.ok_or_else(|| out_of_range("timestamp"))?
        }
    };
    Ok(Stored::Int(microseconds))
}

/// Microseconds with the declared digits of a second, halves away from zero.
fn rounded(of: &Declared, microseconds: i64) -> i64 {
    let digits = of.length.unwrap_or(DIGITS_MAX).min(DIGITS_MAX);
    let unit = 10i64.pow(DIGITS_MAX - digits);
    if unit == 1 {
        return microseconds;
    }
    let half = match microseconds < 0 {
        true => -unit / 2,
        false => unit / 2,
    };
    microseconds.saturating_add(half) / unit * unit
}

/// `time`
pub(super) fn time<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let of_day = |at: Timestamp| match is_infinite(at) {
        true => Err(out_of_range("timestamp")),
        false => Ok(at.0.rem_euclid(DAY)),
    };
    let microseconds = match value {
        Value::Time(time) => time.0,
        Value::Timestamp(at) => of_day(*at)?,
        Value::Timestamptz(at) => of_day(local(*at, zone)?)?,
        Value::Interval(interval) => interval.microseconds.rem_euclid(DAY),
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    match Time::new(rounded(&column.declared, microseconds)) {
        Some(Time(microseconds)) => Ok(Stored::Int(microseconds)),
        None => Err(out_of_range("time")),
    }
}

/// `interval`
pub(super) fn interval<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let interval = match value {
        Value::Interval(interval) => *interval,
        Value::Time(Time(microseconds)) => Interval {
            microseconds: *microseconds,
            ..Interval::default()
        },
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    let microseconds = rounded(&column.declared, interval.microseconds);
    let nanoseconds = microseconds
        .checked_mul(1000)
        .ok_or_else(|| out_of_range("interval"))?;
    let mut bytes = [0u8; 16];
    bytes[..4].copy_from_slice(&interval.months.to_le_bytes());
    bytes[4..8].copy_from_slice(&interval.days.to_le_bytes());
    bytes[8..].copy_from_slice(&nanoseconds.to_le_bytes());
    Ok(Stored::Sixteen(bytes))
}

/// What [`interval`] has kept.
pub(super) fn interval_of(bytes: &[u8]) -> Option<Interval> {
    let (months, rest) = bytes.split_first_chunk::<4>()?;
    let (days, rest) = rest.split_first_chunk::<4>()?;
    let nanoseconds = i64::from_le_bytes(rest.try_into().ok()?);
    Some(Interval {
        months: i32::from_le_bytes(*months),
        days: i32::from_le_bytes(*days),
        microseconds: nanoseconds / 1000,
    })
}
