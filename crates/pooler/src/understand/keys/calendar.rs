//! Dates and times in PostgreSQL's ISO forms, as numbers, and days and times of day as texts.
//!
//! What it is not: a reader of all forms. For `22.11.2026`, `Nov 22`, BC, `infinity`, names of time zones and leap seconds it returns
//! `None`; the caller then knows nothing of the key.

/// Days between 0001-01-01 and 2000-01-01 in the Gregorian calendar.
const EPOCH_DAYS: i64 = 730_119;

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Days before each month of a year that is no leap year.
const BEFORE_MONTH: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Days since 2000-01-01.
    pub(super) days: i64,
    /// Microseconds of that day, as the text says; `None` where it names the day only.
    pub(super) time_us: Option<i64>,
    /// Microseconds that the text's time zone is ahead of UTC; 0 if it names none.
    pub(super) zone_us: i64,
}

impl Moment {
    /// Reads `2026-11-22`, `2026-11-22 10:00`, `2026-11-22T10:00:00.123456+01:00` and what lies between. Without a zone, UTC.
    pub(super) fn of(text: &[u8]) -> Option<Moment> {
        let mut rest = Cursor(text.trim_ascii());
        let (year, digits) = rest.digits()?;
        if !(4..=6).contains(&digits) || year == 0 {
            return None;
        }
        rest.sign(b'-')?;
        let month = rest.two_digits()?;
        rest.sign(b'-')?;
        let day = rest.two_digits()?;
        let days = days(year, month, day)?;
        if rest.0.is_empty() {
            return Some(Moment {
                days,
                time_us: None,
                zone_us: 0,
            });
        }
        rest.sign(b' ').or_else(|| rest.sign(b'T'))?;
        let time_us = rest.time_us()?;
        let zone_us = rest.zone_us()?;
        rest.0.is_empty().then_some(Moment {
            days,
            time_us: Some(time_us),
            zone_us,
        })
    }

    /// Microseconds since 2000-01-01 00:00 UTC.
    pub(super) fn timestamp_us(self) -> Option<i64> {
        self.days
            .checked_mul(DAY_US)?
            .checked_add(self.time_us.unwrap_or(0))?
            .checked_sub(self.zone_us)
    }
}

/// Days since 2000-01-01 of a date in the Gregorian calendar; `None` if there is none.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let index = usize::try_from(month - 1).ok().filter(|index| *index < 12)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = BEFORE_MONTH[index + 1] - BEFORE_MONTH[index] + i64::from(leap && month == 2);
    if !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    let years = 365 * before + before / 4 - before / 100 + before / 400;
    let months = BEFORE_MONTH[index] + i64::from(leap && month > 2);
    Some(years + months + day - 1 - EPOCH_DAYS)
}

/// A day since 2000-01-01, in the Gregorian calendar.
pub(crate) fn date(days: i64) -> String {
    // Years that begin in March have their leap day at the end; 0000-03-01 is 730,425 days before 2000-01-01.
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time of day in whole seconds: `23:59:59`.
pub(crate) fn time_of_day(seconds: i64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// What is left of a text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// A number of at most nine digits, and how many these were.
    fn digits(&mut self) -> Option<(i64, usize)> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&count) {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let number = digits
            .iter()
            .fold(0, |number, digit| 10 * number + i64::from(digit - b'0'));
        Some((number, count))
    }

    fn two_digits(&mut self) -> Option<i64> {
        let (number, count) = self.digits()?;
        (count == 2).then_some(number)
    }

    fn sign(&mut self, sign: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[sign])?;
        Some(())
    }

    /// `HH:MM`, with seconds and up to six digits of them behind a point if they are there. More digits would be rounded.
    fn time_us(&mut self) -> Option<i64> {
        let hours = self.two_digits().filter(|hours| *hours < 24)?;
        self.sign(b':')?;
        let minutes = self.two_digits().filter(|minutes| *minutes < 60)?;
        let (mut seconds, mut fraction_us) = (0, 0);
        if self.sign(b':').is_some() {
            seconds = self.two_digits().filter(|seconds| *seconds < 60)?;
            if self.sign(b'.').is_some() {
                let (digits, count) = self.digits()?;
                let missing = 6_usize.checked_sub(count)?;
                fraction_us = digits * 10_i64.pow(u32::try_from(missing).ok()?);
            }
        }
        Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction_us)
    }

    /// Nothing, `Z`, or `+HH`, `+HHMM`, `+HH:MM`, `+HH:MM:SS` and the same with a minus; a blank before it.
    fn zone_us(&mut self) -> Option<i64> {
        self.0 = self.0.trim_ascii_start();
        let ahead = match self.0.first() {
            None => return Some(0),
            Some(b'Z' | b'z') => {
                self.0 = &self.0[1..];
                return Some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.0 = &self.0[1..];
        let (mut hours, count) = self.digits()?;
        let (mut minutes, mut seconds) = (0, 0);
        match count {
            1 | 2 => {
                if self.sign(b':').is_some() {
                    minutes = self.two_digits()?;
                    if self.sign(b':').is_some() {
                        seconds = self.two_digits()?;
                    }
                }
            }
            4 => (hours, minutes) = (hours / 100, hours % 100),
            _ => return None,
        }
        (hours < 16 && minutes < 60 && seconds < 60)
            .then_some(ahead * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_postgresql_counts_them() {
        // `select date '...' - date '2000-01-01'`
        for (text, expected) in [
            ("2000-01-01", 0),
            ("1999-12-31", -1),
            ("2000-02-29", 59),
            ("2000-03-01", 60),
            ("2026-11-22", 9_822),
            ("1970-01-01", -10_957),
            ("1900-03-01", -36_465),
            ("0001-01-01", -730_119),
            ("9999-12-31", 2_921_939),
        ] {
            let moment = Moment::of(text.as_bytes()).map(|moment| moment.days);
            assert_eq!(moment, Some(expected), "{text}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = days(1899, 12, 31);
        for year in 1900..=2400 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(this) = days(year, month, day) {
                        assert_eq!(Some(this - 1), last, "{year}-{month}-{day}");
                        last = Some(this);
                    }
                }
            }
        }
    }

    #[test]
    fn times_and_zones() {
        let hour = 3_600_000_000;
        for (text, expected) in [
            ("2000-01-01 00:00:00", 0),
            (" 2000-01-01 10:00 ", 10 * hour),
            ("2000-01-01T10:00:00Z", 10 * hour),
            ("2000-01-01 10:00:00+00", 10 * hour),
            ("2000-01-01 10:00:00 +02", 8 * hour),
            ("2000-01-01 10:00:00-02:30", 12 * hour + hour / 2),
            ("2000-01-01 10:00:00+0130", 8 * hour + hour / 2),
            ("1999-12-31 23:59:59.5", -500_000),
            ("2000-01-01 00:00:00.000001", 1),
        ] {
            let moment = Moment::of(text.as_bytes()).and_then(Moment::timestamp_us);
            assert_eq!(moment, Some(expected), "{text}");
        }
    }

    #[test]
    fn other_forms_are_not_read() {
        for text in [
            "",
            "today",
            "infinity",
            "2026-13-01",
            "2026-02-29",
            "2026-00-10",
            "2026-11-22 BC",
            "22.11.2026",
            "11/22/2026",
            "26-11-22",
            "2026-11-22 25:00",
            "2026-11-22 10:60",
            "2026-11-22 10:00:00.1234567",
            "2026-11-22 10:00 Europe/Berlin",
            "2026-11-22 10:00 pm",
            "2026-11-22 10:00+99",
            "2026-11-2210:00",
            "0000-01-01",
            "2026-11-22 10:00+",
            "9999999999-01-01",
        ] {
            assert_eq!(Moment::of(text.as_bytes()), None, "{text}");
        }
    }
}
