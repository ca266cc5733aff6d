//! Every interleaving of the two threads of a small work-ahead set, with every value that a relaxed load may see: `make loom`.
//!
//! The promise: each reference the helper sees was posted or is the dummy, and each state comes back to the main thread
//! once and in order, wherever the helper is. A program of its own: no other test knows loom's threads.
#![cfg(loom)]

use corun_exec::stage::Reference;
use corun_exec::stage::work_ahead::{Looked, WorkAheadSet};
use corun_model::operators::mode::Direction;

/// Posts on one thread, looks on another. Every other entry of several references has one less; its last slot is the dummy's.
///
/// Interleavings grow with the stores, `(posts + entries) * M`, and with the loads, `looks * M`: these are kept to what takes
/// seconds.
fn explore<const M: usize>(entries: usize, posts: u32, looks: usize) {
    for direction in [Direction::Forward, Direction::Backward] {
        for spin in [false, true] {
            loom::model(move || interleave::<M>(entries, posts, looks, direction, spin));
        }
    }
}

fn interleave<const M: usize>(entries: usize, posts: u32, looks: usize, direction: Direction, spin: bool) {
    static MEMORY: [u64; 8] = [0; 8];
    // Loom's threads want what lives for ever; a few bytes for each interleaving are left behind.
    let set = Box::leak(Box::new(
        WorkAheadSet::<'static, u32, M>::new(entries * M, M).expect("a small set"),
    ));
    assert_eq!(set.entries(), entries);
    let (mut main, mut helper) = set.split(direction);
    let helping = loom::thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..looks {
            let before = seen.len();
            match helper.step(spin, |reference| seen.push(reference.address() as usize)) {
                Looked::Loaded => assert_eq!(seen.len(), before + M),
                Looked::Unchanged => {
                    assert!(spin && seen.len() == before);
                    loom::thread::yield_now();
                }
            }
        }
        seen
    });

    let mut back = Vec::new();
    let mut posted = Vec::new();
    for state in 0..posts {
        let count = if state % 2 == 1 { M.max(2) - 1 } else { M };
        let references = MEMORY[state as usize..][..count].iter().map(Reference::to);
        posted.extend(references.clone().map(|reference| reference.address() as usize));
        let old = main.post(references, state);
        assert_eq!(old, state.checked_sub(entries as u32));
        back.extend(old);
    }
    for _ in 0..entries {
        back.extend(main.post_nothing());
    }
    assert_eq!(main.valid(), 0);
    assert_eq!(back, (0..posts).collect::<Vec<u32>>());

    let mut unposted = helping.join().expect("the helper does not panic");
    unposted.retain(|seen| !posted.contains(seen));
    unposted.dedup();
    assert!(unposted.len() <= 1, "there is one dummy line: {unposted:x?}");
    assert!(unposted.iter().all(|dummy| dummy % 64 == 0));
}

#[test]
fn one_entry() {
    explore::<1>(1, 3, 3);
    explore::<2>(1, 2, 2);
}

#[test]
fn two_entries() {
    explore::<1>(2, 3, 3);
    explore::<2>(2, 2, 2);
}

#[test]
fn three_entries() {
    explore::<1>(3, 4, 3);
}
