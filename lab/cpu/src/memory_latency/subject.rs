//! What a case of the suite `memory-latency` runs: one operator over its inputs, in any mode, timed or traced, with its answers.
//!
//! ```text
//!   Subject::execute(mode, tuples, how)
//!      operators over the range ──▶ sinks over the pool ──▶ stage::run or stage::trace ──▶ answers read from the pool
//!                                                            ╰── only this is timed
//! ```
//!
//! Subjects are in [`super::joins`] and [`super::index`]. Not here: which modes are compared ([`super::contest`]).

use std::ops::Range;
use std::time::{Duration, Instant};

use corun_exec::HugeBuf;
use corun_exec::huge::Plain;
use corun_exec::stage::{Options, Staged, run, traced};
use corun_model::operators::mode::{Mode, Threads};
use corun_model::operators::trace::Event;

use super::expected::{Answer, Expected};
use lab_core::error::BenchError;

/// Entries a helper looks at in a traced run for each one the main thread posts: it has less to do, so it is faster (paper 000,
/// section 6.1).
const HELPER_LOOKS: usize = 2;

/// How to execute.
pub enum How<'h> {
    /// On threads, timed.
    Timed(&'h Options<'h>),
    /// On one thread, every access reported.
    Traced(&'h mut dyn FnMut(Event)),
}

/// What an execution gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Wall-clock time of the run alone; zero for a traced one.
    pub elapsed: Duration,
    /// The answer of each input.
    pub answers: Vec<Answer>,
}

/// An operator with inputs, outputs and right answers.
pub trait Subject {
    /// Tuples of the probe stream.
    fn tuples(&self) -> usize {
        self.expected(0).tuples()
    }

    /// Inputs there are: two for independent threads, each with its own data.
    fn inputs(&self) -> usize;

    /// The right answers of an input.
    fn expected(&self, input: usize) -> &Expected;

    /// Runs these tuples in a mode.
    ///
    /// # Errors
    /// When the mode is impossible, a subject has too few inputs for it, or its results found no room.
    fn execute(&mut self, mode: Mode, tuples: Range<usize>, how: &mut How<'_>) -> Result<Ran, BenchError>;

    /// [`RIGHT`] if these are the oracle's answers for these tuples, else what was wrong.
    fn verdict(&self, answers: &[Answer], tuples: Range<usize>) -> String {
        for (input, &answer) in answers.iter().enumerate() {
            let expected = self.expected(input).of(tuples.clone());
            if answer != expected {
                return format!("{answer} instead of {expected} from input {input}");
            }
        }
        RIGHT.to_string()
    }
}

/// What a run that gave the oracle's answers says.
pub const RIGHT: &str = "the oracle's answers";

/// Runs or traces operators; only this is timed.
pub fn go<'a, const M: usize, O: Staged<'a, M>>(
    how: &mut How<'_>,
    mode: Mode,
    operators: &[O],
    sinks: &mut [O::Output],
) -> Result<Duration, BenchError> {
    let operators: Vec<&O> = operators.iter().take(mode.inputs()).collect();
    let failed = |error: corun_exec::stage::RunError| BenchError::Data(format!("{mode}: {error}"));
    match how {
        How::Timed(options) => {
            let start = Instant::now();
            run(mode, &operators, sinks, options).map_err(failed)?;
            Ok(start.elapsed())
        }
        How::Traced(events) => {
            traced::trace(mode, &operators, sinks, HELPER_LOOKS, events).map_err(failed)?;
            Ok(Duration::ZERO)
        }
    }
}

/// Adds up the answers of workers that share an input.
pub fn by_input(mode: Mode, workers: impl IntoIterator<Item = Answer>) -> Vec<Answer> {
    match mode.threads {
        Threads::TwoIndependent => workers.into_iter().collect(),
        Threads::One | Threads::BiThreaded(_) => vec![Answer::sum(workers)],
    }
}

/// Memory for results, written before anybody measures, cut into equal parts for the workers of each run.
pub struct Pool<T: Plain> {
    memory: HugeBuf<T>,
}

impl<T: Plain> Pool<T> {
    /// Room for `results` of each of `inputs` independent workers. Workers that share an input get twice their even share, because
    /// rows do not fall evenly.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(results: usize, inputs: usize) -> Result<Pool<T>, BenchError> {
        let memory = HugeBuf::zeroed(results.saturating_mul(inputs.max(2)))
            .map_err(|error| BenchError::Data(format!("no room for results: {error}")))?;
        Ok(Pool { memory })
    }

    /// All of it.
    pub fn whole(&mut self) -> &mut [T] {
        &mut self.memory
    }

    /// One part for each worker of the mode.
    pub fn parts(&mut self, mode: Mode) -> impl Iterator<Item = &mut [T]> {
        let each = (self.memory.len() / mode.workers()).max(1);
        self.memory.chunks_mut(each).take(mode.workers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_enough_for_every_mode() {
        let mut pool = Pool::<u32>::new(100, 1).expect("small");
        for (threads, workers, room) in [
            (Threads::One, 1, 200),
            (Threads::TwoIndependent, 2, 100),
            (Threads::BiThreaded(3), 3, 66),
        ] {
            let mode = Mode {
                threads,
                ..Mode::PLAIN
            };
            let parts: Vec<usize> = pool.parts(mode).map(|part| part.len()).collect();
            assert_eq!(parts, vec![room; workers]);
        }
    }

    #[test]
    fn independent_answers_stay_apart_and_shared_ones_add_up() {
        let answers = [1, 2].map(|rows| Answer { rows, checksum: rows });
        let mode = |threads| Mode {
            threads,
            ..Mode::PLAIN
        };
        assert_eq!(by_input(mode(Threads::TwoIndependent), answers), answers);
        assert_eq!(
            by_input(mode(Threads::BiThreaded(2)), answers),
            [Answer { rows: 3, checksum: 3 }]
        );
    }
}
