//! Settings of a session that differ from the server's defaults, and how they get to another server connection.
//!
//! The proxy does not guess what a `SET` did: a transaction may roll back, a savepoint may undo half of it. After a transaction that may
//! have changed settings it asks the server what the session has set ([`read_back`]) and keeps the answer.
//!
//! Values are bytes in the encoding of the database, whatever a client's own is: what a client sees as text is converted on its way, and
//! a setting goes from server to server without. They travel as hexadecimal digits, which no encoding changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Settings by lower-case name. Values as `set_config` takes them, in the database's encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings(pub BTreeMap<String, Box<[u8]>>);

/// Role is set last and reset first: under another role other settings may be refused.
const ROLE: &str = "role";

/// Names that belong to a transaction or cannot be set, whatever their source is said to be.
const NOT_OF_SESSION: [&str; 8] = [
    "transaction_isolation",
    "transaction_read_only",
    "transaction_deferrable",
    "session_authorization",
    "is_superuser",
    "seed",
    "in_hot_standby",
    "server_version",
];

impl Settings {
    /// Adds what a client's startup packet asks for.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_ascii_lowercase(), value.as_bytes().into());
    }

    /// The value of a setting, by its lower-case name; `None` also where it is no UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.0.get(name)?).ok()
    }

    /// Whether what is created is temporary, wherever it is.
    pub fn begins_with_temporary(&self) -> bool {
        let path = self.0.get("search_path").map(|path| path.trim_ascii_start());
        path.is_some_and(|path| path.starts_with(b"pg_temp") || path.starts_with(b"\"pg_temp"))
    }

    /// Whether nothing differs from the server's defaults.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over a row of what [`read_back`] asks for: the name, and the value in hexadecimal digits. No value, and a role of `none`,
    /// are defaults.
    pub fn read(&mut self, name: &str, value: Option<&str>) {
        let name = name.to_ascii_lowercase();
        let Some(value) = value.and_then(from_hex) else {
            return;
        };
        if NOT_OF_SESSION.contains(&name.as_str()) || (name == ROLE && *value == *b"none") {
            return;
        }
        // A custom setting that was never set, or was reset, reads as an empty text.
        if name.contains('.') && value.is_empty() {
            return;
        }
        self.0.insert(name, value);
    }

    /// Names of custom settings and the role: the server's view of its settings does not list them.
    pub fn unlisted(&self) -> impl Iterator<Item = &str> {
        self.0
            .keys()
            .filter(|name| name.contains('.') || *name == ROLE)
            .map(String::as_str)
    }
}

/// The text that makes a session with the settings `from` one with `to`; `None` when they are the same. One simple query, so that
/// either all of it holds or nothing.
pub fn change(from: &Settings, to: &Settings) -> Option<String> {
    if from == to {
        return None;
    }
    let mut sql = String::new();
    if from.0.contains_key(ROLE) {
        sql.push_str("RESET ROLE;");
    }
    for name in from.0.keys() {
        if name != ROLE && !to.0.contains_key(name) {
            let _ = write!(sql, "RESET {};", identifier(name));
        }
    }
    for (name, value) in &to.0 {
        if name != ROLE && from.0.get(name) != Some(value) {
            set(&mut sql, name, value);
        }
    }
    if let Some(role) = to.0.get(ROLE) {
        set(&mut sql, ROLE, role);
    }
    Some(sql)
}

fn set(sql: &mut String, name: &str, value: &[u8]) {
    let _ = write!(
        sql,
        "SELECT pg_catalog.set_config({},{},false);",
        literal(name),
        expression(value)
    );
}

/// An expression of type text for bytes in the database's encoding.
fn expression(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() => literal(text),
        _ => format!(
            "pg_catalog.convert_from(pg_catalog.decode('{}','hex'),pg_catalog.getdatabaseencoding())",
            hex(value)
        ),
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn from_hex(digits: &str) -> Option<Box<[u8]>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes = pairs
        .iter()
        .map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8));
    bytes.collect::<Option<Box<[u8]>>>().filter(|_| rest.is_empty())
}

/// The query that tells what the session has set: rows of name and value, the latter in hexadecimal digits. `unlisted` are further names
/// to ask for, which the view of all settings leaves out.
pub fn read_back<'a>(unlisted: impl Iterator<Item = &'a str>) -> String {
    let digits = |value: &str| {
        format!("pg_catalog.encode(pg_catalog.convert_to({value}, pg_catalog.getdatabaseencoding()), 'hex')")
    };
    let mut sql = format!(
        "SELECT name::pg_catalog.text, {} FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'",
        digits("setting")
    );
    let mut names: BTreeSet<String> = unlisted.map(str::to_ascii_lowercase).collect();
    names.insert(ROLE.to_owned());
    for name in names {
        let name = literal(&name);
        let _ = write!(
            sql,
            " UNION ALL SELECT {name}, {}",
            digits(&format!("pg_catalog.current_setting({name}, true)"))
        );
    }
    sql
}

/// A text in quotes, right whatever `standard_conforming_strings` says.
pub fn literal(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 3);
    if text.contains('\\') {
        quoted.push_str(" E");
    }
    quoted.push('\'');
    for c in text.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => {}
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// A name in double quotes, each part between dots on its own: settings of extensions are named `a.b`.
pub fn identifier(name: &str) -> String {
    let parts: Vec<String> = name
        .split('.')
        .map(|part| format!("\"{}\"", part.replace('"', "\"\"").replace('\0', "")))
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name, value);
        }
        settings
    }

    #[test]
    fn what_changes() {
        let from = settings(&[("a", "1"), ("b", "2"), ("role", "ann")]);
        let to = settings(&[("B", "2"), ("my.c", "it's"), ("role", "bob")]);
        assert_eq!(
            change(&from, &to).expect("they differ"),
            "RESET ROLE;RESET \"a\";SELECT pg_catalog.set_config('my.c','it''s',false);\
             SELECT pg_catalog.set_config('role','bob',false);"
        );
        assert_eq!(change(&from, &from.clone()), None);
    }

    #[test]
    fn what_is_read_back() {
        let mut settings = Settings::default();
        settings.read("TimeZone", Some("555443"));
        settings.read("role", Some(&hex(b"none")));
        settings.read("my.c", Some(""));
        settings.read("my.d", Some("4dfc"));
        settings.read("my.e", None);
        settings.read("my.f", Some("4"));
        settings.read("my.g", Some("4x"));
        settings.read("transaction_isolation", Some(&hex(b"serializable")));
        let names: Vec<&String> = settings.0.keys().collect();
        assert_eq!(names, ["my.d", "timezone"]);
        assert_eq!(settings.text("timezone"), Some("UTC"));
        assert_eq!(settings.text("my.d"), None, "no UTF-8");
        assert_eq!(settings.unlisted().collect::<Vec<_>>(), ["my.d"]);
        assert!(
            read_back(["my.d"].into_iter())
                .contains("SELECT 'my.d', pg_catalog.encode(pg_catalog.convert_to(pg_catalog.current_setting('my.d', true), pg_catalog.getdatabaseencoding()), 'hex')")
        );
    }

    #[test]
    fn values_beyond_ascii_are_sent_as_digits() {
        let mut to = Settings::default();
        to.0.insert("my.name".to_owned(), b"M\xfcller".as_slice().into());
        assert_eq!(
            change(&Settings::default(), &to).expect("they differ"),
            "SELECT pg_catalog.set_config('my.name',pg_catalog.convert_from(pg_catalog.decode('4dfc6c6c6572','hex'),\
             pg_catalog.getdatabaseencoding()),false);"
        );
    }

    #[test]
    fn quotes() {
        assert_eq!(literal("a\\'b"), " E'a\\\\''b'");
        assert_eq!(identifier("my.\"x"), "\"my\".\"\"\"x\"");
    }
}
