//! [`Kind`]: types of columns, and texts of their values: few, so that keys and conditions meet.

use super::super::random::Random;
use super::known::Known;

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Small,
    Int,
    Big,
    Text,
    Varchar,
    Char,
    Bool,
    Numeric,
    Double,
    Date,
    Timestamp,
    Zoned,
    Uuid,
    Bytes,
}

impl Kind {
    pub const ALL: &'static [Kind] = &[
        Kind::Small,
        Kind::Int,
        Kind::Int,
        Kind::Int,
        Kind::Big,
        Kind::Text,
        Kind::Text,
        Kind::Varchar,
        Kind::Char,
        Kind::Bool,
        Kind::Numeric,
        Kind::Numeric,
        Kind::Double,
        Kind::Date,
        Kind::Timestamp,
        Kind::Zoned,
        Kind::Uuid,
        Kind::Bytes,
    ];

    /// As CREATE TABLE says it.
    pub fn sql(self) -> &'static str {
        match self {
            Kind::Small => "smallint",
            Kind::Int => "integer",
            Kind::Big => "bigint",
            Kind::Text => "text",
            Kind::Varchar => "varchar(5)",
            Kind::Char => "char(3)",
            Kind::Bool => "boolean",
            Kind::Numeric => "numeric(8,2)",
            Kind::Double => "double precision",
            Kind::Date => "date",
            Kind::Timestamp => "timestamp",
            Kind::Zoned => "timestamptz",
            Kind::Uuid => "uuid",
            Kind::Bytes => "bytea",
        }
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Kind::Small | Kind::Int | Kind::Big)
    }

    pub fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::Varchar)
    }

    /// Whether values of both may be compared.
    pub fn compares_with(self, other: Kind) -> bool {
        self == other || self.is_integer() && other.is_integer() || self.is_text() && other.is_text()
    }

    /// Whether a value of the other can be assigned.
    pub fn takes(self, other: Kind) -> bool {
        self == other
            || self.is_integer() && other.is_integer()
            || self == Kind::Text && other == Kind::Varchar
            || self == Kind::Numeric && other.is_integer()
            || self == Kind::Double && (other.is_integer() || other == Kind::Numeric)
            || self == Kind::Timestamp && other == Kind::Date
    }

    /// Any type.
    pub fn any(random: &mut Random) -> Kind {
        loop {
            let kind = Kind::ALL[random.below(Kind::ALL.len())];
            let untyped = matches!(kind, Kind::Uuid | Kind::Bytes) && Known::UntypedLiterals.is_avoided();
            let padded = kind == Kind::Char && Known::ExpressionTypes.is_avoided();
            if !untyped && !padded {
                return kind;
            }
        }
    }

    /// A value.
    pub fn literal(self, random: &mut Random) -> String {
        let from = |random: &mut Random, values: &[&str]| random.text(values);
        match self {
            Kind::Small | Kind::Int | Kind::Big if random.percent(97) || Known::Overflow.is_avoided() => {
                (random.below(12) as i64 - 2).to_string()
            }
            Kind::Small => from(random, &["32767", "-32768"]),
            Kind::Int => from(random, &["2147483647", "-2147483648"]),
            Kind::Big => from(random, &["9223372036854775807", "'-9223372036854775808'"]),
            Kind::Text => from(
                random,
                &[
                    "'a'",
                    "'b'",
                    "''",
                    "'Ab'",
                    "'\u{20ac}\u{20ac}'",
                    "'it''s'",
                    "'a b  '",
                ],
            ),
            Kind::Varchar if Known::Spaces.is_avoided() => from(random, &["'a'", "'b'", "''", "'abcde'"]),
            Kind::Varchar => from(
                random,
                &["'a'", "'b'", "''", "'abcde'", "'\u{20ac}'", "'abcd    '"],
            ),
            Kind::Char => from(random, &["'a'", "'b'", "''", "'abc'", "'x  '"]),
            Kind::Bool if Known::UntypedLiterals.is_avoided() => from(random, &["true", "false"]),
            Kind::Bool => from(random, &["true", "false", "'t'", "'no'"]),
            Kind::Numeric if Known::Fractions.is_avoided() => {
                from(random, &["'0'", "'1.5'", "'2.25'", "'-3'", "'999999.99'"])
            }
            Kind::Numeric => from(
                random,
                &["0", "1.5", "2.25", "-3", "0.005", "10.004", "999999.99", "'1e2'"],
            ),
            Kind::Double => from(
                random,
                &["0", "0.5", "-2.5", "1e10", "0.1", "'Infinity'", "'1e-7'"],
            ),
            Kind::Date => from(
                random,
                &[
                    "'2024-02-29'",
                    "'1999-12-31'",
                    "'2000-01-01'",
                    "date '2024-03-01'",
                ],
            ),
            Kind::Timestamp => from(
                random,
                &[
                    "'2024-02-29 10:00:00'",
                    "'1999-12-31 23:59:59.999999'",
                    "'2024-02-29'",
                    "timestamp '2000-01-01 00:00:00.5'",
                ],
            ),
            Kind::Zoned => from(
                random,
                &[
                    "'2024-02-29 10:00:00+00'",
                    "'2024-02-29 12:00:00+02'",
                    "'1999-12-31'",
                ],
            ),
            Kind::Uuid => from(
                random,
                &[
                    "'00000000-0000-0000-0000-000000000001'",
                    "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
                    "'ffffffffffffffffffffffffffffffff'",
                ],
            ),
            Kind::Bytes => from(random, &["'\\x00ff'", "'\\x'", "'abc'", "'\\x0A'"]),
        }
    }

    /// What cannot be put into it.
    pub fn wrong(self, random: &mut Random) -> String {
        match self {
            Kind::Small => random.text(&["40000", "'x'", "''", "1e30"]),
            Kind::Int => random.text(&["3000000000", "'x'", "'1.5'", "true"]),
            Kind::Big => random.text(&["99999999999999999999", "'x'", "date '2000-01-01'"]),
            Kind::Text => random.text(&["E'\\\\x'", "1", "true"]),
            Kind::Varchar => random.text(&["'abcdef'", "123456", "'a     b'"]),
            Kind::Char => random.text(&["'abcd'", "1234"]),
            Kind::Bool => random.text(&["'maybe'", "1", "''"]),
            Kind::Numeric => random.text(&["1000000", "'x'", "999999.999"]),
            Kind::Double => random.text(&["'x'", "'1e400'", "true"]),
            Kind::Date => random.text(&["'2024-02-30'", "'x'", "1", "'2024-13-01'"]),
            Kind::Timestamp => random.text(&["'2024-02-29 25:00:00'", "'x'", "1"]),
            Kind::Zoned => random.text(&["'2024-02-29 10:00:00+99'", "'x'", "true"]),
            Kind::Uuid => random.text(&["'1'", "1", "'zzzzzzzz-0000-0000-0000-000000000001'"]),
            Kind::Bytes => random.text(&["'\\x0'", "1", "'\\xzz'"]),
        }
    }

    /// An expression over a column of this type, of which the value can be assigned to it.
    pub fn expression(self, column: &str, random: &mut Random) -> String {
        let literal = self.literal(random);
        let of = match self {
            Kind::Small | Kind::Int | Kind::Big => {
                random.text(&["# + 1", "# - 1", "# * 2", "-#", "abs(#)", "# % 3"])
            }
            Kind::Text => random.text(&["# || 'x'", "upper(#)", "lower(#)", "length(#)::text"]),
            Kind::Varchar => random.text(&["upper(#)", "substr(#, 1, 2)", "# || 'x'"]),
            Kind::Bool => random.text(&["not #", "# is null", "# and true"]),
            Kind::Numeric => random.text(&["# + 1.25", "# * 2", "-#", "round(#)"]),
            Kind::Double => random.text(&["# * 2", "# + 0.5", "-#"]),
            Kind::Date => random.text(&["# + 1", "# - 7"]),
            Kind::Timestamp | Kind::Zoned => random.text(&["# + interval '1 day'", "# - interval '1 hour'"]),
            Kind::Char | Kind::Uuid | Kind::Bytes => "#".to_owned(),
        };
        let typed = format!("{literal}::{}", self.sql());
        match random.below(8) {
            0 => format!("coalesce({column}, {typed})"),
            1 => format!("case when {column} is null then {typed} else {column} end"),
            2 => format!("nullif({column}, {typed})"),
            _ => of.replace('#', column),
        }
    }
}
