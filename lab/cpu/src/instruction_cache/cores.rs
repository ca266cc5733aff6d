//! Runs traces through simulated cores and counts an operation's share.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use corun_cachesim::cache::{Geometry, GeometryError, Replacement};
use corun_cachesim::core::{Core, CoreShape, Counts, PredictorShape};
use corun_model::teams::L1i;
use corun_model::teams::instructions::{Event, InstructionSink};
use corun_model::units::{Bytes, Ways};

use super::geometry::Processor;
use super::kept::{Kept, Padded};
use lab_core::error::BenchError;
use lab_core::row::Value;

/// Events of one operation, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PerOperation {
    pub(super) instructions: f64,
    pub(super) l1i: f64,
    pub(super) l1d: f64,
    pub(super) l2: f64,
    pub(super) mispredicts: f64,
}

impl PerOperation {
    /// The share of each of so many operations.
    pub(super) fn of(counts: Counts, operations: u64) -> PerOperation {
        let share = |count: u64| count as f64 / operations.max(1) as f64;
        PerOperation {
            instructions: share(counts.instructions),
            l1i: share(counts.l1i_misses),
            l1d: share(counts.l1d_misses),
            l2: share(counts.l2_misses()),
            mispredicts: share(counts.mispredicted()),
        }
    }
}

fn geometry(cache: L1i) -> Result<Geometry, GeometryError> {
    Geometry::new(
        Bytes(u64::from(cache.bytes)),
        Ways(cache.ways),
        Bytes(u64::from(cache.line_bytes)),
    )
}

/// A core with empty caches.
pub(super) fn core(processor: &Processor) -> Result<Core, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Data(format!("simulated core: {error}"));
    let of = |cache| geometry(cache).map_err(|error| failed(&error));
    let shape = CoreShape {
        l1i: of(processor.l1i)?,
        l1d: of(processor.l1d)?,
        l2: of(processor.l2)?,
        replacement: Replacement::Lru,
        predictor: PredictorShape::default(),
        by_thread: false,
    };
    Core::new(shape).map_err(|error| failed(&error))
}

/// A core to count on, and how its rows name it.
pub(super) struct SimulatedCore {
    pub(super) processor: Processor,
    /// Whether caches are empty before each stretch between markers, instead of filled by the round before.
    pub(super) cold: bool,
    /// Parameters of rows beyond the shape's.
    pub(super) keys: Vec<(String, Value)>,
}

impl SimulatedCore {
    /// A core whose caches keep what they hold.
    pub(super) fn warm(processor: Processor) -> SimulatedCore {
        SimulatedCore {
            processor,
            cold: false,
            keys: Vec::new(),
        }
    }

    /// Adds a parameter.
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> SimulatedCore {
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    /// Counts of each round but the first, which fills the caches.
    pub(super) fn count(
        &self,
        kept: &Kept,
        rounds: &[Vec<Range<usize>>],
        members: usize,
    ) -> Result<Vec<PerOperation>, BenchError> {
        self.count_padded(kept, rounds, members, (&BTreeSet::new(), 0))
    }

    /// The same with so many bytes of code added at some CTX points.
    pub(super) fn count_padded(
        &self,
        kept: &Kept,
        rounds: &[Vec<Range<usize>>],
        members: usize,
        (sites, bytes): (&BTreeSet<u64>, u64),
    ) -> Result<Vec<PerOperation>, BenchError> {
        let mut core = core(&self.processor)?;
        let mut counted = Vec::new();
        for round in rounds {
            core.forget_counts();
            for stretch in round {
                if self.cold {
                    core.flush();
                }
                kept.replay(stretch.clone(), &mut Padded::new(&mut core, sites, bytes));
            }
            counted.push(PerOperation::of(core.counts(), members as u64));
        }
        Ok(counted.split_off(1))
    }
}

/// Instruction misses between one CTX point that is on and the next, an operation, in warm caches: which segments do not fit.
pub(super) fn segments(
    kept: &Kept,
    rounds: &[Vec<Range<usize>>],
    members: usize,
    processor: &Processor,
    on: &BTreeSet<u64>,
) -> Result<BTreeMap<(u64, u64), f64>, BenchError> {
    let mut sink = Segments {
        core: core(processor)?,
        on,
        latches: 0,
        from: 0,
        before: 0,
        misses: BTreeMap::new(),
    };
    for (number, round) in rounds.iter().enumerate() {
        for stretch in round {
            kept.replay(stretch.clone(), &mut sink);
        }
        if number == 0 {
            sink.misses.clear();
        }
    }
    let operations = (rounds.len().saturating_sub(1).max(1) * members.max(1)) as f64;
    let misses = sink.misses.into_iter();
    Ok(misses
        .map(|(place, misses)| (place, misses as f64 / operations))
        .collect())
}

/// A core whose misses are booked on the points passed last and next.
struct Segments<'s> {
    core: Core,
    on: &'s BTreeSet<u64>,
    latches: u32,
    from: u64,
    before: u64,
    misses: BTreeMap<(u64, u64), u64>,
}

impl InstructionSink for Segments<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.core.event(event);
        match *event {
            Event::LatchEnter { .. } => self.latches += 1,
            Event::LatchLeave { .. } => self.latches = self.latches.saturating_sub(1),
            Event::Ctx { site_address, .. } if self.latches == 0 && self.on.contains(&site_address) => {
                let misses = self.core.counts().l1i_misses;
                // The passage switches: what ran since the last one was this member's way to this point.
                *self.misses.entry((self.from, site_address)).or_default() += misses - self.before;
                (self.from, self.before) = (site_address, misses);
            }
            _ => {}
        }
    }
}

/// Several cores that hear of one traced program as it runs.
pub(super) struct Cores(Vec<Core>);

impl Cores {
    /// With empty caches.
    pub(super) fn new(processors: &[Processor]) -> Result<Cores, BenchError> {
        let cores = processors.iter().map(core).collect::<Result<_, _>>();
        cores.map(Cores)
    }

    /// What each has counted, in their order.
    pub(super) fn counts(&self) -> Vec<Counts> {
        self.0.iter().map(Core::counts).collect()
    }
}

impl InstructionSink for Cores {
    fn event(&mut self, event: &Event<'_>) {
        self.0.iter_mut().for_each(|core| core.event(event));
    }
}
