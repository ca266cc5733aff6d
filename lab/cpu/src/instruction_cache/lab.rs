//! [`Lab`]: starts a copy of this program as the subject, traces what it runs between markers, and keeps the trace by pass and round.
//!
//! ```text
//!   Lab::trace(job) ── starts ──► corun instruction-cache-subject JOB ANSWERS      (one thread, stepped between markers only)
//!        │                            │
//!        │◄── events ── tracer ───────┤
//!        │◄── answers (a file) ───────┘
//!        ▼
//!   Traced: events, rounds of each pass, CTX points by address, what the subject answered
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corun_machine::trace::{After, LatchFunctions, Target, TraceOptions, TraceSource, Tracer};
use corun_model::teams::instructions::InstructionSink;
use corun_model::teams::{CtxProfile, CtxSite};

use super::job::{Done, Job, Mode, Operation, Pass, Points, Workload};
use super::kept::Kept;
use corun_model::progress::Progress;
use lab_core::error::BenchError;

/// The hidden subcommand that is the subject.
pub const SUBCOMMAND: &str = "instruction-cache-subject";

/// Longest trace of one job; a subject that hangs is an error, not a hang.
const TIME_MAX: std::time::Duration = std::time::Duration::from_secs(1_800);

/// Most instructions between two markers.
const INSTRUCTIONS_MAX: u64 = 200_000_000;

/// Where subjects are traced.
pub(super) struct Lab<'l> {
    program: PathBuf,
    folder: tempfile::TempDir,
    pub(super) quick: bool,
    pub(super) progress: &'l dyn Progress,
}

/// A traced run of a subject.
pub(super) struct Traced {
    pub(super) kept: Kept,
    /// By pass.
    pub(super) passes: Vec<TracedPass>,
    /// CTX points compiled into the subject, by the address of their record.
    pub(super) sites: BTreeMap<u64, CtxSite>,
    /// Those of them that carry a prefetch.
    prefetching: BTreeSet<u64>,
}

/// A pass of a traced run.
pub(super) struct TracedPass {
    /// What the subject answered.
    pub(super) done: Done,
    /// By whole round, the events of each stretch between markers: one for all members, or one for each where they ran one after the
    /// other. A held team comes apart in its last round, which is left out.
    pub(super) rounds: Vec<Vec<Range<usize>>>,
}

impl TracedPass {
    /// Whether all answers were right.
    pub(super) fn ok(&self) -> bool {
        self.done.wrong.is_empty()
    }
}

fn traced(error: impl std::fmt::Display) -> BenchError {
    BenchError::Machine(format!("tracing the subject: {error}"))
}

impl<'l> Lab<'l> {
    /// A lab whose subject is `program`, or this program.
    pub(super) fn new(
        program: Option<&Path>,
        quick: bool,
        progress: &'l dyn Progress,
    ) -> Result<Lab<'l>, BenchError> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()
                .map_err(|source| BenchError::io("cannot find this program to trace a copy of it", source))?,
        };
        let folder =
            tempfile::tempdir().map_err(|source| BenchError::io("cannot make a temporary folder", source))?;
        Ok(Lab {
            program,
            folder,
            quick,
            progress,
        })
    }

    /// What a quick run takes, or what any other does.
    pub(super) fn choose<T>(&self, (quick, full): (T, T)) -> T {
        if self.quick { quick } else { full }
    }

    /// An operation on the paper's table (section 3.4), and on another one of so many rows.
    pub(super) fn workload(&self, operation: Operation, other_rows: u32) -> Workload {
        Workload::Operation {
            operation,
            rows: self.choose((2_000, 100_000)),
            other_rows,
        }
    }

    /// Runs a job under the tracer, handing what happens between markers to `sink`. Returns the subject's answers and its CTX points.
    pub(super) fn stream(
        &self,
        job: &Job,
        sink: &mut dyn InstructionSink,
    ) -> Result<(Vec<Done>, Vec<corun_machine::trace::CtxPoint>), BenchError> {
        let answers = self.folder.path().join("answers.json");
        let text = serde_json::to_string(job).map_err(|error| BenchError::Data(error.to_string()))?;
        let mut command = Command::new(&self.program);
        command
            .arg(SUBCOMMAND)
            .arg(text)
            .arg(&answers)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let stretches: usize = job.passes.iter().map(|pass| stretches(job.workload, pass)).sum();
        let options = TraceOptions {
            operations: stretches as u64,
            instructions_max: INSTRUCTIONS_MAX,
            // The subject's latches have markers of their own.
            latches: LatchFunctions::none(),
            time_max: Some(TIME_MAX),
            ..TraceOptions::of(Target::Marked)
        };
        let mut tracer = Tracer::start(command, options).map_err(traced)?;
        let mut seen = 0;
        while tracer.next_operation(sink).map_err(traced)?.is_some() {
            seen += 1;
            self.progress.advance(1);
        }
        let points = tracer.ctx_points().to_vec();
        if let Some(mut child) = tracer.finish(After::LetRun) {
            let status = child
                .wait()
                .map_err(|source| BenchError::io("cannot wait for the traced subject", source))?;
            if !status.success() {
                return Err(traced(format_args!("it ended with {status}")));
            }
        }
        let answered = std::fs::read_to_string(&answers)
            .map_err(|source| BenchError::io("the traced subject left no answers", source))?;
        let _ = std::fs::remove_file(&answers);
        let done: Vec<Done> = serde_json::from_str(&answered)
            .map_err(|error| BenchError::Data(format!("the traced subject's answers: {error}")))?;
        if seen != stretches || done.len() != job.passes.len() {
            return Err(traced(format_args!(
                "{seen} stretches between markers and {} answers instead of {stretches} and {}",
                done.len(),
                job.passes.len()
            )));
        }
        Ok((done, points))
    }

    /// Runs a job under the tracer and keeps the trace.
    pub(super) fn trace(&self, job: &Job, what: &str) -> Result<Traced, BenchError> {
        let total: usize = job.passes.iter().map(|pass| stretches(job.workload, pass)).sum();
        self.progress.begin(&format!("tracing {what}"), total as u64);
        let mut kept = Kept::default();
        let streamed = self.stream(job, &mut kept);
        self.progress.end();
        let (done, points) = streamed?;
        let kept = kept.complete()?;
        let mut occurrences = kept.occurrences().into_iter();
        let passes = job.passes.iter().zip(done).map(|(pass, done)| {
            let each = stretches(job.workload, pass) / pass.rounds.max(1);
            let rounds = (0..pass.rounds.max(1)).map(|_| occurrences.by_ref().take(each.max(1)).collect());
            let mut rounds: Vec<Vec<Range<usize>>> = rounds.collect();
            rounds.truncate(rounds.len() - usize::from(pass.mode == Mode::Held));
            TracedPass { done, rounds }
        });
        Ok(Traced {
            passes: passes.collect(),
            prefetching: points
                .iter()
                .filter(|point| point.prefetches)
                .map(|point| point.address)
                .collect(),
            sites: points
                .into_iter()
                .map(|point| (point.address, point.site))
                .collect(),
            kept,
        })
    }
}

/// How many stretches between markers a pass has.
fn stretches(workload: Workload, pass: &Pass) -> usize {
    match (workload, pass.mode) {
        (Workload::Tpcc { .. }, _) => 1,
        (Workload::Operation { .. }, Mode::Serial) => pass.rounds * pass.members.max(1),
        (Workload::Operation { .. }, _) => pass.rounds,
    }
}

impl Traced {
    /// Sentences about what the subject answered wrongly.
    pub(super) fn wrong(&self) -> Vec<String> {
        let wrong = self.passes.iter().flat_map(|pass| &pass.done.wrong);
        wrong.cloned().collect()
    }

    /// Which CTX points are on.
    pub(super) fn on(&self, points: &Points) -> BTreeSet<u64> {
        match points {
            Points::Default => self.prefetching.clone(),
            Points::All => self.sites.keys().copied().collect(),
            Points::Profile(text) => {
                let on = text
                    .parse()
                    .map_or_else(|_| Vec::new(), |profile: CtxProfile| profile.sites);
                let found = self.sites.iter().filter(|(_, site)| on.contains(site));
                found.map(|(&address, _)| address).collect()
            }
        }
    }
}
