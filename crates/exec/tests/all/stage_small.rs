//! Every path of staged execution that takes threads or raw addresses once, small enough for Miri: `make miri` runs this
//! file. Under Miri helpers read the array and load nothing. Breadth is `stage.rs`.

use std::sync::atomic::AtomicBool;

use crate::chains::{Answers, Chains, Fault, Memory, check_share};
use corun_exec::stage::traced::trace;
use corun_exec::stage::{HelperKind, Options, WorkAheadBudget, race, run};
use corun_model::operators::mode::{Direction, Hiding, Mode, Schedule, Staging, Threads, WorkAhead};
use corun_model::operators::trace::Event;

fn modes() -> Vec<Mode> {
    let mut hidings = vec![Hiding::None];
    for schedule in [Schedule::Group, Schedule::Pipeline, Schedule::Amac] {
        hidings.push(Hiding::Prefetch {
            schedule,
            distance: 3,
        });
    }
    for (lines, direction, spin) in [
        (1, Direction::Forward, true),
        (5, Direction::Backward, true),
        (4, Direction::Backward, false),
    ] {
        hidings.push(Hiding::WorkAhead(WorkAhead {
            lines,
            direction,
            spin,
        }));
    }
    let mut modes = Vec::new();
    for threads in [Threads::One, Threads::TwoIndependent, Threads::BiThreaded(3)] {
        modes.push(Mode {
            threads,
            ..Mode::PLAIN
        });
        modes.extend(hidings.iter().map(|&hiding| Mode::staged(threads, hiding)));
    }
    modes
}

#[test]
fn every_mode_answers_right() {
    let memories = [Memory::new(&[2, 0, 1, 3, 1], 0, 2), Memory::new(&[1, 4], 0, 1)];
    let operators = [
        Chains::<1, 3>::over(&memories[0]),
        Chains::<1, 3>::over(&memories[1]),
    ];
    let operators = [&operators[0], &operators[1]];
    for mode in modes() {
        for helper in [
            HelperKind::Loads,
            HelperKind::SkipsDuplicates,
            HelperKind::EndsAfter(2),
        ] {
            let mut outputs = vec![Answers::new(); mode.workers()];
            let budget = WorkAheadBudget::new(9);
            let options = Options {
                helper,
                budget: Some(&budget),
                ..Options::default()
            };
            run(mode, &operators[..mode.inputs()], &mut outputs, &options).unwrap();
            for (worker, output) in outputs.iter().enumerate() {
                let memory = &memories[if mode.inputs() == 2 { worker } else { 0 }];
                check_share(memory, mode, worker, output);
            }
            if !matches!(mode.hiding, Hiding::WorkAhead(_)) {
                break;
            }
        }
        let mut outputs = vec![Answers::new(); mode.workers()];
        let mut events = 0;
        trace(
            mode,
            &operators[..mode.inputs()],
            &mut outputs,
            2,
            &mut |_: Event| events += 1,
        )
        .unwrap();
        assert!(events > 0);
        for (worker, output) in outputs.iter().enumerate() {
            let memory = &memories[if mode.inputs() == 2 { worker } else { 0 }];
            check_share(memory, mode, worker, output);
        }
    }
}

#[test]
fn a_race_and_a_stop() {
    let memory = Memory::new(&[1, 2, 1], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    let mode = Mode::staged(Threads::One, Hiding::WorkAhead(WorkAhead::PAPER));
    let (mut first, mut second) = (Answers::new(), Answers::new());
    let raced = race(
        mode,
        (&operator, &mut first),
        (&operator, &mut second),
        &Options::default(),
    )
    .unwrap();
    assert_eq!((raced.first, raced.second), (first.len(), second.len()));

    let stop = AtomicBool::new(true);
    let options = Options {
        stop: Some(&stop),
        ..Options::default()
    };
    let mut outputs = [Answers::new()];
    let report = run(mode, &[&operator], &mut outputs, &options).unwrap();
    assert_eq!(report.tuples, [outputs[0].len()]);
}

#[test]
#[should_panic(expected = "tuple 2 is told to panic")]
fn a_panic_ends_the_helper() {
    let memory = Memory::new(&[1, 2, 1], 0, 0);
    let mut operator = Chains::<1, 1>::over(&memory);
    operator.fault = Some(Fault::Panics(2));
    let mode = Mode {
        staging: Staging::Staged,
        threads: Threads::BiThreaded(2),
        hiding: Hiding::WorkAhead(WorkAhead::PAPER),
    };
    let mut outputs = [Answers::new(), Answers::new()];
    let _ = run(mode, &[&operator], &mut outputs, &Options::default());
}
