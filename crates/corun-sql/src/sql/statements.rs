//! Cutting SQL text into statements at semicolons, with quotes, comments and dollar quotes respected.
//!
//! Not a parser: it only knows where a semicolon is not the end. The engine's own parser sees each statement as the
//! user wrote it, so positions in its messages are right.

/// A text cut into statements.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Finished statements, without their semicolon, trimmed; empty ones are left out.
    pub statements: Vec<&'a str>,
    /// What follows the last semicolon, trimmed; empty when it is only blanks and comments.
    pub rest: &'a str,
}

/// Cuts `text`; an open quote or comment swallows everything after it into `rest`.
pub fn split(text: &str) -> Split<'_> {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut position = 0;
    let mut blank = true;
    while position < text.len() {
        let (kind, length) = token(&text[position..]);
        match kind {
            Token::End => {
                if !blank {
                    statements.push(text[start..position].trim());
                }
                start = position + length;
                blank = true;
            }
            Token::Blank => {}
            Token::Other => blank = false,
        }
        position += length;
    }
    let rest = if blank { "" } else { text[start..].trim() };
    Split { statements, rest }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A semicolon outside quotes.
    End,
    /// White space or a comment.
    Blank,
    /// Anything else, quoted text whole.
    Other,
}

/// The first token of a text that is not empty, and its length in bytes.
fn token(text: &str) -> (Token, usize) {
    let first = text.chars().next().map_or(' ', |c| c);
    match first {
        ';' => (Token::End, 1),
        '\'' | '"' | '`' => (Token::Other, quoted(text, first)),
        '-' if text.starts_with("--") => (Token::Blank, text.find('\n').map_or(text.len(), |at| at + 1)),
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
        assert_eq!(
            split(text),
            Split {
                statements: statements.to_vec(),
                rest
            },
            "{text}"
        );
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
