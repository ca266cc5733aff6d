//! `corun-lab bench report ROWS`: the figures of rows that were recorded.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use corun_cli::out;
use lab_core::BenchError;
use lab_core::figures;
use lab_core::report::text;
use lab_core::row::Row;
use lab_core::suite::Suite;

use crate::report_file::ReportFile;

/// Arguments of `corun-lab bench report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab bench report records/2026-11-21-vm/smt.jsonl
  corun-lab bench report records/2026-11-22-epyc-vm/mcc-*.jsonl --report heavy-queue.html")]
pub struct ReportArgs {
    /// Files of rows of one suite, as `--json` prints them and records keep them.
    #[arg(value_name = "ROWS", required = true)]
    rows: Vec<PathBuf>,

    /// Write figures and tables to this HTML file instead of printing sentences and tables.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// The rows are of a quick run: hold no time against a paper.
    #[arg(long)]
    quick: bool,
}

/// Runs `corun-lab bench report`.
///
/// # Errors
/// Files that cannot be read or hold something else than rows, rows of several suites or of none, or a closed pipe.
pub fn run(args: &ReportArgs) -> Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for file in &args.rows {
        rows.extend(super::read(file)?);
    }
    let name = suite(&rows)?;
    let files = args.rows.iter().filter_map(|file| file.file_name());
    let files: Vec<_> = files.map(|name| name.to_string_lossy()).collect();
    let facts = [("rows".to_owned(), files.join(", "))];
    let page = figures::page(name, &rows, &facts, args.quick).context("this suite draws no figures")?;
    match &args.report {
        Some(path) => {
            ReportFile::open(path.clone())?.finish(&page.render())?;
            out::note(&format!("report: {}", path.display()));
        }
        None => write!(out::stdout(), "{}", text::page(&page, out::line_width())).context("cannot print")?,
    }
    Ok(())
}

/// The one suite of these rows.
fn suite(rows: &[Row]) -> Result<&'static str> {
    let Some(first) = rows.first() else {
        bail!(BenchError::BadArgument(
            "there are no rows in these files".to_owned()
        ));
    };
    if let Some(other) = rows.iter().find(|row| row.suite != first.suite) {
        bail!(BenchError::BadArgument(format!(
            "there are rows of {} and of {}: a report is of one suite",
            first.suite, other.suite
        )));
    }
    match first.suite.as_str() {
        // A command of its own, with figures all the same.
        "characterize" => Ok("characterize"),
        suite => Ok(suite.parse::<Suite>()?.name()),
    }
}
