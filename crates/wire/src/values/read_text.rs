//! Values from text, by PostgreSQL's rules. Dates and times are in `read_moments`.

use std::borrow::Cow;

use super::array;
use super::inet;
use super::interval::Interval;
use super::kind::{Kind, Type};
use super::numeric::Numeric;
use super::read_moments as moments;
use super::value::Value;
use super::zone::TimeZone;
use crate::error::{Refusal, code};

/// A text, where it is one.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let what = "invalid byte sequence for encoding \"UTF8\"";
        Refusal::new(code::CHARACTER_NOT_IN_REPERTOIRE, what)
    })
}

/// Reads a value.
pub(super) fn value<'a>(of: Type, bytes: &'a [u8], zone: &dyn TimeZone) -> Result<Value<'a>, Refusal> {
    let text = utf8(bytes)?;
    if of.array {
        let single = Type::single(of.kind);
        let read = |text: &str| value(single, text.as_bytes(), zone).map(Value::into_owned);
        return array::parse(text, of.kind, read).map(Value::Array);
    }
    let trimmed = text.trim_matches(is_blank);
    Ok(match of.kind {
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown => Value::Text(text.into()),
        Kind::Json => Value::Json(text.into()),
        Kind::Jsonb => Value::Jsonb(text.into()),
        Kind::Inet => Value::Inet(
            inet::normal(trimmed)
                .ok_or_else(|| invalid(of.kind, text))?
                .into(),
        ),
        Kind::Bool => Value::Bool(boolean(trimmed).ok_or_else(|| invalid(of.kind, text))?),
        Kind::Int2 => Value::Int2(whole(of.kind, text, trimmed)?),
        Kind::Int4 => Value::Int4(whole(of.kind, text, trimmed)?),
        Kind::Int8 => Value::Int8(whole(of.kind, text, trimmed)?),
        Kind::Oid => Value::Oid(oid(text, trimmed)?),
        Kind::Float4 => {
            let value: f32 = trimmed.parse().map_err(|_| invalid(of.kind, text))?;
            in_range(of.kind, trimmed, f64::from(value))?;
            Value::Float4(value)
        }
        Kind::Float8 => {
            let value = trimmed.parse().map_err(|_| invalid(of.kind, text))?;
            in_range(of.kind, trimmed, value)?;
            Value::Float8(value)
        }
        Kind::Numeric => Value::Numeric(Numeric::parse(trimmed)?),
        Kind::Bytea => Value::Bytea(Cow::Owned(bytea(text)?)),
        Kind::Uuid => Value::Uuid(uuid(text).ok_or_else(|| invalid(of.kind, text))?),
        Kind::Void => Value::Void,
        Kind::Date => Value::Date(moments::date(text)?),
        Kind::Time => Value::Time(moments::time(text)?),
        Kind::Timestamp => Value::Timestamp(moments::timestamp(text)?),
        Kind::Timestamptz => Value::Timestamptz(moments::timestamptz(text, zone)?),
        Kind::Interval => Value::Interval(Interval::parse(text)?),
    })
}

/// What C calls a space.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

pub(super) fn invalid(kind: Kind, text: &str) -> Refusal {
    let name = kind.name();
    Refusal::new(
        code::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
}

fn out_of_range(kind: Kind, text: &str) -> Refusal {
    let what = match kind {
        Kind::Float4 | Kind::Float8 => format!("\"{text}\" is out of range for type {}", kind.name()),
        _ => format!("value \"{text}\" is out of range for type {}", kind.name()),
    };
    Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, what)
}

/// Any beginning of `true`, `false`, `yes`, `no`, `on` and `off` that is clear, `1` and `0`.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if text == "1" || begins("true", 1) || begins("yes", 1) || text == "on" {
        return Some(true);
    }
    let no = text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2);
    no.then_some(false)
}

fn whole<T: TryFrom<i64>>(kind: Kind, text: &str, trimmed: &str) -> Result<T, Refusal> {
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(kind, text));
    }
    let value: Option<i64> = trimmed.parse().ok();
    let value = value.and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| out_of_range(kind, text))
}

/// An `oid`, of which a negative one is taken as what it is without a sign.
fn oid(text: &str, trimmed: &str) -> Result<u32, Refusal> {
    let value: i64 = whole(Kind::Oid, text, trimmed)?;
    let signed = || i32::try_from(value).ok().map(|value| value as u32);
    let value = u32::try_from(value).ok().or_else(signed);
    value.ok_or_else(|| out_of_range(Kind::Oid, text))
}

/// Refuses what is a number but beyond its type, at either end.
fn in_range(kind: Kind, text: &str, value: f64) -> Result<(), Refusal> {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_number = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let not_zero = mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if is_number && (value.is_infinite() || (value == 0.0 && not_zero)) {
        return Err(out_of_range(kind, text));
    }
    Ok(())
}

/// Hexadecimal digits behind `\x`, or bytes with octal escapes.
fn bytea(text: &str) -> Result<Vec<u8>, Refusal> {
    match text.strip_prefix("\\x") {
        Some(digits) => hexadecimal(digits),
        // PostgreSQL does not show the text.
        None => escaped(text.as_bytes()).ok_or_else(|| {
            let what = "invalid input syntax for type bytea";
            Refusal::new(code::INVALID_TEXT_REPRESENTATION, what)
        }),
    }
}

fn hexadecimal(digits: &str) -> Result<Vec<u8>, Refusal> {
    let wrong = |what: String| Refusal::new(code::INVALID_PARAMETER_VALUE, what);
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut rest = digits.chars();
    while let Some(first) = rest.next() {
        if is_blank(first) {
            continue;
        }
        let odd = || wrong("invalid hexadecimal data: odd number of digits".to_owned());
        let second = rest.next().ok_or_else(odd)?;
        let digit = |c: char| {
            let value = c.to_digit(16);
            value.ok_or_else(|| wrong(format!("invalid hexadecimal digit: \"{c}\"")))
        };
        bytes.push((digit(first)? << 4 | digit(second)?) as u8);
    }
    Ok(bytes)
}

fn escaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match *rest {
            [b'\\', ref after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ref after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// 32 hexadecimal digits, with a hyphen behind any four, in braces or not.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0u8; 16];
    let mut digits = 0usize;
    for c in inner.chars() {
        if c == '-' {
            // Only once between two groups.
            if digits == 0 || !digits.is_multiple_of(4) || digits >= 32 {
                return None;
            }
            continue;
        }
        let at = bytes.get_mut(digits / 2)?;
        *at = *at << 4 | c.to_digit(16)? as u8;
        digits += 1;
    }
    (digits == 32 && !inner.contains("--")).then_some(bytes)
}
