//! Staged execution against an oracle: every mode gives the answers that straight code gives, whatever its parameters and
//! whatever becomes of its helpers; and what may go wrong goes wrong as documented.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::chains::{
    Answers, Chains, Fault, Memory, Notes, SCHEDULES, ahead, check_answers, check_share, kinds, prefetch,
    words,
};
use corun_exec::stage::traced::trace;
use corun_exec::stage::work_ahead::{ENTRIES_MAX, WorkAheadError};
use corun_exec::stage::{HelperKind, Options, Place, RunError, Thread, WorkAheadBudget, run};
use corun_model::operators::mode::{Direction, Hiding, Mode, ModeError, Schedule, Threads, WorkAhead};
use corun_model::operators::trace::Event;
use proptest::prelude::*;

fn any_hiding() -> impl Strategy<Value = Hiding> {
    let distances = (prop::sample::select(&SCHEDULES[..]), 1_u16..=70);
    let sets = (1_u32..=300, any::<bool>(), any::<bool>());
    prop_oneof![
        1 => Just(Hiding::None),
        4 => distances.prop_map(|(schedule, distance)| prefetch(schedule, distance)),
        4 => sets.prop_map(|(lines, forward, spin)| Hiding::WorkAhead(WorkAhead {
            lines,
            direction: if forward { Direction::Forward } else { Direction::Backward },
            spin,
        })),
    ]
}

fn any_mode() -> impl Strategy<Value = Mode> {
    let threads = prop_oneof![
        2 => Just(Threads::One),
        1 => Just(Threads::TwoIndependent),
        2 => (2_u8..=5).prop_map(Threads::BiThreaded),
    ];
    (threads, prop::option::weighted(0.9, any_hiding())).prop_map(|(threads, hiding)| match hiding {
        Some(hiding) => Mode::staged(threads, hiding),
        None => Mode {
            threads,
            ..Mode::PLAIN
        },
    })
}

fn any_helper() -> impl Strategy<Value = HelperKind> {
    prop_oneof![
        Just(HelperKind::Loads),
        Just(HelperKind::SkipsDuplicates),
        (0_u64..40).prop_map(HelperKind::EndsAfter),
    ]
}

/// A run in `mode`, checked: answers, order, shares and report. Also the traced run, whose answers are the same.
fn check_run<const MIN: usize, const M: usize>(
    mode: Mode,
    lengths: [&[u8]; 2],
    stages: usize,
    helper: HelperKind,
    budget: Option<usize>,
) {
    let memories = lengths.map(|lengths| Memory::new(lengths, MIN - 1, M - 1));
    let operators = [&memories[0], &memories[1]].map(|memory| Chains::<MIN, M> {
        stages,
        ..Chains::over(memory)
    });
    let operators = [&operators[0], &operators[1]];
    let operators = &operators[..mode.inputs()];
    let memory_of = |worker: usize| &memories[if mode.inputs() == 2 { worker } else { 0 }];

    let budget = budget.map(WorkAheadBudget::new);
    let lines = budget.as_ref().map(WorkAheadBudget::left);
    let options = Options {
        helper,
        budget: budget.as_ref(),
        ..Options::default()
    };
    let mut outputs = vec![Answers::new(); mode.workers()];
    let report = run(mode, operators, &mut outputs, &options).expect("a mode that exists");
    for (worker, output) in outputs.iter().enumerate() {
        check_share(memory_of(worker), mode, worker, output);
        assert_eq!(report.tuples[worker], output.len());
    }
    assert_eq!(report.tuples.len(), mode.workers());
    match mode.hiding {
        Hiding::WorkAhead(set) => {
            let wanted = set.lines as usize * mode.workers();
            assert_eq!(
                report.work_ahead_lines,
                lines.map_or(wanted, |lines| lines.min(wanted))
            );
        }
        _ => assert_eq!((report.work_ahead_lines, report.helper_loads), (0, 0)),
    }
    if let HelperKind::EndsAfter(loads) = helper {
        assert!(report.helper_loads <= loads * mode.workers() as u64);
    }
    if report.work_ahead_lines == 0 {
        assert_eq!(report.helper_loads, 0);
    }
    assert_eq!(
        budget.as_ref().map(WorkAheadBudget::left),
        lines,
        "a lease was kept"
    );

    let mut traced = vec![Answers::new(); mode.workers()];
    trace(mode, operators, &mut traced, 2, &mut |_: Event| {}).expect("a mode that exists");
    assert_eq!(traced, outputs, "{mode}: traced");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    #[test]
    fn every_mode_gives_the_oracles_answers(
        mode in any_mode(),
        first in prop::collection::vec(0_u8..9, 0..200),
        second in prop::collection::vec(0_u8..9, 0..200),
        stages in 0_usize..7,
        shape in 0_usize..9,
        helper in any_helper(),
        budget in prop::option::of(0_usize..700),
    ) {
        let lengths = [&first[..], &second[..]];
        let check = match shape {
            0 => check_run::<1, 1>,
            1 => check_run::<1, 2>,
            2 => check_run::<2, 2>,
            3 => check_run::<1, 3>,
            4 => check_run::<2, 3>,
            5 => check_run::<3, 3>,
            6 => check_run::<1, 4>,
            7 => check_run::<3, 4>,
            _ => check_run::<4, 4>,
        };
        check(mode, lengths, stages, helper, budget);
    }
}

#[test]
fn every_distance_and_every_small_set() {
    let lengths: Vec<u8> = (0..90_u32).map(|tuple| (tuple * 7 % 5) as u8).collect();
    let lengths = [&lengths[..], &[]];
    for distance in 1..=70 {
        for schedule in SCHEDULES {
            for stages in [1, 4] {
                let mode = Mode::staged(Threads::One, prefetch(schedule, distance));
                check_run::<1, 2>(mode, lengths, stages, HelperKind::Loads, None);
            }
        }
        let mode = Mode::staged(Threads::One, ahead(u32::from(distance)));
        check_run::<1, 3>(
            mode,
            lengths,
            2,
            HelperKind::EndsAfter(u64::from(distance % 4)),
            None,
        );
    }
}

#[test]
fn extreme_distances_sets_and_stages() {
    let lengths = [&[3_u8, 0, 9, 1][..], &[2]];
    for schedule in SCHEDULES {
        let mode = Mode::staged(Threads::One, prefetch(schedule, u16::MAX));
        check_run::<1, 1>(mode, lengths, usize::MAX, HelperKind::Loads, None);
    }
    for lines in [1, 100_000] {
        let mode = Mode::staged(Threads::TwoIndependent, ahead(lines));
        check_run::<1, 2>(mode, lengths, 1, HelperKind::Loads, None);
    }
    // More threads than tuples.
    let mode = Mode::staged(Threads::BiThreaded(40), ahead(2));
    check_run::<1, 1>(mode, lengths, 1, HelperKind::SkipsDuplicates, None);
}

#[test]
fn a_plain_and_a_staged_run_without_tuples() {
    for threads in [Threads::One, Threads::TwoIndependent, Threads::BiThreaded(2)] {
        for mode in kinds(threads) {
            check_run::<1, 1>(mode, [&[], &[]], 3, HelperKind::Loads, None);
        }
    }
}

/// Holds up every thread it places, or only helpers.
struct Slow {
    helpers_only: bool,
    placed: AtomicUsize,
}

impl Place for Slow {
    fn place(&self, thread: Thread) {
        self.placed.fetch_add(1, Ordering::Relaxed);
        if matches!(thread, Thread::Helper(_)) || !self.helpers_only {
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

#[test]
fn stalled_threads_change_no_answer() {
    let memory = Memory::new(&[1, 2, 0, 3, 5, 1, 1, 2], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    for helpers_only in [true, false] {
        for (threads, placed) in [(Threads::One, 1), (Threads::BiThreaded(3), 5)] {
            let mode = Mode::staged(threads, ahead(4));
            let place = Slow {
                helpers_only,
                placed: AtomicUsize::new(0),
            };
            let options = Options {
                place: &place,
                ..Options::default()
            };
            let mut outputs = vec![Answers::new(); mode.workers()];
            run(mode, &[&operator], &mut outputs, &options).unwrap();
            for (worker, output) in outputs.iter().enumerate() {
                check_share(&memory, mode, worker, output);
            }
            // A helper for each worker, and all workers but the caller.
            assert_eq!(place.placed.into_inner(), placed);
        }
    }
}

#[test]
fn a_panic_of_any_worker_arrives_with_its_words() {
    let memory = Memory::new(&[2; 300], 0, 0);
    for threads in [Threads::One, Threads::BiThreaded(2), Threads::BiThreaded(4)] {
        for mode in kinds(threads) {
            for tuple in [0, 1, 203] {
                let operator = Chains::<1, 1> {
                    fault: Some(Fault::Panics(tuple)),
                    ..Chains::over(&memory)
                };
                let budget = WorkAheadBudget::new(100);
                let options = Options {
                    budget: Some(&budget),
                    ..Options::default()
                };
                let mut outputs = vec![Answers::new(); mode.workers()];
                let said = words(|| {
                    _ = run(mode, &[&operator], &mut outputs, &options);
                });
                assert_eq!(said, format!("tuple {tuple} is told to panic"), "{mode}");
                assert_eq!(budget.left(), 100, "a lease was kept");
            }
        }
    }
}

#[test]
fn a_panic_of_a_place_arrives_too() {
    struct Refuses(Thread);
    impl Place for Refuses {
        fn place(&self, thread: Thread) {
            assert!(thread != self.0, "no place for {thread:?}");
        }
    }
    let memory = Memory::new(&[2; 50], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    for thread in [Thread::Worker(1), Thread::Helper(0), Thread::Helper(1)] {
        let options = Options {
            place: &Refuses(thread),
            ..Options::default()
        };
        let mode = Mode::staged(Threads::BiThreaded(2), ahead(9));
        let said = words(|| {
            _ = run(
                mode,
                &[&operator],
                &mut [Answers::new(), Answers::new()],
                &options,
            );
        });
        assert_eq!(said, format!("no place for {thread:?}"));
    }
}

#[test]
fn more_references_than_declared_panic() {
    let memory = Memory::new(&[1, 0, 2], 1, 1);
    for (more, panics) in [(0, false), (1, true), (7, true)] {
        let operator = Chains::<1, 2> {
            fault: Some(Fault::NeedsMore(more)),
            ..Chains::over(&memory)
        };
        let go = || {
            _ = run(
                Mode::staged(Threads::One, ahead(8)),
                &[&operator],
                &mut [Answers::new()],
                &Options::default(),
            );
        };
        if panics {
            assert_eq!(
                words(go),
                "a stage asked for more than the 2 references its operator declares"
            );
        } else {
            go();
        }
    }
}

#[test]
fn a_stop_ends_what_has_begun_and_begins_no_more() {
    const TUPLES: usize = 60_000;
    const STOPS_AT: usize = 500;
    let memory = Memory::new(&[1; TUPLES], 0, 0);
    for threads in [Threads::One, Threads::BiThreaded(3)] {
        for mode in kinds(threads) {
            for at in [None, Some(STOPS_AT)] {
                let stop = AtomicBool::new(at.is_none());
                let begins = |tuple: usize| {
                    if Some(tuple) == at {
                        stop.store(true, Ordering::Relaxed);
                    }
                };
                let operator = Chains::<1, 1> {
                    begins: &begins,
                    ..Chains::over(&memory)
                };
                let options = Options {
                    stop: Some(&stop),
                    ..Options::default()
                };
                let mut outputs = vec![Answers::new(); mode.workers()];
                let report = run(mode, &[&operator], &mut outputs, &options).unwrap();
                for (worker, output) in outputs.iter().enumerate() {
                    let mut expected = memory.oracle(worker, mode.workers());
                    expected.truncate(output.len());
                    check_answers(&expected, output, &format!("{mode}, stopped"));
                    assert_eq!(report.tuples[worker], output.len());
                    // It looks every 64 turns, of which each begins 10 tuples at most; worker 0 or 2 sees its own store.
                    if at.is_none() || worker == STOPS_AT % mode.workers() {
                        assert!(
                            output.len() <= STOPS_AT + 64 * 10 + 10,
                            "{mode}: {}",
                            output.len()
                        );
                        assert!(at.is_none() || output.len() > STOPS_AT / mode.workers());
                    }
                }
            }
        }
    }
}

#[test]
fn short_budgets_shorten_sets_and_used_up_ones_leave_none() {
    let memory = Memory::new(&[2; 100], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    for (budget, threads, lines) in [
        (1000, 4, 240),
        (100, 4, 100),
        (61, 2, 61),
        (60, 2, 60),
        (1, 2, 1),
        (0, 3, 0),
    ] {
        let mode = Mode::staged(Threads::BiThreaded(threads), ahead(60));
        let budget = WorkAheadBudget::new(budget);
        let before = budget.left();
        let notes = Notes::default();
        let options = Options {
            budget: Some(&budget),
            place: &notes,
            ..Options::default()
        };
        let mut outputs = vec![Answers::new(); mode.workers()];
        let report = run(mode, &[&operator], &mut outputs, &options).unwrap();
        for (worker, output) in outputs.iter().enumerate() {
            check_share(&memory, mode, worker, output);
        }
        assert_eq!((report.work_ahead_lines, budget.left()), (lines, before));
        // Workers that got no line have no helper.
        let placed = notes.into_inner();
        let helpers = placed.iter().filter(|thread| matches!(thread, Thread::Helper(_)));
        assert_eq!(helpers.count(), lines.div_ceil(60));
    }
}

#[test]
fn concurrent_runs_share_a_budget() {
    let memory = Memory::new(&[2; 200], 0, 0);
    let budget = WorkAheadBudget::new(100);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let left = AtomicUsize::new(usize::MAX);
                    let begins = |_: usize| _ = left.fetch_min(budget.left(), Ordering::Relaxed);
                    let operator = Chains::<1, 1> {
                        begins: &begins,
                        ..Chains::over(&memory)
                    };
                    let options = Options {
                        budget: Some(&budget),
                        ..Options::default()
                    };
                    let mut outputs = [Answers::new()];
                    let mode = Mode::staged(Threads::One, ahead(60));
                    let report = run(mode, &[&operator], &mut outputs, &options).unwrap();
                    check_share(&memory, mode, 0, &outputs[0]);
                    assert!(report.work_ahead_lines <= 60);
                    assert!(
                        left.into_inner() <= 100 - report.work_ahead_lines,
                        "its own lease is taken"
                    );
                }
            });
        }
    });
    assert_eq!(budget.left(), 100);
}

#[test]
fn impossible_runs_are_errors_before_anything_runs() {
    let memory = Memory::new(&[1, 2], 0, 0);
    let operator = Chains::<1, 2>::over(&memory);
    let check = |mode: Mode, inputs: usize, workers: usize, error: RunError| {
        let operators = vec![&operator; inputs];
        let mut outputs = vec![Answers::new(); workers];
        // Also where a budget has nothing left, and in a traced run.
        let budget = WorkAheadBudget::new(0);
        for budget in [None, Some(&budget)] {
            let options = Options {
                budget,
                ..Options::default()
            };
            assert_eq!(
                run(mode, &operators, &mut outputs, &options),
                Err(error),
                "{mode}"
            );
        }
        let mut events = 0;
        let mut count = |_: Event| events += 1;
        assert_eq!(
            trace(mode, &operators, &mut outputs, 1, &mut count),
            Err(error),
            "{mode}"
        );
        assert_eq!(events, 0);
        assert!(outputs.iter().all(Vec::is_empty));
    };
    let one = |hiding| Mode::staged(Threads::One, hiding);
    for schedule in SCHEDULES {
        check(
            one(prefetch(schedule, 0)),
            1,
            1,
            RunError::Mode(ModeError::NoDistance),
        );
    }
    check(one(ahead(0)), 1, 1, RunError::Mode(ModeError::NoLines));
    for hiding in [ahead(8), prefetch(Schedule::Amac, 8)] {
        let mode = Mode {
            hiding,
            ..Mode::PLAIN
        };
        check(mode, 1, 1, RunError::Mode(ModeError::PlainHides));
    }
    for threads in [0, 1] {
        let mode = Mode::staged(Threads::BiThreaded(threads), Hiding::None);
        check(mode, 1, 1, RunError::Mode(ModeError::TooFewThreads(threads)));
    }
    for (threads, wanted) in [
        (Threads::One, 1),
        (Threads::TwoIndependent, 2),
        (Threads::BiThreaded(2), 1),
    ] {
        let mode = Mode::staged(threads, Hiding::None);
        for given in (0..4).filter(|&given| given != wanted) {
            check(mode, given, mode.workers(), RunError::Inputs { wanted, given });
        }
        let workers = mode.workers();
        for given in (0..4).filter(|&given| given != workers) {
            let error = RunError::Outputs {
                wanted: workers,
                given,
            };
            check(mode, wanted, given, error);
        }
    }
    let entries = u32::MAX as usize;
    check(
        one(ahead(u32::MAX)),
        1,
        1,
        RunError::WorkAhead(WorkAheadError::TooLarge { entries }),
    );
    let entries = ENTRIES_MAX + 1;
    check(
        one(ahead(entries as u32)),
        1,
        1,
        RunError::WorkAhead(WorkAheadError::TooLarge { entries }),
    );
}

#[test]
fn wrong_declarations_are_errors_whatever_the_budget() {
    fn check<const MIN: usize, const M: usize>() {
        let memory = Memory::default();
        let operator = Chains::<MIN, M>::over(&memory);
        let error = RunError::WorkAhead(WorkAheadError::References { min: MIN, max: M });
        for lines in [0, 100] {
            let budget = WorkAheadBudget::new(lines);
            let options = Options {
                budget: Some(&budget),
                ..Options::default()
            };
            let mode = Mode::staged(Threads::One, ahead(8));
            assert_eq!(
                run(mode, &[&operator], &mut [Answers::new()], &options),
                Err(error)
            );
            assert_eq!(budget.left(), lines);
        }
    }
    check::<0, 1>();
    check::<2, 1>();
    check::<1, 0>();
    check::<5, 4>();
}

#[test]
fn errors_say_what_is_wrong() {
    let given = RunError::Outputs { wanted: 2, given: 1 };
    assert_eq!(
        given.to_string(),
        "each of this mode's 2 workers has its own output; 1 were given"
    );
    let race = RunError::Race { workers: 3 };
    assert_eq!(
        race.to_string(),
        "each side of a race is one thread; this mode has 3"
    );
}
