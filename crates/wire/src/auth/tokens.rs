//! Lines of `pg_hba.conf` and `pg_ident.conf` as lists of lists of tokens, by PostgreSQL's rules: fields separated by blanks,
//! values within a field by commas, `#` begins a comment, double quotes take away all meaning, a backslash at the end of a line
//! continues it.

use std::path::{Path, PathBuf};

/// Largest file read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a file of rules or users is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{path}: {source}; check the path and that corun's user may read it", path = path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {problem}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1; of a continued line its first.
        line: usize,
        /// What is wrong and what to do; secrets are not quoted.
        problem: String,
    },
}

impl FileError {
    pub(super) fn at(path: &Path, line: usize, problem: impl Into<String>) -> Self {
        Self::Line {
            path: path.to_owned(),
            line,
            problem: problem.into(),
        }
    }
}

/// Reads a whole file, which must not be larger than it could ever need to be.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::other("the file is larger than 4 MiB")));
    }
    std::fs::read(path).map_err(failed)
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    /// It began with a quote: it is a name, whatever it says.
    pub quoted: bool,
}

impl Token {
    /// Whether this is the keyword `word`.
    pub fn is(&self, word: &str) -> bool {
        !self.quoted && self.text == word
    }
}

/// A line with something in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub number: usize,
    pub fields: Vec<Vec<Token>>,
}

/// What `read` makes of each line of the file called `path`; its errors are what is wrong with the line.
pub(super) fn each_line<T>(
    text: &str,
    path: &Path,
    mut read: impl FnMut(&Line) -> Result<T, String>,
) -> Result<Vec<T>, FileError> {
    let wrong = |(line, problem): (usize, String)| FileError::at(path, line, problem);
    let lines = lines(text).map_err(wrong)?;
    let read = |line: &Line| read(line).map_err(|problem| wrong((line.number, problem)));
    lines.iter().map(read).collect()
}

/// Splits a file; an error is the number of a line and what is wrong with it.
fn lines(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut found = Vec::new();
    let mut rows = text.lines().enumerate();
    while let Some((at, row)) = rows.next() {
        let mut whole = row.to_owned();
        while let Some(before) = whole.strip_suffix('\\') {
            let Some((_, next)) = rows.next() else {
                whole = before.to_owned();
                break;
            };
            whole = format!("{before}{next}");
        }
        let fields = fields(&whole).map_err(|problem| (at + 1, problem.to_owned()))?;
        if !fields.is_empty() {
            found.push(Line {
                number: at + 1,
                fields,
            });
        }
    }
    Ok(found)
}

fn fields(line: &str) -> Result<Vec<Vec<Token>>, &'static str> {
    let mut fields: Vec<Vec<Token>> = Vec::new();
    let mut continues = false; // a comma ended the last token: the next one belongs to the same field
    let mut rest = line.chars().peekable();
    loop {
        while rest.next_if(|&c| c.is_ascii_whitespace() || c == ',').is_some() {}
        match rest.peek() {
            None | Some('#') => return Ok(fields),
            Some(_) => {}
        }
        let mut token = Token {
            text: String::new(),
            quoted: rest.peek() == Some(&'"'),
        };
        let mut quotes = false;
        let mut comma = false;
        while let Some(&c) = rest.peek() {
            match c {
                '"' => {
                    rest.next();
                    // Two quotes within quotes are one quote.
                    if quotes && rest.next_if_eq(&'"').is_some() {
                        token.text.push('"');
                    } else {
                        quotes = !quotes;
                    }
                    continue;
                }
                _ if quotes => token.text.push(c),
                '#' => break,
                ',' => {
                    comma = true;
                    rest.next();
                    break;
                }
                _ if c.is_ascii_whitespace() => break,
                _ => token.text.push(c),
            }
            rest.next();
        }
        if quotes {
            return Err("a quote is not closed");
        }
        match fields.last_mut() {
            Some(field) if continues => field.push(token),
            _ => fields.push(vec![token]),
        }
        continues = comma;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<Vec<String>> {
        let quoted = |t: Token| if t.quoted { format!("'{}'", t.text) } else { t.text };
        fields(line)
            .unwrap()
            .into_iter()
            .map(|field| field.into_iter().map(quoted).collect())
            .collect()
    }

    #[test]
    fn fields_values_quotes_and_comments() {
        assert_eq!(
            texts("host all,\"a b\" x # y"),
            [vec!["host"], vec!["all", "'a b'"], vec!["x"]]
        );
        assert_eq!(texts("a, b c"), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(texts("a\t,b"), [vec!["a"], vec!["b"]]);
        assert_eq!(texts("\"say \"\"hi\"\" # no\""), [vec!["'say \"hi\" # no'"]]);
        assert_eq!(texts("x\"y z\""), [vec!["xy z"]]);
        assert_eq!(texts("a#b"), [vec!["a"]]);
        assert_eq!(texts("  # nothing"), Vec::<Vec<String>>::new());
        assert!(fields("a \"b").is_err());
    }

    #[test]
    fn continued_lines_count_from_their_first() {
        let found = lines("# c\na \\\nb\n\nc\\").unwrap();
        assert_eq!(
            found
                .iter()
                .map(|l| (l.number, l.fields.len()))
                .collect::<Vec<_>>(),
            [(2, 2), (5, 1)]
        );
        assert_eq!(lines("a\n\"b").unwrap_err().0, 2);
    }
}
