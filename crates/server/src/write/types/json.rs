//! JSON: whether a text is some ([`check_json`]), and how PostgreSQL prints it as `jsonb` ([`normal_jsonb`]): keys by length and bytes, the last of
//! two that are the same, numbers as `numeric`, one blank behind `:` and `,`.
//!
//! A reader of tokens without recursion, since `serde_json` rounds numbers to floats, and accepts less depth. What it is not: a document to look
//! into.

use corun_wire::error::{Refusal, code};
use corun_wire::values::Numeric;

/// Most arrays and objects within each other. PostgreSQL's limit is its stack, about ten times as many.
const DEPTH_MAX: usize = 1000;

/// A part of a text.
enum Token<'t> {
    Begin(Container),
    End,
    /// What stands between quotes, escapes as they are written.
    Key(&'t str),
    String(&'t str),
    Number(&'t str),
    /// `true`, `false`, `null`.
    Word(&'t str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

fn invalid(detail: String) -> Refusal {
    let what = "invalid input syntax for type json";
    Refusal::new(code::INVALID_TEXT_REPRESENTATION, what).detail(detail)
}

/// Whether a text is JSON.
///
/// # Errors
/// It is none, or too deep.
pub(in crate::write) fn check_json(text: &str) -> Result<(), Refusal> {
    Reader { text, at: 0 }.read(|_| Ok(()))
}

/// A text as `jsonb` prints it.
///
/// # Errors
/// It is no JSON; what `jsonb` cannot hold.
pub(in crate::write) fn normal_jsonb(text: &str) -> Result<String, Refusal> {
    let mut made = Maker::default();
    Reader { text, at: 0 }.read(|token| made.take(token))?;
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    if let Some(node) = &made.whole {
        node.write(&mut out);
    }
    Ok(out)
}

/// What a reader expects.
enum Expected {
    Value,
    /// Or the end of an array.
    Element,
    Key,
    /// Or the end of an object.
    FirstKey,
    /// A comma, or the end of what is around.
    Next,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The token that is wrong here, for errors.
    fn shown(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        match (word, rest.chars().next()) {
            (0, Some(first)) => &rest[..first.len_utf8()],
            (word, _) => &rest[..word],
        }
    }

    fn unexpected(&self, expected: &str) -> Refusal {
        let rest = &self.text[self.at..];
        match rest.chars().next() {
            None => invalid("The input string ended unexpectedly.".to_owned()),
            Some(first) if "{}[],:\"-".contains(first) || first.is_ascii_digit() => {
                invalid(format!("Expected {expected}, but found \"{}\".", self.shown()))
            }
            _ if ["true", "false", "null"].contains(&self.shown()) => {
                invalid(format!("Expected {expected}, but found \"{}\".", self.shown()))
            }
            _ => invalid(format!("Token \"{}\" is invalid.", self.shown())),
        }
    }

    fn read(mut self, mut give: impl FnMut(Token<'t>) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let mut around: Vec<Container> = Vec::new();
        let mut expected = Expected::Value;
        loop {
            self.skip_blanks();
            let byte = self.peek();
            expected = match (expected, byte, around.last().copied()) {
                (Expected::Next, None, None) => return Ok(()),
                (Expected::Next, Some(b','), Some(of)) => {
                    self.at += 1;
                    match of {
                        Container::Object => Expected::Key,
                        Container::Array => Expected::Value,
                    }
                }
                (Expected::Next | Expected::Element, Some(b']'), Some(Container::Array)) => {
                    self.at += 1;
                    around.pop();
                    give(Token::End)?;
                    Expected::Next
                }
                (Expected::Next | Expected::FirstKey, Some(b'}'), Some(Container::Object)) => {
                    self.at += 1;
                    around.pop();
                    give(Token::End)?;
                    Expected::Next
                }
                (Expected::Next, _, None) => return Err(self.unexpected("end of input")),
                (Expected::Next, _, Some(Container::Array)) => {
                    return Err(self.unexpected("\",\" or \"]\""));
                }
                (Expected::Next, _, Some(Container::Object)) => {
                    return Err(self.unexpected("\",\" or \"}\""));
                }
                (Expected::Key | Expected::FirstKey, Some(b'"'), _) => {
                    let key = self.string()?;
                    self.skip_blanks();
                    if self.peek() != Some(b':') {
                        return Err(self.unexpected("\":\""));
                    }
                    self.at += 1;
                    give(Token::Key(key))?;
                    Expected::Value
                }
                (Expected::Key, ..) => return Err(self.unexpected("string")),
                (Expected::FirstKey, ..) => return Err(self.unexpected("string or \"}\"")),
                (Expected::Value | Expected::Element, Some(open @ (b'{' | b'[')), _) => {
                    if around.len() >= DEPTH_MAX {
                        let what = "stack depth limit exceeded";
                        return Err(Refusal::new("54001", what)
                            .hint(format!("JSON may be {DEPTH_MAX} arrays and objects deep.")));
                    }
                    self.at += 1;
                    let (of, first) = match open {
                        b'{' => (Container::Object, Expected::FirstKey),
                        _ => (Container::Array, Expected::Element),
                    };
                    around.push(of);
                    give(Token::Begin(of))?;
                    first
                }
                (Expected::Value | Expected::Element, Some(b'"'), _) => {
                    let string = self.string()?;
                    give(Token::String(string))?;
                    Expected::Next
                }
                (Expected::Value | Expected::Element, Some(b'-' | b'0'..=b'9'), _) => {
                    let number = self.number()?;
                    give(Token::Number(number))?;
                    Expected::Next
                }
                (Expected::Value | Expected::Element, Some(b't' | b'f' | b'n'), _)
                    if ["true", "false", "null"].contains(&self.shown()) =>
                {
                    let word = self.shown();
                    self.at += word.len();
                    give(Token::Word(word))?;
                    Expected::Next
                }
                (Expected::Element, ..) => return Err(self.unexpected("array element or \"]\"")),
                (Expected::Value, ..) => return Err(self.unexpected("JSON value")),
            };
        }
    }

    fn digits(&mut self) -> usize {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - begin
    }

    fn number(&mut self) -> Result<&'t str, Refusal> {
        let begin = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let zero = self.peek() == Some(b'0');
        let mut good = match self.digits() {
            0 => false,
            digits => !zero || digits == 1,
        };
        if self.peek() == Some(b'.') {
            self.at += 1;
            good &= self.digits() > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            good &= self.digits() > 0;
        }
        // What is stuck to it belongs to it.
        let rest = &self.text[self.at..];
        let stuck = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()));
        let stuck = stuck.unwrap_or(rest.len());
        let number = &self.text[begin..self.at + stuck];
        match good && stuck == 0 {
            true => Ok(number),
            false => Err(invalid(format!("Token \"{number}\" is invalid."))),
        }
    }

    /// What stands between quotes.
    fn string(&mut self) -> Result<&'t str, Refusal> {
        let begin = self.at + 1;
        self.at = begin;
        loop {
            match self.peek() {
                None => {
                    let token = &self.text[begin - 1..];
                    return Err(invalid(format!("Token \"{token}\" is invalid.")));
                }
                Some(b'"') => {
                    let string = &self.text[begin..self.at];
                    self.at += 1;
                    return Ok(string);
                }
                Some(control @ 0..0x20) => {
                    return Err(invalid(format!(
                        "Character with value 0x{control:02x} must be escaped."
                    )));
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Refusal> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        let what = "\"\\u\" must be followed by four hexadecimal digits.";
                        return Err(invalid(what.to_owned()));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            None => Err(invalid("The input string ended unexpectedly.".to_owned())),
            Some(_) => {
                let rest = &self.text[self.at..];
                let first = rest.chars().next().map(String::from).unwrap_or_default();
                Err(invalid(format!("Escape sequence \"\\{first}\" is invalid.")))
            }
        }
    }
}

/// A value of `jsonb`.
enum Node {
    /// As it is printed.
    Plain(String),
    Array(Vec<Node>),
    /// Keys without escapes.
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Its depth is bounded by [`DEPTH_MAX`].
    fn write(&self, out: &mut String) {
        match self {
            Node::Plain(text) => out.push_str(text),
            Node::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    element.write(out);
                }
                out.push(']');
            }
            Node::Object(fields) => {
                out.push('{');
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    quote(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// An array or object that is not at its end.
enum Open {
    Array(Vec<Node>),
    Object(Vec<(String, Node)>, Option<String>),
}

#[derive(Default)]
struct Maker {
    open: Vec<Open>,
    whole: Option<Node>,
}

impl Maker {
    fn take(&mut self, token: Token<'_>) -> Result<(), Refusal> {
        let node = match token {
            Token::Begin(Container::Array) => {
                self.open.push(Open::Array(Vec::new()));
                return Ok(());
            }
            Token::Begin(Container::Object) => {
                self.open.push(Open::Object(Vec::new(), None));
                return Ok(());
            }
            Token::Key(key) => {
                let key = unescaped(key)?;
                if let Some(Open::Object(_, last)) = self.open.last_mut() {
                    *last = Some(key);
                }
                return Ok(());
            }
            Token::End => match self.open.pop() {
                Some(Open::Array(elements)) => Node::Array(elements),
                Some(Open::Object(fields, _)) => Node::Object(sorted(fields)),
                None => return Ok(()),
            },
            Token::String(string) => {
                let mut text = String::with_capacity(string.len() + 2);
                quote(&unescaped(string)?, &mut text);
                Node::Plain(text)
            }
            Token::Number(number) => Node::Plain(normal_number(number)?),
            Token::Word(word) => Node::Plain(word.to_owned()),
        };
        match self.open.last_mut() {
            None => self.whole = Some(node),
            Some(Open::Array(elements)) => elements.push(node),
            Some(Open::Object(fields, key)) => fields.push((key.take().unwrap_or_default(), node)),
        }
        Ok(())
    }
}

/// Keys by length, then by bytes; of the same ones only the last.
fn sorted(fields: Vec<(String, Node)>) -> Vec<(String, Node)> {
    let mut fields = fields;
    fields.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
    let mut unique: Vec<(String, Node)> = Vec::with_capacity(fields.len());
    for field in fields {
        match unique.last_mut() {
            Some(last) if last.0 == field.0 => *last = field,
            _ => unique.push(field),
        }
    }
    unique
}

fn normal_number(number: &str) -> Result<String, Refusal> {
    let plain = |byte: &u8| byte.is_ascii_digit();
    if number.as_bytes().iter().all(plain) {
        return Ok(number.to_owned());
    }
    let mut out = Vec::new();
    Numeric::parse(number)?.write(&mut out);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What stood between quotes, without escapes.
fn unescaped(text: &str) -> Result<String, Refusal> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = &rest[(at + 2).min(rest.len())..];
        out.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => code_point(&mut rest)?,
            other => char::from(other),
        });
    }
    out.push_str(rest);
    Ok(out)
}

/// The four hexadecimal digits that a text begins with, which are taken off.
fn unit(rest: &mut &str) -> u32 {
    let (digits, after) = rest.split_at(4.min(rest.len()));
    *rest = after;
    u32::from_str_radix(digits, 16).unwrap_or(0)
}

/// A character by the four digits that `rest` begins with, or by two times four of a pair of surrogates.
fn code_point(rest: &mut &str) -> Result<char, Refusal> {
    let first = unit(rest);
    let surrogate = |which: &str| invalid(format!("Unicode {which}."));
    match first {
        0 => {
            let what = "unsupported Unicode escape sequence";
            Err(Refusal::new(code::UNTRANSLATABLE, what).detail("\\u0000 cannot be converted to text."))
        }
        0xd800..=0xdbff => {
            if !rest.starts_with("\\u") {
                return Err(surrogate("low surrogate must follow a high surrogate"));
            }
            *rest = &rest[2..];
            let second = unit(rest);
            match second {
                0xdc00..=0xdfff => {
                    let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    Ok(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
                }
                0xd800..=0xdbff => Err(surrogate("high surrogate must not follow a high surrogate")),
                _ => Err(surrogate("low surrogate must follow a high surrogate")),
            }
        }
        0xdc00..=0xdfff => Err(surrogate("low surrogate must follow a high surrogate")),
        other => Ok(char::from_u32(other).unwrap_or(char::REPLACEMENT_CHARACTER)),
    }
}

/// Appends a text in quotes.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jsonb_is_printed_as_postgresql_prints_it() {
        for (given, wanted) in [
            (" 1 ", "1"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.50e2", "150"),
            ("1e-3", "0.001"),
            (
                "12345678901234567890.123456789012345678901",
                "12345678901234567890.123456789012345678901",
            ),
            ("null", "null"),
            ("[ 1,2 , [ ] , { } ]", "[1, 2, [], {}]"),
            (
                r#"{"bb":1,"a":2,"b":{"y":[true,false]},"a":3}"#,
                r#"{"a": 3, "b": {"y": [true, false]}, "bb": 1}"#,
            ),
            (r#""a\u0041\/\u00e9\n\u0001""#, "\"aA/\u{e9}\\n\\u0001\""),
            (r#""\ud83d\ude00""#, "\"\u{1f600}\""),
            (r#""\"\\""#, r#""\"\\""#),
            ("{\"\u{e9}\":1,\"z\":2}", "{\"z\": 2, \"\u{e9}\": 1}"),
        ] {
            assert_eq!(normal_jsonb(given).as_deref(), Ok(wanted), "{given}");
            assert_eq!(check_json(given), Ok(()), "{given}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for (given, detail) in [
            ("", "The input string ended unexpectedly."),
            ("[1,", "The input string ended unexpectedly."),
            ("{\"a\"", "The input string ended unexpectedly."),
            ("[1,]", "Expected JSON value, but found \"]\"."),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
            ("{1}", "Expected string or \"}\", but found \"1\"."),
            ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
            ("{\"a\":1,}", "Expected string, but found \"}\"."),
            ("1 2", "Expected end of input, but found \"2\"."),
            ("abc", "Token \"abc\" is invalid."),
            ("truex", "Token \"truex\" is invalid."),
            ("01", "Token \"01\" is invalid."),
            ("1.", "Token \"1.\" is invalid."),
            ("1x", "Token \"1x\" is invalid."),
            ("-", "Token \"-\" is invalid."),
            ("'a'", "Token \"'\" is invalid."),
            ("\"a", "Token \"\"a\" is invalid."),
            ("\"a\nb\"", "Character with value 0x0a must be escaped."),
            ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
            (
                "\"\\u12g4\"",
                "\"\\u\" must be followed by four hexadecimal digits.",
            ),
        ] {
            let refused = check_json(given).expect_err(given);
            assert_eq!(
                (refused.code, refused.detail.as_deref()),
                ("22P02", Some(detail)),
                "{given}"
            );
            assert_eq!(normal_jsonb(given).expect_err(given), refused);
        }
        for (given, code) in [
            ("\"\\u0000\"", "22P05"),
            ("\"\\ud800\"", "22P02"),
            ("\"\\ud800\\ud800\"", "22P02"),
            ("\"\\udc00\"", "22P02"),
            ("1e200000", "22003"),
        ] {
            assert_eq!(check_json(given), Ok(()), "json keeps the text: {given}");
            assert_eq!(normal_jsonb(given).expect_err(given).code, code, "{given}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(
            normal_jsonb(&deep(DEPTH_MAX)).as_deref(),
            Ok(deep(DEPTH_MAX).as_str())
        );
        for depth in [DEPTH_MAX + 1, 1_000_000] {
            assert_eq!(normal_jsonb(&deep(depth)).expect_err("too deep").code, "54001");
            assert_eq!(check_json(&deep(depth)).expect_err("too deep").code, "54001");
        }
    }
}
