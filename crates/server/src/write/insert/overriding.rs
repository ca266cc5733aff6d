//! `OVERRIDING {SYSTEM | USER} VALUE`, which the parser does not know: it is found in the text of an INSERT, and blanked out for the parser.
//!
//! What it is not: a parser. It reads words up to the first that begins the rows, and no further.

use std::borrow::Cow;
use std::ops::Range;

/// What becomes of values that are given for identity columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// They are taken, whatever the column says.
    System,
    /// They are not taken: the column gives its own.
    User,
}

/// Words with which the rows begin, or the statement goes on behind them.
const ROWS_BEGIN: &[&str] = &["values", "select", "with", "default", "table", "returning"];

/// The text as the parser takes it: places stay what they are.
pub(crate) fn without_overriding(text: &str) -> Cow<'_, str> {
    match find(text) {
        None => Cow::Borrowed(text),
        Some((_, place)) => {
            let blanks = " ".repeat(place.len());
            Cow::Owned(format!("{}{blanks}{}", &text[..place.start], &text[place.end..]))
        }
    }
}

/// What the text of an INSERT says, if it does.
pub(super) fn overriding(text: &str) -> Option<Overriding> {
    find(text).map(|(found, _)| found)
}

fn find(text: &str) -> Option<(Overriding, Range<usize>)> {
    let mut words = Words {
        text,
        at: 0,
        depth: 0,
    };
    loop {
        let (word, place) = words.next()?;
        if ROWS_BEGIN.iter().any(|begin| word.eq_ignore_ascii_case(begin)) {
            return None;
        }
        if !word.eq_ignore_ascii_case("overriding") || words.depth > 0 {
            continue;
        }
        let (which, _) = words.next()?;
        let (value, end) = words.next()?;
        if !value.eq_ignore_ascii_case("value") {
            return None;
        }
        let found = match which {
            which if which.eq_ignore_ascii_case("system") => Overriding::System,
            which if which.eq_ignore_ascii_case("user") => Overriding::User,
            _ => return None,
        };
        return Some((found, place.start..end.end));
    }
}

/// Words of a text that are not quoted, and how deep they are in parentheses.
struct Words<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Words<'t> {
    fn next(&mut self) -> Option<(&'t str, Range<usize>)> {
        loop {
            let rest = &self.text[self.at..];
            let first = rest.chars().next()?;
            if first.is_alphabetic() || first == '_' {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
                let end = end.unwrap_or(rest.len());
                let place = self.at..self.at + end;
                self.at = place.end;
                return Some((&self.text[place.clone()], place));
            }
            self.at += match first {
                '"' | '\'' => 1 + rest[1..].find(first)? + 1,
                '-' if rest.starts_with("--") => rest.find('\n')?,
                '/' if rest.starts_with("/*") => rest.find("*/")? + 2,
                other => {
                    match other {
                        '(' => self.depth += 1,
                        ')' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    other.len_utf8()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_before_the_rows_only() {
        let found =
            overriding("INSERT INTO t (a, \"overriding system value\") overriding\n System VALUE VALUES (1)");
        assert_eq!(found, Some(Overriding::System));
        assert_eq!(
            overriding("insert into t OVERRIDING USER VALUE SELECT 1"),
            Some(Overriding::User)
        );
        assert_eq!(
            overriding("INSERT INTO t VALUES ('OVERRIDING SYSTEM VALUE')"),
            None
        );
        assert_eq!(
            overriding("INSERT INTO t /* OVERRIDING USER VALUE */ -- OVERRIDING USER VALUE\n SELECT 1"),
            None
        );
        assert_eq!(overriding("INSERT INTO t (overriding) VALUES (1)"), None);
        assert_eq!(overriding("INSERT INTO t OVERRIDING"), None);
        assert_eq!(overriding("INSERT INTO \"t"), None);
    }

    #[test]
    fn places_stay() {
        let text = "INSERT INTO tä OVERRIDING SYSTEM VALUE VALUES (1)";
        let blanked = without_overriding(text);
        assert_eq!(blanked.len(), text.len());
        assert_eq!(blanked.find("VALUES"), text.find("VALUES"));
        assert!(!blanked.contains("OVERRIDING"));
        assert!(matches!(without_overriding("SELECT 1"), Cow::Borrowed(_)));
    }
}
