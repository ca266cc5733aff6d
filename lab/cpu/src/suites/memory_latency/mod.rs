//! The suite `memory-latency`: every figure and table of paper 000 as a case, on this machine, and what the paper could not ask.
//!
//! Cases stand in `stands`, the modes they compare in `modes`. Cases of one operator are run together, since they share inputs of
//! hundreds of megabytes; what no selected case needs is not built. Not here: the operators and inputs ([`crate::memory_latency`]), and
//! the report ([`lab_core::figures`]).

mod hash;
mod index;
mod lab;
mod mixed;
mod modes;
mod pairs;
mod stands;
mod table2;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use corun_model::operators::mode::Mode;
use corun_model::operators::placement::Placement;

use crate::memory_latency::contest::Held;
use crate::memory_latency::counted::{L2_MISSES, MACHINE_CLEARS};
use crate::memory_latency::interference::{self, Array};
use crate::memory_latency::keys::Stand;
use crate::memory_latency::misses::{self, Machine, Sample};
use crate::memory_latency::sizes::{Extent, Sizes};
use crate::memory_latency::subject::Subject;
use lab::{Lab, Shape};
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::suite::{Common, Rounds, Suite};
use table2::Table2;

/// Seeds of the inputs; the second is for a second independent operator.
const SEEDS: [u64; 2] = [0x736d_7401, 0x736d_7402];

/// One way through the cases.
struct Pass<'a> {
    lab: &'a Lab<'a>,
    sizes: Sizes,
    /// Whether anything is timed; a pass of the paper's sizes beside the machine's only simulates.
    timed: bool,
    /// Where traces are replayed.
    machines: Vec<Machine<'a>>,
}

impl Pass<'_> {
    /// Whether a timed case is to run.
    fn times(&self, stand: Stand) -> bool {
        self.timed && self.lab.args.common.selects(stand.case)
    }

    /// Whether a case of simulated misses is to run.
    fn traces(&self, stand: Stand) -> bool {
        !self.machines.is_empty() && self.lab.args.common.selects(stand.case)
    }

    /// Whether any of these cases is to run: timed ones, and those of simulated misses.
    fn wants(&self, timed: &[Stand], traced: &[Stand]) -> bool {
        timed.iter().any(|&stand| self.times(stand)) || traced.iter().any(|&stand| self.traces(stand))
    }

    /// A contest of modes, if the case is to run.
    fn contest(
        &self,
        stand: Stand,
        subject: &mut dyn Subject,
        modes: &[Mode],
        shape: Shape,
        runner: &mut Runner<'_>,
    ) -> Option<Held> {
        self.times(stand)
            .then(|| self.lab.contest(stand, subject, modes, shape, runner))
    }

    /// What threads do to each other in the array of work-ahead sets, simulated and, where the machine does, counted, if the case is to
    /// run.
    fn interference<S: Subject>(
        &self,
        stand: Stand,
        subject: &mut S,
        array: impl FnOnce(&mut S) -> Result<Array, BenchError>,
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        if !self.times(stand) {
            return Ok(());
        }
        let sizes = self.set_sizes();
        interference::simulate(stand, array(subject)?, &sizes, runner)?;
        let modes = modes::by_size(&sizes);
        self.lab.census(stand, MACHINE_CLEARS, subject, &modes, runner)
    }

    /// Misses, simulated and, in passes that run anything, counted, if the case is to run.
    fn misses(
        &self,
        stand: Stand,
        subject: &mut dyn Subject,
        modes: &[Mode],
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        if !self.traces(stand) {
            return Ok(());
        }
        misses::simulate(stand, subject, modes, &self.machines, runner)?;
        match self.timed {
            true => self.lab.census(stand, L2_MISSES, subject, modes, runner),
            false => Ok(()),
        }
    }

    /// How many inputs there must be for these cases.
    fn inputs(&self, independent: bool) -> &'static [u64] {
        if independent { &SEEDS } else { &SEEDS[..1] }
    }

    /// Sizes of work-ahead sets.
    fn set_sizes(&self) -> Vec<u32> {
        modes::sizes(self.lab.args.common.quick, self.lab.args.full)
    }
}

/// Arguments of `corun-lab bench memory-latency`.
#[derive(Clone, Debug, Default, Args)]
pub struct MemoryLatencyArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// All sizes of work-ahead sets, and the paper's caches simulated, too.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Where the second thread runs: siblings (the same core), cores (another one) or auto (a sibling if there is one) [default: auto].
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(Placement::NAMES).try_map(|name| name.parse::<Placement>()))]
    pub placement: Option<Placement>,

    /// The paper's sizes instead of sizes made for this machine's caches.
    #[arg(long, conflicts_with = "quick")]
    pub paper_sizes: bool,
}

lab_core::suite_args!(MemoryLatencyArgs, MemoryLatency);

/// Runs the selected cases.
fn run(args: &MemoryLatencyArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !stands::ALL.iter().any(|stand| args.common.selects(stand.case)) {
        return Err(args.common.no_such_case(
            Suite::MemoryLatency,
            stands::ALL.iter().map(|stand| stand.case.to_string()),
        ));
    }
    let lab = Lab::new(args, runner)?;
    let extent = match (args.common.quick, args.paper_sizes) {
        (true, _) => Extent::Quick,
        (false, true) => Extent::Paper,
        (false, false) => Extent::Machine,
    };
    let here = |placement| Machine::here(&lab.topology, placement);
    let mut passes = vec![Pass {
        lab: &lab,
        sizes: Sizes::of(extent, &lab.topology),
        timed: true,
        machines: match extent {
            Extent::Paper => vec![Machine::PAPER],
            Extent::Quick | Extent::Machine => {
                vec![here(lab.pair().relation), here(other(lab.pair().relation))]
            }
        },
    }];
    if args.full && extent == Extent::Machine {
        let paper = Sizes::of(Extent::Paper, &lab.topology);
        passes.push(Pass {
            lab: &lab,
            sizes: paper.with_probes_at_most(Sample::TUPLES),
            timed: false,
            machines: vec![Machine::PAPER],
        });
    }
    let mut table2 = Table2::default();
    // A second pass has more rows of every case.
    let finished = |runner: &mut Runner<'_>| {
        if passes.len() == 1 {
            runner.cases_are_finished();
        }
    };
    for pass in &passes {
        index::run(pass, &mut table2, runner)?;
        finished(runner);
        hash::run(pass, &mut table2, runner)?;
        finished(runner);
        mixed::run(pass, runner)?;
        finished(runner);
        pairs::run(pass, runner)?;
    }
    if args.common.selects(stands::TABLE2.case) {
        table2.emit(lab.pair().relation, runner);
    }
    Ok(())
}

/// The placement the machine may not have: only simulated.
fn other(placement: Placement) -> Placement {
    match placement {
        Placement::Siblings => Placement::Cores,
        Placement::Cores | Placement::Auto => Placement::Siblings,
    }
}
