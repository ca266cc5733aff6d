//! Which functions become CTX points: few enough calls, and as few misses for members behind the leading one as can be had.
//!
//! Entries of functions are coarse: there may be none where the paper's knee begins, and one that is near may run a hundred times
//! in an operation. So its search ([`corun_cachesim::instruction_cache::place`], over many knees) makes the beginning, and a search by steps goes on
//! from there: a team of several tenants is run through the simulated cache with each function added, taken away or exchanged,
//! and the best is kept. One set of functions serves all kinds of requests, as the engine is one.
//!
//! What it is not: fast. It takes a minute, once for an engine and a cache.

use std::collections::{BTreeMap, BTreeSet};

use corun_cachesim::instruction_cache::{
    Candidates, CodeCache, Fetch, Operation, Preference, Search, Start, InstructionCacheError, Team, knees, place,
};

use crate::subject::{Traced, switch_code};
use crate::tenant::Kind;

/// Most CTX calls a member may make in one request.
pub const CALLS_MAX: u64 = 8;
/// Members of the simulated team: enough to tell what each further one adds.
const MEMBERS: usize = 4;

/// One kind of request: its traces, thinned, and what it misses serially.
struct Subject {
    kind: Kind,
    operations: Vec<Operation>,
    /// Lines of the code that runs between two members.
    switch: Vec<Fetch>,
    addresses: BTreeMap<String, u64>,
    /// Visits of each function in the request of one tenant, the most of all tenants.
    visits: BTreeMap<String, u64>,
    serial: f64,
}

/// What a choice of functions leads to, for one kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which kind.
    pub kind: Kind,
    /// CTX calls of a member in one request, the most of all tenants.
    pub calls: u64,
    /// Lines a request misses when tenants take turns without teams.
    pub serial: f64,
    /// Lines each member but the first adds.
    pub additional: f64,
}

/// A choice, and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The functions, sorted.
    pub entries: Vec<String>,
    /// By kind.
    pub outcomes: Vec<Outcome>,
}

/// Finds functions for all of these kinds together.
///
/// # Errors
/// [`InstructionCacheError::Empty`] if nothing was traced.
///
/// `traces` has the requests of some tenants, each traced by itself; `team` is the trace of any team, which shows what runs
/// between two members.
pub fn choose(traces: &[(Kind, &Traced)], team: &Traced, cache: &CodeCache) -> Result<Choice, InstructionCacheError> {
    let switch = switch_code(team, cache.geometry().line().0);
    let subjects: Result<Vec<Subject>, InstructionCacheError> = traces
        .iter()
        .map(|(kind, traced)| Subject::new(*kind, traced, &switch, cache))
        .collect();
    let subjects = subjects?;
    // Functions that may be points: called, and not too often in any of the kinds.
    let mut names: BTreeSet<&String> = subjects
        .iter()
        .flat_map(|subject| subject.visits.keys())
        .collect();
    names.retain(|name| {
        subjects
            .iter()
            .all(|subject| subject.visits.get(*name).copied().unwrap_or(0) <= CALLS_MAX)
    });
    let names: Vec<String> = names.into_iter().cloned().collect();

    let mut best = (BTreeSet::new(), f64::INFINITY);
    let consider = |set: BTreeSet<String>, best: &mut (BTreeSet<String>, f64)| -> Result<(), InstructionCacheError> {
        let cost = cost(&subjects, cache, &set)?;
        if cost < best.1 {
            *best = (set, cost);
        }
        Ok(())
    };
    consider(BTreeSet::new(), &mut best)?;
    for set in knee_sets(&subjects, cache, &names)? {
        consider(set, &mut best)?;
    }
    loop {
        let (from, before) = best.clone();
        for name in names.iter().filter(|name| !from.contains(*name)) {
            let mut more = from.clone();
            more.insert(name.clone());
            consider(more, &mut best)?;
        }
        if best.1 >= before {
            // Nothing to add: take one away, or exchange one.
            for gone in &from {
                let mut fewer = from.clone();
                fewer.remove(gone);
                consider(fewer.clone(), &mut best)?;
                for name in names.iter().filter(|name| !from.contains(*name)) {
                    let mut exchanged = fewer.clone();
                    exchanged.insert(name.clone());
                    consider(exchanged, &mut best)?;
                }
            }
        }
        if best.1 >= before {
            break;
        }
    }
    let outcomes: Result<Vec<Outcome>, InstructionCacheError> = subjects
        .iter()
        .map(|subject| subject.outcome(cache, &best.0))
        .collect();
    Ok(Choice {
        entries: best.0.into_iter().collect(),
        outcomes: outcomes?,
    })
}

/// The paper's search by many knees for each kind, each knee's points for all kinds together.
fn knee_sets(
    subjects: &[Subject],
    cache: &CodeCache,
    names: &[String],
) -> Result<Vec<BTreeSet<String>>, InstructionCacheError> {
    let mut sets = Vec::new();
    for knee in knees() {
        let mut set = BTreeSet::new();
        for subject in subjects {
            let addresses: BTreeSet<u64> = names
                .iter()
                .filter_map(|name| subject.addresses.get(name))
                .copied()
                .collect();
            let search = Search {
                candidates: Candidates::Addresses(&addresses),
                preference: Preference::Rarest,
                points_max: CALLS_MAX as usize,
                ..Search::paper(knee)
            };
            let placement = place(&subject.operations[0], cache, &search)?;
            let chosen = names.iter().filter(|name| {
                subject
                    .addresses
                    .get(*name)
                    .is_some_and(|address| placement.points.contains_key(address))
            });
            set.extend(chosen.cloned());
        }
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    Ok(sets)
}

/// The share of misses that stay, summed over kinds, and a little for each call; infinite where calls are too many.
fn cost(subjects: &[Subject], cache: &CodeCache, set: &BTreeSet<String>) -> Result<f64, InstructionCacheError> {
    let mut sum = 0.0;
    for subject in subjects {
        if subject.calls(set) > CALLS_MAX {
            return Ok(f64::INFINITY);
        }
    }
    for subject in subjects {
        let outcome = subject.outcome(cache, set)?;
        sum += outcome.additional / outcome.serial.max(1.0) + 0.001 * outcome.calls as f64;
    }
    Ok(sum)
}

impl Subject {
    fn new(kind: Kind, traced: &Traced, switch: &[Fetch], cache: &CodeCache) -> Result<Self, InstructionCacheError> {
        let line_bytes = cache.geometry().line().0;
        let whole = traced
            .operations
            .get(..MEMBERS.min(traced.operations.len()))
            .unwrap_or_default();
        let mut visits: BTreeMap<String, u64> = BTreeMap::new();
        for operation in whole {
            let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
            for fetch in operation.fetches() {
                if let Some(name) = traced.names.get(&fetch.address) {
                    *counts.entry(name).or_default() += 1;
                }
            }
            for (name, count) in counts {
                let most = visits.entry(name.clone()).or_default();
                *most = count.max(*most);
            }
        }
        let operations: Vec<Operation> = whole
            .iter()
            .map(|operation| thinned(operation, traced, line_bytes))
            .collect();
        let team = Team::new(*cache, &operations, Candidates::Entries, |_| false, None)?;
        let serial = team.one_by_one(MEMBERS, Start::Warm).total() as f64 / MEMBERS as f64;
        let addresses = traced
            .names
            .iter()
            .map(|(&address, name)| (name.clone(), address))
            .collect();
        Ok(Self {
            kind,
            operations,
            switch: switch.to_vec(),
            addresses,
            visits,
            serial,
        })
    }

    /// With the code of the switch behind each entry that is on, where the member it leads to runs it.
    fn switched(&self, operation: &Operation, on: &BTreeSet<u64>) -> Operation {
        let mut longer = Operation::new(operation.thread());
        for &fetch in operation.fetches() {
            longer.fetch(fetch);
            if on.contains(&fetch.address) {
                self.switch.iter().for_each(|&fetch| longer.fetch(fetch));
            }
        }
        longer
    }

    fn calls(&self, set: &BTreeSet<String>) -> u64 {
        set.iter().filter_map(|name| self.visits.get(name)).sum()
    }

    fn outcome(&self, cache: &CodeCache, set: &BTreeSet<String>) -> Result<Outcome, InstructionCacheError> {
        let on: BTreeSet<u64> = set
            .iter()
            .filter_map(|name| self.addresses.get(name))
            .copied()
            .collect();
        let operations: Vec<Operation> = self
            .operations
            .iter()
            .map(|operation| self.switched(operation, &on))
            .collect();
        let team = Team::new(*cache, &operations, Candidates::Addresses(&on), |_| true, None)?;
        let together = team.together(MEMBERS, Start::Warm);
        Ok(Outcome {
            kind: self.kind,
            calls: self.calls(set),
            serial: self.serial,
            additional: together.additional().unwrap_or(0.0),
        })
    }
}

/// The same operation without instructions that change nothing: those on the line the one before them was on. Entries stay.
fn thinned(operation: &Operation, traced: &Traced, line_bytes: u64) -> Operation {
    let mut kept = Operation::new(operation.thread());
    let mut last = None;
    for &fetch in operation.fetches() {
        let lines = (
            fetch.address / line_bytes,
            (fetch.address + u64::from(fetch.bytes.max(1)) - 1) / line_bytes,
        );
        if last == Some((lines.0, lines.1))
            && lines.0 == lines.1
            && !traced.names.contains_key(&fetch.address)
        {
            continue;
        }
        // An instruction across two lines leaves the second as the last one used.
        last = Some((lines.1, lines.1));
        kept.fetch(Fetch { ..fetch });
    }
    kept
}
