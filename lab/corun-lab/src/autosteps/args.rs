//! The arguments of `corun-lab autosteps`, and what of them contradicts itself.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use corun_model::teams::{Knee, L1i};

use corun_cli::arguments::{positive, positive_number};
use corun_cli::failure::Usage;

/// Arguments of `corun-lab autosteps`.
#[derive(Debug, Args)]
#[command(
    after_help = "An operation is what a function does from its entry to its return, or what runs between two marker instructions that
the program was compiled with. It is traced instruction by instruction, by ptrace: the program needs no change and runs
slowly only while the operation is traced. What it prints goes to stderr; it is ended as soon as the trace is taken, except
with --attach.

Examples:
  corun-lab autosteps --function index_fetch -- ./client
  corun-lab autosteps --function index_fetch --skip 100 --report fetch.html -- ./client --table 3
  corun-lab autosteps --function sqlite3_step --l1i 64k/2/64 --knee 400,2 -- sqlite3 my.db 'select count(*) from t'
  corun-lab autosteps --function fetch --function insert --calls-max 8 --profile points.txt -- ./server --once
  corun-lab autosteps --function exec_simple_query --attach 4711
  corun-lab autosteps --marked --trace-out operation.trace -- ./client
  corun-lab autosteps --trace operation.trace --l1i 16k/4/32 --sweep

Every number is simulated, from a trace that is real. A function's name is one of its symbols; LIBRARY:NAME is one of that library."
)]
pub struct AutostepsArgs {
    /// Trace a call of this function: its symbol, or LIBRARY:SYMBOL. Repeat it for several operations in one profile.
    #[arg(long = "function", value_name = "SYMBOL", conflicts_with = "marked")]
    pub functions: Vec<String>,

    /// Trace what runs between two marker instructions compiled into the program.
    #[arg(long)]
    pub marked: bool,

    /// Let the operation run so many times at full speed before it is traced: the first time is like no other.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u32,

    /// Members of the team that is simulated.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = members, allow_negative_numbers = true)]
    pub members: u32,

    /// The level-one instruction cache: size, ways, bytes of a line, such as 32k/8/64 [default: this machine's].
    #[arg(long, value_name = "SIZE/WAYS/LINE")]
    pub l1i: Option<L1i>,

    /// Evictions so many instructions apart, and so many of them, are worth a switch.
    #[arg(long, value_name = "WIDTH,HEIGHT", default_value_t = Knee::default())]
    pub knee: Knee,

    /// Take the knee whose team misses least with at most so many calls in an operation.
    #[arg(long, value_name = "N", conflicts_with = "knee")]
    pub calls_max: Option<u64>,

    /// Also show calls and misses for other knees.
    #[arg(long)]
    pub sweep: bool,

    /// Two functions more that take and release a latch, on top of pthread_mutex_lock,pthread_mutex_unlock and the like.
    #[arg(long = "latch", value_name = "LOCK,UNLOCK", value_parser = latch)]
    pub latches: Vec<(String, String)>,

    /// Choose among the CTX points compiled into the program [default: if it has any].
    #[arg(long, conflicts_with_all = ["lines", "entries"])]
    pub sites: bool,

    /// Name source lines where points belong, whatever the program has [default: if it has nothing to choose from].
    #[arg(long, conflicts_with = "entries")]
    pub lines: bool,

    /// Choose among the entries of functions [default: if the program was compiled with patchable ones].
    #[arg(long)]
    pub entries: bool,

    /// Of the points compiled in, also turn on those that prefetch data.
    #[arg(long)]
    pub prefetch_points: bool,

    /// Write the chosen points to this file, for the program to turn on when it starts.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,

    /// Write a report with plots to this file.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Keep the trace of the operation in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub trace_out: Option<PathBuf>,

    /// Read a kept trace instead of running a program.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["functions", "marked", "skip", "latches", "stop_others", "timeout", "attach", "program"])]
    pub trace: Option<PathBuf>,

    /// Trace a program that runs already; it goes on when the trace is taken.
    #[arg(long, value_name = "PID", conflicts_with = "program")]
    pub attach: Option<u32>,

    /// Let the program's other threads stand still while the operation is traced.
    #[arg(long)]
    pub stop_others: bool,

    /// Give up after so many seconds, for an operation that may not come.
    #[arg(long, value_name = "SECONDS", value_parser = positive_number, allow_negative_numbers = true)]
    pub timeout: Option<f64>,

    /// Most instructions of one traced operation.
    #[arg(long, value_name = "N", default_value_t = 16 << 20, value_parser = positive, allow_negative_numbers = true)]
    pub instructions_max: usize,

    /// Fail if a point would be inside a latch, instead of warning.
    #[arg(long)]
    pub deny_latched: bool,

    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Parses the size of a team.
fn members(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number @ 2..=1000) => Ok(number),
        _ => Err("is no number from 2 to 1000".to_owned()),
    }
}

/// Parses `LOCK,UNLOCK`.
fn latch(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((lock, unlock)) if !lock.trim().is_empty() && !unlock.trim().is_empty() => {
            Ok((lock.trim().to_owned(), unlock.trim().to_owned()))
        }
        _ => Err("is not two functions such as lock,unlock".to_owned()),
    }
}

impl AutostepsArgs {
    /// Whether there is something to trace, and where.
    ///
    /// # Errors
    /// [`Usage`].
    pub fn check(&self) -> Result<()> {
        if self.trace.is_some() {
            return Ok(());
        }
        if self.program.is_empty() && self.attach.is_none() {
            bail!(Usage(
                "no program to trace\nhint: name one after --, as in `corun-lab autosteps --function NAME -- ./program`, or \
                 a running one with --attach PID"
                    .to_owned()
            ));
        }
        if self.functions.is_empty() && !self.marked {
            bail!(Usage(
                "no operation to trace\nhint: name a function with --function NAME, or set markers in the program and \
                 say --marked"
                    .to_owned()
            ));
        }
        if self.trace_out.is_some() && self.functions.len() > 1 {
            bail!(Usage(
                "--trace-out keeps one operation, not several\nhint: run once for each --function".to_owned()
            ));
        }
        Ok(())
    }

    /// What to trace, one after the other: functions, or `None` for what is marked.
    pub fn operations(&self) -> Vec<Option<&str>> {
        match self.functions.is_empty() {
            true => vec![None],
            false => self.functions.iter().map(|name| Some(name.as_str())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latches_and_members_are_checked() {
        assert_eq!(latch("a, b"), Ok(("a".to_owned(), "b".to_owned())));
        for wrong in ["", "a", "a,", ",b"] {
            assert!(latch(wrong).is_err(), "{wrong}");
        }
        assert_eq!(members("2"), Ok(2));
        for wrong in ["1", "0", "-3", "1001", "ten"] {
            assert!(members(wrong).is_err(), "{wrong}");
        }
    }
}
