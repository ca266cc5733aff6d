//! The index nested-loop join and batch lookups in every mode against a naive join.

use crate::support::{modes, results, rows, same};
use corun_exec::csb::{CsbTree, Key};
use corun_exec::operators::{
    IndexJoin, KeyColumn, KeyRid, KeyedRids, LookupError, NO_ROW, OperatorError, PairSink, RidPair, RowKeys,
    Stream, lookup_batch,
};
use corun_exec::stage::traced;
use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads, WorkAhead};
use corun_model::operators::trace::{Access, Event};
use corun_model::units::Bytes;
use proptest::prelude::*;

/// A tree of these keys; the RID of a key is its position.
fn tree<K: Key, const LINES: usize>(keys: &[K], fill: f64) -> CsbTree<K, LINES> {
    let mut entries: Vec<(K, u32)> = keys.iter().copied().zip(0..).collect();
    entries.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    let (keys, rids): (Vec<K>, Vec<u32>) = entries.into_iter().unzip();
    CsbTree::bulk_load(&keys, &rids, fill).expect("a small tree")
}

/// Pairs by tuple.
fn naive<K: Key>(indexed: &[K], probes: &[KeyRid<K>]) -> Vec<(usize, RidPair)> {
    let mut pairs = Vec::new();
    for (tuple, probe) in probes.iter().enumerate() {
        let inner = (0..indexed.len() as u32).filter(|&inner| indexed[inner as usize] == probe.key);
        let outer = probe.rid;
        pairs.extend(inner.map(|inner| (tuple, RidPair { outer, inner })));
    }
    pairs
}

/// All three kinds of probes (rows for 32-bit integers only), in these modes.
fn check<K: Key + Default, const LINES: usize>(
    indexed: &[K],
    keys: &[K],
    order: &[u32],
    fill: f64,
    modes: &[Mode],
) {
    let tree: CsbTree<K, LINES> = tree(indexed, fill);
    let keyed = |rid: u32| KeyRid {
        key: keys[rid as usize],
        rid,
    };
    let clustered: Vec<KeyRid<K>> = (0..keys.len() as u32).map(keyed).collect();
    let unclustered: Vec<KeyRid<K>> = order.iter().copied().map(keyed).collect();
    let stream = Stream::unclustered(order, keys.len()).expect("RIDs are in range");
    let column = KeyColumn::new(keys, stream).expect("the stream fits");
    for &mode in modes {
        let expected = naive(indexed, &clustered);
        let join = IndexJoin::new(&tree, KeyedRids(&clustered));
        same(
            mode,
            &results!(join, mode, PairSink, RidPair, expected.len()),
            &expected,
        );
        for kept in [Bytes(0), Bytes(4096)] {
            let join = IndexJoin::passing(&tree, KeyedRids(&clustered), kept);
            same(
                mode,
                &results!(join, mode, PairSink, RidPair, expected.len()),
                &expected,
            );
        }
        let expected = naive(indexed, &unclustered);
        let join = IndexJoin::new(&tree, column);
        same(
            mode,
            &results!(join, mode, PairSink, RidPair, expected.len()),
            &expected,
        );
        if mode.workers() == 1 {
            let mut rids = vec![7; keys.len()];
            lookup_batch(&tree, keys, &mut rids, mode.hiding).expect("a place for each key");
            let first = |key: &K| indexed.iter().position(|other| other == key);
            let expected = keys.iter().map(|key| first(key).map_or(NO_ROW, |row| row as u32));
            assert!(rids.into_iter().eq(expected), "{mode}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn joins_find_what_a_naive_join_finds(
        indexed in prop::collection::vec(0_u32..300, 0..400),
        keys in prop::collection::vec(0_u32..320, 1..80),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        base in prop_oneof![Just(0_u32), Just(u32::MAX - 320)],
        fill in 0.3_f64..1.0,
        pick in any::<prop::sample::Index>(),
    ) {
        let all = modes(&[1, 2, 7, 32], &[1, 2, 9, 128, 200]);
        let modes = [all[pick.index(all.len())]];
        let order: Vec<u32> = order.iter().map(|index| index.index(keys.len()) as u32).collect();
        let indexed: Vec<u32> = indexed.iter().map(|key| base + key).collect();
        let keys: Vec<u32> = keys.iter().map(|key| base + key).collect();
        check::<u32, 1>(&indexed, &keys, &order, fill, &modes);
        check::<u32, 2>(&indexed, &keys, &order, fill, &modes);
        let float = |keys: &[u32]| keys.iter().map(|&key| key as f32 / 4.0 - 9.0).collect::<Vec<_>>();
        check::<f32, 2>(&float(&indexed), &float(&keys), &order, fill, &modes);
        let wide = |keys: &[u32]| keys.iter().map(|&key| u64::from(key) << 31).collect::<Vec<_>>();
        check::<u64, 2>(&wide(&indexed), &wide(&keys), &order, fill, &modes);
    }
}

/// Several levels, of which some are waited for and some are in the top; one key fills more than a leaf.
#[test]
fn all_modes_on_a_tall_tree() {
    let mut indexed: Vec<u32> = (0..20_000_u32)
        .map(|row| row.wrapping_mul(0x9e37_79b1) >> 12)
        .collect();
    indexed.extend([77; 40]);
    let keys: Vec<u32> = (0..40)
        .map(|row| {
            if row == 11 {
                77
            } else {
                indexed[row * 7] + row as u32 % 3
            }
        })
        .collect();
    let order: Vec<u32> = (0..40).rev().collect();
    let modes = modes(&[1, 7, 32], &[1, 128]);
    check::<u32, 1>(&indexed, &keys, &order, 0.75, &modes);
}

#[test]
fn keys_in_rows_are_fetched() {
    let keys: Vec<u32> = (0..200).map(|row| row * 3 % 101).collect();
    let order: Vec<u32> = (0..200).map(|tuple| tuple * 77 % 200).collect();
    let outer = rows(&keys, 1);
    let tree: CsbTree<u32> = tree(&keys, 0.75);
    let probes: Vec<KeyRid<u32>> = order
        .iter()
        .map(|&rid| KeyRid {
            key: keys[rid as usize],
            rid,
        })
        .collect();
    let expected = naive(&keys, &probes);
    let probes = RowKeys::new(&outer, Stream::unclustered(&order, 200).unwrap()).unwrap();
    for mode in modes(&[16], &[64]) {
        let join = IndexJoin::new(&tree, probes);
        same(
            mode,
            &results!(join, mode, PairSink, RidPair, expected.len()),
            &expected,
        );
    }
}

#[test]
fn an_empty_tree_matches_nothing() {
    let modes = modes(&[4], &[8]);
    check::<u32, 2>(&[], &[1, 2, u32::MAX], &[2, 0], 0.75, &modes);
    check::<f64, 1>(&[0.0, -0.0, f64::MAX], &[f64::NAN, 0.0], &[1, 1, 0], 0.75, &modes);
}

#[test]
fn wrong_input_is_an_error() {
    let tree: CsbTree<u32> = tree(&[1, 2, 3], 1.0);
    assert_eq!(
        lookup_batch(&tree, &[1, 2], &mut [0], Hiding::None),
        Err(LookupError::Lengths { keys: 2, places: 1 })
    );
    let nothing = Hiding::Prefetch {
        schedule: Schedule::Amac,
        distance: 0,
    };
    assert!(matches!(
        lookup_batch(&tree, &[1], &mut [0], nothing),
        Err(LookupError::Run(_))
    ));
    let error = OperatorError::StreamOfOtherRows { stream: 3, rows: 2 };
    let stream = Stream::clustered(3).unwrap();
    assert_eq!(KeyColumn::new(&[1_u32, 2], stream).unwrap_err(), error);
    assert_eq!(RowKeys::new(&rows(&[1, 2], 1), stream).unwrap_err(), error);
}

/// Every node below the top is asked for before it is read; so is every key.
#[test]
fn stages_name_what_the_next_one_touches() {
    let indexed: Vec<u32> = (0..60_000).collect();
    let tree: CsbTree<u32> = tree(&indexed, 0.75);
    let order: Vec<u32> = (0..3000).map(|tuple| tuple * 77 % 3000).collect();
    let keys: Vec<u32> = (0..3000).map(|row| row * 20).collect();
    let probes = KeyColumn::new(&keys, Stream::unclustered(&order, 3000).unwrap()).unwrap();
    let join = IndexJoin::new(&tree, probes);
    let mut memory = vec![RidPair::default(); 3000];
    let mut sinks = [PairSink::new(&mut memory)];
    let stream = order.as_ptr_range();
    let stream = stream.start as u64..stream.end as u64;
    let (mut asked, mut unasked) = (
        std::collections::BTreeSet::new(),
        std::collections::BTreeSet::new(),
    );
    let mut events = |event: Event| match event.access {
        Access::Prefetch => _ = asked.insert(event.address / 64),
        Access::Load if !stream.contains(&event.address) => {
            for line in event.address / 64..(event.address + u64::from(event.bytes)).div_ceil(64) {
                if !asked.contains(&line) {
                    unasked.insert(line);
                }
            }
        }
        _ => {}
    };
    let hiding = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 8,
    };
    let mode = Mode::staged(Threads::One, hiding);
    traced::trace(mode, &[&join], &mut sinks, 1, &mut events).unwrap();
    assert_eq!(sinks[0].finish(), Ok(3000));
    // What nobody asked for is the top of the tree.
    assert!(!unasked.is_empty() && unasked.len() * 64 <= 32 * 1024);
    assert!(asked.len() > 3000 * 4 / 64 + 3000 / 14);
}

/// A traced plain run goes level by level, one that is not goes down at once.
#[test]
fn a_traced_plain_run_finds_the_same() {
    let indexed: Vec<u32> = (0..3000).map(|row| row / 2 * 3).collect();
    let tree: CsbTree<u32> = tree(&indexed, 0.75);
    let probes: Vec<KeyRid<u32>> = (0..500)
        .map(|rid| KeyRid {
            key: rid * 9 % 5000,
            rid,
        })
        .collect();
    let join = IndexJoin::new(&tree, KeyedRids(&probes));
    let expected = naive(&indexed, &probes);
    let mut memory = vec![RidPair::default(); expected.len()];
    let mut sinks = [PairSink::new(&mut memory)];
    let mut node_bytes = 0;
    let mut events = |event: Event| {
        if event.access == Access::Load && event.bytes == 128 {
            node_bytes += u64::from(event.bytes);
        }
    };
    traced::trace(Mode::PLAIN, &[&join], &mut sinks, 1, &mut events).unwrap();
    assert_eq!(sinks[0].finish(), Ok(expected.len()));
    assert!(memory.iter().eq(expected.iter().map(|(_, pair)| pair)));
    assert_eq!(node_bytes, 500 * 128 * (tree.height() as u64 + 1));
}

#[test]
fn a_work_ahead_set_takes_a_node_of_several_lines() {
    let indexed: Vec<u32> = (0..5000).collect();
    let keys: Vec<u32> = (0..500).map(|row| row * 10).collect();
    let order: Vec<u32> = (0..500).collect();
    let mode = Mode::staged(Threads::One, Hiding::WorkAhead(WorkAhead::PAPER));
    check::<u32, 4>(&indexed, &keys, &order, 0.75, &[mode]);
}
