//! `corun-lab bench diff A B`: what changed between two records.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use corun_cli::out;
use lab_core::BenchError;
use lab_core::compare::{self, OF_SUITES, Run};
use lab_core::row::Row;

/// Arguments of `corun-lab bench diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab bench diff records/2026-11-21-vm records/2026-11-26-vm
  corun-lab bench diff before.jsonl after.jsonl

What changed is what is apart by more than the spreads, the A/A controls of both runs and 1 %. Two runs at different times differ by more
than a run differs from itself: machines, commits and settings that differ are said first.")]
pub struct DiffArgs {
    /// A folder of a record, or a file of rows as `--json` prints them.
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Another one.
    #[arg(value_name = "B")]
    b: PathBuf,
}

/// Runs `corun-lab bench diff`.
///
/// # Errors
/// Files that cannot be read or hold something else than rows, no suite that both have, or a closed pipe.
pub fn run(args: &DiffArgs) -> Result<()> {
    let (mut a, mut b) = (suites(&args.a)?, suites(&args.b)?);
    // Of two files, whatever they are called.
    if let (false, false) = (args.a.is_dir(), args.b.is_dir()) {
        b = b
            .into_values()
            .zip(a.keys())
            .map(|(rows, name)| (name.clone(), rows))
            .collect();
    }
    a.retain(|suite, _| b.contains_key(suite));
    if a.is_empty() {
        bail!(BenchError::BadArgument(format!(
            "{} and {} have no suite in common",
            args.a.display(),
            args.b.display()
        )));
    }
    let mut out = out::stdout();
    for (suite, recorded) in &a {
        let Some(other) = b.get(suite) else { continue };
        let diff = compare::diff(&recorded.run(), &other.run(), &OF_SUITES);
        writeln!(out, "{suite}")?;
        write!(
            out,
            "{}",
            diff.text(&args.a.display().to_string(), &args.b.display().to_string())
        )?;
    }
    out.flush().context("cannot print")
}

/// Rows of a suite, and how they came to be.
struct Recorded {
    rows: Vec<Row>,
    facts: Vec<(String, String)>,
}

impl Recorded {
    fn read(rows: &Path) -> Result<Recorded, BenchError> {
        let facts = std::fs::read_to_string(rows.with_extension("run")).unwrap_or_default();
        let facts = facts.lines().filter_map(|line| line.split_once(": "));
        Ok(Recorded {
            rows: super::read(rows)?,
            facts: facts
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        })
    }

    fn run(&self) -> Run<'_> {
        Run {
            rows: self.rows.iter().collect(),
            facts: self.facts.clone(),
        }
    }
}

/// The suites of a folder, by the names of their files, or the one of a file.
fn suites(path: &Path) -> Result<BTreeMap<String, Recorded>, BenchError> {
    let unreadable = |source| BenchError::io(format!("could not read {}", path.display()), source);
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = path.read_dir().map_err(unreadable)?.filter_map(Result::ok);
        files = entries.map(|entry| entry.path()).collect();
        let is_of_rows = |file: &PathBuf| {
            file.extension().is_some_and(|extension| extension == "jsonl")
                && file.with_extension("run").exists()
        };
        files.retain(is_of_rows);
    }
    let named = |file: PathBuf| {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok((name, Recorded::read(&file)?))
    };
    files.into_iter().map(named).collect()
}
