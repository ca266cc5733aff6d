//! One run of a suite: its arguments and where its rows go.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use corun_cli::failure::Failed;
use corun_cli::progress::Bars;
use corun_cli::{out, siblings};
use corun_model::progress::Progress as _;
use lab_core::BenchError;
use lab_core::cpu_time;
use lab_core::figures;
use lab_core::record::Record;
use lab_core::run::Outcome;
use lab_core::suite::{Suite, SuiteArgs};

use super::list;
use super::rows::Rows;
use crate::facts;
use crate::report_file::ReportFile;

/// How long it is looked whether anything else runs.
const LOOK: Duration = Duration::from_millis(500);

/// Of a machine on which less is used, nothing is said.
const USED_NOTED: f64 = 0.1;

/// Arguments of `corun-lab bench SUITE`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs<A: SuiteArgs> {
    #[command(flatten)]
    suite: A,

    #[command(flatten)]
    output: Output,
}

/// Where the rows go.
#[derive(Clone, Debug, Default, Args)]
struct Output {
    /// Print the names of the cases instead of running them.
    #[arg(long)]
    list: bool,

    /// Write figures and tables of the rows to this HTML file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Keep rows, machine, commit and arguments in a folder DATE-HOST below this one, as soon as a case is finished.
    #[arg(long, value_name = "FOLDER", visible_alias = "record")]
    out: Option<PathBuf>,

    /// Leave out the cases that are in the record of a run of the same commit with the same arguments on this machine, and add the others to it.
    #[arg(long, requires = "out")]
    resume: bool,

    /// Print rows as one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Runs a suite.
///
/// # Errors
/// Impossible arguments, a suite that cannot run, a wrong answer, or a record that cannot be written.
pub fn run<A: SuiteArgs>(args: &RunArgs<A>) -> Result<()> {
    let (mut suite, output) = (args.suite.clone(), &args.output);
    let all = suite.cases()?;
    let mut cases = all.clone();
    cases.retain(|case| suite.common().selects(case));
    if output.list {
        if cases.is_empty() {
            bail!(suite.common().no_such_case(A::SUITE, all));
        }
        return list::print(cases.iter().map(String::as_str), output.json);
    }
    let mut record = output.out.is_some().then(|| record(A::SUITE)).transpose()?;
    let mut nothing_left = false;
    if let (true, Some(folder), Some(record)) = (output.resume, &output.out, &mut record)
        && let Some(recorded) = record.begun(folder)?
    {
        suite.common().recorded = recorded;
        let all = cases.len();
        cases.retain(|case| suite.common().selects(case));
        out::note(&format!(
            "{} of {all} cases are recorded already",
            all - cases.len()
        ));
        nothing_left = all > 0 && cases.is_empty();
    }
    let report = output.report.clone().map(ReportFile::open).transpose()?;
    if !suite.common().quick {
        list::announce(A::SUITE, cases.len(), A::default().cases()?.len());
        note_others();
    }
    let bars = Bars::new();
    let mut rows = Rows::new(&bars, output.json, output.out.as_deref().zip(record), cases.len());
    let outcome = match nothing_left {
        true => Ok(Outcome::default()),
        false => lab_core::suite::run(&suite, &mut rows, &bars),
    };
    bars.end();
    let outcome = outcome?;
    let written = rows.written()?;
    if A::SUITE != Suite::Floor {
        out::note(&format!(
            "order of sides: shuffled from seed {}",
            suite.plan().order_seed
        ));
    }
    if let (Some(report), Some(path)) = (report, &output.report) {
        let mut facts = facts::facts("measured, simulated or unavailable, as each figure says");
        facts.push(("command".to_owned(), arguments().join(" ")));
        let recorded = std::mem::take(&mut suite.common().recorded);
        let rows: Vec<_> = recorded.into_iter().chain(rows.into_rows()).collect();
        let page = figures::page(A::SUITE.name(), &rows, &facts, suite.common().quick)
            .context("this suite draws no figures")?;
        report.finish(&page.render())?;
        out::note(&format!("report: {}", path.display()));
    }
    if let Some(written) = written {
        out::note(&format!("record: {}", written.display()));
    }
    if !outcome.is_ok() {
        bail!(Failed(format!(
            "{} of the suite's checks failed\ndetail: {}",
            outcome.failures.len(),
            outcome.failures.join("; ")
        )));
    }
    Ok(())
}

/// Says so where other programs keep the machine busy.
fn note_others() {
    match cpu_time::used_share(LOOK) {
        Some(used) if used >= USED_NOTED => out::note(&format!(
            "other programs use {:.0} % of the CPU time: times will be wrong until they end",
            used * 100.0
        )),
        _ => {}
    }
}

fn record(suite: Suite) -> Result<Record, BenchError> {
    Ok(Record {
        suite: suite.row_name().to_owned(),
        date: facts::today(),
        host: facts::host(),
        commit: facts::COMMIT.to_owned(),
        arguments: arguments(),
        topology: topology_lines()?,
    })
}

/// The command line without the program.
fn arguments() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// What `corun topology --json` prints here; nothing where that program is not installed.
fn topology_lines() -> Result<Vec<String>, BenchError> {
    let Some(program) = siblings::find("corun") else {
        out::note("the record has no topology: the program corun is neither beside this one nor on PATH");
        return Ok(Vec::new());
    };
    let output = std::process::Command::new(program)
        .args(["topology", "--json"])
        .output();
    let output = output.map_err(|source| BenchError::io("cannot run corun topology", source))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}
