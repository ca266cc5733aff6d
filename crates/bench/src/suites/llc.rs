//! The `llc` suite: paper 002's co-running experiments on this machine.
//!
//! Not here: what the figures need ([`crate::llc::figures`]), how it is measured ([`crate::llc::contest`]), and the report
//! ([`crate::llc::report`]).

use machine::topology::discover;
use model::placement::{Placement, place};

use super::SuiteArgs;
use crate::error::BenchError;
use crate::llc::data::Data;
use crate::llc::engines::{Engines, Kind, PLQ_INDEXES, Settings};
use crate::llc::figures::{CASES, Lab, Want, unavailable_misses, wants};
use crate::llc::pairs;
use crate::llc::seats::Seats;
use crate::llc::sizes::{CACHE_MAX, Sizes};
use crate::run::Runner;

/// Runs the cases `args` select.
///
/// # Errors
/// When no case matches, the process may use the CPUs of one core only, or there is no memory.
pub fn run(args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let cases = || CASES.iter().map(|(case, _)| *case).chain([pairs::CASE]);
    if !cases().any(|case| args.selects(case)) {
        return Err(args.no_such_case(cases().map(str::to_owned)));
    }
    let topology = discover();
    let described = topology.planning_llc_bytes();
    if args.llc.is_none() && !args.quick && described.is_some_and(|cache| cache > CACHE_MAX) {
        runner.progress().note(&format!(
            "the last-level cache is larger than this suite makes tables for: sizes and classes are relative to {} MiB",
            CACHE_MAX.0 >> 20
        ));
    }
    let sizes = Sizes::of(
        Sizes::cache_for(args.llc, args.quick, described),
        args.quick,
    )?;
    let seats = Seats::take(place(&topology, Placement::Cores)?)?;
    let settings = Settings {
        cache: sizes.cache,
        calibrate: !args.quick,
        index_join: "on",
        partitions: 1,
    };
    let wants = wants(args.quick, |case| args.selects(case));
    if !wants.is_empty() {
        let data = Data::generate(&sizes, runner.progress())?;
        let engines = Engines::make(&kinds(&wants), &data.tables, &PLQ_INDEXES, &settings, runner)?;
        let lab = Lab {
            sizes: &sizes,
            data: &data,
            engines: &engines,
            seats: &seats,
        };
        lab.run(&wants, runner)?;
        unavailable_misses(&wants, &lab, &no_counts(&topology.pmu.missing), runner);
    }
    if args.selects(pairs::CASE) {
        pairs::run(&sizes, &settings, &seats, args.quick, runner)?;
    }
    Ok(())
}

/// The engines that the wants need; corun's always, whose index join runs beside stock operators too.
fn kinds(wants: &[Want]) -> Vec<Kind> {
    let needed = |kind: &Kind| *kind == Kind::Corun || wants.iter().any(|want| want.kind == *kind);
    Kind::ALL.into_iter().filter(needed).collect()
}

/// Why there are no miss rates.
fn no_counts(missing: &[String]) -> String {
    match missing {
        [] => "this suite measures times; miss rates are simulated".to_owned(),
        missing => format!("no hardware counters: {}", missing.join("; ")),
    }
}
