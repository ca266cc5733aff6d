//! Cache misses by thread, simulated: a traced sample of a run, replayed into the caches of some machine.
//!
//! The first tuples of a sample only fill the caches. Counted is the second level, as in the paper: a larger last-level cache would
//! still be filling when the sample ends. Not here: counted misses, for which the machine needs a PMU.

use corun_cachesim::hierarchy::Hierarchy;
use corun_cachesim::{Preset, Sharing};
use corun_model::operators::mode::{Hiding, Mode};
use corun_model::operators::placement::Placement;
use corun_model::operators::trace::{Event, ThreadRole};
use corun_model::topology::Topology;

use super::keys::{Keys, SUITE, Stand};
use super::subject::{How, RIGHT, Subject};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// The metric of the rows.
pub const METRIC: &str = "misses_per_probe";

/// The level whose misses are counted.
const LEVEL: u8 = 2;

/// Tuples of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Not counted.
    pub warm_up: usize,
    /// Counted, after those.
    pub counted: usize,
}

impl Sample {
    /// Tuples of a sample at most.
    pub const TUPLES: usize = 250_000;

    /// 50,000 and 200,000, or fewer in the same relation if a stream is shorter.
    fn of(tuples: usize) -> Sample {
        let all = tuples.min(Sample::TUPLES);
        Sample {
            warm_up: all / 5,
            counted: all - all / 5,
        }
    }
}

/// A machine to replay into.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'t> {
    name: &'static str,
    placement: Placement,
    topology: Option<&'t Topology>,
}

impl<'t> Machine<'t> {
    /// The paper's, whose two threads are siblings.
    pub const PAPER: Machine<'static> = Machine {
        name: "pentium4",
        placement: Placement::Siblings,
        topology: None,
    };

    /// The machine at hand with threads on two cores, or on siblings, whether or not it has them.
    pub fn here(topology: &'t Topology, placement: Placement) -> Machine<'t> {
        Machine {
            name: "this_machine",
            placement,
            topology: Some(topology),
        }
    }

    fn hierarchy(&self) -> Result<Hierarchy, BenchError> {
        let sharing = match self.placement {
            Placement::Siblings => Sharing::Siblings,
            Placement::Cores | Placement::Auto => Sharing::Cores,
        };
        match self.topology {
            Some(topology) => Hierarchy::of(topology, sharing),
            None => Preset::PaperPentium4.hierarchy(),
        }
        .map_err(|error| BenchError::Machine(format!("cannot simulate {}: {error}", self.name)))
    }
}

/// Emits the misses of each thread in each mode on each machine.
///
/// # Errors
/// When a machine cannot be simulated or a mode not run.
pub fn simulate(
    stand: Stand,
    subject: &mut dyn Subject,
    modes: &[Mode],
    machines: &[Machine<'_>],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let progress = runner.progress();
    progress.begin(
        &format!("{SUITE} {}", stand.case),
        (modes.len() * machines.len()) as u64,
    );
    for machine in machines {
        for &mode in modes {
            trace(stand, subject, mode, machine, runner)?;
            progress.advance(1);
        }
    }
    progress.end();
    Ok(())
}

fn trace(
    stand: Stand,
    subject: &mut dyn Subject,
    mode: Mode,
    machine: &Machine<'_>,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let sample = Sample::of(subject.tuples());
    let mut hierarchy = machine.hierarchy()?;
    let level = hierarchy
        .levels()
        .last()
        .map_or(LEVEL, |last| LEVEL.min(last.level));
    let roles = roles(mode);
    let misses = |hierarchy: &Hierarchy| -> Vec<u64> {
        let of = |&(role, _): &(ThreadRole, &str)| {
            hierarchy
                .counters(role, level)
                .map_or(0, |counters| counters.misses)
        };
        roles.iter().map(of).collect()
    };
    let (counted_from, end) = (sample.warm_up, sample.warm_up + sample.counted);
    subject.execute(
        mode,
        0..counted_from,
        &mut How::Traced(&mut |event: Event| hierarchy.event(&event)),
    )?;
    let before = misses(&hierarchy);
    let tuples = counted_from..end;
    let ran = subject.execute(
        mode,
        tuples.clone(),
        &mut How::Traced(&mut |event: Event| hierarchy.event(&event)),
    )?;
    let verdict = subject.verdict(&ran.answers, tuples);
    let ok = verdict == RIGHT;
    if !ok {
        runner.fail(format!("{SUITE} {}: {mode}, traced: {verdict}", stand.case));
    }
    let after = misses(&hierarchy);
    for ((_, name), misses) in roles
        .iter()
        .zip(after.iter().zip(before).map(|(after, before)| after - before))
    {
        let value = misses as f64 / sample.counted.max(1) as f64;
        let Some(spread) = Spread::of(&[value]) else {
            continue;
        };
        let row = Row::simulated(SUITE, stand.case, METRIC, "misses", spread, ok);
        let row = Keys::of(stand, mode, machine.placement).put(row, name);
        let row = row
            .with("hierarchy", machine.name)
            .with("cache", format!("l{level}"));
        runner.emit_checked(row.with("probes", sample.counted));
    }
    Ok(())
}

/// The threads of a mode and their names in rows.
fn roles(mode: Mode) -> Vec<(ThreadRole, &'static str)> {
    const WORKERS: [&str; 4] = ["main", "worker1", "worker2", "worker3"];
    let mut roles: Vec<_> = (0..mode.workers().min(WORKERS.len()))
        .map(|worker| (ThreadRole::Worker(worker as u8), WORKERS[worker]))
        .collect();
    if matches!(mode.hiding, Hiding::WorkAhead(_)) {
        roles.push((ThreadRole::Helper, "helper"));
    }
    roles
}
