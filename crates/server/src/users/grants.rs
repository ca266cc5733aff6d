//! [`Grants`]: who there is, which role is in which, and which user may read which table.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::UserLimits;

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

    pub(super) fn has(&self, schema: &str, table: &str) -> bool {
        let fits = |own: &Option<String>, name: &str| own.as_deref().is_none_or(|own| own == name);
        fits(&self.schema, schema) && fits(&self.table, table)
    }

    fn is_in(&self, schema: &str) -> bool {
        self.schema.as_deref().is_none_or(|own| own == schema)
    }
}

/// A user, or a role that nobody logs in as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RoleRights {
    pub login: bool,
    pub superuser: bool,
    pub read_files: bool,
    pub write_files: bool,
    /// Its own, without those of its roles.
    pub read: Vec<Pattern>,
    /// Schemas whose tables it may name; those of tables that it may read are meant, too.
    pub usage: Vec<String>,
    /// Roles that it is in itself.
    pub roles: Vec<String>,
    pub limits: UserLimits,
    /// Microseconds since 1970 after which its password is none.
    pub valid_until: Option<i64>,
}

/// What all users may do. A user that is not in it may read nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Everyone may do everything.
    pub(super) everything: bool,
    /// By name; none is in itself, over however many others.
    pub(super) roles: BTreeMap<String, RoleRights>,
}

impl Grants {
    /// A role and all that it is in.
    fn with_all(&self, name: &str) -> BTreeMap<&str, &RoleRights> {
        let mut all = BTreeMap::new();
        let mut open: Vec<&str> = self
            .roles
            .get_key_value(name)
            .map(|(name, _)| name.as_str())
            .into_iter()
            .collect();
        while let Some(name) = open.pop() {
            if let Some(rights) = self.roles.get(name)
                && all.insert(name, rights).is_none()
            {
                open.extend(rights.roles.iter().map(String::as_str));
            }
        }
        all
    }

    /// Whether a role is in another, or is the same.
    pub fn is_member(&self, name: &str, of: &str) -> bool {
        self.with_all(name).contains_key(of)
    }

    /// Whether a user may read a table.
    pub fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        if self.is_superuser(user) || OPEN_SCHEMAS.contains(&schema) {
            return true;
        }
        let all = self.with_all(user);
        all.values()
            .any(|rights| rights.read.iter().any(|pattern| pattern.has(schema, table)))
    }

    /// Whether a user may name what is in a schema.
    pub fn may_use(&self, user: &str, schema: &str) -> bool {
        if self.is_superuser(user) || OPEN_SCHEMAS.contains(&schema) {
            return true;
        }
        let may = |rights: &RoleRights| {
            rights.usage.iter().any(|own| own == schema)
                || rights.read.iter().any(|pattern| pattern.is_in(schema))
        };
        self.with_all(user).values().any(|rights| may(rights))
    }

    /// Roles that have this right themselves: to read a table, or to use a schema where `table` is `None`.
    pub(super) fn holders<'g>(
        &'g self,
        schema: &'g str,
        table: Option<&'g str>,
    ) -> impl Iterator<Item = &'g str> {
        let holds = move |rights: &RoleRights| match table {
            Some(table) => rights.read.iter().any(|pattern| pattern.has(schema, table)),
            None => {
                rights.usage.iter().any(|own| own == schema)
                    || rights.read.iter().any(|pattern| pattern.is_in(schema))
            }
        };
        let all = self.roles.iter();
        all.filter(move |(_, rights)| holds(rights))
            .map(|(name, _)| name.as_str())
    }

    /// Whether a user may do everything.
    pub fn is_superuser(&self, user: &str) -> bool {
        self.everything || self.roles.get(user).is_some_and(|rights| rights.superuser)
    }

    /// Whether a user's statements may name files to read, and to write.
    pub fn files(&self, user: &str) -> (bool, bool) {
        match self.roles.get(user) {
            _ if self.is_superuser(user) => (true, true),
            Some(rights) => (rights.read_files, rights.write_files),
            None => (false, false),
        }
    }

    /// What a user may take.
    pub fn limits(&self, user: &str) -> UserLimits {
        self.roles
            .get(user)
            .map(|rights| rights.limits)
            .unwrap_or_default()
    }

    /// A role that is in itself over others, if there is one.
    pub(super) fn circle(&self) -> Option<&str> {
        let above = |name: &str| {
            let rights = self.roles.get(name);
            let direct = rights.into_iter().flat_map(|rights| &rights.roles);
            direct
                .flat_map(|role| self.with_all(role).into_keys())
                .collect::<BTreeSet<_>>()
        };
        self.roles
            .keys()
            .map(String::as_str)
            .find(|name| above(name).contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> Grants {
        let pattern = |text| Pattern::parse(text).expect("a pattern");
        let ann = RoleRights {
            read: vec![pattern("hr.people")],
            read_files: true,
            roles: vec!["analyst".to_owned()],
            usage: vec!["plans".to_owned()],
            ..RoleRights::default()
        };
        let analyst = RoleRights {
            roles: vec!["reader".to_owned()],
            ..RoleRights::default()
        };
        let reader = RoleRights {
            read: vec![pattern("sales.*")],
            ..RoleRights::default()
        };
        let root = RoleRights {
            superuser: true,
            ..RoleRights::default()
        };
        let roles = [
            ("ann", ann),
            ("root", root),
            ("analyst", analyst),
            ("reader", reader),
        ];
        Grants {
            everything: false,
            roles: roles.map(|(name, rights)| (name.to_owned(), rights)).into(),
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
            ("analyst", "sales", "orders", true),
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
        assert!(
            grants.may_use("ann", "plans")
                && grants.may_use("ann", "sales")
                && !grants.may_use("ann", "public")
        );
        assert!(grants.is_member("ann", "reader") && !grants.is_member("reader", "ann"));
        let holders: Vec<&str> = grants.holders("sales", Some("orders")).collect();
        assert_eq!(holders, ["reader"]);
    }

    #[test]
    fn circles_are_found_and_walked_once() {
        let mut grants = grants();
        assert_eq!(grants.circle(), None);
        let reader = grants.roles.get_mut("reader").expect("it is there");
        reader.roles.push("analyst".to_owned());
        assert_eq!(grants.circle(), Some("analyst"));
        assert!(grants.is_member("ann", "reader"));
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
