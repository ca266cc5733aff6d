//! [`Team`]: members run through one cache, segment by segment in turn, with the code of the switch.
//!
//! Where [`super::place`] judges by one member, this follows all of them exactly: what a member finds in the cache is what the members
//! before it left there, their own paths, and the lines of the switch. Not here: strays; each member stays until its operation ends.

use std::collections::HashSet;

use super::operation::Operation;
use super::original::{WARM_ROUNDS_MAX, each_miss};
use super::place::{Candidates, visits_of};
use super::references::{Numbering, Reference};
use super::{CodeCache, InstructionCacheError};
use crate::cache::SetAssociative;

/// Code that runs each time the CPU passes from one member to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCode {
    /// First byte.
    pub address: u64,
    /// Its length; the paper's has 76 bytes.
    pub bytes: u32,
}

/// What the cache holds before the first member runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing. Members one by one find it empty each, as in the paper's Fig. 5.
    Cold,
    /// What the same members left there the time before.
    Warm,
}

/// What a team missed, in lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamMisses {
    /// By member. The first is the leading one as long as it has not ended.
    pub members: Vec<u64>,
    /// In the code of the switch.
    pub switch: u64,
    /// How often that ran.
    pub switches: u64,
}

impl TeamMisses {
    /// All together.
    pub fn total(&self) -> u64 {
        self.members.iter().sum::<u64>() + self.switch
    }

    /// What each member but the first added, the switches included. `None` for fewer than two.
    pub fn additional(&self) -> Option<f64> {
        let (first, others) = self.members.split_first()?;
        (!others.is_empty()).then(|| (self.total() - first) as f64 / others.len() as f64)
    }
}

/// Operations, ready to be run by as many members as asked.
#[derive(Debug)]
pub struct Team {
    cache: CodeCache,
    operations: Vec<Path>,
    switch: Vec<Reference>,
}

/// What a member does: lines it needs, and where it calls.
#[derive(Debug)]
struct Path {
    references: Vec<Reference>,
    /// Indexes of instructions, in order.
    calls: Vec<u32>,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    index: usize,
    reference: usize,
    call: usize,
}

impl Team {
    /// Members take these operations in turn: one trace is run by all of them. They switch at visits of the candidates that `points`
    /// names, outside latches.
    ///
    /// # Errors
    /// [`InstructionCacheError::Empty`] without operations, or if one of them has no instruction.
    pub fn new(
        cache: CodeCache,
        operations: &[Operation],
        candidates: Candidates<'_>,
        points: impl Fn(u64) -> bool,
        switch: Option<SwitchCode>,
    ) -> Result<Self, InstructionCacheError> {
        if operations.is_empty() || operations.iter().any(|operation| operation.fetches().is_empty()) {
            return Err(InstructionCacheError::Empty);
        }
        let mut numbering = Numbering::new(cache.geometry());
        let path = |operation: &Operation, numbering: &mut Numbering| {
            let (visits, names) = visits_of(operation, candidates);
            let on: HashSet<u32> = (0..names.len() as u32)
                .filter(|&point| points(names[point as usize]))
                .collect();
            let calls = visits.iter().filter(|visit| on.contains(&visit.point));
            Path {
                references: numbering.of(operation),
                calls: calls.map(|visit| visit.at).collect(),
            }
        };
        let paths = operations
            .iter()
            .map(|operation| path(operation, &mut numbering))
            .collect();
        let mut switch_references = Vec::new();
        if let Some(code) = switch {
            let last = code.address.saturating_add(u64::from(code.bytes.max(1)) - 1);
            let line_bytes = cache.line_bytes();
            for line in code.address / line_bytes..=last / line_bytes {
                switch_references.push(numbering.of_line(0, line));
            }
        }
        Ok(Self {
            cache,
            operations: paths,
            switch: switch_references,
        })
    }

    /// So many members as a team: each runs until its next call or its end, then the next.
    pub fn together(&self, members: usize, start: Start) -> TeamMisses {
        self.started(start, |cache| self.round_robin(members, cache))
    }

    /// The same members one after the other, without a call.
    pub fn one_by_one(&self, members: usize, start: Start) -> TeamMisses {
        self.started(start, |cache| {
            let misses = (0..members).map(|member| {
                if start == Start::Cold {
                    *cache = self.cache.empty();
                }
                count(cache, &self.path(member).references)
            });
            TeamMisses {
                members: misses.collect(),
                ..TeamMisses::default()
            }
        })
    }

    fn path(&self, member: usize) -> &Path {
        &self.operations[member % self.operations.len()]
    }

    /// Runs once, or again and again until nothing changes.
    fn started(&self, start: Start, run: impl Fn(&mut SetAssociative) -> TeamMisses) -> TeamMisses {
        let mut cache = self.cache.empty();
        let mut misses = run(&mut cache);
        if start == Start::Warm {
            for _ in 0..WARM_ROUNDS_MAX {
                let before = std::mem::replace(&mut misses, run(&mut cache));
                if before == misses {
                    break;
                }
            }
        }
        misses
    }

    fn round_robin(&self, members: usize, cache: &mut SetAssociative) -> TeamMisses {
        let mut misses = TeamMisses {
            members: vec![0; members],
            ..TeamMisses::default()
        };
        let mut running: Vec<Member> = (0..members)
            .map(|index| Member {
                index,
                ..Member::default()
            })
            .collect();
        while !running.is_empty() {
            let mut left = running.len();
            running.retain_mut(|member| {
                let path = self.path(member.index);
                let from = member.reference;
                let until = path.calls.get(member.call).map_or(path.references.len(), |&at| {
                    path.references.partition_point(|reference| reference.at < at)
                });
                misses.members[member.index] += count(cache, &path.references[from..until]);
                member.reference = until;
                let stays = member.call < path.calls.len();
                member.call += 1;
                left -= usize::from(!stays);
                // The last to end passes the CPU to nobody.
                if left > 0 {
                    misses.switch += count(cache, &self.switch);
                    misses.switches += 1;
                }
                stays
            });
        }
        misses
    }
}

fn count(cache: &mut SetAssociative, references: &[Reference]) -> u64 {
    let mut misses = 0;
    each_miss(references, cache, |_| misses += 1);
    misses
}
