//! [`Date`], [`Time`] and [`Timestamp`]: days and microseconds from 2000-01-01, the day PostgreSQL counts from.

use std::io::Write as _;

use super::zone::TimeZone;

/// Days from 1970-01-01 to 2000-01-01.
const UNIX_DAYS: i32 = 10_957;
pub(super) const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// A day: days since 2000-01-01. The smallest and the largest number are before and after all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(pub i32);

impl Date {
    /// Before all days.
    pub const NEGATIVE_INFINITY: Self = Self(i32::MIN);
    /// After all days.
    pub const INFINITY: Self = Self(i32::MAX);
    /// The last day before the year 4714 BC is over, which PostgreSQL's calendar begins with.
    pub const FIRST: Self = Self(-2_451_545);
    /// 5874897-12-31.
    pub const LAST: Self = Self(2_145_031_948);

    /// From days since 1970-01-01; `None`: PostgreSQL has no such day.
    pub fn from_unix_days(days: i32) -> Option<Self> {
        days.checked_sub(UNIX_DAYS).map(Self).filter(|date| date.exists())
    }

    /// Days since 1970-01-01; `None` for infinite ones and where they do not fit.
    pub fn unix_days(self) -> Option<i32> {
        self.exists().then_some(self.0)?.checked_add(UNIX_DAYS)
    }

    /// From year (0 is 1 BC), month and day; `None`: there is no such day.
    pub fn from_civil(year: i32, month: u32, day: u32) -> Option<Self> {
        if !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
            return None;
        }
        let days = days_from_civil(i64::from(year), i64::from(month), i64::from(day)) - i64::from(UNIX_DAYS);
        i32::try_from(days).ok().map(Self).filter(|date| date.exists())
    }

    /// Whether it is one of PostgreSQL's days and not infinite.
    pub fn exists(self) -> bool {
        (Self::FIRST..=Self::LAST).contains(&self)
    }

    /// Appends it in ISO style.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::INFINITY => out.extend(b"infinity"),
            Self::NEGATIVE_INFINITY => out.extend(b"-infinity"),
            Self(days) => {
                let before = day(out, i64::from(days));
                out.extend(before);
            }
        }
    }
}

/// A time of day: microseconds since midnight, of which the last is 24:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// From microseconds since midnight; `None`: beyond 24:00.
    pub fn new(microseconds: i64) -> Option<Self> {
        (0..=DAY_MICROSECONDS)
            .contains(&microseconds)
            .then_some(Self(microseconds))
    }

    /// Appends it.
    pub fn write(self, out: &mut Vec<u8>) {
        time(out, self.0);
    }
}

/// A moment, or a local time: microseconds since 2000-01-01 00:00. The smallest and the largest number are before and after all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Before all moments.
    pub const NEGATIVE_INFINITY: Self = Self(i64::MIN);
    /// After all moments.
    pub const INFINITY: Self = Self(i64::MAX);
    /// The first moment PostgreSQL has.
    pub const FIRST: Self = Self(-211_813_488_000_000_000);
    /// The moment after its last one, the end of the year 294276.
    pub const END: Self = Self(9_223_371_331_200_000_000);

    /// From microseconds since 1970-01-01 00:00; `None`: PostgreSQL has no such moment.
    pub fn from_unix_microseconds(microseconds: i64) -> Option<Self> {
        let moment = microseconds.checked_sub(i64::from(UNIX_DAYS) * DAY_MICROSECONDS);
        moment.map(Self).filter(|moment| moment.exists())
    }

    /// Microseconds since 1970-01-01 00:00; `None` for infinite ones and where they do not fit.
    pub fn unix_microseconds(self) -> Option<i64> {
        let since = i64::from(UNIX_DAYS) * DAY_MICROSECONDS;
        self.exists().then_some(self.0)?.checked_add(since)
    }

    /// Whether it is one of PostgreSQL's moments and not infinite.
    pub fn exists(self) -> bool {
        (Self::FIRST..Self::END).contains(&self)
    }

    fn infinite(self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::INFINITY => out.extend(b"infinity"),
            Self::NEGATIVE_INFINITY => out.extend(b"-infinity"),
            _ => return false,
        }
        true
    }

    /// Appends it as a local time, in ISO style.
    pub fn write(self, out: &mut Vec<u8>) {
        if !self.infinite(out) {
            let before = day_and_time(out, self.0);
            out.extend(before);
        }
    }

    /// Appends it as a moment: its local time in a zone, and how far that is from UTC.
    pub fn write_in(self, out: &mut Vec<u8>, zone: &dyn TimeZone) {
        if self.infinite(out) {
            return;
        }
        let offset = zone.offset_at(self.unix_seconds());
        let local = self.0.saturating_add(i64::from(offset) * 1_000_000);
        let before = day_and_time(out, local);
        let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
        // Writing into memory does not fail.
        let _ = write!(out, "{sign}{:02}", offset / 3600);
        let (minutes, seconds) = (offset / 60 % 60, offset % 60);
        if minutes != 0 || seconds != 0 {
            let _ = write!(out, ":{minutes:02}");
        }
        if seconds != 0 {
            let _ = write!(out, ":{seconds:02}");
        }
        out.extend(before);
    }

    /// Whole seconds since 1970-01-01 00:00.
    pub(super) fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000) + i64::from(UNIX_DAYS) * 86_400
    }
}

fn day_and_time(out: &mut Vec<u8>, microseconds: i64) -> &'static [u8] {
    let before = day(out, microseconds.div_euclid(DAY_MICROSECONDS));
    out.push(b' ');
    time(out, microseconds.rem_euclid(DAY_MICROSECONDS));
    before
}

/// Appends a day since 2000-01-01, and returns what follows at the very end: of years before 1 that they are.
fn day(out: &mut Vec<u8>, days: i64) -> &'static [u8] {
    let (year, month, day) = civil_from_days(days + i64::from(UNIX_DAYS));
    let (shown, before): (i64, &[u8]) = if year > 0 { (year, b"") } else { (1 - year, b" BC") };
    // Writing into memory does not fail.
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
    before
}

fn time(out: &mut Vec<u8>, microseconds: i64) {
    let all = microseconds.unsigned_abs();
    let _ = write!(out, "{:02}:{:02}:", all / 3_600_000_000, all / 60_000_000 % 60);
    seconds(out, all % 60_000_000);
}

/// Appends two digits of seconds, and of their fraction what is not zero.
pub(super) fn seconds(out: &mut Vec<u8>, microseconds: u64) {
    let _ = write!(out, "{:02}", microseconds / 1_000_000);
    let fraction = microseconds % 1_000_000;
    if fraction != 0 {
        let _ = write!(out, ".{fraction:06}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Days of a month of the proleptic Gregorian calendar.
fn days_of_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, counted in years that begin in March, so that the day that may be missing is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_years_lead_to_each_other() {
        for (year, month, day, text) in [
            (2000, 1, 1, "2000-01-01"),
            (1970, 1, 1, "1970-01-01"),
            (2024, 2, 29, "2024-02-29"),
            (0, 12, 31, "0001-12-31 BC"),
            (-4712, 1, 1, "4713-01-01 BC"),
            (5_874_897, 12, 31, "5874897-12-31"),
        ] {
            let mut out = Vec::new();
            Date::from_civil(year, month, day).expect("a day").write(&mut out);
            assert_eq!(String::from_utf8(out).expect("ASCII"), text);
        }
        assert_eq!(Date::from_civil(2000, 1, 1), Some(Date(0)));
        assert_eq!(Date::from_unix_days(0).and_then(Date::unix_days), Some(0));
        for (year, month, day) in [
            (1900, 2, 29),
            (2023, 4, 31),
            (2023, 13, 1),
            (2023, 0, 1),
            (5_874_898, 1, 1),
        ] {
            assert_eq!(Date::from_civil(year, month, day), None);
        }
        assert_eq!(Date::INFINITY.unix_days(), None);
        assert_eq!(Timestamp::from_unix_microseconds(i64::MIN), None);
        assert_eq!(Timestamp(0).unix_seconds(), 946_684_800);
    }

    proptest::proptest! {
        #[test]
        fn civil_round_trip(days in -2_451_545i64..2_145_031_948) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=12).contains(&month) && (1..=31).contains(&day));
        }
    }
}
