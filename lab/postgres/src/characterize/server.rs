//! [`Server`]: the PostgreSQL that is looked at, reached as its users reach it: by a connection string, through `psql` and `pgbench`.
//!
//! Order of calls: [`Server::start`] for one of our own on an empty data folder, or [`Server::given`] for one that runs; then [`Server::ask`] and
//! [`Server::feed`]; [`Server::stop`] gives our own one's data folder away. One that was given is never stopped, and nothing is changed in it but
//! what workloads make in a schema of their own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::fixture::cluster::{Cluster, Profile, Programs, number_of};
use crate::fixture::guarded::{Signal, command, with_settings};
use crate::fixture::{DATABASE, PgFixture, USER, failed};
use lab_core::error::BenchError;

const PEER: &str = "postgres";
/// Between columns and rows of what psql prints: no value has them.
const COLUMN: char = '\u{1f}';
const ROW: char = '\u{1e}';
/// Milliseconds a question may take; workloads have no limit.
const PATIENCE_MS: &str = "900000";

/// A server.
pub struct Server {
    /// PostgreSQL's programs.
    pub programs: Programs,
    /// What psql and pgbench are told to connect to.
    pub conninfo: String,
    /// The process all its backends are children of, or why it is not known and what would help.
    pub postmaster: Result<u32, String>,
    /// Its version.
    pub version: String,
    ours: Option<Ours>,
}

/// What there is of a server of our own. Fields are dropped in this order: the server ends before its folder goes.
struct Ours {
    cluster: Cluster,
    kept: Kept,
}

/// The data folder of a server that has ended.
pub struct Kept {
    /// PostgreSQL's data folder.
    pub data: PathBuf,
    /// Who owns it; it goes with this.
    pub fixture: PgFixture,
}

impl Server {
    /// Starts a server on an empty data folder below the system's temporary one.
    pub fn start(programs: &Programs) -> Result<Server, BenchError> {
        let fixture = PgFixture::new(super::SUITE, programs.clone(), None)?;
        let profile = Profile::with(&[("shared_buffers", "1GB")]);
        let cluster = fixture.cluster("server", &profile)?;
        let address = &cluster.address;
        let conninfo = format!(
            "host={} port={} user={USER} dbname={DATABASE} sslmode=disable gssencmode=disable",
            address.host(),
            address.port
        );
        let version = cluster.version.clone();
        let kept = Kept {
            data: address.folder.join("data"),
            fixture,
        };
        Server::at(programs, conninfo, version, Some(Ours { cluster, kept }))
    }

    fn at(
        programs: &Programs,
        conninfo: String,
        version: String,
        ours: Option<Ours>,
    ) -> Result<Server, BenchError> {
        let mut server = Server {
            programs: programs.clone(),
            conninfo,
            postmaster: Err(String::new()),
            version,
            ours,
        };
        if server.version.is_empty() {
            server.version = number_of(&server.one("show server_version")?);
        }
        server.postmaster = server.find_postmaster()?;
        Ok(server)
    }

    /// A server that runs, by a connection string as libpq takes it: `host=/run/postgresql dbname=shop`, or `postgresql://me@db/shop`. Passwords come
    /// from `~/.pgpass` or `PGPASSWORD`.
    ///
    /// # Errors
    /// When it has a password in it, which every user of the machine could read in the list of processes, or the server does not answer.
    pub fn given(programs: &Programs, conninfo: &str) -> Result<Server, BenchError> {
        if has_password(conninfo) {
            return Err(BenchError::BadArgument(
                "the connection string has a password in it, which others could read in the list of processes: put it into ~/.pgpass or PGPASSWORD"
                    .to_owned(),
            ));
        }
        Server::at(programs, conninfo.to_owned(), String::new(), None)
    }

    /// Whether it is one of our own.
    pub fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// Asks; rows of the last statement, a text a column, NULL being empty.
    pub fn ask(&self, sql: &str) -> Result<Vec<Vec<String>>, BenchError> {
        let said = self.psql(&["--command", sql], &mut std::iter::empty())?;
        let said = said.strip_suffix('\n').unwrap_or(&said);
        let said = said.strip_suffix(ROW).unwrap_or(said);
        if said.is_empty() {
            return Ok(Vec::new());
        }
        let cells = |row: &str| row.split(COLUMN).map(str::to_owned).collect();
        Ok(said.split(ROW).map(cells).collect())
    }

    /// Asks for one value.
    ///
    /// # Errors
    /// As [`Server::ask`], and when there is none.
    pub fn one(&self, sql: &str) -> Result<String, BenchError> {
        let rows = self.ask(sql)?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
        value.ok_or_else(|| failed(PEER, format!("no row for {sql}")))
    }

    /// Runs `COPY ... FROM STDIN` with these lines.
    pub fn feed(&self, copy: &str, lines: &mut dyn Iterator<Item = Vec<u8>>) -> Result<(), BenchError> {
        self.psql(&["--command", copy], lines).map(drop)
    }

    fn psql(
        &self,
        arguments: &[&str],
        input: &mut dyn Iterator<Item = Vec<u8>>,
    ) -> Result<String, BenchError> {
        let mut psql = command(self.programs.path("psql"), None, Signal::Terminate);
        if self.ours.is_none() {
            with_settings(&mut psql);
        }
        psql.env("PGCONNECT_TIMEOUT", "10")
            .env(
                "PGOPTIONS",
                format!("-c statement_timeout={PATIENCE_MS} -c client_min_messages=warning"),
            )
            .args(["--no-psqlrc", "--no-align", "--tuples-only"])
            .args(["--quiet", "--no-password"])
            .args(["--set", "ON_ERROR_STOP=1", "--dbname", &self.conninfo])
            .args(["--field-separator", &COLUMN.to_string()])
            .args(["--record-separator", &ROW.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = psql
            .spawn()
            .map_err(|error| failed(PEER, format!("psql could not be started: {error}")))?;
        if let Some(mut stdin) = child.stdin.take() {
            for lines in input {
                // It ends early when the server refuses, and says why.
                if stdin.write_all(&lines).is_err() {
                    break;
                }
            }
        }
        let output = child
            .wait_with_output()
            .map_err(|source| BenchError::io("could not wait for psql", source))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("psql failed");
        let first = first.trim_start_matches("psql: ").trim_start_matches("error: ");
        Err(failed(PEER, first.to_owned()))
    }

    /// The process named in the data folder, or why it cannot be known.
    fn find_postmaster(&self) -> Result<Result<u32, String>, BenchError> {
        let row = self.ask(
            "select coalesce(host(inet_client_addr()), 'local'), coalesce(host(inet_server_addr()), 'local'),
                    format('grant pg_read_all_settings to %I', current_user)",
        )?;
        let row = row.into_iter().next().unwrap_or_default();
        let [client, server, grant] = row.try_into().unwrap_or_default();
        if client != server {
            return Ok(Err(format!("the server runs on another machine ({server})")));
        }
        let Ok(data) = self.one("show data_directory") else {
            return Ok(Err(format!(
                "this role may not ask where the server's data folder is; a superuser can allow it: {grant}"
            )));
        };
        let file = Path::new(&data).join("postmaster.pid");
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                return Ok(Err(format!(
                    "cannot read {} ({error}): run this as root or as the server's operating-system user",
                    file.display()
                )));
            }
        };
        let process = text.lines().next().and_then(|line| line.trim().parse().ok());
        let here = process.filter(|process: &u32| Path::new(&format!("/proc/{process}")).exists());
        Ok(here.ok_or_else(|| {
            format!(
                "the process that {} names does not run here: the server is in a container or on another machine",
                file.display()
            )
        }))
    }

    /// Ends a server of our own and gives its data folder away; `None` for one that was given.
    ///
    /// # Errors
    /// When a checkpoint before that fails.
    pub fn stop(self) -> Result<Option<Kept>, BenchError> {
        if self.ours.is_none() {
            return Ok(None);
        }
        self.ask("checkpoint")?;
        Ok(self.ours.map(|Ours { cluster, kept }| {
            drop(cluster);
            kept
        }))
    }
}

/// Whether a connection string names a password.
fn has_password(conninfo: &str) -> bool {
    let uri = conninfo
        .strip_prefix("postgresql://")
        .or_else(|| conninfo.strip_prefix("postgres://"));
    match uri {
        Some(rest) => {
            let before = rest.split(['/', '?']).next().unwrap_or_default();
            before
                .rsplit_once('@')
                .is_some_and(|(user, _)| user.contains(':'))
                || rest.contains("password=")
        }
        None => {
            let words: Vec<&str> = conninfo.split_whitespace().collect();
            let joined = words.join(" ").replace(" =", "=");
            joined.split(' ').any(|word| word.starts_with("password="))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_both_kinds_of_connection_strings() {
        for with in [
            "host=a password=x",
            "password = x host=a",
            "postgresql://me:x@db/shop",
            "postgres://db/shop?password=x",
        ] {
            assert!(has_password(with), "{with}");
        }
        for without in [
            "host=a user=me",
            "postgresql://me@db:5432/shop",
            "dbname=password",
            "postgresql:///shop?host=/run",
        ] {
            assert!(!has_password(without), "{without}");
        }
    }
}
