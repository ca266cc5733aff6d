//! [`Operands`]: where the values come from that a plan leaves open: [`Values`] of a Bind, [`Literals`] of a text, or both.
//!
//! Nothing is copied and nothing allocated; what is asked for in order is found in one pass.

use std::cell::Cell;

use crate::understand::rough::{self, LiteralKind};
use corun_wire::read;

/// A value as it stands in a message or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// It is not there, or something is wrong with it.
    Missing,
    /// NULL.
    Null,
    /// In PostgreSQL's text form.
    Text(&'a [u8]),
    /// In PostgreSQL's text form with quotes doubled, as between the quotes of a string.
    Quoted(&'a [u8]),
    /// In PostgreSQL's binary form.
    Binary(&'a [u8]),
}

/// The values that belong to one run of a statement.
pub trait Operands {
    /// The value of `$n`, counted from 1.
    fn parameter(&self, _number: u16) -> Given<'_> {
        Given::Missing
    }
    /// The literal of the text with `index` others before it, comments not counted.
    fn literal(&self, _index: u16) -> Given<'_> {
        Given::Missing
    }
}

/// The parameters of a Bind.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// Two bytes for each format.
    formats: &'a [u8],
    /// What follows the count of parameters.
    body: &'a [u8],
    count: u16,
    /// The parameter at which to go on, counted from 0, and its first byte in `body`.
    next: Cell<(u16, usize)>,
}

/// The parameters of a Bind's body (behind its header); `None` if it is not shaped as the protocol says as far as it is read here.
pub fn parameters_of_bind(body: &[u8]) -> Option<Values<'_>> {
    let (_, _, rest) = read::bind(body)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let formats = usize::from(u16::from_be_bytes(*count));
    let (formats, rest) = rest.split_at_checked(2 * formats)?;
    let (count, body) = rest.split_first_chunk::<2>()?;
    let count = u16::from_be_bytes(*count);
    // None: all are texts; one for all; or one for each.
    if !matches!(formats.len() / 2, 0 | 1) && formats.len() / 2 != usize::from(count) {
        return None;
    }
    Some(Values {
        formats,
        body,
        count,
        next: Cell::new((0, 0)),
    })
}

impl<'a> Values<'a> {
    /// The value of `$n`, counted from 1.
    pub fn get(&self, number: u16) -> Given<'a> {
        let wanted = match number.checked_sub(1) {
            Some(wanted) if wanted < self.count => wanted,
            _ => return Given::Missing,
        };
        let (mut index, mut at) = self.next.get();
        if index > wanted {
            (index, at) = (0, 0);
        }
        loop {
            let Some((value, end)) = self.value(at) else {
                return Given::Missing;
            };
            self.next.set((index + 1, end));
            if index == wanted {
                return match (value, self.format(wanted)) {
                    (None, _) => Given::Null,
                    (Some(value), [0, 0]) => Given::Text(value),
                    (Some(value), [0, 1]) => Given::Binary(value),
                    _ => Given::Missing,
                };
            }
            (index, at) = (index + 1, end);
        }
    }

    /// The value at a byte and its end; `None` in it is NULL.
    fn value(&self, at: usize) -> Option<(Option<&'a [u8]>, usize)> {
        let (length, rest) = self.body.get(at..)?.split_first_chunk::<4>()?;
        match i32::from_be_bytes(*length) {
            -1 => Some((None, at + 4)),
            length => {
                let length = usize::try_from(length).ok()?;
                Some((Some(rest.get(..length)?), at + 4 + length))
            }
        }
    }

    fn format(&self, index: u16) -> [u8; 2] {
        let at = match self.formats.len() {
            0 => return [0, 0],
            2 => 0,
            _ => 2 * usize::from(index),
        };
        match self.formats.get(at..at + 2) {
            Some(&[a, b]) => [a, b],
            _ => [0xff, 0xff],
        }
    }
}

impl Operands for Values<'_> {
    fn parameter(&self, number: u16) -> Given<'_> {
        self.get(number)
    }
}

/// The literals of a text: of a simple query, or of the statement that a Bind names.
#[derive(Clone, Debug)]
pub struct Literals<'a> {
    text: &'a [u8],
    /// The literal at which to go on, and a byte at or before its first.
    next: Cell<(u16, usize)>,
}

impl<'a> Literals<'a> {
    /// Those of a text. Nothing is looked at yet.
    pub fn of(text: &'a [u8]) -> Self {
        Literals {
            text,
            next: Cell::new((0, 0)),
        }
    }

    /// The literal with `index` others before it.
    pub fn get(&self, index: u16) -> Given<'a> {
        let (mut number, mut at) = self.next.get();
        if number > index {
            (number, at) = (0, 0);
        }
        loop {
            let Some(literal) = rough::literal_from(self.text, at) else {
                return Given::Missing;
            };
            self.next.set((number.saturating_add(1), literal.end));
            if number == index {
                return match literal.kind {
                    LiteralKind::String => Given::Quoted(&self.text[literal.begin + 1..literal.end - 1]),
                    LiteralKind::Integer | LiteralKind::Decimal => {
                        Given::Text(&self.text[literal.begin..literal.end])
                    }
                };
            }
            (number, at) = (number + 1, literal.end);
        }
    }
}

impl Operands for Literals<'_> {
    fn literal(&self, index: u16) -> Given<'_> {
        self.get(index)
    }
}

/// The parameters of a Bind and the literals of the text it runs.
impl Operands for (Values<'_>, Literals<'_>) {
    fn parameter(&self, number: u16) -> Given<'_> {
        self.0.get(number)
    }

    fn literal(&self, index: u16) -> Given<'_> {
        self.1.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(formats: &[u16], values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = b"portal\0statement\0".to_vec();
        out.extend((formats.len() as u16).to_be_bytes());
        formats.iter().for_each(|format| out.extend(format.to_be_bytes()));
        out.extend((values.len() as u16).to_be_bytes());
        for value in values {
            out.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            out.extend(value.unwrap_or_default());
        }
        out.extend([0, 0]);
        out
    }

    #[test]
    fn parameters_are_found_in_any_order() {
        let values: &[Option<&[u8]>] = &[Some(b"one"), None, Some(b""), Some(b"four")];
        let each = body(&[0, 1, 1, 1], values);
        let each = parameters_of_bind(&each).expect("a Bind");
        for _ in 0..2 {
            assert_eq!(each.get(4), Given::Binary(b"four"));
            assert_eq!(each.get(1), Given::Text(b"one"));
            assert_eq!(each.get(3), Given::Binary(b""));
            assert_eq!(each.get(2), Given::Null);
            assert_eq!(each.get(2), Given::Null);
            assert_eq!((each.get(0), each.get(5)), (Given::Missing, Given::Missing));
        }
        let none = body(&[], values);
        assert_eq!(
            parameters_of_bind(&none).expect("a Bind").get(4),
            Given::Text(b"four")
        );
        let one = body(&[1], values);
        assert_eq!(
            parameters_of_bind(&one).expect("a Bind").get(4),
            Given::Binary(b"four")
        );
        let odd = body(&[7], values);
        assert_eq!(parameters_of_bind(&odd).expect("a Bind").get(4), Given::Missing);
        assert!(parameters_of_bind(&body(&[0, 1], values)).is_none());
    }

    #[test]
    fn literals_are_found_in_any_order() {
        let text = b"select 1, 'it''s' -- 7\n, -2.5 /* 8 */ from t7 where \"9\" = $3 and x = '' and y = 1e3";
        let literals = Literals::of(text);
        let expected = [
            Given::Text(b"1"),
            Given::Quoted(b"it''s"),
            Given::Text(b"2.5"),
            Given::Quoted(b""),
            Given::Text(b"1e3"),
            Given::Missing,
        ];
        for index in [0, 1, 2, 3, 4, 5, 2, 2, 0, 4, 1, 5, 0] {
            assert_eq!(literals.get(index), expected[usize::from(index)], "{index}");
        }
        assert_eq!(Literals::of(b"select E'x', 1").get(1), Given::Missing);
    }
}
