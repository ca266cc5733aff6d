//! [`Predictor`]: where a core believes a branch leads.
//!
//! ```text
//!   conditional      address ^ last outcomes ──▶ 2-bit counter ──▶ taken?      gshare (McFarling, 1993)
//!   indirect         address ──▶ entry of the target buffer ──▶ target         the last one, if the entry is this branch's
//!   return           newest of 16 return addresses ──▶ target                  filled by calls; the oldest is overwritten
//! ```
//!
//! Direct jumps and calls, and where a conditional branch leads if taken, are always right. Processors of today predict more than this:
//! longer histories, indirect targets by history. So these are mispredictions of a plain, known predictor, to be set beside each other,
//! not those of a given processor.

use corun_model::teams::instructions::{Flow, Instruction};

/// Return addresses kept.
const RETURNS: usize = 16;
/// More would be gigabytes, and fewer than one is none.
const BITS_MAX: u32 = 24;

/// Sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictorShape {
    /// Outcomes of conditional branches remembered; there are 2 to the power of it counters. 1 to 24.
    pub history_bits: u32,
    /// The target buffer has 2 to the power of it entries. 1 to 24.
    pub target_bits: u32,
}

impl Default for PredictorShape {
    /// 16 Ki counters of 2 bits (4 KiB) and 4 Ki targets: about what cores of the 2000s had. Unmeasured.
    fn default() -> Self {
        Self {
            history_bits: 14,
            target_bits: 12,
        }
    }
}

impl PredictorShape {
    pub(super) fn is_possible(self) -> bool {
        (1..=BITS_MAX).contains(&self.history_bits) && (1..=BITS_MAX).contains(&self.target_bits)
    }
}

/// The tables.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    // Fixed.
    shape: PredictorShape,
    // Changing. Counters are 0 to 3, and from 2 on say taken.
    history: u64,
    counters: Vec<u8>,
    targets: Vec<Option<(u64, u64)>>,
    returns: [u64; RETURNS],
    // How many return addresses were pushed and not popped or overwritten, and where the next one goes.
    returns_kept: usize,
    return_next: usize,
}

impl Predictor {
    /// Knows nothing: branches are weakly not taken. The shape is possible.
    pub fn new(shape: PredictorShape) -> Self {
        Self {
            shape,
            history: 0,
            counters: vec![1; 1 << shape.history_bits],
            targets: vec![None; 1 << shape.target_bits],
            returns: [0; RETURNS],
            returns_kept: 0,
            return_next: 0,
        }
    }

    /// Whether it was right about this instruction, and what it learns from it. Right about any that is no branch.
    pub fn right(&mut self, instruction: &Instruction<'_>) -> bool {
        let address = instruction.address;
        match instruction.flow {
            Flow::Next | Flow::Jump { .. } | Flow::System => true,
            Flow::Conditional { taken, .. } => self.conditional(address, taken),
            Flow::IndirectJump { target } => self.indirect(address, target),
            Flow::Call { .. } => {
                self.called(instruction);
                true
            }
            Flow::IndirectCall { target } => {
                self.called(instruction);
                self.indirect(address, target)
            }
            Flow::Return { target } => self.returned(target),
        }
    }

    fn conditional(&mut self, address: u64, taken: bool) -> bool {
        let mask = (1 << self.shape.history_bits) - 1;
        let counter = &mut self.counters[((address ^ self.history) & mask) as usize];
        let right = (*counter >= 2) == taken;
        *counter = if taken {
            (*counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        self.history = (self.history << 1 | u64::from(taken)) & mask;
        right
    }

    fn indirect(&mut self, address: u64, target: u64) -> bool {
        let mask = (1 << self.shape.target_bits) - 1;
        let entry = &mut self.targets[(address & mask) as usize];
        entry.replace((address, target)) == Some((address, target))
    }

    fn called(&mut self, call: &Instruction<'_>) {
        self.returns[self.return_next] = call.address.wrapping_add(u64::from(call.bytes));
        self.return_next = (self.return_next + 1) % RETURNS;
        self.returns_kept = (self.returns_kept + 1).min(RETURNS);
    }

    fn returned(&mut self, target: u64) -> bool {
        if self.returns_kept == 0 {
            return false;
        }
        self.returns_kept -= 1;
        self.return_next = (self.return_next + RETURNS - 1) % RETURNS;
        self.returns[self.return_next] == target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(predictor: &mut Predictor, branches: impl IntoIterator<Item = (u64, Flow)>) -> usize {
        let right = branches.into_iter().map(|(address, flow)| {
            predictor.right(&Instruction {
                thread: 1,
                address,
                bytes: 5,
                flow,
                accesses: &[],
            })
        });
        right.filter(|right| !right).count()
    }

    fn conditional(taken: bool) -> (u64, Flow) {
        (0x40, Flow::Conditional { taken, target: 0 })
    }

    #[test]
    fn a_pattern_within_the_history_is_learnt() {
        let shape = PredictorShape {
            history_bits: 4,
            target_bits: 4,
        };
        // Taken three times, then not: the last four outcomes say which comes next.
        let pattern = |rounds: usize| (0..4 * rounds).map(|at| conditional(at % 4 != 3));
        let mut predictor = Predictor::new(shape);
        assert!(wrong(&mut predictor, pattern(8)) > 0);
        assert_eq!(wrong(&mut predictor, pattern(100)), 0);
        // Two outcomes are too few to tell where in a row of three it is. After two that were taken comes one, then the other, and
        // the counter there swings between its two middle values, wrong each time.
        let mut short = Predictor::new(PredictorShape {
            history_bits: 2,
            ..shape
        });
        wrong(&mut short, pattern(8));
        assert_eq!(wrong(&mut short, pattern(100)), 200);
    }

    #[test]
    fn an_indirect_branch_leads_where_it_last_did() {
        let mut predictor = Predictor::new(PredictorShape::default());
        let jump = |target| (0x80, Flow::IndirectJump { target });
        assert_eq!(wrong(&mut predictor, [1, 1, 1, 2, 2, 1].map(jump)), 3);
        // Another one in the same entry.
        let call = |target| (0x80 + (1 << 12), Flow::IndirectCall { target });
        assert_eq!(wrong(&mut predictor, [call(1), jump(1), call(1)]), 3);
    }

    #[test]
    fn sixteen_returns_are_known() {
        for (depth, unknown) in [(1, 0), (16, 0), (17, 1), (20, 4)] {
            let mut predictor = Predictor::new(PredictorShape::default());
            let calls = (0..depth).map(|at| (at * 100, Flow::Call { target: 0 }));
            assert_eq!(wrong(&mut predictor, calls), 0);
            let returns = (0..depth)
                .rev()
                .map(|at| (7, Flow::Return { target: at * 100 + 5 }));
            assert_eq!(wrong(&mut predictor, returns), unknown, "{depth} deep");
            assert_eq!(
                wrong(&mut predictor, [(7, Flow::Return { target: 5 })]),
                1,
                "nothing left"
            );
        }
    }

    #[test]
    fn what_does_not_guess_is_right() {
        let mut predictor = Predictor::new(PredictorShape::default());
        let flows = [Flow::Next, Flow::Jump { target: 9 }, Flow::System];
        assert_eq!(wrong(&mut predictor, flows.map(|flow| (1, flow))), 0);
    }
}
