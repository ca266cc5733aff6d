//! `corun-lab bench heavy-queue`: paper 002's experiments on PostgreSQL, reached directly and through the proxy's heavy queue.
//!
//! Order of work: `C`, the tables and their answers, one server for all cases, then each case.

use std::path::PathBuf;

use clap::Args;
use corun_cli::arguments::{byte_size, positive_number};
use corun_model::operators::placement::{Placement, place};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};
use corun_topology::discover;
use corun_topology::effective_llc::effective_llc;

use crate::fixture::PgFixture;
use crate::fixture::cluster::{Profile, Programs};
use crate::heavy_queue::data::{self, Oracle};
use crate::heavy_queue::keys::Keys;
use crate::heavy_queue::sides::Setting;
use crate::heavy_queue::sizes::{SCALE, SCALE_QUICK, Sizes};
use crate::heavy_queue::{SUITE, cases, ceiling, estimation, sim};
use corun_workloads::ssb::Ssb;
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Rounds, Suite, SuiteArgs, all_cores};

/// The measured cases.
const CASES: [&str; 6] = [
    ceiling::CASE,
    cases::FIG6,
    cases::PLAN_CHOICE,
    estimation::CASE,
    cases::MIX,
    cases::OVERHEAD,
];

/// Arguments of `corun-lab bench heavy-queue`.
#[derive(Clone, Debug, Default, Args)]
pub struct HeavyQueueArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// The effective last-level cache that tables are made for, such as 24MiB [default: what the machine is taken to have].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    pub llc: Option<usize>,

    /// Millions of orders [default: 3].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// The program whose pooler is measured instead of the `corun` beside this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl SuiteArgs for HeavyQueueArgs {
    const SUITE: Suite = Suite::HeavyQueue;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        self.rounds.plan(self.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the selected cases. Without PostgreSQL there are rows that say so.
fn run(args: &HeavyQueueArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let selected: Vec<&str> = CASES
        .into_iter()
        .filter(|case| args.common.selects(case))
        .collect();
    let simulated: Vec<&'static str> = sim::CASES
        .into_iter()
        .filter(|case| args.common.selects(case))
        .collect();
    if selected.is_empty() && simulated.is_empty() {
        return Err(args.common.no_such_case(
            Suite::HeavyQueue,
            CASES.into_iter().chain(sim::CASES).map(str::to_owned),
        ));
    }
    let topology = discover();
    let cache = Sizes::cache_for(
        args.llc.map(|bytes| Bytes(bytes as u64)),
        args.common.quick,
        effective_llc(&topology, None).bytes,
    );
    let scale = args
        .scale
        .unwrap_or(if args.common.quick { SCALE_QUICK } else { SCALE });
    if !(0.001..=100.0).contains(&scale) {
        return Err(BenchError::BadArgument(format!(
            "--scale {scale}: {SUITE} takes 0.001 to 100: millions of orders"
        )));
    }
    let sizes = Sizes::of(cache, scale)?;
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(error) => {
            runner.progress().note(&error.to_string());
            for case in selected.into_iter().chain(simulated) {
                let keys = Keys::new(case, "all", sizes.cache);
                runner.emit_checked(keys.unavailable("slowdown", "x", &error.to_string()));
            }
            return Ok(());
        }
    };
    let fixture = PgFixture::new(SUITE, programs, args.program.as_deref())?;
    if !selected.is_empty() {
        measured(args, &selected, &sizes, &topology, &fixture, runner)?;
    }
    if !simulated.is_empty() {
        sim::run(&fixture, &simulated, args.common.quick, runner)?;
    }
    Ok(())
}

/// The cases that run on this machine, on one server.
fn measured(
    args: &HeavyQueueArgs,
    selected: &[&str],
    sizes: &Sizes,
    topology: &Topology,
    fixture: &PgFixture,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    if let Err(reason) = &fixture.corun {
        runner.progress().note(reason);
    }
    let buffers = if args.common.quick { "128MB" } else { "4GB" };
    // A server that has all data in its own memory, hash tables in one batch, and runs a query in one process, as the paper's did.
    let settings = [
        ("shared_buffers", buffers),
        ("effective_cache_size", buffers),
        ("work_mem", "512MB"),
        ("random_page_cost", "1.1"),
        ("max_parallel_workers_per_gather", "0"),
        // Scans that start where another is would be another experiment.
        ("synchronize_seqscans", "off"),
    ];
    let server = fixture.cluster("mcc", &Profile::with(&settings))?;
    let address = &server.address;
    let ssb = Ssb::with_sizes(sizes.rows);
    data::load(address, &ssb, runner.progress())?;
    let mut oracle = Oracle::new(&ssb);
    if selected.contains(&estimation::CASE) {
        oracle = oracle.with_ssb(&ssb, args.common.quick, runner.progress())?;
    }
    let pair = place(topology, Placement::Cores)?;
    let cpus: [CpuId; 2] = [pair.main, pair.partner];
    let stage = cases::Stage {
        setting: Setting {
            fixture,
            server: address,
            topology,
            cache: sizes.cache,
            pool: all_cores(),
            quick: args.common.quick,
        },
        sizes,
        oracle: &oracle,
    };
    for &case in selected {
        match case {
            ceiling::CASE => ceiling::run(address, cpus, sizes, &oracle, args.common.quick, runner)?,
            estimation::CASE => estimation::run(address, cpus, sizes, &oracle, args.common.quick, runner)?,
            cases::FIG6 => cases::fig6(&stage, args.common.quick, runner)?,
            cases::PLAN_CHOICE => cases::plan_choice(&stage, runner)?,
            cases::MIX => cases::mix(&stage, args.common.quick, runner)?,
            _ => cases::overhead(&stage, args.common.quick, runner)?,
        }
        runner.cases_are_finished();
    }
    Ok(())
}
