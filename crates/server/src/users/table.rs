//! [`UserTable`]: the users of a server.

use std::collections::BTreeSet;
use std::path::Path;

use corun_wire::auth::userlist::Userlist;
use corun_wire::auth::{Lookup, Mock};
use corun_wire::server::Users;
use corun_wire::tls::readable_by_others;
use ring::rand::SecureRandom;

use super::file;
use super::grants::{Grants, WriteRight};
use super::limits::UserLimits;
use crate::catalog::RoleFact;
use crate::data::{DataError, FileRights};
use crate::session::Rights;

/// The users of a server; clones are the same.
#[derive(Debug, Clone)]
pub struct UserTable {
    secrets: Userlist,
    grants: Grants,
    warnings: Vec<String>,
    /// There is no file: whoever reaches the server is who they say.
    everyone: bool,
}

impl UserTable {
    /// Everybody is there and may do everything; for rules that let in who is on this machine.
    pub fn everyone() -> Self {
        Self {
            secrets: Userlist::default(),
            grants: full(),
            warnings: Vec::new(),
            everyone: true,
        }
    }

    /// Reads a file: TOML where it is named `.toml`, otherwise as the pooler's `auth_file`, whose users may read everything.
    ///
    /// # Errors
    /// What is wrong in the file, and where.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        if path.extension().is_none_or(|extension| extension != "toml") {
            let secrets = Userlist::load(path).map_err(|error| DataError::config(error.to_string()))?;
            return Ok(Self {
                warnings: secrets.warnings().to_vec(),
                secrets,
                grants: full(),
                everyone: false,
            });
        }
        let named = |error: DataError| DataError {
            primary: format!("{}: {}", path.display(), error.primary),
            ..error
        };
        let text = file::read(path)?;
        let (users, grants) = file::parse(&text).map_err(named)?;
        Self::of_file(path, &users, grants)
    }

    /// The users and rights that a file of TOML has.
    ///
    /// # Errors
    /// None that the file's own check lets through.
    pub(super) fn of_file(path: &Path, users: &[file::UserEntry], grants: Grants) -> Result<Self, DataError> {
        // In the form that the logins know, with the same rules for what a secret is.
        let line =
            |user: &file::UserEntry| format!("\"{}\" \"{}\"\n", user.name.replace('"', "\"\""), user.secret);
        let lines: String = users.iter().map(line).collect();
        let secrets =
            Userlist::parse(lines.as_bytes(), path).map_err(|error| DataError::config(error.to_string()))?;
        Ok(Self {
            secrets,
            grants,
            warnings: readable_by_others(path).into_iter().collect(),
            everyone: false,
        })
    }

    /// Whether everybody is there.
    pub fn is_everyone(&self) -> bool {
        self.everyone
    }

    /// What users may do.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Names of all users; none where everybody is there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.names()
    }

    /// What is not wrong but should be looked at.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn has_expired(&self, user: &str) -> bool {
        let until = self.grants.roles.get(user).and_then(|rights| rights.valid_until);
        until.is_some_and(|until| until <= chrono::Utc::now().timestamp_micros())
    }

    /// What users that do not exist are shown; `None` without random numbers.
    pub(crate) fn mock(&self, random: &dyn SecureRandom) -> Option<Mock> {
        let mock = self.secrets.mock(random)?;
        mock.prepare(self.secrets.secrets());
        Some(mock)
    }
}

fn full() -> Grants {
    Grants {
        everything: true,
        ..Grants::default()
    }
}

impl Users for UserTable {
    fn lookup(&self, user: &str) -> Lookup<'_> {
        match self.everyone {
            true => Lookup::NoSecret,
            // PostgreSQL, too, lets nobody in by a password that has expired, and does not say why.
            false if self.has_expired(user) => Lookup::NoSecret,
            false => self.secrets.lookup(user),
        }
    }
}

/// Number of the first role, as `pg_roles` shows it; that of PostgreSQL's own is 10.
const FIRST_ROLE: i32 = 16_384;

impl Rights for UserTable {
    fn files(&self, user: &str) -> FileRights {
        let (read, write) = self.grants.files(user);
        FileRights { read, write }
    }

    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        self.grants.may_read(user, schema, table)
    }

    fn may_write(&self, user: &str, right: WriteRight, schema: &str, table: &str) -> bool {
        self.grants.may_write(user, right, schema, table)
    }

    fn may_use(&self, user: &str, schema: &str) -> bool {
        self.grants.may_use(user, schema)
    }

    fn is_member(&self, user: &str, role: &str) -> bool {
        self.is_superuser(user) || user == role || self.grants.is_member(user, role)
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.grants.is_superuser(user)
    }

    fn roles(&self) -> Vec<RoleFact> {
        let names: BTreeSet<&str> = self
            .names()
            .chain(self.grants.roles.keys().map(String::as_str))
            .collect();
        let fact = |(oid, name): (i32, &str)| {
            let rights = self.grants.roles.get(name);
            let limits = self.grants.limits(name);
            RoleFact {
                oid,
                name: name.to_owned(),
                superuser: self.grants.is_superuser(name),
                login: rights.is_none_or(|rights| rights.login),
                connections_max: limits
                    .connections
                    .map_or(-1, |most| i32::try_from(most).unwrap_or(i32::MAX)),
                valid_until: rights.and_then(|rights| rights.valid_until),
                roles: rights.map(|rights| rights.roles.clone()).unwrap_or_default(),
                limits: limits.shown(),
            }
        };
        (FIRST_ROLE..).zip(names).map(fact).collect()
    }

    fn holders(&self, schema: &str, table: Option<&str>) -> Vec<(String, String)> {
        let holders = self.grants.holders(schema, table);
        holders
            .map(|(name, letters)| (name.to_owned(), letters))
            .collect()
    }

    fn limits(&self, user: &str) -> UserLimits {
        self.grants.limits(user)
    }
}
