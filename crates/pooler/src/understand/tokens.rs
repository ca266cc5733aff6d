//! Words and signs of a text, without a grammar: for texts whose grammar is not known, and for the bodies of functions.

use std::borrow::Cow;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name or key word: in lower case, or as it is where it is quoted.
    Word(Cow<'t, str>),
    /// A string; `None` where its content is not as it stands there.
    String(Option<&'t str>),
    /// Any other byte; numbers are one.
    Sign(u8),
}

impl Token<'_> {
    /// Whether it is this word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    /// Whether it is one of these words.
    pub fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

/// The tokens of a text; `None` where it is none, or has names with escapes of their own. `escapes`: a backslash in a plain string is
/// one, as with `standard_conforming_strings = off`.
pub(super) fn tokens(text: &[u8], escapes: bool) -> Option<Vec<Token<'_>>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        at += match byte {
            byte if byte.is_ascii_whitespace() || byte == b'\x0b' => 1,
            b'-' if rest.starts_with(b"--") => line(rest),
            b'/' if rest.starts_with(b"/*") => comment(rest)?,
            b'\'' => {
                let marked = matches!(out.last(), Some(Token::Word(word)) if word == "e")
                    && text[at - 1].eq_ignore_ascii_case(&b'e');
                string(rest, escapes || marked, &mut out)?
            }
            b'"' => quoted(rest, &mut out)?,
            b'$' if !rest.get(1).is_some_and(u8::is_ascii_digit) => dollars(rest, &mut out),
            b'0'..=b'9' => number(rest, &mut out),
            byte if is_letter(byte) => {
                let end = rest
                    .iter()
                    .position(|&byte| !is_inside(byte))
                    .unwrap_or(rest.len());
                let word = String::from_utf8_lossy(&rest[..end]);
                // Strings and names with escapes of their own.
                if word.eq_ignore_ascii_case("u") && rest[end..].starts_with(b"&") {
                    return None;
                }
                out.push(Token::Word(
                    match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
                        true => Cow::Owned(word.to_ascii_lowercase()),
                        false => word,
                    },
                ));
                end
            }
            byte => {
                out.push(Token::Sign(byte));
                1
            }
        };
    }
    Some(out)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_inside(byte: u8) -> bool {
    is_letter(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn line(text: &[u8]) -> usize {
    let ends = |&byte: &u8| matches!(byte, b'\n' | b'\r');
    text.iter().position(ends).unwrap_or(text.len())
}

/// Comments in brackets stand within each other.
fn comment(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while at + 1 < text.len() {
        match &text[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn string<'t>(text: &'t [u8], escapes: bool, out: &mut Vec<Token<'t>>) -> Option<usize> {
    let (mut at, mut plain) = (1, true);
    loop {
        match *text.get(at)? {
            b'\'' if text.get(at + 1) == Some(&b'\'') => {
                plain = false;
                at += 2;
            }
            b'\'' => break,
            b'\\' if escapes => {
                plain = false;
                at += 2;
            }
            _ => at += 1,
        }
    }
    let content = std::str::from_utf8(&text[1..at]).ok().filter(|_| plain);
    out.push(Token::String(content));
    Some(at + 1)
}

fn quoted<'t>(text: &'t [u8], out: &mut Vec<Token<'t>>) -> Option<usize> {
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'"' if text.get(at + 1) == Some(&b'"') => at += 2,
            b'"' => break,
            _ => at += 1,
        }
    }
    let name = String::from_utf8_lossy(&text[1..at]);
    out.push(Token::Word(match name.contains('"') {
        true => Cow::Owned(name.replace("\"\"", "\"")),
        false => name,
    }));
    Some(at + 1)
}

/// A string in dollars; a lone one is a sign.
fn dollars<'t>(text: &'t [u8], out: &mut Vec<Token<'t>>) -> usize {
    let tag = text[1..]
        .iter()
        .position(|&byte| byte == b'$')
        .map(|end| &text[..end + 2]);
    let Some(tag) = tag.filter(|tag| tag[1..tag.len() - 1].iter().all(|&byte| is_inside(byte))) else {
        out.push(Token::Sign(b'$'));
        return 1;
    };
    let body = &text[tag.len()..];
    let end = body.windows(tag.len()).position(|window| window == tag);
    let content = std::str::from_utf8(&body[..end.unwrap_or(body.len())]).ok();
    out.push(Token::String(content));
    end.map_or(text.len(), |end| end + 2 * tag.len())
}

fn number<'t>(text: &'t [u8], out: &mut Vec<Token<'t>>) -> usize {
    out.push(Token::Sign(b'0'));
    let inside = |&byte: &u8| byte.is_ascii_digit() || byte == b'.';
    text.iter().position(|byte| !inside(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let found = tokens(text.as_bytes(), false).expect("tokens").into_iter();
        found
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.into_owned()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn strings_and_comments_are_no_words() {
        assert_eq!(
            words("Select 'set', \"Set\".x -- reset\n /* a /* b */ c */ from $1"),
            ["select", "Set", "x", "from"]
        );
        assert_eq!(
            words("e'it\\'s' x $a$ y $b$ $a$ z 'it''s' 1.5 k$1"),
            ["e", "x", "z", "k$1"]
        );
        assert_eq!(words("$$ never ends"), [""; 0]);
    }

    #[test]
    fn strings_have_their_content() {
        let found = tokens(b"f('a.b', $x$c d$x$, 'it''s')", false).expect("tokens");
        let strings: Vec<&Token<'_>> = found
            .iter()
            .filter(|token| matches!(token, Token::String(_)))
            .collect();
        assert_eq!(
            strings,
            [
                &Token::String(Some("a.b")),
                &Token::String(Some("c d")),
                &Token::String(None)
            ]
        );
    }

    #[test]
    fn backslashes_are_read_both_ways() {
        assert_eq!(tokens(b"'a\\' set b'", true), Some(vec![Token::String(None)]));
        let plain = tokens(b"'a\\' set 'b'", false).expect("tokens");
        assert!(plain.contains(&Token::Word("set".into())));
        for text in ["U&\"\\0073et\" x", "'open", "\"open", "/* open"] {
            assert_eq!(tokens(text.as_bytes(), false), None, "{text}");
        }
        assert_eq!(words("-- x\r set"), ["set"]);
    }
}
