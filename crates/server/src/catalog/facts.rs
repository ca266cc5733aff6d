//! [`SessionFacts`]: what the system tables and functions say of the session that asks, and of the others.

use std::fmt::Debug;

/// A role, as `pg_roles` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleFact {
    /// Its number; 10 is the first.
    pub oid: i32,
    /// Its name.
    pub name: String,
    /// Whether it may do everything.
    pub superuser: bool,
    /// Whether it may log in.
    pub login: bool,
    /// Most connections, -1 for any number.
    pub connections_max: i32,
    /// When its password expires, microseconds since 1970, UTC.
    pub valid_until: Option<i64>,
    /// Roles that it was made a member of.
    pub roles: Vec<String>,
    /// Its limits, as `name=value`.
    pub limits: Vec<String>,
}

/// A setting, as `pg_settings` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingFact {
    /// Its name.
    pub name: String,
    /// Its value now.
    pub value: String,
    /// What it does.
    pub description: String,
}

/// A session, as `pg_stat_activity` shows it. Times are microseconds since 1970, UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActivityFact {
    /// Number of the session.
    pub pid: i32,
    /// Catalog it is connected to.
    pub database: String,
    /// Its user.
    pub user: String,
    /// `application_name`.
    pub application: String,
    /// Address of the client, without the port.
    pub client_address: Option<String>,
    /// Port of the client.
    pub client_port: Option<i32>,
    /// When it was connected.
    pub started: Option<i64>,
    /// When its statement was begun.
    pub query_started: Option<i64>,
    /// `active`, `idle`, ...
    pub state: String,
    /// Its statement's number in `SHOW QUEUE`, while it has one.
    pub query_id: Option<i64>,
    /// What it waits for, if it does: kind and name.
    pub waits_for: Option<(String, String)>,
    /// Its statement, or the last one.
    pub query: String,
}

/// The answers that depend on the session. Called while statements are planned and run, from any thread: quick, and never waiting.
pub trait SessionFacts: Debug + Send + Sync {
    /// User that has logged in.
    fn session_user(&self) -> String;
    /// User whose rights count now.
    fn current_user(&self) -> String {
        self.session_user()
    }
    /// Catalog that the session is connected to.
    fn database(&self) -> String;
    /// Schemas in which names without one are looked for, in order, without `pg_catalog`.
    fn search_path(&self) -> Vec<String>;
    /// Number of the session, as cancel requests name it.
    fn pid(&self) -> i32;
    /// What `version()` says: begins with `PostgreSQL` and a version.
    fn version(&self) -> String;
    /// All settings.
    fn settings(&self) -> Vec<SettingFact>;
    /// One setting; `None` if there is none of this name.
    fn setting(&self, name: &str) -> Option<String> {
        let settings = self.settings().into_iter();
        settings
            .filter(|setting| setting.name.eq_ignore_ascii_case(name))
            .map(|setting| setting.value)
            .next()
    }
    /// Changes a setting, for the transaction or for the session, and returns its value now.
    ///
    /// # Errors
    /// A setting that there is not, or that does not take the value: the message for the client.
    fn set(&self, name: &str, value: &str, transaction_only: bool) -> Result<String, String>;
    /// All roles.
    fn roles(&self) -> Vec<RoleFact>;
    /// All sessions that this one may see.
    fn activity(&self) -> Vec<ActivityFact>;
    /// Whether a user (`None`: the current one) has a privilege (`SELECT`, `USAGE`, ...) on an object of a kind (`table`, `schema`, ...).
    fn has_privilege(&self, user: Option<&str>, kind: &str, object: &str, privilege: &str) -> bool;
    /// Roles that were given rights to a table, or, where it is `None`, to a schema, with PostgreSQL's letters for these.
    fn holders(&self, _schema: &str, _table: Option<&str>) -> Vec<(String, String)> {
        Vec::new()
    }
}
