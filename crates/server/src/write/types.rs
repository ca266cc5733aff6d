//! PostgreSQL's types and the store's: what a declared type is kept as ([`store_type`]), how a type of the store is called where nothing was
//! declared ([`declared`]), and how the planner sees a column ([`declared_arrow_field`]). The manual's page "Types of the server" has the table.
//!
//! What it is not: values ([`super::assign`]).

mod field;
mod json;
mod names;

use super::column::Declared;
use corun_store::{ROW_BYTES_MAX, Type};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{self, Kind};
use datafusion::sql::sqlparser::ast::DataType;

pub(crate) use field::{declared_arrow_field, declared_batch};
pub(super) use json::{check_json, normal_jsonb};

/// `numeric` without digits: 28 before the point, 10 behind it. The product of two such numbers still has 18 before the point in the planner's
/// 38 digits; more digits behind the point would leave fewer. It is the scale of parameters, too.
pub(super) const NUMERIC: Type = Type::Decimal {
    precision: 38,
    scale: 10,
};
/// Most digits of a `numeric`.
const DIGITS_MAX: u64 = 38;
/// Most bytes of a character in UTF-8.
const CHARACTER_BYTES: u32 = 4;
/// Most characters of `varchar(n)` and `char(n)`.
const CHARACTERS_MAX: u64 = 10_485_760;
/// Bytes of a `name`.
pub(super) const NAME_BYTES: u32 = 63;
/// Bytes of an `interval`: months, days, nanoseconds, as Arrow lays them out.
pub(super) const INTERVAL_BYTES: u32 = 16;

/// What a column of `CREATE TABLE` is declared as, and kept as.
///
/// # Errors
/// A type that does not exist (42704), or is not supported (0A000, with a hint what to use); digits or a length that it does not take (22023).
pub(crate) fn store_type(of: &DataType) -> Result<(Declared, Type), Refusal> {
    let declared = names::of_sql(of)?;
    Ok((declared, kept_as(&declared)))
}

/// What a column is called of which only the store knows.
pub(crate) fn declared(of: Type) -> Declared {
    let limited = |kind, length: u32| Declared {
        length: Some(length.max(1)),
        ..Declared::plain(kind)
    };
    match of {
        Type::Bool => Declared::plain(Kind::Bool),
        Type::I8 | Type::I16 => Declared::plain(Kind::Int2),
        Type::I32 => Declared::plain(Kind::Int4),
        Type::I64 => Declared::plain(Kind::Int8),
        Type::F32 => Declared::plain(Kind::Float4),
        Type::F64 => Declared::plain(Kind::Float8),
        Type::Decimal { precision, scale } => Declared {
            precision: Some((precision, scale)),
            ..Declared::plain(Kind::Numeric)
        },
        Type::Date => Declared::plain(Kind::Date),
        Type::Timestamp => Declared::plain(Kind::Timestamp),
        Type::TimestampTz => Declared::plain(Kind::Timestamptz),
        Type::Uuid => Declared::plain(Kind::Uuid),
        Type::Text { max } if max as usize >= ROW_BYTES_MAX => Declared::plain(Kind::Text),
        Type::Text { max } => limited(Kind::Varchar, max),
        Type::FixedText { bytes } => limited(Kind::Bpchar, bytes),
        Type::Bytes { .. } | Type::FixedBytes { .. } => Declared::plain(Kind::Bytea),
    }
}

/// Whether the dictionary must say how a column was declared, since what it is kept as does not.
pub(crate) fn needs_entry(of: &Declared, stored: Type) -> bool {
    declared(stored) != *of
}

/// What a declared type is kept as.
pub(crate) fn kept_as(of: &Declared) -> Type {
    if of.of.array {
        return Type::TEXT;
    }
    match of.of.kind {
        Kind::Bool => Type::Bool,
        Kind::Int2 => Type::I16,
        Kind::Int4 => Type::I32,
        Kind::Int8 | Kind::Oid | Kind::Time => Type::I64,
        Kind::Float4 => Type::F32,
        Kind::Float8 => Type::F64,
        Kind::Numeric => match of.precision {
            // `numeric(3, 5)` is below 0.01, and has five digits behind the point.
            Some((precision, scale)) => Type::Decimal {
                precision: precision.max(scale),
                scale,
            },
            None => NUMERIC,
        },
        Kind::Varchar | Kind::Bpchar => match of.length {
            Some(length) => Type::Text {
                max: (length.saturating_mul(CHARACTER_BYTES)).min(ROW_BYTES_MAX as u32),
            },
            None => Type::TEXT,
        },
        Kind::Name => Type::Text { max: NAME_BYTES },
        Kind::Text | Kind::Json | Kind::Jsonb | Kind::Inet | Kind::Unknown | Kind::Void => Type::TEXT,
        Kind::Bytea => Type::BYTES,
        Kind::Date => Type::Date,
        Kind::Timestamp => Type::Timestamp,
        Kind::Timestamptz => Type::TimestampTz,
        Kind::Interval => Type::FixedBytes {
            bytes: INTERVAL_BYTES,
        },
        Kind::Uuid => Type::Uuid,
    }
}

impl Declared {
    /// A type without limits.
    pub(crate) const fn plain(kind: Kind) -> Declared {
        Declared {
            of: values::Type::single(kind),
            length: None,
            precision: None,
        }
    }

    /// The type of an array's elements, which the limits are those of; of others itself.
    pub(super) fn element(&self) -> Declared {
        Declared {
            of: values::Type::single(self.of.kind),
            ..*self
        }
    }

    /// The type without its limits.
    pub(super) fn unlimited(&self) -> Declared {
        Declared {
            of: self.of,
            length: None,
            precision: None,
        }
    }

    /// `atttypmod`; -1: no limits.
    pub(crate) fn modifier(&self) -> i32 {
        let length = self.length.and_then(|length| i32::try_from(length).ok());
        match (self.of.kind, self.precision, length) {
            (Kind::Numeric, Some((precision, scale)), _) => {
                (i32::from(precision) << 16 | i32::from(scale)) + 4
            }
            (Kind::Varchar | Kind::Bpchar, _, Some(length)) => length.saturating_add(4),
            (Kind::Time | Kind::Timestamp | Kind::Timestamptz, _, Some(digits)) => digits,
            // All fields of an interval.
            (Kind::Interval, _, Some(digits)) => 0x7fff << 16 | digits,
            _ => -1,
        }
    }

    /// Reads what `Display` writes; SQL's other names are known, too.
    pub(crate) fn parse(text: &str) -> Option<Declared> {
        names::of_text(text)
    }
}

impl std::fmt::Display for Declared {
    /// As PostgreSQL's `format_type` has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (before, behind) = names::shown(self.of.kind, self.length.is_some());
        f.write_str(before)?;
        match (self.precision, self.length) {
            (Some((precision, scale)), _) => write!(f, "({precision},{scale})")?,
            (None, Some(length)) => write!(f, "({length})")?,
            (None, None) => {}
        }
        f.write_str(behind)?;
        f.write_str(if self.of.array { "[]" } else { "" })
    }
}

/// `numeric` with these digits.
fn numeric(digits: Option<(u64, i64)>) -> Result<Declared, Refusal> {
    let plain = Declared::plain(Kind::Numeric);
    let Some((precision, scale)) = digits else {
        return Ok(plain);
    };
    if !(1..=1000).contains(&precision) {
        let what = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
    }
    if !(-1000..=1000).contains(&scale) {
        let what = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
    }
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(small), Ok(scale)) if precision <= DIGITS_MAX && u64::from(scale) <= DIGITS_MAX => Ok(Declared {
            precision: Some((small, scale)),
            ..plain
        }),
        _ => {
            let what = format!("columns of type numeric({precision},{scale}) are not supported");
            let hint = "A numeric has at most 38 digits, and none of them is left out before the point; use numeric(38, s), double precision or text.";
            Err(Refusal::new(code::NOT_SUPPORTED, what).hint(hint))
        }
    }
}

/// `varchar(n)` or `char(n)`.
fn characters(kind: Kind, length: u64) -> Result<Declared, Refusal> {
    let name = match kind {
        Kind::Bpchar => "char",
        _ => "varchar",
    };
    let wrong = |what: String| Refusal::new(code::INVALID_PARAMETER_VALUE, what);
    if length == 0 {
        return Err(wrong(format!("length for type {name} must be at least 1")));
    }
    match u32::try_from(length) {
        Ok(short) if length <= CHARACTERS_MAX => Ok(Declared {
            length: Some(short),
            ..Declared::plain(kind)
        }),
        _ => Err(wrong(format!(
            "length for type {name} cannot exceed {CHARACTERS_MAX}"
        ))),
    }
}

/// A type of times with this many digits of a second; six are all there are. PostgreSQL takes more as six, with a warning.
fn digits_of_second(kind: Kind, digits: Option<u64>) -> Declared {
    let digits = digits.and_then(|digits| u32::try_from(digits.min(6)).ok());
    Declared {
        length: digits,
        ..Declared::plain(kind)
    }
}

#[cfg(test)]
mod tests;
