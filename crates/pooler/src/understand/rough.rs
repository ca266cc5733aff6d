//! What a text looks like without its literals and comments, in one pass over its bytes and without a grammar.
//!
//! Two texts with the same skeleton have the same tokens but for the digits of numbers and the characters of plain strings.
//! Whatever could make that doubtful has no skeleton: prefixed strings, dollar quotes, backslashes, nested comments, comments
//! that speak to us, control characters, numbers that run into letters.

use super::contains_word;

/// Stands for a comment in brackets.
const COMMENT: u8 = 1;

const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

const fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// Bytes that are copied as they are, wherever they stand: letters, blanks, and signs that begin nothing.
static COPIED: [bool; 256] = {
    let mut copied = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        copied[byte] = is_word_start(byte as u8)
            || matches!(byte as u8, b'\t' | b'\n' | b'\r' | b' ' | b'!' | b'#' | b'%')
            || matches!(byte as u8, b'('..=b',' | b':'..=b'@' | b'[' | b']' | b'^' | b'`' | b'{'..=b'~');
        byte += 1;
    }
    copied
};

/// Appends the skeleton of `text` to `out` and returns how many literals and comments it stands for; `None` where it is
/// doubtful, with anything appended.
pub fn skeleton(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.reserve(text.len());
    let mut count = 0;
    scan(text, 0, |met| {
        count += usize::from(!matches!(met, Met::Copied(_)));
        match met {
            Met::Copied(bytes) => out.extend_from_slice(bytes),
            Met::Literal(literal) => out.push(literal.kind as u8),
            Met::Comment { in_brackets: true } => out.push(COMMENT),
            Met::Comment { in_brackets: false } => {}
        }
        true
    })?;
    Some(count)
}

/// What a literal looks like, and the byte that stands for it in a skeleton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    Integer = 2,
    /// In plain quotes.
    String = 3,
    /// With a point or an exponent.
    Decimal = 4,
}

/// A literal of a text that has a skeleton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) kind: LiteralKind,
    /// Its first byte; of a string, the quote. A sign is no part of it.
    pub(crate) begin: usize,
    /// The byte behind it.
    pub(crate) end: usize,
}

/// The first literal at or behind a byte, which must be 0 or the end of another. Texts with the same skeleton have as many
/// literals, of the same kinds, in the same order; comments are none.
pub(crate) fn literal_from(text: &[u8], at: usize) -> Option<Literal> {
    let mut first = None;
    scan(text, at, |met| {
        if let Met::Literal(literal) = met {
            first = Some(literal);
        }
        first.is_none()
    })?;
    first
}

/// What a pass over a text meets.
enum Met<'t> {
    /// Bytes that are part of the skeleton.
    Copied(&'t [u8]),
    Literal(Literal),
    /// A comment, in brackets or up to the end of the line.
    Comment {
        in_brackets: bool,
    },
}

/// One pass from a byte on, until a literal with which `see` has enough; `None` where the text is doubtful.
#[inline]
fn scan<'t>(text: &'t [u8], mut at: usize, mut see: impl FnMut(Met<'t>) -> bool) -> Option<()> {
    let next = |at: usize| text.get(at).copied().unwrap_or(0);
    loop {
        let begin = at;
        while at < text.len() && COPIED[text[at] as usize] {
            at += 1;
        }
        see(Met::Copied(&text[begin..at]));
        if at == text.len() {
            return Some(());
        }
        let begin = at;
        let before = if at == 0 { b' ' } else { text[at - 1] };
        match text[at] {
            // Inside a word.
            b'0'..=b'9' | b'$' if is_word(before) => {
                at += 1;
                see(Met::Copied(&text[begin..at]));
            }
            b'0'..=b'9' => {
                let (end, decimal) = number(text, at)?;
                at = end;
                let kind = if decimal {
                    LiteralKind::Decimal
                } else {
                    LiteralKind::Integer
                };
                if !see(Met::Literal(Literal { kind, begin, end })) {
                    return Some(());
                }
            }
            // E'', B'', X'', N'', U&''.
            b'\'' if is_word(before) || before == b'&' => return None,
            b'\'' => {
                at = string_end(text, at)?;
                let literal = Literal {
                    kind: LiteralKind::String,
                    begin,
                    end: at,
                };
                if !see(Met::Literal(literal)) {
                    return Some(());
                }
            }
            b'"' if before == b'&' => return None,
            b'"' => {
                at += 2 + text[at + 1..].iter().position(|byte| *byte == b'"')?;
                see(Met::Copied(&text[begin..at]));
            }
            b'$' => {
                // A parameter; its number is part of the skeleton.
                if !next(at + 1).is_ascii_digit() {
                    return None;
                }
                at += 1;
                while next(at).is_ascii_digit() {
                    at += 1;
                }
                if is_word(next(at)) {
                    return None;
                }
                see(Met::Copied(&text[begin..at]));
            }
            b'.' if next(at + 1).is_ascii_digit() => return None,
            b'-' if next(at + 1) == b'-' => {
                let length = text[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                if speaks_to_us(&text[at..at + length]) {
                    return None;
                }
                at += length;
                see(Met::Comment { in_brackets: false });
            }
            b'/' if next(at + 1) == b'*' => {
                let inside = &text[at + 2..];
                let length = inside.windows(2).position(|pair| pair == b"*/")?;
                let comment = &inside[..length];
                if speaks_to_us(comment)
                    || comment.windows(2).any(|pair| pair == b"/*")
                    || comment.contains(&0)
                {
                    return None;
                }
                at += length + 4;
                see(Met::Comment { in_brackets: true });
            }
            b'.' | b'-' | b'/' | b'&' => {
                at += 1;
                see(Met::Copied(&text[begin..at]));
            }
            // A backslash or a control character.
            _ => return None,
        }
    }
}

/// The end of a number, and whether it has a point or an exponent.
pub(crate) fn number(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let digits = |mut at: usize| {
        while text.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut decimal = false;
    at = digits(at);
    if text.get(at) == Some(&b'.') && text.get(at + 1) != Some(&b'.') {
        decimal = true;
        at = digits(at + 1);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end == at + 1 + sign {
            return None;
        }
        decimal = true;
        at = end;
    }
    match text.get(at) {
        Some(&byte) if is_word(byte) || byte == b'.' => None,
        _ => Some((at, decimal)),
    }
}

/// The end of the plain string that begins at `at`, behind its quote. A backslash makes it doubtful: what it means depends on a
/// setting.
pub(crate) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        at += text[at..]
            .iter()
            .position(|byte| matches!(byte, b'\'' | b'\\' | 0))?;
        if text[at] != b'\'' {
            return None;
        }
        at += 1;
        if text.get(at) != Some(&b'\'') {
            return Some(at);
        }
        at += 1;
    }
}

/// The characters of a plain string, from what stands between its quotes: two quotes in a row are one.
pub(crate) struct Unquoted<'a>(pub &'a [u8]);

impl Iterator for Unquoted<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = match (first, rest) {
            (b'\'', [b'\'', rest @ ..]) => rest,
            _ => rest,
        };
        Some(*first)
    }
}

fn speaks_to_us(comment: &[u8]) -> bool {
    contains_word(comment, b"corun")
}
