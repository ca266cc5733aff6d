//! What the servers and accounts of a configuration allow, found out before anything depends on it: `corun proxy preflight`.
//!
//! ```text
//!  ConfigFiles ─► plan (pure): visits, pools a server would have ─► for each host: connect, log in as each account, ask
//!                                                                  │ facts
//!                                                                  ▼
//!                                              judge (pure): ok, warn, fail, with what to do ─► Line
//! ```
//!
//! [`run`] tells its lines one by one, since a host that does not answer takes its time. Connections are made and logged in to as
//! [`crate::talk`] does it, with the credentials the proxy itself would use, or with [`Passwords`] that are given. Nothing is written
//! to a server: what is run reads, or ends with the connection (a prepared statement, `DISCARD ALL`); the process bound to a
//! processor is that of our own connection.

mod accounts;
mod host;
mod judge;
mod login;
mod plan;
mod system;

use std::time::Duration;

use crate::config::{CONSOLES, WILDCARD};
use crate::core::ConfigFiles;
use crate::split::quoted_name;
use crate::talk::{TalkError, Target};

pub use login::Passwords;
pub(crate) use login::open;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, but something is lost or could not be found out.
    Warn,
    /// Does not work.
    Fail,
}

impl Level {
    /// `ok`, `warn` or `fail`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, as a word that stays the same.
    pub check: &'static str,
    /// The server, or the database and user, it is about; `here` for this machine.
    pub about: String,
    /// What was found.
    pub text: String,
    /// What to do, where there is something to do.
    pub hint: Option<String>,
}

impl Line {
    fn new(level: Level, check: &'static str, about: &str, text: impl Into<String>) -> Self {
        Self {
            level,
            check,
            about: about.to_owned(),
            text: text.into(),
            hint: None,
        }
    }

    fn ok(check: &'static str, about: &str, text: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, about, text)
    }

    fn warn(check: &'static str, about: &str, text: impl Into<String>) -> Self {
        Self::new(Level::Warn, check, about, text)
    }

    fn fail(check: &'static str, about: &str, text: impl Into<String>) -> Self {
        Self::new(Level::Fail, check, about, text)
    }

    #[must_use]
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What is looked at beside what the configuration names.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these users' accounts; empty: those of the configuration and of `auth_file`.
    pub users: Vec<String>,
    /// Only these databases, also ones that `[databases."*"]` stands for; empty: all of the configuration, and those that a server
    /// of `*` has.
    pub databases: Vec<String>,
    /// Longest time for connecting and for each answer; `None`: `server_connect_timeout`.
    pub limit: Option<Duration>,
}

/// Databases looked at where nobody has named them.
const DATABASES_MAX: usize = 100;

/// Databases of a server, and whether the account may connect.
const DATABASES: &str = "SELECT datname, pg_catalog.has_database_privilege(oid, 'CONNECT') \
     FROM pg_catalog.pg_database WHERE datallowconn AND NOT datistemplate ORDER BY datname";

/// Time limit where neither the options nor the configuration have one.
const LIMIT: Duration = Duration::from_secs(15);

/// The time limit: of the options, else of the configuration.
pub(crate) fn limit(files: &ConfigFiles, option: Option<Duration>) -> Duration {
    let configured = files.config.proxy.server_connect_timeout;
    let configured = Some(configured).filter(|limit| !limit.is_zero());
    option.or(configured).unwrap_or(LIMIT)
}

/// What a server answered, or why it refused while the connection goes on.
///
/// # Errors
/// The connection is of no more use.
pub(crate) fn or_refusal<T>(outcome: Result<T, TalkError>) -> Result<Result<T, String>, TalkError> {
    match outcome {
        Ok(found) => Ok(Ok(found)),
        Err(error) if error.is_harmless() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Databases that are looked at, by the names clients ask for; and what is left out of those that `*` stands for.
pub(crate) fn databases(
    files: &ConfigFiles,
    options: &Options,
    limit: Duration,
    passwords: &mut Passwords<'_>,
) -> (Vec<String>, Vec<Line>) {
    let mut names = plan::names(files, options);
    let own = files.config.databases.get(WILDCARD);
    if !options.databases.is_empty() || own.is_none_or(|own| own.dbname.is_some()) {
        return (names, Vec::new());
    }
    let mut remarks = Vec::new();
    for target in targets(files, options, plan::ANY_DATABASE, limit) {
        match open(files, &target, passwords) {
            Ok((mut talk, _)) => {
                // Where that cannot be asked, one database stands for all.
                let found = talk.query(DATABASES).map(|found| found.rows).unwrap_or_default();
                for row in found {
                    let [Some(name), Some(allowed)] = row.as_slice() else {
                        continue;
                    };
                    if names.contains(name) || CONSOLES.contains(&name.as_str()) {
                        continue;
                    }
                    if allowed == "t" {
                        names.push(name.clone());
                        continue;
                    }
                    let text = format!("{} may not connect, and nothing is known of it", target.user);
                    let grant = grant("CONNECT ON DATABASE", name, &target.user);
                    remarks.push(Line::warn("databases", name, text).hint(grant));
                }
                break;
            }
            Err(failed) if failed.is_away() => break,
            Err(_) => {}
        }
    }
    if names.len() > DATABASES_MAX {
        let text = format!("{DATABASES_MAX} of {} databases are looked at", names.len());
        remarks.push(Line::ok("databases", WILDCARD, text).hint("Name others with --database."));
        names.truncate(DATABASES_MAX);
    }
    (names, remarks)
}

/// The statement that gives an account what it lacks.
pub(crate) fn grant(what: &str, of: &str, user: &str) -> String {
    format!("GRANT {what} {} TO {}", quoted_name(of), quoted_name(user))
}

/// How to log in to a database's first host, for each account that is known.
pub(crate) fn targets(
    files: &ConfigFiles,
    options: &Options,
    database: &str,
    limit: Duration,
) -> Vec<Target> {
    let users = plan::users(files, options, database);
    let target = |user: &String| {
        let effective = files.effective(database, user)?;
        let endpoint = effective.hosts.first()?;
        Some(accounts::target(files, &effective, endpoint, limit))
    };
    users.iter().filter_map(target).collect()
}

/// Looks at everything and tells each line as soon as it is known. Returns the worst level.
pub fn run(
    files: &ConfigFiles,
    options: &Options,
    passwords: &mut Passwords<'_>,
    tell: &mut dyn FnMut(Line),
) -> Level {
    let mut worst = Level::Ok;
    let mut tell = |line: Line| {
        worst = worst.max(line.level);
        tell(line);
    };
    let limit = limit(files, options.limit);
    let loops = system::event_loops(files);
    let (databases, remarks) = databases(files, options, limit, passwords);
    let options = Options {
        databases,
        ..options.clone()
    };
    let plan = plan::plan(files, &options, loops);
    system::check(
        files,
        plan.servers.iter().map(|server| server.wanted).sum(),
        &mut tell,
    );
    for line in plan.remarks.into_iter().chain(remarks) {
        tell(line);
    }
    let mut roles = host::Roles::default();
    for server in &plan.servers {
        host::check(files, server, limit, passwords, &mut roles, &mut tell);
    }
    for line in judge::groups(&plan.groups, &roles) {
        tell(line);
    }
    accounts::auth_queries(files, &plan.names, limit, passwords, &mut tell);
    worst
}
