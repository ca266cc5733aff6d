//! The tree against `BTreeSet`, with all key types and node sizes; and its inner order, checked node by node.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use proptest::prelude::*;

use super::search::{Isa, Portable, Search, Task};
use super::*;

/// Keys that tests make from small numbers, some of them equal, both ends of the type included.
trait TestKey: Key {
    fn make(number: u16) -> Self;
}

macro_rules! integer_test_key {
    ($($key:ty),*) => {$(
        impl TestKey for $key {
            fn make(number: u16) -> Self {
                match number {
                    0 => <$key>::MIN,
                    1..4096 => <$key>::MIN.wrapping_add(<$key>::MAX / 4096 * <$key>::from(number as u8 & 0x7f)),
                    u16::MAX => <$key>::MAX,
                    _ => <$key>::MAX - (u16::MAX - number) as $key,
                }
            }
        }
    )*};
}

integer_test_key!(i32, u32, i64, u64);

macro_rules! float_test_key {
    ($($key:ty),*) => {$(
        impl TestKey for $key {
            fn make(number: u16) -> Self {
                match number {
                    0 => <$key>::NEG_INFINITY,
                    1 => -0.0,
                    2 => 0.0,
                    3 => <$key>::MIN_POSITIVE,
                    u16::MAX => <$key>::INFINITY,
                    _ => (<$key>::from(number) - 3000.0) / 8.0,
                }
            }
        }
    )*};
}

float_test_key!(f32, f64);

#[derive(Clone, Debug)]
enum Op {
    Insert(u16, u32),
    Remove(u16, u32),
    /// Removes everything from one key up to another.
    Clear(u16, u16),
    Get(u16),
    Range(u16, u16, u8),
}

/// Few keys with many RIDs, or many keys.
fn ops(length: usize) -> impl Strategy<Value = Vec<Op>> {
    let key = || prop_oneof![3 => 0..20_u16, 2 => 0..4096_u16, 2 => 65_000..=u16::MAX];
    let rid = || prop_oneof![0..4_u32, 0..1000_u32, Just(u32::MAX)];
    let op = prop_oneof![
        20 => (key(), rid()).prop_map(|(key, rid)| Op::Insert(key, rid)),
        8 => (key(), rid()).prop_map(|(key, rid)| Op::Remove(key, rid)),
        1 => (key(), key()).prop_map(|(from, to)| Op::Clear(from, to)),
        2 => key().prop_map(Op::Get),
        2 => (key(), key(), any::<u8>()).prop_map(|(from, to, kind)| Op::Range(from, to, kind)),
    ];
    prop::collection::vec(op, 0..length)
}

fn bound<T>(kind: u8, value: T) -> Bound<T> {
    match kind % 3 {
        0 => Bound::Included(value),
        1 => Bound::Excluded(value),
        _ => Bound::Unbounded,
    }
}

type Model<K> = BTreeSet<(<K as Key>::Order, u32)>;

fn entries<K: Key>(model: &Model<K>, range: impl Fn(K) -> bool) -> Vec<(K, u32)> {
    model
        .iter()
        .map(|&(order, rid)| (K::from_order(order), rid))
        .filter(|&(key, _)| range(key))
        .collect()
}

/// Every way to ask for one key.
fn check_key<K: TestKey, const LINES: usize>(tree: &CsbTree<K, LINES>, model: &Model<K>, key: K) {
    let order = key.to_order();
    let first = model.range((order, 0)..).next();
    assert_eq!(
        tree.lower_bound(key),
        first.map(|&(order, rid)| (K::from_order(order), rid))
    );
    let rids: Vec<u32> = model
        .range((order, 0)..=(order, u32::MAX))
        .map(|&(_, rid)| rid)
        .collect();
    assert_eq!(tree.get(key), rids.first().copied());
    let mut node = tree.root();
    for _ in 0..tree.height() {
        assert_eq!(tree.node_bytes(node).as_ptr(), tree.node_address(node));
        node = tree.child(node, key);
    }
    assert_eq!(tree.node_bytes(node).len(), 64 * LINES);
    assert_eq!(tree.node_address(node) as usize % 64, 0);
    let mut entries = tree.leaf_entries_from(node, key);
    assert_eq!(entries.by_ref().collect::<Vec<_>>(), rids);
    assert_eq!(entries.next(), None);
}

/// Walks all nodes: kinds, counts, order, separators, links, and that every node is in the tree or free.
fn check_invariants<K: Key, const LINES: usize>(tree: &CsbTree<K, LINES>) {
    let mut leaves = Vec::new();
    let mut live = 0;
    walk(tree, tree.root, tree.height, None, None, &mut leaves, &mut live);
    assert_eq!(live + tree.arena.check_free(), tree.arena.length());
    assert!(
        tree.height == 0 || tree.arena.node(tree.root).count() > 0,
        "the root has two children"
    );
    for (index, &leaf) in leaves.iter().enumerate() {
        let node = tree.arena.node(leaf);
        assert_eq!(node.link(), leaves.get(index + 1).copied().unwrap_or(NONE));
        if let Some(&next) = leaves.get(index + 1) {
            let (last, first) = (node.last_entry(), tree.arena.node(next).first_entry());
            assert!(last < first);
            assert!(last.0 < first.0 || node.continues(), "leaf {leaf} hides {next}");
        }
    }
    let length: usize = leaves.iter().map(|&leaf| tree.arena.node(leaf).count()).sum();
    assert_eq!(length, tree.len());
    if tree.is_empty() {
        assert_eq!(tree.arena.length(), 1, "an empty tree is one node");
    }
}

fn walk<K: Key, const LINES: usize>(
    tree: &CsbTree<K, LINES>,
    at: u32,
    height: usize,
    low: Option<K::Order>,
    high: Option<K::Order>,
    leaves: &mut Vec<u32>,
    live: &mut u32,
) {
    *live += 1;
    let node = tree.arena.node(at);
    let within = |key: K::Order| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key <= high);
    if height == 0 {
        assert!(node.is_leaf());
        assert!(node.count() > 0 || tree.is_empty());
        let (keys, rids) = (node.leaf_keys(), node.rids());
        assert!(keys[..node.count()].iter().all(|&key| within(key)));
        assert!(keys[..node.count()].iter().zip(rids).is_sorted_by(|a, b| a < b));
        assert!(keys[node.count()..].iter().all(|&key| key == K::Order::MAX));
        assert!(rids[node.count()..].iter().all(|&rid| rid == 0));
        leaves.push(at);
        return;
    }
    assert!(node.is_inner());
    let keys = node.inner_keys();
    assert!(keys[..node.count()].iter().all(|&key| within(key)));
    assert!(keys[node.count()..].iter().all(|&key| key == K::Order::MAX));
    for slot in 0..=node.count() {
        let low = if slot == 0 { low } else { Some(keys[slot - 1]) };
        let high = if slot == node.count() {
            high
        } else {
            Some(keys[slot])
        };
        walk(
            tree,
            node.link() + slot as u32,
            height - 1,
            low,
            high,
            leaves,
            live,
        );
    }
}

/// Runs operations on a tree and a set.
fn run_ops<K: TestKey, const LINES: usize>(mut tree: CsbTree<K, LINES>, mut model: Model<K>, ops: &[Op]) {
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Insert(number, rid) => {
                let key = K::make(number);
                assert_eq!(tree.insert(key, rid), Ok(model.insert((key.to_order(), rid))));
            }
            Op::Remove(number, rid) => {
                let key = K::make(number);
                assert_eq!(tree.remove(key, rid), model.remove(&(key.to_order(), rid)));
            }
            Op::Clear(from, to) => {
                let (from, to) = (K::make(from), K::make(to));
                for (key, rid) in tree.range(from..to).collect::<Vec<_>>() {
                    assert!(tree.remove(key, rid) && model.remove(&(key.to_order(), rid)));
                }
            }
            Op::Get(number) => check_key(&tree, &model, K::make(number)),
            Op::Range(from, to, kind) => {
                let range = (bound(kind, K::make(from)), bound(kind / 3, K::make(to)));
                let expected = entries(&model, |key| range.contains(&key));
                assert_eq!(tree.range(range).collect::<Vec<_>>(), expected);
            }
        }
        assert_eq!(tree.len(), model.len());
        if step % 64 == 0 {
            check_invariants(&tree);
        }
    }
    check_invariants(&tree);
    assert_eq!(tree.range(..).collect::<Vec<_>>(), entries(&model, |_| true));
    for number in (0..20).chain([u16::MAX - 1, u16::MAX]) {
        check_key(&tree, &model, K::make(number));
    }

    let bytes = tree.to_bytes().unwrap();
    let read = CsbTree::<K, LINES>::from_bytes(&bytes).unwrap();
    check_invariants(&read);
    assert_eq!(read.range(..).collect::<Vec<_>>(), entries(&model, |_| true));
    assert_eq!(read.to_bytes().unwrap(), bytes);

    for (key, rid) in entries(&model, |_| true) {
        assert!(tree.remove(key, rid));
    }
    check_invariants(&tree);
}

fn from_empty<K: TestKey, const LINES: usize>(ops: &[Op]) {
    run_ops(CsbTree::<K, LINES>::new().unwrap(), Model::<K>::new(), ops);
}

fn from_bulk<K: TestKey, const LINES: usize>(pairs: &BTreeSet<(u16, u32)>, fill: f64, ops: &[Op]) {
    let model: Model<K> = pairs
        .iter()
        .map(|&(key, rid)| (K::make(key).to_order(), rid))
        .collect();
    let (keys, rids): (Vec<K>, Vec<u32>) = entries::<K>(&model, |_| true).into_iter().unzip();
    let tree = CsbTree::<K, LINES>::bulk_load(&keys, &rids, fill).unwrap();
    check_invariants(&tree);
    run_ops(tree, model, ops);
}

proptest! {
    #[test]
    fn changes_agree_with_a_set(ops in ops(1500)) {
        from_empty::<i32, 1>(&ops);
        from_empty::<u32, 2>(&ops);
        from_empty::<f32, 1>(&ops);
        from_empty::<i64, 1>(&ops);
        from_empty::<u64, 2>(&ops);
        from_empty::<f64, 1>(&ops);
    }

    #[test]
    fn loaded_trees_agree_with_a_set(
        pairs in prop::collection::btree_set((prop_oneof![0..8_u16, any::<u16>()], 0..600_u32), 0..2500),
        fill in 0.01..=1.0_f64,
        ops in ops(300),
    ) {
        from_bulk::<u32, 1>(&pairs, fill, &ops);
        from_bulk::<i32, 2>(&pairs, fill, &ops);
        from_bulk::<f32, 4>(&pairs, fill, &ops);
        from_bulk::<u64, 1>(&pairs, fill, &ops);
        from_bulk::<f64, 3>(&pairs, fill, &ops);
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_sound_tree(
        pairs in prop::collection::btree_set((0..50_u16, 0..20_u32), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let model: Model<u32> = pairs.iter().map(|&(key, rid)| (u32::from(key).to_order(), rid)).collect();
        let (keys, rids): (Vec<u32>, Vec<u32>) = entries::<u32>(&model, |_| true).into_iter().unzip();
        let tree = CsbTree::<u32, 1>::bulk_load(&keys, &rids, 0.7).unwrap();
        let mut bytes = tree.to_bytes().unwrap();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len() + 1));
        }
        match CsbTree::<u32, 1>::from_bytes(&bytes) {
            Ok(read) => {
                check_invariants(&read);
                prop_assert_eq!(read.range(..).count(), read.len());
                prop_assert_eq!(read.to_bytes().unwrap(), bytes);
            }
            Err(CsbError::Corrupt { at_byte, .. }) => prop_assert!(at_byte <= bytes.len()),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn nodes_hold_what_the_paper_s_do() {
    assert_eq!(Node::<i32, 2>::INNER_KEYS, 30);
    assert_eq!(Node::<i32, 2>::LEAF_ENTRIES, 15);
    assert_eq!(
        (Node::<i32, 1>::INNER_KEYS, Node::<i32, 1>::LEAF_ENTRIES),
        (14, 7)
    );
    assert_eq!((Node::<i64, 1>::INNER_KEYS, Node::<i64, 1>::LEAF_ENTRIES), (7, 4));
    assert_eq!(
        (Node::<i64, 2>::INNER_KEYS, Node::<i64, 2>::LEAF_ENTRIES),
        (15, 10)
    );
    assert_eq!(
        (Node::<i32, 4>::INNER_KEYS, Node::<i32, 4>::LEAF_ENTRIES),
        (62, 31)
    );
}

#[test]
fn loading_fills_nodes_as_far_as_asked() {
    let keys: Vec<u32> = (0..1100).collect();
    let nodes = |fill| {
        let tree = CsbTree::<u32>::bulk_load(&keys, &keys, fill).unwrap();
        (tree.height(), tree.arena.length())
    };
    // 11 of 15 entries a leaf, 23 of 31 children a node.
    assert_eq!(nodes(0.75), (2, 100 + 5 + 1));
    assert_eq!(nodes(1.0), (2, 74 + 3 + 1));
    // One entry and two children.
    assert_eq!(
        nodes(0.01),
        (11, 1100 + 550 + 275 + 138 + 69 + 35 + 18 + 9 + 5 + 3 + 2 + 1)
    );
}

/// Every set counts as the portable one does, in nodes of all counts.
fn check_search<O: Order, const LINES: usize>(draw: impl Fn(usize) -> O) {
    let mut keys: Vec<O> = (0..Node::<O, LINES>::INNER_KEYS).map(draw).collect();
    keys.sort_unstable();
    let probes: Vec<O> = keys.iter().copied().chain([O::MIN, O::MAX]).collect();
    let probes = probes
        .iter()
        .flat_map(|key| [Some(*key), key.above(), key.below()])
        .flatten();
    for key in probes {
        for count in 0..=keys.len() {
            let mut node = Node::<O, LINES>::inner(u32::MAX);
            node.inner_keys_mut()[..count].copy_from_slice(&keys[..count]);
            node.set_count(count);
            let entries = count.min(Node::<O, LINES>::LEAF_ENTRIES);
            let mut leaf = Node::<O, LINES>::leaf(0);
            leaf.leaf_keys_mut()[..entries].copy_from_slice(&keys[..entries]);
            leaf.rids_mut().fill(1 << 31);
            for isa in Isa::available() {
                // SAFETY: the set is available.
                let (inner, leaf) = unsafe {
                    (
                        isa.run(LessInner { node: &node, key }),
                        isa.run(LessLeaf { node: &leaf, key }),
                    )
                };
                let less = |keys: &[O]| keys.iter().filter(|&&other| other < key).count();
                assert_eq!(
                    (inner, leaf),
                    (less(&keys[..count]), less(&keys[..entries])),
                    "{isa:?}"
                );
            }
        }
    }
}

#[test]
fn every_instruction_set_counts_the_same() {
    let spread = |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    check_search::<i32, 1>(|index| spread(index) as i32);
    check_search::<i32, 2>(|index| spread(index) as i32);
    check_search::<i32, 3>(|index| spread(index) as i32 >> 28);
    check_search::<i32, 4>(|index| spread(index) as i32);
    check_search::<i64, 1>(|index| spread(index) as i64);
    check_search::<i64, 2>(|index| spread(index) as i64);
    check_search::<i64, 3>(|index| spread(index) as i64 >> 60);
    check_search::<i64, 4>(|index| spread(index) as i64);
}

/// A task that says which set it runs with.
struct Name;

impl Task for Name {
    type Output = &'static str;

    #[inline(always)]
    unsafe fn run<S: Search>(self) -> &'static str {
        std::any::type_name::<S>()
    }
}

#[test]
fn each_set_runs_its_own_code() {
    let names: BTreeSet<&str> = Isa::available()
        .into_iter()
        // SAFETY: the set is available.
        .map(|isa| unsafe { isa.run(Name) })
        .collect();
    assert_eq!(names.len(), Isa::available().len());
    assert!(names.contains(std::any::type_name::<Portable>()));
}

#[test]
fn one_key_with_very_many_rids_is_found_by_rid() {
    let mut tree = CsbTree::<u32, 1>::new().unwrap();
    // In an order that hits all leaves, between two other keys.
    let rids: Vec<u32> = (0..20_000_u32).map(|i| i.wrapping_mul(7919) % 20_011).collect();
    tree.insert(6, 1).unwrap();
    tree.insert(8, 1).unwrap();
    for &rid in &rids {
        assert_eq!(tree.insert(7, rid), Ok(true));
        assert_eq!(tree.insert(7, rid), Ok(false));
    }
    check_invariants(&tree);
    let mut sorted = rids.clone();
    sorted.sort_unstable();
    let all = tree.range(7..=7).map(|(_, rid)| rid);
    assert!(all.eq(sorted.iter().copied()));
    for &rid in rids.iter().step_by(2) {
        assert!(tree.remove(7, rid) && !tree.remove(7, rid));
    }
    check_invariants(&tree);
    assert_eq!(tree.len(), 2 + rids.len() / 2);
}

#[test]
fn filling_and_emptying_does_not_grow_the_memory() {
    let mut tree = CsbTree::<i64, 1>::new().unwrap();
    let mut first_bytes = 0;
    for round in 0..6_u64 {
        let key = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as i64;
        for i in 0..5000 {
            tree.insert(key(i), i as u32).unwrap();
        }
        if round == 0 {
            first_bytes = tree.bytes();
        }
        check_invariants(&tree);
        // In another order than they came, and in half of the rounds not all of them.
        for i in (0..5000_u64).rev().filter(|i| round % 2 == 0 || i % 16 != 0) {
            assert!(tree.remove(key(i), i as u32));
        }
        check_invariants(&tree);
    }
    assert!(
        tree.bytes() <= first_bytes * 2,
        "{} after {first_bytes}",
        tree.bytes()
    );
}

#[test]
fn no_room_leaves_the_tree_as_it_was() {
    for limit in 1..60 {
        let mut tree = CsbTree::<i64, 1>::new().unwrap();
        tree.arena.limit(limit);
        let mut model = Model::<i64>::new();
        let mut refused = 0;
        for i in 0..300_i64 {
            let key = i * 7919 % 307;
            match tree.insert(key, 0) {
                Ok(added) => assert!(added && model.insert((key, 0))),
                Err(error) => {
                    assert_eq!(error, CsbError::TooManyNodes);
                    refused += 1;
                }
            }
            check_invariants(&tree);
        }
        assert!(refused > 0);
        assert!(tree.range(..).eq(model.iter().copied()));
    }
}

#[test]
fn bad_input_is_an_error() {
    let load =
        |keys: &[f32], rids: &[u32], fill| CsbTree::<f32>::bulk_load(keys, rids, fill).map(|tree| tree.len());
    for fill in [0.0, -1.0, 1.01, f64::INFINITY] {
        assert_eq!(load(&[1.0], &[1], fill), Err(CsbError::Fill { fill }));
    }
    assert!(matches!(load(&[1.0], &[1], f64::NAN), Err(CsbError::Fill { .. })));
    assert_eq!(
        load(&[1.0], &[], 1.0),
        Err(CsbError::Lengths { keys: 1, rids: 0 })
    );
    assert_eq!(
        load(&[1.0, 2.0, 1.0], &[1, 2, 3], 1.0),
        Err(CsbError::Unsorted { position: 2 })
    );
    assert_eq!(
        load(&[1.0, 1.0], &[3, 3], 1.0),
        Err(CsbError::Unsorted { position: 1 })
    );
    assert_eq!(
        load(&[0.0, -0.0], &[4, 3], 1.0),
        Err(CsbError::Unsorted { position: 1 })
    );
    assert_eq!(
        load(&[0.0, f32::NAN], &[1, 2], 1.0),
        Err(CsbError::NotANumber { position: 1 })
    );
    assert_eq!(load(&[0.0, -0.0, 5.0], &[1, 2, 0], 1.0), Ok(3));
    assert_eq!(load(&[], &[], 0.5), Ok(0));
}

#[test]
fn nan_is_nowhere() {
    let mut tree =
        CsbTree::<f64>::bulk_load(&[f64::NEG_INFINITY, 1.0, f64::INFINITY], &[0, 1, 2], 1.0).unwrap();
    for nan in [f64::NAN, -f64::NAN] {
        assert_eq!(tree.insert(nan, 0), Err(CsbError::NotANumber { position: 0 }));
        assert!(!tree.remove(nan, 0));
        assert_eq!((tree.get(nan), tree.lower_bound(nan)), (None, None));
        assert_eq!(tree.leaf_entries_from(tree.root(), nan).next(), None);
        assert_eq!((tree.range(..nan).count(), tree.range(nan..).count()), (3, 0));
    }
    assert_eq!(tree.get(f64::INFINITY), Some(2));
}

#[test]
fn ranges_may_be_empty_or_backwards() {
    let tree = CsbTree::<u32, 1>::bulk_load(&[0, 5, u32::MAX], &[1, 2, 3], 1.0).unwrap();
    let count = |range: (Bound<u32>, Bound<u32>)| tree.range(range).count();
    assert_eq!(count((Bound::Included(6), Bound::Included(5))), 0);
    assert_eq!(count((Bound::Excluded(u32::MAX), Bound::Unbounded)), 0);
    assert_eq!(count((Bound::Unbounded, Bound::Excluded(0))), 0);
    assert_eq!(count((Bound::Excluded(0), Bound::Excluded(u32::MAX))), 1);
    assert_eq!(count((Bound::Unbounded, Bound::Unbounded)), 3);
}

/// What a panic says.
fn panic_of(call: impl FnOnce() -> usize) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn forged_ids_panic() {
    let keys: Vec<u32> = (0..1000).collect();
    let mut tree = CsbTree::<u32, 1>::bulk_load(&keys, &keys, 1.0).unwrap();
    let root = tree.root();
    let mut leaf = root;
    for _ in 0..tree.height() {
        leaf = tree.child(leaf, 500);
    }
    let nowhere = NodeId(u32::MAX);
    assert!(panic_of(|| tree.node_bytes(nowhere).len()).contains("no node"));
    assert!(panic_of(|| tree.child(nowhere, 1).0 as usize).contains("no node"));
    assert!(panic_of(|| tree.child(leaf, 1).0 as usize).contains("not an inner node"));
    assert!(panic_of(|| tree.leaf_entries_from(root, 1).count()).contains("not a leaf"));
    assert!(!tree.node_address(nowhere).is_null());

    // A stale id: its group moved away.
    assert_eq!(tree.insert(500, 0), Ok(true));
    assert!(panic_of(|| tree.leaf_entries_from(leaf, 500).count()).contains("not a leaf"));
}

#[test]
fn bytes_of_another_tree_are_refused() {
    let tree = CsbTree::<u32, 2>::bulk_load(&[1, 2, 3], &[1, 2, 3], 1.0).unwrap();
    let bytes = tree.to_bytes().unwrap();
    let what = |error: CsbError| match error {
        CsbError::Corrupt { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(
        what(CsbTree::<i32, 2>::from_bytes(&bytes).unwrap_err()),
        "another type of keys"
    );
    assert_eq!(
        what(CsbTree::<u32, 1>::from_bytes(&bytes).unwrap_err()),
        "another node size"
    );
    assert_eq!(
        what(CsbTree::<u32, 2>::from_bytes(&bytes[..31]).unwrap_err()),
        "shorter than its head"
    );
    assert_eq!(
        what(CsbTree::<u32, 2>::from_bytes(&bytes[..40]).unwrap_err()),
        "not as long as its nodes"
    );
    // A place that is not aligned is no fault.
    let mut shifted = vec![0];
    shifted.extend_from_slice(&bytes);
    assert_eq!(CsbTree::<u32, 2>::from_bytes(&shifted[1..]).unwrap().len(), 3);
}
