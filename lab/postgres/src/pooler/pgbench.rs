//! [`run`]: one turn of load from `pgbench`, and what it tells: its own account, and percentiles from its log of transactions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::Address;
use super::guarded::{Guarded, Signal, command, last_line, with_settings};
use super::{DATABASE, USER, failed};
use lab_core::error::BenchError;
use lab_core::stats::percentile;

const PEER: &str = "pgbench";
/// Threads that drive the clients: the same for all sides, and enough not to be what is measured.
const THREADS: usize = 2;
/// [`Load::grace`] where nothing is said: for connecting, and for a server that collapses.
pub const GRACE: Duration = Duration::from_secs(120);

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// As text in one message.
    Simple,
    /// Parsed, bound and executed each time.
    Extended,
    /// Parsed once for each connection, under a name.
    Prepared,
}

impl Protocol {
    /// pgbench's word for it, also in names of cases and in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        }
    }
}

/// What clients do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// pgbench's own point select.
    SelectOnly,
    /// pgbench's own transfers, which write.
    TpcB,
    /// One of these files, drawn anew for each transaction.
    Files(Vec<PathBuf>),
    /// The same, each as often as its weight says among all, with these variables; every transaction is logged.
    Weighted {
        /// Files and weights.
        files: Vec<(PathBuf, u32)>,
        /// Names and values.
        variables: Vec<(String, String)>,
    },
}

/// How long clients do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// So many seconds.
    Seconds(usize),
    /// So many transactions each.
    Transactions(usize),
}

/// One turn of load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// What clients do.
    pub script: Script,
    /// How they say it.
    pub protocol: Protocol,
    /// How many there are.
    pub clients: usize,
    /// For how long.
    pub duty: Duty,
    /// Whether they connect anew for each transaction.
    pub reconnect: bool,
    /// Settings of their sessions as libpq takes them; empty: none.
    pub options: String,
    /// How much longer than [`Duty::Seconds`] says it may take.
    pub grace: Duration,
}

/// Which server is asked.
#[derive(Clone, Copy, Debug)]
pub enum Goal<'g> {
    /// One of the fixture; what the surroundings say to PostgreSQL's programs does not count.
    Fixture(&'g Address),
    /// Another one, by a connection string, with whatever the surroundings say.
    Conninfo(&'g str),
}

impl<'g> From<&'g Address> for Goal<'g> {
    fn from(address: &'g Address) -> Goal<'g> {
        Goal::Fixture(address)
    }
}

/// What a turn gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Transactions.
    pub transactions: u64,
    /// Transactions a second once all clients were connected; with [`Load::reconnect`], connecting included.
    pub tps: f64,
    /// Half of the transactions took at most so long, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 transactions.
    pub p99_us: f64,
}

impl Duty {
    fn argument(self) -> (&'static str, String) {
        match self {
            Duty::Seconds(seconds) => ("--time", seconds.to_string()),
            Duty::Transactions(count) => ("--transactions", count.to_string()),
        }
    }

    fn length(self) -> Duration {
        match self {
            Duty::Seconds(seconds) => Duration::from_secs(seconds as u64),
            Duty::Transactions(_) => Duration::ZERO,
        }
    }
}

impl Load {
    /// The part of transactions that is logged. All where there are few: a percentile needs many.
    fn sampled(&self) -> f64 {
        match self.script {
            Script::TpcB | Script::Weighted { .. } => 1.0,
            _ if self.reconnect => 1.0,
            _ => 0.1,
        }
    }

    fn arguments(&self, goal: Goal<'_>, seed: usize, log: &Path) -> Vec<String> {
        let (place, database) = match goal {
            Goal::Fixture(address) => (
                vec![
                    ("--host", address.host()),
                    ("--port", address.port.to_string()),
                    ("--username", USER.to_owned()),
                ],
                DATABASE,
            ),
            Goal::Conninfo(conninfo) => (Vec::new(), conninfo),
        };
        let how = [
            ("--protocol", self.protocol.as_str().to_owned()),
            ("--client", self.clients.to_string()),
            ("--jobs", THREADS.min(self.clients).to_string()),
            self.duty.argument(),
            ("--random-seed", seed.to_string()),
            ("--sampling-rate", self.sampled().to_string()),
            ("--log-prefix", log.display().to_string()),
        ];
        let named = place.into_iter().chain(how);
        let mut arguments: Vec<String> = named.flat_map(|(name, value)| [name.to_owned(), value]).collect();
        arguments.extend(["--no-vacuum", "--log"].map(str::to_owned));
        if self.reconnect {
            arguments.push("--connect".to_owned());
        }
        match &self.script {
            Script::SelectOnly => arguments.extend(["--builtin", "select-only"].map(str::to_owned)),
            Script::TpcB => arguments.extend(["--builtin", "tpcb-like"].map(str::to_owned)),
            Script::Files(files) => {
                for file in files {
                    arguments.extend(["--file".to_owned(), file.display().to_string()]);
                }
            }
            Script::Weighted { files, variables } => {
                for (name, value) in variables {
                    arguments.extend(["--define".to_owned(), format!("{name}={value}")]);
                }
                for (file, weight) in files {
                    arguments.extend(["--file".to_owned(), format!("{}@{weight}", file.display())]);
                }
            }
        }
        arguments.push(database.to_owned());
        arguments
    }
}

/// Runs the load against a server. Its files are in `folder`, which is empty afterwards again.
///
/// # Errors
/// When pgbench or one of its clients failed, which any error of the server makes it do, or when it did not end.
pub fn run<'g>(
    program: &Path,
    load: &Load,
    goal: impl Into<Goal<'g>>,
    seed: usize,
    folder: &Path,
) -> Result<Turn, BenchError> {
    run_logged(program, load, goal, seed, folder).map(|(turn, _)| turn)
}

/// The same, with what was logged.
///
/// # Errors
/// As [`run`].
pub fn run_logged<'g>(
    program: &Path,
    load: &Load,
    goal: impl Into<Goal<'g>>,
    seed: usize,
    folder: &Path,
) -> Result<(Turn, Vec<Logged>), BenchError> {
    let goal = goal.into();
    let (log, words) = (folder.join("log"), folder.join("said"));
    let mut pgbench = command(program, None, Signal::Terminate);
    match goal {
        // Asking for encryption, and being refused, would be a part of each connection.
        Goal::Fixture(_) => pgbench.env("PGSSLMODE", "disable").env("PGGSSENCMODE", "disable"),
        Goal::Conninfo(_) => with_settings(&mut pgbench),
    };
    if !load.options.is_empty() {
        pgbench.env("PGOPTIONS", &load.options);
    }
    pgbench.args(load.arguments(goal, seed, &log));
    let mut pgbench = Guarded::start(pgbench, PEER, Signal::Terminate, words.clone())?;
    let ended = pgbench.wait(load.duty.length() + load.grace);
    let said = std::fs::read_to_string(&words).unwrap_or_default();
    let (logged, last) = (logged(folder)?, last_line(&words));
    empty(folder)?;
    if !ended?.success() {
        // The first error is the cause; what follows are the other clients.
        let first = said.lines().find(|line| line.contains("error:")).unwrap_or(&last);
        return Err(failed(PEER, format!("failed: {first}")));
    }
    let account = account(&said).map_err(|what| failed(PEER, what))?;
    let latencies: Vec<f64> = logged.iter().map(|one| one.us).collect();
    let at = |percent| percentile(&latencies, percent);
    let (Some(p50_us), Some(p99_us)) = (at(50.0), at(99.0)) else {
        return Err(failed(PEER, format!("logged none of {} transactions", account.0)));
    };
    let turn = Turn {
        transactions: account.0,
        tps: account.1,
        p50_us,
        p99_us,
    };
    Ok((turn, logged))
}

/// Transactions and transactions a second, of what pgbench says at its end.
fn account(said: &str) -> Result<(u64, f64), String> {
    let after = |what: &str| said.lines().find_map(|line| line.strip_prefix(what));
    let number =
        |text: Option<&str>| text.and_then(|text| text.split([' ', '/']).next()?.parse::<f64>().ok());
    let transactions = number(after("number of transactions actually processed: "));
    let tps = number(after("tps = "));
    let failures = number(after("number of failed transactions: ")).unwrap_or(0.0);
    if failures > 0.0 {
        return Err(format!("{failures} transactions failed"));
    }
    match (transactions, tps) {
        (Some(transactions), Some(tps)) if transactions > 0.0 => Ok((transactions as u64, tps)),
        _ => Err("no transaction ended in time, or its account cannot be read".to_owned()),
    }
}

/// Every transaction in the log files of all threads.
fn logged(folder: &Path) -> Result<Vec<Logged>, BenchError> {
    let unreadable = |source| BenchError::io(format!("could not read {}", folder.display()), source);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_string_lossy().starts_with("log.") {
            let text = std::fs::read_to_string(entry.path()).map_err(unreadable)?;
            all.extend(text.lines().filter_map(Logged::of));
        }
    }
    Ok(all)
}

/// One transaction of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logged {
    /// The number of its script, from 0.
    pub script: usize,
    /// How long it took.
    pub us: f64,
}

impl Logged {
    /// A line: client, transaction, microseconds, script, time.
    fn of(line: &str) -> Option<Logged> {
        let mut fields = line.split(' ').skip(2);
        Some(Logged {
            us: fields.next()?.parse().ok()?,
            script: fields.next()?.parse().ok()?,
        })
    }
}

fn empty(folder: &Path) -> Result<(), BenchError> {
    let emptied = std::fs::remove_dir_all(folder).and_then(|()| std::fs::create_dir(folder));
    emptied.map_err(|source| BenchError::io(format!("could not empty {}", folder.display()), source))
}

#[cfg(test)]
mod tests;
