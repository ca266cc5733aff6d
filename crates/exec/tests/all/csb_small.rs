//! Every path through the unsafe code of the CSB+-tree once, on data small enough for Miri: `make miri` runs this file, and
//! so does every `cargo test`. Breadth and size are the property tests' job, inside the crate.

use std::collections::BTreeSet;

use corun_exec::csb::{CsbTree, Key, NodeId};

/// Entries in order, and one key at a time, both ways.
fn check<K: Key, const LINES: usize>(tree: &CsbTree<K, LINES>, keys: &[K], rids: &[u32]) {
    let expected = keys.iter().copied().zip(rids.iter().copied());
    assert!(tree.range(..).eq(expected));
    assert_eq!(tree.len(), keys.len());
    for (index, &key) in keys.iter().enumerate() {
        let first = keys.partition_point(|&other| other < key);
        let end = keys.partition_point(|&other| other <= key);
        assert_eq!(tree.get(key), Some(rids[first]));
        assert_eq!(tree.lower_bound(key), Some((keys[index], rids[first])));
        let mut node = tree.root();
        for _ in 0..tree.height() {
            assert_eq!(tree.node_bytes(node).as_ptr(), tree.node_address(node));
            node = tree.child(node, key);
        }
        assert!(
            tree.leaf_entries_from(node, key)
                .eq(rids[first..end].iter().copied())
        );
    }
}

/// Loads with room and without.
fn load<K: Key, const LINES: usize>(keys: &[K]) {
    let rids: Vec<u32> = (0..keys.len() as u32).collect();
    for fill in [0.01, 0.75, 1.0] {
        check(
            &CsbTree::<K, LINES>::bulk_load(keys, &rids, fill).unwrap(),
            keys,
            &rids,
        );
    }
    let empty = CsbTree::<K, LINES>::bulk_load(&[], &[], 1.0).unwrap();
    check(&empty, &[], &[]);
    assert!(empty.is_empty() && empty.height() == 0);
    assert_eq!((empty.get(keys[0]), empty.lower_bound(keys[0])), (None, None));
}

#[test]
fn narrow_nodes() {
    load::<i32, 1>(&(0..43).map(|i| i / 3 - 10).collect::<Vec<_>>());
    load::<f64, 1>(&(0..61).map(|i| f64::from(i / 7) - 2.5).collect::<Vec<_>>());
}

#[test]
fn wide_nodes() {
    load::<u32, 2>(&(0..61).map(|i| u32::MAX / 64 * (i / 2)).collect::<Vec<_>>());
    load::<f32, 3>(&(0..41_u8).map(|i| f32::from(i) / 4.0 - 9.0).collect::<Vec<_>>());
}

#[test]
fn ranges_begin_and_end_inside() {
    let keys: Vec<i64> = (0..64).collect();
    let rids: Vec<u32> = (0..64).collect();
    let tree = CsbTree::<i64, 1>::bulk_load(&keys, &rids, 1.0).unwrap();
    assert!(tree.range(10..20).map(|(_, rid)| rid).eq(10..20));
    assert_eq!(
        tree.range(20..=20).collect::<BTreeSet<_>>(),
        BTreeSet::from([(20, 20)])
    );
    assert_eq!(tree.range(64..).next(), None);
}

#[test]
fn readers_share_a_tree() {
    let keys: Vec<u64> = (0..200).collect();
    let rids: Vec<u32> = (0..200).collect();
    let tree = CsbTree::<u64>::bulk_load(&keys, &rids, 0.75).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let tree = &tree;
            scope.spawn(move || {
                for key in (thread..200).step_by(20) {
                    assert_eq!(tree.get(key), Some(key as u32));
                }
            });
        }
    });
}

#[test]
#[should_panic(expected = "not a leaf")]
fn a_forged_id_panics() {
    let keys: Vec<u64> = (0..200).collect();
    let rids: Vec<u32> = (0..200).collect();
    let tree = CsbTree::<u64>::bulk_load(&keys, &rids, 0.75).unwrap();
    tree.leaf_entries_from(NodeId::default(), 3).count();
}
