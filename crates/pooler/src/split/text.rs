//! [`Template`]: a statement written out once, with places for what differs from part to part and from execution to execution.

use pg_query::protobuf as pb;
use pg_query::{DeparseOptions, NodeEnum};

use super::Refusal;
use super::walk::{node, without_locations};
use crate::session::settings::literal;
use crate::understand::guarded_parse;

/// The parameter number that stands for the split predicate while a statement is written out; those after it stand for values
/// computed once. Servers allow no parameter of such a number.
const MARK: i32 = 1_000_000_000;
/// What no text may contain, so that marks are found.
pub(super) const MARK_TEXT: &str = "$1000000";
/// Most sub-selects that are evaluated once.
pub(super) const ONCE_MAX: usize = 16;

/// The parameter that stands for the split predicate.
pub(super) fn predicate_mark() -> i32 {
    MARK
}

/// The parameter that stands for a value computed once.
pub(super) fn once_mark(number: usize) -> i32 {
    MARK + 1 + i32::try_from(number).unwrap_or(0)
}

/// The value a parameter stands for.
pub(super) fn once_of(parameter: i32) -> Option<usize> {
    usize::try_from(parameter.checked_sub(MARK + 1)?).ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Predicate,
    Once(usize),
}

/// A statement with places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

impl Template {
    /// Writes a statement out.
    ///
    /// # Errors
    /// What was written does not read back as the same tree.
    pub fn of(select: &pb::SelectStmt) -> Result<Self, Refusal> {
        let text = written(select)?;
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(MARK_TEXT) {
            let digits: String = rest[at + 1..].chars().take_while(char::is_ascii_digit).collect();
            let number: i32 = digits.parse().map_err(|_| Refusal::Rewrite)?;
            pieces.push(Piece::Text(rest[..at].to_owned()));
            pieces.push(match once_of(number) {
                Some(number) => Piece::Once(number),
                None => Piece::Predicate,
            });
            rest = &rest[at + 1 + digits.len()..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Template(pieces))
    }

    /// The text with its places filled. Both hand out complete expressions in brackets.
    pub fn fill(&self, predicate: &str, once: impl Fn(usize) -> String) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Predicate => out.push_str(predicate),
                Piece::Once(number) => out.push_str(&once(*number)),
            }
        }
        out
    }
}

/// A statement as text that reads back as the same tree.
pub(super) fn written(select: &pb::SelectStmt) -> Result<String, Refusal> {
    let statement = node(NodeEnum::SelectStmt(Box::new(select.clone())));
    let tree = pb::ParseResult {
        version: 0,
        stmts: vec![pb::RawStmt {
            stmt: Some(Box::new(statement.clone())),
            stmt_location: 0,
            stmt_len: 0,
        }],
    };
    let text = pg_query::deparse(&tree, DeparseOptions::default()).map_err(|_| Refusal::Rewrite)?;
    let again = guarded_parse(&text).ok_or(Refusal::Rewrite)?;
    let same = match again.stmts.as_slice() {
        [
            pb::RawStmt {
                stmt: Some(again), ..
            },
        ] => without_locations((**again).clone()) == without_locations(statement),
        _ => false,
    };
    if same { Ok(text) } else { Err(Refusal::Rewrite) }
}

/// A name in double quotes.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name in double quotes, behind that of its schema or table if there is one.
pub(crate) fn qualified(qualifier: Option<&str>, name: &str) -> String {
    match qualifier {
        Some(qualifier) => format!("{}.{}", quoted_name(qualifier), quoted_name(name)),
        None => quoted_name(name),
    }
}

/// A string that reads alike whatever `standard_conforming_strings` is.
pub(crate) fn quoted(text: &str) -> String {
    // The blank in front is for texts put together without any.
    literal(text).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::walk::{parameter, parsed_select};

    #[test]
    fn places_are_found_and_filled() {
        let text = "select a, 'it''s' from t where b";
        let mut select = parsed_select(text).expect("a select");
        select.where_clause = Some(Box::new(parameter(predicate_mark())));
        select.limit_count = Some(Box::new(parameter(once_mark(3))));
        select.limit_option = pb::LimitOption::Count.into();
        let template = Template::of(&select).expect("written");
        assert_eq!(
            template.fill("(k < 1)", |number| format!("({number})")),
            "SELECT a, 'it''s' FROM t WHERE (k < 1) LIMIT (3)"
        );
    }

    #[test]
    fn quotes() {
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(quoted("a\\b"), "E'a\\\\b'");
        assert_eq!(quoted_name("a\"b"), "\"a\"\"b\"");
    }
}
