//! The `llc` suite: paper 002's co-running experiments, on this machine and on a simulated one.
//!
//! Not here: what the figures need ([`crate::shared_cache::figures`]), how it is measured ([`crate::shared_cache::contest`]), policies
//! ([`crate::shared_cache::scheduled`]), and the report ([`lab_core::figures`]).

use clap::Args;
use corun_cli::arguments::byte_size;
use corun_model::cache::coschedule::llc_domains;
use corun_model::operators::placement::{Placement, place};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};
use corun_topology::discover;
use corun_topology::effective_llc::effective_llc;

use crate::shared_cache::data::Data;
use crate::shared_cache::engines::{Engines, Kind, PLQ_INDEXES, Settings};
use crate::shared_cache::figures::{CASES, Lab, Want, unavailable_misses, wants};
use crate::shared_cache::mix::{MIX, NOTHING_TO_GAIN, mix, nothing_to_gain};
use crate::shared_cache::pairs;
use crate::shared_cache::pinned::PinnedThreads;
use crate::shared_cache::policy_figures::{FIGURE_6, PLAN_CHOICE, figure_6, plan_choice};
use crate::shared_cache::scheduled::Stage;
use crate::shared_cache::sim::{self, SimArgs};
use crate::shared_cache::sizes::{CACHE_MAX, Sizes};
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::suite::{Common, Rounds, Suite};

/// The cases that need the coordinator.
const SCHEDULED: [&str; 4] = [FIGURE_6, PLAN_CHOICE, MIX, NOTHING_TO_GAIN];

/// Arguments of `corun-lab bench llc`.
#[derive(Clone, Debug, Default, Args)]
pub struct LlcArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// The effective last-level cache that tables are made for, such as 24MiB [default: what the machine is taken to have].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    pub llc: Option<usize>,
}

lab_core::suite_args!(LlcArgs, Llc);

/// Runs the selected cases.
fn run(args: &LlcArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let figures = CASES.iter().map(|(case, _)| *case);
    let cases: Vec<&str> = figures.chain(SCHEDULED).chain([pairs::CASE]).collect();
    let mut simulated = SimArgs::new(args.common.quick);
    simulated
        .figures
        .retain(|figure| args.common.selects(figure.case()));
    let measures = cases.iter().any(|case| args.common.selects(case));
    if !measures && simulated.figures.is_empty() {
        let all = SimArgs::new(args.common.quick).figures;
        let cases = cases.into_iter().chain(all.iter().map(|figure| figure.case()));
        return Err(args.common.no_such_case(Suite::Llc, cases.map(str::to_owned)));
    }
    if measures {
        measured(args, &cases, runner)?;
    }
    for row in sim::rows_with(&simulated, runner.progress())? {
        runner.emit(row);
    }
    Ok(())
}

/// Runs the selected ones of `cases` on this machine.
fn measured(args: &LlcArgs, cases: &[&str], runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let topology = discover();
    let known = effective_llc(&topology, None).bytes;
    let cache = Sizes::cache_for(
        args.llc.map(|bytes| Bytes(bytes as u64)),
        args.common.quick,
        known,
        topology.memory.available,
    );
    if args.llc.is_none() && !args.common.quick && cache < known {
        runner.progress().note(&format!(
            "this suite makes tables, or this machine has memory, for a last-level cache of {} MiB: sizes and classes are relative to that",
            cache.0 >> 20
        ));
    }
    let sizes = Sizes::of(cache, args.common.quick)?;
    let pinned = PinnedThreads::take(place(&topology, Placement::Cores)?)?;
    let settings = Settings {
        cache: sizes.cache,
        calibrate: !args.common.quick,
        index_join: "on",
        partitions: 1,
    };
    if cases
        .iter()
        .any(|case| *case != pairs::CASE && args.common.selects(case))
    {
        plq(args, &topology, &sizes, &settings, &pinned, runner)?;
    }
    if args.common.selects(pairs::CASE) {
        pairs::run(&sizes, &settings, &pinned, args.common.quick, runner)?;
    }
    Ok(())
}

/// The cases over the PLQ tables.
fn plq(
    args: &LlcArgs,
    topology: &Topology,
    sizes: &Sizes,
    settings: &Settings,
    pinned: &PinnedThreads,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let data = Data::generate(sizes, runner.progress())?;
    let wants = wants(args.common.quick, |case| args.common.selects(case));
    let cpus = scheduled_cpus(topology)?;
    {
        let kinds = kinds(&wants, args);
        let engines = Engines::make(&kinds, &data.tables, &PLQ_INDEXES, settings, runner)?;
        let lab = Lab {
            sizes,
            data: &data,
            engines: &engines,
            pinned,
        };
        lab.run(&wants, runner)?;
        unavailable_misses(&wants, &lab, &no_counts(&topology.pmu.missing), runner);
        let stage = Stage {
            sizes,
            data: &data,
            engines: &engines,
            pinned,
            topology,
            cpus: &cpus,
            quick: args.common.quick,
        };
        if args.common.selects(FIGURE_6) {
            figure_6(&stage, runner)?;
        }
        if args.common.selects(MIX) {
            mix(&stage, runner)?;
        }
        if args.common.selects(NOTHING_TO_GAIN) {
            let cores = lab_core::suite::all_cores();
            let spread = Settings {
                partitions: cores,
                ..*settings
            };
            let tables = data.tables.repartitioned(cores);
            let wide = Engines::make(&[Kind::Corun], &tables, &[], &spread, runner)?;
            nothing_to_gain(&stage, &wide, runner)?;
        }
    }
    // Engines of their own, which leave the choice of plans open, once the others have given their memory back.
    if args.common.selects(PLAN_CHOICE) {
        let open = Settings {
            index_join: "auto",
            ..*settings
        };
        let kinds = [Kind::Corun, Kind::Streaming];
        let engines = Engines::make(&kinds, &data.tables, &PLQ_INDEXES, &open, runner)?;
        let stage = Stage {
            sizes,
            data: &data,
            engines: &engines,
            pinned,
            topology,
            cpus: &cpus,
            quick: args.common.quick,
        };
        plan_choice(&stage, runner)?;
    }
    Ok(())
}

/// The CPUs that a coordinator would run queries on.
fn scheduled_cpus(topology: &Topology) -> Result<Vec<CpuId>, BenchError> {
    // The size of the cache has no say in which CPUs share it.
    let domains = llc_domains(topology, Some(CACHE_MAX));
    let domains = domains.map_err(BenchError::machine)?;
    Ok(domains.into_iter().flat_map(|domain| domain.cpus).collect())
}

/// The engines that the cases need; corun's always, whose index join runs beside stock operators too.
fn kinds(wants: &[Want], args: &LlcArgs) -> Vec<Kind> {
    let scheduled = [FIGURE_6, MIX].iter().any(|case| args.common.selects(case));
    let needed =
        |kind: &Kind| *kind == Kind::Corun || scheduled || wants.iter().any(|want| want.kind == *kind);
    Kind::ALL.into_iter().filter(needed).collect()
}

/// Why there are no miss rates.
fn no_counts(missing: &[String]) -> String {
    match missing {
        [] => "this suite measures times; miss rates are simulated".to_owned(),
        missing => format!("no hardware counters: {}", missing.join("; ")),
    }
}
