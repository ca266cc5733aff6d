//! [`run`]: one setup on all engines, which take turns.
//!
//! ```text
//!   before     every engine: answers compared with the oracle's on a small database, then the data loaded
//!   rounds     a turn: wait until no engine computes and nothing is left to write, run, see that the others were idle; our store runs
//!              twice, as A/A control ([`lab_core::contest`])
//!   after      every engine: what must hold of its data
//! ```
//!
//! The thread that runs all this is restricted to the setup's CPUs first. Threads that stores start and the peers' processes inherit
//! that, so background work of an engine is on the same CPUs as its clients.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corun_model::units::CpuId;
use corun_workloads::engine::Durability;

use super::CORUN;
use super::case::Setup;
use super::measured::{Loaded, Measured, compared};
use super::ours::{self, Ours};
use crate::peers::oltp::{ENGINES, Peer, Program};
use corun_model::progress::Progress;
use lab_core::contest::{Contest, ContestResult, Gone, SideResult, Turn};
use lab_core::cpu_time::{TICKS_PER_SECOND, ticks};
use lab_core::error::BenchError;
use lab_core::run::Plan;
use lab_core::scratch::{Scratch, remove};

/// The engines outside this process.
#[derive(Clone, Debug)]
pub enum Peers {
    /// Not wanted.
    Unwanted,
    /// Wanted, and not there for this reason.
    Missing(String),
    /// The program that has them.
    Found(Program),
}

impl Peers {
    /// Looks for them if they are wanted.
    pub fn find(wanted: bool) -> Peers {
        if !wanted {
            return Peers::Unwanted;
        }
        match Program::find() {
            Ok(program) => Peers::Found(program),
            Err(error) => Peers::Missing(error.to_string()),
        }
    }
}

/// Where an engine is run.
pub(super) enum Side {
    Ours(Box<Ours>),
    Peer(Peer),
}

impl Side {
    fn process(&self) -> u32 {
        match self {
            Side::Ours(_) => std::process::id(),
            Side::Peer(peer) => peer.process(),
        }
    }

    fn round(&mut self, number: usize) -> Result<Measured, BenchError> {
        match self {
            Side::Ours(ours) => ours.round(number),
            Side::Peer(peer) => peer.round(),
        }
    }

    fn check(&mut self) -> Result<Vec<String>, BenchError> {
        match self {
            Side::Ours(ours) => ours.check(),
            Side::Peer(peer) => peer.check(),
        }
    }
}

/// An engine that takes part.
#[derive(Default)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// How its data came in.
    pub loaded: Option<Loaded>,
    /// CPU time it used while another one ran, in percent of one CPU, by turn.
    pub idle_percent: Vec<f64>,
    pub(super) side: Option<Side>,
}

/// What all engines gave.
pub struct Results {
    /// Our store, then the peers wanted.
    pub engines: Vec<Engine>,
    /// Their rounds, in the same order; the control is our store.
    pub rounds: ContestResult<Measured>,
}

/// Our store's place among the engines.
pub const OURS: usize = 0;

/// Runs a setup.
///
/// # Errors
/// When there is no folder for the data, or the CPUs are not ours. What an engine failed at is in its rounds.
pub fn run(
    setup: &Setup,
    peers: &Peers,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Results, BenchError> {
    on_cpus(&setup.cpus, || run_here(setup, peers, scratch, plan, progress))?
}

/// Runs `work` on a thread that may use these CPUs only, as may all that it starts.
///
/// # Errors
/// When the kernel refuses the CPUs.
pub fn on_cpus<T: Send>(cpus: &[CpuId], work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| corun_topology::affinity::allow(cpus).map(|()| work()));
        match thread.join() {
            Ok(done) => done.map_err(BenchError::machine),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn run_here(
    setup: &Setup,
    peers: &Peers,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Results, BenchError> {
    let steps = 1 + ENGINES.len() + plan.repetitions;
    progress.begin(&format!("oltp {}", setup.name()), steps as u64);
    let (mut engines, mut known) = (Vec::new(), Vec::new());
    for name in [CORUN].into_iter().chain(ENGINES) {
        progress.advance(1);
        let mut engine = Engine {
            name: name.to_owned(),
            ..Engine::default()
        };
        known.push(match peers {
            _ if name == CORUN => engine.start_ours(setup, scratch)?,
            Peers::Found(program) => engine.start_peer(program, setup, scratch)?,
            Peers::Missing(reason) => missing(reason.clone()),
            Peers::Unwanted => continue,
        });
        engines.push(engine);
    }
    let pairs: Vec<(usize, usize)> = (1..engines.len()).map(|peer| (OURS, peer)).collect();
    let contest = Contest {
        name: &setup.name(),
        pairs: &pairs,
        controls: &[OURS],
        metric: &compared(setup),
        plan,
    };
    let mut rounds = contest.run(known, progress, |place, round| {
        settle(&engines, setup, scratch);
        turn(&mut engines, place, round)
    });
    for (engine, given) in engines.iter_mut().zip(&mut rounds.sides) {
        engine.check(given);
    }
    progress.end();
    // First what has files open in the folders.
    engines.iter_mut().for_each(|engine| engine.side = None);
    for engine in &engines {
        remove_folder(&scratch.path().join(&engine.name))?;
    }
    Ok(Results { engines, rounds })
}

fn missing(reason: String) -> SideResult<Measured> {
    SideResult {
        gone: Some(Gone::Unavailable(reason)),
        ..SideResult::default()
    }
}

impl Engine {
    /// Why it has no numbers: ours must work.
    fn gone(&self, error: &BenchError) -> Gone {
        match self.name.as_str() {
            CORUN => Gone::Failed(error.in_one_line()),
            _ => Gone::Unavailable(error.in_one_line()),
        }
    }

    fn start_ours(&mut self, setup: &Setup, scratch: &Scratch) -> Result<SideResult<Measured>, BenchError> {
        let small = scratch.folder("compare-corun")?;
        let compared = ours::compare(setup, &small, false);
        remove_folder(&small)?;
        let folder = scratch.folder(CORUN)?;
        Ok(self.start(compared, || {
            let (ours, loaded) = Ours::load(setup, &folder)?;
            Ok((Side::Ours(Box::new(ours)), loaded))
        }))
    }

    fn start_peer(
        &mut self,
        program: &Program,
        setup: &Setup,
        scratch: &Scratch,
    ) -> Result<SideResult<Measured>, BenchError> {
        let name = self.name.clone();
        if let Some(reason) = program.lacks(&name) {
            return Ok(missing(reason));
        }
        let small = scratch.folder(&format!("compare-{name}"))?;
        let compared = program.compare(&name, setup, &small);
        remove_folder(&small)?;
        let folder = scratch.folder(&name)?;
        Ok(self.start(compared, || {
            let (peer, loaded) = program.start(&name, setup, &folder)?;
            Ok((Side::Peer(peer), loaded))
        }))
    }

    /// Loads its data unless its answers could not be compared. Returns what is known of it before its first turn.
    fn start(
        &mut self,
        compared: Result<Option<String>, BenchError>,
        load: impl FnOnce() -> Result<(Side, Loaded), BenchError>,
    ) -> SideResult<Measured> {
        let mut known = SideResult::default();
        let started = compared.and_then(|difference| {
            known.wrong = difference;
            load()
        });
        match started {
            Ok((side, loaded)) => {
                self.side = Some(side);
                self.loaded = Some(loaded);
            }
            Err(error) => known.gone = Some(self.gone(&error)),
        }
        known
    }

    /// CPU time of its process so far.
    fn ticks(&self) -> Option<u64> {
        ticks(self.side.as_ref()?.process())
    }

    /// Looks at what must hold of its data.
    fn check(&mut self, given: &mut SideResult<Measured>) {
        let Some(side) = self.side.as_mut().filter(|_| given.gone.is_none()) else {
            return;
        };
        match side.check() {
            Ok(wrong) => given.wrong = given.wrong.take().or(wrong.into_iter().next()),
            Err(error) => given.gone = Some(self.gone(&error)),
        }
    }
}

/// The turn of an engine, and what the others computed meanwhile.
fn turn(engines: &mut [Engine], place: usize, round: usize) -> Turn<Measured> {
    let before: Vec<Option<u64>> = engines.iter().map(Engine::ticks).collect();
    let start = Instant::now();
    let measured = match &mut engines[place].side {
        Some(side) => side.round(round + 1),
        None => return Err(Gone::Unavailable("it does not run".to_owned())),
    };
    let seconds = start.elapsed().as_secs_f64();
    for (other, (engine, before)) in engines.iter_mut().zip(before).enumerate() {
        if let Some((before, after)) = before.zip(engine.ticks()).filter(|_| other != place) {
            let used = after.saturating_sub(before) as f64 / TICKS_PER_SECOND;
            engine.idle_percent.push(used * 100.0 / seconds);
        }
    }
    match measured {
        Ok(measured) => Ok((measured, None)),
        Err(error) => Err(engines[place].gone(&error)),
    }
}

/// Waits until no engine computes any more, such as one that tidies up after its turn, and until what was written is on disk. Bounded:
/// one that goes on is seen in `idle_cpu_percent`.
fn settle(engines: &[Engine], setup: &Setup, scratch: &Scratch) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    const LOOKS_MAX: usize = 60;
    if setup.sizes.warmup.is_zero() {
        return;
    }
    if setup.durability != Durability::None {
        // Where there is no such program, the kernel writes in its own time.
        let _ = Command::new("sync").arg("-f").arg(scratch.path()).status();
    }
    let ticks = || -> Vec<Option<u64>> { engines.iter().map(Engine::ticks).collect() };
    let mut before = ticks();
    for _ in 0..LOOKS_MAX {
        std::thread::sleep(LOOK_EVERY);
        let after = ticks();
        if before == after {
            return;
        }
        before = after;
    }
}

fn remove_folder(folder: &Path) -> Result<(), BenchError> {
    remove(folder).map_err(|source| BenchError::io(format!("could not remove {}", folder.display()), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_what_it_starts_stay_on_their_cpus() {
        let allowed = corun_topology::affinity::allowed_cpus().expect("Linux");
        let one = &allowed[allowed.len() - 1..];
        let (seen, inherited) = on_cpus(one, || {
            let child = std::thread::spawn(corun_topology::affinity::allowed_cpus);
            (
                corun_topology::affinity::allowed_cpus(),
                child.join().expect("no panic"),
            )
        })
        .expect("our own CPU");
        assert_eq!(seen.expect("Linux"), one);
        assert_eq!(inherited.expect("Linux"), one);
        assert_eq!(corun_topology::affinity::allowed_cpus().expect("Linux"), allowed);
        assert!(on_cpus(&[CpuId(65_000)], || ()).is_err());
    }
}
