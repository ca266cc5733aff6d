//! `corun-lab autosteps`: where a team of threads that run the same operation should switch, for any program (paper 003, section 5).
//!
//! ```text
//! args ─► sources ─► traced ─► choose ─► study ─┬─► text, json    stdout
//!         ptrace     one operation  points      ├─► report        a page with plots
//!                                               └─► profile       what a program turns on
//! ```
//!
//! Tracing is `corun_machine::trace`'s, the algorithm is `corun_cachesim::instruction_cache`'. Here they are wired, and what comes out is shown.

mod args;
mod choose;
mod chooser;
mod json;
mod report;
mod sources;
mod study;
mod text;
mod traced;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use corun_model::progress::Progress as _;
use corun_model::teams::L1i;
use corun_model::topology::{CacheKind, Topology};

pub use args::AutostepsArgs;

use crate::report_file::ReportFile;
use choose::Question;
use corun_cli::failure::{Failed, Usage};
use corun_cli::out;
use corun_cli::progress::Bars;
use study::{Choice, Study};

/// Most warnings that are printed; more say no more.
const WARNINGS_MAX: usize = 20;

/// Runs the command.
///
/// # Errors
/// Arguments that contradict each other, a program that cannot be traced, files that cannot be read or written, a closed pipe; with
/// `--deny-latched` points inside a latch.
pub fn run(args: AutostepsArgs) -> Result<()> {
    args.check()?;
    let (l1i, l1i_origin) = match args.l1i {
        Some(l1i) => (l1i, "as given"),
        None => (
            l1i_of(&corun_topology::discover())?,
            "this machine's; --l1i sets another",
        ),
    };
    // Before the work, so that a wrong path fails at once.
    let report = args.report.clone().map(ReportFile::open).transpose()?;
    let bars = Bars::new();
    let traced = sources::traced(&args, &bars)?;
    let question = Question {
        l1i,
        l1i_origin,
        knee: args.knee,
        calls_max: args.calls_max,
        members: args.members,
        choice: match (args.sites, args.lines, args.entries) {
            (true, _, _) => Some(Choice::Sites),
            (_, true, _) => Some(Choice::Lines),
            (_, _, true) => Some(Choice::Entries),
            _ => None,
        },
        prefetch_points: args.prefetch_points,
        sweep: args.sweep || args.report.is_some(),
    };
    bars.begin("simulating", choose::pieces(&question, traced.len()));
    let study = choose::study(&question, &traced, &mut || bars.advance(1))?;
    drop(bars);
    print(&args, &study)?;
    if let Some(file) = report {
        file.finish(&report::page(&study).render())?;
    }
    if let Some(path) = &args.profile {
        write_profile(path, &study)?;
    }
    let latched = study.latched.len();
    if args.deny_latched && latched > 0 {
        return Err(Failed(format!(
            "{latched} points are, or are wanted, inside a latch\nhint: move the points out of it, or leave out --deny-latched"
        ))
        .into());
    }
    Ok(())
}

/// The smallest level-one instruction cache of the cores we may run on.
fn l1i_of(topology: &Topology) -> Result<L1i> {
    let caches = topology.caches.iter();
    let code = caches.filter(|cache| cache.level == 1 && cache.kind == CacheKind::Instruction);
    let smallest = code.min_by_key(|cache| cache.size.0).and_then(|cache| {
        Some(L1i {
            bytes: u32::try_from(cache.size.0).ok()?,
            ways: cache.ways?.0,
            line_bytes: u32::try_from(cache.line.0).ok()?,
        })
    });
    smallest.ok_or_else(|| {
        Usage(
            "this machine does not say what its L1 instruction cache is\nhint: give one with --l1i 32k/8/64"
                .to_owned(),
        )
        .into()
    })
}

fn print(args: &AutostepsArgs, study: &Study) -> Result<()> {
    let mut out = out::stdout();
    if args.json {
        for row in json::rows(study) {
            writeln!(out, "{row}")?;
        }
        out.flush()?;
        return Ok(());
    }
    text::print(&mut out, study, args.sweep)?;
    out.flush()?;
    let warnings = study.warnings();
    for text in warnings.iter().take(WARNINGS_MAX) {
        out::note(&format!("warning: {text}"));
    }
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX;
        out::note(&format!(
            "warning: {more} more like these; --json has all of them"
        ));
    }
    Ok(())
}

fn write_profile(path: &Path, study: &Study) -> Result<()> {
    if study.choice == Choice::Lines {
        return Err(Failed(
            "nothing to put into a profile: the program has neither CTX points compiled in nor entries that can be \
             patched\nhint: set ctx!() at the lines above and build it again, or compile it with \
             -fpatchable-function-entry=5"
                .to_owned(),
        )
        .into());
    }
    if study.points.iter().any(|point| point.name.is_none()) {
        return Err(Failed(format!(
            "cannot write the profile {}\ndetail: entries of functions without a symbol were chosen\nhint: trace a program that is \
             not stripped",
            path.display()
        ))
        .into());
    }
    let profile = choose::profile(study)?;
    std::fs::write(path, profile.to_string())
        .with_context(|| format!("cannot write the profile {}", path.display()))
}
