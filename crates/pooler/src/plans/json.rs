//! [`Json`]: a bounded reader of JSON, for the answers of `EXPLAIN`.
//!
//! Small on purpose: values are kept as they came, numbers as `f64`. Text longer than [`SIZE_MAX`] and nesting beyond
//! [`DEPTH_MAX`] are refused, so that no plan of a client takes the proxy's memory or stack.

use super::PlanError;

/// Longest text that is read.
pub(super) const SIZE_MAX: usize = 4 << 20;
/// Deepest nesting; each level of a plan takes two.
pub(super) const DEPTH_MAX: usize = 256;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value and nothing behind it.
    pub fn read(text: &str) -> Result<Json, PlanError> {
        if text.len() > SIZE_MAX {
            return Err(PlanError::TooLarge(text.len()));
        }
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.wrong("the end"));
        }
        Ok(value)
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// A member that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A member that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(Json::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A member that is a whole number of at least 0.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.number(name)
            .filter(|number| (0.0..=9e15).contains(number))
            .map(|number| number as u64)
    }

    /// Whether a member is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Json::Bool(true))
    }

    /// A member's values; empty where it is no list.
    pub fn list(&self, name: &str) -> &[Json] {
        match self.get(name) {
            Some(Json::List(values)) => values,
            _ => &[],
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, wanted: &'static str) -> PlanError {
        PlanError::Json { wanted, at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes a byte if it comes next.
    fn took(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, PlanError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.wrong("a value"))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, PlanError> {
        if depth > DEPTH_MAX {
            return Err(PlanError::TooDeep);
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, PlanError> {
        let member = |reader: &mut Self| {
            reader.space();
            let name = reader.string()?;
            if !reader.took(b':') {
                return Err(reader.wrong("a colon"));
            }
            Ok((name, reader.value(depth + 1)?))
        };
        self.members(b'}', "a comma or the end of an object", member)
            .map(Json::Object)
    }

    fn array(&mut self, depth: usize) -> Result<Json, PlanError> {
        let value = |reader: &mut Self| reader.value(depth + 1);
        self.members(b']', "a comma or the end of a list", value)
            .map(Json::List)
    }

    /// What stands between an opening bracket and `close`, with commas between them.
    fn members<T>(
        &mut self,
        close: u8,
        wanted: &'static str,
        mut member: impl FnMut(&mut Self) -> Result<T, PlanError>,
    ) -> Result<Vec<T>, PlanError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.took(close) {
            return Ok(members);
        }
        loop {
            members.push(member(self)?);
            if self.took(close) {
                return Ok(members);
            }
            if !self.took(b',') {
                return Err(self.wrong(wanted));
            }
        }
    }

    fn number(&mut self) -> Result<Json, PlanError> {
        let from = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        self.text[from..self.at]
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Json::Number)
            .ok_or_else(|| self.wrong("a number"))
    }

    fn string(&mut self) -> Result<String, PlanError> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a string"));
        }
        self.at += 1;
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            // Both are single bytes of their own in UTF-8, so the text is cut between characters.
            let Some(plain) = rest.find(['"', '\\']) else {
                return Err(self.wrong("the end of a string"));
            };
            value.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(value);
            }
            value.push(self.escaped()?);
        }
    }

    /// The character behind a backslash.
    fn escaped(&mut self) -> Result<char, PlanError> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'u') => {
                let high = self.code()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                // The other half of a character beyond 16 bits.
                let low = match self.text.as_bytes().get(self.at..self.at + 2) {
                    Some(b"\\u") => {
                        self.at += 2;
                        self.code()?
                    }
                    _ => 0,
                };
                let both = 0x10000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
                char::from_u32(both)
                    .filter(|_| (0xdc00..0xe000).contains(&low))
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => {
                self.at -= 1;
                return Err(self.wrong("an escaped character"));
            }
        })
    }

    fn code(&mut self) -> Result<u32, PlanError> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.wrong("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_all_kinds() {
        let read = Json::read(
            " [ {\"a\": -1.5e2, \"b\": [true, false, null], \"c\": \"x\\n\\\"\\u00e4\\ud83d\\ude00ö\"}, {} , [] ] ",
        )
        .expect("JSON");
        let Json::List(values) = &read else {
            panic!("{read:?}")
        };
        assert_eq!(values[0].number("a"), Some(-150.0));
        assert_eq!(
            values[0].list("b"),
            [Json::Bool(true), Json::Bool(false), Json::Null]
        );
        assert_eq!(values[0].text("c"), Some("x\n\"ä😀ö"));
        assert_eq!(values[1..], [Json::Object(Vec::new()), Json::List(Vec::new())]);
        assert_eq!((values[0].count("a"), values[0].get("z")), (None, None));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "tru",
            "\"x",
            "\"\\q\"",
            "\"\\u12\"",
            "1 2",
            "--1",
            "1e999",
            "\"\\",
            "\"\\u00ä\"",
            "[\"\\ud800\\u\"]",
        ] {
            assert!(matches!(Json::read(text), Err(PlanError::Json { .. })), "{text}");
        }
        let halves = Json::read("[\"\\ud800x\", \"\\ud800\\u0041\"]").expect("JSON");
        let replaced = |text: &str| Json::Text(text.into());
        assert_eq!(
            halves,
            Json::List(vec![replaced("\u{fffd}x"), replaced("\u{fffd}")])
        );
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let deep = "[".repeat(DEPTH_MAX + 2);
        assert!(matches!(Json::read(&deep), Err(PlanError::TooDeep)));
        let nested = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(Json::read(&nested).is_ok());
        let long = " ".repeat(SIZE_MAX + 1);
        assert!(matches!(Json::read(&long), Err(PlanError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[\\[\\]{}\",:\\\\ua-e0-9.ä\u{10000} -]{0,60}") {
            let _ = Json::read(&text);
        }

        #[test]
        fn strings_come_back(text in "\\PC{0,30}") {
            let written = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(Json::read(&written).ok(), Some(Json::Text(text)));
        }
    }
}
