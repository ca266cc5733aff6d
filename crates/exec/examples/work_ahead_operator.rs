//! Write your own staged operator: scattered records found by number, each of which may point to another one.
//!
//! ```text
//! cargo run --release -p corun-exec --example work_ahead_operator [-- RECORDS [TUPLES]]
//! ```
//!
//! The operator says what one tuple does between two dereferences and names what it needs next. `corun_exec::stage::run` executes
//! the same code plain, staged with prefetch instructions (AMAC), and with a work-ahead set, whose helper thread loads what
//! the main thread has posted. Answers are compared with a naive loop; times are nanoseconds of wall clock a tuple on this
//! machine, the best of a few runs, other work on it included. The helper pays only on a hardware thread of the same core, and
//! nothing places threads here: a host does that with a `Place`.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::Instant;

use corun_exec::stage::{Context, Options, Reference, Staged, Step, run};
use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads, WorkAhead};

/// A record fills a cache line, so that each step of a tuple is one miss at most.
#[repr(align(64))]
struct Record {
    value: u64,
    /// Number of the record it points to, if any.
    other: Option<u32>,
}

/// For each of `numbers`, the sum of the values of that record and of all that follow it.
struct SumOfChains<'a> {
    records: &'a [Record],
    numbers: &'a [u32],
}

/// What a tuple keeps while it waits. `Default` is only there to fill empty slots.
#[derive(Clone, Copy, Default)]
struct Waiting {
    place: usize,
    number: u32,
    sum: u64,
}

impl<'a> Staged<'a, 1> for SumOfChains<'a> {
    type State = Waiting;
    type Output = Vec<u64>;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.numbers.len()
    }

    fn stages(&self) -> usize {
        2
    }

    // A place in the output is reserved when the tuple begins: so answers stay in order, though tuples end in any.
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut Waiting,
        output: &mut Vec<u64>,
        context: &mut C,
    ) {
        *state = Waiting {
            place: output.len(),
            number: self.numbers[tuple],
            sum: 0,
        };
        output.push(0);
        context.need(Reference::to(&self.records[state.number as usize]));
    }

    fn resume<C: Context<'a>>(&self, state: &mut Waiting, output: &mut Vec<u64>, context: &mut C) -> Step {
        let record = &self.records[state.number as usize];
        state.sum += record.value;
        match record.other {
            Some(other) => {
                state.number = other;
                context.need(Reference::to(&self.records[other as usize]));
                Step::Wait
            }
            None => {
                output[state.place] = state.sum;
                Step::Done
            }
        }
    }

    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut Vec<u64>, _: &mut C) {
        output.push(sum_of_chain(self.records, self.numbers[tuple]));
    }
}

fn sum_of_chain(records: &[Record], number: u32) -> u64 {
    let mut record = &records[number as usize];
    let mut sum = record.value;
    while let Some(other) = record.other {
        record = &records[other as usize];
        sum += record.value;
    }
    sum
}

/// Numbers that look random.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |otherwise: usize| {
        arguments
            .next()
            .map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (records, tuples) = (argument(2_000_000).max(1), argument(1_000_000));

    // A record points only to records before it, so that every chain ends; half of them end one.
    let records: Vec<Record> = (0..records as u64)
        .map(|number| Record {
            value: scrambled(number) >> 32,
            other: (number > 0 && scrambled(number).is_multiple_of(2))
                .then(|| (scrambled(!number) % number) as u32),
        })
        .collect();
    let numbers: Vec<u32> = (0..tuples as u64)
        .map(|tuple| (scrambled(tuple + 7) % records.len() as u64) as u32)
        .collect();
    let expected: Vec<u64> = numbers
        .iter()
        .map(|&number| sum_of_chain(&records, number))
        .collect();
    let operator = SumOfChains {
        records: &records,
        numbers: &numbers,
    };

    println!(
        "{} tuples over {} records of 64 bytes; ns a tuple, measured here",
        tuples,
        records.len()
    );
    let amac = Hiding::Prefetch {
        schedule: Schedule::Amac,
        distance: 32,
    };
    let helped = Hiding::WorkAhead(WorkAhead::PAPER);
    for mode in [
        Mode::PLAIN,
        Mode::staged(Threads::One, amac),
        Mode::staged(Threads::One, helped),
    ] {
        let mut best_ns = f64::INFINITY;
        for _ in 0..3 {
            let mut outputs = [Vec::with_capacity(tuples)];
            let start = Instant::now();
            run(mode, &[&operator], &mut outputs, &Options::default()).expect("a mode that exists");
            best_ns = best_ns.min(start.elapsed().as_secs_f64() * 1e9 / tuples.max(1) as f64);
            assert!(outputs[0] == expected, "{mode} gives another answer");
        }
        println!("{:<44} {best_ns:>8.1}", mode.to_string());
    }
}
