//! The file of users in TOML: reading it with every mistake named, and replacing it.

use std::io::Write as _;
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use corun_wire::auth::Secret;
use corun_wire::auth::scram::{ITERATIONS_DEFAULT, Verifier};
use ring::rand::SecureRandom;
use toml::{Table, Value};

use super::grants::{Grants, Pattern, RoleRights, TableRight};
use crate::data::DataError;

/// Longest file read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a verifier's salt, as PostgreSQL makes it.
const SALT_BYTES: usize = 16;

const USER_KEYS: [&str; 18] = [
    "secret",
    "valid_until",
    "roles",
    "superuser",
    "read",
    "insert",
    "update",
    "delete",
    "truncate",
    "usage",
    "create",
    "read_files",
    "write_files",
    "memory",
    "statement_timeout",
    "connections",
    "queries",
    "weight",
];
const ROLE_KEYS: [&str; 8] = [
    "read", "insert", "update", "delete", "truncate", "usage", "create", "roles",
];

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
    let mut grants = Grants::default();
    let mut entries = Vec::new();
    for (kind, value) in file {
        let Value::Table(sections) = value else {
            return Err(DataError::config(format!("\"{kind}\" is not a section"))
                .hint("write [user.NAME] and [role.NAME]"));
        };
        let is_user = match kind.as_str() {
            "user" => true,
            "role" => false,
            _ => return Err(DataError::unknown_key(&kind, &["user", "role"])),
        };
        for (name, value) in sections {
            let (secret, rights) = role(&format!("{kind}.{name}"), value, is_user)?;
            if grants.roles.insert(name.clone(), rights).is_some() {
                return Err(DataError::config(format!(
                    "there are a user and a role \"{name}\""
                )));
            }
            if is_user {
                entries.push(UserEntry { name, secret });
            }
        }
    }
    let known: Vec<&str> = grants.roles.keys().map(String::as_str).collect();
    for (name, rights) in &grants.roles {
        if let Some(role) = rights.roles.iter().find(|role| !grants.roles.contains_key(*role)) {
            let kind = if rights.login { "user" } else { "role" };
            let what = format!("{kind}.{name}: there is no role \"{role}\"");
            return Err(DataError::config(what).nearest(role, &known));
        }
    }
    match grants.circle() {
        Some(name) => Err(DataError::config(format!("role \"{name}\" is in itself"))),
        None => Ok((entries, grants)),
    }
}

fn section(what: &str, value: Value) -> Result<Table, DataError> {
    match value {
        Value::Table(section) => Ok(section),
        _ => Err(DataError::config(format!("{what} is not a section")).hint(format!("write [{what}]"))),
    }
}

/// The secret and the rights of a section.
fn role(what: &str, value: Value, is_user: bool) -> Result<(String, RoleRights), DataError> {
    let keys: &[&str] = if is_user { &USER_KEYS } else { &ROLE_KEYS };
    let mut secret = String::new();
    let mut rights = RoleRights {
        login: is_user,
        ..RoleRights::default()
    };
    for (key, value) in section(what, value)? {
        if !keys.contains(&key.as_str()) {
            return Err(DataError::unknown_key(&key, keys));
        }
        let flag = || {
            let flag = value.as_bool();
            flag.ok_or_else(|| DataError::config(format!("{what}.{key} is not true or false")))
        };
        let names = || {
            let texts = texts(&format!("{what}.{key}"), &value)?.into_iter();
            Ok::<_, DataError>(texts.map(str::to_owned).collect::<Vec<_>>())
        };
        match key.as_str() {
            "secret" => secret = verifier(what, &value)?,
            "superuser" => rights.superuser = flag()?,
            "read_files" => rights.read_files = flag()?,
            "write_files" => rights.write_files = flag()?,
            "usage" => rights.usage = names()?,
            "create" => rights.create = names()?,
            "roles" => rights.roles = names()?,
            "valid_until" => rights.valid_until = Some(moment(&format!("{what}.{key}"), &value)?),
            key if of_tables(key).is_some() => {
                let right = of_tables(key).unwrap_or(TableRight::Select);
                rights.tables[right as usize] = tables(&format!("{what}.{key}"), &value)?;
            }
            limit => {
                let text = match &value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let set = rights.limits.set(limit, Some(&text));
                set.map_err(|error| DataError {
                    code: "F0000",
                    primary: format!("{what}: {}", error.primary),
                    ..error
                })?;
            }
        }
    }
    Ok((secret, rights))
}

/// The right to tables that a key lists.
fn of_tables(key: &str) -> Option<TableRight> {
    let known = TableRight::ALL.iter().find(|(.., known)| *known == key)?;
    Some(known.0)
}

/// Microseconds since 1970 of a date and time with its zone.
fn moment(what: &str, value: &Value) -> Result<i64, DataError> {
    let text = match value {
        Value::Datetime(moment) => moment.to_string(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    let moment = chrono::DateTime::parse_from_rfc3339(&text);
    moment.map(|moment| moment.timestamp_micros()).map_err(|_| {
        DataError::config(format!("{what} is no date and time"))
            .hint("write it with its zone, such as 2027-01-31T00:00:00Z")
    })
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
    let texts = texts(what, value)?;
    let pattern = |text: &str| {
        Pattern::parse(text).ok_or_else(|| {
            DataError::config(format!("{what}: \"{text}\" names no tables"))
                .hint("write \"schema.table\", \"schema.*\" or \"*\"")
        })
    };
    texts.into_iter().map(pattern).collect()
}

/// A verifier of a password, as PostgreSQL makes it.
///
/// # Errors
/// A system without random numbers.
pub(super) fn verifier_of(password: &[u8], random: &dyn SecureRandom) -> Result<String, DataError> {
    let mut salt = [0; SALT_BYTES];
    let failed = |_| DataError::config("the system has no random numbers");
    random.fill(&mut salt).map_err(failed)?;
    let iterations: NonZeroU32 = ITERATIONS_DEFAULT;
    Ok(Verifier::derive(password, &salt, iterations).to_secret_text())
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
    if password.is_empty() || name.is_empty() || name.contains('\0') {
        return Err(DataError::config("a user needs a name and a password"));
    }
    let secret = verifier_of(password, random)?;
    change(path, |text| {
        let (_, grants) = parse(text)?;
        if grants.roles.contains_key(name) {
            let what = format!("user \"{name}\" is in {} already", path.display());
            return Err(DataError::config(what).hint("remove its section first"));
        }
        let mut text = text.to_owned();
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
        Ok(text)
    })
    .map(drop)
}

/// Puts what `edit` makes of a file's text in the place of the file, and returns what it has then. Of two changes at a time, by whichever
/// processes, the second begins when the first is there; a file that somebody else has written meanwhile is left as it is.
///
/// # Errors
/// Those of `edit`; a new text that is not right; what the file system refuses.
pub(super) fn change(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<String, DataError>,
) -> Result<(Vec<UserEntry>, Grants), DataError> {
    let failed = |error: std::io::Error| {
        DataError::config(format!("cannot write {}", path.display())).detail(error.to_string())
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    // Until it is closed at the end.
    folder.lock().map_err(failed)?;
    let current = || match path.exists() {
        true => read(path),
        false => Ok(String::new()),
    };
    let before = current()?;
    let text = edit(&before)?;
    let (users, grants) = parse(&text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(DataError::config(format!(
            "{} would have more than {FILE_BYTES_MAX} bytes",
            path.display()
        )));
    }
    if current()? != before {
        return Err(DataError::new(
            "55000",
            format!("{} was changed by somebody else", path.display()),
        )
        .hint("try again"));
    }
    replace(path, &text)
        .and_then(|()| folder.sync_all())
        .map_err(failed)?;
    Ok((users, grants))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // One that an earlier end has left may be anybody's to read.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
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
                "[role.a]\nread = []\n[user.a]\nsuperuser = true",
                "there are a user and a role \"a\"",
                "",
            ),
            (
                "[role.a]\nroles = [\"b\"]\n[role.b]\nroles = [\"a\"]",
                "role \"a\" is in itself",
                "",
            ),
            (
                "[user.ann]\nweight = 1000",
                "user.ann: invalid value for \"weight\": \"1000\"",
                "give a whole number from 1 to 100",
            ),
            (
                "[user.ann]\nvalid_until = 2027-01-01",
                "user.ann.valid_until is no date and time",
                "write it with its zone, such as 2027-01-31T00:00:00Z",
            ),
            (
                "[role.r]\nread = [\"sales\"]",
                "role.r.read: \"sales\" names no tables",
                "write \"schema.table\", \"schema.*\" or \"*\"",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(
                (error.primary.as_str(), error.hint.as_deref().unwrap_or_default()),
                (primary, hint)
            );
        }
        let broken = parse("[user.ann]\nsecret = \"hidden\n").expect_err("no TOML");
        assert!(
            broken.primary.starts_with("line 2") && !broken.to_string().contains("hidden"),
            "{broken}"
        );
    }

    #[test]
    fn rights_to_write_are_read() {
        use super::super::grants::WriteRight;
        let text = "[role.w]\ninsert = [\"s.t\"]\nupdate = [\"s.*\"]\ncreate = [\"own\"]\n[user.ann]\nroles = [\"w\"]\n\
            delete = [\"*\"]\ntruncate = []";
        let (_, grants) = parse(text).expect("right");
        let may = |right, schema, table| grants.may_write("ann", right, schema, table);
        assert!(may(WriteRight::Insert, "s", "t") && !may(WriteRight::Insert, "s", "u"));
        assert!(may(WriteRight::Update, "s", "u") && may(WriteRight::Delete, "any", "thing"));
        assert!(!may(WriteRight::Truncate, "s", "t") && may(WriteRight::Truncate, "own", "t"));
        assert!(may(WriteRight::Define, "own", "") && !may(WriteRight::Define, "s", "t"));
        let error = parse("[role.r]\ninsert = [\"sales\"]").expect_err("no table");
        assert_eq!(error.primary, "role.r.insert: \"sales\" names no tables");
    }

    #[test]
    fn roles_are_rights_of_their_users() {
        let text = "[role.a]\nread = [\"s.*\"]\n[role.b]\nread = [\"t.x\"]\n[user.ann]\nroles = [\"a\", \"b\"]\n\
            memory = \"1GiB\"\nweight = 20\nvalid_until = 2027-01-01T00:00:00Z\n[user.root]\nsuperuser = true";
        let (users, grants) = parse(text).expect("right");
        assert_eq!(users.len(), 2);
        assert!(grants.may_read("ann", "s", "any") && grants.may_read("ann", "t", "x"));
        assert!(!grants.may_read("ann", "t", "y") && grants.is_superuser("root"));
        assert_eq!(grants.limits("ann").memory_bytes, Some(1 << 30));
        assert_eq!(grants.roles["ann"].valid_until, Some(1_798_761_600_000_000));
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
