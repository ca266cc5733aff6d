//! Two operators side by side: the first to finish ends the race, whichever it is, and so does a panic.

use crate::chains::{Answers, Chains, Fault, Memory, Notes, ahead, check_answers, kinds, words};
use corun_exec::stage::{Context, Options, RunError, Staged, Step, Thread, race};
use corun_model::operators::mode::{Hiding, Mode, ModeError, Threads};

/// Ends only when it is stopped.
struct Endless;

impl<'a> Staged<'a, 2> for Endless {
    type State = bool;
    type Output = usize;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        usize::MAX
    }

    fn stages(&self) -> usize {
        1
    }

    fn begin<C: Context<'a>>(&self, _: usize, state: &mut bool, _: &mut usize, _: &mut C) {
        *state = true;
    }

    fn resume<C: Context<'a>>(&self, state: &mut bool, output: &mut usize, _: &mut C) -> Step {
        assert!(std::mem::replace(state, false));
        *output += 1;
        Step::Done
    }

    fn plain<C: Context<'a>>(&self, _: usize, output: &mut usize, _: &mut C) {
        *output += 1;
    }
}

#[test]
fn a_race_ends_with_the_first_and_counts_both() {
    let memory = Memory::new(&[3; 700], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    for mode in kinds(Threads::One) {
        let notes = Notes::default();
        let options = Options {
            place: &notes,
            ..Options::default()
        };
        for endless_first in [false, true] {
            let (mut answers, mut count) = (Answers::new(), 0);
            let (finished, stopped) = if endless_first {
                let raced = race(mode, (&Endless, &mut count), (&operator, &mut answers), &options).unwrap();
                (raced.second, raced.first)
            } else {
                let raced = race(mode, (&operator, &mut answers), (&Endless, &mut count), &options).unwrap();
                (raced.first, raced.second)
            };
            check_answers(&memory.oracle(0, 1), &answers, &mode.to_string());
            assert_eq!((finished, stopped), (700, count), "{mode}");
        }
        let mut placed = notes.into_inner();
        placed.sort_by_key(|thread| format!("{thread:?}"));
        let [first, second, worker] = [Thread::Helper(0), Thread::Helper(1), Thread::Worker(1)];
        match mode.hiding {
            Hiding::WorkAhead(_) => assert_eq!(placed, [first, first, second, second, worker, worker]),
            _ => assert_eq!(placed, [worker, worker]),
        }
    }
}

#[test]
fn a_panic_ends_a_race() {
    let memory = Memory::new(&[3; 700], 0, 0);
    let operator = Chains::<1, 1> {
        fault: Some(Fault::Panics(600)),
        ..Chains::over(&memory)
    };
    let options = Options::default();
    for mode in kinds(Threads::One) {
        let (mut answers, mut count) = (Answers::new(), 0);
        let first = words(|| _ = race(mode, (&operator, &mut answers), (&Endless, &mut count), &options));
        answers.clear();
        let second = words(|| _ = race(mode, (&Endless, &mut count), (&operator, &mut answers), &options));
        assert_eq!([first, second], ["tuple 600 is told to panic"; 2], "{mode}");
    }
}

#[test]
fn a_race_of_several_threads_is_an_error() {
    for (threads, workers) in [(Threads::TwoIndependent, 2), (Threads::BiThreaded(3), 3)] {
        let mode = Mode::staged(threads, Hiding::None);
        let error = race(mode, (&Endless, &mut 0), (&Endless, &mut 0), &Options::default());
        assert_eq!(error, Err(RunError::Race { workers }));
    }
    let mode = Mode::staged(Threads::One, ahead(0));
    let error = race(mode, (&Endless, &mut 0), (&Endless, &mut 0), &Options::default());
    assert_eq!(error, Err(RunError::Mode(ModeError::NoLines)));
}
