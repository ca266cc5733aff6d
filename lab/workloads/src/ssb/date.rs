//! Table `date`: one row a day, [`DATES`] days from 1992-01-01; nothing random in it.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, BooleanArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::sizes::DATES;

pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("d_datekey", DataType::Int32),
        field("d_date", DataType::Utf8),
        field("d_dayofweek", DataType::Utf8),
        field("d_month", DataType::Utf8),
        field("d_year", DataType::Int32),
        field("d_yearmonthnum", DataType::Int32),
        field("d_yearmonth", DataType::Utf8),
        field("d_daynuminweek", DataType::Int32),
        field("d_daynuminmonth", DataType::Int32),
        field("d_daynuminyear", DataType::Int32),
        field("d_monthnuminyear", DataType::Int32),
        field("d_weeknuminyear", DataType::Int32),
        field("d_sellingseason", DataType::Utf8),
        field("d_lastdayinweekfl", DataType::Boolean),
        field("d_lastdayinmonthfl", DataType::Boolean),
        field("d_holidayfl", DataType::Boolean),
        field("d_weekdayfl", DataType::Boolean),
    ]))
});

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Fixed holidays (month, day); the specification leaves the choice open.
const HOLIDAYS: [(u32, u32); 8] = [
    (1, 1),
    (2, 14),
    (4, 1),
    (5, 1),
    (7, 4),
    (10, 31),
    (11, 11),
    (12, 25),
];

/// One day of the calendar.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    year: u32,
    month: u32,
    day: u32,
    day_in_year: u32,
    /// 0 is Sunday.
    weekday: u32,
    last_in_month: bool,
}

impl Day {
    /// The value of `d_datekey`: `yyyymmdd`.
    pub(super) fn key(&self) -> i32 {
        (self.year * 10_000 + self.month * 100 + self.day) as i32
    }
}

/// All days of the table, in order; the index is the day's number since 1992-01-01.
pub(super) static DAYS: LazyLock<Vec<Day>> = LazyLock::new(|| {
    let mut days = Vec::with_capacity(DATES);
    // 1992-01-01 was a Wednesday.
    let mut weekday = 3;
    for year in 1992..=1998 {
        let mut day_in_year = 0;
        for month in 1..=12 {
            let length = days_in_month(year, month);
            for day in 1..=length {
                day_in_year += 1;
                days.push(Day {
                    year,
                    month,
                    day,
                    day_in_year,
                    weekday,
                    last_in_month: day == length,
                });
                weekday = (weekday + 1) % 7;
            }
        }
    }
    days.truncate(DATES);
    days
});

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn season(month: u32) -> &'static str {
    match month {
        1..=3 => "Winter",
        4..=5 => "Spring",
        6..=8 => "Summer",
        9..=10 => "Fall",
        _ => "Christmas",
    }
}

/// Columns of rows `rows`.
pub(super) fn columns(rows: std::ops::Range<usize>) -> Vec<ArrayRef> {
    let days = &DAYS[rows];
    let ints = |value: &dyn Fn(&Day) -> u32| -> ArrayRef {
        Arc::new(
            days.iter()
                .map(|day| value(day) as i32)
                .collect::<Vec<_>>()
                .into_iter()
                .collect::<Int32Array>(),
        )
    };
    let texts = |value: &dyn Fn(&Day) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(value)))
    };
    let flags = |value: &dyn Fn(&Day) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from(days.iter().map(value).collect::<Vec<bool>>()))
    };
    let month = |day: &Day| MONTHS[day.month as usize - 1];
    vec![
        ints(&|day| day.key() as u32),
        texts(&|day| format!("{} {}, {}", month(day), day.day, day.year)),
        texts(&|day| WEEKDAYS[day.weekday as usize].to_owned()),
        texts(&|day| month(day).to_owned()),
        ints(&|day| day.year),
        ints(&|day| day.year * 100 + day.month),
        texts(&|day| format!("{}{}", &month(day)[..3], day.year)),
        ints(&|day| day.weekday + 1),
        ints(&|day| day.day),
        ints(&|day| day.day_in_year),
        ints(&|day| day.month),
        ints(&|day| (day.day_in_year - 1) / 7 + 1),
        texts(&|day| season(day.month).to_owned()),
        flags(&|day| day.weekday == 6),
        flags(&|day| day.last_in_month),
        flags(&|day| HOLIDAYS.contains(&(day.month, day.day))),
        flags(&|day| (1..=5).contains(&day.weekday)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right_at_known_days() {
        assert_eq!(DAYS.len(), 2556);
        assert_eq!((DAYS[0].key(), DAYS[0].weekday), (19920101, 3));
        let day = |key| DAYS.iter().find(|day| day.key() == key).unwrap();
        assert_eq!(day(19920229).day_in_year, 60);
        assert!(day(19960229).last_in_month && day(19930228).last_in_month);
        // 1994-07-04 was a Monday, 1997-12-25 a Thursday.
        assert_eq!((day(19940704).weekday, day(19971225).weekday), (1, 4));
        assert_eq!(DAYS[2555].key(), 19981230);
        assert!(DAYS.windows(2).all(|pair| pair[0].key() < pair[1].key()));
    }
}
