//! The shared array of a work-ahead set: the simulation against the formulas of `corun_model::operators::work_ahead`, and the shape of paper 000's
//! argument about directions, sizes and spinning (sections 4.2 to 4.4, Fig. 4(b)).

use corun_cachesim::coherence::{CoherenceError, Contact, Outcome, SharedArray};
use corun_model::operators::mode::Direction::{self, Backward, Forward};
use corun_model::operators::work_ahead::{Speeds, WorkAheadError, net_speed};
use corun_model::units::CacheLines;

/// 5 million lines a second alone: 50 ns for each of four entries in a line. Interference costs both threads most of that, as
/// the paper's machine clears do, and so brings their speeds close together.
const M: f64 = 5e6;
const CLOSE: Speeds = Speeds {
    main: M,
    main_interfering: 0.3 * M,
    helper: 2.0 * M,
    helper_interfering: 0.33 * M,
};

const PAPER_LIKE: SharedArray = SharedArray {
    lines: 32,
    entries_per_line: 4,
    speeds: CLOSE,
    direction: Backward,
    spin: false,
    contact: Contact::SameLine,
    helper_start: 0,
    latency_s: 80e-9,
    jitter: 0.2,
    seed: 7,
    posts: 20_000,
};

fn run(direction: Direction, spin: bool, lines: u32) -> Outcome {
    let given = SharedArray {
        direction,
        spin,
        lines,
        ..PAPER_LIKE
    };
    given.simulate().unwrap()
}

/// Speeds over a grid; ratios are such that steps of the two threads do not fall together.
fn grid() -> impl Iterator<Item = Speeds> {
    let helpers = [0.43, 0.71, 1.37, 2.23, 4.19];
    let slow_downs = [0.9, 0.53, 0.21];
    let helpers_interfering = [0.31, 0.67, 0.93, 1.13, 1.61, 3.07];
    helpers.into_iter().flat_map(move |helper| {
        slow_downs.into_iter().flat_map(move |slow_down| {
            helpers_interfering
                .into_iter()
                .map(move |helper_interfering| Speeds {
                    main: M,
                    main_interfering: M * slow_down,
                    helper: M * helper,
                    helper_interfering: M * slow_down * helper_interfering,
                })
        })
    })
}

fn is_lock_step(speeds: &Speeds) -> bool {
    (speeds.helper > speeds.main) != (speeds.helper_interfering > speeds.main_interfering)
}

/// How far the simulated speed is from the formula's, as a part of the formula's.
fn difference(given: &SharedArray) -> f64 {
    let formula = net_speed(&given.speeds, CacheLines(u64::from(given.lines)), given.direction).unwrap();
    given.simulate().unwrap().net_lines_per_second / formula - 1.0
}

#[test]
fn with_the_formulas_idea_of_contact_they_agree() {
    for speeds in grid() {
        for lines in [1, 2, 5, 16] {
            for direction in [Forward, Backward] {
                let given = SharedArray {
                    lines,
                    // Many small entries: the formulas know no entries at all.
                    entries_per_line: 32,
                    speeds,
                    direction,
                    contact: Contact::LessThanALineAhead,
                    jitter: 0.0,
                    posts: 32 * u64::from(lines) * 50,
                    ..PAPER_LIKE
                };
                let difference = difference(&given);
                assert!(difference.abs() < 0.03, "{difference:+.3} for {given:?}");
            }
        }
    }
}

#[test]
fn lock_step_does_not_depend_on_the_idea_of_contact() {
    for speeds in grid().filter(is_lock_step) {
        for lines in [2, 5, 16] {
            let given = SharedArray {
                lines,
                speeds,
                direction: Forward,
                jitter: 0.0,
                ..PAPER_LIKE
            };
            let difference = difference(&given);
            assert!(difference.abs() < 0.01, "{difference:+.3} for {given:?}");
        }
    }
}

#[test]
fn on_real_lines_large_arrays_agree_backward() {
    for speeds in grid() {
        for lines in [64, 256] {
            let given = SharedArray {
                lines,
                speeds,
                // So that they do not meet at one place of a line for ever.
                jitter: 0.5,
                ..PAPER_LIKE
            };
            let difference = difference(&given);
            assert!(
                (-0.02..0.07).contains(&difference),
                "{difference:+.3} for {given:?}"
            );
        }
    }
}

#[test]
fn backward_beats_forward_where_interference_evens_the_speeds_out() {
    for helper in [0.5, 2.0, 3.0] {
        for closeness in [0.95, 1.0, 1.1] {
            for lines in [8, 32, 128] {
                let speeds = Speeds {
                    helper: helper * M,
                    helper_interfering: closeness * CLOSE.main_interfering,
                    ..CLOSE
                };
                let [backward, forward] = [Backward, Forward].map(|direction| {
                    let given = SharedArray {
                        speeds,
                        direction,
                        lines,
                        ..PAPER_LIKE
                    };
                    given.simulate().unwrap()
                });
                assert!(
                    backward.net_lines_per_second > forward.net_lines_per_second,
                    "h = {helper} m, h' = {closeness} m', d = {lines}: {backward:?} {forward:?}"
                );
                assert!(backward.interference_events_per_entry < forward.interference_events_per_entry);
            }
        }
    }
}

#[test]
fn small_sets_suffer_more_interference() {
    for (direction, spin) in [(Forward, false), (Backward, false), (Backward, true)] {
        let events: Vec<f64> = [1, 4, 16, 64, 256]
            .map(|lines| run(direction, spin, lines).interference_events_per_entry)
            .to_vec();
        assert!(
            events.windows(2).all(|pair| pair[1] < pair[0]),
            "{direction:?}, spin {spin}: {events:?}"
        );
    }
    // The pathological case is no better for being large.
    let small = run(Forward, true, 4).interference_events_per_entry;
    let large = run(Forward, true, 256).interference_events_per_entry;
    assert!(large > 0.95 * small, "{small} {large}");
}

/// One line, so that every touch is an event.
#[test]
fn events_are_counted_as_worked_by_hand() {
    let one_line = SharedArray {
        lines: 1,
        entries_per_line: 2,
        speeds: Speeds {
            helper_interfering: CLOSE.main_interfering,
            ..CLOSE
        },
        direction: Forward,
        jitter: 0.0,
        posts: 1000,
        ..PAPER_LIKE
    };
    // In step without waiting: one write and one read an entry.
    let in_step = one_line.simulate().unwrap();
    assert_eq!(
        (
            in_step.interference_events_per_entry,
            in_step.helper_loads_per_entry
        ),
        (2.0, 1.0)
    );
    // A quicker helper that spins: it finds the next entry unchanged, the write comes, it reads that entry.
    let chasing = SharedArray {
        speeds: Speeds {
            helper_interfering: 1.5 * CLOSE.main_interfering,
            ..CLOSE
        },
        spin: true,
        ..one_line
    };
    let chasing = chasing.simulate().unwrap();
    assert_eq!(
        (
            chasing.interference_events_per_entry,
            chasing.helper_loads_per_entry
        ),
        (3.0, 1.0)
    );
    // Going backward round eight entries, quick as light: after a wake at entry w it sweeps the seven others before the next
    // write and waits at w for a round: of eight writes, one wakes it and seven it polls through. 8 writes, 7 polls, 1 + 7 reads
    // that find something, 1 that finds w unchanged.
    let sweeping = SharedArray {
        entries_per_line: 8,
        speeds: Speeds {
            helper_interfering: 100.0 * CLOSE.main_interfering,
            ..CLOSE
        },
        direction: Backward,
        spin: true,
        ..one_line
    };
    let sweeping = sweeping.simulate().unwrap();
    assert_eq!(
        (
            sweeping.interference_events_per_entry,
            sweeping.helper_loads_per_entry
        ),
        (3.0, 1.0)
    );
}

/// The order of Fig. 4(b): forward with spin, forward, then the two backward ones, which hardly differ.
#[test]
fn forward_with_spin_interferes_most_and_backward_least() {
    for lines in [8, 16, 32, 64, 128, 256] {
        let events = |direction, spin| run(direction, spin, lines).interference_events_per_entry;
        let forward_spin = events(Forward, true);
        let forward = events(Forward, false);
        let backward = events(Backward, false).max(events(Backward, true));
        assert!(
            forward_spin > 2.0 * forward && forward > 1.5 * backward,
            "d = {lines}: {forward_spin} {forward} {backward}"
        );
    }
}

#[test]
fn tiny_sets_retrieve_before_the_load_is_back() {
    // A reference stays for one round: 4 entries of 50 to 170 ns in one line, 128 in 32.
    let share = |lines| {
        let given = SharedArray {
            lines,
            latency_s: 600e-9,
            ..PAPER_LIKE
        };
        given.simulate().unwrap().useful_preload_share
    };
    let shares = [1, 2, 4, 32].map(share);
    assert!(shares[0] < 0.5 && shares[3] > 0.95, "{shares:?}");
    assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{shares:?}");
}

#[test]
fn only_a_helper_that_spins_loads_each_entry_once() {
    for direction in [Forward, Backward] {
        assert!((run(direction, true, 32).helper_loads_per_entry - 1.0).abs() < 0.01);
        assert!(
            run(direction, false, 32).helper_loads_per_entry > 1.5,
            "the helper is twice as fast"
        );
    }
}

#[test]
fn a_helper_much_slower_than_the_main_thread_misses_entries() {
    let given = SharedArray {
        speeds: Speeds {
            helper: 0.1 * M,
            helper_interfering: 0.1 * M,
            ..CLOSE
        },
        direction: Forward,
        ..PAPER_LIKE
    };
    let outcome = given.simulate().unwrap();
    assert!(outcome.useful_preload_share < 0.2, "{outcome:?}");
    assert!(outcome.helper_loads_per_entry < 0.2, "{outcome:?}");
}

#[test]
fn equal_seeds_give_equal_outcomes_and_others_do_not() {
    let with_seed = |seed| {
        let given = SharedArray { seed, ..PAPER_LIKE };
        given.simulate().unwrap()
    };
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn the_smallest_array_works() {
    for (direction, spin) in [
        (Forward, false),
        (Forward, true),
        (Backward, false),
        (Backward, true),
    ] {
        let given = SharedArray {
            lines: 1,
            entries_per_line: 1,
            direction,
            spin,
            jitter: 0.0,
            posts: 100,
            ..PAPER_LIKE
        };
        let net = given.simulate().unwrap().net_lines_per_second;
        assert!((net / CLOSE.main_interfering - 1.0).abs() < 1e-9, "{net}");
    }
}

#[test]
fn numbers_out_of_range_are_errors() {
    let error = |given: SharedArray| given.simulate().unwrap_err();
    let base = PAPER_LIKE;
    assert_eq!(
        error(SharedArray { lines: 0, ..base }),
        CoherenceError::Model(WorkAheadError::NoLines)
    );
    assert_eq!(
        error(SharedArray {
            entries_per_line: 0,
            ..base
        }),
        CoherenceError::Entries(0)
    );
    assert_eq!(
        error(SharedArray {
            lines: u32::MAX,
            entries_per_line: u32::MAX,
            ..base
        }),
        CoherenceError::Entries(u64::from(u32::MAX) * u64::from(u32::MAX))
    );
    assert_eq!(
        error(SharedArray {
            helper_start: 128,
            ..base
        }),
        CoherenceError::Start {
            start: 128,
            entries: 128
        }
    );
    let helper = |helper| SharedArray {
        speeds: Speeds { helper, ..CLOSE },
        ..base
    };
    assert!(matches!(
        error(helper(f64::NAN)),
        CoherenceError::Model(WorkAheadError::Speed { name: "h", .. })
    ));
    assert!(matches!(error(helper(1e30)), CoherenceError::SpeedRatio(_)));
    for latency_s in [-1.0, f64::INFINITY] {
        assert_eq!(
            error(SharedArray { latency_s, ..base }),
            CoherenceError::Latency(latency_s)
        );
    }
    for jitter in [-0.1, 1.0] {
        assert_eq!(
            error(SharedArray { jitter, ..base }),
            CoherenceError::Jitter(jitter)
        );
    }
    assert_eq!(error(SharedArray { posts: 0, ..base }), CoherenceError::Posts(0));
}
