//! One core, simulated from a trace of instructions: first-level caches for instructions and data, a second level for both, branches.
//!
//! ```text
//!   instruction ──▶ L1-I ──┐
//!                          ├──▶ L2 ──▶ memory        an access asks the second level where the first misses;
//!   its data ─────▶ L1-D ──┘                         both then hold the line. Neither includes the other
//!   its branch ───▶ predictor
//! ```
//!
//! A [`Core`] is an [`InstructionSink`]: hand it to a tracer, or play a kept trace into it. All threads of a trace share it, as
//! members of a team do. To count in warm caches let it see the operation some times, then [`Core::forget_counts`]. Counts are labelled
//! `simulated` where they are shown.
//!
//! As in [`crate::hierarchy`] there are no hardware prefetchers, and writing back costs nothing. An instruction or an access that spans
//! lines needs each of them. Time is not known here; teams and points are [`crate::instruction_cache`]'s.

mod predictor;

use std::collections::BTreeMap;
use std::ops::{Add, Sub};

use corun_model::teams::instructions::{DataAccess, Event, Flow, Instruction, InstructionSink};

use crate::cache::{Geometry, MASKED_WAYS_MAX, Replacement, SetAssociative};
use predictor::Predictor;
pub use predictor::PredictorShape;

/// A core's caches and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreShape {
    /// First level, instructions.
    pub l1i: Geometry,
    /// First level, data.
    pub l1d: Geometry,
    /// Second level, both.
    pub l2: Geometry,
    /// How all of them replace.
    pub replacement: Replacement,
    /// Branches.
    pub predictor: PredictorShape,
    /// Whether to count each thread by itself as well.
    pub by_thread: bool,
}

/// A core that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// A tree of bits is kept over a word's worth of ways.
    #[error("tree replacement goes with at most {MASKED_WAYS_MAX} ways, not {0}; take least recently used")]
    TreeWays(u32),
    /// The predictor's tables.
    #[error("a predictor remembers 1 to 24 outcomes and 2^1 to 2^24 targets, not {0} and 2^{1}")]
    Predictor(u32, u32),
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that began.
    pub operations: u64,
    /// Instructions.
    pub instructions: u64,
    /// Lines of instructions that L1-I did not have.
    pub l1i_misses: u64,
    /// Of these, what L2 did not have.
    pub l2_instruction_misses: u64,
    /// Lines read or written.
    pub data_lines: u64,
    /// Of these, what L1-D did not have.
    pub l1d_misses: u64,
    /// Of these, what L2 did not have.
    pub l2_data_misses: u64,
    /// Branches of all kinds: conditional, direct, indirect, calls, returns.
    pub branches: u64,
    /// Conditional ones.
    pub conditional: u64,
    /// Conditional ones predicted wrongly.
    pub conditional_mispredicted: u64,
    /// Indirect jumps and calls predicted wrongly.
    pub indirect_mispredicted: u64,
    /// Returns predicted wrongly.
    pub returns_mispredicted: u64,
}

impl Counts {
    /// Branches predicted wrongly.
    pub fn mispredicted(&self) -> u64 {
        self.conditional_mispredicted + self.indirect_mispredicted + self.returns_mispredicted
    }

    /// Lines that L2 did not have.
    pub fn l2_misses(&self) -> u64 {
        self.l2_instruction_misses + self.l2_data_misses
    }

    fn with(self, other: Self, apply: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            operations: apply(self.operations, other.operations),
            instructions: apply(self.instructions, other.instructions),
            l1i_misses: apply(self.l1i_misses, other.l1i_misses),
            l2_instruction_misses: apply(self.l2_instruction_misses, other.l2_instruction_misses),
            data_lines: apply(self.data_lines, other.data_lines),
            l1d_misses: apply(self.l1d_misses, other.l1d_misses),
            l2_data_misses: apply(self.l2_data_misses, other.l2_data_misses),
            branches: apply(self.branches, other.branches),
            conditional: apply(self.conditional, other.conditional),
            conditional_mispredicted: apply(self.conditional_mispredicted, other.conditional_mispredicted),
            indirect_mispredicted: apply(self.indirect_mispredicted, other.indirect_mispredicted),
            returns_mispredicted: apply(self.returns_mispredicted, other.returns_mispredicted),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, |one, another| one + another)
    }
}

/// What was counted since `other`, an earlier reading of the same core; 0 where that was more.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

/// The core itself.
#[derive(Clone, Debug)]
pub struct Core {
    shape: CoreShape,
    l1i: SetAssociative,
    l1d: SetAssociative,
    l2: SetAssociative,
    predictor: Predictor,
    counts: Counts,
    /// Empty unless asked for; as many as threads were traced.
    by_thread: BTreeMap<u32, Counts>,
}

impl Core {
    /// One with empty caches that knows no branch.
    ///
    /// # Errors
    /// [`CoreError`].
    pub fn new(shape: CoreShape) -> Result<Self, CoreError> {
        let ways = [shape.l1i, shape.l1d, shape.l2].map(|geometry| geometry.ways().0);
        if let Some(&ways) = ways.iter().find(|ways| **ways > MASKED_WAYS_MAX)
            && shape.replacement == Replacement::TreePlru
        {
            return Err(CoreError::TreeWays(ways));
        }
        if !shape.predictor.is_possible() {
            let PredictorShape {
                history_bits,
                target_bits,
            } = shape.predictor;
            return Err(CoreError::Predictor(history_bits, target_bits));
        }
        let cache = |geometry| SetAssociative::with_replacement(geometry, shape.replacement);
        Ok(Self {
            shape,
            l1i: cache(shape.l1i),
            l1d: cache(shape.l1d),
            l2: cache(shape.l2),
            predictor: Predictor::new(shape.predictor),
            counts: Counts::default(),
            by_thread: BTreeMap::new(),
        })
    }

    /// Counts of all threads.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts of one thread; all 0 unless the shape asks for them.
    pub fn counts_of(&self, thread: u32) -> Counts {
        self.by_thread.get(&thread).copied().unwrap_or_default()
    }

    /// Begins to count anew. Caches and predictor keep what they have.
    pub fn forget_counts(&mut self) {
        self.counts = Counts::default();
        self.by_thread.clear();
    }

    /// Empties the caches. Counts and predictor keep what they have.
    pub fn flush(&mut self) {
        let cache = |geometry| SetAssociative::with_replacement(geometry, self.shape.replacement);
        self.l1i = cache(self.shape.l1i);
        self.l1d = cache(self.shape.l1d);
        self.l2 = cache(self.shape.l2);
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) -> Counts {
        let mut counts = Counts {
            instructions: 1,
            ..Counts::default()
        };
        let lines = addresses(instruction.address, u32::from(instruction.bytes), self.shape.l1i);
        for address in lines {
            if !self.l1i.access(address) {
                counts.l1i_misses += 1;
                counts.l2_instruction_misses += u64::from(!self.l2.access(address));
            }
        }
        for &DataAccess { address, bytes, .. } in instruction.accesses {
            for address in addresses(address, bytes, self.shape.l1d) {
                counts.data_lines += 1;
                if !self.l1d.access(address) {
                    counts.l1d_misses += 1;
                    counts.l2_data_misses += u64::from(!self.l2.access(address));
                }
            }
        }
        let wrong = u64::from(!self.predictor.right(instruction));
        counts.branches = u64::from(!matches!(instruction.flow, Flow::Next | Flow::System));
        match instruction.flow {
            Flow::Conditional { .. } => {
                counts.conditional = 1;
                counts.conditional_mispredicted = wrong;
            }
            Flow::IndirectJump { .. } | Flow::IndirectCall { .. } => counts.indirect_mispredicted = wrong,
            Flow::Return { .. } => counts.returns_mispredicted = wrong,
            Flow::Next | Flow::Jump { .. } | Flow::Call { .. } | Flow::System => {}
        }
        counts
    }
}

impl InstructionSink for Core {
    fn event(&mut self, event: &Event<'_>) {
        let (thread, counts) = match event {
            Event::Instruction(instruction) => (instruction.thread, self.instruction(instruction)),
            Event::Begin { thread } => {
                let operations = 1;
                (
                    *thread,
                    Counts {
                        operations,
                        ..Counts::default()
                    },
                )
            }
            Event::End { .. } | Event::LatchEnter { .. } | Event::LatchLeave { .. } | Event::Ctx { .. } => {
                return;
            }
        };
        self.counts = self.counts + counts;
        if self.shape.by_thread {
            let of_thread = self.by_thread.entry(thread).or_default();
            *of_thread = *of_thread + counts;
        }
    }
}

/// An address in each line that `bytes` bytes from `first` lie in; none for no byte. The end of the address space ends them.
fn addresses(first: u64, bytes: u32, geometry: Geometry) -> impl Iterator<Item = u64> {
    let line = geometry.line().0;
    let last = first.saturating_add(u64::from(bytes.max(1)) - 1);
    let lines = first / line..=last / line;
    lines
        .map(move |number| number * line)
        .take(if bytes == 0 { 0 } else { usize::MAX })
}
