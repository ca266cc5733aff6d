//! Reads a CSB+-tree from bytes: an error, or a tree that holds together, survives changes and writes the same bytes.
//!
//! Few random bytes are a tree, so most inputs are changes to a sound one: its shape, then places and values to overwrite.
#![no_main]

use corun_exec::csb::{CsbError, CsbTree, Key};
use libfuzzer_sys::fuzz_target;

fn read<K: Key + From<u16>, const LINES: usize>(bytes: &[u8]) {
    let mut tree = match CsbTree::<K, LINES>::from_bytes(bytes) {
        Ok(tree) => tree,
        Err(CsbError::Corrupt { at_byte, .. }) => {
            assert!(at_byte <= bytes.len());
            return;
        }
        Err(other) => panic!("{other}"),
    };
    assert_eq!(tree.to_bytes().expect("memory for a small tree"), bytes);
    let entries: Vec<(K, u32)> = tree.range(..).collect();
    assert_eq!(entries.len(), tree.len());
    assert!(entries.is_sorted());
    for &(key, rid) in &entries {
        let mut node = tree.root();
        for _ in 0..tree.height() {
            node = tree.child(node, key);
        }
        assert!(tree.leaf_entries_from(node, key).any(|other| other == rid));
    }
    for number in 0..200 {
        tree.insert(K::from(number), u32::MAX - 1)
            .expect("memory for a small tree");
    }
    for (key, rid) in entries {
        tree.remove(key, rid);
    }
    assert!(tree.range(..).is_sorted());
}

fn change<K: Key + From<u16>, const LINES: usize>(shape: u8, changes: &[u8]) {
    let keys: Vec<K> = (0..u16::from(shape) * 2)
        .map(|index| K::from(index / 3))
        .collect();
    let rids: Vec<u32> = (0..keys.len() as u32).collect();
    let tree = CsbTree::<K, LINES>::bulk_load(&keys, &rids, 0.6).expect("sorted entries");
    let mut bytes = tree.to_bytes().expect("memory for a small tree");
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[place] = change[2];
    }
    read::<K, LINES>(&bytes);
}

fuzz_target!(|data: &[u8]| {
    let [kind, shape, rest @ ..] = data else {
        return;
    };
    match kind % 6 {
        0 => change::<u32, 1>(*shape, rest),
        1 => change::<i64, 1>(*shape, rest),
        2 => change::<f32, 1>(*shape, rest),
        3 => change::<f64, 2>(*shape, rest),
        4 => read::<u32, 1>(rest),
        _ => read::<f64, 1>(rest),
    }
});
