//! The file of users in TOML: reading it with every mistake named, and adding a user to it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use corun_wire::auth::Secret;
use corun_wire::auth::scram::{ITERATIONS_DEFAULT, Verifier};
use ring::rand::SecureRandom;
use toml::{Table, Value};

use super::grants::{Grants, Pattern, UserRights};
use crate::data::DataError;

/// Longest file read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a verifier's salt, as PostgreSQL makes it.
const SALT_BYTES: usize = 16;

const USER_KEYS: [&str; 5] = ["secret", "roles", "superuser", "read_files", "write_files"];
const ROLE_KEYS: [&str; 1] = ["read"];

/// A user as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEntry {
    /// Its name.
    pub name: String,
    /// Its SCRAM verifier; empty: it cannot log in with a password.
    pub secret: String,
}

/// The bytes of a file that is not too long.
pub(super) fn read(path: &Path) -> Result<String, DataError> {
    let failed = |error: std::io::Error| {
        DataError::config(format!("cannot read the file of users {}", path.display()))
            .detail(error.to_string())
    };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        let what = format!("{} has more than {FILE_BYTES_MAX} bytes", path.display());
        return Err(DataError::config(what));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Users, and what they may do.
pub(super) fn parse(text: &str) -> Result<(Vec<UserEntry>, Grants), DataError> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| {
        // Its own text would quote the line, which may have a secret.
        let line = error
            .span()
            .map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        DataError::config(format!("line {line}: {}", error.message()))
    })?;
    let (mut users, mut roles) = (Table::new(), Table::new());
    for (key, value) in file {
        let Value::Table(section) = value else {
            return Err(DataError::config(format!("\"{key}\" is not a section"))
                .hint("write [user.NAME] and [role.NAME]"));
        };
        match key.as_str() {
            "user" => users = section,
            "role" => roles = section,
            _ => return Err(DataError::unknown_key(&key, &["user", "role"])),
        }
    }
    let mut read: BTreeMap<String, Vec<Pattern>> = BTreeMap::new();
    for (name, value) in roles {
        let what = format!("role.{name}");
        let mut patterns = Vec::new();
        for (key, value) in section(&what, value)? {
            match key.as_str() {
                "read" => patterns = tables(&what, &value)?,
                _ => return Err(DataError::unknown_key(&key, &ROLE_KEYS)),
            }
        }
        read.insert(name, patterns);
    }
    let mut grants = Grants::default();
    let mut entries = Vec::new();
    for (name, value) in users {
        let (secret, rights) = user(&format!("user.{name}"), value, &read)?;
        grants.users.insert(name.clone(), rights);
        entries.push(UserEntry { name, secret });
    }
    Ok((entries, grants))
}

fn section(what: &str, value: Value) -> Result<Table, DataError> {
    match value {
        Value::Table(section) => Ok(section),
        _ => Err(DataError::config(format!("{what} is not a section")).hint(format!("write [{what}]"))),
    }
}

fn user(
    what: &str,
    value: Value,
    roles: &BTreeMap<String, Vec<Pattern>>,
) -> Result<(String, UserRights), DataError> {
    let mut secret = String::new();
    let mut rights = UserRights::default();
    for (key, value) in section(what, value)? {
        let flag = || {
            let flag = value.as_bool();
            flag.ok_or_else(|| DataError::config(format!("{what}.{key} is not true or false")))
        };
        match key.as_str() {
            "secret" => secret = verifier(what, &value)?,
            "superuser" => rights.superuser = flag()?,
            "read_files" => rights.read_files = flag()?,
            "write_files" => rights.write_files = flag()?,
            "roles" => {
                for role in texts(&format!("{what}.roles"), &value)? {
                    let known: Vec<&str> = roles.keys().map(String::as_str).collect();
                    let patterns = roles.get(role).ok_or_else(|| {
                        DataError::config(format!("{what}: there is no role \"{role}\""))
                            .nearest(role, &known)
                    })?;
                    rights.read.extend(patterns.iter().cloned());
                }
            }
            _ => return Err(DataError::unknown_key(&key, &USER_KEYS)),
        }
    }
    Ok((secret, rights))
}

fn verifier(what: &str, value: &Value) -> Result<String, DataError> {
    let text = value.as_str().unwrap_or_default();
    match Secret::parse(text.as_bytes()) {
        Some(Secret::Scram(_)) => Ok(text.to_owned()),
        _ => Err(DataError::config(format!("{what}.secret is no SCRAM verifier"))
            .hint("`corun-sql user add` makes one of a password")),
    }
}

fn texts<'v>(what: &str, value: &'v Value) -> Result<Vec<&'v str>, DataError> {
    let wrong = || DataError::config(format!("{what} is not a list of texts"));
    let list = value.as_array().ok_or_else(wrong)?;
    list.iter().map(|item| item.as_str().ok_or_else(wrong)).collect()
}

fn tables(what: &str, value: &Value) -> Result<Vec<Pattern>, DataError> {
    let texts = texts(&format!("{what}.read"), value)?;
    let pattern = |text: &str| {
        Pattern::parse(text).ok_or_else(|| {
            DataError::config(format!("{what}.read: \"{text}\" names no tables"))
                .hint("write \"schema.table\", \"schema.*\" or \"*\"")
        })
    };
    texts.into_iter().map(pattern).collect()
}

/// Adds a user with a verifier of its password to a file, which only its owner may read if it is made here. The file is replaced at once.
///
/// # Errors
/// A file that is not right, a user that there is already, no random numbers, what the file system refuses.
pub fn add_user(
    path: &Path,
    name: &str,
    password: &[u8],
    superuser: bool,
    random: &dyn SecureRandom,
) -> Result<(), DataError> {
    let mut text = match path.exists() {
        true => read(path)?,
        false => String::new(),
    };
    let (users, _) = parse(&text)?;
    if users.iter().any(|user| user.name == name) {
        let what = format!("user \"{name}\" is in {} already", path.display());
        return Err(DataError::config(what).hint("remove its section first"));
    }
    if password.is_empty() || name.is_empty() || name.contains('\0') {
        return Err(DataError::config("a user needs a name and a password"));
    }
    let mut salt = [0; SALT_BYTES];
    let failed = |_| DataError::config("the system has no random numbers");
    random.fill(&mut salt).map_err(failed)?;
    let iterations: NonZeroU32 = ITERATIONS_DEFAULT;
    let secret = Verifier::derive(password, &salt, iterations).to_secret_text();
    if !text.is_empty() {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let key = match name.chars().all(bare) {
        true => name.to_owned(),
        false => Value::String(name.to_owned()).to_string(),
    };
    text.push_str(&format!("[user.{key}]\nsecret = \"{secret}\"\n"));
    if superuser {
        text.push_str("superuser = true\n");
    }
    parse(&text)?;
    replace(path, &text).map_err(|error| {
        DataError::config(format!("cannot write {}", path.display())).detail(error.to_string())
    })
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        for (text, primary, hint) in [
            ("[users.ann]", "unknown key \"users\"", "did you mean \"user\"?"),
            (
                "[user.ann]\nrole = []",
                "unknown key \"role\"",
                "did you mean \"roles\"?",
            ),
            (
                "[user.ann]\nsecret = \"pw\"",
                "user.ann.secret is no SCRAM verifier",
                "`corun-sql user add` makes one of a password",
            ),
            (
                "[role.analyst]\nread = [\"*\"]\n[user.ann]\nroles = [\"analist\"]",
                "user.ann: there is no role \"analist\"",
                "did you mean \"analyst\"?",
            ),
            (
                "[role.r]\nread = [\"sales\"]",
                "role.r.read: \"sales\" names no tables",
                "write \"schema.table\", \"schema.*\" or \"*\"",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(
                (error.primary.as_str(), error.hint.as_deref()),
                (primary, Some(hint))
            );
        }
        let broken = parse("[user.ann]\nsecret = \"hidden\n").expect_err("no TOML");
        assert!(
            broken.primary.starts_with("line 2") && !broken.to_string().contains("hidden"),
            "{broken}"
        );
    }

    #[test]
    fn roles_are_rights_of_their_users() {
        let text = "[role.a]\nread = [\"s.*\"]\n[role.b]\nread = [\"t.x\"]\n[user.ann]\nroles = [\"a\", \"b\"]\n[user.root]\nsuperuser = true";
        let (users, grants) = parse(text).expect("right");
        assert_eq!(users.len(), 2);
        assert!(grants.may_read("ann", "s", "any") && grants.may_read("ann", "t", "x"));
        assert!(!grants.may_read("ann", "t", "y") && grants.is_superuser("root"));
    }

    #[test]
    fn users_are_added_to_a_file_of_the_owner_s() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users.toml");
        let random = ring::rand::SystemRandom::new();
        add_user(&path, "ann", b"secret", true, &random).expect("added");
        add_user(&path, "o \"p", b"other", false, &random).expect("added");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (users, grants) = parse(&read(&path).expect("read")).expect("right");
        let names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["ann", "o \"p"]);
        assert!(grants.is_superuser("ann") && !grants.is_superuser("o \"p"));
        let Some(Secret::Scram(verifier)) = Secret::parse(users[0].secret.as_bytes()) else {
            panic!("a verifier");
        };
        assert!(verifier.matches(b"secret") && !verifier.matches(b"Secret"));
        let again = add_user(&path, "ann", b"x", false, &random).expect_err("it is there");
        assert!(again.primary.contains("already"));
    }
}
