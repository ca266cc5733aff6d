//! The orders in which the stages of many tuples run: one [`Driver`] a technique, advanced bit by bit so that a traced run can
//! interleave several on one thread.
//!
//! ```text
//!   Plain      a........ b........ c........
//!   Group      a1 b1 c1 | a2 b2 c2 | a3 b3 c3 | d1 e1 f1 ...
//!   Pipeline   a1 | b1 a2 | c1 b2 a3 | d1 c2 b3 | ...        (distance 1)
//!   Ring       a1 b1 c1 a2 b2 c2 (a ended) d1 b3 c3 d2 ...   (AMAC; with needs ignored: staged without latency hiding)
//!   Ahead      as Ring, through the entries of a work-ahead set
//! ```

use super::context::{Context, Posting};
use super::work_ahead::Main;
use super::{Staged, Step};

/// Every `stride`-th tuple from `next` on, below `end`: one worker's share of a probe stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuples {
    next: usize,
    end: usize,
    stride: usize,
    taken: usize,
}

impl Tuples {
    /// Tuples `worker`, `worker + workers`, ... below `end`.
    pub(super) fn share(end: usize, worker: usize, workers: usize) -> Tuples {
        Tuples {
            next: worker,
            end,
            stride: workers,
            taken: 0,
        }
    }

    #[inline(always)]
    fn take(&mut self) -> Option<usize> {
        let tuple = self.next;
        if tuple >= self.end {
            return None;
        }
        self.next = tuple.saturating_add(self.stride);
        self.taken += 1;
        Some(tuple)
    }

    fn left(&self) -> usize {
        self.end.saturating_sub(self.next).div_ceil(self.stride)
    }

    /// No more tuples are handed out: those begun will end.
    fn stop(&mut self) {
        self.end = self.next.min(self.end);
    }
}

/// One technique at work on one share of the tuples.
pub(super) trait Driver<'a, const M: usize, O: Staged<'a, M>> {
    /// Does a bit of work: a tuple, a stage or a group. `false` when everything has ended.
    fn advance<C: Context<'a>>(&mut self, operator: &O, output: &mut O::Output, context: &mut C) -> bool;

    /// Starts no more tuples; those begun go on to their end.
    fn stop(&mut self);

    /// Tuples begun so far.
    fn begun(&self) -> usize;
}

/// One tuple after the other, unstaged.
pub(super) struct Plain(pub(super) Tuples);

impl<'a, const M: usize, O: Staged<'a, M>> Driver<'a, M, O> for Plain {
    #[inline(always)]
    fn advance<C: Context<'a>>(&mut self, operator: &O, output: &mut O::Output, context: &mut C) -> bool {
        match self.0.take() {
            Some(tuple) => {
                operator.plain(tuple, output, context);
                true
            }
            None => false,
        }
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn begun(&self) -> usize {
        self.0.taken
    }
}

/// A group goes through each stage together; the next group begins when its last tuple has ended.
pub(super) struct Group<S> {
    tuples: Tuples,
    states: Vec<S>,
    distance: usize,
}

impl<S: Copy + Default> Group<S> {
    pub(super) fn new(tuples: Tuples, distance: usize) -> Self {
        let distance = distance.min(tuples.left()).max(1);
        Group {
            tuples,
            states: vec![S::default(); distance],
            distance,
        }
    }
}

impl<'a, const M: usize, O: Staged<'a, M>> Driver<'a, M, O> for Group<O::State> {
    #[inline(always)]
    fn advance<C: Context<'a>>(&mut self, operator: &O, output: &mut O::Output, context: &mut C) -> bool {
        let mut live = 0;
        for state in &mut self.states[..self.distance] {
            let Some(tuple) = self.tuples.take() else { break };
            operator.begin(tuple, state, output, context);
            live += 1;
        }
        if live == 0 {
            return false;
        }
        while live > 0 {
            // Tuples that wait move to the front, so that ended ones cost nothing in the next stage.
            let mut waiting = 0;
            for at in 0..live {
                let state = &mut self.states[at];
                if operator.resume(state, output, context) == Step::Wait {
                    if waiting != at {
                        self.states[waiting] = self.states[at];
                    }
                    waiting += 1;
                }
            }
            live = waiting;
        }
        true
    }

    fn stop(&mut self) {
        self.tuples.stop();
    }

    fn begun(&self) -> usize {
        self.tuples.taken
    }
}

/// A tuple in a pipeline or a ring.
#[derive(Clone, Copy, Default)]
struct InFlight<S> {
    state: S,
    live: bool,
}

/// Stages of a pipeline at most: it bounds the memory that an operator's guess can take. What a tuple needs beyond them is
/// done on the spot.
const STAGES_MAX: usize = 64;

/// A software pipeline: each turn begins one tuple and resumes the one begun `distance` turns before, the one before that,
/// and so on for as many stages as the operator usually has. A tuple that needs more goes through the pipeline again, in
/// place of a new one. Finishing it on the spot was measured and rejected: chains of two cells are common, and one miss in
/// full costs more than the prefetching of four others saves.
pub(super) struct Pipeline<S> {
    tuples: Tuples,
    /// A power of two of tuples, at least `distance * stages + 1`; turn `t` begins at `t & mask`.
    ring: Vec<InFlight<S>>,
    turn: usize,
    distance: usize,
    stages: usize,
    /// A tuple that has come to the end of the pipeline and waits still.
    again: Option<S>,
    /// Turns in which no tuple entered, since the last one did.
    drained: usize,
}

impl<S: Copy + Default> Pipeline<S> {
    pub(super) fn new(tuples: Tuples, distance: usize, stages: usize) -> Self {
        let distance = distance.min(tuples.left()).max(1);
        let stages = stages.clamp(1, STAGES_MAX);
        Pipeline {
            tuples,
            ring: vec![
                InFlight {
                    state: S::default(),
                    live: false
                };
                (distance * stages + 1).next_power_of_two()
            ],
            turn: 0,
            distance,
            stages,
            again: None,
            drained: 0,
        }
    }
}

impl<'a, const M: usize, O: Staged<'a, M>> Driver<'a, M, O> for Pipeline<O::State> {
    #[inline(always)]
    fn advance<C: Context<'a>>(&mut self, operator: &O, output: &mut O::Output, context: &mut C) -> bool {
        let mask = self.ring.len() - 1;
        let first = &mut self.ring[self.turn & mask];
        self.drained += 1;
        first.live = true;
        if let Some(state) = self.again.take() {
            first.state = state;
            self.drained = 0;
        } else if let Some(tuple) = self.tuples.take() {
            operator.begin(tuple, &mut first.state, output, context);
            self.drained = 0;
        } else {
            first.live = false;
        }
        for stage in 1..=self.stages {
            let back = stage * self.distance;
            if back > self.turn {
                break;
            }
            let flight = &mut self.ring[(self.turn - back) & mask];
            if !flight.live {
                continue;
            }
            flight.live = operator.resume(&mut flight.state, output, context) == Step::Wait;
            if flight.live && stage == self.stages {
                self.again = Some(flight.state);
            }
        }
        self.turn += 1;
        self.again.is_some() || self.drained <= self.distance * self.stages
    }

    fn stop(&mut self) {
        self.tuples.stop();
    }

    fn begun(&self) -> usize {
        self.tuples.taken
    }
}

/// A ring of tuples, each at its own stage; one that ends is replaced at once.
pub(super) struct Ring<S> {
    tuples: Tuples,
    slots: Vec<InFlight<S>>,
    next: usize,
    live: usize,
}

impl<S: Copy + Default> Ring<S> {
    pub(super) fn new(tuples: Tuples, distance: usize) -> Self {
        let distance = distance.min(tuples.left()).max(1);
        Ring {
            tuples,
            slots: vec![
                InFlight {
                    state: S::default(),
                    live: false
                };
                distance
            ],
            next: 0,
            live: 0,
        }
    }
}

impl<'a, const M: usize, O: Staged<'a, M>> Driver<'a, M, O> for Ring<O::State> {
    #[inline(always)]
    fn advance<C: Context<'a>>(&mut self, operator: &O, output: &mut O::Output, context: &mut C) -> bool {
        let at = self.next;
        self.next += 1;
        if self.next == self.slots.len() {
            self.next = 0;
        }
        let slot = &mut self.slots[at];
        if slot.live {
            if operator.resume(&mut slot.state, output, context) == Step::Wait {
                return true;
            }
            slot.live = false;
            self.live -= 1;
        }
        if let Some(tuple) = self.tuples.take() {
            operator.begin(tuple, &mut slot.state, output, context);
            slot.live = true;
            self.live += 1;
        }
        self.live > 0
    }

    fn stop(&mut self) {
        self.tuples.stop();
    }

    fn begun(&self) -> usize {
        self.tuples.taken
    }
}

/// The main thread's side of a work-ahead set (paper 000, section 4): one post a turn, and one stage of whatever came back.
pub(super) struct Ahead<'s, 'a, S, const M: usize> {
    tuples: Tuples,
    main: Main<'s, 'a, S, M>,
    /// What the tuple that was last resumed needs next, to be posted in the next turn.
    needs: Posting<'a, M>,
    carried: Option<S>,
    /// Tuples begun and not ended.
    live: usize,
}

impl<'s, 'a, S: Copy + Default, const M: usize> Ahead<'s, 'a, S, M> {
    pub(super) fn new(tuples: Tuples, main: Main<'s, 'a, S, M>) -> Self {
        Ahead {
            tuples,
            main,
            needs: Posting::new(),
            carried: None,
            live: 0,
        }
    }

    /// One turn. `posting` makes the context that collects a stage's needs, `collected` takes them out of it again: a traced
    /// run wraps the collector.
    #[inline(always)]
    pub(super) fn turn<O: Staged<'a, M, State = S>, C: Context<'a>>(
        &mut self,
        operator: &O,
        output: &mut O::Output,
        posting: impl Fn(Posting<'a, M>) -> C,
        collected: impl Fn(C) -> Posting<'a, M>,
    ) -> bool {
        if self.carried.is_none()
            && !self.main.is_full()
            && let Some(tuple) = self.tuples.take()
        {
            let mut state = S::default();
            let mut context = posting(Posting::new());
            operator.begin(tuple, &mut state, output, &mut context);
            self.needs = collected(context);
            self.carried = Some(state);
            self.live += 1;
        }
        let old = match self.carried.take() {
            Some(state) => self.main.post(self.needs.references(), state),
            None => self.main.post_nothing(),
        };
        if let Some(mut state) = old {
            let mut context = posting(Posting::new());
            match operator.resume(&mut state, output, &mut context) {
                Step::Wait => {
                    self.needs = collected(context);
                    self.carried = Some(state);
                }
                Step::Done => self.live -= 1,
            }
        }
        self.live > 0 || self.tuples.left() > 0
    }

    pub(super) fn stop(&mut self) {
        self.tuples.stop();
    }

    pub(super) fn begun(&self) -> usize {
        self.tuples.taken
    }
}
