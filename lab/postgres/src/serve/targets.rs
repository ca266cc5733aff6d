//! [`Target`]: what answers. [`Fixture`] starts servers: ours as the program that users run, PostgreSQL from the system's packages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::address::{Address, Transport, free_port};
use crate::fixture::client::Client;
use crate::fixture::cluster::{Cluster, Profile, Programs};
use crate::fixture::guarded::{Guarded, Signal, command};
use crate::fixture::{DATABASE, Found, PgFixture};
use corun_cli::siblings;
use lab_core::error::BenchError;
use lab_core::scratch::Scratch;
use lab_core::suite::all_cores;

/// The program that has the server.
const PROGRAM: &str = "corun-sql";
/// Longest wait for a server of ours that starts.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Bytes that a workload's tables and indexes take in PostgreSQL at scale factor 1, rounded up; unmeasured beyond TPC-H and SSB.
const BYTES_PER_SCALE: f64 = 3.0 * (1 << 30) as f64;

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `corun-sql serve`.
    Corun,
    /// The same, whose sessions share no work (`corun.share_work`, `corun.keep_columns`).
    CorunUnshared,
    /// `corun-sql serve --stock`.
    Datafusion,
    /// DuckDB, in one process.
    Duckdb,
    /// PostgreSQL.
    Postgresql,
    /// PostgreSQL behind the pooler.
    Pooler,
    /// A server that answers all with a constant.
    Ceiling,
}

impl Target {
    /// The `target` of rows.
    pub fn name(self) -> &'static str {
        match self {
            Target::CorunUnshared => "corun",
            other => other.side(),
        }
    }

    /// What tells it from all others.
    pub fn side(self) -> &'static str {
        match self {
            Target::Corun => "corun",
            Target::CorunUnshared => "corun_unshared",
            Target::Datafusion => "datafusion",
            Target::Duckdb => "duckdb",
            Target::Postgresql => "postgresql",
            Target::Pooler => "pooler",
            Target::Ceiling => "ceiling",
        }
    }

    /// Whether it is ours, so that its failure is one of the run.
    pub fn is_ours(self) -> bool {
        matches!(self, Target::Corun | Target::CorunUnshared | Target::Datafusion)
    }

    /// What its clients say before they begin.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Target::CorunUnshared => &["set corun.share_work = 'off'", "set corun.keep_columns = 'off'"],
            _ => &[],
        }
    }
}

/// A server of ours; dropped, it is ended.
pub struct SqlServer {
    /// Where it listens.
    pub address: Address,
    /// Its process.
    pub process: Guarded,
}

/// Programs and folders of a run. Clusters end before it.
pub struct Fixture {
    /// PostgreSQL's part, or why there is none.
    pub pg: Found<PgFixture>,
    /// The program with our server, or why there is none.
    pub program: Found<PathBuf>,
    scratch: Scratch,
}

impl Fixture {
    /// Looks for the programs.
    ///
    /// # Errors
    /// When there is no place for files. A program that is missing is not an error.
    pub fn new() -> Result<Fixture, BenchError> {
        let pg = Programs::find().and_then(|programs| PgFixture::new(super::SUITE, programs, None));
        Ok(Fixture {
            pg: pg.map_err(|error| error.in_one_line()),
            program: siblings::find(PROGRAM).ok_or_else(|| {
                format!(
                    "the program {PROGRAM} is neither beside this one nor on PATH; `make build` builds it"
                )
            }),
            scratch: Scratch::named("corun-serve-", None)?,
        })
    }

    /// A new, empty folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        self.scratch.folder(name)
    }

    /// Starts our server on a folder of tables, with corun's parts or, as [`Target::Datafusion`], without.
    pub fn server(&self, target: Target, data: &Path) -> Result<SqlServer, BenchError> {
        self.start(target, &[format!("{DATABASE}={}", data.display())])
    }

    /// Starts our server on a store in a folder that is empty, or has one.
    pub fn server_on_store(&self, folder: &Path) -> Result<SqlServer, BenchError> {
        let store = format!("{DATABASE}={}", folder.display());
        self.start(Target::Corun, &["--store".to_owned(), store])
    }

    fn start(&self, target: Target, what: &[String]) -> Result<SqlServer, BenchError> {
        let program = self.program.as_ref().map_err(|reason| BenchError::Peer {
            peer: PROGRAM,
            reason: reason.clone(),
        })?;
        let folder = self.folder(target.side())?;
        let address = Address {
            transport: Transport::Tcp,
            port: free_port()?,
            folder: folder.clone(),
        };
        let mut command = command(program, None, Signal::Terminate);
        command
            .arg("serve")
            .args(what)
            .args(["--listen", &format!("127.0.0.1:{}", address.port)])
            .args(["--max-connections", "2000", "--shutdown-timeout", "1"]);
        if target == Target::Datafusion {
            command.arg("--stock");
        }
        let mut process = Guarded::start(command, PROGRAM, Signal::Terminate, folder.join("words"))?;
        process.until(READY_WITHIN, || {
            Client::connect(&address, READY_WITHIN)?.run("select 1").map(drop)
        })?;
        Ok(SqlServer { address, process })
    }

    /// Starts PostgreSQL, tuned for queries over so much of a workload: its data fits into the shared buffers, a query may use all cores.
    pub fn cluster(&self, name: &str, scale: f64) -> Result<Cluster, BenchError> {
        let pg = self.pg.as_ref().map_err(|reason| BenchError::Peer {
            peer: "postgres",
            reason: reason.clone(),
        })?;
        let cores = all_cores().to_string();
        // A third of the memory at most; the rest is for what queries hold and for the file cache.
        let buffers = (BYTES_PER_SCALE * scale).min(memory_bytes() / 3.0).max(128e6);
        let buffers = format!("{}MB", (buffers / 1e6) as u64);
        let cached = format!("{}MB", (memory_bytes() * 0.7 / 1e6) as u64);
        let settings: [(&str, &str); 10] = [
            ("shared_buffers", buffers.as_str()),
            ("effective_cache_size", &cached),
            ("work_mem", "256MB"),
            ("maintenance_work_mem", "512MB"),
            ("random_page_cost", "1.1"),
            ("max_worker_processes", &cores),
            ("max_parallel_workers", &cores),
            ("max_parallel_workers_per_gather", &cores),
            ("max_parallel_maintenance_workers", &cores),
            // A plan without an end must not hold up the run for ever.
            ("statement_timeout", "600s"),
        ];
        pg.cluster(name, &Profile::with(&settings))
    }
}

/// The machine's memory; 4 GB where the kernel does not say.
fn memory_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map_or(4e9, |kibibytes| kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_missed_in_words() {
        let mut fixture = Fixture::new().expect("a place for files");
        fixture.program = Err("not built".to_owned());
        let server = fixture.server(Target::Corun, Path::new("/nowhere"));
        assert!(server.is_err_and(|error| error.in_one_line().contains("not built")));
        assert!(memory_bytes() > 1e8);
    }
}
