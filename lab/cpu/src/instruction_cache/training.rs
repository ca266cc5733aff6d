//! [`Trained`]: the trace of one operation, from which CTX points are chosen for an instruction cache.
//!
//! Two ways beside turning all points on: [`Trained::by_knee`], what `corun-lab autosteps` does (section 5), and [`Trained::by_trial`], which
//! turns on one point after the other as long as a simulated team misses less (what the paper's authors did by hand, section 3.3). Not
//! here: the points that stand for both in a program, which are profiles.

use std::collections::{BTreeMap, BTreeSet};

use corun_cachesim::instruction_cache::{
    Candidates, CodeCache, InstructionCacheError, Operation as Code, Recorder, RecorderLimits, Search, Start,
    SwitchCode, Team, place,
};
use corun_model::teams::instructions::{Event, InstructionSink};
use corun_model::teams::{CtxProfile, CtxSite, Knee, L1i};

use super::job::{Job, Mode, Operation, Pass, Points};
use super::lab::{Lab, Traced};
use lab_core::error::BenchError;

/// Most instructions of an operation trained on.
const INSTRUCTIONS_MAX: usize = 4 << 20;
/// Rounds of a fetch that points are chosen by; the last is not a whole one.
const FETCHES: usize = 4;
/// Members of the simulated team by which points are tried.
const MEMBERS: usize = 10;
/// Stands for the code of the switch while points are tried: as large as ours, where no program has code.
pub(super) const SWITCH: SwitchCode = SwitchCode {
    address: 0x0000_1000_0000_0000,
    bytes: 192,
};
/// A point that saves less than this share of the team's misses is not worth its calls.
const WORTH: f64 = 0.01;

/// An operation, warm.
pub(super) struct Trained {
    pub(super) operation: Operation,
    /// Its instructions as a plain client runs them.
    pub(super) code: Code,
    /// As the only member of a team runs them: an index fetch several times over, as what is between two of them counts too; other
    /// operations once, with the wrapper around them. Points are chosen by these.
    member: Code,
    /// CTX points by the address of their record.
    sites: BTreeMap<u64, CtxSite>,
    pub(super) wrong: Vec<String>,
}

pub(super) fn simulated(error: InstructionCacheError) -> BenchError {
    BenchError::Data(format!("simulating the operation: {error}"))
}

impl Trained {
    /// Traces one execution.
    pub(super) fn trace(lab: &Lab<'_>, operation: Operation) -> Result<Trained, BenchError> {
        let (mode, rounds) = match operation {
            Operation::Fetch => (Mode::Held, FETCHES),
            _ => (Mode::ToCompletion, 1),
        };
        let pass = |mode, rounds| Pass::traced(mode, 1, &Points::Default, (50, rounds));
        let job = Job {
            workload: lab.workload(operation, 0),
            passes: vec![pass(Mode::Serial, 1), pass(mode, rounds)],
            patient: true,
        };
        let traced = lab.trace(&job, operation.name())?;
        Ok(Trained {
            operation,
            code: code(&traced, 0)?,
            member: code(&traced, 1)?,
            wrong: traced.wrong(),
            sites: traced.sites,
        })
    }

    /// Bytes of the 64-byte lines the operation runs through.
    pub(super) fn footprint_bytes(&self) -> u64 {
        self.code.footprint_lines(64) * 64
    }

    /// The points that the usual knee asks for.
    pub(super) fn by_knee(&self, l1i: L1i) -> Result<Vec<CtxSite>, BenchError> {
        let cache = CodeCache::lru(l1i).map_err(simulated)?;
        let search = Search::sites(Knee::default());
        let placement = place(&self.member, &cache, &search).map_err(simulated)?;
        Ok(self.places(placement.points.into_keys()))
    }

    /// The points with which a simulated team misses least, found one by one.
    pub(super) fn by_trial(&self, l1i: L1i) -> Result<Vec<CtxSite>, BenchError> {
        let visits = self.member.visits().iter().filter(|visit| !visit.latched);
        let met: BTreeSet<u64> = visits.map(|visit| visit.site_address).collect();
        let mut on = BTreeSet::new();
        let mut least = self.team_misses(l1i, &on)?;
        loop {
            let with = |&site: &u64| {
                let mut tried = on.clone();
                tried.insert(site);
                Ok((self.team_misses(l1i, &tried)?, site))
            };
            let tried = met
                .difference(&on)
                .map(with)
                .collect::<Result<Vec<_>, BenchError>>()?;
            match tried.into_iter().min() {
                Some((misses, site)) if (misses as f64) < least as f64 * (1.0 - WORTH) => {
                    least = misses;
                    on.insert(site);
                }
                _ => return Ok(self.places(on)),
            }
        }
    }

    /// Misses of a warm team with these points on.
    fn team_misses(&self, l1i: L1i, on: &BTreeSet<u64>) -> Result<u64, BenchError> {
        let cache = CodeCache::lru(l1i).map_err(simulated)?;
        let operations = std::slice::from_ref(&self.member);
        let on = |site| on.contains(&site);
        let team = Team::new(cache, operations, Candidates::Sites, on, Some(SWITCH));
        Ok(team.map_err(simulated)?.together(MEMBERS, Start::Warm).total())
    }

    /// Points as places in the source, which hold in every run of the program.
    fn places(&self, points: impl IntoIterator<Item = u64>) -> Vec<CtxSite> {
        let places = points.into_iter().filter_map(|point| self.sites.get(&point));
        places.cloned().collect()
    }
}

/// A profile of points, each once, for the usual knee.
pub(super) fn profile(l1i: L1i, places: impl IntoIterator<Item = CtxSite>) -> Points {
    let places: BTreeSet<CtxSite> = places.into_iter().collect();
    let profile = CtxProfile {
        l1i,
        knee: Knee::default(),
        sites: places.into_iter().collect(),
        entries: Vec::new(),
    };
    Points::Profile(profile.to_string())
}

/// The instructions of a pass as one operation.
fn code(traced: &Traced, pass: usize) -> Result<Code, BenchError> {
    let mut joined = Joined {
        recorder: Recorder::new(RecorderLimits {
            instructions_max: INSTRUCTIONS_MAX,
        }),
        begun: None,
    };
    for stretch in traced.passes[pass].rounds.iter().flatten() {
        traced.kept.replay(stretch.clone(), &mut joined);
    }
    let Joined { mut recorder, begun } = joined;
    if let Some(thread) = begun {
        recorder.event(&Event::End { thread });
    }
    let mut operations = recorder.finish().map_err(simulated)?;
    operations
        .pop()
        .ok_or_else(|| simulated(InstructionCacheError::Empty))
}

/// Takes several stretches between markers for one.
struct Joined {
    recorder: Recorder,
    /// On which thread.
    begun: Option<u32>,
}

impl InstructionSink for Joined {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Begin { .. } if self.begun.is_some() => {}
            Event::End { .. } => {}
            Event::Begin { thread } => {
                self.begun = Some(thread);
                self.recorder.event(event);
            }
            _ => self.recorder.event(event),
        }
    }
}
