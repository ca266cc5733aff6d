//! The grammar of pgbouncer.ini: sections, `key = value`, comments, `%include`, connection strings.

use std::path::Path;

use super::found;
use crate::config::{Finding, Severity};

/// Deepest nesting of `%include`, and how many files altogether.
const INCLUDES_MAX: (usize, usize) = (10, 100);
/// Lines of a comment that are kept above a setting.
const COMMENT_LINES_MAX: usize = 20;

/// One setting, with where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub file: String,
    pub line: usize,
    pub section: String,
    pub key: String,
    pub value: String,
    /// The comment directly above, without its marks.
    pub comment: Vec<String>,
}

/// Entries in order, and what could not be understood.
#[derive(Debug, Default)]
pub(super) struct Ini {
    pub entries: Vec<Entry>,
    pub unusable: Vec<Finding>,
    section: String,
    files: usize,
}

/// Reads a text and the files it includes, which are looked for in `folder`.
pub(super) fn parse(text: &str, file: &str, folder: &Path) -> Ini {
    let mut ini = Ini::default();
    read(&mut ini, text, file, folder, 0);
    ini
}

fn read(ini: &mut Ini, text: &str, file: &str, folder: &Path, depth: usize) {
    let mut comment: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let unusable = |what: String, hint: &str| found(Severity::Error, file, number + 1, what, hint);
        if line.is_empty() {
            comment.clear();
        } else if let Some(rest) = line.strip_prefix([';', '#']) {
            if comment.len() < COMMENT_LINES_MAX {
                comment.push(rest.trim_start_matches([';', '#']).trim().to_owned());
            }
        } else if let Some(rest) = line.strip_prefix('[') {
            match rest.split_once(']') {
                Some((name, _)) => ini.section = name.trim().to_owned(),
                None => ini.unusable.push(unusable(
                    "the section's name does not end".to_owned(),
                    "write [name]",
                )),
            }
            comment.clear();
        } else if let Some(name) = line.strip_prefix("%include") {
            comment.clear();
            if let Err(what) = include(ini, name.trim(), folder, depth) {
                ini.unusable
                    .push(unusable(what, "set the name right, or remove the line"));
            }
        } else {
            match key_value(line) {
                Some((key, value)) => ini.entries.push(Entry {
                    file: file.to_owned(),
                    line: number + 1,
                    section: ini.section.clone(),
                    key,
                    value,
                    comment: std::mem::take(&mut comment),
                }),
                None => ini.unusable.push(unusable(
                    "neither a section nor `key = value`".to_owned(),
                    "PgBouncer refuses this line too",
                )),
            }
            comment.clear();
        }
    }
}

fn include(ini: &mut Ini, name: &str, folder: &Path, depth: usize) -> Result<(), String> {
    if depth >= INCLUDES_MAX.0 || ini.files >= INCLUDES_MAX.1 {
        return Err(format!(
            "%include is nested more than {} deep, or there are more than {} files",
            INCLUDES_MAX.0, INCLUDES_MAX.1
        ));
    }
    ini.files += 1;
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot include {}: {error}", path.display()))?;
    read(ini, &text, &path.display().to_string(), folder, depth + 1);
    Ok(())
}

/// Splits `key = value`; a key in double quotes may contain anything, a doubled quote stands for one.
fn key_value(line: &str) -> Option<(String, String)> {
    let (key, rest) = match line.strip_prefix('"') {
        Some(quoted) => until_quote(quoted, '"')?,
        None => {
            let (key, _) = line.split_once('=')?;
            (key.trim().to_owned(), &line[key.len()..])
        }
    };
    let value = rest.trim_start().strip_prefix('=')?.trim();
    let plain = |key: &str| key.chars().all(|c| c.is_alphanumeric() || "_.-*$@".contains(c));
    if key.is_empty() || (!line.starts_with('"') && !plain(&key)) {
        return None;
    }
    Some((key, value.to_owned()))
}

/// The text up to a closing quote, doubled ones undone, and what follows.
pub(crate) fn until_quote(text: &str, quote: char) -> Option<(String, &str)> {
    let (found, rest) =
        corun_wire::auth::userlist::bytes_until_quote(text.as_bytes(), u8::try_from(quote).ok()?)?;
    // A quote is one byte, so both are cut between characters.
    Some((String::from_utf8(found).ok()?, std::str::from_utf8(rest).ok()?))
}

/// The pairs of a connection string: `key=value key='va''lue'`.
///
/// # Errors
/// Says what is wrong, without repeating a value.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest
            .split_once('=')
            .ok_or("the connection string is not made of key=value pairs")?;
        let key = key.trim();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("the connection string is not made of key=value pairs".to_owned());
        }
        let after = after.trim_start();
        let value = match after.strip_prefix('\'') {
            Some(quoted) => {
                let (value, behind) =
                    until_quote(quoted, '\'').ok_or(format!("the quote of `{key}` does not end"))?;
                rest = behind.trim_start();
                value
            }
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                rest = after[end..].trim_start();
                after[..end].to_owned()
            }
        };
        found.push((key.to_owned(), value));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_quotes_and_comments() {
        let text = "; lost\n\n[databases]\n; kept\n# too\nfoo = host=a\n\"b \"\"c\" = \n*=port=1\nfoo bar = 1\nnothing\n[pgbouncer\n";
        let ini = parse(text, "x", Path::new("/"));
        let entries: Vec<(usize, &str, &str, usize)> = ini
            .entries
            .iter()
            .map(|entry| {
                (
                    entry.line,
                    entry.key.as_str(),
                    entry.value.as_str(),
                    entry.comment.len(),
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                (6, "foo", "host=a", 2),
                (7, "b \"c", "", 0),
                (8, "*", "port=1", 0)
            ]
        );
        assert!(ini.entries.iter().all(|entry| entry.section == "databases"));
        let lines: Vec<usize> = ini.unusable.iter().map(|line| line.line).collect();
        assert_eq!(lines, [9, 10, 11]);
    }

    #[test]
    fn connection_strings() {
        let found = pairs("host=a port = 5 password='it''s =x' connect_query=''").expect("pairs");
        let expected = [
            ("host", "a"),
            ("port", "5"),
            ("password", "it's =x"),
            ("connect_query", ""),
        ];
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!((found.0.as_str(), found.1.as_str()), expected);
        }
        assert_eq!(pairs("  "), Ok(Vec::new()));
        for bad in ["host", "=a", "a='b", "a b=c"] {
            assert!(pairs(bad).is_err(), "{bad}");
        }
    }
}
