//! STEPS: traces small enough to follow by hand, among them the paper's Figure 1 (2 ways, 4 sets, 8 blocks).

use corun_cachesim::instruction_cache::{
    Candidates, CodeCache, Fetch, InstructionCacheError, Operation, Original, Placed, Preference, Recorder,
    RecorderLimits, Search, Start, SwitchCode, Team, best, evaluate, knees, place, sweep,
};
use corun_model::teams::instructions::{Event, Flow, Instruction, InstructionSink};
use corun_model::teams::{Knee, L1i};

const LINE: u64 = 16;

/// The cache of Figure 1: four sets of two blocks.
fn figure_1() -> CodeCache {
    CodeCache::lru(L1i {
        bytes: 8 * LINE as u32,
        ways: 2,
        line_bytes: LINE as u32,
    })
    .unwrap()
}

/// One instruction a line, as long as the line.
fn over(lines: impl IntoIterator<Item = u64>) -> Operation {
    let mut operation = Operation::new(1);
    for line in lines {
        operation.fetch(Fetch {
            address: line * LINE,
            bytes: LINE as u8,
            latched: false,
            entry: false,
        });
    }
    operation
}

fn knee(width: u64, height: u32) -> Knee {
    Knee { width, height }
}

#[test]
fn the_loop_of_figure_1_fits_without_its_call() {
    // The loop is eight blocks; the procedure A lies where its third and fourth do.
    let fits = Original::of(&over(0..8), &figure_1()).unwrap();
    assert_eq!(
        (fits.cold_misses, fits.warm_misses, fits.footprint_bytes),
        (8, 0, 128)
    );
    // f1 .. f4, A (sets 2 and 3), f5 .. f8. Sets 2 and 3 have three blocks each for two ways, used in turn: all are missed.
    let calls = over([0, 1, 2, 3, 10, 11, 4, 5, 6, 7]);
    let conflicts = Original::of(&calls, &figure_1()).unwrap();
    assert_eq!((conflicts.cold_misses, conflicts.warm_misses), (10, 6));
    assert_eq!(conflicts.warm_misses_at, [2, 3, 4, 5, 8, 9]);
    // Blocks 6 and 7 push 2 and 3 out, of the same segment: two for who follows.
    let alone = evaluate(&calls, &figure_1(), Candidates::Instructions, |_| false).unwrap();
    assert_eq!(alone.segments.misses_at, [8, 9]);
    // One call before either, or anywhere between their first uses, and nobody who follows misses anything.
    let placement = place(&calls, &figure_1(), &Search::paper(knee(200, 2))).unwrap();
    assert_eq!(placement.points.into_iter().collect::<Vec<_>>(), [(6 * LINE, 1)]);
    assert_eq!(placement.segments.non_leading_misses(), 0);
    assert_eq!(
        placement.wanted[0].placed,
        Placed::Before {
            point: 6 * LINE,
            instructions: 0
        }
    );
}

#[test]
fn code_of_twice_the_cache_takes_one_call() {
    // Straight on over sixteen blocks: each of the last eight pushes one of the first eight out.
    let straight = over(0..16);
    let original = Original::of(&straight, &figure_1()).unwrap();
    assert_eq!((original.cold_misses, original.warm_misses), (16, 16));
    let alone = evaluate(&straight, &figure_1(), Candidates::Instructions, |_| false).unwrap();
    assert_eq!(alone.segments.misses_at, [8, 9, 10, 11, 12, 13, 14, 15]);
    for height in 1..=8 {
        let placement = place(&straight, &figure_1(), &Search::paper(knee(1, height))).unwrap();
        assert_eq!(
            placement.points.into_iter().collect::<Vec<_>>(),
            [(8 * LINE, 1)],
            "{height}"
        );
        assert_eq!(placement.segments.non_leading_misses(), 0);
    }
    // A knee of nine is not reached by eight.
    let none = place(&straight, &figure_1(), &Search::paper(knee(1, 9))).unwrap();
    assert!(none.points.is_empty() && none.wanted.is_empty());
    assert_eq!(none.segments.non_leading_misses(), 8);
    assert_eq!(none.segments.misses_by_segment(), [8]);

    // Ten members: the first misses all, nobody else anything; one by one all miss all.
    let points = |point| point == 8 * LINE;
    let team = Team::new(figure_1(), &[straight], Candidates::Instructions, points, None).unwrap();
    for start in [Start::Cold, Start::Warm] {
        let together = team.together(10, start);
        assert_eq!(
            (together.total(), together.members[0], together.additional()),
            (16, 16, Some(0.0))
        );
        // Each of ten passes the CPU on twice, but the last.
        assert_eq!(together.switches, 19);
        assert_eq!(team.one_by_one(10, start).total(), 160);
    }
}

#[test]
fn a_point_is_on_whenever_execution_comes_by() {
    // Twice over the sixteen blocks: the cache is full at 8, at 16, which is block 0 once more, and at 24. Block 0 is a point
    // then, so a call comes before the first instruction too.
    let twice = over((0..16).chain(0..16));
    let placement = place(&twice, &figure_1(), &Search::paper(knee(200, 4))).unwrap();
    let calls: Vec<(u32, u64)> = placement
        .segments
        .calls
        .iter()
        .map(|call| (call.at, call.point / LINE))
        .collect();
    assert_eq!(calls, [(0, 0), (8, 8), (16, 0), (24, 8)]);
    assert_eq!(
        placement.points.into_iter().collect::<Vec<_>>(),
        [(0, 2), (8 * LINE, 2)]
    );
    assert_eq!(placement.wanted.len(), 2);
    assert_eq!(placement.segments.non_leading_misses(), 0);
}

#[test]
fn misses_farther_apart_than_the_width_make_no_knee_until_there_are_twice_as_many() {
    // One set of one block: each new block pushes out the one before. Each has eleven instructions.
    let cache = CodeCache::lru(L1i {
        bytes: LINE as u32,
        ways: 1,
        line_bytes: LINE as u32,
    })
    .unwrap();
    let mut sparse = Operation::new(1);
    for at in 0..12 * 11 {
        let address = at / 11 * LINE + at % 11;
        sparse.fetch(Fetch {
            address,
            bytes: 1,
            latched: false,
            entry: false,
        });
    }
    // Eleven evictions, eleven instructions apart: less than a width, then more.
    let all = place(&sparse, &cache, &Search::paper(knee(11, 12))).unwrap();
    assert_eq!(
        all.segments.misses_at,
        (1..12).map(|line| line * 11).collect::<Vec<u32>>()
    );
    // Three in a row are a knee; behind its point the next block is already too much again, and only the last two make no knee.
    let near = place(&sparse, &cache, &Search::paper(knee(11, 3))).unwrap();
    assert_eq!(
        near.segments.calls.iter().map(|call| call.at).collect::<Vec<_>>(),
        [11, 22, 33, 44, 55, 66, 77, 88, 99]
    );
    let far = place(&sparse, &cache, &Search::paper(knee(10, 3))).unwrap();
    // The sixth since the beginning is too much; its knee is itself.
    assert_eq!(
        far.segments.calls.iter().map(|call| call.at).collect::<Vec<_>>(),
        [66]
    );
    assert_eq!(far.segments.misses_by_segment(), [5, 5]);
}

#[test]
fn no_call_inside_a_latch() {
    let mut operation = Operation::new(3);
    for line in 0..16 {
        // Sites before blocks 3, 7 and 12; from 5 to 10 a latch is held.
        if [3, 7, 12].contains(&line) {
            operation.visit(900 + line, (5..=10).contains(&line));
        }
        let latched = (5..=10).contains(&line);
        operation.fetch(Fetch {
            address: line * LINE,
            bytes: LINE as u8,
            latched,
            entry: line == 2,
        });
    }
    assert_eq!(
        operation.latched_sites().into_iter().collect::<Vec<_>>(),
        [(907, 1)]
    );
    let chosen = place(&operation, &figure_1(), &Search::sites(knee(200, 4))).unwrap();
    assert_eq!(chosen.wanted[0].at, 8);
    assert!(chosen.wanted[0].latched);
    assert_eq!(
        chosen.wanted[0].placed,
        Placed::Before {
            point: 903,
            instructions: 5
        }
    );
    // From block 3 on the cache is full at 11: another knee, whose site is 12, behind it.
    assert_eq!(chosen.wanted[1].at, 11);
    assert_eq!(
        chosen.wanted[1].placed,
        Placed::After {
            point: 912,
            instructions: 1
        }
    );
    assert_eq!(
        chosen.points.into_iter().collect::<Vec<_>>(),
        [(903, 1), (912, 1)]
    );
    assert_eq!(
        chosen.segments.misses_at,
        [11],
        "block 3 left before the call came"
    );
    assert_eq!(chosen.segments.calls[1].thread, 3);

    let before = place(&operation, &figure_1(), &Search::paper(knee(200, 4))).unwrap();
    assert_eq!(
        before.wanted[0].placed,
        Placed::Before {
            point: 4 * LINE,
            instructions: 4
        }
    );
    let entries = Search {
        candidates: Candidates::Entries,
        ..Search::paper(knee(200, 4))
    };
    let entries = place(&operation, &figure_1(), &entries).unwrap();
    assert_eq!(
        entries.wanted[0].placed,
        Placed::Before {
            point: 2 * LINE,
            instructions: 6
        }
    );
    // From block 2 on eight fit, and nothing stands at 10 or behind.
    assert_eq!(entries.wanted[1].placed, Placed::Nowhere);
    assert_eq!(entries.segments.non_leading_misses(), 6);
    let full = Search {
        points_max: 0,
        ..Search::sites(knee(200, 4))
    };
    let full = place(&operation, &figure_1(), &full).unwrap();
    assert!(full.points.is_empty());
    assert_eq!(full.wanted[0].placed, Placed::Nowhere);
}

#[test]
fn a_rare_point_is_preferred_to_one_in_a_loop() {
    // Block 6 comes round three times before the knee at the first use of block 8; block 5 once.
    let operation = over([0, 1, 2, 3, 4, 6, 5, 6, 7, 6, 8, 9, 10, 11, 12]);
    let nearest = Search {
        candidates: Candidates::Addresses(&[5 * LINE, 6 * LINE].into()),
        ..Search::paper(knee(200, 4))
    };
    let rarest = Search {
        preference: Preference::Rarest,
        ..nearest
    };
    let nearest = place(&operation, &figure_1(), &nearest).unwrap();
    assert_eq!(nearest.points.into_iter().collect::<Vec<_>>(), [(6 * LINE, 3)]);
    let rarest = place(&operation, &figure_1(), &rarest).unwrap();
    assert_eq!(rarest.points.into_iter().collect::<Vec<_>>(), [(5 * LINE, 1)]);
    assert_eq!(rarest.segments.non_leading_misses(), 0);
}

#[test]
fn the_switch_costs_its_lines() {
    // The two lines of the switch lie in sets 0 and 1, where each half of the operation has one block. These sets are as full as
    // can be within a half, and the other half's block is what leaves.
    let operation = over(0..8);
    let points = |point| point == 4 * LINE;
    let switch = SwitchCode {
        address: 20 * LINE,
        bytes: 2 * LINE as u32,
    };
    let team = |switch| {
        Team::new(
            figure_1(),
            std::slice::from_ref(&operation),
            Candidates::Instructions,
            points,
            switch,
        )
        .unwrap()
    };
    assert_eq!(team(None).together(3, Start::Warm).total(), 0);
    let with = team(Some(switch)).together(3, Start::Warm);
    // The leading member misses its block of both sets in both halves. The last member ends without a switch, so that block 4 is used
    // after it; then block 0 drives the switch out, which is missed once in both sets, and drives block 4 out.
    assert_eq!(with.members, [4, 0, 0]);
    assert_eq!((with.switch, with.switches), (2, 5));
    assert_eq!(with.additional(), Some(1.0));
}

#[test]
fn the_best_knee_is_the_one_whose_team_misses_least() {
    // Nine blocks of one set: one too many, so that one leaves by the paper's count, and each member misses all nine.
    let cache = CodeCache::lru(L1i {
        bytes: 8 * LINE as u32,
        ways: 8,
        line_bytes: LINE as u32,
    })
    .unwrap();
    let nine = over(0..9);
    let search = Search::paper(knee(200, 1));
    let tradeoffs = sweep(
        &nine,
        &cache,
        &search,
        &[knee(9, 2), knee(9, 1), knee(5, 1)],
        5,
        None,
    )
    .unwrap();
    let seen: Vec<_> = tradeoffs
        .iter()
        .map(|one| {
            (
                one.points,
                one.calls,
                one.non_leading_misses,
                one.additional_misses,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [(0, 0, 1, Some(9.0)), (1, 1, 0, Some(0.0)), (1, 1, 0, Some(0.0))]
    );
    assert_eq!(best(&tradeoffs, 0), Some(&tradeoffs[0]));
    assert_eq!(best(&tradeoffs, 1), Some(&tradeoffs[1]));
    assert_eq!(best(&tradeoffs[1..], 0), None);
    let alone = sweep(&nine, &cache, &search, &[knee(9, 1)], 1, None).unwrap();
    assert_eq!((alone[0].additional_misses, best(&alone, 9)), (None, None));
    let many = knees();
    assert!(many.contains(&Knee::default()) && many.iter().all(|knee| knee.height > 0));
}

fn instruction(thread: u32, address: u64, flow: Flow) -> Event<'static> {
    Event::Instruction(Instruction {
        thread,
        address,
        bytes: 4,
        flow,
        accesses: &[],
    })
}

#[test]
fn a_recorder_keeps_what_is_between_the_markers_of_each_thread() {
    let mut recorder = Recorder::new(RecorderLimits::default());
    let events = [
        instruction(1, 0, Flow::Next),
        Event::Begin { thread: 1 },
        instruction(1, 4, Flow::Call { target: 64 }),
        Event::Begin { thread: 2 },
        instruction(2, 64, Flow::Next),
        instruction(1, 64, Flow::Next),
        Event::LatchEnter { thread: 1 },
        Event::LatchEnter { thread: 1 },
        Event::Ctx {
            thread: 1,
            site_address: 777,
        },
        Event::LatchLeave { thread: 1 },
        instruction(1, 68, Flow::Next),
        Event::LatchLeave { thread: 1 },
        Event::Ctx {
            thread: 1,
            site_address: 778,
        },
        instruction(1, 72, Flow::Return { target: 8 }),
        Event::End { thread: 1 },
        instruction(1, 8, Flow::Next),
        Event::End { thread: 2 },
    ];
    for event in &events {
        recorder.event(event);
    }
    let operations = recorder.finish().unwrap();
    let fetch = |address, latched, entry| Fetch {
        address,
        bytes: 4,
        latched,
        entry,
    };
    assert_eq!(operations.len(), 2);
    assert_eq!(operations[0].thread(), 1);
    assert_eq!(
        operations[0].fetches(),
        [
            fetch(4, false, false),
            fetch(64, false, true),
            fetch(68, true, false),
            fetch(72, false, false)
        ]
    );
    let visits: Vec<_> = operations[0]
        .visits()
        .iter()
        .map(|visit| (visit.at, visit.site_address, visit.latched))
        .collect();
    assert_eq!(visits, [(2, 777, true), (3, 778, false)]);
    assert_eq!(
        operations[1].fetches(),
        [fetch(64, false, false)],
        "another thread's call led elsewhere"
    );
}

#[test]
fn a_recorder_says_what_is_wrong() {
    let record = |limit, events: &[Event<'_>]| {
        let mut recorder = Recorder::new(RecorderLimits {
            instructions_max: limit,
        });
        for event in events {
            recorder.event(event);
        }
        recorder.finish()
    };
    let begin = Event::Begin { thread: 5 };
    let end = Event::End { thread: 5 };
    let one = instruction(5, 0, Flow::Next);
    assert_eq!(
        record(1, &[begin, one, one, end]),
        Err(InstructionCacheError::TooLong(1))
    );
    assert_eq!(
        record(2, &[begin, one, one, end]).map(|operations| operations.len()),
        Ok(1)
    );
    assert_eq!(record(9, &[begin, one]), Err(InstructionCacheError::Unended(5)));
    assert_eq!(
        record(9, &[begin, begin]),
        Err(InstructionCacheError::Unpaired(5))
    );
    assert_eq!(record(9, &[end]), Err(InstructionCacheError::Unpaired(5)));
    assert_eq!(record(9, &[]), Ok(Vec::new()));
}
