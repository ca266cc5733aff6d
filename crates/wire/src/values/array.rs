//! [`Array`]: values of one kind in up to six dimensions.

use std::io::Write as _;

use super::kind::{Format, Kind, Type};
use super::value::Value;
use super::zone::TimeZone;
use crate::error::{Refusal, code};

/// Most dimensions, PostgreSQL's number.
pub(super) const DIMENSIONS_MAX: usize = 6;
/// Most elements; PostgreSQL's number is higher, a message cannot hold as many.
pub(super) const ELEMENTS_MAX: usize = 1 << 27;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// How many there are.
    pub length: u32,
    /// The number of the first.
    pub lower: i32,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'a> {
    /// What its elements are.
    pub kind: Kind,
    /// Its dimensions, the outermost first; none of an empty array.
    pub dimensions: Vec<Dimension>,
    /// Its elements, the innermost dimension first; `None` is NULL.
    pub elements: Vec<Option<Value<'a>>>,
}

impl<'a> Array<'a> {
    /// An array of one dimension that begins with element 1.
    pub fn of(kind: Kind, elements: Vec<Option<Value<'a>>>) -> Self {
        let dimension = Dimension {
            length: elements.len() as u32,
            lower: 1,
        };
        Self {
            kind,
            dimensions: if elements.is_empty() {
                Vec::new()
            } else {
                vec![dimension]
            },
            elements,
        }
    }

    /// Appends it as text.
    pub(super) fn write(&self, out: &mut Vec<u8>, zone: &dyn TimeZone) {
        if self.elements.is_empty() {
            return out.extend(b"{}");
        }
        if self.dimensions.iter().any(|dimension| dimension.lower != 1) {
            for Dimension { length, lower } in &self.dimensions {
                // Writing into memory does not fail.
                let _ = write!(out, "[{lower}:{}]", i64::from(*lower) + i64::from(*length) - 1);
            }
            out.push(b'=');
        }
        let mut elements = self.elements.iter();
        nested(out, &self.dimensions, &mut elements, zone);
    }

    /// Appends it in binary.
    pub(super) fn write_binary(&self, out: &mut Vec<u8>, zone: &dyn TimeZone) {
        let dimensions = if self.elements.is_empty() {
            &[]
        } else {
            &self.dimensions[..]
        };
        let nulls = self.elements.iter().any(Option::is_none);
        out.extend((dimensions.len() as u32).to_be_bytes());
        out.extend(u32::from(nulls).to_be_bytes());
        out.extend(Type::single(self.kind).oid().to_be_bytes());
        for Dimension { length, lower } in dimensions {
            out.extend(length.to_be_bytes());
            out.extend(lower.to_be_bytes());
        }
        for element in &self.elements {
            match element {
                None => out.extend((-1i32).to_be_bytes()),
                Some(value) => super::row::field(out, |out| value.write(out, Format::Binary, zone)),
            }
        }
    }
}

fn nested<'v, 'a: 'v>(
    out: &mut Vec<u8>,
    dimensions: &[Dimension],
    elements: &mut impl Iterator<Item = &'v Option<Value<'a>>>,
    zone: &dyn TimeZone,
) {
    let Some((first, inner)) = dimensions.split_first() else {
        return match elements.next() {
            Some(Some(value)) => element(out, value, zone),
            _ => out.extend(b"NULL"),
        };
    };
    out.push(b'{');
    for at in 0..first.length {
        if at > 0 {
            out.push(b',');
        }
        nested(out, inner, elements, zone);
    }
    out.push(b'}');
}

/// Appends an element, in quotes where it could be read as something else.
fn element(out: &mut Vec<u8>, value: &Value<'_>, zone: &dyn TimeZone) {
    let begin = out.len();
    value.write(out, Format::Text, zone);
    let text = &out[begin..];
    let special = |byte: &u8| {
        matches!(
            byte,
            b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c
        )
    };
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"null") && !text.iter().any(special) {
        return;
    }
    let text = out.split_off(begin);
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn malformed(text: &str, detail: &str) -> Refusal {
    Refusal::new(
        code::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{text}\""),
    )
    .detail(detail)
}

/// Reads an array's text; `read` makes values of its elements' texts.
pub(super) fn parse<'v>(
    text: &str,
    kind: Kind,
    read: impl FnMut(&str) -> Result<Value<'v>, Refusal>,
) -> Result<Array<'v>, Refusal> {
    let mut reader = Reader {
        text,
        at: 0,
        lengths: Vec::new(),
        deepest: None,
        elements: Vec::new(),
        read,
    };
    let bounds = reader.bounds()?;
    reader.skip_blanks();
    reader.level(0)?;
    reader.skip_blanks();
    if reader.at < text.len() {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    let Reader {
        lengths, elements, ..
    } = reader;
    if elements.is_empty() {
        return match bounds.is_empty() {
            true => Ok(Array::of(kind, Vec::new())),
            false => Err(malformed(
                text,
                "Specified array dimensions do not match array contents.",
            )),
        };
    }
    let lengths: Vec<u32> = lengths.into_iter().flatten().collect();
    if !bounds.is_empty()
        && !bounds
            .iter()
            .map(|bound| bound.length)
            .eq(lengths.iter().copied())
    {
        return Err(malformed(
            text,
            "Specified array dimensions do not match array contents.",
        ));
    }
    let made = |(at, length)| {
        let lower = bounds.get(at).map_or(1, |bound: &Dimension| bound.lower);
        Dimension { length, lower }
    };
    Ok(Array {
        kind,
        dimensions: lengths.into_iter().enumerate().map(made).collect(),
        elements,
    })
}

struct Reader<'t, 'v, R> {
    text: &'t str,
    at: usize,
    /// Of each level, how many there are in the first part that was read whole.
    lengths: Vec<Option<u32>>,
    /// The level that has elements.
    deepest: Option<usize>,
    elements: Vec<Option<Value<'v>>>,
    read: R,
}

impl<'v, R: FnMut(&str) -> Result<Value<'v>, Refusal>> Reader<'_, 'v, R> {
    fn wrong(&self, detail: &str) -> Refusal {
        malformed(self.text, detail)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<i32, Refusal> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+')) {
            self.at += 1;
        }
        let number = self.text[begin..self.at].parse();
        number.map_err(|_| self.wrong("Missing or wrong array dimension value."))
    }

    /// `[lower:upper]` of each dimension and an equals sign.
    fn bounds(&mut self) -> Result<Vec<Dimension>, Refusal> {
        let mut bounds = Vec::new();
        self.skip_blanks();
        while self.takes(b'[') {
            let first = self.number()?;
            let (lower, upper) = if self.takes(b':') {
                (first, self.number()?)
            } else {
                (1, first)
            };
            let length = i64::from(upper) - i64::from(lower) + 1;
            if !self.takes(b']') || bounds.len() == DIMENSIONS_MAX || length < 1 {
                return Err(self.wrong("The dimensions before the equals sign are wrong."));
            }
            let length = u32::try_from(length).map_err(|_| self.wrong("A dimension is too long."))?;
            bounds.push(Dimension { length, lower });
            self.skip_blanks();
        }
        if !bounds.is_empty() && !self.takes(b'=') {
            return Err(self.wrong("Missing \"=\" after array dimensions."));
        }
        Ok(bounds)
    }

    /// What stands in braces at one depth.
    fn level(&mut self, depth: usize) -> Result<(), Refusal> {
        if !self.takes(b'{') {
            return Err(self.wrong("Array value must start with \"{\" or dimension information."));
        }
        if depth == DIMENSIONS_MAX {
            let what = format!("number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(Refusal::new(code::PROGRAM_LIMIT, what));
        }
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        let mut count = 0u32;
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'}') if count == 0 => {
                    self.at += 1;
                    break;
                }
                Some(b'{') if self.deepest != Some(depth) => self.level(depth + 1)?,
                Some(b'}' | b',') | None => return Err(self.wrong("Unexpected end of an array element.")),
                Some(_) if self.lengths.len() > depth + 1 => {
                    return Err(self.wrong("Elements and sub-arrays stand beside each other."));
                }
                Some(_) => {
                    self.deepest = Some(depth);
                    self.element()?;
                }
            }
            count += 1;
            self.skip_blanks();
            if self.takes(b',') {
                continue;
            }
            if !self.takes(b'}') {
                return Err(self.wrong("Unexpected end of input."));
            }
            break;
        }
        match self.lengths[depth] {
            Some(length) if length != count => {
                Err(self.wrong("Multidimensional arrays must have sub-arrays with matching dimensions."))
            }
            _ => {
                self.lengths[depth] = Some(count);
                Ok(())
            }
        }
    }

    fn element(&mut self) -> Result<(), Refusal> {
        let mut text = Vec::new();
        let mut quoted = false;
        // Blanks at the end belong to an element only where they were quoted.
        let mut kept = 0;
        if self.elements.len() >= ELEMENTS_MAX {
            return Err(Refusal::new(
                code::PROGRAM_LIMIT,
                "array size exceeds the maximum allowed",
            ));
        }
        loop {
            let byte = self
                .peek()
                .ok_or_else(|| self.wrong("Unexpected end of input."))?;
            match byte {
                b',' | b'}' => break,
                b'{' => return Err(self.wrong("Unexpected \"{\" character.")),
                b'"' => {
                    self.at += 1;
                    quoted = true;
                    self.quoted(&mut text)?;
                    kept = text.len();
                    continue;
                }
                b'\\' => {
                    self.at += 1;
                    text.push(
                        self.peek()
                            .ok_or_else(|| self.wrong("Unexpected end of input."))?,
                    );
                    // It is text even where it says NULL.
                    quoted = true;
                    kept = text.len();
                }
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => text.push(byte),
                byte => {
                    text.push(byte);
                    kept = text.len();
                }
            }
            self.at += 1;
        }
        text.truncate(kept);
        if !quoted && text.eq_ignore_ascii_case(b"null") {
            self.elements.push(None);
            return Ok(());
        }
        // Only ASCII was taken out of a text.
        let text = String::from_utf8(text).map_err(|_| self.wrong("An element is not UTF-8."))?;
        let value = (self.read)(&text)?;
        self.elements.push(Some(value));
        Ok(())
    }

    /// What stands in quotes, up to the closing one.
    fn quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Refusal> {
        loop {
            let byte = self
                .peek()
                .ok_or_else(|| self.wrong("Unexpected end of input."))?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => {
                    text.push(
                        self.peek()
                            .ok_or_else(|| self.wrong("Unexpected end of input."))?,
                    );
                    self.at += 1;
                }
                byte => text.push(byte),
            }
        }
    }
}
