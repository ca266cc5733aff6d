//! One execution cut into segments, and the lines of a segment that leave the cache before it ends (paper 003, section 5.2).
//!
//! ```text
//!   segment 7        a  b  c  d  e  f  g  h  a  c        lines it uses; each is marked 7
//!                                ▼     ▼
//!                                x     b                 lines that leave: x was of an earlier segment, which costs nobody;
//!                                      │                 b is of this one, and every member behind the leading one needs it
//!                                      └─ a STEPS miss
//! ```
//!
//! Not here: which points are on. That is [`super::place`]'s.

use corun_model::teams::Knee;

use super::references::Reference;
use crate::cache::{SetAssociative, Touch};

/// One executed CTX call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the instruction it comes before.
    pub at: u32,
    /// Which point: the instruction's address, or the record of a compiled-in point.
    pub point: u64,
    /// The thread that made it.
    pub thread: u32,
}

/// What a member behind the leading one does and misses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// The calls in order; segments are what is between them.
    pub calls: Vec<Call>,
    /// Index of the instruction at which each STEPS miss came about, in order: the lower curve of the paper's Fig. 15. Their number
    /// is what a non-leading member misses.
    pub misses_at: Vec<u32>,
}

impl Segments {
    /// What a non-leading member misses in one operation.
    pub fn non_leading_misses(&self) -> u64 {
        self.misses_at.len() as u64
    }

    /// STEPS misses of each segment, in order; one element more than there are calls.
    pub fn misses_by_segment(&self) -> Vec<u64> {
        let mut counts = vec![0; self.calls.len() + 1];
        for at in &self.misses_at {
            counts[self.calls.partition_point(|call| call.at <= *at)] += 1;
        }
        counts
    }
}

/// A place where a call could be: execution reached a point outside any latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    /// Index of the instruction it comes before.
    pub at: u32,
    /// Number of the point.
    pub point: u32,
}

/// What a run over the operation is told where a knee begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtKnee {
    /// Go on in the same segment with the knee forgotten.
    GoOn,
    /// Stop: the points that are on have changed.
    Stop,
}

/// A knee that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// First instruction of the segment.
    pub segment_at: u32,
    /// The instruction that began the knee.
    pub at: u32,
}

/// STEPS misses since the last call or forgotten knee.
#[derive(Clone, Copy, Debug)]
struct Climb {
    knee: Knee,
    /// The first and last of those that are less than a knee's width apart, and how many.
    first_at: u32,
    last_at: u32,
    height: u32,
    /// All of them.
    misses: u32,
}

impl Climb {
    fn new(knee: Knee) -> Self {
        Self {
            knee,
            first_at: 0,
            last_at: 0,
            height: 0,
            misses: 0,
        }
    }

    /// One more: where the knee began, if that is what it makes.
    fn miss(&mut self, at: u32) -> Option<u32> {
        if self.height > 0 && u64::from(at - self.last_at) > self.knee.width {
            self.height = 0;
        }
        if self.height == 0 {
            self.first_at = at;
        }
        self.last_at = at;
        self.height += 1;
        self.misses += 1;
        let full = self.height >= self.knee.height || self.misses >= self.knee.height.saturating_mul(2);
        full.then_some(self.first_at)
    }
}

/// Runs the operation once. `cache` is warm; `lines` is how many lines have numbers; `visits` are in order, and `on` says by number
/// which points are on. Without a knee to look for, nothing is asked. Calls as pairs of instruction and point; `None` if stopped.
pub(super) fn run(
    references: &[Reference],
    mut cache: SetAssociative,
    lines: usize,
    visits: &[Visit],
    on: impl Fn(u32) -> bool,
    mut search: Option<(Knee, &mut dyn FnMut(Reached) -> AtKnee)>,
) -> Option<(Vec<Visit>, Vec<u32>)> {
    // The segment that last used each line; the first is 1.
    let mut used_in = vec![0u32; lines];
    let mut segment = 1;
    let mut segment_at = 0;
    let mut climb = search.as_ref().map(|(knee, _)| Climb::new(*knee));
    let (mut calls, mut misses_at) = (Vec::new(), Vec::new());
    let mut visits = visits.iter().copied().peekable();
    let mut last_line = None;
    for reference in references {
        while let Some(visit) = visits.next_if(|visit| visit.at <= reference.at) {
            if on(visit.point) {
                calls.push(visit);
                segment += 1;
                segment_at = visit.at;
                climb = climb.map(|climb| Climb::new(climb.knee));
                last_line = None;
            }
        }
        // The line just used is used again: it is there, and it is marked.
        if last_line == Some(reference.line) {
            continue;
        }
        last_line = Some(reference.line);
        let touch = cache.touch_in_set(u64::from(reference.set), u64::from(reference.line), None);
        used_in[reference.line as usize] = segment;
        let Touch::Replaced(left) = touch else { continue };
        if used_in[left as usize] != segment {
            continue;
        }
        misses_at.push(reference.at);
        let (Some(climbed), Some((_, asked))) = (&mut climb, &mut search) else {
            continue;
        };
        if let Some(at) = climbed.miss(reference.at) {
            match asked(Reached { segment_at, at }) {
                AtKnee::Stop => return None,
                AtKnee::GoOn => *climbed = Climb::new(climbed.knee),
            }
        }
    }
    Some((calls, misses_at))
}
