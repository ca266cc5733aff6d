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

use corun_model::operators::mode::Mode;
use corun_model::operators::placement::Placement;

use crate::memory_latency::counted::L2_MISSES;
use crate::memory_latency::keys::Stand;
use crate::memory_latency::misses::{Machine, Sample};
use crate::memory_latency::sizes::{Extent, Sizes};
use crate::memory_latency::subject::Subject;
use lab::Lab;
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::suite::SuiteArgs;
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
        self.timed && self.lab.args.selects(stand.case)
    }

    /// Whether a case of simulated misses is to run.
    fn traces(&self, stand: Stand) -> bool {
        !self.machines.is_empty() && self.lab.args.selects(stand.case)
    }

    /// Counts the misses that were simulated, in passes that run anything.
    fn census(
        &self,
        stand: Stand,
        subject: &mut dyn Subject,
        modes: &[Mode],
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
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
        modes::sizes(self.lab.args.quick, self.lab.args.full)
    }
}

/// Runs the cases `args` select.
///
/// # Errors
/// When no case matches, the machine has no such placement, or there is no memory.
pub fn run(args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !stands::ALL.iter().any(|stand| args.selects(stand.case)) {
        return Err(args.no_such_case(stands::ALL.iter().map(|stand| stand.case.to_string())));
    }
    let lab = Lab::new(args, runner)?;
    let extent = match (args.quick, args.paper_sizes) {
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
    for pass in &passes {
        index::run(pass, &mut table2, runner)?;
        hash::run(pass, &mut table2, runner)?;
        mixed::run(pass, runner)?;
        pairs::run(pass, runner)?;
    }
    if args.selects(stands::TABLE2.case) {
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
