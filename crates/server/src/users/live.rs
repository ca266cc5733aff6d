//! [`LiveUsers`]: the users now. What changes them is in force for the next login, and the next statement of sessions that there are.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use ring::rand::SystemRandom;

use super::change::{self, Change};
use super::file;
use super::grants::WriteRight;
use super::limits::UserLimits;
use super::table::UserTable;
use crate::catalog::RoleFact;
use crate::data::{DataError, FileRights};
use crate::session::Rights;

/// The users of a server, as they change.
#[derive(Debug)]
pub struct LiveUsers {
    /// The file that changes are written to; `None`: none can be made.
    path: Option<PathBuf>,
    now: RwLock<Arc<UserTable>>,
    version: AtomicU64,
    /// One change after the other.
    changing: Mutex<()>,
}

impl LiveUsers {
    /// These users. Changes are written to `path`, which is a file of TOML.
    pub fn new(users: UserTable, path: Option<PathBuf>) -> Self {
        Self {
            path,
            now: RwLock::new(Arc::new(users)),
            version: AtomicU64::new(0),
            changing: Mutex::new(()),
        }
    }

    /// Other users from now on: their file was read again.
    pub(crate) fn replace(&self, users: UserTable) {
        let _one = self.changing.lock();
        self.put(users);
    }

    fn put(&self, users: UserTable) {
        *self.now.write() = Arc::new(users);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The users as they are now.
    pub fn now(&self) -> Arc<UserTable> {
        Arc::clone(&self.now.read())
    }
}

impl Rights for LiveUsers {
    fn files(&self, user: &str) -> FileRights {
        self.now().files(user)
    }

    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool {
        self.now().may_read(user, schema, table)
    }

    fn may_write(&self, user: &str, right: WriteRight, schema: &str, table: &str) -> bool {
        self.now().may_write(user, right, schema, table)
    }

    fn may_use(&self, user: &str, schema: &str) -> bool {
        self.now().may_use(user, schema)
    }

    fn is_member(&self, user: &str, role: &str) -> bool {
        self.now().is_member(user, role)
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.now().is_superuser(user)
    }

    fn roles(&self) -> Vec<RoleFact> {
        self.now().roles()
    }

    fn holders(&self, schema: &str, table: Option<&str>) -> Vec<(String, String)> {
        self.now().holders(schema, table)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn limits(&self, user: &str) -> UserLimits {
        self.now().limits(user)
    }

    fn change(&self, by: &str, change: &Change) -> Result<(), DataError> {
        let Some(path) = &self.path else {
            return Err(DataError::new(
                "0A000",
                "this server has no file of users that roles could be written to",
            )
            .hint("Start it with --users FILE.toml; `corun-sql user add` makes one."));
        };
        let _one = self.changing.lock();
        if !self.is_superuser(by) && !change.is_own_password(by) {
            return Err(
                DataError::denied("permission denied to change users and their rights")
                    .hint("Only users that are superusers may."),
            );
        }
        let random = SystemRandom::new();
        let changed = file::change(path, |text| {
            let (_, grants) = file::parse(text)?;
            change::applied(text, &grants, change, by, &random)
        });
        let (users, grants) = changed?;
        let table = UserTable::of_file(path, &users, grants)?;
        tracing::info!(by, change = change.verb(), "the file of users was changed");
        self.put(table);
        Ok(())
    }
}
