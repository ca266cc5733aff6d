//! Dates, times and moments from text in ISO style: `2024-02-29`, `04:05:06.789`, both with a blank or a `T` between them, an offset
//! behind them, and `BC` at the very end. Other styles, such as `Feb 29, 2024`, are refused: which of two numbers is the month would be a
//! setting.

use super::calendar::{DAY_MICROSECONDS, Date, Time, Timestamp};
use super::kind::Kind;
use super::read_text::is_blank;
use super::zone::TimeZone;
use crate::error::{Refusal, code};

/// What a text says: a day, a time of day, an offset.
struct Parts {
    date: Option<Date>,
    time: Option<i64>,
    offset: Option<i32>,
}

/// Why a text is none.
enum Wrong {
    /// It is not of the form.
    Form,
    /// A part is beyond what it may be.
    Field,
    /// A day of the calendar that PostgreSQL does not have.
    Range,
    /// An offset that no time zone has.
    Zone,
}

fn told(wrong: Wrong, kind: Kind, text: &str) -> Refusal {
    match wrong {
        Wrong::Form => Refusal::new(
            code::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {}: \"{text}\"", short(kind)),
        )
        .hint("Dates and times are read in ISO style, such as 2024-02-29 04:05:06.789+01."),
        Wrong::Field => Refusal::new(
            code::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ),
        Wrong::Range => {
            let what = match kind {
                Kind::Date => "date",
                _ => "timestamp",
            };
            Refusal::new(
                code::DATETIME_FIELD_OVERFLOW,
                format!("{what} out of range: \"{text}\""),
            )
        }
        Wrong::Zone => Refusal::new(
            "22009",
            format!("time zone displacement out of range: \"{text}\""),
        ),
    }
}

fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::Time => "time",
        kind => kind.name(),
    }
}

/// A `date`; what it says of a time is left out, as PostgreSQL does.
pub(super) fn date(text: &str) -> Result<Date, Refusal> {
    let trimmed = text.trim_matches(is_blank).to_ascii_lowercase();
    match trimmed.as_str() {
        "infinity" | "+infinity" => return Ok(Date::INFINITY),
        "-infinity" => return Ok(Date::NEGATIVE_INFINITY),
        "epoch" => return Ok(Date(-10_957)),
        _ => {}
    }
    let parts = parts(&trimmed).map_err(|wrong| told(wrong, Kind::Date, text))?;
    parts.date.ok_or_else(|| told(Wrong::Form, Kind::Date, text))
}

/// A `time`.
pub(super) fn time(text: &str) -> Result<Time, Refusal> {
    let trimmed = text.trim_matches(is_blank).to_ascii_lowercase();
    let parts = parts(&trimmed).map_err(|wrong| told(wrong, Kind::Time, text))?;
    let time = parts.time.ok_or_else(|| told(Wrong::Form, Kind::Time, text))?;
    Time::new(time).ok_or_else(|| told(Wrong::Field, Kind::Time, text))
}

/// A `timestamp`; an offset in it is left out, as PostgreSQL does.
pub(super) fn timestamp(text: &str) -> Result<Timestamp, Refusal> {
    moment(text, Kind::Timestamp).map(|(moment, _)| moment)
}

/// A `timestamptz`: a local time of `zone` unless it names an offset.
pub(super) fn timestamptz(text: &str, zone: &dyn TimeZone) -> Result<Timestamp, Refusal> {
    let (local, offset) = moment(text, Kind::Timestamptz)?;
    let infinite = matches!(local, Timestamp::INFINITY | Timestamp::NEGATIVE_INFINITY);
    if infinite || text.trim_matches(is_blank).eq_ignore_ascii_case("epoch") {
        return Ok(local);
    }
    let offset = offset.unwrap_or_else(|| zone.offset_of_local(local.unix_seconds()));
    let moment = Timestamp(local.0.saturating_sub(i64::from(offset) * 1_000_000));
    let wrong = || {
        Refusal::new(
            code::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{text}\""),
        )
    };
    moment.exists().then_some(moment).ok_or_else(wrong)
}

fn moment(text: &str, kind: Kind) -> Result<(Timestamp, Option<i32>), Refusal> {
    let trimmed = text.trim_matches(is_blank).to_ascii_lowercase();
    match trimmed.as_str() {
        "infinity" | "+infinity" => return Ok((Timestamp::INFINITY, None)),
        "-infinity" => return Ok((Timestamp::NEGATIVE_INFINITY, None)),
        "epoch" => return Ok((Timestamp(-10_957 * DAY_MICROSECONDS), None)),
        _ => {}
    }
    let parts = parts(&trimmed).map_err(|wrong| told(wrong, kind, text))?;
    let date = parts.date.ok_or_else(|| told(Wrong::Form, kind, text))?;
    let moment = i64::from(date.0).checked_mul(DAY_MICROSECONDS);
    let moment = moment.and_then(|day| day.checked_add(parts.time.unwrap_or(0)));
    let moment = moment.map(Timestamp).filter(|moment| moment.exists());
    let wrong = || {
        Refusal::new(
            code::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{text}\""),
        )
    };
    Ok((moment.ok_or_else(wrong)?, parts.offset))
}

fn parts(text: &str) -> Result<Parts, Wrong> {
    let (text, before_christ) = match text.strip_suffix("bc") {
        Some(rest) => (rest.trim_end_matches(is_blank), true),
        None => (
            text.strip_suffix("ad")
                .map_or(text, |rest| rest.trim_end_matches(is_blank)),
            false,
        ),
    };
    let mut cursor = Cursor { rest: text };
    let mut parts = Parts {
        date: None,
        time: None,
        offset: None,
    };
    // A time has a colon behind its first two digits; a day a hyphen, or eight digits.
    if cursor.digits_ahead() != 2 || text.as_bytes().get(2) != Some(&b':') {
        parts.date = Some(cursor.date(before_christ)?);
        if cursor.rest.starts_with('t') {
            cursor.rest = &cursor.rest[1..];
        }
        cursor.skip_blanks();
    }
    if cursor.digits_ahead() == 2 {
        parts.time = Some(cursor.time()?);
        cursor.skip_blanks();
    }
    parts.offset = cursor.offset()?;
    if cursor.rest.is_empty() {
        Ok(parts)
    } else {
        Err(Wrong::Form)
    }
}

/// What is left of a text.
struct Cursor<'t> {
    rest: &'t str,
}

impl Cursor<'_> {
    fn digits_ahead(&self) -> usize {
        self.rest.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn takes(&mut self, c: char) -> bool {
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// A number of at most so many digits.
    fn number(&mut self, digits_max: usize) -> Result<u32, Wrong> {
        let digits = self.digits_ahead();
        if digits == 0 || digits > digits_max {
            return Err(Wrong::Form);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().map_err(|_| Wrong::Form)
    }

    fn date(&mut self, before_christ: bool) -> Result<Date, Wrong> {
        let digits = self.digits_ahead();
        let compact = digits == 8 && !self.rest[digits..].starts_with('-');
        let (year, month, day) = if compact {
            let all = self.number(8)?;
            (all / 10_000, all / 100 % 100, all % 100)
        } else {
            // Two digits would be a year of this century or of the last.
            if digits < 3 {
                return Err(Wrong::Form);
            }
            let year = self.number(7)?;
            if !self.takes('-') {
                return Err(Wrong::Form);
            }
            let month = self.number(2)?;
            if !self.takes('-') {
                return Err(Wrong::Form);
            }
            (year, month, self.number(2)?)
        };
        let year = i32::try_from(year).map_err(|_| Wrong::Field)?;
        if year == 0 {
            return Err(Wrong::Field);
        }
        let year = if before_christ { 1 - year } else { year };
        // The calendar is the same every 400 years.
        let exists = Date::from_civil(2000 + year.rem_euclid(400), month, day).is_some();
        Date::from_civil(year, month, day).ok_or(if exists { Wrong::Range } else { Wrong::Field })
    }

    /// Microseconds of a time of day.
    fn time(&mut self) -> Result<i64, Wrong> {
        let hours = i64::from(self.number(2)?);
        if !self.takes(':') {
            return Err(Wrong::Form);
        }
        let minutes = i64::from(self.number(2)?);
        let (mut seconds, mut fraction) = (0, 0);
        if self.takes(':') {
            seconds = i64::from(self.number(2)?);
            if self.takes('.') {
                fraction = self.fraction()?;
            }
        }
        let all = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
        if hours > 24 || minutes > 59 || seconds > 60 || all > DAY_MICROSECONDS {
            return Err(Wrong::Field);
        }
        Ok(all)
    }

    /// Microseconds of what stands behind a point; digits beyond them are rounded.
    fn fraction(&mut self) -> Result<i64, Wrong> {
        let digits = self.digits_ahead();
        let (fraction, rest) = self.rest.split_at(digits);
        self.rest = rest;
        // As a float, as PostgreSQL does.
        let value: f64 = format!("0.{fraction}0").parse().map_err(|_| Wrong::Form)?;
        Ok((value * 1_000_000.0).round_ties_even() as i64)
    }

    /// Seconds east of UTC: `Z`, `UTC`, `+01`, `+01:30`, `+0130`, `+01:30:15`.
    fn offset(&mut self) -> Result<Option<i32>, Wrong> {
        for name in ["utc", "gmt", "zulu", "z"] {
            if let Some(rest) = self.rest.strip_prefix(name) {
                self.rest = rest;
                return Ok(Some(0));
            }
        }
        let sign = match (self.takes('+'), self.takes('-')) {
            (true, _) => 1,
            (_, true) => -1,
            _ => return Ok(None),
        };
        let digits = self.digits_ahead();
        let number = self.number(4)? as i32;
        let (hours, mut minutes) = match digits {
            1 | 2 => (number, 0),
            _ => (number / 100, number % 100),
        };
        let mut seconds = 0;
        if digits <= 2 && self.takes(':') {
            minutes = self.number(2)? as i32;
            if self.takes(':') {
                seconds = self.number(2)? as i32;
            }
        }
        if hours > 15 || minutes > 59 || seconds > 59 {
            return Err(Wrong::Zone);
        }
        Ok(Some(sign * ((hours * 60 + minutes) * 60 + seconds)))
    }
}
