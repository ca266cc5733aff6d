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
//! [`crate::talk`] does it, with the credentials the proxy itself would use. Nothing is written to a server: what is run reads, or
//! ends with the connection (a prepared statement, `DISCARD ALL`); the process bound to a processor is that of our own connection.

mod accounts;
mod host;
mod judge;
mod plan;
mod system;

use std::time::Duration;

use crate::core::ConfigFiles;
use crate::talk::{TalkError, Target};

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
    /// Databases that `[databases."*"]` stands for; empty: `postgres`.
    pub databases: Vec<String>,
    /// Longest time for connecting and for each answer; `None`: `server_connect_timeout`.
    pub limit: Option<Duration>,
}

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

/// Databases that are looked at, by the names clients ask for.
pub(crate) fn databases(files: &ConfigFiles, options: &Options) -> Vec<String> {
    plan::names(files, options)
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
pub fn run(files: &ConfigFiles, options: &Options, tell: &mut dyn FnMut(Line)) -> Level {
    let mut worst = Level::Ok;
    let mut tell = |line: Line| {
        worst = worst.max(line.level);
        tell(line);
    };
    let limit = limit(files, options.limit);
    let loops = system::event_loops(files);
    let plan = plan::plan(files, options, loops);
    system::check(
        files,
        plan.servers.iter().map(|server| server.wanted).sum(),
        &mut tell,
    );
    for line in plan.remarks {
        tell(line);
    }
    let mut roles = host::Roles::default();
    for server in &plan.servers {
        host::check(files, server, limit, &mut roles, &mut tell);
    }
    for line in judge::groups(&plan.groups, &roles) {
        tell(line);
    }
    accounts::auth_queries(files, &plan.names, limit, &mut tell);
    worst
}
