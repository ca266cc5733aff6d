//! How large and how deep a statement may be, found from its words before anything recurses over them.
//!
//! `1 + 1 + 1 ...` is parsed into a tree as deep as it has operators. Parser, planner and expressions walk such trees by calling themselves, and so
//! does dropping them: a text of a megabyte would overflow the stack, which ends the whole process. Parentheses within parentheses are counted by
//! the parser itself (50).

use super::Word;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Words and signs of one text, at most. Each takes some hundred bytes until its statement is planned.
const WORDS_MAX: usize = 500_000;

/// The same before it is known what is within a literal, of which each word counts.
const PIECES_MAX: usize = 2 * WORDS_MAX;

/// Operators that one expression, or one chain of `UNION` or `JOIN`, may have: the stacks of the threads that walk them are made for it.
/// Planning cannot be interrupted, and takes the square of their number, or more: a second or a few for so many.
const OPERATORS_MAX: usize = 1_000;

/// What a cast counts: DataFusion's planner takes the cube of their number.
const CAST: usize = 10;

/// What `||` counts, for the same reason.
const CONCATENATION: usize = 2;

/// Words that put what stands before them and behind them into one node, or a statement into another.
const CHAINING: [&str; 34] = [
    "AND",
    "AT",
    "BETWEEN",
    "COLLATE",
    "COPY",
    "DECLARE",
    "DIV",
    "ESCAPE",
    "EXCEPT",
    "EXPLAIN",
    "ILIKE",
    "IN",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "ISNULL",
    "JOIN",
    "LIKE",
    "MATCH_RECOGNIZE",
    "MEMBER",
    "MINUS",
    "NOT",
    "NOTNULL",
    "OPERATOR",
    "OR",
    "OVERLAPS",
    "PIVOT",
    "PREPARE",
    "REGEXP",
    "RLIKE",
    "SIMILAR",
    "UNION",
    "UNPIVOT",
    "XOR",
];

/// Points of one name that count nothing; each further one is a field of what stands before it.
const POINTS_FREE: usize = 4;

/// Operators of what stands between two parentheses.
#[derive(Default)]
struct Level {
    /// Since the last comma.
    here: usize,
    /// Most of those that a comma has ended.
    deepest: usize,
}

impl Level {
    fn end_item(&mut self) {
        self.deepest = self.deepest.max(self.here);
        self.here = 0;
    }
}

fn too_long(words: usize) -> Refusal {
    let what = format!("the text has {words} words and signs, more than {WORDS_MAX}");
    let hint = "Put long lists into a file and join with it, or pass them as one parameter.";
    Refusal::new(code::PROGRAM_LIMIT, what).hint(hint)
}

/// Refuses a text with too many words to look at.
///
/// # Errors
/// 54000.
pub(super) fn check_text(text: &str) -> Result<(), Refusal> {
    let of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let (mut pieces, mut in_word) = (0, false);
    for byte in text.bytes() {
        let now = of_word(byte);
        pieces += usize::from(!((now && in_word) || byte.is_ascii_whitespace()));
        in_word = now;
    }
    match pieces > PIECES_MAX {
        true => Err(too_long(pieces)),
        false => Ok(()),
    }
}

/// Refuses a text that is too long, or whose expressions are too deep.
///
/// # Errors
/// 54000 and 54001.
pub(super) fn check(words: &[Word], text: &str) -> Result<(), Refusal> {
    if words.len() > WORDS_MAX {
        return Err(too_long(words.len()));
    }
    let mut levels = vec![Level::default()];
    // Of the name that is being read.
    let (mut points, mut behind_point) = (0, false);
    for word in words {
        if !std::mem::replace(&mut behind_point, word.token == Token::Period) && !behind_point {
            points = 0;
        }
        let Some(level) = levels.last_mut() else {
            return Ok(());
        };
        match &word.token {
            Token::LParen => levels.push(Level::default()),
            // Subscripts stand one behind the other.
            Token::LBracket => {
                level.here += 1;
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket => {
                level.end_item();
                let inside = level.deepest;
                if levels.len() > 1 {
                    levels.pop();
                }
                if let Some(level) = levels.last_mut() {
                    level.here += inside;
                }
            }
            Token::Comma | Token::SemiColon => level.end_item(),
            Token::Word(name) if name.quote_style.is_some() => {}
            Token::Word(name) => {
                let chains = |known: &&str| known.eq_ignore_ascii_case(&name.value);
                level.here += usize::from(CHAINING.iter().any(chains));
            }
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_) => {}
            Token::Period => {
                points += 1;
                level.here += usize::from(points > POINTS_FREE);
            }
            Token::DoubleColon => level.here += CAST,
            Token::StringConcat => level.here += CONCATENATION,
            _ => level.here += 1,
        }
        let too_deep = levels.last().is_some_and(|level| level.here > OPERATORS_MAX);
        if too_deep {
            let what = format!("an expression has more than {OPERATORS_MAX} operators in a row");
            return Err(Refusal::new("54001", what)
                .hint("Write long conditions as IN (...), or join with a list of values.")
                .at(text, word.begin));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::words;
    use super::*;

    fn code(text: &str) -> &'static str {
        check(&words(text).unwrap(), text).map_or_else(|refusal| refusal.code, |()| "")
    }

    #[test]
    fn lists_are_long_and_expressions_are_not_deep() {
        let many = |count: usize, of: &str| vec![of; count].join("");
        assert_eq!(code(&format!("SELECT n IN ({}1)", many(9_000, "-1 + 2, "))), "");
        assert_eq!(code(&format!("SELECT {}1", many(800, "1 + "))), "");
        assert_eq!(code(&format!("SELECT {}1", many(1_200, "1 + "))), "54001");
        assert_eq!(code(&format!("SELECT {}1", many(400, "a.b.c.d = 1 OR "))), "");
        // From the inside out, each within the parentheses of the next.
        let inside = many(400, "1 + ");
        assert_eq!(
            code(&format!("SELECT ((({inside}1) + {inside}1) + {inside}1)")),
            "54001"
        );
        for chain in [
            "x IS NULL AND ",
            "NOT ",
            "x::int::int || ",
            "a[1][1] - ",
            "SELECT 1 UNION ALL ",
            "SELECT 1 MINUS ",
            "INTERVAL ",
            "1 XOR ",
            "1 OPERATOR(+) ",
            "x.y.z.",
        ] {
            assert_eq!(
                code(&format!("SELECT {}1", many(6_000, chain))),
                "54001",
                "{chain}"
            );
        }
        assert_eq!(code(&many(200_000, "SELECT 1;")), "54000");
        assert_eq!(code(")))]]]("), "");
        assert_eq!(
            check_text(&many(400_000, "1234567, ")).map_err(|refusal| refusal.code),
            Ok(())
        );
        assert_eq!(
            check_text(&many(1_200_000, "1234567, ")).unwrap_err().code,
            "54000"
        );
    }
}
