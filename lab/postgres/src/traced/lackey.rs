//! [`Backend`]: PostgreSQL's stand-alone backend under valgrind's lackey, one statement at a time.
//!
//! ```text
//!   statement ──▶ stdin  [ lackey [ postgres --single ] ]  stdout ──▶ answer, "backend> "
//!                                    │ stderr: a line for every access ──▶ a thread that hands them to a Sink: a Tape, a Filter
//! ```
//!
//! A statement is over when the prompt has come, the process sleeps (it waits for the next statement), and no more accesses have come
//! for a while. Nothing is stored but what the sinks that are handed in keep.
//!
//! Not here: what is traced; see [`crate::key_ranges_simulated::trace`] and [`crate::heavy_queue::sim`].

use std::fs::File as SystemFile;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corun_cachesim::llc::filtered::Filter;
use corun_cachesim::private_caches::lackey::{Memory, Tape};

use super::{PEER, PROMPT, stand_alone, values};
use crate::fixture;
use crate::fixture::account::Account;
use crate::fixture::cluster::Programs;
use lab_core::error::BenchError;

/// A buffer's descriptor: the tag, space, database, file, fork and page, is the first five words of 64 bytes (PostgreSQL 10 to 18).
const DESCRIPTOR_BYTES: usize = 64;
/// Longest wait for an answer. Starting takes minutes: every access of it is written out.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long no access must come before a statement is over.
const SILENCE: Duration = Duration::from_millis(40);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Most bytes of an answer.
const ANSWER_MAX: usize = 16 << 20;
/// What one buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its number, from 0.
    pub buffer: u64,
    /// The database, by number.
    pub database: u32,
    /// The relation's file.
    pub node: u32,
    /// 0 for the relation itself.
    pub fork: u32,
    /// Number of the page in it.
    pub page: u32,
}

/// Who keeps a statement's accesses.
pub trait Sink: Send + 'static {
    /// Takes one line of lackey's, or one of the server's own words.
    fn line(&mut self, line: &[u8]);
}

impl Sink for Tape {
    fn line(&mut self, line: &[u8]) {
        Tape::line(self, line);
    }
}

impl Sink for Filter {
    fn line(&mut self, line: &[u8]) {
        Filter::line(self, line);
    }
}

/// What the thread that reads accesses shares with the one that asks.
#[derive(Debug)]
struct Shared<S> {
    lines: AtomicU64,
    keeps: AtomicBool,
    sink: Mutex<Option<S>>,
}

/// A running backend whose statements' accesses go to sinks of kind `S`.
pub struct Backend<S: Sink> {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    shared: Arc<Shared<S>>,
}

impl<S: Sink> Drop for Backend<S> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn failed(reason: impl Into<String>) -> BenchError {
    fixture::failed(PEER, reason)
}

impl<S: Sink> Backend<S> {
    /// Starts it on a data folder that no server runs on.
    pub fn start(
        programs: &Programs,
        data: &Path,
        account: Option<Account>,
        settings: &[&str],
    ) -> Result<Backend<S>, BenchError> {
        let tool = ["--tool=lackey", "--trace-mem=yes"].map(str::to_owned);
        let mut child = stand_alone(programs, data, account, &tool, &[], settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("could not be started: {error}")))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed("has no pipes"));
        };
        let shared: Arc<Shared<S>> = Arc::new(Shared {
            lines: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            sink: Mutex::new(None),
        });
        let keeper = Arc::clone(&shared);
        // It ends with the pipe's other end, which the child has alone.
        std::thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 20, stderr);
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
                if keeper.keeps.load(Ordering::Relaxed)
                    && let Ok(mut sink) = keeper.sink.lock()
                    && let Some(sink) = &mut *sink
                {
                    sink.line(line.strip_suffix(b"\n").unwrap_or(&line));
                }
                keeper.lines.fetch_add(1, Ordering::Release);
                line.clear();
            }
        });
        let mut backend = Backend {
            child,
            stdin: Some(stdin),
            stdout,
            shared,
        };
        backend.answer()?;
        Ok(backend)
    }

    /// Its process: valgrind runs a program in its own.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Runs a statement: the answer.
    pub fn run(&mut self, statement: &str) -> Result<String, BenchError> {
        let stdin = self.stdin.as_mut().ok_or_else(|| failed("has ended"))?;
        let line = format!("{}\n", statement.replace('\n', " "));
        stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.flush())
            .map_err(|error| failed(format!("takes no statement: {error}")))?;
        self.answer()
    }

    /// Runs a statement: the answer, and `sink` with its accesses.
    ///
    /// # Errors
    /// As [`Backend::run`], and when the thread that reads accesses has ended badly.
    pub fn traced(&mut self, statement: &str, sink: S) -> Result<(String, S), BenchError> {
        let lost = || failed("its accesses are lost");
        *self.shared.sink.lock().map_err(|_| lost())? = Some(sink);
        self.shared.keeps.store(true, Ordering::Relaxed);
        let answer = self.run(statement);
        self.shared.keeps.store(false, Ordering::Relaxed);
        let sink = self.shared.sink.lock().map_err(|_| lost())?.take();
        Ok((answer?, sink.ok_or_else(lost)?))
    }

    /// Ends it, so that everything is in the data folder.
    pub fn finish(mut self) -> Result<(), BenchError> {
        drop(self.stdin.take());
        let status = self.child.wait().map_err(|error| failed(error.to_string()))?;
        match status.success() {
            true => Ok(()),
            false => Err(failed(format!("ended with {status}"))),
        }
    }

    /// Reads up to the prompt and waits until it sleeps and the accesses have come.
    fn answer(&mut self) -> Result<String, BenchError> {
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        while !answer.ends_with(PROMPT.as_bytes()) {
            let bytes = self
                .stdout
                .read(&mut chunk)
                .map_err(|error| failed(format!("does not answer: {error}")))?;
            if bytes == 0 || answer.len() > ANSWER_MAX {
                let text = String::from_utf8_lossy(&answer);
                return Err(failed(format!(
                    "ended in the middle of an answer: {}",
                    text.trim()
                )));
            }
            answer.extend_from_slice(&chunk[..bytes]);
        }
        let end = Instant::now() + PATIENCE;
        let mut before = (self.shared.lines.load(Ordering::Acquire), Instant::now());
        while before.1.elapsed() < SILENCE {
            std::thread::sleep(LOOK_EVERY);
            let lines = self.shared.lines.load(Ordering::Acquire);
            if lines != before.0 || !self.sleeps() {
                before = (lines, Instant::now());
            }
            if Instant::now() > end {
                return Err(failed("does not come to rest"));
            }
        }
        answer.truncate(answer.len() - PROMPT.len());
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Its memory, by what it says it allocated.
    pub fn memory(&mut self) -> Result<Memory, BenchError> {
        let answer = self
            .run("select name, off from pg_shmem_allocations where off is not null and name is not null")?;
        let offsets = values(&answer, "off")
            .into_iter()
            .filter_map(|off| off.parse().ok());
        let named: Vec<(String, u64)> = values(&answer, "name").into_iter().zip(offsets).collect();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process()))
            .map_err(|source| BenchError::io("could not read the memory map of postgres", source))?;
        Memory::new(&maps, &named).map_err(|error| failed(error.to_string()))
    }

    /// What each buffer holds, read in the server's memory: asking it would take valgrind minutes.
    pub fn tags(&mut self, memory: &Memory) -> Result<Vec<Tag>, BenchError> {
        let first = memory
            .address("Buffer Descriptors")
            .ok_or_else(|| failed("does not name its buffers"))?;
        let answer = self.run("show shared_buffers")?;
        let buffers = values(&answer, "shared_buffers").pop().unwrap_or_default();
        let megabytes: usize = buffers.trim_end_matches("MB").parse().unwrap_or(64);
        let count = megabytes * 128;
        let mut bytes = vec![0; count * DESCRIPTOR_BYTES];
        SystemFile::open(format!("/proc/{}/mem", self.process()))
            .and_then(|file| file.read_exact_at(&mut bytes, first))
            .map_err(|source| BenchError::io("could not read the memory of postgres", source))?;
        let word = |descriptor: &[u8], at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&descriptor[4 * at..4 * at + 4]);
            u32::from_le_bytes(word)
        };
        let tags = bytes
            .chunks_exact(DESCRIPTOR_BYTES)
            .enumerate()
            .map(|(buffer, descriptor)| Tag {
                buffer: buffer as u64,
                database: word(descriptor, 1),
                node: word(descriptor, 2),
                fork: word(descriptor, 3),
                page: word(descriptor, 4),
            });
        Ok(tags.filter(|tag| tag.node != 0).collect())
    }

    /// Whether the process waits for something.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process())).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.trim_start().starts_with('S')
    }
}
