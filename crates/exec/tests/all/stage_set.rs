//! The work-ahead set by itself, step by step on one thread: what comes back from a post, what the helper sees, and when it
//! waits. Small enough for Miri; the interleavings of two threads are `loom_work_ahead.rs`.

use corun_exec::stage::Reference;
use corun_exec::stage::work_ahead::{ENTRIES_MAX, Helper, Looked, WorkAheadError, WorkAheadSet};
use corun_model::operators::mode::Direction;

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// What the helper sees at one entry, as addresses; `None` where it waits.
fn look<const M: usize>(helper: &mut Helper<'_, '_, u32, M>, spin: bool) -> Option<Vec<usize>> {
    let mut seen = Vec::new();
    match helper.step(spin, |reference| seen.push(reference.address() as usize)) {
        Looked::Loaded => {
            assert_eq!(seen.len(), M, "all references of an entry, used or not");
            Some(seen)
        }
        Looked::Unchanged => {
            assert!(seen.is_empty(), "nothing is loaded while it waits");
            None
        }
    }
}

fn address<T>(value: &T) -> usize {
    std::ptr::from_ref(value) as usize
}

/// The dummy line's address: what an empty set names.
fn dummy() -> usize {
    let mut set = WorkAheadSet::<u32, 1>::new(1, 1).unwrap();
    let (_, mut helper) = set.split(Direction::Forward);
    look(&mut helper, false).unwrap()[0]
}

fn references<'a, const K: usize>(values: [&'a u64; K]) -> std::array::IntoIter<Reference<'a>, K> {
    values.map(Reference::to).into_iter()
}

#[test]
fn the_dummy_is_a_line_of_its_own() {
    assert_eq!(dummy() % 64, 0);
}

#[test]
fn a_size_gives_so_many_entries() {
    for (lines, min, entries) in [
        (1, 1, 1),
        (128, 1, 128),
        (128, 2, 64),
        (7, 3, 2),
        (2, 3, 1),
        (1, 3, 1),
    ] {
        let set = WorkAheadSet::<u32, 3>::new(lines, min).unwrap();
        assert_eq!(set.entries(), entries, "{lines} lines, at least {min} a stage");
    }
}

#[test]
fn impossible_sets_are_errors() {
    let error = |lines, min| WorkAheadSet::<u32, 3>::new(lines, min).err();
    assert_eq!(error(0, 1), Some(WorkAheadError::Empty));
    assert_eq!(error(8, 0), Some(WorkAheadError::References { min: 0, max: 3 }));
    assert_eq!(error(8, 4), Some(WorkAheadError::References { min: 4, max: 3 }));
    let entries = ENTRIES_MAX + 1;
    assert_eq!(error(entries, 1), Some(WorkAheadError::TooLarge { entries }));
    assert_eq!(
        error(usize::MAX, 3),
        Some(WorkAheadError::TooLarge {
            entries: usize::MAX / 3
        })
    );
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, for one large array")]
fn the_largest_set_is_possible() {
    let set = WorkAheadSet::<u32, 1>::new(ENTRIES_MAX, 1).unwrap();
    assert_eq!(set.entries(), ENTRIES_MAX);
}

#[test]
fn each_state_comes_back_a_round_later_in_order() {
    let memory = [0_u64; 4];
    for entries in 1..=5 {
        let mut set = WorkAheadSet::<u32, 1>::new(entries, 1).unwrap();
        let (mut main, _helper) = set.split(Direction::Backward);
        let mut back = Vec::new();
        for state in 0..20 {
            let old = main.post(references([&memory[state as usize % 4]]), state);
            assert_eq!(old, state.checked_sub(entries as u32), "{entries} entries");
            back.extend(old);
        }
        // Nothing but the last round is inside; entries without state do not come back.
        for _ in 0..entries {
            back.extend(main.post_nothing());
        }
        assert_eq!(main.post_nothing(), None);
        assert_eq!(back, (0..20).collect::<Vec<u32>>());
        assert_eq!(main.valid(), 0);
    }
}

#[test]
fn valid_references_are_counted_and_keep_new_work_out() {
    let memory = [1_u64, 2, 3];
    let [a, b, c] = &memory;
    // Seven lines of entries with one to three references.
    let mut set = WorkAheadSet::<u32, 3>::new(7, 1).unwrap();
    let (mut main, _helper) = set.split(Direction::Forward);
    let mut valid = 0;
    for state in 0..50_usize {
        let full = main.is_full();
        assert_eq!(full, main.valid() >= 7);
        let before = main.valid();
        match (full, state % 3) {
            (true, _) => _ = main.post_nothing(),
            (false, 0) => _ = main.post(references([a]), 0),
            (false, 1) => _ = main.post(references([a, b]), 0),
            (false, _) => _ = main.post(references([a, b, c]), 0),
        }
        assert!(!full || main.valid() <= before, "a dummy adds nothing");
        // New work is let in below seven lines only, and brings three at most.
        assert!(main.valid() <= 7 - 1 + 3);
        valid = valid.max(main.valid());
    }
    assert!(valid >= 7, "the threshold was never reached");
}

#[test]
fn references_of_an_entry_are_replaced_not_added() {
    let memory = [1_u64, 2, 3];
    let [a, b, c] = &memory;
    let mut set = WorkAheadSet::<u32, 3>::new(1, 1).unwrap();
    let (mut main, mut helper) = set.split(Direction::Forward);
    assert_eq!(main.post(references([a, b, c]), 1), None);
    assert_eq!((main.valid(), main.is_full()), (3, true));
    assert_eq!(
        look(&mut helper, false),
        Some(vec![address(a), address(b), address(c)])
    );
    assert_eq!(main.post(references([b]), 2), Some(1));
    assert_eq!(main.valid(), 1);
    assert_eq!(look(&mut helper, false), Some(vec![address(b), dummy(), dummy()]));
    assert_eq!(main.post(references([]), 3), Some(2));
    assert_eq!((main.valid(), main.is_full()), (0, false));
    assert_eq!(look(&mut helper, false), Some(vec![dummy(); 3]));
    assert_eq!(main.post_nothing(), Some(3));
}

#[test]
#[should_panic(expected = "an entry of this work-ahead set holds 1 references, not 2")]
fn too_many_references_panic() {
    let memory = [1_u64, 2];
    let mut set = WorkAheadSet::<u32, 1>::new(4, 1).unwrap();
    let (mut main, _helper) = set.split(Direction::Forward);
    main.post(references([&memory[0], &memory[1]]), 0);
}

#[test]
fn the_helper_goes_round_in_its_direction() {
    let memory = [0_u64; 5];
    for direction in DIRECTIONS {
        let mut set = WorkAheadSet::<u32, 1>::new(5, 1).unwrap();
        let (mut main, mut helper) = set.split(direction);
        for (state, value) in memory.iter().enumerate() {
            main.post(references([value]), state as u32);
        }
        let order: [usize; 11] = match direction {
            Direction::Forward => [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0],
            Direction::Backward => [0, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0],
        };
        for entry in order {
            assert_eq!(
                look(&mut helper, false),
                Some(vec![address(&memory[entry])]),
                "{direction:?}"
            );
        }
    }
}

#[test]
fn a_single_entry_is_visited_again_and_again() {
    for direction in DIRECTIONS {
        let mut set = WorkAheadSet::<u32, 1>::new(1, 1).unwrap();
        let (_, mut helper) = set.split(direction);
        for _ in 0..3 {
            assert_eq!(look(&mut helper, true), Some(vec![dummy()]));
        }
    }
}

#[test]
fn spinning_waits_for_a_new_first_reference_only() {
    let memory = [1_u64, 2, 3];
    let [a, b, c] = &memory;
    for direction in DIRECTIONS {
        let mut set = WorkAheadSet::<u32, 2>::new(4, 2).unwrap();
        let (mut main, mut helper) = set.split(direction);
        main.post(references([a, b]), 0);
        main.post(references([b, c]), 1);
        // With two entries both directions visit 0, 1, 0, 1, ...
        assert_eq!(look(&mut helper, true), Some(vec![address(a), address(b)]));
        assert_eq!(look(&mut helper, true), Some(vec![address(b), address(c)]));
        for _ in 0..3 {
            assert_eq!(look(&mut helper, true), None, "entry 0 has not changed");
        }
        // The same first reference: not seen as new, whatever the second is.
        main.post(references([a, c]), 2);
        assert_eq!(look(&mut helper, true), None);
        // Without spinning it goes on.
        assert_eq!(look(&mut helper, false), Some(vec![address(a), address(c)]));
        main.post(references([c, b]), 3);
        assert_eq!(look(&mut helper, true), Some(vec![address(c), address(b)]));
    }
}

#[test]
fn the_dummy_is_never_waited_on() {
    let memory = 1_u64;
    for direction in DIRECTIONS {
        let mut set = WorkAheadSet::<u32, 2>::new(3, 1).unwrap();
        let (mut main, mut helper) = set.split(direction);
        for _ in 0..7 {
            assert_eq!(look(&mut helper, true), Some(vec![dummy(); 2]));
        }
        // A state without references names the dummy too.
        for state in 0..3 {
            main.post(references([]), state);
        }
        for _ in 0..7 {
            assert_eq!(look(&mut helper, true), Some(vec![dummy(); 2]));
        }
        // The same line again after a dummy is new.
        for _ in 0..3 {
            main.post(references([&memory]), 9);
        }
        for _ in 0..3 {
            assert_eq!(look(&mut helper, true), Some(vec![address(&memory), dummy()]));
        }
        assert_eq!(look(&mut helper, true), None);
    }
}

#[test]
fn new_ends_find_an_empty_set() {
    let memory = [1_u64, 2];
    let mut set = WorkAheadSet::<u32, 2>::new(2, 1).unwrap();
    {
        let (mut main, _helper) = set.split(Direction::Forward);
        main.post(references([&memory[0], &memory[1]]), 5);
        assert_eq!(main.valid(), 2);
    }
    let (mut main, mut helper) = set.split(Direction::Backward);
    assert_eq!(look(&mut helper, true), Some(vec![dummy(); 2]));
    assert_eq!(main.post(references([&memory[0]]), 6), None);
    assert_eq!(main.valid(), 1);
    assert_eq!((main.post_nothing(), main.post_nothing()), (None, Some(6)));
    assert_eq!(main.valid(), 0);
}

#[test]
fn an_entry_is_its_references_and_the_state() {
    let word = size_of::<usize>();
    let sizes = [
        WorkAheadSet::<u64, 1>::ENTRY_BYTES,
        WorkAheadSet::<u64, 3>::ENTRY_BYTES,
    ];
    // Beside them a count and a flag in one word.
    assert_eq!(sizes, [word + 16, 3 * word + 16]);
}
