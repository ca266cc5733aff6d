//! The peers of the `oltp` suite: SQLite, Turso, redb, fjall and RocksDB in the program `oltp-peers`, one process a side, driven over
//! standard input and output.
//!
//! Order of calls: [`Program::find`], [`Program::compare`], [`Program::start`], which returns when the data is loaded, [`Peer::round`] as
//! often as the interleaving asks, [`Peer::check`]. Between rounds the process waits for a line. Times are taken inside it by the same
//! driver that drives our store here, so the pipe is in none of them.
//!
//! Linking the engines instead would put C and C++ libraries into every build of corun; that is why `peers/oltp` is a workspace of its
//! own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::process::{LineProcess, NoLine};
use crate::transactions::case::{SEED, Setup, Work};
use crate::transactions::measured::{Loaded, Measured, per_thousand};
use lab_core::error::BenchError;

/// The program's name.
const PROGRAM: &str = "oltp-peers";
/// How to get it, for people.
pub const HOW_TO_GET: &str = "scripts/bootstrap --peers builds it below target/peers";
/// The engines it may have.
pub const ENGINES: [&str; 5] = ["sqlite", "turso", "redb", "fjall", "rocksdb"];
/// Longest wait for one line: far above any load, round or check, so that a hung peer ends.
const REPLY_TIMEOUT: Duration = Duration::from_secs(900);

/// The program, found.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    engines: Vec<String>,
}

fn failed(reason: impl Into<String>) -> BenchError {
    BenchError::Peer {
        peer: PROGRAM,
        reason: reason.into(),
    }
}

impl Program {
    /// Finds the program and asks it for its engines.
    ///
    /// # Errors
    /// When there is none; the text says how to get it.
    pub fn find() -> Result<Program, BenchError> {
        let path = lab_core::peers::places(PROGRAM)
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| failed(format!("the program was not found; {HOW_TO_GET}")))?;
        // An absolute path, because a relative one depends on the folder a process is started in.
        let path = path.canonicalize().unwrap_or(path);
        let output = Command::new(&path).arg("list").stdin(Stdio::null()).output();
        let output =
            output.map_err(|error| failed(format!("could not start {}: {error}", path.display())))?;
        let engines: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.split(' ').next())
            .map(str::to_owned)
            .collect();
        if !output.status.success() || engines.is_empty() {
            return Err(failed(format!(
                "{} list names no engines; {HOW_TO_GET}",
                path.display()
            )));
        }
        Ok(Program { path, engines })
    }

    /// Why an engine cannot be had from it; `None` if it can.
    pub fn lacks(&self, engine: &str) -> Option<String> {
        let has = self.engines.iter().any(|name| name == engine);
        (!has).then(|| format!("{PROGRAM} was built without {engine}; {HOW_TO_GET}"))
    }

    /// Gives the engine and the oracle the same small database and the same transactions, one after the other. `None` if all answers and
    /// all rows afterwards are the same, or else the first difference.
    ///
    /// # Errors
    /// When the peer fails.
    pub fn compare(&self, engine: &str, setup: &Setup, folder: &Path) -> Result<Option<String>, BenchError> {
        let small = Setup {
            sizes: crate::transactions::case::Sizes {
                compared: setup.sizes.compared,
                ..crate::transactions::case::Sizes::quick()
            },
            ..setup.clone()
        };
        let mut command = self.command(engine, &small, folder);
        command.args(["--compare", &small.sizes.compared.to_string()]);
        let mut peer = Peer::spawn(command, engine)?;
        let line = peer.line("compared")?;
        match line["difference"].as_str() {
            Some(difference) => Ok(Some(difference.to_owned())),
            None if line["ok"] == true => Ok(None),
            None => Err(failed(format!("{engine}: an unreadable comparison: {line}"))),
        }
    }

    /// Starts the engine and waits until its data is loaded.
    ///
    /// # Errors
    /// When the peer fails.
    pub fn start(&self, engine: &str, setup: &Setup, folder: &Path) -> Result<(Peer, Loaded), BenchError> {
        let mut peer = Peer::spawn(self.command(engine, setup, folder), engine)?;
        peer.main = setup.case.work.main_transaction();
        let line = peer.line("loaded")?;
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let loaded = Loaded {
            seconds: line["load_s"].as_f64().unwrap_or_default(),
            engine_bytes: line["memory_bytes"].as_u64(),
            process_bytes: line["rss_bytes"].as_u64(),
            version: text("version"),
            configuration: text("engine"),
        };
        Ok((peer, loaded))
    }

    fn command(&self, engine: &str, setup: &Setup, folder: &Path) -> Command {
        let sizes = &setup.sizes;
        let mut command = Command::new(&self.path);
        command.arg(engine);
        let mix = match setup.case.work {
            Work::Tpcc(mix) => {
                command.args(["tpcc", "--warehouses", &sizes.scale.warehouses.to_string()]);
                command.args(["--divisor", &sizes.scale.divisor.to_string()]);
                mix.to_string()
            }
            Work::Ycsb(workload) => {
                command.args(["ycsb", "--records", &sizes.records.to_string()]);
                workload.to_string()
            }
        };
        let cpus: Vec<String> = setup.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        command
            .args(["--mix", &mix])
            .args(["--clients", &setup.clients.to_string()])
            .args(["--workers", &setup.workers().to_string()])
            .args(["--cpus", &cpus.join(",")])
            .args(["--durability", &setup.durability.to_string()])
            .args(["--warmup", &seconds(sizes.warmup)])
            .args(["--seconds", &seconds(sizes.measured)])
            .args(["--seed", &SEED.to_string()])
            .arg("--folder")
            .arg(folder);
        command
    }
}

/// A running peer. Dropped, its process is ended; one that has not been checked does not check its data first.
pub struct Peer {
    engine: String,
    main: &'static str,
    process: LineProcess,
}

impl Peer {
    fn spawn(command: Command, engine: &str) -> Result<Peer, BenchError> {
        let process = LineProcess::spawn(command, REPLY_TIMEOUT)
            .map_err(|error| failed(format!("{engine}: could not be started: {error}")))?;
        Ok(Peer {
            engine: engine.to_owned(),
            main: "",
            process,
        })
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// One round, which the peer measures itself.
    ///
    /// # Errors
    /// When the peer fails.
    pub fn round(&mut self) -> Result<Measured, BenchError> {
        if self.process.send("go").is_err() {
            return Err(self.ended());
        }
        let line = self.line("outcome")?;
        measured(&line, self.main).map_err(|reason| failed(format!("{}: {reason}", self.engine)))
    }

    /// Ends the rounds; the peer checks its data. What does not hold, one sentence each.
    ///
    /// # Errors
    /// When the peer fails.
    pub fn check(&mut self) -> Result<Vec<String>, BenchError> {
        self.process.close();
        let line = self.line("checked")?;
        let wrong: Vec<String> = line["failed"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect();
        if line["ok"] != wrong.is_empty() {
            return Err(failed(format!("{}: an unreadable check: {line}", self.engine)));
        }
        Ok(wrong)
    }

    /// The next line, which must be of this event.
    fn line(&mut self, event: &str) -> Result<Value, BenchError> {
        let engine = &self.engine;
        let line = match self.process.line() {
            Ok(line) => line,
            Err(NoLine::Timeout) => {
                return Err(failed(format!(
                    "{engine}: no answer within {} s",
                    REPLY_TIMEOUT.as_secs()
                )));
            }
            Err(NoLine::Ended) => return Err(self.ended()),
        };
        let parsed: Value = serde_json::from_str(&line)
            .map_err(|error| failed(format!("{engine}: an unreadable line: {error}")))?;
        if parsed["event"] != event {
            return Err(failed(format!(
                "{engine}: a line \"{line}\" where \"{event}\" was expected"
            )));
        }
        Ok(parsed)
    }

    /// Why it is gone: its last words.
    fn ended(&mut self) -> BenchError {
        let words = self.process.last_words();
        let words = words.as_deref().unwrap_or("it ended without a word");
        let words = words.trim_start_matches("error: ");
        if words.contains("unexpected argument") {
            return failed(format!(
                "{}: {PROGRAM} is of another version; {HOW_TO_GET}",
                self.engine
            ));
        }
        failed(format!("{}: {words}", self.engine))
    }
}

/// The numbers of an `outcome` line; `main` names the transaction whose latency is meant.
fn measured(line: &Value, main: &str) -> Result<Measured, String> {
    let kinds = line["kinds"].as_array().map_or(&[][..], Vec::as_slice);
    let kind = kinds.iter().find(|kind| kind["kind"] == main);
    let number = |of: &Value, key: &str| {
        let number = of[key].as_f64();
        number.ok_or_else(|| format!("an outcome without {key}: {line}"))
    };
    let sum = |key: &str| kinds.iter().filter_map(|kind| kind[key].as_u64()).sum::<u64>();
    Ok(Measured {
        tps: number(line, "tps")?,
        new_orders_per_min: number(line, "new_orders_per_min")?,
        p50_us: kind.map(|kind| number(kind, "p50_us")).transpose()?,
        p99_us: kind.map(|kind| number(kind, "p99_us")).transpose()?,
        retries: per_thousand(sum("retried"), sum("committed") + sum("rolled_back")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_by_its_main_transaction() {
        let line = serde_json::json!({
            "event": "outcome", "round": 1, "tps": 100.0, "new_orders_per_min": 2700.0, "p50_us": 1.0, "p99_us": 2.0,
            "kinds": [
                {"kind": "new_order", "committed": 45, "rolled_back": 1, "retried": 2, "p50_us": 10.0, "p99_us": 20.0},
                {"kind": "payment", "committed": 54, "rolled_back": 0, "retried": 0, "p50_us": 5.0, "p99_us": 6.0},
            ],
        });
        let found = measured(&line, "new_order").expect("readable");
        assert_eq!((found.tps, found.new_orders_per_min), (100.0, 2700.0));
        assert_eq!(
            (found.p50_us, found.p99_us, found.retries),
            (Some(10.0), Some(20.0), 20.0)
        );
        let other = measured(&line, "delivery").expect("readable");
        assert_eq!((other.tps, other.p50_us), (100.0, None));
        assert!(
            measured(&serde_json::json!({"event": "outcome"}), "delivery")
                .is_err_and(|why| why.contains("tps"))
        );
    }

    #[test]
    fn a_peer_that_ends_says_why() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'error: the disk is full' >&2; exit 1"]);
        let mut peer = Peer::spawn(command, "sqlite").expect("a shell");
        let error = peer.line("loaded").expect_err("it ended").to_string();
        assert!(error.contains("sqlite: the disk is full"), "{error}");
        assert!(peer.round().is_err());
    }

    #[test]
    fn another_event_than_the_expected_one_is_an_error() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            r#"echo '{"event":"checked","ok":true,"failed":[]}'; echo nonsense; cat"#,
        ]);
        let mut peer = Peer::spawn(command, "redb").expect("a shell");
        assert!(
            peer.line("loaded")
                .is_err_and(|error| error.to_string().contains("checked"))
        );
        assert!(
            peer.line("loaded")
                .is_err_and(|error| error.to_string().contains("unreadable"))
        );
    }
}
