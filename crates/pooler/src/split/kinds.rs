//! PostgreSQL's own types: their names, which of them the merge puts in order itself, and which it can write as literals.

use std::cmp::Ordering;

use super::numeric;
use crate::session::settings::hex;
use crate::understand::keys::calendar::{DAY_US, time_of_day};

pub(super) use crate::understand::oid::*;

/// The collations `C` and `POSIX`, and the one that stands for the database's.
pub(super) const COLLATION_DEFAULT: u32 = 100;
pub(super) const COLLATIONS_C: [u32; 2] = [950, 951];

/// What is known of a type.
struct Kind {
    oid: u32,
    /// Its name, if its values are handed on as literals in a form that no setting changes.
    literal: Option<&'static str>,
    /// How values are put in order; of text, under the collation `C`.
    order: Order,
    /// Its btree order is total, whatever the collation.
    key: bool,
}

const KINDS: [Kind; 18] = [
    kind(BOOL, Some("pg_catalog.bool"), Order::Bytes, false),
    kind(BYTEA, Some("pg_catalog.bytea"), Order::Bytes, true),
    kind(NAME, None, Order::Bytes, false),
    kind(INT8, Some("pg_catalog.int8"), Order::Signed, true),
    kind(INT2, Some("pg_catalog.int2"), Order::Signed, true),
    kind(INT4, Some("pg_catalog.int4"), Order::Signed, true),
    kind(TEXT, Some("pg_catalog.text"), Order::Bytes, true),
    kind(OID, Some("pg_catalog.oid"), Order::Bytes, true),
    kind(FLOAT4, Some("pg_catalog.float4"), Order::Float, false),
    kind(FLOAT8, Some("pg_catalog.float8"), Order::Float, false),
    kind(BPCHAR, Some("pg_catalog.bpchar"), Order::Padded, true),
    kind(VARCHAR, Some("pg_catalog.varchar"), Order::Bytes, true),
    kind(DATE, Some("pg_catalog.date"), Order::Signed, true),
    kind(TIME, None, Order::Signed, true),
    kind(TIMESTAMP, Some("pg_catalog.timestamp"), Order::Signed, true),
    kind(TIMESTAMPTZ, Some("pg_catalog.timestamptz"), Order::Signed, true),
    kind(NUMERIC, Some("pg_catalog.numeric"), Order::Numeric, true),
    kind(UUID, Some("pg_catalog.uuid"), Order::Bytes, true),
];

const fn kind(oid: u32, literal: Option<&'static str>, order: Order, key: bool) -> Kind {
    Kind {
        oid,
        literal,
        order,
        key,
    }
}

fn known(oid: u32) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.oid == oid)
}

/// The name of a type whose values are handed on as literals. `None`: they are not.
pub(super) fn literal_name(oid: u32) -> Option<&'static str> {
    known(oid)?.literal
}

/// Whether a column of this type may be the split key.
pub(super) fn is_key(oid: u32) -> bool {
    known(oid).is_some_and(|kind| kind.key)
}

/// How values of a type are put in order. `None`: not here.
pub(super) fn order(oid: u32) -> Option<Order> {
    known(oid).map(|kind| kind.order)
}

/// Whether values are put in order by a collation.
pub(super) fn is_text(oid: u32) -> bool {
    matches!(oid, TEXT | VARCHAR | BPCHAR | NAME)
}

/// Whether values are floating-point numbers.
pub(super) fn is_float(oid: u32) -> bool {
    matches!(oid, FLOAT4 | FLOAT8)
}

/// Whether equal values of two types are in the same place of the order of both.
pub(super) fn share_order(one: u32, other: u32) -> bool {
    let integer = |oid| matches!(oid, INT2 | INT4 | INT8);
    one == other || integer(one) && integer(other)
}

/// The integers a type holds, if it is one of integers.
pub(super) fn integers(oid: u32) -> Option<(i64, i64)> {
    match oid {
        INT2 => Some((i16::MIN.into(), i16::MAX.into())),
        INT4 => Some((i32::MIN.into(), i32::MAX.into())),
        INT8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

/// How values in binary format are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Big-endian integers, signed.
    Signed,
    /// Bytes, from the first on. Also unsigned integers.
    Bytes,
    /// Bytes without the blanks at the end.
    Padded,
    /// Floating-point numbers: -0 is 0, NaN is beyond all.
    Float,
    /// Numbers of any length.
    Numeric,
}

impl Order {
    /// Compares two values. What is not a value of the type counts as the least.
    pub fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Order::Signed => signed(one).cmp(&signed(other)),
            Order::Bytes => one.cmp(other),
            Order::Padded => without_blanks(one).cmp(without_blanks(other)),
            Order::Float => float(one, other),
            Order::Numeric => numeric::compare(one, other),
        }
    }
}

fn without_blanks(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != b' ')
        .map_or(0, |at| at + 1);
    &bytes[..end]
}

fn signed(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        8 => i64::from_be_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

fn read_float(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        _ => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

fn float(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (
        read_float(one).unwrap_or(f64::NAN),
        read_float(other).unwrap_or(f64::NAN),
    );
    one.partial_cmp(&other)
        .unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

/// The result format in which values of a type are fetched to be written as literals: binary where text depends on settings.
pub(super) fn literal_format(oid: u32) -> i16 {
    i16::from(matches!(
        oid,
        DATE | TIMESTAMP | TIMESTAMPTZ | BYTEA | FLOAT4 | FLOAT8
    ))
}

/// Days from the first Julian day to 2000-01-01.
const EPOCH_JULIAN: i64 = 2_451_545;

/// Appends a value, in the format above, as a string literal without its type. `false`: it is no value of the type.
pub(super) fn literal(out: &mut Vec<u8>, oid: u32, value: &[u8]) -> bool {
    let text: Vec<u8> = match oid {
        DATE => match signed(value) {
            Some(days) if days == i64::from(i32::MAX) => b"infinity".to_vec(),
            Some(days) if days == i64::from(i32::MIN) => b"-infinity".to_vec(),
            // Julian days are read alike under every DateStyle.
            Some(days) => format!("J{}", days + EPOCH_JULIAN).into_bytes(),
            None => return false,
        },
        TIMESTAMP | TIMESTAMPTZ => match signed(value) {
            Some(i64::MAX) => b"infinity".to_vec(),
            Some(i64::MIN) => b"-infinity".to_vec(),
            Some(at) => {
                let (days, rest) = (at.div_euclid(DAY_US) + EPOCH_JULIAN, at.rem_euclid(DAY_US));
                let (time, fraction) = (time_of_day(rest / 1_000_000), rest % 1_000_000);
                let zone = if oid == TIMESTAMPTZ { "+00" } else { "" };
                format!("J{days} {time}.{fraction:06}{zone}").into_bytes()
            }
            None => return false,
        },
        // As many digits as tell it from its neighbours, whatever extra_float_digits is.
        FLOAT4 | FLOAT8 => match read_float(value) {
            _ if value.len() != if oid == FLOAT4 { 4 } else { 8 } => return false,
            None => return false,
            Some(number) if number.is_nan() => b"NaN".to_vec(),
            Some(f64::INFINITY) => b"Infinity".to_vec(),
            Some(f64::NEG_INFINITY) => b"-Infinity".to_vec(),
            Some(number) if oid == FLOAT4 => format!("{:e}", number as f32).into_bytes(),
            Some(number) => format!("{number:e}").into_bytes(),
        },
        BYTEA => format!("\\x{}", hex(value)).into_bytes(),
        _ => value.to_vec(),
    };
    if text.contains(&0) {
        return false;
    }
    let escaped = text.contains(&b'\\');
    out.extend(if escaped { &b"E'"[..] } else { b"'" });
    for byte in text {
        if byte == b'\'' || byte == b'\\' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_alike_under_all_settings() {
        let moment = "'J2451544 23:59:59.999999+00'";
        let cases: [(u32, &[u8], Option<&str>); 13] = [
            (TEXT, b"it's", Some("'it''s'")),
            (TEXT, b"a\\'", Some("E'a\\\\'''")),
            (BYTEA, &[0, 255], Some("E'\\\\x00ff'")),
            (DATE, &0i32.to_be_bytes(), Some("'J2451545'")),
            (DATE, &i32::MAX.to_be_bytes(), Some("'infinity'")),
            (TIMESTAMPTZ, &(-1i64).to_be_bytes(), Some(moment)),
            (FLOAT8, &0.1f64.to_be_bytes(), Some("'1e-1'")),
            (FLOAT8, &(-0f64).to_be_bytes(), Some("'-0e0'")),
            (FLOAT4, &0.1f32.to_be_bytes(), Some("'1e-1'")),
            (FLOAT4, &f32::NEG_INFINITY.to_be_bytes(), Some("'-Infinity'")),
            (FLOAT8, &0.1f32.to_be_bytes(), None),
            (DATE, &[1], None),
            (TEXT, b"a\0", None),
        ];
        for (oid, value, expected) in cases {
            let mut out = Vec::new();
            let written = literal(&mut out, oid, value).then(|| String::from_utf8(out).expect("text"));
            assert_eq!(written.as_deref(), expected, "{oid} {value:?}");
        }
    }

    #[test]
    fn orders() {
        let less = |order: Order, one: &[u8], other: &[u8]| {
            assert_eq!(order.compare(one, other), Ordering::Less, "{one:?} {other:?}");
            assert_eq!(order.compare(other, one), Ordering::Greater, "{one:?} {other:?}");
        };
        less(Order::Signed, &(-5i32).to_be_bytes(), &3i32.to_be_bytes());
        less(Order::Float, &1f64.to_be_bytes(), &f64::NAN.to_be_bytes());
        less(Order::Float, &(-1f32).to_be_bytes(), &0f32.to_be_bytes());
        less(Order::Bytes, b"a", b"ab");
        assert_eq!(
            Order::Float.compare(&0f64.to_be_bytes(), &(-0f64).to_be_bytes()),
            Ordering::Equal
        );
        assert_eq!(
            Order::Float.compare(&f64::NAN.to_be_bytes(), &f64::NAN.to_be_bytes()),
            Ordering::Equal
        );
        assert_eq!(Order::Padded.compare(b"a ", b"a"), Ordering::Equal);
    }
}
