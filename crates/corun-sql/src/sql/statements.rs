//! Cutting SQL text into statements at semicolons and backslash commands, with quotes, comments and dollar quotes respected.
//!
//! Not a parser: it only knows where a statement ends and where not. The engine's own parser sees each statement as the
//! user wrote it, so positions in its messages are right.

/// A text cut into pieces.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Finished statements and commands, in order.
    pub pieces: Vec<Piece<'a>>,
    /// What follows the last piece, trimmed; empty when it is only blanks and comments.
    pub rest: &'a str,
}

/// A statement or a command, trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A statement without its semicolon; empty ones are left out.
    Statement(&'a str),
    /// A backslash command: from its backslash to the end of the line.
    Command {
        /// With its arguments.
        command: &'a str,
        /// The statement that it ends, as `\g` does; may be empty.
        statement: &'a str,
    },
}

/// Cuts `text`; an open quote or comment swallows everything after it into `rest`.
pub fn split(text: &str) -> Split<'_> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut position = 0;
    let mut blank = true;
    while position < text.len() {
        let (kind, length) = token(&text[position..]);
        let statement = if blank { "" } else { text[start..position].trim() };
        let piece = match kind {
            Token::End => Some(Piece::Statement(statement)).filter(|_| !blank),
            Token::Command => Some(Piece::Command {
                command: text[position..position + length].trim(),
                statement,
            }),
            Token::Blank | Token::Other => None,
        };
        pieces.extend(piece);
        position += length;
        match kind {
            Token::End | Token::Command => {
                start = position;
                blank = true;
            }
            Token::Blank => {}
            Token::Other => blank = false,
        }
    }
    let rest = if blank { "" } else { text[start..].trim() };
    Split { pieces, rest }
}

/// Whether a query may give other rows each time it runs: it has a `LIMIT` (or `FETCH FIRST`) without an `ORDER BY` beside it.
pub fn has_limit_without_order(sql: &str) -> bool {
    // For each open parenthesis, and for the statement: whether ORDER BY was seen in it, and LIMIT.
    let mut open = vec![(false, false)];
    let mut position = 0;
    let mut found = false;
    while position < sql.len() {
        let (kind, length) = token(&sql[position..]);
        let text = &sql[position..position + length];
        position += length;
        let last = open.len() - 1;
        match text {
            "(" => open.push((false, false)),
            ")" if last > 0 => {
                let (ordered, limited) = open[last];
                found |= limited && !ordered;
                open.pop();
            }
            _ if kind == Token::Other => match text.to_ascii_lowercase().as_str() {
                "order" => open[last].0 = true,
                "limit" | "fetch" => open[last].1 = true,
                _ => {}
            },
            _ => {}
        }
    }
    found || open.into_iter().any(|(ordered, limited)| limited && !ordered)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A semicolon outside quotes.
    End,
    /// A backslash outside quotes, and the rest of its line.
    Command,
    /// White space or a comment.
    Blank,
    /// Anything else, quoted text whole.
    Other,
}

/// The first token of a text that is not empty, and its length in bytes.
fn token(text: &str) -> (Token, usize) {
    let first = text.chars().next().map_or(' ', |c| c);
    let line = |text: &str| text.find('\n').map_or(text.len(), |at| at + 1);
    match first {
        ';' => (Token::End, 1),
        '\\' => (Token::Command, line(text)),
        '\'' | '"' | '`' => (Token::Other, quoted(text, first)),
        '-' if text.starts_with("--") => (Token::Blank, line(text)),
        '/' if text.starts_with("/*") => (Token::Blank, block_comment(text)),
        '$' => (Token::Other, dollar_quoted(text)),
        c if c.is_whitespace() => (Token::Blank, c.len_utf8()),
        // A word is taken whole, so that the `$` in `a$b` does not open a dollar quote.
        c if c.is_alphanumeric() || c == '_' => {
            let word = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            (Token::Other, word.unwrap_or(text.len()))
        }
        c => (Token::Other, c.len_utf8()),
    }
}

/// Length of a quoted text with its quotes; a doubled quote is two quoted texts side by side, which is as good.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |at| at + 2)
}

/// Length of a block comment; they nest, as in PostgreSQL.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0;
    let mut position = 0;
    while position < bytes.len() {
        match &bytes[position..] {
            [b'/', b'*', ..] => {
                depth += 1;
                position += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return position;
                }
            }
            _ => position += 1,
        }
    }
    bytes.len()
}

/// Length of `$tag$ ... $tag$`, or 1 when the dollar sign opens nothing (a parameter such as `$1`).
fn dollar_quoted(text: &str) -> usize {
    let Some(tag_end) = text[1..].find('$').map(|at| at + 2) else {
        return 1;
    };
    let tag = &text[..tag_end];
    let name = &tag[1..tag_end - 1];
    let valid = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.chars().next().is_some_and(|c| c.is_ascii_digit());
    if !valid {
        return 1;
    }
    text[tag_end..]
        .find(tag)
        .map_or(text.len(), |at| tag_end + at + tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, statements: &[&str], rest: &str) {
        let pieces = statements.iter().map(|statement| Piece::Statement(statement));
        let pieces = pieces.collect();
        assert_eq!(split(text), Split { pieces, rest }, "{text}");
    }

    #[test]
    fn commands_end_with_their_line_and_may_end_a_statement() {
        let command = |command, statement| Piece::Command { command, statement };
        let cut = split("\\d t;\nselect 1\n  \\g out.txt\nselect '\\x', /* \\y */ 2");
        assert_eq!(
            cut.pieces,
            [command("\\d t;", ""), command("\\g out.txt", "select 1")]
        );
        assert_eq!(cut.rest, "select '\\x', /* \\y */ 2");
        let cut = split("select 1; \\watch 2");
        assert_eq!(
            cut.pieces,
            [Piece::Statement("select 1"), command("\\watch 2", "")]
        );
        assert_eq!(cut.rest, "");
    }

    #[test]
    fn a_limit_needs_an_order_beside_it() {
        for (sql, may) in [
            ("select * from t limit 3", true),
            ("select * from t order by a limit 3", false),
            ("select * from (select * from t order by a) limit 3", true),
            ("select * from (select * from t limit 3) order by a", true),
            ("select * from t ORDER BY a FETCH FIRST 3 ROWS ONLY", false),
            ("select 'limit' as \"limit\" -- limit\nfrom t", false),
            ("select limits from t", false),
        ] {
            assert_eq!(has_limit_without_order(sql), may, "{sql}");
        }
    }

    #[test]
    fn semicolons_end_statements() {
        check("select 1; select 2;", &["select 1", "select 2"], "");
        check("select 1; select 2", &["select 1"], "select 2");
        check(" ; ;; ", &[], "");
        check("", &[], "");
    }

    #[test]
    fn quotes_hide_semicolons() {
        check("select ';' ; x", &["select ';'"], "x");
        check("select 'it''s;' ; x", &["select 'it''s;'"], "x");
        check("select \"a;b\"; x", &["select \"a;b\""], "x");
        check(
            "select $$ ; $$; select $q$ $$ ; $q$;",
            &["select $$ ; $$", "select $q$ $$ ; $q$"],
            "",
        );
        check("select $1; select $2;", &["select $1", "select $2"], "");
        check("select a$b; select c$d;", &["select a$b", "select c$d"], "");
    }

    #[test]
    fn comments_hide_semicolons_and_are_no_statement() {
        check("-- only; a comment\n", &[], "");
        check("select 1 -- one; \n;", &["select 1 -- one;"], "");
        check(
            "/* a; /* nested; */ b; */ select 1;",
            &["/* a; /* nested; */ b; */ select 1"],
            "",
        );
    }

    #[test]
    fn open_quotes_and_comments_wait_for_more() {
        check("select 'a;", &[], "select 'a;");
        check("select 1 /* ; ", &[], "select 1 /* ;");
        check("select $x$ ; $x", &[], "select $x$ ; $x");
    }

    #[test]
    fn text_beyond_ascii_is_cut_between_characters() {
        check(
            "select 'ä;ö' as ü; select '漢';",
            &["select 'ä;ö' as ü", "select '漢'"],
            "",
        );
        check("select 1\u{a0};", &["select 1"], "");
    }
}
