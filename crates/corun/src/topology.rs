//! `corun topology`: what this machine is made of, what it can and cannot do, and with `--measure` how fast it is.
//!
//! Discovery and measuring are the machine crate's; here are only the arguments and the two ways of printing:
//! [`json`] for scripts, [`text`] for people.

mod json;
mod text;
mod tree;

use std::path::PathBuf;

use corun_model::progress::Progress as _;
use corun_model::spread::Label;
use corun_model::topology::Topology;
use corun_topology::effective_llc;
use corun_topology::measure::{self, CampaignOptions, Measurement, Progress, Real};

use corun_cli::failure::{Failed, Usage};
use corun_cli::out;
use corun_cli::progress::Bars;

/// Show caches, cores, SMT siblings, memory, resctrl and PMU: what this machine can and cannot do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  corun topology                           caches, cores, and what is missing
  corun topology --measure                 also latency, throughput and the effective last-level cache, which is kept;
                                           about 20 s
  corun topology --json | jq 'select(.kind == \"cache\")'

Sizes are what the kernel or the CPU reports. A virtual machine may report a last-level cache that it shares with
others: --measure finds what is really there.")]
pub struct TopologyArgs {
    /// Measure latency and random-access throughput by working-set size, the effective last-level cache, core-to-core
    /// latency, and whether CPUs behave as SMT siblings (at most about 20 seconds).
    #[arg(long)]
    pub measure: bool,

    /// One JSON object per line.
    #[arg(long)]
    pub json: bool,

    /// Read `sys` and `proc` below this folder instead of the running machine's.
    #[arg(long, hide = true, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the arguments contradict each other, no machine is found, a measured value is wrong, or stdout is closed.
pub fn run(args: TopologyArgs) -> anyhow::Result<()> {
    if args.measure && args.root.is_some() {
        let text = "--measure cannot measure another machine's files\nhint: leave out --root or --measure";
        return Err(Usage(text.to_owned()).into());
    }
    let topology = match &args.root {
        Some(root) => corun_topology::discover_at(root),
        None => corun_topology::discover(),
    };
    if args.json {
        for row in json::topology_rows(&topology) {
            out::json_line(&row)?;
        }
    } else {
        out::line(&text::topology(&topology))?;
    }
    if topology.cpus.is_empty() {
        let place = args
            .root
            .map_or_else(|| "this system".to_owned(), |root| root.display().to_string());
        return Err(Failed(format!(
            "no CPU is described in {place}\nhint: /sys and /proc must be mounted and readable"
        ))
        .into());
    }
    if args.measure {
        let results = measured(&topology);
        keep_effective_llc(&topology, &results);
        if args.json {
            for row in json::measurement_rows(&results, Label::Measured) {
                out::json_line(&row)?;
            }
        } else {
            out::line(&text::measurements(&results, Label::Measured))?;
        }
        let wrong = |result: &Measurement| matches!(result, Measurement::Floor { answer_ok: false, .. });
        if results.iter().any(wrong) {
            let text = "values read from memory are not the values written\nhint: suspect the memory of this machine";
            return Err(Failed(text.to_owned()).into());
        }
    }
    // What was kept is about this machine, not about one that exists as files.
    let kept = effective_llc::default_path().filter(|_| args.root.is_none());
    let effective = effective_llc::effective_llc_at(kept.as_deref(), &topology, None);
    if args.json {
        out::json_line(&json::llc_row(&effective))?;
    } else {
        out::line(&text::llc(&effective))?;
    }
    Ok(())
}

/// Keeps what was measured for later processes. Failing to costs nothing but measuring again.
fn keep_effective_llc(topology: &Topology, results: &[Measurement]) {
    let Some(path) = effective_llc::default_path() else {
        return;
    };
    for result in results {
        let Measurement::EffectiveLlc(fit) = result else {
            continue;
        };
        match effective_llc::store(&path, topology, fit) {
            Ok(true) => {}
            Ok(false) => out::note(
                "the effective last-level cache is too unsure to be kept; measure in a quiet moment",
            ),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the effective last-level cache is not kept")
            }
        }
    }
}

fn measured(topology: &Topology) -> Vec<Measurement> {
    const STEPS: u64 = 1000;
    let options = CampaignOptions::of(topology);
    let bars = Bars::new();
    bars.begin("measuring", STEPS);
    let mut done = 0;
    let mut advance = |progress: &Progress| {
        let reached = (progress.fraction * STEPS as f64) as u64;
        bars.advance(reached.saturating_sub(done));
        done = done.max(reached);
    };
    let results = measure::run(
        &mut Real::new(topology.clone(), options.bytes_max),
        &options,
        &mut advance,
    );
    bars.end();
    results
}
