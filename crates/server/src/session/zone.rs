//! [`Zone`]: a session's time zone, by Arrow's tables of time zones.

use arrow::array::timezone::Tz;
use chrono::{DateTime, Duration, LocalResult, NaiveDateTime, Offset, TimeZone as _};
use corun_wire::values::TimeZone;

/// A time zone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zone(Tz);

impl Zone {
    /// By its name or offset; `None`: there is none of this name. Names are taken in any case, as PostgreSQL does.
    pub(crate) fn of(name: &str) -> Option<(Zone, String)> {
        let utc = ["utc", "gmt", "z", "zulu", "etc/utc"];
        if utc.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let zone = "UTC".parse().or_else(|_| "+00:00".parse()).ok()?;
            let shown = if name.len() == 3 {
                name.to_ascii_uppercase()
            } else {
                "UTC".to_owned()
            };
            return Some((Zone(zone), shown));
        }
        let parse = |name: String| Some((Zone(name.parse().ok()?), name));
        // `europe/berlin` as the tables have it.
        let titled = || {
            let mut start = true;
            let title = name.chars().map(|c| {
                let c = if start {
                    c.to_ascii_uppercase()
                } else {
                    c.to_ascii_lowercase()
                };
                start = !c.is_ascii_alphanumeric();
                c
            });
            title.collect::<String>()
        };
        parse(name.to_owned()).or_else(|| parse(titled()))
    }
}

fn seconds(of: impl Offset) -> i32 {
    of.fix().local_minus_utc()
}

fn naive(seconds: i64) -> NaiveDateTime {
    DateTime::from_timestamp(seconds, 0)
        .unwrap_or_default()
        .naive_utc()
}

impl TimeZone for Zone {
    fn offset_at(&self, unix_seconds: i64) -> i32 {
        seconds(self.0.offset_from_utc_datetime(&naive(unix_seconds)))
    }

    fn offset_of_local(&self, local_seconds: i64) -> i32 {
        let local = naive(local_seconds);
        match self.0.offset_from_local_datetime(&local) {
            LocalResult::Single(offset) => seconds(offset),
            // Standard time is the one less east.
            LocalResult::Ambiguous(one, other) => seconds(one).min(seconds(other)),
            LocalResult::None => {
                let before = local.checked_sub_signed(Duration::days(1)).unwrap_or(local);
                self.0
                    .offset_from_local_datetime(&before)
                    .earliest()
                    .map_or(0, seconds)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summer_and_winter() {
        let (berlin, name) = Zone::of("europe/berlin").unwrap();
        assert_eq!(name, "Europe/Berlin");
        // 2024-03-31 01:00 UTC is when summer begins.
        assert_eq!(berlin.offset_at(1_711_846_799), 3600);
        assert_eq!(berlin.offset_at(1_711_846_800), 7200);
        // 02:30 local does not exist, and in October it is there twice.
        assert_eq!(berlin.offset_of_local(1_711_852_200), 3600);
        assert_eq!(berlin.offset_of_local(1_729_996_200), 3600);
        assert!(Zone::of("Nowhere/At_All").is_none());
        assert_eq!(Zone::of("utc").unwrap().1, "UTC");
    }
}
