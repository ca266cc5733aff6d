//! Which ranges of keys and which queries in parts would pay, and what a queue of heavy queries would have to do, found out from servers
//! and a running proxy: `corun proxy learn` (paper 004, sections 2 and 3.2; paper 002).
//!
//! ```text
//!  server:  catalog ─► Schema     statistics ─► Spread of each key     pg_stat_statements ─┐
//!  console: SHOW KEYS ─► keys seen                                     SHOW QUERIES ───────┴─► Statements
//!                                     │
//!           domains (pure): columns with the same keys ─► ranges: where to cut, so that all workers have equal loads
//!           heavy: what takes long ─► `heavy_queue`, `heavy_queue_min`
//!           splits: what costs most time ─► split::plan, resolve for each key an index leads with ─► the best of them
//!                                     │
//!                            Proposal ─► TOML (to be pasted), checked with the configuration it is for
//! ```
//!
//! Order of calls: [`run`] asks and proposes, [`Learnt::toml`] is what is pasted. Nothing is written, neither to a server nor to a
//! file. What it is not: a promise. Statistics are samples, and whether ranges or parts pay is found out while the proxy runs.

mod ask;
mod domains;
mod heavy;
mod joins;
mod paste;
mod ranges;
mod schema;
mod splits;
mod spread;
mod statements;

use std::collections::BTreeSet;
use std::time::Duration;

use corun_topology::affinity;

use crate::admin::{KeyRow, QueryRow};
use crate::config::{Config, ConfigError, KeyType};
use crate::core::ConfigFiles;
use crate::preflight::{self, Passwords};
use crate::talk::{Conversation, TalkError};
use crate::watch::{Address, Console, WatchError};

use schema::Schema;
use statements::Statements;

pub use heavy::{HeavyQuery, HeavyQueueProposal};

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these databases, by the names clients ask for; empty: all of the configuration.
    pub databases: Vec<String>,
    /// Log in as these users; empty: as those of the configuration and of `auth_file`.
    pub users: Vec<String>,
    /// Cores that will have ranges; `None`: those this program may use.
    pub workers: Option<usize>,
    /// Where the running pooler's console is; `None`: where the configuration says.
    pub console: Option<Address>,
    /// Longest time for connecting and for each answer; `None`: `server_connect_timeout`.
    pub limit: Option<Duration>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learnt {
    /// The best first, by database.
    pub proposals: Vec<Proposal>,
    /// What a queue of heavy queries would have to do, by database.
    pub heavy_queues: Vec<HeavyQueueProposal>,
    /// What could not be asked or is not proposed, and why.
    pub remarks: Vec<Remark>,
    /// Databases that answered.
    pub reached: usize,
}

/// A table for the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// `[ranges.NAME]`
    Range(RangeProposal),
    /// `[splits.NAME]`
    Split(SplitProposal),
}

/// A domain of keys and where to cut it.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeProposal {
    /// Name of the table.
    pub name: String,
    /// Database, by the name clients ask for.
    pub database: String,
    /// Columns that have these keys.
    pub columns: Vec<String>,
    /// What the keys are.
    pub key_type: KeyType,
    /// Where to cut.
    pub splits: Vec<String>,
    /// It takes the place of the table that has its name now.
    pub replaces: bool,
    /// Where the cuts are from.
    pub source: String,
    /// Part of the statements that have such a key, 0 to 1, where statements are known.
    pub keyed_part: Option<f64>,
    /// What each worker would have.
    pub workers: Vec<Share>,
}

/// What a worker would have of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The first key of its own; `None`: no limit.
    pub from: Option<String>,
    /// Rows of the largest table.
    pub rows: u64,
    /// Bytes of all tables.
    pub bytes: u64,
    /// Part of the statements seen by the proxy, 0 to 1, where it has seen some.
    pub statements: Option<f64>,
}

/// A query that may run in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitProposal {
    /// Name of the table.
    pub name: String,
    /// Database, by the name clients ask for.
    pub database: String,
    /// The text, with `$n` in place of literals.
    pub query: String,
    /// The column its parts have ranges of.
    pub key: String,
    /// Where to cut.
    pub splits: Vec<String>,
    /// It takes the place of the table that has its name now.
    pub replaces: bool,
    /// Where the numbers are from.
    pub source: &'static str,
    /// Times it ran.
    pub calls: u64,
    /// What it takes, in microseconds.
    pub mean_us: u64,
    /// Part of the time of all statements known, 0 to 1.
    pub time_part: f64,
    /// Parts the expectation is for.
    pub parts: usize,
    /// What it is expected to take in them while their cores are free, in microseconds.
    pub expected_us: u64,
}

/// Something to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What it is about: a database, or the console.
    pub about: String,
    /// What.
    pub text: String,
}

/// Why what was found cannot be pasted.
#[derive(Debug, thiserror::Error)]
#[error("what was found does not go with the configuration; this should not happen\ndetail: {0}")]
pub struct PasteError(#[from] pub ConfigError);

/// Collects what is found.
struct Findings<'a> {
    config: &'a Config,
    learnt: Learnt,
    names: BTreeSet<String>,
}

impl Findings<'_> {
    fn remark(&mut self, about: &str, text: impl Into<String>) {
        self.learnt.remarks.push(Remark {
            about: about.to_owned(),
            text: text.into(),
        });
    }

    /// A name for a table, made of `wanted`, that no other has.
    fn name(&mut self, wanted: &str) -> String {
        let letter = |letter: char| match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9' | '_' | '-') => letter,
            _ => '_',
        };
        let wanted: String = wanted.chars().take(40).map(letter).collect();
        let wanted = if wanted.is_empty() {
            "learnt".to_owned()
        } else {
            wanted
        };
        let taken = |name: &String| {
            self.names.contains(name)
                || self.config.ranges.contains_key(name)
                || self.config.splits.contains_key(name)
        };
        let mut name = wanted.clone();
        let mut number = 1;
        while taken(&name) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        self.names.insert(name.clone());
        name
    }
}

/// What a running proxy has seen.
#[derive(Debug, Default)]
struct Seen {
    keys: Vec<KeyRow>,
    queries: Vec<QueryRow>,
}

/// What is known of the database that is looked at.
struct Database<'a> {
    /// As clients name it.
    name: &'a str,
    /// Cores that will have ranges.
    workers: usize,
    schema: Schema,
    statements: Statements,
}

/// Asks each database's server and the console, and proposes. `file` is the text of the configuration of `files`.
///
/// # Errors
/// What is proposed does not go with the configuration.
pub fn run(
    files: &ConfigFiles,
    file: &str,
    options: &Options,
    passwords: &mut Passwords<'_>,
) -> Result<Learnt, PasteError> {
    let limit = preflight::limit(files, options.limit);
    let workers = options
        .workers
        .unwrap_or_else(|| affinity::allowed_cpus().map_or(1, |cpus| cpus.len()))
        .max(1);
    let mut findings = Findings {
        config: &files.config,
        learnt: Learnt::default(),
        names: BTreeSet::new(),
    };
    let seen = console(files, options, limit).unwrap_or_else(|why| {
        findings.remark(
            "console",
            format!("nothing is known of what the pooler has seen: {why}"),
        );
        Seen::default()
    });
    let places = preflight::Options {
        users: options.users.clone(),
        databases: options.databases.clone(),
        limit: Some(limit),
    };
    let (databases, left_out) = preflight::databases(files, &places, limit, passwords);
    for line in left_out {
        let hint = line.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        findings.remark(&line.about, format!("{}{hint}", line.text));
    }
    if databases.is_empty() {
        findings.remark(
            "configuration",
            "the configuration names no database that could be looked at",
        );
    }
    for database in databases {
        match open(files, &places, &database, limit, passwords) {
            Ok((mut talk, user)) => {
                findings.learnt.reached += 1;
                let place = (database.as_str(), user.as_str());
                if let Err(error) = learn(&mut findings, &seen, place, workers, &mut talk) {
                    findings.remark(&database, error.to_string());
                }
            }
            Err(all) => all.into_iter().for_each(|why| findings.remark(&database, why)),
        }
    }
    let learnt = findings.learnt;
    paste::check(file, &learnt)?;
    Ok(learnt)
}

fn learn(
    findings: &mut Findings<'_>,
    seen: &Seen,
    (name, user): (&str, &str),
    workers: usize,
    talk: &mut Conversation,
) -> Result<(), TalkError> {
    let schema = ask::schema(talk)?;
    if let Some(lacks) = schema.lacks(user) {
        findings.remark(name, lacks);
    }
    let known = ask::statements(talk, (name, user), &seen.queries)?;
    if let Some(remark) = known.remark {
        findings.remark(name, remark);
    }
    let database = Database {
        name,
        workers,
        statements: statements::understood(&schema, known.statements, known.source),
        schema,
    };
    ranges::propose(findings, &database, &seen.keys, talk)?;
    let heavy = heavy::propose(name, &database.statements);
    findings.learnt.heavy_queues.extend(heavy);
    splits::propose(findings, &database, talk)
}

/// Logs in to a database's server with the first account that gets in, whose name is returned, too; otherwise says why none does.
fn open(
    files: &ConfigFiles,
    options: &preflight::Options,
    database: &str,
    limit: Duration,
    passwords: &mut Passwords<'_>,
) -> Result<(Conversation, String), Vec<String>> {
    let mut all = Vec::new();
    for mut target in preflight::targets(files, options, database, limit) {
        // So that values come in the forms that settings are read in.
        for (name, value) in [
            ("DateStyle", "ISO, YMD"),
            ("TimeZone", "UTC"),
            ("application_name", "corun proxy learn"),
        ] {
            target
                .parameters
                .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            target.parameters.push((name.to_owned(), value.to_owned()));
        }
        match preflight::open(files, &target, passwords) {
            Ok((talk, _)) => return Ok((talk, target.user)),
            Err(failed) => {
                let advice = failed
                    .advice()
                    .map(|advice| format!(". {advice}"))
                    .unwrap_or_default();
                all.push(format!(
                    "{} as {}: {}{advice}",
                    target.endpoint, target.user, failed.error
                ));
                if failed.is_away() {
                    break;
                }
            }
        }
    }
    if all.is_empty() {
        all.push("no user is known who could log in; name a user with --user".to_owned());
    }
    Err(all)
}

fn console(files: &ConfigFiles, options: &Options, limit: Duration) -> Result<Seen, String> {
    let address = match &options.console {
        Some(address) => address.clone(),
        None => Address::of(files).map_err(|error| first_line(&error.to_string()))?,
    };
    let text = |error: WatchError| first_line(&error.to_string());
    let mut console = Console::connect(&address, limit).map_err(text)?;
    Ok(Seen {
        keys: console.ask("SHOW KEYS").map_err(text)?,
        queries: console.ask("SHOW QUERIES").map_err(text)?,
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
