//! [`run`]: one setup on all sides, a round of each in turns.
//!
//! ```text
//!   before     every side: answers compared with the oracle's on a small database, then the data loaded
//!   round 0    corun  sqlite  redb  rocksdb  corun'      corun' is the A/A control: the same store once more
//!   round 1    corun  corun' rocksdb redb  sqlite        every other round turns around, and each begins one further on, so that no
//!                                                        side always follows the same neighbour
//!   ...        a turn: wait until no side computes and nothing is left to write, run, see that the others were idle
//!   near 1.0   corun, corun' and the peers in question only, until 30 pairs
//!   after      every side: what must hold of its data
//! ```
//!
//! The thread that runs all this is restricted to the setup's CPUs first. Threads that stores start and the peers' processes inherit
//! that, so background work of a side is on the same CPUs as its clients.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corun_model::units::CpuId;
use corun_workloads::engine::Durability;

use super::case::Setup;
use super::measured::{Loaded, Measured};
use super::ours::{self, Ours};
use super::{CORUN, NEW_ORDERS};
use crate::peers::oltp::{ENGINES, Peer, Program};
use corun_model::progress::Progress;
use lab_core::cpu_time::{TICKS_PER_SECOND, ticks};
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::run::Plan;
use lab_core::scratch::{Scratch, remove};
use lab_core::stats::{Verdict, not_slower, pair_ratios};

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

/// Where one side is run.
enum Side {
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

/// What a side gave.
#[derive(Debug, Default)]
pub struct Track {
    /// Its name.
    pub engine: String,
    /// How its data came in.
    pub loaded: Option<Loaded>,
    /// By round; `None` where it did not take part.
    pub rounds: Vec<Option<Measured>>,
    /// CPU time it used while another side ran, in percent of one CPU, by turn.
    pub idle_percent: Vec<f64>,
    /// The first wrong answer, or what does not hold of its data.
    pub wrong: Option<String>,
    /// Why it could not be run, or no further.
    pub failed: Option<String>,
}

impl Track {
    fn of(engine: &str) -> Track {
        Track {
            engine: engine.to_owned(),
            ..Track::default()
        }
    }

    fn failed(engine: &str, reason: String) -> Track {
        Track {
            failed: Some(reason),
            ..Track::of(engine)
        }
    }

    /// One metric of all rounds it took part in.
    pub fn values(&self, metric: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().flatten().filter_map(metric).collect()
    }
}

/// What all sides gave.
#[derive(Debug)]
pub struct Tracks {
    /// Our store.
    pub corun: Track,
    /// The same once more.
    pub control: Track,
    /// The peers wanted.
    pub peers: Vec<Track>,
}

/// The throughput engines are compared by.
pub fn compared(setup: &Setup) -> fn(&Measured) -> f64 {
    match setup.case.work.compared_by() {
        NEW_ORDERS => |round| round.new_orders_per_min,
        _ => |round| round.tps,
    }
}

/// `subject / other`, for each round both took part in: above 1 the subject was faster.
pub fn ratios(subject: &Track, other: &Track, metric: fn(&Measured) -> f64) -> Vec<f64> {
    let both = subject.rounds.iter().zip(&other.rounds);
    let (other, subject): (Vec<f64>, Vec<f64>) = both
        .filter_map(|(subject, other)| Some((metric(other.as_ref()?), metric(subject.as_ref()?))))
        .unzip();
    pair_ratios(&other, &subject)
}

/// Runs a setup.
///
/// # Errors
/// When there is no folder for the data, or the CPUs are not ours. What a side failed at is in its track.
pub fn run(
    setup: &Setup,
    peers: &Peers,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Tracks, BenchError> {
    on_cpus(&setup.cpus, || {
        Contest::new(setup, scratch, plan, progress).run(peers)
    })?
}

/// Runs `work` on a thread that may use these CPUs only, as may all that it starts.
///
/// # Errors
/// When the kernel refuses the CPUs.
pub fn on_cpus<T: Send>(cpus: &[CpuId], work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| corun_topology::affinity::allow(cpus).map(|()| work()));
        match thread.join() {
            Ok(done) => done.map_err(|error| BenchError::Machine(error.to_string())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct Contest<'c> {
    setup: &'c Setup,
    scratch: &'c Scratch,
    plan: Plan,
    progress: &'c dyn Progress,
    tracks: Vec<Track>,
    /// One a track but the control.
    sides: Vec<Option<Side>>,
}

/// Our store's place among the tracks.
const OURS: usize = 0;
/// The control's; peers follow.
const CONTROL: usize = 1;

impl<'c> Contest<'c> {
    fn new(setup: &'c Setup, scratch: &'c Scratch, plan: Plan, progress: &'c dyn Progress) -> Contest<'c> {
        Contest {
            setup,
            scratch,
            plan,
            progress,
            tracks: Vec::new(),
            sides: Vec::new(),
        }
    }

    fn run(mut self, peers: &Peers) -> Result<Tracks, BenchError> {
        let wanted = match peers {
            Peers::Unwanted => 0,
            _ => ENGINES.len(),
        };
        let steps = wanted + 2 + self.plan.warmups + self.plan.repetitions;
        self.progress
            .begin(&format!("oltp {}", self.setup.name()), steps as u64);
        self.add_ours()?;
        for engine in ENGINES {
            match peers {
                Peers::Unwanted => {}
                Peers::Missing(reason) => self.add(Track::failed(engine, reason.clone()), None),
                Peers::Found(program) => self.add_peer(program, engine)?,
            }
        }
        self.rounds();
        for (track, side) in self.tracks.iter_mut().zip(&mut self.sides) {
            check(track, side.as_mut());
        }
        self.progress.end();
        // Sides first: they have files open in the folders.
        self.sides.clear();
        for track in &self.tracks {
            gone(&self.scratch.path().join(&track.engine))?;
        }
        let mut tracks = self.tracks.into_iter();
        let mut next = || tracks.next().unwrap_or_default();
        Ok(Tracks {
            corun: next(),
            control: next(),
            peers: tracks.collect(),
        })
    }

    fn add(&mut self, track: Track, side: Option<Side>) {
        self.tracks.push(track);
        self.sides.push(side);
        self.progress.advance(1);
    }

    fn add_ours(&mut self) -> Result<(), BenchError> {
        let mut track = Track::of(CORUN);
        let small = self.scratch.folder("compare-corun")?;
        match ours::compare(self.setup, &small, false) {
            Ok(difference) => track.wrong = difference,
            Err(error) => track.failed = Some(text(&error)),
        }
        gone(&small)?;
        let mut side = None;
        if track.failed.is_none() {
            match Ours::load(self.setup, &self.scratch.folder(CORUN)?) {
                Ok((ours, loaded)) => {
                    track.loaded = Some(loaded);
                    side = Some(Side::Ours(Box::new(ours)));
                }
                Err(error) => track.failed = Some(text(&error)),
            }
        }
        let control = Track {
            engine: CORUN.to_owned(),
            failed: track.failed.clone(),
            ..Track::default()
        };
        self.add(track, side);
        self.add(control, None);
        Ok(())
    }

    fn add_peer(&mut self, program: &Program, engine: &str) -> Result<(), BenchError> {
        if let Some(reason) = program.lacks(engine) {
            self.add(Track::failed(engine, reason), None);
            return Ok(());
        }
        let mut track = Track::of(engine);
        let small = self.scratch.folder(&format!("compare-{engine}"))?;
        let compared = program.compare(engine, self.setup, &small);
        gone(&small)?;
        let folder = self.scratch.folder(engine)?;
        let started = compared.and_then(|difference| {
            track.wrong = difference;
            program.start(engine, self.setup, &folder)
        });
        let mut side = None;
        match started {
            Ok((peer, loaded)) => {
                track.loaded = Some(loaded);
                side = Some(Side::Peer(peer));
            }
            Err(error) => track.failed = Some(text(&error)),
        }
        self.add(track, side);
        Ok(())
    }

    fn rounds(&mut self) {
        for round in 0..self.plan.warmups + self.plan.repetitions {
            let peers = CONTROL + 1..self.tracks.len();
            let all: Vec<usize> = [OURS].into_iter().chain(peers).chain([CONTROL]).collect();
            self.round(all, round, round >= self.plan.warmups);
            self.progress.advance(1);
        }
        loop {
            let near = self.undecided();
            let round = self.tracks[OURS].rounds.len();
            if near.is_empty() || round >= self.plan.pairs_max {
                return;
            }
            let order: Vec<usize> = [OURS].into_iter().chain(near).chain([CONTROL]).collect();
            self.round(order, round, true);
        }
    }

    /// Peers whose ratio is too near 1.0 to say who is faster; none if a side that is needed for that has failed.
    fn undecided(&self) -> Vec<usize> {
        let metric = compared(self.setup);
        let (ours, control) = (&self.tracks[OURS], &self.tracks[CONTROL]);
        if ours.failed.is_some() || control.failed.is_some() {
            return Vec::new();
        }
        let noise = ratios(ours, control, metric);
        (CONTROL + 1..self.tracks.len())
            .filter(|&peer| {
                let peer = &self.tracks[peer];
                peer.failed.is_none() && not_slower(&ratios(ours, peer, metric), &noise) == Verdict::Undecided
            })
            .collect()
    }

    fn round(&mut self, mut order: Vec<usize>, round: usize, keep: bool) {
        order::shuffle(&mut order, self.plan.order_seed, &self.setup.name(), round);
        let mut measured = vec![None; self.tracks.len()];
        for index in order {
            if self.tracks[index].failed.is_none() {
                measured[index] = self.turn(index, round, keep);
            }
        }
        if keep {
            for (track, measured) in self.tracks.iter_mut().zip(measured) {
                track.rounds.push(measured);
            }
        }
    }

    /// A side's turn: `None` if it failed.
    fn turn(&mut self, index: usize, round: usize, keep: bool) -> Option<Measured> {
        let place = if index == CONTROL { OURS } else { index };
        self.settle();
        let before = self.ticks();
        let start = Instant::now();
        let result = match &mut self.sides[place] {
            Some(side) => side.round(round + 1),
            None => return None,
        };
        let seconds = start.elapsed().as_secs_f64();
        if keep {
            for (other, (before, after)) in before.into_iter().zip(self.ticks()).enumerate() {
                if let (Some(before), Some(after)) = (before, after)
                    && other != place
                {
                    let used = after.saturating_sub(before) as f64 / TICKS_PER_SECOND;
                    self.tracks[other].idle_percent.push(used * 100.0 / seconds);
                }
            }
        }
        match result {
            Ok(measured) => Some(measured),
            Err(error) => {
                let reason = text(&error);
                if place == OURS {
                    self.tracks[CONTROL].failed = Some(reason.clone());
                }
                self.tracks[place].failed = Some(reason);
                None
            }
        }
    }

    /// CPU time of each side's process so far.
    fn ticks(&self) -> Vec<Option<u64>> {
        let process = |side: &Option<Side>| side.as_ref().and_then(|side| ticks(side.process()));
        self.sides.iter().map(process).collect()
    }

    /// Waits until no side computes any more, such as one that tidies up after its turn, and until what was written is on disk. Bounded:
    /// a side that goes on is seen in `idle_cpu_percent`.
    fn settle(&self) {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        const LOOKS_MAX: usize = 60;
        if self.setup.sizes.warmup.is_zero() {
            return;
        }
        if self.setup.durability != Durability::None {
            // Where there is no such program, the kernel writes in its own time.
            let _ = Command::new("sync").arg("-f").arg(self.scratch.path()).status();
        }
        let mut before = self.ticks();
        for _ in 0..LOOKS_MAX {
            std::thread::sleep(LOOK_EVERY);
            let after = self.ticks();
            if before == after {
                return;
            }
            before = after;
        }
    }
}

/// Looks at what must hold of a side's data.
fn check(track: &mut Track, side: Option<&mut Side>) {
    let Some(side) = side else { return };
    if track.failed.is_some() {
        return;
    }
    match side.check() {
        Ok(wrong) => {
            let first = wrong.into_iter().next();
            track.wrong = track.wrong.take().or(first);
        }
        Err(error) => track.failed = Some(text(&error)),
    }
}

fn gone(folder: &Path) -> Result<(), BenchError> {
    remove(folder).map_err(|source| BenchError::io(format!("could not remove {}", folder.display()), source))
}

/// The text of an error for a row that says why there is no number.
fn text(error: &BenchError) -> String {
    let parts = [Some(error.to_string()), error.detail()];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(rates: &[Option<f64>]) -> Track {
        let rounds = rates.iter().map(|rate| {
            rate.map(|tps| Measured {
                tps,
                new_orders_per_min: 0.0,
                p50_us: Some(1.0),
                p99_us: Some(1.0),
                retries: 0.0,
            })
        });
        Track {
            rounds: rounds.collect(),
            ..Track::of("any")
        }
    }

    #[test]
    fn ratios_are_of_rounds_both_took_part_in() {
        let subject = track(&[Some(10.0), None, Some(30.0), Some(40.0)]);
        let other = track(&[Some(5.0), Some(1.0), Some(10.0), None]);
        assert_eq!(ratios(&subject, &other, |round| round.tps), [2.0, 3.0]);
    }

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
