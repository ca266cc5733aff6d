//! [`Chooser`]: the points that a knee asks for, of several operations together, and what each operation has of these.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use corun_cachesim::instruction_cache::{
    Candidates, CodeCache, Placement, Preference, Search, Start, SwitchCode, Team, Wanted, evaluate, place,
};
use corun_model::teams::Knee;

use super::choose::{POINTS_MAX, Question};
use super::study::{Choice, Trial};
use super::traced::{Key, Traced};
use corun_cli::failure::{Failed, Usage};

/// Code that runs at each switch: that of `corun_exec::teams` in bytes, rounded up to lines (the paper's has 76), far from the program, in
/// the first sets of the cache.
const SWITCH: SwitchCode = SwitchCode {
    address: 0x7fff_0000_0000,
    bytes: 128,
};

/// The points that a knee asks for, of all operations together.
#[derive(Default)]
pub(super) struct Found {
    /// By which operation each was found, and its address there.
    pub(super) points: BTreeMap<Key, (usize, u64)>,
    /// What each operation asked for.
    pub(super) wanted: Vec<Vec<Wanted>>,
}

/// Places points of several operations, and runs these with the points of all.
pub(super) struct Chooser<'a> {
    question: &'a Question,
    traced: &'a [Traced],
    pub(super) cache: CodeCache,
    pub(super) choice: Choice,
    /// Of each operation.
    patchable: Vec<BTreeSet<u64>>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(question: &'a Question, traced: &'a [Traced]) -> Result<Self> {
        let cache = CodeCache::lru(question.l1i).map_err(|error| {
            Usage(format!(
                "{error}\nhint: give another cache with --l1i SIZE/WAYS/LINE"
            ))
        })?;
        let patchable: Vec<BTreeSet<u64>> = traced.iter().map(Traced::patchable).collect();
        Ok(Self {
            question,
            traced,
            cache,
            choice: choice(question, traced, &patchable)?,
            patchable,
        })
    }

    /// Entries that can be patched, if the program has any; with `--entries` and none of those, all that were called.
    fn candidates(&self, index: usize) -> Candidates<'_> {
        let patchable = &self.patchable[index];
        match self.choice {
            Choice::Lines => Candidates::Instructions,
            Choice::Sites => Candidates::Sites,
            Choice::Entries if patchable.is_empty() && self.question.choice == Some(Choice::Entries) => {
                Candidates::Entries
            }
            Choice::Entries => Candidates::Addresses(patchable),
        }
    }

    pub(super) fn find(&self, knee: Knee) -> Result<Found> {
        let mut found = Found::default();
        for (index, one) in self.traced.iter().enumerate() {
            let search = Search {
                knee,
                candidates: self.candidates(index),
                preference: match self.choice {
                    // The paper's: exactly where the knee begins.
                    Choice::Lines => Preference::Nearest,
                    // A point in a loop costs a call each time round.
                    Choice::Sites | Choice::Entries => Preference::Rarest,
                },
                points_max: POINTS_MAX,
            };
            let placement = place(&one.operation, &self.cache, &search)?;
            let prefetching = self.choice == Choice::Sites && self.question.prefetch_points;
            let records = one.operation.visits().iter().map(|visit| visit.site_address);
            let prefetches = |record: &u64| one.site(*record).is_some_and(|point| point.prefetches);
            let always_on = records.filter(|record| prefetching && prefetches(record));
            for point in placement.points.keys().copied().chain(always_on) {
                let entry = found.points.entry(key(one, self.choice, point));
                entry.or_insert((index, point));
            }
            found.wanted.push(placement.wanted);
        }
        Ok(found)
    }

    /// An operation cut at these points.
    pub(super) fn evaluate(&self, index: usize, on: impl Fn(u64) -> bool) -> Result<Placement> {
        let operation = &self.traced[index].operation;
        Ok(evaluate(operation, &self.cache, self.candidates(index), on)?)
    }

    /// A team that runs an operation with these points.
    pub(super) fn team(&self, index: usize, on: impl Fn(u64) -> bool) -> Result<Team> {
        let operations = std::slice::from_ref(&self.traced[index].operation);
        let candidates = self.candidates(index);
        Ok(Team::new(self.cache, operations, candidates, on, Some(SWITCH))?)
    }

    /// What each operation has of a knee: with the points of all, as a program would turn them on.
    pub(super) fn try_knee(&self, knee: Knee) -> Result<Vec<Trial>> {
        let found = self.find(knee)?;
        let members = self.question.members as usize;
        let of_one = |(index, one): (usize, &Traced)| {
            let on = |point: u64| found.points.contains_key(&key(one, self.choice, point));
            let placement = self.evaluate(index, on)?;
            Ok(Trial {
                knee,
                points: placement.points.len(),
                calls: placement.segments.calls.len() as u64,
                misses: placement.segments.non_leading_misses(),
                additional: self
                    .team(index, on)?
                    .together(members, Start::Warm)
                    .additional()
                    .unwrap_or_default(),
            })
        };
        self.traced.iter().enumerate().map(of_one).collect()
    }
}

/// The name of a point that holds for all operations.
pub(super) fn key(one: &Traced, choice: Choice, point: u64) -> Key {
    match (choice, one.site(point)) {
        (Choice::Sites, Some(known)) => Key::Site(known.site.clone()),
        _ => one.code(point),
    }
}

fn choice(question: &Question, traced: &[Traced], patchable: &[BTreeSet<u64>]) -> Result<Choice> {
    let sites = traced.iter().any(Traced::has_sites);
    match question.choice {
        Some(Choice::Sites) if !sites => bail!(Failed(
            "the program has no CTX points compiled in\nhint: leave out --sites to see at which source lines points \
             belong"
                .to_owned()
        )),
        Some(choice) => Ok(choice),
        None if sites => Ok(Choice::Sites),
        None if patchable.iter().any(|entries| !entries.is_empty()) => Ok(Choice::Entries),
        None => Ok(Choice::Lines),
    }
}
