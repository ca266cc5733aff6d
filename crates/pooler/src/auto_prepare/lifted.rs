//! [`Lifted`] and [`LiftedShape`]: a text whose literals became parameters, and how to find those of the next text.

use std::borrow::Cow;

use crate::understand::{oid, rough};

use super::proof::{input_cannot_fail, modifier_may_refuse};

/// What PostgreSQL makes of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// An integer that fits in 32 bits: `integer`.
    Int4,
    /// One that fits in 64 bits only: `bigint`.
    Int8,
    /// Digits, a point, digits: `numeric`.
    Decimal,
    /// A plain string: of no type until the place it stands in gives it one.
    String,
}

/// What stands around a literal, which decides the type it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Compared with something that is no constant.
    Compared,
    /// Added to, multiplied with ... a column in the SET of an UPDATE.
    Arithmetic,
    /// Under a cast.
    Cast,
    /// The value of a column in the VALUES of an INSERT.
    Inserted,
    /// The value of a column in the SET of an UPDATE.
    Updated,
}

/// A literal's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// What kind of literal stands there.
    pub kind: LiteralKind,
    /// It begins with a minus sign.
    pub negative: bool,
    /// What stands around it.
    pub used: Use,
}

impl Slot {
    /// The type to declare for the parameter in Parse, as an OID; 0: the server finds it.
    pub fn declared(&self) -> u32 {
        match (self.used, self.kind) {
            (_, LiteralKind::String) | (Use::Inserted | Use::Updated, _) => 0,
            (_, LiteralKind::Int4) => oid::INT4,
            (_, LiteralKind::Int8) => oid::INT8,
            (_, LiteralKind::Decimal) => oid::NUMERIC,
        }
    }
}

/// Texts that differ in lifted literals only: what stands between them, and what kinds they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftedShape {
    /// One more than there are slots.
    pub(super) pieces: Vec<Box<str>>,
    pub(super) slots: Vec<Slot>,
}

/// A text whose literals became parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifted {
    /// The text with `$1` to `$n`.
    pub text: String,
    /// Their values in text format.
    pub values: Vec<Vec<u8>>,
    /// What kinds of literals they were.
    pub expected: Vec<LiteralKind>,
    /// Types to declare in Parse, as OIDs; 0: the server finds it.
    pub types: Vec<u32>,
    /// How to find the values in the next text.
    pub shape: LiftedShape,
}

impl Lifted {
    pub(super) fn new(shape: LiftedShape, values: Vec<Vec<u8>>) -> Lifted {
        let mut text = String::new();
        for (number, piece) in shape.pieces.iter().enumerate() {
            if number > 0 {
                text.push_str(&format!("${number}"));
            }
            text.push_str(piece);
        }
        Lifted {
            text,
            values,
            expected: shape.slots.iter().map(|slot| slot.kind).collect(),
            types: shape.slots.iter().map(Slot::declared).collect(),
            shape,
        }
    }

    /// Whether no value that [`values_of`] finds can be refused by the server's input functions for the described types, so
    /// that every error comes from where it would have come from without lifting.
    pub fn inputs_cannot_fail(&self, described: &[u32]) -> bool {
        self.shape.slots.len() == described.len()
            && self
                .shape
                .slots
                .iter()
                .zip(described)
                .all(|(slot, oid)| input_cannot_fail(slot, *oid))
    }

    /// Whether a column may refuse a value for its length or scale: the literal is refused before anything runs, the parameter
    /// only when its row is made.
    pub fn refuses_late(&self, described: &[u32]) -> bool {
        let mut slots = self.shape.slots.iter().zip(described);
        slots.any(|(slot, oid)| slot.used == Use::Inserted && modifier_may_refuse(*oid))
    }
}

/// A literal as a text has it.
pub(super) struct Written<'a> {
    pub kind: LiteralKind,
    /// It begins with a minus sign.
    pub negative: bool,
    pub length: usize,
    /// The characters of a string; a number as it stands there.
    pub value: Cow<'a, [u8]>,
}

/// The literal at the beginning of `text`; `None` where there is none that is lifted.
pub(super) fn literal(text: &[u8]) -> Option<Written<'_>> {
    if text.first() == Some(&b'\'') {
        let length = rough::string_end(text, 0)?;
        let inside = &text[1..length - 1];
        return Some(Written {
            kind: LiteralKind::String,
            negative: false,
            length,
            value: match inside.contains(&b'\'') {
                true => Cow::Owned(rough::Unquoted(inside).collect()),
                false => Cow::Borrowed(inside),
            },
        });
    }
    let negative = text.first() == Some(&b'-');
    let digits = usize::from(negative);
    if !text.get(digits)?.is_ascii_digit() {
        return None;
    }
    let (length, decimal) = rough::number(text, digits)?;
    let value = &text[..length];
    Some(Written {
        kind: number_kind(value, decimal)?,
        negative,
        length,
        value: Cow::Borrowed(value),
    })
}

/// What a number with its sign is; `None` for numbers that are not lifted.
fn number_kind(value: &[u8], decimal: bool) -> Option<LiteralKind> {
    const DIGITS_MAX: usize = 30;
    let text = std::str::from_utf8(value).ok()?;
    if value.len() > DIGITS_MAX {
        return None;
    }
    if decimal {
        let (whole, fraction) = text.strip_prefix('-').unwrap_or(text).split_once('.')?;
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        return (digits(whole) && digits(fraction)).then_some(LiteralKind::Decimal);
    }
    let number: i64 = text.parse().ok()?;
    Some(if i32::try_from(number).is_ok() {
        LiteralKind::Int4
    } else {
        LiteralKind::Int8
    })
}

/// The values of the literals of `text` if it differs from the shape's in them only and they are of the same kinds; found in one
/// pass, without parsing.
pub fn values_of<'a>(text: &'a [u8], shape: &LiftedShape) -> Option<Vec<Cow<'a, [u8]>>> {
    let mut values = Vec::with_capacity(shape.slots.len());
    let rest = walk(text, shape, |_, _, value| values.push(value))?;
    // Strings must be characters of the encoding; only UTF-8 is known to be.
    (rest.is_empty() && std::str::from_utf8(text).is_ok()).then_some(values)
}

/// Walks through pieces and literals; hands out where each literal begins, its length and value; returns what is left.
fn walk<'a>(
    text: &'a [u8],
    shape: &LiftedShape,
    mut each: impl FnMut(usize, usize, Cow<'a, [u8]>),
) -> Option<&'a [u8]> {
    let (first, others) = shape.pieces.split_first()?;
    let mut rest = text.strip_prefix(first.as_bytes())?;
    for (slot, piece) in shape.slots.iter().zip(others) {
        let written =
            literal(rest).filter(|written| written.kind == slot.kind && written.negative == slot.negative)?;
        each(text.len() - rest.len(), written.length, written.value);
        rest = rest[written.length..].strip_prefix(piece.as_bytes())?;
    }
    Some(rest)
}

impl LiftedShape {
    /// The places of literals.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Where in `original`, a text of this shape, an error lies that the server found at `position` of the lifted text; both
    /// count characters from 1, as servers do. A place inside a parameter is the beginning of its literal.
    pub fn position_in(&self, original: &[u8], position: usize) -> usize {
        let characters = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count();
        let Some(at) = position.checked_sub(1) else {
            return position;
        };
        let mut shift = 0_isize;
        // Position in the lifted text, in characters from 0, where the piece behind the last literal begins.
        let mut lifted = self.pieces.first().map_or(0, |piece| piece.chars().count());
        let mut number = 0;
        let mut found = None;
        let _ = walk(original, self, |begin, length, _| {
            number += 1;
            let parameter = format!("${number}").len();
            if at < lifted || found.is_some() {
                return;
            }
            if at < lifted + parameter {
                found = Some(characters(&original[..begin]) + 1);
                return;
            }
            shift += characters(&original[begin..begin + length]) as isize - parameter as isize;
            lifted += parameter + self.pieces[number].chars().count();
        });
        found.unwrap_or_else(|| position.saturating_add_signed(shift))
    }
}
