//! [`UserTable`]: the users of a server.

use std::path::Path;

use corun_wire::auth::userlist::Userlist;
use corun_wire::auth::{Lookup, Mock};
use corun_wire::server::Users;
use corun_wire::tls::readable_by_others;
use ring::rand::SecureRandom;

use super::file;
use super::grants::Grants;
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
            false => self.secrets.lookup(user),
        }
    }
}

/// Number of the first user, as `pg_roles` shows it; that of PostgreSQL's own is 10.
const FIRST_ROLE: i32 = 16_384;

impl Rights for UserTable {
    fn files(&self, user: &str) -> FileRights {
        let (read, write) = self.grants.files(user);
        FileRights { read, write }
    }

    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        self.grants.may_read(user, schema, table)
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.grants.is_superuser(user)
    }

    fn roles(&self) -> Vec<RoleFact> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        let fact = |(oid, name): (i32, &str)| RoleFact {
            oid,
            name: name.to_owned(),
            superuser: self.grants.is_superuser(name),
            login: true,
            connections_max: -1,
        };
        (FIRST_ROLE..).zip(names).map(fact).collect()
    }
}
