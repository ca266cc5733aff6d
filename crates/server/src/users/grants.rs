//! [`Grants`]: who there is, which role is in which, and which user may read or change which table.

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

/// A way to change a table of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteRight {
    /// Rows come, by `INSERT` or `COPY`.
    Insert,
    /// Rows change; `SELECT ... FOR UPDATE` locks them for that.
    Update,
    /// Rows go.
    Delete,
    /// All rows go at once.
    Truncate,
    /// The table itself is made, changed or dropped: what PostgreSQL lets its owner do.
    Define,
}

/// A right to tables that may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableRight {
    /// `INSERT`
    Insert,
    /// `SELECT`
    Select,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `TRUNCATE`
    Truncate,
}

impl TableRight {
    /// All, in the order in which PostgreSQL shows them: name, letter in `relacl`, key in the file of users.
    pub const ALL: [(TableRight, &'static str, char, &'static str); 5] = [
        (TableRight::Insert, "INSERT", 'a', "insert"),
        (TableRight::Select, "SELECT", 'r', "read"),
        (TableRight::Update, "UPDATE", 'w', "update"),
        (TableRight::Delete, "DELETE", 'd', "delete"),
        (TableRight::Truncate, "TRUNCATE", 'D', "truncate"),
    ];

    /// The right of a name.
    pub fn of(name: &str) -> Option<TableRight> {
        let known = Self::ALL.iter().find(|(_, known, ..)| *known == name)?;
        Some(known.0)
    }

    pub(super) fn key(self) -> &'static str {
        Self::ALL[self as usize].3
    }
}

/// A right to schemas that may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaRight {
    /// `USAGE`: to name what is in it.
    Usage,
    /// `CREATE`: to define tables in it, and to own what is in it.
    Create,
}

impl SchemaRight {
    pub(super) fn key(self) -> &'static str {
        match self {
            SchemaRight::Usage => "usage",
            SchemaRight::Create => "create",
        }
    }
}

/// A user, or a role that nobody logs in as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RoleRights {
    pub login: bool,
    pub superuser: bool,
    pub read_files: bool,
    pub write_files: bool,
    /// Its own, without those of its roles; by the numbers of [`TableRight`].
    pub tables: [Vec<Pattern>; TableRight::ALL.len()],
    /// Schemas whose tables it may name; those of tables that it may read are meant, too.
    pub usage: Vec<String>,
    /// Schemas in which it may define tables, and own those that are there.
    pub create: Vec<String>,
    /// Roles that it is in itself.
    pub roles: Vec<String>,
    pub limits: UserLimits,
    /// Microseconds since 1970 after which its password is none.
    pub valid_until: Option<i64>,
}

impl RoleRights {
    /// Its own right to a table.
    pub(super) fn has(&self, right: TableRight, schema: &str, table: &str) -> bool {
        let patterns = &self.tables[right as usize];
        patterns.iter().any(|pattern| pattern.has(schema, table)) || self.creates(schema)
    }

    /// Its own right to name what is in a schema.
    fn uses(&self, schema: &str) -> bool {
        self.usage.iter().any(|own| own == schema)
            || self.creates(schema)
            || self.tables.iter().flatten().any(|pattern| pattern.is_in(schema))
    }

    fn creates(&self, schema: &str) -> bool {
        self.create.iter().any(|own| own == schema)
    }
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
        OPEN_SCHEMAS.contains(&schema) || self.may(user, TableRight::Select, schema, table)
    }

    fn may(&self, user: &str, right: TableRight, schema: &str, table: &str) -> bool {
        let all = || self.with_all(user);
        self.is_superuser(user) || all().values().any(|rights| rights.has(right, schema, table))
    }

    /// Whether a user may change a table in a way; of [`WriteRight::Define`] the name of the table does not count, which may be to come.
    pub fn may_write(&self, user: &str, right: WriteRight, schema: &str, table: &str) -> bool {
        match right {
            WriteRight::Insert => self.may(user, TableRight::Insert, schema, table),
            WriteRight::Update => self.may(user, TableRight::Update, schema, table),
            WriteRight::Delete => self.may(user, TableRight::Delete, schema, table),
            WriteRight::Truncate => self.may(user, TableRight::Truncate, schema, table),
            WriteRight::Define => {
                let all = || self.with_all(user);
                self.is_superuser(user) || all().values().any(|rights| rights.creates(schema))
            }
        }
    }

    /// Whether a user may name what is in a schema.
    pub fn may_use(&self, user: &str, schema: &str) -> bool {
        if self.is_superuser(user) || OPEN_SCHEMAS.contains(&schema) {
            return true;
        }
        self.with_all(user).values().any(|rights| rights.uses(schema))
    }

    /// Roles that have rights themselves to a table, or, where that is `None`, to a schema, with the letters that PostgreSQL has for these.
    pub(super) fn holders<'g>(
        &'g self,
        schema: &'g str,
        table: Option<&'g str>,
    ) -> impl Iterator<Item = (&'g str, String)> {
        let letters = move |rights: &RoleRights| -> String {
            let Some(table) = table else {
                let own = [('U', rights.uses(schema)), ('C', rights.creates(schema))];
                return own.iter().filter(|own| own.1).map(|own| own.0).collect();
            };
            let all = TableRight::ALL.iter();
            all.filter(|(right, ..)| rights.has(*right, schema, table))
                .map(|(_, _, letter, _)| *letter)
                .collect()
        };
        let all = self
            .roles
            .iter()
            .map(move |(name, rights)| (name.as_str(), letters(rights)));
        all.filter(|(_, letters)| !letters.is_empty())
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
        let reads = |text| {
            let mut tables: [Vec<Pattern>; TableRight::ALL.len()] = Default::default();
            tables[TableRight::Select as usize].push(pattern(text));
            tables
        };
        let ann = RoleRights {
            tables: reads("hr.people"),
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
            tables: reads("sales.*"),
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
        let holders: Vec<(&str, String)> = grants.holders("sales", Some("orders")).collect();
        assert_eq!(holders, [("reader", "r".to_owned())]);
    }

    #[test]
    fn rights_to_write_are_one_by_one_and_those_who_create_own() {
        let mut grants = grants();
        let reader = grants.roles.get_mut("reader").expect("it is there");
        reader.tables[TableRight::Insert as usize].push(Pattern::parse("sales.orders").expect("a pattern"));
        reader.create.push("plans".to_owned());
        for (user, right, schema, table, may) in [
            ("ann", WriteRight::Insert, "sales", "orders", true),
            ("ann", WriteRight::Insert, "sales", "other", false),
            ("ann", WriteRight::Update, "sales", "orders", false),
            ("ann", WriteRight::Define, "sales", "orders", false),
            ("ann", WriteRight::Define, "plans", "any", true),
            ("ann", WriteRight::Truncate, "plans", "any", true),
            ("bob", WriteRight::Insert, "sales", "orders", false),
            ("bob", WriteRight::Define, "pg_catalog", "any", false),
            ("root", WriteRight::Define, "any", "thing", true),
        ] {
            let found = grants.may_write(user, right, schema, table);
            assert_eq!(found, may, "{user} {right:?} {schema}.{table}");
        }
        assert!(grants.may_read("ann", "plans", "any") && grants.may_use("analyst", "plans"));
        let of = |schema, table| {
            grants
                .holders(schema, table)
                .map(|(_, letters)| letters)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("sales", Some("orders")), ["ar"]);
        assert_eq!(of("plans", None), ["U", "UC"]);
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
