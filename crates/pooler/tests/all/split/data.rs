//! Tables with random rows: NULLs, duplicates, skew, empty tables, text that collations put in different orders. Equal values have
//! one form each (no -0, one scale), so that it does not matter which of them a server shows.

use crate::common::postgres::version;
use crate::common::random::Random;

/// Tables: no two share a column name but where a query qualifies it anyway.
pub const TABLES: &str = "
    create table item (
        i_id int primary key, i_a_id int, i_n int, i_title text, i_code text collate \"C\", i_vc varchar(12), i_ch char(4),
        i_price numeric(10,2) not null, i_day date, i_at timestamptz, i_local timestamp, i_flag bool, i_uuid uuid,
        i_big bigint, i_small smallint, i_float float8, i_bytes bytea, i_free numeric);
    create table line (
        l_id int primary key, i_id int, l_qty int, l_amount numeric(12,3), l_note text, l_day date, l_big bigint not null);
    create table author (a_id int primary key, a_name text, a_rank smallint);
    create table nothing (n_id int, n_text text);
    create index on item (i_n);
    create index on line (i_id)";

const WORDS: &[&str] = &[
    "",
    "a",
    "A",
    "b",
    "B",
    "aa",
    "a b",
    "ab",
    "it's",
    "back\\slash",
    "Zebra",
    "zebra",
    "\u{e9}t\u{e9}",
    "\u{c4}pfel",
    "_x",
    "10",
    "9",
    "a ",
    "na\u{ef}ve",
];

fn word(random: &mut Random) -> String {
    let word = random.pick(WORDS);
    format!("'{}'", word.replace('\'', "''"))
}

fn or_null(random: &mut Random, percent: usize, value: impl FnOnce(&mut Random) -> String) -> String {
    if random.percent(percent) {
        "null".to_owned()
    } else {
        value(random)
    }
}

/// A number: small ones are frequent.
fn skewed(random: &mut Random, end: usize) -> i64 {
    let number = match random.below(3) {
        0 => random.below(3),
        1 => random.below(end.min(10)),
        _ => random.below(end),
    };
    number as i64 - 2
}

/// Statements that fill the tables anew.
pub fn fill(random: &mut Random) -> Vec<String> {
    let mut statements = vec!["truncate item, line, author".to_owned()];
    let items = [0, 5, 20, 60, 60, 150][random.below(6)];
    let lines = [0, 30, 120, 300, 300][random.below(5)];
    let authors = random.below(9);
    let nulls = [0, 10, 40][random.below(3)];
    let mut insert = |table: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            statements.push(format!("insert into {table} values {}", rows.join(", ")));
        }
    };
    let rows = (0..items).map(|id| {
        let columns = [
            (id * 3 - 20).to_string(),
            or_null(random, nulls, |r| r.below(8).to_string()),
            or_null(random, nulls, |r| skewed(r, 40).to_string()),
            or_null(random, nulls, word),
            or_null(random, nulls, word),
            or_null(random, nulls, word),
            or_null(random, nulls, |r| {
                format!("'{}'", r.pick(&["a", "ab", "B", "b", "", "zz"]))
            }),
            format!("{}.{:02}", skewed(random, 100), random.below(100)),
            or_null(random, nulls, |r| match r.below(12) {
                0 => "'infinity'".to_owned(),
                1 => "'0044-03-15 BC'".to_owned(),
                _ => format!("date '1999-12-25' + {}", r.below(20)),
            }),
            or_null(random, nulls, |r| match r.below(12) {
                0 => "'-infinity'".to_owned(),
                1 => "'0044-03-15 11:59:59.123456+00 BC'".to_owned(),
                _ => format!(
                    "timestamptz '2024-03-31 00:30:00.5+00' + {} * interval '17 minutes'",
                    r.below(20)
                ),
            }),
            or_null(random, nulls, |r| {
                format!(
                    "timestamp '1999-12-31 23:59:59.999999' + {} * interval '1 hour'",
                    r.below(9)
                )
            }),
            or_null(random, nulls, |r| r.percent(50).to_string()),
            or_null(random, nulls, |r| {
                format!("'00000000-0000-0000-0000-0000000000{:02}'", r.below(30))
            }),
            or_null(random, nulls, |r| (skewed(r, 30) * 3_000_000_000).to_string()),
            or_null(random, nulls, |r| skewed(r, 30).to_string()),
            or_null(random, nulls, |r| {
                r.text(&["'nan'", "0", "'infinity'", "1.5", "-2.25", "1e20"])
            }),
            or_null(random, nulls, |r| {
                format!("'\\x{:02x}{:02x}'", r.below(3), r.below(3) * 127)
            }),
            or_null(random, nulls, |r| {
                let greatest = if version() < 14 { "'nan'" } else { "'infinity'" };
                r.text(&[
                    "'nan'",
                    greatest,
                    "0",
                    "-1",
                    "12345678901234567890.5",
                    "0.000012",
                    "10000",
                    "-99999.5",
                    "1e-9",
                ])
            }),
        ];
        format!("({})", columns.join(", "))
    });
    let rows: Vec<String> = rows.collect();
    insert("item", rows);
    let rows = (0..lines).map(|id| {
        let columns = [
            id.to_string(),
            or_null(random, nulls / 2, |r| (skewed(r, 60) * 3 - 20).to_string()),
            or_null(random, nulls, |r| skewed(r, 20).to_string()),
            or_null(random, nulls, |r| {
                format!("{}.{:03}", skewed(r, 200), r.below(1000))
            }),
            or_null(random, nulls, word),
            or_null(random, nulls, |r| format!("date '2024-02-25' + {}", r.below(10))),
            (skewed(random, 90) * 5_000_000_000_000_000).to_string(),
        ];
        format!("({})", columns.join(", "))
    });
    let rows: Vec<String> = rows.collect();
    insert("line", rows);
    let rows = (0..authors).map(|id| {
        let name = or_null(random, nulls, word);
        format!("({id}, {name}, {})", random.below(4))
    });
    let rows: Vec<String> = rows.collect();
    insert("author", rows);
    statements
}

/// A key and values that may cut it, of the order the server has.
pub fn key(random: &mut Random) -> (&'static str, Vec<String>) {
    let integers = |random: &mut Random, from: i64, to: i64| -> Vec<String> {
        let mut values: Vec<i64> = (0..random.below(5))
            .map(|_| from + (random.bits() % (to - from) as u64) as i64)
            .collect();
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(|value| value.to_string()).collect()
    };
    let chosen = |random: &mut Random, from: &[&str]| -> Vec<String> {
        (0..random.below(4))
            .map(|_| from[random.below(from.len())].to_owned())
            .collect()
    };
    match random.below(16) {
        0..=3 => ("item.i_id", integers(random, -30, 170)),
        4 => ("item.i_n", integers(random, -5, 40)),
        5 => ("line.i_id", integers(random, -30, 170)),
        6 => ("line.l_id", integers(random, -30, 170)),
        7 => ("item.i_small", integers(random, -70_000, 70_000)),
        8 => ("item.i_big", integers(random, i64::MIN / 2, i64::MAX / 2)),
        9 => (
            "item.i_day",
            chosen(
                random,
                &[
                    "1999-12-28",
                    "2000-01-01",
                    "-infinity",
                    "0044-01-01 BC",
                    "2000-01-04",
                ],
            ),
        ),
        10 => (
            "item.i_at",
            chosen(
                random,
                &["2024-03-31 01:00:00+00", "2024-03-31 03:00:00+00", "infinity"],
            ),
        ),
        11 => (
            "item.i_title",
            chosen(random, &["a", "B", "\u{e4}", "it's", "m\\n", ""]),
        ),
        12 => ("item.i_code", chosen(random, &["a", "B", "Zebra", ""])),
        13 => ("item.i_price", chosen(random, &["0", "1.005", "50", "-2", "NaN"])),
        14 => (
            "item.i_uuid",
            chosen(
                random,
                &[
                    "00000000-0000-0000-0000-000000000010",
                    "ffffffff-ffff-ffff-ffff-ffffffffffff",
                ],
            ),
        ),
        _ => ("item.i_ch", chosen(random, &["a", "b  ", "zz"])),
    }
}
