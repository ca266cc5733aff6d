//! [`Change`]: what `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, `GRANT` and `REVOKE` make of the file of users. Comments and order stay.

use ring::rand::SecureRandom;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::file::verifier_of;
use super::grants::{Grants, SchemaRight, TableRight};
use super::limits::UserLimits;
use crate::data::DataError;

/// A password in clear text, on its way to its verifier. Nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

/// Options of `CREATE ROLE` and `ALTER ROLE`; those that are `None` were not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN`, `NOLOGIN`.
    pub login: Option<bool>,
    /// `SUPERUSER`, `NOSUPERUSER`.
    pub superuser: Option<bool>,
    /// `PASSWORD`; `Some(None)` is `PASSWORD NULL`.
    pub password: Option<Option<Password>>,
    /// `CONNECTION LIMIT`; -1: any number.
    pub connections: Option<i64>,
    /// `VALID UNTIL`, in the form of RFC 3339; `Some(None)` is for ever.
    pub valid_until: Option<Option<String>>,
    /// `IN ROLE`.
    pub in_roles: Vec<String>,
    /// `ROLE`.
    pub members: Vec<String>,
}

/// What is granted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Right {
    /// To tables, as the file writes them: `schema.table` or `schema.*`.
    Tables(Vec<TableRight>, Vec<String>),
    /// To schemas.
    Schemas(Vec<SchemaRight>, Vec<String>),
    /// To be in roles.
    Roles(Vec<String>),
}

/// A statement that changes users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `CREATE ROLE`, `CREATE USER`.
    Create(String, RoleOptions),
    /// `ALTER ROLE`.
    Alter(String, RoleOptions),
    /// `ALTER ROLE ... SET`, `RESET` (no value) of a limit.
    Limit(String, String, Option<String>),
    /// `DROP ROLE`; whether one that there is not is no mistake.
    Drop(Vec<String>, bool),
    /// `GRANT ... TO`, and whether it is.
    Grant(Right, Vec<String>, bool),
}

impl Change {
    /// For the log, which shows no more.
    pub fn verb(&self) -> &'static str {
        match self {
            Change::Create(..) => "CREATE ROLE",
            Change::Alter(..) | Change::Limit(..) => "ALTER ROLE",
            Change::Drop(..) => "DROP ROLE",
            Change::Grant(Right::Roles(_), _, true) => "GRANT ROLE",
            Change::Grant(Right::Roles(_), _, false) => "REVOKE ROLE",
            Change::Grant(_, _, true) => "GRANT",
            Change::Grant(_, _, false) => "REVOKE",
        }
    }

    /// Whether it only gives a user another password of its own, which everyone may.
    pub(super) fn is_own_password(&self, user: &str) -> bool {
        match self {
            Change::Alter(name, options) => {
                let rest = RoleOptions {
                    password: None,
                    ..options.clone()
                };
                name == user
                    && options.password.as_ref().is_some_and(Option::is_some)
                    && rest == RoleOptions::default()
            }
            _ => false,
        }
    }
}

fn no_role(name: &str) -> DataError {
    DataError::new("42704", format!("role \"{name}\" does not exist"))
}

fn unsupported(what: &str) -> DataError {
    DataError::new("0A000", what)
}

/// The text of the file after a change, `by` a user. `grants` are those of `text`.
///
/// # Errors
/// PostgreSQL's for roles that there are or are not, and for what cannot be.
pub(super) fn applied(
    text: &str,
    grants: &Grants,
    change: &Change,
    by: &str,
    random: &dyn SecureRandom,
) -> Result<String, DataError> {
    // It was parsed before, by the same rules.
    let document = text.parse::<DocumentMut>();
    let mut document = document.map_err(|_| DataError::config("the file of users cannot be read"))?;
    let known = |name: &String| match grants.roles.contains_key(name) {
        true => Ok(()),
        false => Err(no_role(name)),
    };
    match change {
        Change::Create(name, options) => {
            if grants.roles.contains_key(name) {
                return Err(DataError::new("42710", format!("role \"{name}\" already exists")));
            }
            if name.is_empty() || name == "public" || name == "none" || name.starts_with("pg_") {
                return Err(DataError::new(
                    "42939",
                    format!("role name \"{name}\" is reserved"),
                ));
            }
            options
                .in_roles
                .iter()
                .chain(&options.members)
                .try_for_each(known)?;
            let kind = if options.login == Some(true) {
                "user"
            } else {
                "role"
            };
            sections(&mut document, kind)?.insert(name, Item::Table(Table::new()));
            set_options(section(&mut document, name)?, kind, options, random)?;
            for role in &options.in_roles {
                change_list(
                    section(&mut document, name)?,
                    "roles",
                    std::slice::from_ref(role),
                    true,
                )?;
            }
            for member in &options.members {
                change_list(
                    section(&mut document, member)?,
                    "roles",
                    std::slice::from_ref(name),
                    true,
                )?;
            }
        }
        Change::Alter(name, options) => {
            known(name)?;
            let is_user = grants.roles.get(name).is_some_and(|rights| rights.login);
            if is_user && options.login == Some(false) {
                return Err(unsupported("a user cannot become a role without LOGIN")
                    .hint("PASSWORD NULL keeps it out"));
            }
            if !is_user && options.login == Some(true) {
                let moved = sections(&mut document, "role")?
                    .remove(name)
                    .ok_or_else(|| no_role(name))?;
                sections(&mut document, "user")?.insert(name, moved);
            }
            let kind = if is_user || options.login == Some(true) {
                "user"
            } else {
                "role"
            };
            set_options(section(&mut document, name)?, kind, options, random)?;
        }
        Change::Limit(name, key, limit) => {
            known(name)?;
            UserLimits::default().set(key, limit.as_deref())?;
            if !grants.roles.get(name).is_some_and(|rights| rights.login) {
                return Err(unsupported("limits are for users that log in"));
            }
            let section = section(&mut document, name)?;
            match limit {
                None => drop(section.remove(key)),
                Some(limit) => set(section, key, value(limit.as_str())),
            }
        }
        Change::Drop(names, if_exists) => {
            for name in names {
                if name == by {
                    return Err(DataError::new("55006", "current user cannot be dropped"));
                }
                if !grants.roles.contains_key(name) {
                    match if_exists {
                        true => continue,
                        false => return Err(no_role(name)),
                    }
                }
                for kind in ["user", "role"] {
                    sections(&mut document, kind)?.remove(name);
                }
                for member in grants.roles.keys().filter(|member| !names.contains(member)) {
                    change_list(
                        section(&mut document, member)?,
                        "roles",
                        std::slice::from_ref(name),
                        false,
                    )?;
                }
            }
        }
        Change::Grant(right, to, is_grant) => {
            to.iter().try_for_each(known)?;
            for name in to {
                let (keys, values): (Vec<&str>, _) = match right {
                    Right::Tables(rights, tables) => {
                        if !is_grant {
                            let mut rights = rights.iter();
                            rights.try_for_each(|right| covered(grants, name, *right, tables))?;
                        }
                        (rights.iter().map(|right| right.key()).collect(), tables)
                    }
                    Right::Schemas(rights, schemas) => {
                        (rights.iter().map(|right| right.key()).collect(), schemas)
                    }
                    Right::Roles(roles) => {
                        roles.iter().try_for_each(known)?;
                        if let Some(role) = roles
                            .iter()
                            .find(|role| *is_grant && grants.is_member(role, name))
                        {
                            let what = format!("role \"{role}\" is a member of role \"{name}\"");
                            return Err(DataError::new("0LP01", what));
                        }
                        (vec!["roles"], roles)
                    }
                };
                for key in keys {
                    change_list(section(&mut document, name)?, key, values, *is_grant)?;
                }
            }
        }
    }
    Ok(document.to_string())
}

/// Refuses to take one table out of a right to all of its schema.
fn covered(grants: &Grants, name: &str, right: TableRight, tables: &[String]) -> Result<(), DataError> {
    let Some(rights) = grants.roles.get(name) else {
        return Ok(());
    };
    for text in tables {
        let Some((schema, table)) = text.split_once('.').filter(|(_, table)| *table != "*") else {
            continue;
        };
        let itself = super::Pattern::parse(text);
        let mut own = rights.tables[right as usize].iter();
        let wider = own.find(|own| Some(*own) != itself.as_ref() && own.has(schema, table));
        if wider.is_some() {
            let (verb, word) = match right {
                TableRight::Select => ("read", "SELECT"),
                other => ("change", TableRight::ALL[other as usize].1),
            };
            let what =
                format!("role \"{name}\" may {verb} more than the table {text} at once, and keeps that");
            return Err(unsupported(&what).hint(format!(
                "REVOKE {word} ON ALL TABLES IN SCHEMA {schema}, then GRANT what it shall keep."
            )));
        }
    }
    Ok(())
}

/// All sections of users, or of roles.
fn sections<'d>(document: &'d mut DocumentMut, kind: &str) -> Result<&'d mut dyn TableLike, DataError> {
    let mut none = Table::new();
    none.set_implicit(true);
    let item = document.entry(kind).or_insert(Item::Table(none));
    item.as_table_like_mut()
        .ok_or_else(|| DataError::config(format!("{kind} is not a section")))
}

fn section<'d>(document: &'d mut DocumentMut, name: &str) -> Result<&'d mut dyn TableLike, DataError> {
    let has = |kind: &str| {
        let all = document.get(kind).and_then(Item::as_table_like);
        all.is_some_and(|all| all.contains_key(name))
    };
    let kind = if has("user") { "user" } else { "role" };
    let item = sections(document, kind)?.get_mut(name);
    item.and_then(Item::as_table_like_mut)
        .ok_or_else(|| no_role(name))
}

/// Puts a value in the place of another, whose comment stays.
fn set(section: &mut dyn TableLike, key: &str, to: Item) {
    match section.get_mut(key) {
        Some(there) => *there = to,
        None => drop(section.insert(key, to)),
    }
}

fn change_list(
    section: &mut dyn TableLike,
    key: &str,
    values: &[String],
    add: bool,
) -> Result<(), DataError> {
    if section.get(key).is_none() {
        if !add {
            return Ok(());
        }
        section.insert(key, value(Array::new()));
    }
    let list = section.get_mut(key).and_then(Item::as_array_mut);
    let list = list.ok_or_else(|| DataError::config(format!("\"{key}\" is not a list")))?;
    for value in values {
        let at = list.iter().position(|own| own.as_str() == Some(value));
        match (at, add) {
            (None, true) => list.push(value.as_str()),
            (Some(at), false) => drop(list.remove(at)),
            _ => {}
        }
    }
    Ok(())
}

fn set_options(
    section: &mut dyn TableLike,
    kind: &str,
    options: &RoleOptions,
    random: &dyn SecureRandom,
) -> Result<(), DataError> {
    let of_users = options.password.is_some()
        || options.connections.is_some()
        || options.valid_until.is_some()
        || options.superuser == Some(true);
    if kind == "role" && of_users {
        return Err(
            unsupported("passwords, limits and SUPERUSER are for users that log in")
                .hint("Use CREATE USER, or LOGIN; GRANT makes a user a member of a role."),
        );
    }
    match &options.password {
        Some(Some(Password(text))) if text.is_empty() => {
            return Err(DataError::new("22023", "the password is empty"));
        }
        // One that is a verifier already is taken as it is, as PostgreSQL does.
        Some(Some(Password(text))) if text.starts_with("SCRAM-SHA-256$") => {
            set(section, "secret", value(text.as_str()))
        }
        Some(Some(Password(text))) => set(section, "secret", value(verifier_of(text.as_bytes(), random)?)),
        Some(None) => drop(section.remove("secret")),
        None => {}
    }
    match options.superuser {
        Some(true) => set(section, "superuser", value(true)),
        Some(false) => drop(section.remove("superuser")),
        None => {}
    }
    match options.connections {
        Some(-1) => drop(section.remove("connections")),
        Some(most) if most > 0 => set(section, "connections", value(most)),
        Some(most) => {
            let what = format!("invalid connection limit: {most}");
            return Err(DataError::new("22023", what).hint("give a number above 0, or -1"));
        }
        None => {}
    }
    match &options.valid_until {
        Some(Some(moment)) => set(section, "valid_until", value(moment.as_str())),
        Some(None) => drop(section.remove("valid_until")),
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::*;

    const FILE: &str = "# who there is\n[user.root]\nsuperuser = true # all of it\n\n[user.ann]\nroles = [\"analyst\"]\n\n\
        [role.analyst]\nread = [\"sales.*\", \"hr.people\"]\n";

    fn change(text: &str, change: &Change) -> Result<String, DataError> {
        let (_, grants) = parse(text)?;
        let text = applied(text, &grants, change, "root", &ring::rand::SystemRandom::new())?;
        parse(&text)?;
        Ok(text)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_stands_in_the_file_stays() {
        let reads = |tables: &[&str]| Right::Tables(vec![TableRight::Select], names(tables));
        let of = Change::Grant(reads(&["public.t"]), names(&["ann", "analyst"]), true);
        let text = change(FILE, &of).expect("granted");
        let kept = "# who there is\n[user.root]\nsuperuser = true # all of it\n\n[user.ann]\nroles = [\"analyst\"]\n";
        assert!(text.starts_with(kept), "{text}");
        assert_eq!(change(&text, &of).expect("again"), text);
        let (_, grants) = parse(&text).expect("right");
        assert!(grants.may_read("ann", "public", "t"));
        let of = Change::Grant(reads(&["public.t"]), names(&["ann", "analyst"]), false);
        let (_, grants) = parse(&change(&text, &of).expect("revoked")).expect("right");
        assert!(!grants.may_read("ann", "public", "t") && grants.may_read("ann", "sales", "x"));
    }

    #[test]
    fn rights_to_write_come_and_go() {
        use super::super::grants::WriteRight;
        let rights = vec![TableRight::Insert, TableRight::Delete];
        let tables = Right::Tables(rights, names(&["public.t"]));
        let text = change(FILE, &Change::Grant(tables.clone(), names(&["ann"]), true)).expect("granted");
        assert!(
            text.contains("insert = [\"public.t\"]\ndelete = [\"public.t\"]"),
            "{text}"
        );
        let create = Right::Schemas(vec![SchemaRight::Create, SchemaRight::Usage], names(&["plans"]));
        let text = change(&text, &Change::Grant(create, names(&["analyst"]), true)).expect("granted");
        let (_, grants) = parse(&text).expect("right");
        assert!(grants.may_write("ann", WriteRight::Insert, "public", "t"));
        assert!(grants.may_write("ann", WriteRight::Define, "plans", "new"));
        let text = change(&text, &Change::Grant(tables, names(&["ann"]), false)).expect("revoked");
        let (_, grants) = parse(&text).expect("right");
        assert!(!grants.may_write("ann", WriteRight::Delete, "public", "t"));
    }

    #[test]
    fn users_come_change_and_go() {
        let options = RoleOptions {
            login: Some(true),
            password: Some(Some(Password("pw".to_owned()))),
            connections: Some(2),
            in_roles: names(&["analyst"]),
            ..RoleOptions::default()
        };
        let text = change(FILE, &Change::Create("o'neil \"x\"".to_owned(), options)).expect("created");
        assert!(!text.contains("pw\""), "{text}");
        let (users, grants) = parse(&text).expect("right");
        assert!(
            users
                .iter()
                .any(|user| user.name == "o'neil \"x\"" && user.secret.starts_with("SCRAM-SHA-256$"))
        );
        assert!(grants.may_read("o'neil \"x\"", "sales", "x"));
        assert_eq!(grants.limits("o'neil \"x\"").connections, Some(2));
        let text = change(
            &text,
            &Change::Limit("ann".to_owned(), "weight".to_owned(), Some("7".to_owned())),
        );
        let (_, grants) = parse(&text.expect("set")).expect("right");
        assert_eq!(grants.limits("ann").weight.get(), 7);
        let text = change(FILE, &Change::Drop(names(&["analyst", "nobody"]), true)).expect("dropped");
        let (_, grants) = parse(&text).expect("right");
        assert!(!grants.may_read("ann", "sales", "x") && !grants.roles.contains_key("analyst"));
        let login = RoleOptions {
            login: Some(true),
            ..RoleOptions::default()
        };
        let text = change(FILE, &Change::Alter("analyst".to_owned(), login)).expect("altered");
        let (users, grants) = parse(&text).expect("right");
        assert!(users.iter().any(|user| user.name == "analyst") && grants.may_read("ann", "hr", "people"));
    }

    #[test]
    fn what_cannot_be_has_postgresql_s_codes() {
        let none = RoleOptions::default;
        let grant = |right, to: &str, is| Change::Grant(right, names(&[to]), is);
        let reads = |table: &str| Right::Tables(vec![TableRight::Select], names(&[table]));
        for (of, code) in [
            (Change::Create("ann".to_owned(), none()), "42710"),
            (Change::Create("pg_x".to_owned(), none()), "42939"),
            (Change::Alter("bob".to_owned(), none()), "42704"),
            (Change::Drop(names(&["bob"]), false), "42704"),
            (Change::Drop(names(&["root"]), false), "55006"),
            (Change::Limit("ann".to_owned(), "speed".to_owned(), None), "42704"),
            (grant(reads("a.b"), "bob", true), "42704"),
            (grant(Right::Roles(names(&["bob"])), "ann", true), "42704"),
            (grant(Right::Roles(names(&["ann"])), "analyst", true), "0LP01"),
            (grant(reads("sales.q1"), "analyst", false), "0A000"),
        ] {
            assert_eq!(change(FILE, &of).expect_err("refused").code, code, "{of:?}");
        }
        let own = |password: &str| RoleOptions {
            password: Some(Some(Password(password.to_owned()))),
            ..RoleOptions::default()
        };
        assert!(Change::Alter("ann".to_owned(), own("x")).is_own_password("ann"));
        assert!(!Change::Alter("ann".to_owned(), own("x")).is_own_password("bob"));
        assert!(!format!("{:?}", own("hidden")).contains("hidden"));
    }
}
