//! [`lift`]: a simple query's text whose literals became parameters, so that the next text like it finds what was compiled for this one.
//!
//! ```text
//!   UPDATE t SET a = a + -12 WHERE id = 5        ─►  UPDATE t SET a = a + $1 WHERE id = $2      and  -12, 5
//! ```
//!
//! Only plain texts are lifted (no comments, no `E''`, `U&''` or dollar quotes, no backslash, one statement), and of their literals only those
//! behind a comparison or an arithmetic operator, in `BETWEEN`, and in the lists of `IN` and `VALUES`: there the planner never looks at a value.
//! All others stay in the text (`LIMIT 1`, `ORDER BY 1`, `interval '1 day'`, arguments of functions). The first text of a kind is planned both
//! ways, and counts only if both plans are equal. An `INSERT` has literals in its lists only, where a parameter is read as the column's type,
//! as a literal is.
//!
//! What it is not: a parser. It reads a text once, and knows words, quotes and numbers.

use crate::session::{NUMERIC_SCALE, read_scalar};
use corun_wire::values::{Kind, Numeric, TimeZone, Type};
use datafusion::common::ScalarValue;
use std::borrow::Cow;

/// Longest text that is looked at, and most literals of it.
const TEXT_BYTES_MAX: usize = 16 << 10;
const LITERALS_MAX: usize = 64;
/// Parentheses within each other.
const DEPTH_MAX: usize = 64;

/// The types that parameters are declared as: what the planner makes of literals. That of a text, or of an integer beside a `bigint`, is what
/// stands beside it.
const INT4: u32 = 23;
const INT8: u32 = 20;
const NUMERIC: u32 = 1700;
const PRECISION: u8 = 38;

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Int(i64),
    /// As it is written.
    Decimal(String),
    Text(String),
}

impl Literal {
    /// What the planner makes of it beside what has this type; `None`: the text itself says what is wrong with it.
    pub(crate) fn scalar(&self, of: Type, zone: &dyn TimeZone) -> Option<ScalarValue> {
        match self {
            Literal::Int(value) if of == Type::INT8 => Some(ScalarValue::Int64(Some(*value))),
            Literal::Int(value) => i32::try_from(*value)
                .ok()
                .map(|value| ScalarValue::Int32(Some(value))),
            Literal::Decimal(written) => match Numeric::parse(written).ok()? {
                Numeric::Finite(number) => {
                    let value = number.to_i128(NUMERIC_SCALE.unsigned_abs())?;
                    let fits = value.unsigned_abs() < 10u128.pow(u32::from(PRECISION));
                    fits.then_some(ScalarValue::Decimal128(Some(value), PRECISION, NUMERIC_SCALE))
                }
                _ => None,
            },
            Literal::Text(text) => read_scalar(of, text, zone),
        }
    }

    fn is_wide(&self) -> bool {
        matches!(self, Literal::Int(value) if i32::try_from(*value).is_err())
    }

    /// As a parameter in text format.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Literal::Int(value) => Cow::Owned(value.to_string()),
            Literal::Decimal(text) | Literal::Text(text) => Cow::Borrowed(text),
        }
    }

    /// Whether a column of a type takes the parameter just where it takes the literal, and as the same value.
    pub(crate) fn may_be_inserted_as(&self, of: Type) -> bool {
        let is_number = matches!(
            of.kind,
            Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Numeric | Kind::Float4 | Kind::Float8
        );
        !of.array && (is_number || matches!(self, Literal::Text(_)))
    }
}

/// A text whose literals became parameters.
#[derive(Debug, PartialEq)]
pub(crate) struct Lifted {
    /// With `$1` to `$n`, and behind a zero byte what kinds the literals were: two texts with one key mean the same but for their values.
    key: String,
    /// Bytes of the text alone.
    length: usize,
    pub(crate) values: Vec<Literal>,
    pub(crate) is_insert: bool,
}

impl Lifted {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The statement with parameters.
    pub(crate) fn text(&self) -> &str {
        &self.key[..self.length]
    }

    /// The types of the parameters; 0 where what stands beside it decides.
    pub(crate) fn types(&self) -> Vec<u32> {
        let of = |value: &Literal| match value {
            _ if self.is_insert => 0,
            Literal::Int(_) if value.is_wide() => INT8,
            Literal::Int(_) => INT4,
            Literal::Decimal(_) => NUMERIC,
            Literal::Text(_) => 0,
        };
        self.values.iter().map(of).collect()
    }
}

/// What stands before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A literal here is only its value.
    Value,
    /// The same, in a list.
    Item,
    /// A `-` behind what a value may follow.
    Minus,
    /// A comma behind a list of `VALUES`.
    Lists,
    Literal,
    Other,
}

/// Lifts the literals of a text; `None`: it is doubtful, or has none that can be.
pub(crate) fn lift(text: &str) -> Option<Lifted> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut reader = Reader {
        text,
        at: 0,
        copied: 0,
        out: String::with_capacity(text.len() + 16),
        values: Vec::new(),
        before: Before::Other,
        word: "",
        lists: Vec::new(),
        closed_list: false,
        between: 0,
        is_insert: false,
    };
    let mut first = true;
    while let Some(byte) = reader.peek() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                reader.at += 1;
                continue;
            }
            _ if first => {
                let word = reader.take_word();
                let known = ["select", "update", "delete", "insert"];
                if !known.iter().any(|known| word.eq_ignore_ascii_case(known)) {
                    return None;
                }
                reader.is_insert = word.eq_ignore_ascii_case("insert");
                first = false;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => reader.word()?,
            b'0'..=b'9' => reader.number()?,
            b'\'' => reader.string()?,
            b'"' => reader.quoted()?,
            b';' => return reader.ended(),
            _ => reader.sign(byte)?,
        }
    }
    reader.finish()
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Bytes of the text that are in `out`, or were left out.
    copied: usize,
    out: String,
    values: Vec<Literal>,
    before: Before,
    /// The last token, if it was a word.
    word: &'t str,
    /// For each open parenthesis, whether it is a list of `IN` or `VALUES`.
    lists: Vec<bool>,
    /// The parenthesis that was closed last is one.
    closed_list: bool,
    /// `BETWEEN`s whose `AND` has not come.
    between: usize,
    is_insert: bool,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take_word(&mut self) -> &'t str {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        while self.at < bytes.len() && is_word(bytes[self.at]) {
            self.at += 1;
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    fn word(&mut self) -> Option<()> {
        let word = self.take_word();
        // `E'...'`, `N'...'`, `U&'...'`.
        if matches!(self.peek(), Some(b'\'' | b'&')) {
            return None;
        }
        self.before = Before::Other;
        if word.eq_ignore_ascii_case("between") {
            self.between += 1;
            self.before = Before::Value;
        } else if word.eq_ignore_ascii_case("and") && self.between > 0 {
            self.between -= 1;
            self.before = Before::Value;
        }
        self.word = word;
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        // `.5`
        if begin > 0 && bytes[begin - 1] == b'.' {
            return None;
        }
        let mut end = digits(begin);
        let decimal = bytes.get(end) == Some(&b'.');
        if decimal {
            let fraction = digits(end + 1);
            if fraction == end + 1 {
                return None;
            }
            end = fraction;
        }
        if bytes.get(end).is_some_and(|next| is_word(*next) || *next == b'.') {
            return None;
        }
        self.at = end;
        let (from, lifts) = match self.before {
            Before::Value | Before::Item => (begin, true),
            // The sign belongs to it.
            Before::Minus => (self.text[..begin].rfind('-')?, true),
            Before::Literal => return None,
            Before::Lists | Before::Other => (begin, false),
        };
        if lifts {
            let digits = &self.text[begin..end];
            let written = match from < begin {
                true => format!("-{digits}"),
                false => digits.to_owned(),
            };
            let value = match decimal {
                true => Some(Literal::Decimal(written)),
                false => written.parse().ok().map(Literal::Int),
            };
            // A number that is too long for its type is of another one.
            if let Some(value) = value {
                self.lifted(from, value)?;
            }
        }
        self.after_literal();
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let mut at = begin + 1;
        let mut quotes = false;
        loop {
            match bytes.get(at)? {
                b'\\' => return None,
                b'\'' if bytes.get(at + 1) == Some(&b'\'') => {
                    quotes = true;
                    at += 2;
                }
                b'\'' => break,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        match self.before {
            // Two strings are one, on two lines.
            Before::Literal => return None,
            Before::Value | Before::Item => {
                let inside = &self.text[begin + 1..at];
                let value = match quotes {
                    true => inside.replace("''", "'"),
                    false => inside.to_owned(),
                };
                self.lifted(begin, Literal::Text(value))?;
            }
            Before::Minus | Before::Lists | Before::Other => {}
        }
        self.after_literal();
        Some(())
    }

    fn quoted(&mut self) -> Option<()> {
        // `U&"..."`, or a name that goes on.
        if self.at > 0 && matches!(self.text.as_bytes()[self.at - 1], b'&' | b'"') {
            return None;
        }
        let inside = &self.text[self.at + 1..];
        let end = inside.find('"')?;
        if inside.as_bytes().get(end + 1) == Some(&b'"') {
            return None;
        }
        self.at += end + 2;
        self.before = Before::Other;
        self.word = "";
        Some(())
    }

    fn sign(&mut self, byte: u8) -> Option<()> {
        let next = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 1;
        let word = std::mem::take(&mut self.word);
        let before = std::mem::replace(&mut self.before, Before::Other);
        match byte {
            b'(' => {
                let is_list = before == Before::Lists
                    || word.eq_ignore_ascii_case("in")
                    || word.eq_ignore_ascii_case("values");
                if self.lists.len() == DEPTH_MAX {
                    return None;
                }
                self.lists.push(is_list);
                if is_list {
                    self.before = Before::Item;
                }
            }
            b')' => self.closed_list = self.lists.pop()?,
            b',' if self.lists.last() == Some(&true) => self.before = Before::Item,
            b',' if self.closed_list && self.text[..self.at - 1].trim_end().ends_with(')') => {
                self.before = Before::Lists;
            }
            b',' | b'.' => {}
            b'-' if next == Some(b'-') => return None,
            b'/' if next == Some(b'*') => return None,
            b'-' if matches!(before, Before::Value | Before::Item) => self.before = Before::Minus,
            // `*` of a select list or of `count(*)` is followed by no literal.
            b'=' | b'<' | b'>' | b'!' | b'+' | b'-' | b'*' | b'/' | b'%' => self.before = Before::Value,
            _ => return None,
        }
        Some(())
    }

    fn after_literal(&mut self) {
        self.before = Before::Literal;
        self.word = "";
    }

    /// Puts a parameter in the place of the text from `from` to here.
    fn lifted(&mut self, from: usize, value: Literal) -> Option<()> {
        // In an INSERT, nothing but a whole value of a list.
        if self.is_insert {
            let before = self.text[..from].trim_ascii_end();
            let after = self.text[self.at..].trim_ascii_start();
            if !before.ends_with(['(', ',']) || !after.starts_with([')', ',']) {
                return None;
            }
        }
        if self.values.len() == LITERALS_MAX {
            return None;
        }
        self.out.push_str(&self.text[self.copied..from]);
        self.values.push(value);
        let number = self.values.len();
        self.out.push('$');
        self.out.push_str(&number.to_string());
        self.copied = self.at;
        Some(())
    }

    /// At a semicolon, behind which nothing may stand.
    fn ended(mut self) -> Option<Lifted> {
        let end = self.at;
        if !self.text[end + 1..].trim_ascii().is_empty() {
            return None;
        }
        self.text = &self.text[..end];
        self.finish()
    }

    fn finish(mut self) -> Option<Lifted> {
        if self.values.is_empty() || !self.lists.is_empty() {
            return None;
        }
        self.out.push_str(&self.text[self.copied..]);
        let length = self.out.len();
        self.out.push('\0');
        self.out.extend(self.values.iter().map(|value| match value {
            wide if wide.is_wide() => 'l',
            Literal::Int(_) => 'i',
            Literal::Decimal(_) => 'n',
            Literal::Text(_) => 't',
        }));
        Some(Lifted {
            key: self.out,
            length,
            values: self.values,
            is_insert: self.is_insert,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(text: &str) -> Option<(String, Vec<Literal>)> {
        lift(text).map(|lifted| (lifted.text().to_owned(), lifted.values))
    }

    fn int(value: i64) -> Literal {
        Literal::Int(value)
    }

    fn text(value: &str) -> Literal {
        Literal::Text(value.to_owned())
    }

    #[test]
    fn literals_become_parameters() {
        for (sql, wanted, values) in [
            (
                "UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 567;",
                "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
                vec![int(-1234), int(567)],
            ),
            (
                "select a from t where k=5",
                "select a from t where k=$1",
                vec![int(5)],
            ),
            (
                "select a from t where k = - 5",
                "select a from t where k = $1",
                vec![int(-5)],
            ),
            (
                "select a from t where k - 5 = 3",
                "select a from t where k - $1 = $2",
                vec![int(5), int(3)],
            ),
            (
                "select a from t where k = 5-3",
                "select a from t where k = $1-$2",
                vec![int(5), int(3)],
            ),
            (
                "select a from t where k between 1 and 20 and n = 'it''s'",
                "select a from t where k between $1 and $2 and n = $3",
                vec![int(1), int(20), text("it's")],
            ),
            (
                "insert into t (a, b) values (1, 'x'), (2, 'y')",
                "insert into t (a, b) values ($1, $2), ($3, $4)",
                vec![int(1), text("x"), int(2), text("y")],
            ),
            (
                "select \"a 5\", 7 from t1 where k in (1, 2) and f(3) = 4 order by 1 limit 10",
                "select \"a 5\", 7 from t1 where k in ($1, $2) and f(3) = $3 order by 1 limit 10",
                vec![int(1), int(2), int(4)],
            ),
            (
                "select a from t where d > date '2020-01-01' and x = 1.5",
                "select a from t where d > date '2020-01-01' and x = $1",
                vec![Literal::Decimal("1.5".to_owned())],
            ),
            (
                "select a from t where k = 99999999999999999999 and a = 1",
                "select a from t where k = 99999999999999999999 and a = $1",
                vec![int(1)],
            ),
            (
                "select a from t where d > now() - interval '1 day' and k = -9223372036854775808",
                "select a from t where d > now() - interval '1 day' and k = $1",
                vec![int(i64::MIN)],
            ),
            (
                "delete from t where ä = 'ö'",
                "delete from t where ä = $1",
                vec![text("ö")],
            ),
        ] {
            assert_eq!(lifted(sql), Some((wanted.to_owned(), values)), "{sql}");
        }
    }

    #[test]
    fn doubtful_texts_stay_as_they_are() {
        for sql in [
            "",
            "select 1",
            "select a from t",
            "begin",
            "vacuum t where a = 1",
            "select a from t where k = 1 -- and n = 2",
            "select a from t where k = 1 /* x */",
            "select a from t where k = 1; select 2",
            "select a from t where k = E'x'",
            "select a from t where k = U&'x'",
            "select a from t where U&\"k\" = 1",
            "select a from t where k = $$x$$",
            "select a from t where k = $1",
            "select a from t where k = 'a\\b'",
            "select a from t where k = 'a'\n 'b'",
            "select a from t where k = 'a",
            "select a from t where \"k = 1",
            "select a from t where \"k\"\"l\" = 1",
            "select a from t where k = 1e5",
            "select a from t where k = 0x10",
            "select a from t where k = .5",
            "select a from t where k = 5.",
            "select a from t where k = 1_000",
            "select a from t where k = 5::bigint",
            "select a[1] from t where k = 5",
            "select a from t where k = 5)",
            "select a from t where (k = 5",
            "select a from t where k = 5 | 3",
            "insert into t values (1 2)",
            "insert into t values (1 + 2)",
            "insert into t values (a = 2)",
            "insert into t select a from u where b = 2",
            "insert into t values (1) on conflict (a) do update set b = 5",
        ] {
            assert_eq!(lifted(sql), None, "{sql}");
        }
    }

    #[test]
    fn kinds_of_literals_are_part_of_the_key() {
        let key = |sql: &str| lift(sql).map(|lifted| lifted.key().to_owned());
        let number = key("select a from t where k = 5");
        assert_eq!(number, key("select a from t where k = -12345"));
        assert_ne!(number, key("select a from t where k = 123456789012"));
        assert_ne!(number, key("select a from t where k = 'x'"));
        assert_ne!(number, key("select a from t where k = 5.0"));
        assert_ne!(number, key("select a from t where k = 5 "));
        assert_ne!(number, key("select a from T where k = 5"));
    }
}
