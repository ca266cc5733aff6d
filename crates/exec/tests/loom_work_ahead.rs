//! Every interleaving of the two threads of a small work-ahead set, with every value that a relaxed load may see: `make loom`.
//!
//! The promise: each reference the helper sees was posted or is the dummy, and each state comes back to the main thread
//! once and in order, wherever the helper is.
#![cfg(loom)]

use exec::stage::Reference;
use exec::stage::work_ahead::{Looked, WorkAheadSet};
use model::mode::Direction;

/// Posts on one thread, looks on another.
fn explore(entries: usize, posts: u32, looks: usize, direction: Direction, spin: bool) {
    loom::model(move || {
        static MEMORY: [u64; 8] = [0; 8];
        let address = |value: &u64| std::ptr::from_ref(value) as usize;
        let second = |state: u32| &MEMORY[7 - state as usize];
        // Loom's threads want what lives for ever; a few bytes for each interleaving are left behind.
        let set = Box::leak(Box::new(
            WorkAheadSet::<'static, u32, 2>::new(entries, 1).expect("a small set"),
        ));
        let (mut main, mut helper) = set.split(direction);
        let helping = loom::thread::spawn(move || {
            let mut seen = Vec::new();
            for _ in 0..looks {
                let mut entry = Vec::new();
                match helper.step(spin, |reference| entry.push(reference.address() as usize)) {
                    Looked::Loaded => {
                        assert_eq!(entry.len(), 2);
                        seen.extend(entry);
                    }
                    Looked::Unchanged => {
                        assert!(spin && entry.is_empty());
                        loom::thread::yield_now();
                    }
                }
            }
            seen
        });
        let mut back = Vec::new();
        let mut posted = Vec::new();
        for state in 0..posts {
            // Every other entry has one reference only; the other slot is the dummy's.
            let references = [&MEMORY[state as usize], second(state)];
            let count = 1 + state as usize % 2;
            posted.extend(references[..count].iter().map(|reference| address(reference)));
            let references: Vec<Reference<'static>> = references[..count]
                .iter()
                .map(|reference| Reference::to(*reference))
                .collect();
            let old = main.post(references.into_iter(), state);
            assert_eq!(old, state.checked_sub(entries as u32));
            back.extend(old);
        }
        for _ in 0..entries {
            back.extend(main.post_nothing());
        }
        assert_eq!(main.valid(), 0);
        assert_eq!(back, (0..posts).collect::<Vec<u32>>());

        let seen = helping.join().expect("the helper does not panic");
        let mut unposted: Vec<usize> = seen.into_iter().filter(|seen| !posted.contains(seen)).collect();
        unposted.dedup();
        assert!(unposted.len() <= 1, "there is one dummy line: {unposted:x?}");
        assert!(unposted.iter().all(|dummy| dummy % 64 == 0));
    });
}

#[test]
fn one_entry() {
    for spin in [false, true] {
        explore(1, 3, 3, Direction::Forward, spin);
        explore(1, 3, 3, Direction::Backward, spin);
    }
}

#[test]
fn two_entries() {
    for spin in [false, true] {
        explore(2, 3, 3, Direction::Forward, spin);
        explore(2, 3, 3, Direction::Backward, spin);
    }
}

#[test]
fn three_entries() {
    for spin in [false, true] {
        explore(3, 4, 4, Direction::Forward, spin);
        explore(3, 4, 4, Direction::Backward, spin);
    }
}
