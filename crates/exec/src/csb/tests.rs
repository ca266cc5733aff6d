//! The tree against `BTreeSet`, with all key types and node sizes; and its inner order, checked node by node.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

use proptest::prelude::*;

use super::node::NONE;
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

/// Walks all nodes: kinds, counts, order, separators, links, and that every node is in the tree.
fn check_invariants<K: Key, const LINES: usize>(tree: &CsbTree<K, LINES>) {
    let mut leaves = Vec::new();
    let live = walk(tree, ROOT, tree.height, (None, None), &mut leaves);
    assert_eq!(live, tree.nodes.len());
    let entries = |leaf: &&Node<K::Order, LINES>| -> Vec<(K::Order, u32)> {
        let keys = leaf.leaf_keys().iter().copied();
        keys.zip(leaf.rids().iter().copied()).take(leaf.count()).collect()
    };
    for pair in leaves.windows(2) {
        let [(_, leaf), (next, after)] = pair else {
            unreachable!("windows of two")
        };
        assert_eq!(leaf.link(), *next);
        let (last, first) = (entries(leaf)[leaf.count() - 1], entries(after)[0]);
        assert!(last < first);
        assert_eq!(leaf.continues(), last.0 == first.0, "leaf before {next}");
    }
    let (_, last) = leaves[leaves.len() - 1];
    assert_eq!((last.link(), last.continues()), (NONE, false));
    assert_eq!(
        leaves.iter().map(|(_, leaf)| leaf.count()).sum::<usize>(),
        tree.len()
    );
}

/// Nodes under and including one; its leaves go to `leaves`.
fn walk<'a, K: Key, const LINES: usize>(
    tree: &'a CsbTree<K, LINES>,
    at: u32,
    height: usize,
    (low, high): (Option<K::Order>, Option<K::Order>),
    leaves: &mut Vec<(u32, &'a Node<K::Order, LINES>)>,
) -> usize {
    let node = tree.node(at);
    let within = |key: K::Order| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key <= high);
    if height == 0 {
        assert!(node.is_leaf());
        assert!(node.count() > 0 || tree.is_empty());
        let (keys, rids) = (node.leaf_keys(), node.rids());
        assert!(keys[..node.count()].iter().all(|&key| within(key)));
        assert!(keys[..node.count()].iter().zip(rids).is_sorted_by(|a, b| a < b));
        assert!(keys[node.count()..].iter().all(|&key| key == K::Order::MAX));
        assert!(rids[node.count()..].iter().all(|&rid| rid == 0));
        leaves.push((at, node));
        return 1;
    }
    assert!(node.is_inner() && node.count() > 0 || height < tree.height);
    let keys = &node.inner_keys()[..node.count()];
    assert!(keys.iter().all(|&key| within(key)));
    assert!(
        node.inner_keys()[node.count()..]
            .iter()
            .all(|&key| key == K::Order::MAX)
    );
    let lows = std::iter::once(low).chain(keys.iter().copied().map(Some));
    let highs = keys.iter().copied().map(Some).chain([high]);
    let children = lows.zip(highs).zip(node.link()..);
    let under = children.map(|(bounds, child)| walk(tree, child, height - 1, bounds, leaves));
    1 + under.sum::<usize>()
}

/// Loads pairs and asks for keys and ranges.
fn check_loaded<K: TestKey, const LINES: usize>(
    pairs: &BTreeSet<(u16, u32)>,
    fill: f64,
    ranges: &[(u16, u16, u8)],
) {
    let model: Model<K> = pairs
        .iter()
        .map(|&(key, rid)| (K::make(key).to_order(), rid))
        .collect();
    let (keys, rids): (Vec<K>, Vec<u32>) = entries::<K>(&model, |_| true).into_iter().unzip();
    let tree = CsbTree::<K, LINES>::bulk_load(&keys, &rids, fill).unwrap();
    check_invariants(&tree);
    assert_eq!(tree.range(..).collect::<Vec<_>>(), entries(&model, |_| true));
    for number in (0..20).chain([u16::MAX - 1, u16::MAX]) {
        check_key(&tree, &model, K::make(number));
    }
    for &(from, to, kind) in ranges {
        check_key(&tree, &model, K::make(from));
        let range = (bound(kind, K::make(from)), bound(kind / 3, K::make(to)));
        let expected = entries(&model, |key| range.contains(&key));
        assert_eq!(tree.range(range).collect::<Vec<_>>(), expected);
    }
}

/// Few keys with many RIDs, or many keys.
fn key() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0..20_u16, 2 => 0..4096_u16, 2 => 65_000..=u16::MAX, 1 => any::<u16>()]
}

proptest! {
    #[test]
    fn loaded_trees_agree_with_a_set(
        pairs in prop::collection::btree_set((key(), 0..600_u32), 0..2500),
        fill in 0.01..=1.0_f64,
        ranges in prop::collection::vec((key(), key(), any::<u8>()), 0..100),
    ) {
        check_loaded::<u32, 1>(&pairs, fill, &ranges);
        check_loaded::<i32, 2>(&pairs, fill, &ranges);
        check_loaded::<f32, 4>(&pairs, fill, &ranges);
        check_loaded::<i64, 2>(&pairs, fill, &ranges);
        check_loaded::<u64, 1>(&pairs, fill, &ranges);
        check_loaded::<f64, 3>(&pairs, fill, &ranges);
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
        (tree.height(), tree.nodes.len())
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
fn one_key_may_fill_very_many_leaves() {
    let rids: Vec<u32> = (0..20_000_u32).map(|rid| rid * 3).collect();
    let keys: Vec<u32> = [6].into_iter().chain(rids.iter().map(|_| 7)).chain([8]).collect();
    let all: Vec<u32> = [1].into_iter().chain(rids.iter().copied()).chain([1]).collect();
    let tree = CsbTree::<u32, 1>::bulk_load(&keys, &all, 1.0).unwrap();
    check_invariants(&tree);
    assert!(tree.rids(7).eq(rids.iter().copied()));
    assert!(tree.range(7..=7).map(|(_, rid)| rid).eq(rids));
    assert_eq!(
        (tree.rids(6).count(), tree.rids(8).count(), tree.get(8)),
        (1, 1, Some(1))
    );
}

#[test]
fn an_empty_tree_is_a_leaf() {
    let tree = CsbTree::<i64>::bulk_load(&[], &[], 1.0).unwrap();
    check_invariants(&tree);
    assert_eq!((tree.len(), tree.height(), tree.nodes.len()), (0, 0, 1));
    assert_eq!(
        (tree.get(0), tree.lower_bound(i64::MIN), tree.range(..).next()),
        (None, None, None)
    );
    assert_eq!(tree.leaf_entries_from(tree.root(), i64::MAX).next(), None);
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
    let tree = CsbTree::<f64>::bulk_load(&[f64::NEG_INFINITY, 1.0, f64::INFINITY], &[0, 1, 2], 1.0).unwrap();
    for nan in [f64::NAN, -f64::NAN] {
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
    let tree = CsbTree::<u32, 1>::bulk_load(&keys, &keys, 1.0).unwrap();
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
}
