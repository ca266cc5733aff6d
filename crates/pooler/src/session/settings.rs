//! Settings of a session that differ from the server's defaults, and how they get to another server connection.
//!
//! The proxy does not guess what a `SET` did: a transaction may roll back, a savepoint may undo half of it. After a transaction that may
//! have changed settings it asks the server what the session has set ([`read_back`]) and keeps the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Settings by lower-case name. Values as `set_config` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub BTreeMap<String, String>);

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
        self.0.insert(name.to_ascii_lowercase(), value.to_owned());
    }

    /// Whether nothing differs from the server's defaults.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over a row of what [`read_back`] asks for. A value of `None`, and a role of `none`, are defaults.
    pub fn read(&mut self, name: &str, value: Option<&str>) {
        let name = name.to_ascii_lowercase();
        let Some(value) = value else {
            return;
        };
        if NOT_OF_SESSION.contains(&name.as_str()) || (name == ROLE && value == "none") {
            return;
        }
        // A custom setting that was never set, or was reset, reads as an empty text.
        if name.contains('.') && value.is_empty() {
            return;
        }
        self.0.insert(name, value.to_owned());
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
    let role = |settings: &Settings| settings.0.get(ROLE).cloned();
    if role(from).is_some() {
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
    if let Some(role) = role(to) {
        set(&mut sql, ROLE, &role);
    }
    Some(sql)
}

fn set(sql: &mut String, name: &str, value: &str) {
    let _ = write!(
        sql,
        "SELECT pg_catalog.set_config({},{},false);",
        literal(name),
        literal(value)
    );
}

/// The query that tells what the session has set: rows of name and value. `unlisted` are further names to ask for, which the view of all
/// settings leaves out.
pub fn read_back<'a>(unlisted: impl Iterator<Item = &'a str>) -> String {
    let mut sql = String::from(
        "SELECT name::pg_catalog.text, setting::pg_catalog.text FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'",
    );
    let names: BTreeSet<String> = unlisted.map(str::to_ascii_lowercase).collect();
    for name in names {
        let name = literal(&name);
        let _ = write!(
            sql,
            " UNION ALL SELECT {name}, pg_catalog.current_setting({name}, true)"
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
        settings.read("TimeZone", Some("UTC"));
        settings.read("role", Some("none"));
        settings.read("my.c", Some(""));
        settings.read("my.d", Some("x"));
        settings.read("my.e", None);
        settings.read("transaction_isolation", Some("serializable"));
        let names: Vec<&String> = settings.0.keys().collect();
        assert_eq!(names, ["my.d", "timezone"]);
        assert_eq!(settings.unlisted().collect::<Vec<_>>(), ["my.d"]);
        assert!(
            read_back(["my.d"].into_iter())
                .ends_with("SELECT 'my.d', pg_catalog.current_setting('my.d', true)")
        );
    }

    #[test]
    fn quotes() {
        assert_eq!(literal("a\\'b"), " E'a\\\\''b'");
        assert_eq!(identifier("my.\"x"), "\"my\".\"\"\"x\"");
    }
}
