//! Systems that answer SQL, as peers: their own Python packages in a process of their own, driven over standard input and output.
//!
//! Order of calls: [`SqlPeer::start`], [`SqlPeer::set_threads`], tables by [`SqlPeer::load`] or [`SqlPeer::view`], then [`SqlPeer::run`] as often as
//! the interleaving asks. Tables travel as Parquet files; loaded ones live in the peer's memory, as ours live in ours. Time is taken
//! inside the driver around execute and fetch, so neither the pipe nor JSON is in it.
//!
//! Linking a peer's library instead would put another build into every build of corun, and its allocator into our process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use corun_workloads::answers::NULL_TEXT;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use super::process::{LineProcess, NoLine};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Runner, Sample};

/// How to get them, for people.
pub const HOW_TO_GET: &str = "scripts/bootstrap --peers installs it below target/peers";

/// A system that answers SQL.
#[derive(Debug)]
pub struct System {
    /// Its name in rows, and of its Python package.
    pub name: &'static str,
    /// The parameter of rows that has its version.
    pub version_parameter: &'static str,
    driver: &'static str,
}

/// DuckDB, on tables in its memory or on files.
pub const DUCKDB: System = System {
    name: "duckdb",
    version_parameter: "duckdb_version",
    driver: concat!(include_str!("duckdb_driver.py"), include_str!("sql_driver.py")),
};

/// Polars, on files.
pub const POLARS: System = System {
    name: "polars",
    version_parameter: "polars_version",
    driver: concat!(include_str!("polars_driver.py"), include_str!("sql_driver.py")),
};

/// Longest wait for one reply: far above the slowest join of the suites, so that a hung peer ends.
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);

/// A running peer.
pub struct SqlPeer {
    system: &'static System,
    process: LineProcess,
    scratch: tempfile::TempDir,
    version: String,
}

/// The answer of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAnswer {
    /// Time of execute and fetch.
    pub elapsed: Duration,
    /// Cells as text, `NULL` for nulls.
    pub rows: Vec<Vec<String>>,
}

/// What streams of statements gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStreams {
    /// Time from the common start to the last row of the last stream.
    pub elapsed: Duration,
    /// Time of each statement.
    pub latencies: Vec<Duration>,
    /// Numbers of statements with their answers, equal answers once.
    pub answers: Vec<(usize, Vec<Vec<String>>)>,
}

/// Python interpreters that may have the package, the most specific first.
fn candidates() -> Vec<PathBuf> {
    let mut candidates = lab_core::peers::places("python3");
    candidates.push(PathBuf::from("python3"));
    candidates
}

fn has_package(python: &Path, package: &str) -> bool {
    Command::new(python)
        .args(["-c", &format!("import {package}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl System {
    fn failed(&self, reason: impl Into<String>) -> BenchError {
        BenchError::Peer {
            peer: self.name,
            reason: reason.into(),
        }
    }

    /// The system, or one row of `suite` in its metric that says why not.
    pub fn start_or_say(
        &'static self,
        suite: &'static str,
        metric: &'static str,
        unit: &'static str,
        runner: &mut Runner<'_>,
    ) -> Option<SqlPeer> {
        match SqlPeer::start(self) {
            Ok(peer) => Some(peer),
            Err(error) => {
                let row = Row::unavailable(suite, "all", metric, unit, &error.to_string());
                runner.emit(row.with("engine", self.name));
                runner.progress().note(&error.to_string());
                None
            }
        }
    }
}

impl SqlPeer {
    /// Starts a system.
    ///
    /// # Errors
    /// When no Python with its package is found; the text says how to get it.
    pub fn start(system: &'static System) -> Result<SqlPeer, BenchError> {
        let python = candidates()
            .into_iter()
            .find(|python| has_package(python, system.name));
        let missing = || {
            system.failed(format!(
                "no Python with the {} package; {HOW_TO_GET}",
                system.name
            ))
        };
        let python = python.ok_or_else(missing)?;
        let mut command = Command::new(&python);
        command.args(["-c", system.driver]);
        let process = LineProcess::spawn(command, REPLY_TIMEOUT)
            .map_err(|error| system.failed(format!("could not start {}: {error}", python.display())))?;
        let scratch = tempfile::tempdir()
            .map_err(|source| BenchError::io("could not make a temporary folder", source))?;
        let mut peer = SqlPeer {
            system,
            process,
            scratch,
            version: String::new(),
        };
        let hello = peer.request(&json!({"op": "hello"}))?;
        peer.version = hello["version"].as_str().unwrap_or_default().to_string();
        Ok(peer)
    }

    /// Which system it is.
    pub fn system(&self) -> &'static System {
        self.system
    }

    /// The system's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn request(&mut self, request: &Value) -> Result<Value, BenchError> {
        let line = self.process.send(&request.to_string());
        let line = line
            .and_then(|()| self.process.line())
            .map_err(|none| match none {
                NoLine::Timeout => self
                    .system
                    .failed(format!("no reply within {} s", REPLY_TIMEOUT.as_secs())),
                NoLine::Ended => self.system.failed("it ended unexpectedly"),
            })?;
        let reply: Value = serde_json::from_str(&line)
            .map_err(|error| self.system.failed(format!("unreadable reply: {error}")))?;
        match reply["error"].as_str() {
            Some(error) => Err(self.system.failed(error)),
            None => Ok(reply),
        }
    }

    /// Threads for the queries to come.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_threads(&mut self, threads: usize) -> Result<(), BenchError> {
        self.request(&json!({"op": "threads", "threads": threads}))
            .map(|_| ())
    }

    /// Copies batches into a table in the peer's memory, replacing one of the same name.
    ///
    /// # Errors
    /// When the file in between cannot be written or read, or rows went missing.
    pub fn load(
        &mut self,
        table: &str,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<(), BenchError> {
        let path = self.scratch.path().join(format!("{table}.parquet"));
        write_parquet(&path, schema, batches)?;
        let reply = self.request(&json!({"op": "load", "table": table, "path": path.to_string_lossy()}));
        std::fs::remove_file(&path)
            .map_err(|source| BenchError::io(format!("could not remove {}", path.display()), source))?;
        let loaded = reply?["rows"].as_u64();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if loaded != Some(rows as u64) {
            return Err(self
                .system
                .failed(format!("table {table} has {loaded:?} rows after loading {rows}")));
        }
        Ok(())
    }

    /// Makes the Parquet files of a folder a table, which every query reads anew.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn view(&mut self, table: &str, folder: &Path) -> Result<(), BenchError> {
        let files = folder.join("*.parquet");
        let view = json!({"op": "view", "table": table, "path": files.to_string_lossy()});
        self.request(&view).map(|_| ())
    }

    /// Drops a table if it is there.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn drop_table(&mut self, table: &str) -> Result<(), BenchError> {
        self.request(&json!({"op": "drop", "table": table})).map(|_| ())
    }

    /// Runs a query and fetches its answer.
    ///
    /// # Errors
    /// The system's own.
    pub fn run(&mut self, sql: &str) -> Result<PeerAnswer, BenchError> {
        let reply = self.request(&json!({"op": "run", "sql": sql}))?;
        Ok(PeerAnswer {
            elapsed: self.elapsed(&reply)?,
            rows: rows_of(&reply["rows"]),
        })
    }

    fn elapsed(&self, reply: &Value) -> Result<Duration, BenchError> {
        let nanoseconds = reply["nanoseconds"].as_u64();
        let nanoseconds = nanoseconds.ok_or_else(|| self.system.failed("a reply without a time"))?;
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Runs streams of statements, given by their numbers, all streams at once and each on a connection of its own. DuckDB only.
    ///
    /// # Errors
    /// The system's own.
    pub fn streams(
        &mut self,
        statements: &[&str],
        streams: &[Vec<usize>],
    ) -> Result<PeerStreams, BenchError> {
        let request = json!({"op": "streams", "statements": statements, "streams": streams});
        let reply = self.request(&request)?;
        let latency = |took: &Value| took.as_u64().map(Duration::from_nanos);
        let answer = |of: &Value| (of[0].as_u64().unwrap_or_default() as usize, rows_of(&of[1]));
        Ok(PeerStreams {
            elapsed: self.elapsed(&reply)?,
            latencies: list(&reply["latencies"]).iter().filter_map(latency).collect(),
            answers: list(&reply["answers"]).iter().map(answer).collect(),
        })
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// A query whose answer is one cell, as a sample for the runner.
    ///
    /// # Errors
    /// The system's own.
    pub fn sample(&mut self, sql: &str) -> Result<Sample, BenchError> {
        let answer = self.run(sql)?;
        let cell = answer
            .rows
            .first()
            .and_then(|row| row.first())
            .cloned()
            .unwrap_or_default();
        Ok(Sample {
            elapsed: answer.elapsed,
            answer: cell,
            peak_bytes: None,
        })
    }

    /// The system's plan of a query as text.
    ///
    /// # Errors
    /// The system's own.
    pub fn explain(&mut self, sql: &str) -> Result<String, BenchError> {
        let reply = self.request(&json!({"op": "explain", "sql": sql}))?;
        Ok(reply["text"].as_str().unwrap_or_default().to_string())
    }
}

/// The values of a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Rows of texts, as the drivers write them.
fn rows_of(rows: &Value) -> Vec<Vec<String>> {
    let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| list(row).iter().map(text).collect();
    list(rows).iter().map(row).collect()
}

/// Numbers this near each other are equal: a quotient of decimals is a decimal here, maybe of six digits after the point, and a float there.
const SAME_SHARE: f64 = 1e-4;
const SAME_DIFFERENCE: f64 = 1e-6;

fn same_cell(ours: &str, theirs: &str) -> bool {
    if ours == theirs || (ours == NULL_TEXT && theirs == "NULL") {
        return true;
    }
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => {
            (ours - theirs).abs() <= SAME_DIFFERENCE.max(SAME_SHARE * ours.abs().max(theirs.abs()))
        }
        _ => false,
    }
}

/// How a peer's rows differ from ours, in any order; `None` if they do not.
pub fn differs(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} rows instead of {}", theirs.len(), ours.len()));
    }
    let same_row = |ours: &[String], theirs: &[String]| {
        ours.len() == theirs.len()
            && ours
                .iter()
                .zip(theirs)
                .all(|(ours, theirs)| same_cell(ours, theirs))
    };
    let mut left: Vec<&Vec<String>> = ours.iter().collect();
    let mut theirs: Vec<&Vec<String>> = theirs.iter().collect();
    left.sort_unstable();
    theirs.sort_unstable();
    for row in theirs.into_iter().rev() {
        // Mostly it is the last one.
        let found = left.iter().rposition(|ours| same_row(ours, row));
        match found {
            Some(at) => drop(left.remove(at)),
            None => return Some(format!("a row that is not ours: {}", row.join("|"))),
        }
    }
    None
}

/// Uncompressed, without dictionaries: the file lives for one load.
fn write_parquet(path: &Path, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(), BenchError> {
    let file = std::fs::File::create(path)
        .map_err(|source| BenchError::io(format!("could not create {}", path.display()), source))?;
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut writer =
        ArrowWriter::try_new(file, SchemaRef::clone(schema), Some(properties)).map_err(BenchError::data)?;
    for batch in batches {
        writer.write(batch).map_err(BenchError::data)?;
    }
    writer.close().map_err(BenchError::data)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_in_any_order_and_numbers_nearly() {
        let rows = |texts: &[&str]| -> Vec<Vec<String>> {
            let row = |text: &&str| text.split('|').map(str::to_owned).collect();
            texts.iter().map(row).collect()
        };
        let ours = rows(&["a|1.5", "b|\0"]);
        assert_eq!(differs(&ours, &rows(&["b|NULL", "a|1.50001"])), None);
        assert!(differs(&ours, &rows(&["a|1.5"])).is_some());
        assert!(differs(&ours, &rows(&["a|1.5", "b|0"])).is_some());
        assert!(differs(&ours, &rows(&["a|1.5", "a|1.5"])).is_some());
        assert!(differs(&ours, &rows(&["a|1.51", "b|NULL"])).is_some());
        assert_eq!(differs(&rows(&["0.002934"]), &rows(&["0.0029349"])), None);
    }
}
