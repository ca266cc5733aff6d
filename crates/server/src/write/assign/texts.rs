//! Assignments to columns of texts and JSON.

use super::numbers::text_of;
use super::types::{NAME_BYTES, check_json, normal_jsonb};
use super::{Stored, mismatch};
use crate::write::column::{Column, Declared};
use corun_wire::error::Refusal;
use corun_wire::values::{Kind, TimeZone, Value};
use std::borrow::Cow;

/// `text`, `varchar`, `char`, `name`: any value is assigned to them as the text that shows it.
#[inline]
pub(super) fn text<'v>(
    column: &Column,
    value: &'v Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let text = match value {
        Value::Text(text) | Value::Json(text) => {
            return limited(&column.declared, text).map(|text| Stored::Text(Cow::Borrowed(text)));
        }
        Value::Jsonb(text) => Cow::Owned(normal_jsonb(text)?),
        Value::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        Value::Void => return Err(mismatch(column, value)),
        other => Cow::Owned(text_of(other, zone)),
    };
    let text = match limited(&column.declared, &text)? {
        fits if fits.len() == text.len() => text,
        cut => Cow::Owned(cut.to_owned()),
    };
    Ok(Stored::Text(text))
}

/// A text within the limits of a type: blanks beyond the length are cut off, and those at the end of `char(n)`, which are not kept.
#[inline]
pub(super) fn limited<'t>(of: &Declared, text: &'t str) -> Result<&'t str, Refusal> {
    let text = match of.length {
        Some(length) if text.len() > length as usize => cut(of, text, length as usize)?,
        _ => text,
    };
    Ok(match of.of.kind {
        Kind::Bpchar => text.trim_end_matches(' '),
        Kind::Name => &text[..text.floor_char_boundary(NAME_BYTES as usize)],
        _ => text,
    })
}

fn cut<'t>(of: &Declared, text: &'t str, length: usize) -> Result<&'t str, Refusal> {
    let Some((end, _)) = text.char_indices().nth(length) else {
        return Ok(text);
    };
    let (text, beyond) = text.split_at(end);
    match beyond.bytes().all(|byte| byte == b' ') {
        true => Ok(text),
        false => Err(Refusal::new("22001", format!("value too long for type {of}"))),
    }
}

/// `json` and `jsonb`.
pub(super) fn json<'v>(column: &Column, value: &'v Value<'_>) -> Result<Stored<'v>, Refusal> {
    let (Value::Text(text) | Value::Json(text) | Value::Jsonb(text)) = value else {
        return Err(mismatch(column, value));
    };
    match column.declared.of.kind {
        Kind::Json if matches!(value, Value::Jsonb(_)) => {
            normal_jsonb(text).map(|text| Stored::Text(Cow::Owned(text)))
        }
        Kind::Jsonb => normal_jsonb(text).map(|text| Stored::Text(Cow::Owned(text))),
        _ => check_json(text).map(|()| Stored::Text(Cow::Borrowed(text))),
    }
}
