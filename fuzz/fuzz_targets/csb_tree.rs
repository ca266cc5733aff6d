//! Changes a CSB+-tree as bytes say and compares it with an ordered set.
//!
//! The first byte chooses key type and node size, the second how the tree begins; the rest are operations of four bytes:
//! what to do, a key (two bytes, spread by one of several families) and a RID.
#![no_main]

use std::collections::BTreeSet;

use corun_exec::csb::{CsbTree, Key};
use libfuzzer_sys::fuzz_target;

/// Runs the operations. `make` makes keys; equal numbers may not make different keys, nor ascending ones descending ones.
fn run<K: Key, const LINES: usize>(begin: u8, operations: &[u8], make: impl Fn(u16) -> K) {
    let mut tree = CsbTree::<K, LINES>::new().expect("memory for a small tree");
    let mut model = BTreeSet::new();
    if begin > 0 {
        let numbers: Vec<u16> = (0..u16::from(begin) * 2)
            .map(|index| index / u16::from(begin % 16 + 1))
            .collect();
        let keys: Vec<K> = numbers.iter().map(|&number| make(number)).collect();
        let rids: Vec<u32> = (0..keys.len() as u32).collect();
        tree = CsbTree::bulk_load(&keys, &rids, f64::from(begin) / 255.0).expect("sorted entries");
        model.extend(numbers.into_iter().zip(rids));
    }
    for operation in operations.chunks_exact(4) {
        let number = u16::from_le_bytes([operation[1], operation[2]]) % 8192;
        let (key, rid) = (make(number), u32::from(operation[3]));
        match operation[0] % 8 {
            0..4 => assert_eq!(tree.insert(key, rid), Ok(model.insert((number, rid)))),
            4 => assert_eq!(tree.remove(key, rid), model.remove(&(number, rid))),
            5 => {
                // What a query would delete: all entries of some keys.
                let end = number + u16::from(operation[3]);
                let gone: Vec<(K, u32)> = tree.range(key..make(end)).collect();
                let expected: Vec<(u16, u32)> = model.range((number, 0)..(end, 0)).copied().collect();
                assert_eq!(gone.len(), expected.len());
                for ((key, rid), entry) in gone.into_iter().zip(expected) {
                    assert!(tree.remove(key, rid) && model.remove(&entry));
                }
            }
            _ => {
                let first = model.range((number, 0)..).next();
                assert_eq!(
                    tree.lower_bound(key),
                    first.map(|&(number, rid)| (make(number), rid))
                );
                let mut node = tree.root();
                for _ in 0..tree.height() {
                    node = tree.child(node, key);
                }
                let rids = model.range((number, 0)..=(number, u32::MAX)).map(|&(_, rid)| rid);
                assert!(tree.leaf_entries_from(node, key).eq(rids));
            }
        }
    }
    assert!(
        tree.range(..)
            .eq(model.iter().map(|&(number, rid)| (make(number), rid)))
    );
    let bytes = tree.to_bytes().expect("memory for a small tree");
    let read = CsbTree::<K, LINES>::from_bytes(&bytes).expect("bytes of a sound tree");
    assert!(read.range(..).eq(tree.range(..)));
    for &(number, rid) in &model {
        assert!(tree.remove(make(number), rid));
    }
    assert!(tree.is_empty() && tree.height() == 0);
}

fuzz_target!(|data: &[u8]| {
    let [kind, begin, operations @ ..] = data else {
        return;
    };
    match kind % 8 {
        0 => run::<i32, 1>(*begin, operations, |number| i32::from(number) - 4000),
        1 => run::<u32, 2>(*begin, operations, |number| u32::MAX - 20_000 + u32::from(number)),
        2 => run::<f32, 1>(*begin, operations, |number| (f32::from(number) - 100.0) / 3.0),
        3 => run::<i64, 1>(*begin, operations, |number| (i64::from(number) - 4000) << 40),
        4 => run::<u64, 2>(*begin, operations, |number| u64::from(number) << 48),
        5 => run::<f64, 1>(*begin, operations, |number| (f64::from(number) - 100.0).powi(3)),
        6 => run::<u64, 1>(*begin, operations, u64::from),
        _ => run::<u32, 4>(*begin, operations, u32::from),
    }
});
