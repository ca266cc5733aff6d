//! [`place`]: where a team should switch, by the knees of an operation's STEPS misses (paper 003, section 5.2).
//!
//! ```text
//!   segment begins        a candidate        the knee begins     the knee is seen
//!        │                     │                    │                   │
//!   ─────┴─────────────────────┴────────────────────┴──●────●───●───●───┴──────────
//!                              ◀── the nearest ─────┘        evictions of the segment's own lines,
//!                                  candidate before it       each less than a width behind the one before
//! ```
//!
//! A point is a place in the code, so it is on whenever execution comes by, before the knee that asked for it too. Each time a point is
//! turned on the operation is therefore run again from its beginning, until no knee asks for a point any more. That ends, as points
//! are only turned on. The paper's own algorithm goes on behind the knee instead, and counts calls afterwards.
//!
//! A line that leaves is a STEPS miss unless a call came since it was last used: calls more never miss more. With a height of 1 a call
//! comes before each first miss, which is as late as it can be. So where every point runs once, no fewer calls leave no miss.
//!
//! A knee begins at the first of its evictions, each less than its width behind the one before; it is one when it is as high as
//! asked. Evictions farther apart are forgotten, but twice the height of them between two calls make a knee in any case.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use corun_model::teams::Knee;

use super::operation::Operation;
use super::original::warmed;
use super::references::{Numbering, Reference};
use super::segments::{AtKnee, Call, Reached, Segments, Visit, run};
use super::{CodeCache, InstructionCacheError};
use crate::cache::SetAssociative;

/// Where a call may stand. None of these inside a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates<'a> {
    /// Before any instruction, as the paper's. Points are addresses of instructions.
    Instructions,
    /// Before instructions at these addresses, such as entries that can be patched.
    Addresses(&'a BTreeSet<u64>),
    /// Before the first instruction of any function that was called.
    Entries,
    /// At points compiled into the program. They are named by their [`site_address`](super::SiteVisit::site_address).
    Sites,
}

/// Which of several candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The last one before the knee; with [`Candidates::Instructions`], the instruction that begins it, as the paper's.
    Nearest,
    /// Of those in the second half of the segment before the knee the one that runs least often in the operation, the last of
    /// equals: a point in a loop costs a call each time round. Where that half has none, the nearest. On SQLite's prepare and run of
    /// a join (102,545 instructions, 32k/8/64, knee 200,4) calls fall from 16 to 7 and misses rise from 17 to 25 of 1,761.
    Rarest,
}

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    /// When evictions ask for a point.
    pub knee: Knee,
    /// Where it may be.
    pub candidates: Candidates<'a>,
    /// Which is taken.
    pub preference: Preference,
    /// Most points; further knees are left as they are.
    pub points_max: usize,
}

impl Search<'_> {
    /// The paper's: any instruction, exactly where the knee begins. At most 1024 points.
    pub fn paper(knee: Knee) -> Self {
        Self {
            knee,
            candidates: Candidates::Instructions,
            preference: Preference::Nearest,
            points_max: 1024,
        }
    }

    /// Among points compiled into the program, the nearest. At most 1024 points.
    pub fn sites(knee: Knee) -> Self {
        Self {
            candidates: Candidates::Sites,
            ..Self::paper(knee)
        }
    }
}

/// A knee that asked for a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the instruction that begins it.
    pub at: u32,
    /// That instruction's address.
    pub address: u64,
    /// It runs inside a latch, so that no call may stand exactly there.
    pub latched: bool,
    /// What it got.
    pub placed: Placed,
}

/// The point a knee got, by address or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// At the knee's beginning or before it, in the same segment: the knee's misses are absorbed.
    Before {
        /// The point.
        point: u64,
        /// So many instructions before.
        instructions: u32,
    },
    /// Behind its beginning, as there was none before: some of its misses stay.
    After {
        /// The point.
        point: u64,
        /// So many instructions behind.
        instructions: u32,
    },
    /// No candidate follows, or there are as many points as may be.
    Nowhere,
}

/// What [`place`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The points, with how often the operation calls each: insertion points are counted apart from executed calls.
    pub points: BTreeMap<u64, u64>,
    /// The operation with these points on.
    pub segments: Segments,
    /// The knees that asked for them, in the order in which they did, then those that got nothing.
    pub wanted: Vec<Wanted>,
}

/// Finds the points of one operation.
///
/// # Errors
/// [`InstructionCacheError::Empty`] for an operation without instructions, [`InstructionCacheError::KneeHeight`].
pub fn place(
    operation: &Operation,
    cache: &CodeCache,
    search: &Search<'_>,
) -> Result<Placement, InstructionCacheError> {
    if search.knee.height == 0 {
        return Err(InstructionCacheError::KneeHeight);
    }
    let subject = Subject::new(operation, cache, search.candidates)?;
    let mut on = vec![false; subject.points.len()];
    let mut wanted: Vec<Wanted> = Vec::new();
    loop {
        let mut turn_on = None;
        let mut stay: Vec<Wanted> = Vec::new();
        let mut at_knee = |reached: Reached| {
            let room = on.iter().filter(|on| **on).count() < search.points_max;
            let visit = subject.candidate(reached, &on, search.preference);
            let placed = match visit {
                Some(visit) if on[visit.point as usize] || room => {
                    placed(subject.name(visit), visit.at, reached)
                }
                _ => Placed::Nowhere,
            };
            let one = subject.wanted(reached.at, placed);
            match visit {
                Some(visit) if room && !on[visit.point as usize] => {
                    turn_on = Some((visit.point, one));
                    AtKnee::Stop
                }
                _ => {
                    stay.push(one);
                    AtKnee::GoOn
                }
            }
        };
        let ran = subject.run(&on, Some((search.knee, &mut at_knee)));
        match (ran, turn_on) {
            (Some(segments), _) => {
                // One that a point behind it was turned on for is still seen, and not counted again.
                stay.retain(|one| !wanted.contains(one));
                wanted.append(&mut stay);
                return Ok(Placement {
                    points: subject.executed(&on, &segments),
                    segments,
                    wanted,
                });
            }
            (None, Some((point, one))) => {
                on[point as usize] = true;
                wanted.push(one);
            }
            // Nothing else stops a run.
            (None, None) => return Err(InstructionCacheError::Empty),
        }
    }
}

/// What a non-leading member does with given points on, such as those of another operation, or all there are. Points that the
/// operation does not come by are left out of the answer; `wanted` is empty.
///
/// # Errors
/// [`InstructionCacheError::Empty`].
pub fn evaluate(
    operation: &Operation,
    cache: &CodeCache,
    candidates: Candidates<'_>,
    points: impl Fn(u64) -> bool,
) -> Result<Placement, InstructionCacheError> {
    let subject = Subject::new(operation, cache, candidates)?;
    let on: Vec<bool> = subject.points.iter().map(|&point| points(point)).collect();
    let segments = subject.run(&on, None).ok_or(InstructionCacheError::Empty)?;
    Ok(Placement {
        points: subject.executed(&on, &segments),
        segments,
        wanted: Vec::new(),
    })
}

/// Where calls could be: every visit of a candidate outside latches, and the candidates by number.
pub(super) fn visits_of(operation: &Operation, candidates: Candidates<'_>) -> (Vec<Visit>, Vec<u64>) {
    let mut points = Vec::new();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut visit = |at: u32, point: u64| Visit {
        at,
        point: *numbers.entry(point).or_insert_with(|| {
            points.push(point);
            points.len() as u32 - 1
        }),
    };
    let visits = if candidates == Candidates::Sites {
        let met = operation.visits().iter().filter(|met| !met.latched);
        met.map(|met| visit(met.at, met.site_address)).collect()
    } else {
        let fetches = operation.fetches().iter().enumerate();
        let may = fetches.filter(|(_, fetch)| {
            !fetch.latched
                && match candidates {
                    Candidates::Addresses(addresses) => addresses.contains(&fetch.address),
                    Candidates::Entries => fetch.entry,
                    Candidates::Instructions | Candidates::Sites => true,
                }
        });
        may.map(|(at, fetch)| visit(at as u32, fetch.address)).collect()
    };
    (visits, points)
}

fn placed(point: u64, at: u32, reached: Reached) -> Placed {
    if at <= reached.at {
        Placed::Before {
            point,
            instructions: reached.at - at,
        }
    } else {
        Placed::After {
            point,
            instructions: at - reached.at,
        }
    }
}

/// An operation made ready to be run again and again.
struct Subject<'a> {
    operation: &'a Operation,
    references: Vec<Reference>,
    lines: usize,
    warm: SetAssociative,
    visits: Vec<Visit>,
    points: Vec<u64>,
    /// How often each point is come by.
    frequencies: Vec<u32>,
}

impl<'a> Subject<'a> {
    fn new(
        operation: &'a Operation,
        cache: &CodeCache,
        candidates: Candidates<'_>,
    ) -> Result<Self, InstructionCacheError> {
        if operation.fetches().is_empty() {
            return Err(InstructionCacheError::Empty);
        }
        let mut numbering = Numbering::new(cache.geometry());
        let references = numbering.of(operation);
        let (visits, points) = visits_of(operation, candidates);
        let mut frequencies = vec![0; points.len()];
        for visit in &visits {
            frequencies[visit.point as usize] += 1;
        }
        Ok(Self {
            operation,
            warm: warmed(&references, cache),
            lines: numbering.lines(),
            references,
            visits,
            points,
            frequencies,
        })
    }

    fn run(
        &self,
        on: &[bool],
        search: Option<(Knee, &mut dyn FnMut(Reached) -> AtKnee)>,
    ) -> Option<Segments> {
        let on = |point: u32| on[point as usize];
        let (calls, misses_at) = run(
            &self.references,
            self.warm.clone(),
            self.lines,
            &self.visits,
            on,
            search,
        )?;
        let calls = calls.into_iter().map(|visit| Call {
            at: visit.at,
            point: self.name(visit),
            thread: self.operation.thread(),
        });
        Some(Segments {
            calls: calls.collect(),
            misses_at,
        })
    }

    /// The candidate a knee gets: inside its segment, not at the segment's beginning, where a call would change nothing, or behind.
    fn candidate(&self, reached: Reached, on: &[bool], preference: Preference) -> Option<Visit> {
        let first = self
            .visits
            .partition_point(|visit| visit.at <= reached.segment_at);
        let behind = self.visits.partition_point(|visit| visit.at <= reached.at);
        let inside = &self.visits[first..behind];
        debug_assert!(
            inside.iter().all(|visit| !on[visit.point as usize]),
            "else the segment had ended"
        );
        let half = reached.segment_at + (reached.at - reached.segment_at) / 2;
        let near = &inside[inside.partition_point(|visit| visit.at <= half)..];
        let chosen = match preference {
            Preference::Rarest => near
                .iter()
                .rev()
                .min_by_key(|visit| self.frequencies[visit.point as usize])
                .or(inside.last()),
            Preference::Nearest => inside.last(),
        };
        chosen.or(self.visits.get(behind)).copied()
    }

    fn name(&self, visit: Visit) -> u64 {
        self.points[visit.point as usize]
    }

    fn wanted(&self, at: u32, placed: Placed) -> Wanted {
        let fetch = &self.operation.fetches()[at as usize];
        Wanted {
            at,
            address: fetch.address,
            latched: fetch.latched,
            placed,
        }
    }

    /// Calls by point, of all that are on and come by.
    fn executed(&self, on: &[bool], segments: &Segments) -> BTreeMap<u64, u64> {
        let points = self.points.iter().zip(on).filter(|(_, on)| **on);
        let mut executed: BTreeMap<u64, u64> = points.map(|(&point, _)| (point, 0)).collect();
        for call in &segments.calls {
            *executed.entry(call.point).or_default() += 1;
        }
        executed
    }
}
