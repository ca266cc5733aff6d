//! What the tests of operators share: modes, data and naive joins.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unused_macros, reason = "each test file uses a part of it")]

use corun_exec::operators::{RidPair, Row};
use corun_model::operators::mode::{Direction, Hiding, Mode, Schedule, Threads, WorkAhead};

pub const THREADS: [Threads; 4] = [
    Threads::One,
    Threads::TwoIndependent,
    Threads::BiThreaded(2),
    Threads::BiThreaded(3),
];

pub const SCHEDULES: [Schedule; 3] = [Schedule::Group, Schedule::Pipeline, Schedule::Amac];

/// Every mode with these prefetch distances and sizes of work-ahead sets.
pub fn modes(distances: &[u16], lines: &[u32]) -> Vec<Mode> {
    let mut hidings = vec![Hiding::None];
    for schedule in SCHEDULES {
        for &distance in distances {
            hidings.push(Hiding::Prefetch { schedule, distance });
        }
    }
    for &lines in lines {
        for direction in [Direction::Forward, Direction::Backward] {
            for spin in [false, true] {
                hidings.push(Hiding::WorkAhead(WorkAhead {
                    lines,
                    direction,
                    spin,
                }));
            }
        }
    }
    let mut modes = Vec::new();
    for threads in THREADS {
        modes.push(Mode {
            threads,
            ..Mode::PLAIN
        });
        modes.extend(hidings.iter().map(|&hiding| Mode::staged(threads, hiding)));
    }
    modes
}

/// Rows with these keys; payloads tell them apart.
pub fn rows(keys: &[u32], mark: u32) -> Vec<Row> {
    let row = |(number, &key): (usize, &u32)| {
        let mut payload = [mark; 15];
        payload[0] = number as u32;
        payload[14] = !(number as u32);
        Row { key, payload }
    };
    keys.iter().enumerate().map(row).collect()
}

/// Pairs of (tuple number, build row) with equal keys, by tuple.
pub fn naive(build: &[u32], probe: &[u32], order: &[u32]) -> Vec<(usize, RidPair)> {
    let mut pairs = Vec::new();
    for (tuple, &outer) in order.iter().enumerate() {
        for (inner, &key) in build.iter().enumerate() {
            if key == probe[outer as usize] {
                let inner = inner as u32;
                pairs.push((tuple, RidPair { outer, inner }));
            }
        }
    }
    pairs
}

/// What worker `worker` of a mode should find: all of its own input, or its share of the common one.
pub fn share<T: Clone>(mode: Mode, worker: usize, results: &[(usize, T)]) -> Vec<T> {
    let workers = if mode.threads == Threads::TwoIndependent {
        1
    } else {
        mode.workers()
    };
    results
        .iter()
        .filter(|(tuple, _)| tuple % workers == worker % workers)
        .map(|(_, result)| result.clone())
        .collect()
}

/// Runs an operator (a `Copy` type) in a mode with sinks made by `$sink` over `$room` places of `$place` a worker, and
/// gives what each worker wrote.
macro_rules! results {
    ($operator:expr, $mode:expr, $sink:ident, $place:ty, $room:expr) => {{
        let operators = [$operator, $operator];
        let operators: Vec<_> = operators.iter().take($mode.inputs()).collect();
        let mut memory = vec![vec![<$place>::default(); $room]; $mode.workers()];
        let mut sinks: Vec<$sink> = memory.iter_mut().map(|places| $sink::new(places)).collect();
        corun_exec::stage::run(
            $mode,
            &operators,
            &mut sinks,
            &corun_exec::stage::Options::default(),
        )
        .expect("the mode is possible");
        let counts: Vec<usize> = sinks
            .iter()
            .map(|sink| sink.finish().expect("there is room"))
            .collect();
        drop(sinks);
        for (places, count) in memory.iter_mut().zip(counts) {
            places.truncate(count);
        }
        memory
    }};
}
pub(crate) use results;

/// Compares what each worker of a mode wrote with what it should, in any order.
pub fn same<T: Clone + Ord + std::fmt::Debug>(mode: Mode, found: &[Vec<T>], expected: &[(usize, T)]) {
    for (worker, found) in found.iter().enumerate() {
        let mut found = found.clone();
        let mut expected = share(mode, worker, expected);
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{mode}, worker {worker}");
    }
}
