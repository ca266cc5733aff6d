//! `corun-lab instruction-cache-subject JOB ANSWERS`: what `corun-lab bench instruction-cache` traces; not for people, and not in the help.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use lab_cpu::instruction_cache::job::Job;

/// Arguments of `corun-lab instruction-cache-subject`.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// What to run, as JSON.
    job: String,
    /// Where to write what came of it.
    answers: PathBuf,
}

/// Runs the job.
///
/// # Errors
/// No job, a job that cannot run, or answers that cannot be written.
pub fn run(args: SubjectArgs) -> Result<()> {
    let job: Job = serde_json::from_str(&args.job).context("the job cannot be read")?;
    let done = lab_cpu::instruction_cache::subject::run(&job)?;
    let text = serde_json::to_string(&done).context("cannot write answers as JSON")?;
    std::fs::write(&args.answers, text)
        .with_context(|| format!("cannot write answers to {}", args.answers.display()))
}
