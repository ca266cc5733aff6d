//! [`Interval`]: months, days and a time, none of which can be turned into another without a calendar.

use std::io::Write as _;

use super::calendar::seconds;
use super::read_text::is_blank;
use crate::error::{Refusal, code};

/// A span of time, as PostgreSQL keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months, years among them.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// What is shorter, in microseconds.
    pub microseconds: i64,
}

impl Interval {
    /// Appends it in PostgreSQL's style, such as `1 year 2 mons -3 days +04:05:06.7`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut before = false;
        for (value, unit) in [
            (self.months / 12, "year"),
            (self.months % 12, "mon"),
            (self.days, "day"),
        ] {
            if value == 0 {
                continue;
            }
            let space = if out.len() > begin { " " } else { "" };
            let sign = if before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            // Writing into memory does not fail.
            let _ = write!(out, "{space}{sign}{value} {unit}{plural}");
            before = value < 0;
        }
        let first = out.len() == begin;
        if !first && self.microseconds == 0 {
            return;
        }
        let all = self.microseconds.unsigned_abs();
        let (hours, rest) = (all / 3_600_000_000, all % 3_600_000_000);
        let sign = match (self.microseconds < 0, before) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let space = if first { "" } else { " " };
        let _ = write!(out, "{space}{sign}{hours:02}:{:02}:", rest / 60_000_000);
        seconds(out, rest % 60_000_000);
    }
}

/// A unit by any of its names: months, days or microseconds of it.
enum Unit {
    Months(i32),
    Days(i32),
    Microseconds(i64),
}

fn unit(name: &str) -> Option<Unit> {
    Some(match name {
        "millennium" | "millennia" | "mil" | "mils" | "millenniums" => Unit::Months(12_000),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1_200),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "week" | "weeks" | "w" => Unit::Days(7),
        "day" | "days" | "d" => Unit::Days(1),
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Microseconds(3_600_000_000),
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Microseconds(60_000_000),
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Microseconds(1_000_000),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => Unit::Microseconds(1_000),
        "microsecond" | "microseconds" | "usec" | "usecs" | "us" => Unit::Microseconds(1),
        _ => return None,
    })
}

/// Why a text is no interval.
enum Wrong {
    Form,
    Range,
}

/// A decimal number without an exponent: whole part, and the fraction behind it.
fn number(text: &str) -> Result<(i64, f64), Wrong> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(Wrong::Form);
    }
    let whole: i64 = format!("0{whole}").parse().map_err(|_| Wrong::Range)?;
    let fraction: f64 = format!("0.{fraction}0").parse().map_err(|_| Wrong::Form)?;
    Ok(match text.starts_with('-') {
        true => (-whole, -fraction),
        false => (whole, fraction),
    })
}

impl Interval {
    /// Reads PostgreSQL's style (`1 year 2 mons -3 days 04:05:06.7`, with any unit's name and `ago`) and ISO 8601 with designators
    /// (`P1Y2M3DT4H5M6.7S`).
    ///
    /// # Errors
    /// Another text, or parts that do not fit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let lower = text.trim_matches(is_blank).to_ascii_lowercase();
        let read = match lower.strip_prefix('p') {
            Some(designators) => Self::designators(designators),
            None => Self::words(&lower),
        };
        read.map_err(|wrong| match wrong {
            Wrong::Form => Refusal::new(
                code::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type interval: \"{text}\""),
            ),
            Wrong::Range => Refusal::new("22015", format!("interval field value out of range: \"{text}\"")),
        })
    }

    fn words(text: &str) -> Result<Self, Wrong> {
        let mut found = Self::default();
        let mut words = text
            .split(|c| is_blank(c) || c == ',')
            .filter(|word| !word.is_empty())
            .peekable();
        if let Some(&"@") = words.peek() {
            words.next();
        }
        let mut any = false;
        let mut ago = false;
        while let Some(word) = words.next() {
            if ago {
                return Err(Wrong::Form);
            }
            if word == "ago" && any {
                ago = true;
                continue;
            }
            any = true;
            if word.contains(':') {
                found.add_clock(word)?;
                continue;
            }
            let end = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
            let (amount, name) = word.split_at(end);
            let amount = number(amount)?;
            let name = match name {
                // A number alone is of seconds, behind all others.
                "" => match words.peek().and_then(|next| unit(next)) {
                    Some(_) => words.next().unwrap_or_default(),
                    None if words.peek().is_none() => "s",
                    None => return Err(Wrong::Form),
                },
                name => name,
            };
            found.add(amount, &unit(name).ok_or(Wrong::Form)?)?;
        }
        if !any {
            return Err(Wrong::Form);
        }
        if !ago {
            return Ok(found);
        }
        Ok(Self {
            months: found.months.checked_neg().ok_or(Wrong::Range)?,
            days: found.days.checked_neg().ok_or(Wrong::Range)?,
            microseconds: found.microseconds.checked_neg().ok_or(Wrong::Range)?,
        })
    }

    fn designators(text: &str) -> Result<Self, Wrong> {
        let mut found = Self::default();
        let (mut rest, mut in_time, mut any) = (text, false, false);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('t') {
                if std::mem::replace(&mut in_time, true) {
                    return Err(Wrong::Form);
                }
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Wrong::Form)?;
            let amount = number(&rest[..end])?;
            let of = match (in_time, rest.as_bytes()[end]) {
                (false, b'y') => Unit::Months(12),
                (false, b'm') => Unit::Months(1),
                (false, b'w') => Unit::Days(7),
                (false, b'd') => Unit::Days(1),
                (true, b'h') => Unit::Microseconds(3_600_000_000),
                (true, b'm') => Unit::Microseconds(60_000_000),
                (true, b's') => Unit::Microseconds(1_000_000),
                _ => return Err(Wrong::Form),
            };
            found.add(amount, &of)?;
            any = true;
            rest = &rest[end + 1..];
        }
        if any { Ok(found) } else { Err(Wrong::Form) }
    }

    /// Adds `h:mm` or `h:mm:ss.f`.
    fn add_clock(&mut self, word: &str) -> Result<(), Wrong> {
        let negative = word.starts_with('-');
        let mut parts = word.strip_prefix(['+', '-']).unwrap_or(word).split(':');
        let units = [3_600_000_000, 60_000_000, 1_000_000];
        for (at, of) in units.into_iter().enumerate() {
            let Some(part) = parts.next() else {
                if at < 2 {
                    return Err(Wrong::Form);
                }
                break;
            };
            let (whole, fraction) = number(part)?;
            if part.starts_with(['+', '-']) || (at < 2 && part.contains('.')) {
                return Err(Wrong::Form);
            }
            if at > 0 && whole > if at == 1 { 59 } else { 60 } {
                return Err(Wrong::Range);
            }
            let amount = if negative {
                (-whole, -fraction)
            } else {
                (whole, fraction)
            };
            self.add(amount, &Unit::Microseconds(of))?;
        }
        if parts.next().is_some() {
            Err(Wrong::Form)
        } else {
            Ok(())
        }
    }

    /// Adds an amount of a unit. What is left of a month is days of which it has 30, of a day microseconds.
    fn add(&mut self, (whole, fraction): (i64, f64), of: &Unit) -> Result<(), Wrong> {
        let small = |value: i64| i32::try_from(value).map_err(|_| Wrong::Range);
        match *of {
            Unit::Months(months) => {
                let rest = fraction * f64::from(months);
                let all = whole.checked_mul(i64::from(months)).ok_or(Wrong::Range)?;
                let all = all.checked_add(rest.trunc() as i64).ok_or(Wrong::Range)?;
                self.months = self.months.checked_add(small(all)?).ok_or(Wrong::Range)?;
                // Of a year PostgreSQL keeps whole months only.
                if months == 1 {
                    self.add((0, fraction * 30.0), &Unit::Days(1))?;
                }
                Ok(())
            }
            Unit::Days(days) => {
                let rest = fraction * f64::from(days);
                let all = whole.checked_mul(i64::from(days)).ok_or(Wrong::Range)?;
                let all = all.checked_add(rest.trunc() as i64).ok_or(Wrong::Range)?;
                self.days = self.days.checked_add(small(all)?).ok_or(Wrong::Range)?;
                let microseconds = (rest.fract() * 86_400_000_000.0).round_ties_even() as i64;
                self.add_microseconds(microseconds)
            }
            Unit::Microseconds(unit) => {
                let all = whole.checked_mul(unit).ok_or(Wrong::Range)?;
                let rest = (fraction * unit as f64).round_ties_even() as i64;
                self.add_microseconds(all.checked_add(rest).ok_or(Wrong::Range)?)
            }
        }
    }

    fn add_microseconds(&mut self, microseconds: i64) -> Result<(), Wrong> {
        self.microseconds = self.microseconds.checked_add(microseconds).ok_or(Wrong::Range)?;
        Ok(())
    }
}
