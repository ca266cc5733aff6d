//! [`Grants`]: which user may read which table.

use std::collections::BTreeMap;

/// Schemas that everyone may read: what is in them depends on who asks.
const OPEN_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Tables that may be read: `*` (all), `schema.*`, or `schema.table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// `None`: every schema.
    schema: Option<String>,
    /// `None`: every table.
    table: Option<String>,
}

impl Pattern {
    /// Reads `*`, `schema.*` or `schema.table`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self {
                schema: None,
                table: None,
            });
        }
        let (schema, table) = text.split_once('.')?;
        if schema.is_empty() || table.is_empty() || schema == "*" {
            return None;
        }
        Some(Self {
            schema: Some(schema.to_owned()),
            table: (table != "*").then(|| table.to_owned()),
        })
    }

    fn has(&self, schema: &str, table: &str) -> bool {
        let fits = |own: &Option<String>, name: &str| own.as_deref().is_none_or(|own| own == name);
        fits(&self.schema, schema) && fits(&self.table, table)
    }
}

/// What one user may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UserRights {
    pub superuser: bool,
    pub read_files: bool,
    pub write_files: bool,
    pub read: Vec<Pattern>,
}

/// What all users may do. A user that is not in it may read nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Everyone may do everything.
    pub(super) everything: bool,
    pub(super) users: BTreeMap<String, UserRights>,
}

impl Grants {
    /// Whether a user may read a table.
    pub fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        if self.is_superuser(user) || OPEN_SCHEMAS.contains(&schema) {
            return true;
        }
        let rights = self.users.get(user);
        rights.is_some_and(|rights| rights.read.iter().any(|pattern| pattern.has(schema, table)))
    }

    /// Whether a user may do everything.
    pub fn is_superuser(&self, user: &str) -> bool {
        self.everything || self.users.get(user).is_some_and(|rights| rights.superuser)
    }

    /// Whether a user's statements may name files to read, and to write.
    pub fn files(&self, user: &str) -> (bool, bool) {
        match self.users.get(user) {
            _ if self.is_superuser(user) => (true, true),
            Some(rights) => (rights.read_files, rights.write_files),
            None => (false, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> Grants {
        let read = ["sales.*", "hr.people"].map(|text| Pattern::parse(text).expect("a pattern"));
        let ann = UserRights {
            read: read.to_vec(),
            read_files: true,
            ..UserRights::default()
        };
        let root = UserRights {
            superuser: true,
            ..UserRights::default()
        };
        let users = [("ann".to_owned(), ann), ("root".to_owned(), root)];
        Grants {
            everything: false,
            users: users.into(),
        }
    }

    #[test]
    fn rights_are_those_of_the_patterns() {
        let grants = grants();
        for (user, schema, table, may) in [
            ("ann", "sales", "orders", true),
            ("ann", "hr", "people", true),
            ("ann", "hr", "wages", false),
            ("ann", "public", "orders", false),
            ("ann", "pg_catalog", "pg_class", true),
            ("bob", "sales", "orders", false),
            ("bob", "information_schema", "tables", true),
            ("root", "hr", "wages", true),
        ] {
            assert_eq!(
                grants.may_read(user, schema, table),
                may,
                "{user} {schema}.{table}"
            );
        }
        assert_eq!(grants.files("ann"), (true, false));
        assert_eq!(grants.files("root"), (true, true));
        assert_eq!(grants.files("bob"), (false, false));
    }

    #[test]
    fn patterns_are_schemas_and_tables() {
        for wrong in ["", "sales", "*.orders", ".x", "x."] {
            assert_eq!(Pattern::parse(wrong), None, "{wrong}");
        }
        let all = Pattern::parse("*").expect("a pattern");
        assert!(all.has("any", "thing"));
        let dotted = Pattern::parse("s.a.b").expect("a pattern");
        assert!(dotted.has("s", "a.b") && !dotted.has("s", "a"));
    }
}
