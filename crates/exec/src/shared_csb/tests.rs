//! Against a sorted set from the standard library, and with many threads.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::arena::BLOCK_NODES_MAX;
use super::descend::successor;
use super::node::Shape;
use super::{Key, Pair, SharedCsbError, SharedCsbTree};

const _: () = assert!(Shape::<1>::CHILDREN < BLOCK_NODES_MAX && Shape::<2>::CHILDREN < BLOCK_NODES_MAX);
const _: () = assert!(Shape::<4>::CHILDREN < BLOCK_NODES_MAX && Shape::<8>::CHILDREN < BLOCK_NODES_MAX);

/// A key whose words agree up to one of them, so that comparisons reach every word.
fn key<const W: usize>(number: u64) -> Key<W> {
    let mut key = [7; W];
    key[W - 1] = number % 8;
    key[(number / 8) as usize % W] += number / 8;
    key
}

/// All entries, forwards and backwards.
fn scan<const W: usize>(tree: &SharedCsbTree<W>) -> Vec<Pair<W>> {
    let mut cursor = tree.cursor();
    cursor.seek(&[0; W]);
    let forwards: Vec<_> = std::iter::from_fn(|| cursor.next()).collect();
    let mut cursor = tree.cursor();
    cursor.seek_back(&[u64::MAX; W]);
    let mut backwards: Vec<_> = std::iter::from_fn(|| cursor.prev()).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    forwards
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u64, u32),
    InsertUnique(u64, u32),
    Remove(u64, u32),
    /// Removes a part of all entries, in order.
    RemoveMany(u64, u64),
    Look(u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let key = prop_oneof![0..40_u64, 0..2000_u64];
    let change = prop_oneof![
        12 => (key.clone(), 0..6_u32).prop_map(|(key, rid)| Change::Insert(key, rid)),
        4 => (key.clone(), 0..6_u32).prop_map(|(key, rid)| Change::InsertUnique(key, rid)),
        4 => (key.clone(), 0..6_u32).prop_map(|(key, rid)| Change::Remove(key, rid)),
        1 => (0..2000_u64, 0..2000_u64).prop_map(|(from, many)| Change::RemoveMany(from, many)),
        4 => key.prop_map(Change::Look),
    ];
    proptest::collection::vec(change, 1..800)
}

fn first<const W: usize>(model: &BTreeSet<Pair<W>>, key: Key<W>) -> Option<u32> {
    model.range((key, 0)..=(key, u32::MAX)).next().map(|pair| pair.1)
}

fn agrees<const W: usize>(start: &BTreeSet<Pair<W>>, fill: f64, changes: &[Change]) {
    let mut model = start.clone();
    let entries: Vec<_> = model.iter().copied().collect();
    let tree = SharedCsbTree::<W>::bulk_load(&entries, fill).unwrap();
    tree.check();
    for change in changes {
        match *change {
            Change::Insert(number, rid) => {
                let key = key(number);
                assert_eq!(tree.insert(&key, rid), Ok(model.insert((key, rid))));
            }
            Change::InsertUnique(number, rid) => {
                let key = key(number);
                let expected = first(&model, key).map_or(Ok(()), Err);
                if expected.is_ok() {
                    model.insert((key, rid));
                }
                assert_eq!(tree.insert_unique(&key, rid), Ok(expected));
            }
            Change::Remove(number, rid) => {
                let key = key(number);
                assert_eq!(tree.remove(&key, rid), model.remove(&(key, rid)));
            }
            Change::RemoveMany(from, many) => {
                let going: Vec<_> = model
                    .range((key(from), 0)..)
                    .take(many as usize)
                    .copied()
                    .collect();
                for (key, rid) in going {
                    model.remove(&(key, rid));
                    assert!(tree.remove(&key, rid));
                }
                tree.check();
            }
            Change::Look(number) => {
                let key = key(number);
                assert_eq!(tree.get(&key), first(&model, key));
                let keys: Vec<Key<W>> = (0..number % 40).map(|at| self::key(number + at * at)).collect();
                let expected: Vec<_> = keys.iter().map(|&key| first(&model, key)).collect();
                assert_eq!(tree.get_many(&keys), expected);
                let mut cursor = tree.cursor();
                cursor.seek(&key);
                let mut after = model.range((key, 0)..).copied();
                let mut before = model.range(..=(key, u32::MAX)).rev().copied();
                for _ in 0..30 {
                    assert_eq!(cursor.next(), after.next());
                }
                cursor.seek_back(&key);
                for _ in 0..30 {
                    assert_eq!(cursor.prev(), before.next());
                }
                // Behind an entry that is there, or behind one that is not.
                let entry = (key, (number % 3) as u32);
                let mut after = model.range((Bound::Excluded(entry), Bound::Unbounded)).copied();
                cursor.seek_after(&entry);
                for _ in 0..30 {
                    assert_eq!(cursor.next(), after.next());
                }
            }
        }
    }
    tree.check();
    assert_eq!(tree.len(), model.len());
    assert_eq!(scan(&tree), model.iter().copied().collect::<Vec<_>>());
    for &(key, rid) in &model {
        assert!(tree.remove(&key, rid));
    }
    tree.check();
    assert!(tree.is_empty() && tree.height() == 0);
}

fn pairs<const W: usize>(numbers: &BTreeSet<(u64, u32)>) -> BTreeSet<Pair<W>> {
    numbers.iter().map(|&(number, rid)| (key(number), rid)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn it_holds_what_a_sorted_set_holds(
        start in proptest::collection::btree_set((0..2000_u64, 0..6_u32), 0..600),
        fill in 0.1..=1.0,
        changes in changes(),
    ) {
        agrees::<1>(&pairs(&start), fill, &changes);
        agrees::<2>(&pairs(&start), fill, &changes);
        agrees::<4>(&pairs(&start), fill, &changes);
        agrees::<8>(&pairs(&start), fill, &changes);
    }
}

#[test]
fn an_empty_tree_has_nothing() {
    let tree = SharedCsbTree::<2>::new();
    assert_eq!((tree.len(), tree.height(), tree.get(&[0, 0])), (0, 0, None));
    assert!(!tree.remove(&[0, 0], 0));
    let mut cursor = tree.cursor();
    assert_eq!((cursor.next(), cursor.prev()), (None, None), "it stands nowhere");
    cursor.seek(&[0, 0]);
    assert_eq!(cursor.next(), None);
    cursor.seek_back(&[u64::MAX; 2]);
    assert_eq!(cursor.prev(), None);
    tree.check();
}

#[test]
fn the_smallest_and_the_largest_pair_are_pairs() {
    let (low, high) = ([0; 4], [u64::MAX; 4]);
    let tree = SharedCsbTree::<4>::new();
    for rid in (0..100).chain(u32::MAX - 100..=u32::MAX) {
        assert_eq!(tree.insert(&high, rid), Ok(true));
        assert_eq!(tree.insert(&low, rid), Ok(true));
    }
    tree.check();
    assert_eq!((tree.get(&low), tree.get(&high)), (Some(0), Some(0)));
    let mut cursor = tree.cursor();
    cursor.seek_back(&high);
    assert_eq!(cursor.next(), None);
    assert_eq!(cursor.prev(), Some((high, u32::MAX)));
    cursor.seek(&low);
    assert_eq!(cursor.prev(), None);
    assert_eq!(cursor.next(), Some((low, 0)));
    assert_eq!(scan(&tree).len(), 402);
    assert_eq!(tree.insert_unique(&high, 5), Ok(Err(0)));
    assert_eq!(successor((high, u32::MAX)), None);
    assert_eq!(successor(([1, u64::MAX], u32::MAX)), Some(([2, 0], 0)));
}

#[test]
fn unsorted_entries_and_impossible_fills_are_refused() {
    let load = |entries: &[Pair<1>], fill| SharedCsbTree::<1>::bulk_load(entries, fill).err();
    let unsorted = |position| Some(SharedCsbError::Unsorted { position });
    assert_eq!(load(&[([1], 0), ([2], 0), ([1], 1)], 1.0), unsorted(2));
    assert_eq!(load(&[([1], 1), ([1], 0), ([0], 1)], 1.0), unsorted(1));
    assert_eq!(load(&[([1], 1), ([1], 1)], 1.0), unsorted(1), "pairs are unique");
    for fill in [0.0, -1.0, 1.1, f64::INFINITY] {
        assert_eq!(load(&[], fill), Some(SharedCsbError::Fill { fill }));
    }
    assert!(matches!(load(&[], f64::NAN), Some(SharedCsbError::Fill { .. })));
}

#[test]
fn every_thread_finds_its_own_keys() {
    const THREADS: u64 = 6;
    let tree = &SharedCsbTree::<1>::new();
    let per_thread = 8_000;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                // Interleaved keys: all threads fight for the same leaves.
                let key = |index: u64| [index * THREADS + thread];
                for index in 0..per_thread {
                    assert_eq!(tree.insert(&key(index), thread as u32), Ok(true));
                    assert_eq!(tree.get(&key(index)), Some(thread as u32));
                    if index >= 100 {
                        let old = key(index - 100);
                        assert_eq!(tree.get(&old), Some(thread as u32));
                        if index % 3 == 0 {
                            assert!(tree.remove(&old, thread as u32));
                            assert_eq!(tree.get(&old), None);
                        }
                    }
                }
            });
        }
    });
    tree.check();
    let expected: Vec<Pair<1>> = (0..per_thread)
        .filter(|index| (index + 100) % 3 != 0 || index + 100 >= per_thread)
        .flat_map(|index| (0..THREADS).map(move |thread| ([index * THREADS + thread], thread as u32)))
        .collect();
    assert_eq!(scan(tree), expected);
    assert_eq!(tree.len(), expected.len());
}

#[test]
fn of_racing_unique_inserts_exactly_one_wins() {
    const THREADS: usize = 6;
    const KEYS: u64 = 3_000;
    // Every third key has been put and removed, at RIDs on both sides of the racers', so that separators have these very keys.
    let tree = &SharedCsbTree::<2>::new();
    for number in (0..KEYS).step_by(3) {
        for rid in 0..40 {
            tree.insert(&[1, number], rid).unwrap();
        }
    }
    let spread: Vec<_> = scan(tree);
    for (index, (key, rid)) in spread.into_iter().enumerate() {
        // Some of the leaves between stay, as every 211th entry stays a while.
        if index % 211 != 0 {
            assert!(tree.remove(&key, rid));
        }
    }
    let standing = tree.len();
    let wins = &[(); THREADS].map(|()| AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (thread, wins) in wins.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..KEYS {
                    let rid = (thread * 7) as u32;
                    match tree.insert_unique(&[1, number], rid).unwrap() {
                        Ok(()) => {
                            wins.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(tree.get(&[1, number]), Some(rid));
                        }
                        Err(winner) => assert_eq!(tree.get(&[1, number]), Some(winner)),
                    }
                }
            });
        }
    });
    tree.check();
    let wins: usize = wins.iter().map(|wins| wins.load(Ordering::Relaxed)).sum();
    let keys: BTreeSet<Key<2>> = scan(tree).into_iter().map(|pair| pair.0).collect();
    assert_eq!(keys.len(), KEYS as usize);
    assert_eq!(tree.len(), KEYS as usize);
    assert_eq!(wins + standing, KEYS as usize);
}

#[test]
fn one_key_put_and_removed_by_all_is_never_twice() {
    let tree = &SharedCsbTree::<1>::bulk_load(
        &(0..400).map(|number| ([number * 10], 0)).collect::<Vec<_>>(),
        1.0,
    )
    .unwrap();
    let holders = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 1..5_u32 {
            scope.spawn(move || {
                for round in 0..6_000_u64 {
                    if tree.insert_unique(&[1005], thread).unwrap().is_ok() {
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        if round % 64 == 0 {
                            std::thread::yield_now();
                        }
                        holders.fetch_sub(1, Ordering::SeqCst);
                        assert!(tree.remove(&[1005], thread));
                    }
                    // Neighbours come and go, so that leaves split and vanish under the fight.
                    let near = [1000 + round % 300];
                    if near != [1005] {
                        tree.insert(&near, thread).unwrap();
                        assert!(tree.remove(&near, thread));
                    }
                }
            });
        }
    });
    tree.check();
    assert_eq!(tree.len(), 400);
}

#[test]
fn batches_find_what_stays_while_leaves_split_and_vanish() {
    const STAY: u64 = 2_000;
    let stay: Vec<Pair<2>> = (0..STAY).map(|number| ([1, number * 64], 1)).collect();
    let tree = &SharedCsbTree::<2>::bulk_load(&stay, 1.0).unwrap();
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..5_u64 {
                for near in 0..40_000 {
                    let number = near * 7_919 % (STAY * 8) * 8;
                    tree.insert(&[1, number + round], 2).unwrap();
                }
                for near in 0..STAY * 8 {
                    tree.remove(&[1, near * 8 + round], 2);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut batch = 0;
        while batch < 100 || !done.load(Ordering::Relaxed) {
            batch += 1;
            let numbers = (0..batch % 70).map(|at| (batch * 1_009 + at * 613) % STAY);
            // Every other key is between those that come and go, and was never there.
            let keys: Vec<Key<2>> = numbers.flat_map(|at| [[1, at * 64], [1, at * 64 + 7]]).collect();
            let expected: Vec<_> = keys.iter().map(|key| (key[1] % 64 == 0).then_some(1)).collect();
            assert_eq!(tree.get_many(&keys), expected);
        }
        writer.join().unwrap();
    });
    tree.check();
    assert_eq!(scan(tree), stay);
}

#[test]
fn cursors_return_what_stays_once_and_in_order() {
    // Multiples of 16 stay; the rest comes and goes.
    const STAY: u64 = 3_000;
    let stay: Vec<Pair<1>> = (0..STAY).map(|number| ([number * 16], 1)).collect();
    let tree = &SharedCsbTree::<1>::bulk_load(&stay, 1.0).unwrap();
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..3_u64 {
                        let key = |number: u64| [number * 16 + 1 + thread * 3 + round % 3];
                        for number in 0..STAY {
                            assert_eq!(tree.insert(&key(number), 2), Ok(true));
                        }
                        for number in 0..STAY {
                            assert!(tree.remove(&key(number), 2));
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut scans = 0;
                    while scans < 3 || !done.load(Ordering::Relaxed) {
                        let mut cursor = tree.cursor();
                        cursor.seek(&[0]);
                        check_scan(std::iter::from_fn(|| cursor.next()), STAY, |number| number);
                        cursor.seek_back(&[u64::MAX]);
                        check_scan(std::iter::from_fn(|| cursor.prev()), STAY, |number| {
                            STAY - 1 - number
                        });
                        scans += 1;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    tree.check();
    assert_eq!(scan(tree), stay);
}

/// Entries strictly monotonic, and of those that stay each once.
fn check_scan(entries: impl Iterator<Item = Pair<1>>, stay: u64, expected: impl Fn(u64) -> u64) {
    let (mut seen, mut before) = (0, None);
    let ascending = expected(0) == 0;
    for pair in entries {
        if let Some(before) = before {
            assert!(if ascending { pair > before } else { pair < before });
        }
        before = Some(pair);
        if pair.1 == 1 {
            assert_eq!(pair.0, [expected(seen) * 16]);
            seen += 1;
        }
    }
    assert_eq!(seen, stay);
}

#[test]
fn a_cursor_goes_both_ways() {
    let entries: Vec<Pair<1>> = (0..500).map(|number| ([number / 3], number as u32)).collect();
    let tree = SharedCsbTree::<1>::bulk_load(&entries, 0.7).unwrap();
    let mut cursor = tree.cursor();
    cursor.seek(&[50]);
    let mut position = 150;
    for step in [1_i64, 40, -17, -60, 100, -130, 3] {
        for _ in 0..step.abs() {
            if step > 0 {
                assert_eq!(cursor.next(), Some(entries[position]));
                position += 1;
            } else {
                position -= 1;
                assert_eq!(cursor.prev(), Some(entries[position]));
            }
        }
    }
}

#[test]
fn trees_come_and_go_with_groups_still_waiting() {
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                for round in 0..20 {
                    let tree = SharedCsbTree::<1>::new();
                    for number in 0..500 {
                        tree.insert(&[number * (thread + 3) % 499], round).unwrap();
                    }
                    assert_eq!(tree.len(), 499);
                }
            });
        }
    });
}
