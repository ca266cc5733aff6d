//! What all cases of a run share: the machine, the pair of CPUs, what `auto` knows, and how a contest is put together.

use std::cell::RefCell;
use std::time::Duration;

use corun_exec::stage::calibrate::{Scope, calibrate};
use corun_exec::stage::{HelperKind, Options};
use corun_machine::counters::Counters;
use corun_model::operators::mode::Mode;
use corun_model::operators::placement::{Pair, Placement, place};
use corun_model::operators::technique::{Calibration, Host, Work, choose};
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_topology::calibration;

use super::MemoryLatencyArgs;
use super::modes::standing;
use crate::memory_latency::contest::{Entrant, Held, Standing, hold};
use crate::memory_latency::counted::{Census, Count};
use crate::memory_latency::keys::{AUTO, Keys, Stand};
use crate::memory_latency::subject::{How, Subject};
use crate::memory_latency::threads::PinnedPair;
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Runner, Sample, Side};

/// L2 assumed where none is described.
const L2_FALLBACK: Bytes = Bytes::mib(1);

/// What an operator does to memory, as far as `auto` asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Bytes that tuples reach at random.
    pub table_bytes: u64,
    /// Dependent references a tuple makes.
    pub references: f64,
    /// Share of tuples that go the whole way.
    pub hit_rate: f64,
    /// Whether those all make as many references.
    pub even: bool,
}

/// A subject that several sides of a contest take turns with.
pub type Shared<'s> = RefCell<&'s mut dyn Subject>;

/// The machine and the arguments of a run.
pub struct Lab<'a> {
    pub args: &'a MemoryLatencyArgs,
    pub topology: Topology,
    cpus: PinnedPair,
    host: Host,
    calibration: Option<Calibration>,
}

impl<'a> Lab<'a> {
    /// Looks at the machine, takes the CPUs and, unless the run is quick, loads or measures a calibration. A quick run claims nothing
    /// about time, so its `auto` goes by the rule for machines that were not measured.
    ///
    /// # Errors
    /// A placement this machine does not have, or threads that cannot be pinned.
    pub fn new(args: &'a MemoryLatencyArgs, runner: &Runner<'_>) -> Result<Self, BenchError> {
        let topology = corun_topology::discover();
        let pair = place(&topology, args.placement.unwrap_or(Placement::Auto))?;
        let host = Host {
            l2: topology.cache_bytes(2).unwrap_or(L2_FALLBACK),
            siblings: pair.relation == Placement::Siblings,
        };
        let cpus = PinnedPair::take(pair)?;
        let calibration = if args.common.quick {
            None
        } else {
            Some(calibrated(&topology, &host, &cpus, runner)?)
        };
        Ok(Lab {
            args,
            topology,
            cpus,
            host,
            calibration,
        })
    }

    /// The CPUs in use.
    pub fn pair(&self) -> Pair {
        self.cpus.pair()
    }

    /// What [`choose`] says for a subject on so many threads.
    pub fn choice(&self, shape: Shape, tuples: usize, threads: usize) -> Mode {
        let work = Work {
            table: Bytes(shape.table_bytes),
            references: shape.references,
            hit_rate: shape.hit_rate,
            even: shape.even,
            tuples: tuples as u64,
            ordered: false,
            threads,
        };
        choose(&work, &self.host, self.calibration.as_ref()).mode
    }

    /// Runs the whole stream once. Two independent inputs are twice the work, so their time counts half.
    pub fn sample(&self, subject: &Shared<'_>, mode: Mode, helper: HelperKind) -> Result<Sample, BenchError> {
        let mut subject = subject.borrow_mut();
        let pinning = self.cpus.pinning();
        let options = Options {
            place: &pinning,
            helper,
            ..Options::default()
        };
        let tuples = 0..subject.tuples();
        let ran = subject.execute(mode, tuples.clone(), &mut How::Timed(&options))?;
        self.checked(
            ran.elapsed / mode.inputs() as u32,
            subject.verdict(&ran.answers, tuples),
        )
    }

    /// Counts an event in each mode, where the machine counts it.
    ///
    /// # Errors
    /// When a run fails.
    pub fn census(
        &self,
        stand: Stand,
        count: Count,
        subject: &mut dyn Subject,
        modes: &[Mode],
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        let probes = subject.tuples();
        let shared = RefCell::new(subject);
        let census = Census {
            stand,
            count,
            modes,
            placement: self.pair().relation,
            probes,
        };
        let mut opened = corun_machine::counters::open(&[count.event]);
        let counters = opened.as_mut().map(|counters| counters as &mut dyn Counters);
        let mut run = |mode| self.sample(&shared, mode, HelperKind::Loads);
        census.take(counters.map_err(|error| error.clone()), &mut run, runner)
    }

    /// A sample of a run whose threads all were where they should be.
    ///
    /// # Errors
    /// When one was not.
    pub fn checked(&self, elapsed: Duration, answer: String) -> Result<Sample, BenchError> {
        if self.cpus.was_refused() {
            return Err(BenchError::Machine(
                "a thread could not be pinned to its CPU".to_string(),
            ));
        }
        Ok(Sample {
            elapsed,
            answer,
            peak_bytes: None,
        })
    }

    /// The pair of CPUs, for runs that are put together elsewhere.
    pub fn cpus(&self) -> &PinnedPair {
        &self.cpus
    }

    /// An entrant that runs a subject in a mode.
    pub fn entrant<'e>(&'e self, stand: Stand, subject: &'e Shared<'_>, mode: Mode) -> Entrant<'e> {
        self.entrant_with(stand, subject, mode, HelperKind::Loads)
    }

    /// As [`Lab::entrant`], with another kind of helper.
    pub fn entrant_with<'e>(
        &'e self,
        stand: Stand,
        subject: &'e Shared<'_>,
        mode: Mode,
        helper: HelperKind,
    ) -> Entrant<'e> {
        Entrant {
            keys: Keys::of(stand, mode, self.pair().relation),
            standing: standing(mode),
            extra: Vec::new(),
            side: Side::new(&mode.to_string(), move || self.sample(subject, mode, helper)),
        }
    }

    /// The entrants for what is chosen for one thread and for two.
    pub fn autos<'e>(&'e self, stand: Stand, subject: &'e Shared<'_>, shape: Shape) -> Vec<Entrant<'e>> {
        let tuples = subject.borrow().tuples();
        let auto = |threads: usize| {
            let mode = self.choice(shape, tuples, threads);
            let mut entrant = self.entrant(stand, subject, mode);
            entrant.keys = entrant.keys.named(AUTO);
            entrant.standing = Standing::Auto { threads };
            entrant.extra = vec![
                ("chosen".to_string(), Value::from(mode.to_string())),
                ("auto_threads".to_string(), Value::from(threads)),
            ];
            entrant
        };
        vec![auto(1), auto(2)]
    }

    /// A contest of one subject's modes, serial first, and what is chosen for it.
    pub fn contest(
        &self,
        stand: Stand,
        subject: &mut dyn Subject,
        modes: &[Mode],
        shape: Shape,
        runner: &mut Runner<'_>,
    ) -> Held {
        let tuples = subject.tuples();
        let shared = RefCell::new(subject);
        let mut entrants: Vec<Entrant<'_>> = modes
            .iter()
            .map(|&mode| self.entrant(stand, &shared, mode))
            .collect();
        entrants.extend(self.autos(stand, &shared, shape));
        hold(entrants, tuples, runner)
    }
}

/// The largest working set of this suite's calibration: its tables are beyond the caches, a shared one of hundreds of MiB too.
const LARGEST: Bytes = Bytes::mib(512);

/// The calibration kept for this machine, or a new one, which is then kept.
fn calibrated(
    topology: &Topology,
    host: &Host,
    cpus: &PinnedPair,
    runner: &Runner<'_>,
) -> Result<Calibration, BenchError> {
    let path = calibration::default_path();
    // What an engine measured for its own needs, which are one thread's, is not enough.
    if let Some(kept) = path
        .as_deref()
        .and_then(|path| calibration::load(path, topology))
        .filter(Calibration::has_bi_threaded)
    {
        return Ok(kept);
    }
    let pinning = cpus.pinning();
    let options = Options {
        place: &pinning,
        ..Options::default()
    };
    let scope = Scope {
        bytes_max: LARGEST,
        bi_threaded: Some(&options),
        work_ahead: host.siblings.then_some(&options),
        ..Scope::short(host.l2)
    };
    let measured =
        calibrate(&scope).map_err(|error| BenchError::Machine(format!("cannot calibrate: {error}")))?;
    if let Some(path) = path
        && let Err(error) = calibration::store(&path, topology, &measured)
    {
        runner.progress().note(&format!(
            "the calibration was not kept in {}: {error}",
            path.display()
        ));
    }
    Ok(measured)
}
