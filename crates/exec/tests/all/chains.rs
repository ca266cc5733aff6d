//! A staged operator for tests: it follows chains of cells through memory and folds what it finds, in an order that matters.
//!
//! Shared by the property tests, the small tests for Miri and the fuzz target. Not an operator anybody should run: it reports
//! its own mistakes (a tuple begun or ended twice, a stage after the end) by panicking.

#![allow(dead_code, reason = "each of the programs that share it uses a part")]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use corun_exec::stage::{Context, Place, Reference, Staged, Step, Thread};
use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads, WorkAhead};
use corun_model::operators::trace::Access;

/// No cell follows.
pub const END: u32 = u32::MAX;

/// One cell of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub value: u64,
    /// Number of the next cell, or [`END`].
    pub next: u32,
    /// Words beside the chain that its stage reads too: each is one more reference.
    pub words: u8,
}

/// What chains are made of; several operators may share it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The first cell of each tuple, or [`END`].
    pub heads: Vec<u32>,
    pub cells: Vec<Cell>,
    /// At least as many words as cells, and a few more: the words of cell `i` are `words[i..i + cell.words]`.
    pub words: Vec<u64>,
}

/// The most words beside a cell.
pub const WORDS_MAX: usize = 3;

impl Memory {
    /// One chain for each of `lengths`; a cell has between `words_min` and `words_max` words. Cells of different chains lie
    /// between each other, so that a confused state is a wrong answer.
    pub fn new(lengths: &[u8], words_min: usize, words_max: usize) -> Memory {
        assert!(words_min <= words_max && words_max <= WORDS_MAX);
        let mut memory = Memory {
            heads: vec![END; lengths.len()],
            ..Memory::default()
        };
        let mut waiting: VecDeque<(usize, u8)> = lengths.iter().copied().enumerate().collect();
        while let Some((tuple, left)) = waiting.pop_front() {
            if left == 0 {
                continue;
            }
            let number = memory.cells.len();
            let scrambled = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            memory.cells.push(Cell {
                value: scrambled,
                next: memory.heads[tuple],
                words: (words_min + (scrambled >> 40) as usize % (words_max - words_min + 1)) as u8,
            });
            memory.heads[tuple] = number as u32;
            waiting.push_back((tuple, left - 1));
        }
        memory.words = (0..memory.cells.len() + WORDS_MAX)
            .map(|word| (word as u64).wrapping_mul(0xd6e8_feb8_6659_fd93))
            .collect();
        memory
    }

    fn folded(&self, cell: u32, sum: u64) -> u64 {
        let own = self.cells[cell as usize];
        let words = &self.words[cell as usize..][..usize::from(own.words)];
        words.iter().fold(sum.rotate_left(7) ^ own.value, |sum, word| {
            sum.wrapping_mul(31).wrapping_add(*word)
        })
    }

    /// The answers of tuples `from`, `from + step`, ..., naively.
    pub fn oracle(&self, from: usize, step: usize) -> Vec<(usize, u64)> {
        (from..self.heads.len())
            .step_by(step)
            .map(|tuple| {
                let (mut sum, mut cell) = (0, self.heads[tuple]);
                while cell != END {
                    sum = self.folded(cell, sum);
                    cell = self.cells[cell as usize].next;
                }
                (tuple, sum)
            })
            .collect()
    }

    /// The addresses that tuple `tuple` touches, in order.
    pub fn addresses(&self, tuple: usize) -> Vec<u64> {
        let mut addresses = Vec::new();
        let mut cell = self.heads[tuple];
        while cell != END {
            let own = &self.cells[cell as usize];
            addresses.push(std::ptr::from_ref(own) as u64);
            let words = &self.words[cell as usize..][..usize::from(own.words)];
            addresses.extend(words.iter().map(|word| std::ptr::from_ref(word) as u64));
            cell = own.next;
        }
        addresses
    }
}

/// What befalls an operator that does not just work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Panics when this tuple is resumed.
    Panics(usize),
    /// Needs this many references more than it declares, for every tuple.
    NeedsMore(usize),
}

/// Follows the chains of `memory`. A stage needs `MIN` to `M` references.
pub struct Chains<'a, const MIN: usize, const M: usize> {
    pub memory: &'a Memory,
    /// What it says of its usual stages, right or wrong.
    pub stages: usize,
    pub fault: Option<Fault>,
    /// Called with the number of each tuple that begins.
    pub begins: &'a (dyn Fn(usize) + Sync),
}

impl<'a, const MIN: usize, const M: usize> Chains<'a, MIN, M> {
    pub fn over(memory: &'a Memory) -> Self {
        Chains {
            memory,
            stages: 2,
            fault: None,
            begins: &|_| {},
        }
    }

    fn need(&self, cell: u32, context: &mut impl Context<'a>) {
        let own = &self.memory.cells[cell as usize];
        context.need(Reference::to(own));
        for word in &self.memory.words[cell as usize..][..usize::from(own.words)] {
            context.need(Reference::to(word));
        }
        if let Some(Fault::NeedsMore(more)) = self.fault {
            (0..more).for_each(|_| context.need(Reference::to(own)));
        }
    }

    fn touch(&self, cell: u32, context: &mut impl Context<'a>) {
        let own = &self.memory.cells[cell as usize];
        context.touch(Access::Load, std::ptr::from_ref(own).cast(), size_of::<Cell>());
        for word in &self.memory.words[cell as usize..][..usize::from(own.words)] {
            context.touch(Access::Load, std::ptr::from_ref(word).cast(), size_of::<u64>());
        }
    }
}

/// A tuple in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Following {
    /// Its place in the output.
    place: usize,
    tuple: usize,
    cell: u32,
    sum: u64,
    ended: bool,
}

/// Answers in the order in which their tuples began; a place is empty until its tuple ends.
pub type Answers = Vec<(usize, Option<u64>)>;

impl<'a, const MIN: usize, const M: usize> Staged<'a, M> for Chains<'a, MIN, M> {
    type State = Following;
    type Output = Answers;
    const REFERENCES_MIN: usize = MIN;

    fn tuples(&self) -> usize {
        self.memory.heads.len()
    }

    fn stages(&self) -> usize {
        self.stages
    }

    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut Following,
        output: &mut Answers,
        context: &mut C,
    ) {
        (self.begins)(tuple);
        *state = Following {
            place: output.len(),
            tuple,
            cell: self.memory.heads[tuple],
            sum: 0,
            ended: false,
        };
        output.push((tuple, None));
        if state.cell != END {
            self.need(state.cell, context);
        }
    }

    fn resume<C: Context<'a>>(&self, state: &mut Following, output: &mut Answers, context: &mut C) -> Step {
        assert!(!state.ended, "a stage after the last one");
        assert!(
            self.fault != Some(Fault::Panics(state.tuple)),
            "tuple {} is told to panic",
            state.tuple
        );
        if state.cell != END {
            self.touch(state.cell, context);
            state.sum = self.memory.folded(state.cell, state.sum);
            state.cell = self.memory.cells[state.cell as usize].next;
            if state.cell != END {
                self.need(state.cell, context);
                return Step::Wait;
            }
        }
        state.ended = true;
        let (tuple, answer) = &mut output[state.place];
        assert_eq!(*tuple, state.tuple, "a state at somebody else's place");
        assert!(answer.replace(state.sum).is_none(), "a tuple ended twice");
        Step::Done
    }

    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut Answers, context: &mut C) {
        (self.begins)(tuple);
        assert!(
            self.fault != Some(Fault::Panics(tuple)),
            "tuple {tuple} is told to panic"
        );
        let (mut sum, mut cell) = (0, self.memory.heads[tuple]);
        while cell != END {
            self.touch(cell, context);
            sum = self.memory.folded(cell, sum);
            cell = self.memory.cells[cell as usize].next;
        }
        output.push((tuple, Some(sum)));
    }
}

/// Asserts that worker `worker` of a run of `mode` over `memory` left its share in `output`, in order.
pub fn check_share(memory: &Memory, mode: Mode, worker: usize, output: &Answers) {
    let (from, step) = match mode.inputs() {
        1 => (worker, mode.workers()),
        _ => (0, 1),
    };
    check_answers(
        &memory.oracle(from, step),
        output,
        &format!("{mode}, worker {worker}"),
    );
}

/// Asserts that all tuples that `output` knows have ended, and that it is `expected`.
pub fn check_answers(expected: &[(usize, u64)], output: &Answers, what: &str) {
    let answers: Vec<(usize, u64)> = output
        .iter()
        .map(|(tuple, answer)| {
            (
                *tuple,
                answer.unwrap_or_else(|| panic!("{what}: tuple {tuple} did not end")),
            )
        })
        .collect();
    assert_eq!(answers, expected, "{what}");
}

/// All of them.
pub const SCHEDULES: [Schedule; 3] = [Schedule::Group, Schedule::Pipeline, Schedule::Amac];

/// Latency hiding by prefetch instructions.
pub fn prefetch(schedule: Schedule, distance: u16) -> Hiding {
    Hiding::Prefetch { schedule, distance }
}

/// The paper's work-ahead set in this size.
pub fn ahead(lines: u32) -> Hiding {
    Hiding::WorkAhead(WorkAhead {
        lines,
        ..WorkAhead::PAPER
    })
}

/// One of each kind, staged, and the plain mode.
pub fn kinds(threads: Threads) -> Vec<Mode> {
    let mut modes = vec![Mode {
        threads,
        ..Mode::PLAIN
    }];
    modes.extend(
        [Hiding::None, ahead(20)]
            .into_iter()
            .chain(SCHEDULES.map(|schedule| prefetch(schedule, 10)))
            .map(|hiding| Mode::staged(threads, hiding)),
    );
    modes
}

/// What a panic said.
pub fn words(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it should panic");
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => (*panic.downcast::<&str>().expect("panics have words")).to_owned(),
    }
}

/// Notes which threads were placed.
#[derive(Default)]
pub struct Notes(Mutex<Vec<Thread>>);

impl Place for Notes {
    fn place(&self, thread: Thread) {
        self.0.lock().unwrap().push(thread);
    }
}

impl Notes {
    pub fn into_inner(self) -> Vec<Thread> {
        self.0.into_inner().unwrap()
    }
}
