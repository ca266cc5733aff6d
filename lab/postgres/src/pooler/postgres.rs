//! [`Postgres`]: a server of the fixture, with a data folder, a port and a socket of its own.
//!
//! It is set up for measuring: nothing waits for the disk, no background work of its own, memory for all of the data. All sides of a
//! comparison ask the same one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::account::Account;
use super::address::{Address, Transport, free_port};
use super::client::Client;
use super::guarded::{Guarded, Signal, command, in_group, last_line, without_settings};
use super::{DATABASE, USER, failed};
use lab_core::error::BenchError;

const PEER: &str = "postgres";
/// How to get it, for people.
pub const HOW_TO_GET: &str = "scripts/bootstrap --peers installs it";
/// Where Debian keeps its versions.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Clients that come directly, at most 1,000, and the poolers' connections.
const CONNECTIONS_MAX: usize = 1_400;
/// Longest wait for a server that starts, and for one answer of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for a data folder: a copy reads and writes all there is.
const MADE_WITHIN: Duration = Duration::from_secs(600);

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// The newest installed version.
    ///
    /// # Errors
    /// When there is none; the text says how to get it.
    pub fn find() -> Result<Programs, BenchError> {
        let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let newest = newest(versions.map(|entry| entry.path()))
            .ok_or_else(|| failed(PEER, format!("no PostgreSQL below {VERSIONS}; {HOW_TO_GET}")))?;
        Ok(Programs { folder: newest })
    }

    /// The path of one of its programs.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

/// The folder of programs of the highest version that has a server and pgbench.
fn newest(versions: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let complete = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("pgbench").is_file();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|path| Some((number(&path)?, path.join("bin"))))
        .filter(|(_, folder)| complete(folder))
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

/// A running server.
pub struct Postgres {
    server: Guarded,
    address: Address,
    version: String,
}

/// What differs from the usual server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Settings, which win over the usual ones.
    pub settings: Vec<(&'static str, String)>,
    /// The file that puts a process into a control group when its number is written there: the server and all it reads and writes from
    /// its first file on belong to that group.
    pub group: Option<PathBuf>,
    /// A server of which this one is a streaming copy.
    pub copy_of: Option<Address>,
}

impl Postgres {
    /// Makes a data folder below `folder`, which `account` owns, and starts a server on it.
    ///
    /// # Errors
    /// When the programs fail; the text has their last words.
    pub fn start(
        programs: &Programs,
        folder: &Path,
        account: Option<Account>,
    ) -> Result<Postgres, BenchError> {
        Postgres::start_as(programs, folder, account, &Setup::default())
    }

    /// The same, with a setup.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn start_as(
        programs: &Programs,
        folder: &Path,
        account: Option<Account>,
        setup: &Setup,
    ) -> Result<Postgres, BenchError> {
        let data = folder.join("data");
        let group = setup.group.as_deref();
        let words = folder.join("made.log");
        let (made, by) = match &setup.copy_of {
            None => (initdb(programs, &data, account), "initdb"),
            Some(primary) => (copy(programs, &data, account, primary), "pg_basebackup"),
        };
        let made =
            Guarded::start(in_group(made, group), PEER, Signal::Quit, words.clone())?.wait(MADE_WITHIN)?;
        if !made.success() {
            return Err(failed(PEER, format!("{by} failed: {}", last_line(&words))));
        }
        let address = Address {
            transport: Transport::Tcp,
            folder: folder.to_path_buf(),
            port: free_port()?,
        };
        let mut server = command(programs.path("postgres"), account, Signal::Quit);
        server.arg("-D").arg(&data);
        // Of two values of one setting the later one counts.
        for (name, value) in settings(&address).iter().chain(&setup.settings) {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let server = in_group(server, group);
        let mut server = Guarded::start(server, PEER, Signal::Quit, folder.join("postgres.log"))?;
        server.until(PATIENCE, || Client::connect(&address, PATIENCE).map(drop))?;
        let answer = Client::connect(&address, PATIENCE)?.run("show server_version")?;
        let version = answer
            .rows
            .into_iter()
            .flatten()
            .flatten()
            .next()
            .unwrap_or_default();
        Ok(Postgres {
            server,
            address,
            version: version.split(' ').next().unwrap_or_default().to_owned(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// That it still runs.
    ///
    /// # Errors
    /// When it has ended.
    pub fn alive(&mut self) -> Result<(), BenchError> {
        self.server.alive()
    }

    /// A session on it.
    ///
    /// # Errors
    /// When it refuses.
    pub fn client(&self) -> Result<Client, BenchError> {
        Client::connect(&self.address, PATIENCE)
    }

    /// Fills pgbench's tables, 100,000 accounts for each of `scale`.
    ///
    /// # Errors
    /// When pgbench fails.
    pub fn fill(&self, programs: &Programs, scale: usize) -> Result<(), BenchError> {
        let mut pgbench = Command::new(programs.path("pgbench"));
        without_settings(&mut pgbench);
        let output = pgbench
            .args(["--initialize", "--quiet", "--scale", &scale.to_string()])
            .args([
                "--host",
                &self.address.host(),
                "--port",
                &self.address.port.to_string(),
            ])
            .args(["--username", USER, DATABASE])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(PEER, format!("could not start pgbench: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().last().unwrap_or_default();
        Err(failed(PEER, format!("pgbench could not fill its tables: {last}")))
    }
}

/// Makes an empty data folder.
fn initdb(programs: &Programs, data: &Path, account: Option<Account>) -> Command {
    let mut initdb = command(programs.path("initdb"), account, Signal::Quit);
    initdb.arg("--pgdata").arg(data);
    initdb.args([
        "--username",
        USER,
        "--auth",
        "trust",
        "--encoding",
        "UTF8",
        "--locale",
        "C",
        "--no-sync",
    ]);
    initdb
}

/// Copies a server's data folder so that a server on the copy follows it.
fn copy(programs: &Programs, data: &Path, account: Option<Account>, of: &Address) -> Command {
    let mut backup = command(programs.path("pg_basebackup"), account, Signal::Quit);
    backup.arg("--pgdata").arg(data);
    backup.args(["--host", &of.host(), "--port", &of.port.to_string()]);
    backup.args([
        "--username",
        USER,
        "--checkpoint",
        "fast",
        "--wal-method",
        "stream",
    ]);
    backup.args(["--write-recovery-conf", "--no-sync"]);
    backup
}

/// What differs from PostgreSQL's own configuration.
fn settings(address: &Address) -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    vec![
        ("listen_addresses", text("127.0.0.1")),
        ("port", address.port.to_string()),
        ("unix_socket_directories", address.folder.display().to_string()),
        ("max_connections", CONNECTIONS_MAX.to_string()),
        ("superuser_reserved_connections", text("0")),
        ("shared_buffers", text("512MB")),
        ("fsync", text("off")),
        ("synchronous_commit", text("off")),
        ("full_page_writes", text("off")),
        ("wal_level", text("minimal")),
        ("max_wal_senders", text("0")),
        ("max_wal_size", text("8GB")),
        ("checkpoint_timeout", text("1h")),
        ("autovacuum", text("off")),
        ("bgwriter_lru_maxpages", text("0")),
        ("jit", text("off")),
        ("logging_collector", text("off")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        for (version, programs) in [
            ("9", &["initdb", "pgbench"][..]),
            ("15", &["initdb", "pgbench"]),
            ("17", &["pgbench"]),
            ("common", &["initdb", "pgbench"]),
        ] {
            let programs_folder = folder.path().join(version).join("bin");
            std::fs::create_dir_all(&programs_folder).expect("a folder");
            for program in programs {
                std::fs::write(programs_folder.join(program), "").expect("a file");
            }
        }
        let versions = || {
            std::fs::read_dir(folder.path())
                .expect("readable")
                .flatten()
                .map(|entry| entry.path())
        };
        assert_eq!(newest(versions()), Some(folder.path().join("15/bin")));
        assert_eq!(newest(std::iter::empty()), None);
    }
}
